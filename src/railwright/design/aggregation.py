"""The aggregation above the 1G access switches of a site: pairs, two cores above several pairs, and the way out.

It stands where racks have room above their boxes, and its own management ports hang on the access switches below it, whose
number decides how many pairs there are.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.catalog.model import Switch
from railwright.design.context import Context, numbered
from railwright.design.placement import Layout, box_heights
from railwright.design.rack_groups import RackGroups, group_racks
from railwright.design.sites import site_prefix
from railwright.design.sizing import ceil_div
from railwright.design.topology.pairs import switch_power
from railwright.design.wiring import Ends, Ids
from railwright.errors import InputError

Index = NDArray[np.int64]

ACCESS_GBPS = 1.0
PAIR = 2
LEFT_FREE = 4
"""Ports of an aggregation switch that stay free of access switches: for the way out and for the cores above."""


@dataclass(frozen=True)
class Hall:
    """One site: its racks (rows of ``racks`` by id), the platforms, the rate between access and aggregation."""

    context: Context
    site: int
    racks: pl.DataFrame
    access: Switch
    aggregation: Switch
    uplink_gbps: float

    @property
    def name(self) -> str:
        """Name of the site."""
        return self.context.spec.sites[self.site].name

    @property
    def prefix(self) -> str:
        """What the names of its boxes start with."""
        return site_prefix(self.context, self.site)

    @property
    def lower_per_pair(self) -> int:
        """Access switches that one aggregation pair holds."""
        radix = self.aggregation.ports_at(self.uplink_gbps)
        return max(1, (radix - LEFT_FREE) // ceil_div(self.context.spec.management.oob_uplinks, PAIR))

    def groups(self, place: Index, *, insisted: int | None = None) -> RackGroups:
        """Return the access switches for endpoints in the racks ``place`` (indices, ascending)."""
        return group_racks(place, len(self.racks), self.access.ports_at(ACCESS_GBPS), insisted)


def add_aggregation(hall: Hall, layout: Layout, place: Index, others: int) -> Ids:
    """Add the aggregation for endpoints in the racks ``place`` and ``others`` further access switches; return its pairs."""
    insisted = hall.context.spec.management.counts.leaves
    groups = hall.groups(place, insisted=insisted)
    pairs = 1
    while True:
        cores = PAIR if pairs > 1 else 0
        racks = _racks_with_room(hall, layout, groups, pairs * PAIR + cores)
        own = np.searchsorted(hall.racks["rack_id"].to_numpy(), racks)
        lower = hall.groups(np.sort(np.concatenate([place, own])), insisted=insisted).switches + others
        if lower <= pairs * hall.lower_per_pair:
            break
        pairs = ceil_div(lower, hall.lower_per_pair)
    switches = _add_switches(hall, "oob-aggregation", "spine", racks[: pairs * PAIR])
    _connect_cores(hall, switches, _add_switches(hall, "oob-core", "core", racks[pairs * PAIR :]))
    _connect_outside(hall, switches)
    return switches


def connect_access_switches(hall: Hall, switches: Ids, aggregation: Ids) -> None:
    """Connect every access switch to both switches of its pair."""
    uplinks = hall.context.spec.management.oob_uplinks
    lower, nth = (axis.ravel() for axis in np.indices((len(switches), uplinks)))
    pair, position = np.divmod(lower, hall.lower_per_pair)
    side = (nth + (position if uplinks == 1 else 0)) % PAIR
    hall.context.wiring.connect(
        uplink_ends(hall, lower, nth, switches),
        Ends(
            device=aggregation[pair * PAIR + side],
            slot=position * ceil_div(uplinks, PAIR) + nth // PAIR,
            direction="down",
            platform=hall.aggregation,
        ),
        network="management",
        tier="uplink",
        speed_gbps=hall.uplink_gbps,
    )


def uplink_ends(hall: Hall, lower: Index, nth: Index, switches: Ids) -> Ends:
    """Return the lower side of uplinks, in the uplink cages where the platform has such."""
    has_uplinks = any(group.purpose == "uplink" for group in hall.access.cages)
    return Ends(
        device=switches[lower],
        slot=nth,
        direction="up",
        platform=hall.access,
        purpose="uplink" if has_uplinks else "fabric",
    )


def _add_switches(hall: Hall, word: str, role: str, racks: NDArray[np.uint32]) -> Ids:
    return hall.context.wiring.add_devices(
        numbered(f"{hall.prefix}{word}{{}}", len(racks)),
        role=role,
        network="management",
        site=hall.name,
        model=hall.aggregation.key,
        rack=racks,
        power_w=switch_power(hall.aggregation),
    )


def _connect_outside(hall: Hall, aggregation: Ids) -> None:
    """Add the router of the outside and connect it to the first pair, on the last port of each."""
    outside = hall.context.wiring.add_devices(
        [f"{hall.prefix}oob-external"],
        role="external",
        network="management",
        site=hall.name,
        model="external-router",
    )
    last = hall.aggregation.ports_at(hall.uplink_gbps) - 1
    hall.context.wiring.connect(
        Ends(device=aggregation[:PAIR], slot=np.full(PAIR, last), direction="up", platform=hall.aggregation),
        Ends(device=np.repeat(outside, PAIR), slot=np.arange(PAIR), direction="down"),
        network="management",
        tier="border",
        speed_gbps=hall.uplink_gbps,
    )


def _connect_cores(hall: Hall, aggregation: Ids, cores: Ids) -> None:
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


def _racks_with_room(hall: Hall, layout: Layout, groups: RackGroups, wanted: int) -> NDArray[np.uint32]:
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
