"""Lengths of cables from where the racks stand."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railwright.catalog.load import load_catalog
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.design.routes import RACK_UNIT_M, SIDE_M, find_routes, ladder_load, route_names, stock_length
from railwright.spec.cluster import ClusterSpec


def plan_of(racks: dict[str, Any], servers: int = 64) -> Plan:
    spec = {
        "name": "test",
        "cluster": {"servers": servers, "server": "hgx-h100"},
        "backend": {"topology": "rail-optimized", "switch": "sn5600"},
        "sites": [{"name": "hall", "racks": racks}],
        **{network: {"enabled": False} for network in ("frontend", "storage", "management")},
    }
    return design_plan(ClusterSpec.model_validate(spec), load_catalog())


def test_a_cable_rises_to_the_ladder_runs_at_right_angles_and_comes_down() -> None:
    plan = plan_of({"slack": "0%", "cable_ladder_height": "0.7 m", "pitch": "0.6 m", "row_pitch": "2.7 m"})
    routes = find_routes(plan)
    link = plan.named_links().row(0, named=True)
    devices = plan.devices.join(plan.racks, left_on="rack", right_on="rack_id")
    a, b = (devices.filter(pl.col("device_id") == link[f"{side}_device_id"]).row(0, named=True) for side in ("a", "b"))
    top = 48 * RACK_UNIT_M + 0.7
    expected = (top - a["ru"] * RACK_UNIT_M) + (top - b["ru"] * RACK_UNIT_M) + 2 * SIDE_M
    expected += abs(a["x_m"] - b["x_m"]) + abs(a["y_m"] - b["y_m"])
    assert routes.length_m[0] == pytest.approx(expected)


def test_slack_is_added_in_proportion() -> None:
    bare, spare = (find_routes(plan_of({"slack": slack})).length_m for slack in ("0%", "20%"))
    assert np.allclose(spare, bare * 1.2)


def test_links_inside_a_rack_are_short_and_say_so() -> None:
    plan = plan_of({"switches": "top-of-rack"}, 16)
    routes = find_routes(plan)
    names = route_names(plan, routes)
    assert routes.in_rack.any()
    assert names.filter(pl.Series(routes.in_rack)).str.starts_with("in ").all()
    assert routes.length_m[routes.in_rack].max() < 3.0


def test_ladders_carry_each_link_along_its_whole_way() -> None:
    plan = plan_of({})
    routes = find_routes(plan)
    racks = plan.racks.sort("rack_id")
    position, row = racks["position"].to_numpy().astype(int), racks["row"].to_numpy().astype(int)
    steps = np.abs(position[routes.rack_a] - position[routes.rack_b]) + np.abs(row[routes.rack_a] - row[routes.rack_b])
    assert ladder_load(plan, routes)["links"].sum() == steps.sum()


@given(st.lists(st.floats(0.01, 120), min_size=1), st.lists(st.integers(1, 100), min_size=1, unique=True).map(sorted))
def test_the_shortest_length_on_sale_that_is_long_enough(required: list[float], on_sale: list[int]) -> None:
    for wanted, length in zip(required, stock_length(np.array(required), on_sale), strict=True):
        enough = [stock for stock in on_sale if stock >= wanted - 1e-9]
        assert (length == min(enough)) if enough else np.isnan(length)
