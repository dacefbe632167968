"""Management: a 1G port out of band at every BMC, switch, box and PDU; in-band over the frontend or on switches of its own.

Comes after the placement, because access switches serve whole racks and PDUs come with racks. Uplinks end on an aggregation
of their own where the network is physically apart, else on the frontend's switches toward the outside.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.catalog.model import Switch
from railwright.design.border import ordinals
from railwright.design.context import Context, numbered
from railwright.design.entrance import site_key
from railwright.design.frontend import SiteFrontend
from railwright.design.placement import Layout, box_heights
from railwright.design.rack_groups import RackGroups, group_racks
from railwright.design.server_ports import converged_host, offered, per_cage
from railwright.design.sites import site_prefix
from railwright.design.sizing import ceil_div
from railwright.design.topology.pairs import switch_power
from railwright.design.wiring import Ends, Ids
from railwright.errors import InputError

Index = NDArray[np.int64]

ACCESS_GBPS = 1.0
DEFAULT_ACCESS, DEFAULT_AGGREGATION = "sn2201", "sn4600c"
PAIR = 2
LEFT_FREE = 4
"""Ports of an aggregation switch that stay free of access switches: for the way out and for the cores above."""
NO_CAGE = 0
IN_BAND_ROLES = ("server", "head", "service", "storage")
PORT_NAMES = {"server": "bmc{}", "pdu": "net{}"}
"""What the management port is called, by role; ``mgmt{}`` on all other boxes. It stands in no cage (cage 0)."""


@dataclass(frozen=True)
class _Hall:
    """One site: its racks (ids, ascending), the platforms, and what its boxes are called."""

    context: Context
    site: int
    racks: pl.DataFrame
    access: Switch
    aggregation: Switch
    uplink_gbps: float

    @property
    def name(self) -> str:
        return self.context.spec.sites[self.site].name

    @property
    def prefix(self) -> str:
        return site_prefix(self.context, self.site)


def design_management(context: Context, layout: Layout, frontend: Sequence[SiteFrontend]) -> None:
    """Add PDUs, access switches, aggregation and all their links; raises InputError for what cannot be built."""
    section, decisions = context.spec.management, context.decisions["management"]
    if not section.enabled:
        decisions.choose("enabled", False, "asked for")
        return
    access = context.catalog.switch(section.oob_switch or DEFAULT_ACCESS, where="management.oob_switch")
    aggregation = context.catalog.switch(
        section.aggregation_switch or DEFAULT_AGGREGATION, where="management.aggregation_switch"
    )
    if not access.ports_at(ACCESS_GBPS):
        raise InputError(
            f"{access.key} has no port of 1G; it offers {', '.join(f'{rate:g}G' for rate in offered(access))}",
            key="management.oob_switch",
        )
    decisions.choose(
        "oob_switch",
        access.key,
        f"{'the default' if section.oob_switch is None else 'asked for'}: {access.ports_at(ACCESS_GBPS)} ports of 1G",
    )
    decisions.facts["topology"] = "access"
    decisions.choose(
        "in_band",
        section.in_band,
        "provisioning and logins use the frontend's links and addresses"
        if section.in_band == "frontend"
        else "a 1G port of every server and CPU node on switches of its own, asked for",
    )
    built = {found.site: found for found in frontend}
    for site in range(len(context.spec.sites)):
        racks = layout.racks.filter(pl.col("site") == context.spec.sites[site].name).sort("rack_id")
        if len(racks):
            uplink = _uplink_gbps(access, aggregation)
            _build(_Hall(context, site, racks, access, aggregation, uplink), layout, built.get(site))


def _build(hall: _Hall, layout: Layout, frontend: SiteFrontend | None) -> None:
    _add_pdus(hall)
    shared = _shared(hall, frontend)
    managed = _managed(hall, layout)
    groups, pairs = _grouped(hall, managed, 0 if shared else 1)
    aggregation = np.empty(0, dtype=np.uint32)
    if not shared:
        aggregation, cores = _add_aggregation(hall, layout, managed, groups, pairs)
        managed = _managed(hall, layout)
        groups, _ = _grouped(hall, managed, 0)
        _connect_cores(hall, aggregation, cores)
    switches = _add_access(hall, groups, "oob", "oob")
    _connect_access(hall, managed, groups, switches)
    lower = [switches]
    if hall.context.spec.management.in_band == "own":
        lower.append(_in_band(hall, layout))
    below = np.concatenate(lower)
    if shared and frontend is not None:
        _uplinks_to_frontend(hall, below, frontend)
    else:
        _uplinks_to_aggregation(hall, below, aggregation)
    _record(hall, managed, groups, shared=shared)


def _uplink_gbps(access: Switch, aggregation: Switch) -> float:
    """Return the fastest rate that uplink cages of ``access`` and ``aggregation`` both offer."""
    up = [group for group in access.cages if group.purpose == "uplink"] or list(access.cages)
    rates = {float(mode.split("x")[1]) for group in up for mode in group.breakouts}
    common = [rate for rate in rates if aggregation.ports_at(rate)]
    if not common:
        raise InputError(
            f"{aggregation.key} has no port at a rate of the uplinks of {access.key} "
            f"({', '.join(f'{rate:g}G' for rate in sorted(rates))})",
            key="management.aggregation_switch",
        )
    return max(common)


def _shared(hall: _Hall, frontend: SiteFrontend | None) -> bool:
    """Return whether uplinks end on the frontend."""
    spec = hall.context.spec
    joined = spec.management.isolation != "physical" or converged_host(hall.context, "management") == "frontend"
    return joined and frontend is not None and len(frontend.border.switches) > 0


def _add_pdus(hall: _Hall) -> None:
    section = hall.context.spec.management
    in_network_rack = section.pdus_per_rack if section.pdus_per_network_rack is None else section.pdus_per_network_rack
    each = np.where((hall.racks["kind"] == "compute").to_numpy(), section.pdus_per_rack, in_network_rack)
    row = np.repeat(np.arange(len(hall.racks)), each)
    names = pl.select(
        pl.format("{}-pdu{}", hall.racks["name"].gather(row), pl.Series("number", ordinals(row) + 1))
    ).to_series()
    if len(row):
        hall.context.wiring.add_devices(
            names,
            role="pdu",
            network="management",
            site=hall.name,
            model="generic-pdu",
            rack=hall.racks["rack_id"].to_numpy()[row],
        )


def _managed(hall: _Hall, layout: Layout) -> pl.DataFrame:
    """Return one row per management port of the site: ``device_id, role, nth, place`` (index of its rack), by rack."""
    devices = hall.context.wiring.finish()["devices"].filter(pl.col("site") == hall.name)
    stands = layout.devices.select("device_id", known="rack")
    racks = hall.racks.select("rack_id", place=pl.int_range(pl.len(), dtype=pl.Int64))
    ports = pl.when(pl.col("role") == "server").then(hall.context.server.bmc_ports).otherwise(1)
    return (
        devices.filter(~pl.col("role").is_in(["external", "oob", "tor"]))
        .join(stands, on="device_id", how="left", maintain_order="left")
        .with_columns(rack=pl.coalesce("known", "rack"), nth=pl.int_ranges(ports))
        .join(racks, left_on="rack", right_on="rack_id", maintain_order="left")
        .explode("nth")
        .select("device_id", "role", "nth", "place")
        .sort("place", "device_id", "nth", maintain_order=True)
    )


def _grouped(hall: _Hall, managed: pl.DataFrame, aggregated: int) -> tuple[RackGroups, int]:
    """Return the access switches and the pairs of aggregation switches above them (0 where there are none)."""
    ports = hall.access.ports_at(ACCESS_GBPS)
    insisted = hall.context.spec.management.counts.leaves
    groups = group_racks(managed["place"].to_numpy(), len(hall.racks), ports, insisted)
    if not aggregated:
        return groups, 0
    per_switch = ceil_div(hall.context.spec.management.oob_uplinks, PAIR)
    room = (hall.aggregation.ports_at(hall.uplink_gbps) - LEFT_FREE) // per_switch
    lower = groups.switches + (_in_band_switches(hall) if hall.context.spec.management.in_band == "own" else 0)
    return groups, max(1, ceil_div(lower, max(1, room)))


def _add_aggregation(
    hall: _Hall, layout: Layout, managed: pl.DataFrame, groups: RackGroups, pairs: int
) -> tuple[Ids, Ids]:
    """Add aggregation pairs, cores above several of them and the way out; they stand where racks have most room."""
    wiring, platform = hall.context.wiring, hall.aggregation
    cores = PAIR if pairs > 1 else 0
    racks = _racks_with_room(hall, layout, groups, pairs * PAIR + cores)
    switches, upper = (
        wiring.add_devices(
            numbered(f"{hall.prefix}{word}{{}}", count),
            role=role,
            network="management",
            site=hall.name,
            model=platform.key,
            rack=rack,
            power_w=switch_power(platform),
        )
        for word, role, count, rack in (
            ("oob-aggregation", "spine", pairs * PAIR, racks[: pairs * PAIR]),
            ("oob-core", "core", cores, racks[pairs * PAIR :]),
        )
    )
    outside = wiring.add_devices(
        [f"{hall.prefix}oob-external"],
        role="external",
        network="management",
        site=hall.name,
        model="external-router",
    )
    last = platform.ports_at(hall.uplink_gbps) - 1
    wiring.connect(
        Ends(device=switches[:PAIR], slot=np.full(PAIR, last), direction="up", platform=platform),
        Ends(device=np.repeat(outside, PAIR), slot=np.arange(PAIR), direction="down"),
        network="management",
        tier="border",
        speed_gbps=hall.uplink_gbps,
    )
    return switches, upper


def _connect_cores(hall: _Hall, aggregation: Ids, cores: Ids) -> None:
    if not len(cores):
        return
    radix = hall.aggregation.ports_at(hall.uplink_gbps)
    if len(aggregation) > radix:
        raise InputError(
            f"{len(aggregation)} aggregation switches exceed the {radix} ports of {hall.aggregation.key}; take a larger one",
            key="management.aggregation_switch",
        )
    lower, upper = (axis.ravel() for axis in np.indices((len(aggregation), len(cores))))
    hall.context.wiring.connect(
        Ends(device=aggregation[lower], slot=radix - 2 - upper, direction="up", platform=hall.aggregation),
        Ends(device=cores[upper], slot=lower, direction="down", platform=hall.aggregation),
        network="management",
        tier="spine_core",
        speed_gbps=hall.uplink_gbps,
    )


def _racks_with_room(hall: _Hall, layout: Layout, groups: RackGroups, wanted: int) -> NDArray[np.uint32]:
    """Return the racks for ``wanted`` switches: the first with room above their boxes, those without GPU servers first.

    Racks that come later have higher ids, so that growth changes nothing. Without room anywhere the roomiest are taken.
    """
    devices = hall.context.wiring.finish()["devices"]
    heights = pl.DataFrame({"device_id": devices["device_id"], "height": box_heights(hall.context.catalog, devices)})
    top = (
        layout.devices.join(heights, on="device_id")
        .group_by(pl.col("rack").alias("rack_id"))
        .agg(top=(pl.col("ru").cast(pl.Int64) + pl.col("height") - 1).max())
    )
    access = np.bincount(groups.standing, minlength=len(hall.racks))
    ranked = (
        hall.racks.select("rack_id", "height_ru", compute=pl.col("kind") == "compute")
        .with_columns(access=pl.Series(access))
        .join(top, on="rack_id", how="left", maintain_order="left")
        .with_columns(free=pl.col("height_ru").cast(pl.Int64) - pl.col("top").fill_null(0) - pl.col("access"))
        .with_columns(crowded=pl.col("free") < hall.aggregation.ru)
        .sort("crowded", "compute", pl.when("crowded").then(-pl.col("free")).otherwise(0), "rack_id")
    )
    return ranked["rack_id"].to_numpy()[np.arange(wanted) % len(ranked)]


def _add_access(hall: _Hall, groups: RackGroups, word: str, role: str) -> Ids:
    return hall.context.wiring.add_devices(
        numbered(f"{hall.prefix}{word}{{}}", groups.switches),
        role=role,
        network="management",
        site=hall.name,
        model=hall.access.key,
        rack=hall.racks["rack_id"].to_numpy()[groups.standing],
        power_w=switch_power(hall.access),
    )


def _connect_access(hall: _Hall, managed: pl.DataFrame, groups: RackGroups, switches: Ids) -> None:
    """Connect the management port of every box to its access switch, one batch per name of port."""
    called = managed["role"].cast(pl.String).replace_strict(PORT_NAMES, default="mgmt{}", return_dtype=pl.String)
    for name in called.unique(maintain_order=True):
        chosen = np.flatnonzero((called == name).to_numpy())
        hall.context.wiring.connect(
            Ends(
                device=managed["device_id"].to_numpy()[chosen],
                slot=managed["nth"].to_numpy()[chosen].astype(np.int64),
                direction="host",
                first_cage=NO_CAGE,
                ports_per_cage=len(managed) + 1,
                name=name,
            ),
            Ends(
                device=switches[groups.switch[chosen]],
                slot=groups.slot[chosen],
                direction="down",
                platform=hall.access,
            ),
            network="management",
            tier="oob",
            speed_gbps=ACCESS_GBPS,
        )


def _in_band_switches(hall: _Hall) -> int:
    devices = hall.context.wiring.finish()["devices"].filter(pl.col("site") == hall.name)
    return ceil_div(len(devices.filter(pl.col("role").is_in(IN_BAND_ROLES))), hall.access.ports_at(ACCESS_GBPS))


def _in_band(hall: _Hall, layout: Layout) -> Ids:
    """Add in-band access switches with one 1G port for every server and CPU node."""
    hosts = _managed(hall, layout).filter(pl.col("role").is_in(IN_BAND_ROLES) & (pl.col("nth") == 0))
    groups = group_racks(hosts["place"].to_numpy(), len(hall.racks), hall.access.ports_at(ACCESS_GBPS))
    switches = _add_access(hall, groups, "in-band", "tor")
    hall.context.wiring.connect(
        Ends(
            device=hosts["device_id"].to_numpy(),
            slot=np.zeros(len(hosts), dtype=np.int64),
            direction="host",
            first_cage=NO_CAGE,
            name="lan{}",
        ),
        Ends(device=switches[groups.switch], slot=groups.slot, direction="down", platform=hall.access),
        network="management",
        tier="host",
        speed_gbps=ACCESS_GBPS,
    )
    return switches


def _uplink_ends(hall: _Hall, lower: Index, nth: Index, switches: Ids) -> Ends:
    """Return the lower side of uplinks, in the uplink cages where the platform has such."""
    has_uplinks = any(group.purpose == "uplink" for group in hall.access.cages)
    return Ends(
        device=switches[lower],
        slot=nth,
        direction="up",
        platform=hall.access,
        purpose="uplink" if has_uplinks else "fabric",
    )


def _uplinks_to_aggregation(hall: _Hall, switches: Ids, aggregation: Ids) -> None:
    """Connect every access switch to both switches of its pair."""
    uplinks = hall.context.spec.management.oob_uplinks
    per_switch = ceil_div(uplinks, PAIR)
    lower, nth = (axis.ravel() for axis in np.indices((len(switches), uplinks)))
    room = (hall.aggregation.ports_at(hall.uplink_gbps) - LEFT_FREE) // per_switch
    pair, position = np.divmod(lower, room)
    side = (nth + (position if uplinks == 1 else 0)) % PAIR
    hall.context.wiring.connect(
        _uplink_ends(hall, lower, nth, switches),
        Ends(
            device=aggregation[pair * PAIR + side],
            slot=position * per_switch + nth // PAIR,
            direction="down",
            platform=hall.aggregation,
        ),
        network="management",
        tier="uplink",
        speed_gbps=hall.uplink_gbps,
    )


def _uplinks_to_frontend(hall: _Hall, switches: Ids, frontend: SiteFrontend) -> None:
    """Connect every access switch to the frontend's switches toward the outside, dealt over these."""
    border = frontend.border
    uplinks = hall.context.spec.management.oob_uplinks
    gbps = _uplink_gbps(hall.access, border.platform)
    lower, nth = (axis.ravel() for axis in np.indices((len(switches), uplinks)))
    upper = (lower * uplinks + nth) % len(border.switches)
    slot = ordinals(upper)
    split = per_cage(border.platform, gbps)
    first = border.book.reserve_last(ceil_div(int(slot.max(initial=-1)) + 1, split))
    if first < border.book.fullest():
        raise InputError(
            f"{len(lower)} uplinks of out-of-band switches find no room on {len(border.switches)} x {border.platform.key} of "
            "the frontend; write management.isolation: physical for an aggregation of its own",
            key="management.isolation",
        )
    hall.context.wiring.connect(
        _uplink_ends(hall, lower, nth, switches),
        Ends(device=border.switches[upper], slot=first * split + slot, direction="down", platform=border.platform),
        network="management",
        tier="uplink",
        speed_gbps=gbps,
    )


def _record(hall: _Hall, managed: pl.DataFrame, groups: RackGroups, *, shared: bool) -> None:
    decisions, section = hall.context.decisions["management"], hall.context.spec.management
    per_role = managed.group_by(pl.col("role").cast(pl.String)).len().sort("role")
    listed = ", ".join(f"{count} {role}" for role, count in per_role.iter_rows())
    decisions.choose(
        site_key(hall.context, "oob_switches", hall.site),
        groups.switches,
        f"asked for, {len(managed)} ports ({listed})"
        if section.counts.leaves is not None
        else f"whole racks of {len(managed)} ports ({listed}) on {hall.access.ports_at(ACCESS_GBPS)} ports each",
    )
    decisions.choose(
        site_key(hall.context, "oob_uplinks", hall.site),
        section.oob_uplinks * groups.switches,
        f"{section.oob_uplinks} on each switch, to "
        + ("the frontend's switches toward the outside" if shared else "an aggregation of its own: physically apart"),
    )
