"""Which way a cable goes and how long it has to be.

Between racks a cable rises to the ladder, runs along its row, crosses to the other row and comes down; inside a rack it goes
to the side, up or down, and back. Every length inside a hall has the site's slack on top, and is then rounded up to a length
on sale by the one who chooses the part. Cross ladders are taken to stand above every rack position (a grid, as in open
halls); where rows are joined at their ends only, lengths are too short by up to twice the way to the end of the row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.design.plan import Plan

Metres = NDArray[np.float64]

RACK_UNIT_M = 0.04445
"""Height of a rack unit (IEC 60297-3-100)."""
SIDE_M = 0.3
"""From a port to the cable manager at the side of the rack: half of a rack's width."""
ENTRANCE_M = 30.0
"""From the corner of the hall to where somebody else's cable is handed over (assumption for planning)."""


@dataclass(frozen=True)
class Routes:
    """The ways of links; arrays with one element per row of ``plan.links``.

    ``length_m`` (float64) with slack; ``rack_a`` and ``rack_b`` (int64) are ``racks.rack_id`` or -1 outside of all racks.
    """

    length_m: Metres
    rack_a: NDArray[np.int64]
    rack_b: NDArray[np.int64]

    @property
    def in_rack(self) -> NDArray[np.bool_]:
        """Whether both ends stand in one rack."""
        same: NDArray[np.bool_] = (self.rack_a == self.rack_b) & (self.rack_a >= 0)
        return same


def find_routes(plan: Plan) -> Routes:
    """Return the way of every link of ``plan``."""
    ends = [_end(plan, side) for side in ("a", "b")]
    (rack_a, height_a, x_a, y_a), (rack_b, height_b, x_b, y_b) = ends
    ladder, slack, site, distance = _sites(plan)
    place_a, place_b = np.where(rack_a >= 0, site[rack_a], -1), np.where(rack_b >= 0, site[rack_b], -1)
    known = np.where(place_a >= 0, place_a, place_b)
    rise = np.where(rack_a >= 0, ladder[place_a] - height_a, 0.0) + np.where(
        rack_b >= 0, ladder[place_b] - height_b, 0.0
    )
    outside = (rack_a < 0) | (rack_b < 0)
    across = np.where(
        outside,
        np.where(rack_a >= 0, x_a + y_a, x_b + y_b) + ENTRANCE_M,
        np.abs(x_a - x_b) + np.abs(y_a - y_b),
    )
    far = (place_a != place_b) & ~outside
    between = np.where(far, np.abs(distance[place_a] - distance[place_b]), 0.0)
    across = np.where(far, x_a + y_a + x_b + y_b, across)
    same = (rack_a == rack_b) & (rack_a >= 0)
    run = np.where(same, np.abs(height_a - height_b), rise + across) + 2 * SIDE_M
    return Routes(run * (1 + slack[np.maximum(known, 0)]) + between, rack_a, rack_b)


def route_names(plan: Plan, routes: Routes) -> pl.Series:
    """Return the way of every link in words: ``in row1-rack3`` or ``row1-rack3 > row4-rack7``."""
    names = pl.concat([plan.racks.sort("rack_id")["name"], pl.Series(["outside"])])
    a, b = (names.gather(np.where(rack >= 0, rack, len(names) - 1)) for rack in (routes.rack_a, routes.rack_b))
    frame = pl.DataFrame({"a": a, "b": b, "same": routes.in_rack})
    way = pl.when("same").then(pl.format("in {}", "a")).otherwise(pl.format("{} > {}", "a", "b"))
    return frame.select(way.alias("route")).to_series()


def ladder_load(plan: Plan, routes: Routes, chosen: NDArray[np.bool_] | None = None) -> pl.DataFrame:
    """Return how many of the ``chosen`` links lie on each piece of ladder: ``site, ladder, row, position, links``.

    ``ladder`` is ``row`` (from this position to the next one) or ``cross`` (from this row to the next one). A link runs along
    the row of its lower end first, then crosses. Links that leave the hall are not counted.
    """
    racks = plan.racks.sort("rack_id")
    take = (routes.rack_a >= 0) & (routes.rack_b >= 0) & ~routes.in_rack
    if chosen is not None:
        take &= chosen
    site = racks["site"].to_numpy()
    take[take] = site[routes.rack_a[take]] == site[routes.rack_b[take]]
    a, b = routes.rack_a[take], routes.rack_b[take]
    row, position = racks["row"].to_numpy().astype(np.int64), racks["position"].to_numpy().astype(np.int64)
    found = [
        _covered(site, site[a], "row", row[a], position[a], position[b]),
        _covered(site, site[a], "cross", position[b], row[a], row[b]),
    ]
    return pl.concat(found).sort("site", "ladder", "row", "position")


def _covered(
    sites: NDArray[np.object_],
    site: NDArray[np.object_],
    ladder: str,
    line: NDArray[np.int64],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
) -> pl.DataFrame:
    """Count the stretches over every step of every line: a running sum of those that start less those that end."""
    names = sorted(set(sites.tolist()))
    width, height = int(max(start.max(initial=0), end.max(initial=0))) + 2, int(line.max(initial=0)) + 1
    number = np.searchsorted(np.array(names), site.astype(str)) if len(names) else line
    steps = np.zeros((max(1, len(names)), height, width), dtype=np.int64)
    np.add.at(steps, (number, line, np.minimum(start, end)), 1)
    np.add.at(steps, (number, line, np.maximum(start, end)), -1)
    loads = np.cumsum(steps, axis=2)
    at, along, step = np.nonzero(loads)
    where = {"row": along, "position": step} if ladder == "row" else {"row": step, "position": along}
    return pl.DataFrame(
        {"site": [names[n] for n in at], "ladder": [ladder] * len(at), **where, "links": loads[at, along, step]},
        schema={"site": pl.String, "ladder": pl.String, "row": pl.Int64, "position": pl.Int64, "links": pl.Int64},
    )


def _end(plan: Plan, side: str) -> tuple[NDArray[np.int64], Metres, Metres, Metres]:
    """Return rack, height above the floor and place of one end of every link."""
    of_port = plan.ports.select("port_id", "device_id")
    stands = plan.devices.select("device_id", "rack", "ru").join(
        plan.racks.select("rack_id", "x_m", "y_m", "height_ru"), left_on="rack", right_on="rack_id", how="left"
    )
    ends = (
        plan.links.select(port_id=f"{side}_port")
        .join(of_port, on="port_id", how="left", maintain_order="left")
        .join(stands, on="device_id", how="left", maintain_order="left")
    )
    unit = pl.coalesce(pl.col("ru").cast(pl.Float64), pl.col("height_ru").cast(pl.Float64) / 2, 0.0)
    values = ends.select(
        pl.col("rack").cast(pl.Int64).fill_null(-1),
        height=unit * RACK_UNIT_M,
        x=pl.col("x_m").fill_null(0.0),
        y=pl.col("y_m").fill_null(0.0),
    )
    rack, height, x, y = (column.to_numpy() for column in values.iter_columns())
    return rack, height, x, y


def _sites(plan: Plan) -> tuple[Metres, Metres, NDArray[np.int64], Metres]:
    """Return by site the height of the ladder and the slack, by rack its site, and by site its distance to the first one."""
    sites = plan.spec.sites
    ladder = [site.racks.height_ru * RACK_UNIT_M + site.racks.cable_ladder_height for site in sites]
    names: Sequence[str] = [site.name for site in sites]
    of_rack = plan.racks.sort("rack_id")["site"].replace_strict(
        {name: index for index, name in enumerate(names)}, return_dtype=pl.Int64
    )
    rack_site = of_rack.to_numpy() if len(of_rack) else np.zeros(1, dtype=np.int64)
    return (
        np.array(ladder),
        np.array([site.racks.slack for site in sites]),
        rack_site,
        np.array([site.distance for site in sites]),
    )


def stock_length(required_m: Metres, lengths_m: Sequence[float]) -> Metres:
    """Return for each required length the shortest on sale; NaN where none is long enough."""
    on_sale = np.array([*lengths_m, np.nan])
    return on_sale[np.searchsorted(on_sale[:-1], required_m - 1e-9, side="left")]
