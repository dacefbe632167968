"""The search for better places shortens the fibre and breaks no limit."""

from functools import cache
from itertools import permutations
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railwright.catalog.load import load_catalog
from railwright.design.cabling import cable_plan
from railwright.design.design import design_plan
from railwright.design.placement import TOP_RU, box_heights
from railwright.design.placement_search import _assign, _assign_under, search_placement
from railwright.design.plan import Plan
from railwright.design.routes import find_routes
from railwright.spec.cluster import ClusterSpec


@cache
def first(switch: str = "generic-64x400", servers: int = 128) -> Plan:
    spec: dict[str, Any] = {
        "name": "test",
        "cluster": {"servers": servers, "server": "dgx-h100" if switch == "sn5600" else "hgx-h100"},
        "backend": {"topology": "rail-optimized", "switch": switch},
        "sites": [{"name": "hall", "racks": {"racks_per_row": 12, "power": "44 kW"}}],
    }
    return design_plan(ClusterSpec.model_validate(spec), load_catalog())


@pytest.mark.parametrize("switch", ["generic-64x400", "sn5600"])
def test_the_search_never_lengthens_and_stays_above_its_bound(switch: str) -> None:
    plan, (searched,) = search_placement(first(switch))
    assert searched.bound_m <= searched.after_m <= searched.before_m
    assert find_routes(plan).length_m.sum() <= find_routes(first(switch)).length_m.sum() * 1.02
    assert 0 <= searched.gap < 1


def test_racks_keep_their_limits_and_every_box_its_own_units() -> None:
    plan, _ = search_placement(first())
    boxes = plan.devices.with_columns(height=pl.Series(box_heights(plan.catalog, plan.devices))).filter(
        pl.col("ru").is_not_null()
    )
    units = boxes.select("rack", unit=pl.int_ranges(pl.col("ru"), pl.col("ru") + pl.col("height"))).explode("unit")
    assert units.is_unique().all()
    assert units["unit"].max() <= 48
    low = boxes.filter(pl.col("network").is_null() | (pl.col("network") != "management"))
    assert (low["ru"] + low["height"] - 1).max() <= 48 - TOP_RU
    drawn = plan.devices.group_by("rack").agg(pl.col("power_w").sum())
    assert drawn["power_w"].max() <= 44_000
    assert plan.racks.select("site", "row", "position").is_unique().all()
    assert plan.devices["name"].is_unique().all()


def test_pdus_are_named_after_the_racks_where_they_stand() -> None:
    plan, _ = search_placement(first())
    pdus = plan.devices.filter(pl.col("role") == "pdu").join(
        plan.racks.select("rack_id", where="name"), left_on="rack", right_on="rack_id"
    )
    assert pdus.select(pl.col("name").str.starts_with(pl.col("where") + "-pdu").all()).item()


def test_the_searched_plan_can_be_cabled_and_repeats() -> None:
    once, twice = (search_placement(first())[0] for _ in range(2))
    assert once.devices.equals(twice.devices)
    assert cable_plan(once).links["cable_id"].null_count() == 0


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, 50), min_size=5, max_size=5), min_size=5, max_size=5))
def test_an_assignment_is_the_best_of_all(costs: list[list[int]]) -> None:
    cost = np.array(costs, dtype=np.float64)
    best = min(sum(cost[row, column] for row, column in enumerate(order)) for order in permutations(range(5)))
    assert cost[np.arange(5), _assign(cost)].sum() == pytest.approx(best)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 50), min_size=2, max_size=2), min_size=4, max_size=6),
    st.lists(st.integers(1, 4), min_size=6, max_size=6),
    st.integers(6, 12),
)
def test_boxes_never_exceed_the_room_of_their_rack(costs: list[list[int]], heights: list[int], room: int) -> None:
    cost = np.array(costs, dtype=np.float64)
    needs = np.array(heights[: len(costs)], dtype=np.float64)[:, None]
    given_racks = _assign_under(cost, needs, np.full((2, 1), float(room)))
    if given_racks is None:
        assert needs.sum() > room
    else:
        assert all(needs[given_racks == rack].sum() <= room for rack in (0, 1))
