"""Management: a 1G port out of band at every BMC, switch, box and PDU; in-band over the frontend or on switches of its own.

Comes after the placement, because access switches serve whole racks and PDUs come with racks. Uplinks end on an aggregation
of their own where the network is physically apart, else on the frontend's switches toward the outside.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.catalog.model import Switch
from railwright.design.aggregation import ACCESS_GBPS, Hall, add_aggregation, connect_access_switches, uplink_ends
from railwright.design.border import ordinals
from railwright.design.context import Context, numbered
from railwright.design.entrance import site_key
from railwright.design.frontend import SiteFrontend
from railwright.design.placement import Layout
from railwright.design.rack_groups import RackGroups
from railwright.design.server_ports import converged_host, offered, per_cage
from railwright.design.sizing import ceil_div
from railwright.design.topology.pairs import switch_power
from railwright.design.wiring import Ends, Ids
from railwright.errors import InputError

Index = NDArray[np.int64]

DEFAULT_ACCESS, DEFAULT_AGGREGATION = "sn2201", "sn4600c"
NO_CAGE = 0
IN_BAND_ROLES = ("server", "head", "service", "storage")
PORT_NAMES = {"server": "bmc{}", "pdu": "net{}"}
"""What the management port is called, by role; ``mgmt{}`` on all other boxes. It stands in no cage (cage 0)."""


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
            _build(Hall(context, site, racks, access, aggregation, uplink), layout, built.get(site))


def _build(hall: Hall, layout: Layout, frontend: SiteFrontend | None) -> None:
    _add_pdus(hall)
    shared = _shared(hall, frontend)
    own_in_band = hall.context.spec.management.in_band == "own"
    others = hall.groups(_in_band_hosts(hall, layout)["place"].to_numpy()).switches if own_in_band else 0
    aggregation = None if shared else add_aggregation(hall, layout, _managed(hall, layout)["place"].to_numpy(), others)
    managed = _managed(hall, layout)
    groups = hall.groups(managed["place"].to_numpy(), insisted=hall.context.spec.management.counts.leaves)
    switches = _add_access(hall, groups, "oob", "oob")
    _connect_access(hall, managed, groups, switches)
    if own_in_band:
        switches = np.concatenate([switches, _in_band(hall, layout)])
    if aggregation is not None:
        connect_access_switches(hall, switches, aggregation)
    elif frontend is not None:
        _uplinks_to_frontend(hall, switches, frontend)
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


def _shared(hall: Hall, frontend: SiteFrontend | None) -> bool:
    """Return whether uplinks end on the frontend."""
    spec = hall.context.spec
    joined = spec.management.isolation != "physical" or converged_host(hall.context, "management") == "frontend"
    return joined and frontend is not None and len(frontend.border.switches) > 0


def _add_pdus(hall: Hall) -> None:
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


def _managed(hall: Hall, layout: Layout) -> pl.DataFrame:
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


def _add_access(hall: Hall, groups: RackGroups, word: str, role: str) -> Ids:
    return hall.context.wiring.add_devices(
        numbered(f"{hall.prefix}{word}{{}}", groups.switches),
        role=role,
        network="management",
        site=hall.name,
        model=hall.access.key,
        rack=hall.racks["rack_id"].to_numpy()[groups.standing],
        power_w=switch_power(hall.access),
    )


def _connect_access(hall: Hall, managed: pl.DataFrame, groups: RackGroups, switches: Ids) -> None:
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


def _in_band_hosts(hall: Hall, layout: Layout) -> pl.DataFrame:
    return _managed(hall, layout).filter(pl.col("role").is_in(IN_BAND_ROLES) & (pl.col("nth") == 0))


def _in_band(hall: Hall, layout: Layout) -> Ids:
    """Add in-band access switches with one 1G port for every server and CPU node."""
    hosts = _in_band_hosts(hall, layout)
    groups = hall.groups(hosts["place"].to_numpy())
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


def _uplinks_to_frontend(hall: Hall, switches: Ids, frontend: SiteFrontend) -> None:
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
        uplink_ends(hall, lower, nth, switches),
        Ends(device=border.switches[upper], slot=first * split + slot, direction="down", platform=border.platform),
        network="management",
        tier="uplink",
        speed_gbps=gbps,
    )


def _record(hall: Hall, managed: pl.DataFrame, groups: RackGroups, *, shared: bool) -> None:
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
