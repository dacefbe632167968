"""A better place for boxes and racks: less fibre under the limits of height, power and weight, solved by HiGHS.

The first placement packs boxes in the order of the network. From there three steps repeat while they help: network boxes are
given to network racks (a generalised assignment: rack units, watts and kilograms of each rack are limits), compute racks are
given to the positions of compute racks, network and service racks to theirs (assignments, whose linear relaxation is whole).
Each step is exact for what it moves while the rest stands still, and is kept when it shortens the whole; together they are a
local search.

The gap holds the result against a bound that no placement in these positions can beat: every compute rack at its best
assignment with each of its peers at the nearest position there is, every other pair one step apart. Above ``MOST_RACKS``
racks the first placement stays, and the bound is taken without the assignment.
"""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import highspy
import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.design.placement import TOP_RU, box_heights
from railwright.design.plan import Plan
from railwright.design.power import box_weights

Floats = NDArray[np.float64]
Index = NDArray[np.int64]

MOST_RACKS = 300
"""Racks of a site up to which the search runs: assignments grow with the square of it."""
MOST_ROUNDS = 4
MIP_GAP = 0.005
SECONDS = 20.0
"""Limits of one mixed-integer step."""
MOVABLE_ROLES = ("leaf", "spine", "core", "border")


@dataclass(frozen=True)
class Searched:
    """What the search did at one site, in metres over all links: ``before``, ``after`` and the ``bound`` (ladder part only)."""

    site: str
    racks: int
    before_m: float
    after_m: float
    bound_m: float
    searched: bool

    @property
    def gap(self) -> float:
        """Share of the length that the bound does not account for."""
        return 0.0 if self.after_m <= 0 else max(0.0, 1 - self.bound_m / self.after_m)

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        return {
            "site": self.site,
            "racks": self.racks,
            "before_m": round(self.before_m, 1),
            "after_m": round(self.after_m, 1),
            "bound_m": round(self.bound_m, 1),
            "gap": round(self.gap, 4),
            "searched": self.searched,
        }


def search_placement(plan: Plan, progress: Callable[[str], None] | None = None) -> tuple[Plan, list[Searched]]:
    """Return ``plan`` with boxes and racks of each site at better places, and what that brought; to be cabled afterwards."""
    found = []
    for site in plan.spec.sites:
        if progress is not None:
            progress(f"place {site.name}")
        racks = plan.racks.filter(pl.col("site") == site.name)
        if len(racks):
            plan, searched = _search(plan, site.name)
            found.append(searched)
    return replace(plan, reasons=(*plan.reasons, *map(_reason, found))), found


def _reason(searched: Searched) -> dict[str, str]:
    why = f"{searched.before_m:.0f} m before; no placement in these positions needs less than {searched.bound_m:.0f} m"
    if not searched.searched:
        why += f"; not searched, {searched.racks} racks are more than {MOST_RACKS}"
    what = f"ladder_m.{searched.site}"
    return {"network": "placement", "what": what, "value": f"{searched.after_m:.0f}", "why": why}


def _search(plan: Plan, site: str) -> tuple[Plan, Searched]:
    ids = plan.racks.filter(pl.col("site") == site)["rack_id"].to_numpy()
    before = _length(plan, ids)
    if len(ids) > MOST_RACKS:
        return plan, Searched(site, len(ids), before, before, _bound(plan, ids, assigned=False), searched=False)
    best, least = plan, before
    steps: tuple[Callable[[Plan], Plan], ...] = (
        lambda current: _place_roles(current, ids, site, ("leaf",)),
        lambda current: _place_roles(current, ids, site, MOVABLE_ROLES[1:]),
        lambda current: _place_racks(current, ids, compute=True),
        lambda current: _place_racks(current, ids, compute=False),
    )
    for _ in range(MOST_ROUNDS):
        start = least
        for step in steps:
            tried = step(best)
            length = _length(tried, ids)
            if length < least * (1 - 1e-6):
                best, least = tried, length
        if least == start:
            break
    return best, Searched(site, len(ids), before, least, _bound(best, ids, assigned=True), searched=True)


def _links_between(plan: Plan, ids: NDArray[np.uint32]) -> Floats:
    """Return how many links run between racks of ``ids``, both ways (symmetric, by position in ``ids``)."""
    number = {int(rack): place for place, rack in enumerate(ids)}
    of_port = plan.ports.select("port_id", "device_id").join(plan.devices.select("device_id", "rack"), on="device_id")
    place = of_port.select("port_id", place=pl.col("rack").replace_strict(number, default=None, return_dtype=pl.Int64))
    ends = plan.links.select("a_port", "b_port")
    for side in ("a", "b"):
        ends = ends.join(place.rename({"port_id": f"{side}_port", "place": side}), on=f"{side}_port", how="left")
    ends = ends.drop_nulls()
    weight = np.zeros((len(ids), len(ids)))
    np.add.at(weight, (ends["a"].to_numpy(), ends["b"].to_numpy()), 1.0)
    both: Floats = weight + weight.T
    np.fill_diagonal(both, 0.0)
    return both


def _steps(plan: Plan, ids: NDArray[np.uint32]) -> Floats:
    """Return the way along the ladders in m between the positions of the racks ``ids``."""
    racks = plan.racks.filter(pl.col("rack_id").is_in(ids.tolist())).sort("rack_id")
    x, y = racks["x_m"].to_numpy(), racks["y_m"].to_numpy()
    steps: Floats = np.abs(x[:, None] - x) + np.abs(y[:, None] - y)
    return steps


def _length(plan: Plan, ids: NDArray[np.uint32]) -> float:
    return float((_links_between(plan, ids) * _steps(plan, ids)).sum() / 2)


def _kinds(plan: Plan, ids: NDArray[np.uint32]) -> NDArray[np.bool_]:
    racks = plan.racks.filter(pl.col("rack_id").is_in(ids.tolist())).sort("rack_id")
    return (racks["kind"] == "compute").to_numpy()


def _place_racks(plan: Plan, ids: NDArray[np.uint32], *, compute: bool) -> Plan:
    """Give the compute racks (or all others) to their positions anew, the rest standing still."""
    chosen = np.flatnonzero(_kinds(plan, ids) == compute)
    if len(chosen) < 2:
        return plan
    weight, steps = _links_between(plan, ids), _steps(plan, ids)
    cost = weight[chosen] @ steps[:, chosen]
    taken = chosen[_assign(cost)]
    moved = pl.DataFrame({"rack_id": ids[chosen], "place": ids[taken]})
    spots = plan.racks.select("name", "row", "position", "x_m", "y_m", place="rack_id")
    new = moved.join(spots, on="place").drop("place")
    racks = plan.racks.update(new, on="rack_id")
    names = dict(zip(plan.racks["name"].to_list(), racks["name"].to_list(), strict=True))
    old_name = pl.col("name").str.replace(r"-pdu\d+$", "")
    pdus = pl.format("{}-{}", old_name.replace(names), pl.col("name").str.extract(r"(pdu\d+)$"))
    devices = plan.devices.with_columns(name=pl.when(pl.col("role") == "pdu").then(pdus).otherwise("name"))
    return plan.with_tables(racks=racks, devices=devices)


def _place_roles(plan: Plan, ids: NDArray[np.uint32], site: str, roles: Sequence[str]) -> Plan:
    """Give the switches of ``roles`` to the network racks anew, under rack units, watts and kilograms of each."""
    number = {int(rack): place for place, rack in enumerate(ids)}
    racks = plan.racks.filter((pl.col("site") == site) & (pl.col("kind") == "network")).sort("rack_id")
    standing = plan.devices.with_columns(
        height=pl.Series(box_heights(plan.catalog, plan.devices)),
        weight=pl.col("model").replace_strict(box_weights(plan), default=0.0, return_dtype=pl.Float64),
        watts=pl.col("power_w").fill_null(0.0),
        place=pl.col("rack").replace_strict(number, default=None, return_dtype=pl.Int64),
        row=pl.int_range(pl.len()),
    )
    here = standing.filter(pl.col("rack").is_in(racks["rack_id"].to_list()))
    movable = pl.col("role").cast(pl.String).is_in(list(roles)) & (pl.col("network") != "management")
    boxes = here.filter(movable).sort("device_id")
    if len(boxes) < 2 or len(racks) < 2:
        return plan
    cost = _box_costs(plan, standing, boxes, _steps(plan, ids)[:, [number[int(r)] for r in racks["rack_id"]]])
    fixed = here.join(boxes.select("device_id"), on="device_id", how="anti")
    limits = next(entry.racks for entry in plan.spec.sites if entry.name == site)
    room = []
    for rack in racks["rack_id"]:
        rest = fixed.filter((pl.col("rack") == rack) & pl.col("ru").is_not_null())
        room.append(
            (
                limits.height_ru - TOP_RU - float(rest["height"].sum()),
                limits.power - float(rest["watts"].sum()),
                limits.weight - float(rest["weight"].sum()),
            )
        )
    needs = boxes.select("height", "watts", "weight").to_numpy().astype(np.float64)
    given = _assign_under(cost, needs, np.array(room))
    if given is None:
        return plan
    return _stacked(plan, boxes["device_id"].to_numpy(), racks["rack_id"].to_numpy()[given], fixed)


def _box_costs(plan: Plan, standing: pl.DataFrame, boxes: pl.DataFrame, steps: Floats) -> Floats:
    """Return the metres of ladder that each box's links need in each of the racks, its peers standing still."""
    of_port = plan.ports.select("port_id", "device_id")
    pairs = plan.links.join(of_port.rename({"port_id": "a_port", "device_id": "a"}), on="a_port").join(
        of_port.rename({"port_id": "b_port", "device_id": "b"}), on="b_port"
    )
    both = pl.concat([pairs.select("a", "b"), pairs.select(a="b", b="a")])
    order = boxes.select(a="device_id", box=pl.int_range(pl.len(), dtype=pl.Int64))
    peers = (
        both.join(order, on="a")
        .join(standing.select(b="device_id", place="place"), on="b")
        .filter(pl.col("place").is_not_null())
        .group_by("box", "place")
        .len()
    )
    weight = np.zeros((len(boxes), len(steps)))
    weight[peers["box"].to_numpy(), peers["place"].to_numpy()] = peers["len"].to_numpy()
    cost: Floats = weight @ steps
    return cost


def _stacked(plan: Plan, boxes: NDArray[np.uint32], racks: NDArray[np.uint32], fixed: pl.DataFrame) -> Plan:
    """Return ``plan`` with ``boxes`` in ``racks``; everything below the top of a rack is stacked again from the bottom."""
    placed = plan.devices.update(pl.DataFrame({"device_id": boxes, "rack": racks}), on="device_id")
    height = pl.Series(box_heights(plan.catalog, plan.devices)).cast(pl.UInt16)
    touched = sorted({*racks.tolist(), *fixed["rack"].unique().to_list()})
    on_top = (pl.col("network") == "management") & (pl.col("role") != "server")
    low = pl.col("rack").is_in(touched) & pl.col("ru").is_not_null() & ~on_top.fill_null(value=False)
    stacked = placed.with_columns(height=height).with_columns(
        ru=pl.when(low)
        .then(pl.when(low).then("height").otherwise(0).cum_sum().over("rack") - pl.col("height") + 1)
        .otherwise("ru")
    )
    return plan.with_tables(devices=stacked.drop("height"))


def _assign(cost: Floats) -> Index:
    """Return for each row the column of the cheapest assignment; the linear relaxation of an assignment is whole."""
    count = len(cost)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = count * count, 2 * count
    model.col_cost_ = cost.ravel()
    model.col_lower_, model.col_upper_ = np.zeros(count * count), np.ones(count * count)
    model.row_lower_ = model.row_upper_ = np.ones(2 * count)
    row, column = (axis.ravel() for axis in np.indices(cost.shape))
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = np.arange(0, 2 * count * count + 1, 2)
    model.a_matrix_.index_ = np.stack([row, count + column], axis=1).ravel()
    model.a_matrix_.value_ = np.ones(2 * count * count)
    values = _solve(model)
    if values is None:
        return np.arange(count)
    chosen: Index = values.reshape(cost.shape).argmax(axis=1)
    return chosen if len(np.unique(chosen)) == count else np.arange(count)


def _assign_under(cost: Floats, needs: Floats, room: Floats) -> Index | None:
    """Return the rack of each box at least cost so that no rack takes more of any need than it has room for; None without one."""
    boxes, racks = cost.shape
    limits = needs.shape[1]
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = boxes * racks, boxes + racks * limits
    model.col_cost_ = cost.ravel()
    model.col_lower_, model.col_upper_ = np.zeros(boxes * racks), np.ones(boxes * racks)
    model.row_lower_ = np.concatenate([np.ones(boxes), np.full(racks * limits, -highspy.kHighsInf)])
    model.row_upper_ = np.concatenate([np.ones(boxes), np.maximum(room, 0.0).ravel()])
    box, rack = (axis.ravel() for axis in np.indices(cost.shape))
    rows = boxes + rack[:, None] * limits + np.arange(limits)
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = np.arange(0, (1 + limits) * boxes * racks + 1, 1 + limits)
    model.a_matrix_.index_ = np.concatenate([box[:, None], rows], axis=1).ravel()
    model.a_matrix_.value_ = np.concatenate([np.ones((boxes * racks, 1)), needs[box]], axis=1).ravel()
    model.integrality_ = [highspy.HighsVarType.kInteger] * (boxes * racks)
    values = _solve(model)
    return None if values is None else values.reshape(cost.shape).argmax(axis=1)


def _new_solver() -> Any:
    """Return a solver. Its banner, which no option turns off, goes nowhere: standard output may be somebody's JSON."""
    sys.stdout.flush()
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        make: Callable[[], Any] = highspy.Highs
        return make()
    finally:
        os.dup2(kept, 1)
        os.close(nowhere)
        os.close(kept)


def _solve(model: Any) -> Floats | None:
    """Return the solution of ``model``, or None when there is none in the time allowed. One thread, so that runs repeat."""
    solver = _new_solver()
    for option in ("output_flag", "log_to_console"):
        solver.setOptionValue(option, False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("mip_rel_gap", MIP_GAP)
    solver.setOptionValue("time_limit", SECONDS)
    solver.passModel(model)
    solver.run()
    solution = solver.getSolution()
    return np.array(solution.col_value) if solution.value_valid else None


def _bound(plan: Plan, ids: NDArray[np.uint32], *, assigned: bool) -> float:
    """Return a length of ladder that no placement of these racks in these positions can beat."""
    weight, steps, compute = _links_between(plan, ids), _steps(plan, ids), _kinds(plan, ids)
    inside, outside = np.flatnonzero(compute), np.flatnonzero(~compute)
    apart = float(steps[~np.eye(len(ids), dtype=bool)].min()) if len(ids) > 1 else 0.0
    total = float(weight[np.ix_(outside, outside)].sum() + weight[np.ix_(inside, inside)].sum()) / 2 * apart
    if not len(inside) or not len(outside):
        return total
    nearest = steps[np.ix_(inside, outside)].min(axis=1)
    peers = weight[np.ix_(inside, outside)].sum(axis=1)
    if not assigned:
        return total + float(np.dot(np.sort(peers)[::-1], np.sort(nearest)))
    cost = peers[:, None] * nearest
    return total + float(cost[np.arange(len(inside)), _assign(cost)].sum())
