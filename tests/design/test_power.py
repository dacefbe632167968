"""Power of racks and halls: sums, feeds, energy."""

from typing import Any

import polars as pl
import pytest

from railwright.catalog.load import load_catalog
from railwright.design.cabling import cable_plan
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.design.power import hall_power, rack_loads
from railwright.spec.cluster import ClusterSpec


def plan_of(**changes: Any) -> Plan:
    spec = {
        "name": "test",
        "cluster": {"servers": 16, "server": "dgx-h100"},
        "backend": {"topology": "rail-optimized", "switch": "sn5600"},
        **changes,
    }
    return cable_plan(design_plan(ClusterSpec.model_validate(spec), load_catalog()))


def racks(**keys: Any) -> list[dict[str, Any]]:
    return [{"name": "hall", "racks": keys}]


def test_racks_and_boxes_add_up_to_the_equipment() -> None:
    plan = plan_of()
    assert rack_loads(plan)["power_w"].sum() == pytest.approx(hall_power(plan)["equipment_w"])


def test_modules_are_part_of_a_box_whose_maximum_is_known() -> None:
    plan = plan_of(frontend={"enabled": False}, storage={"enabled": False}, management={"enabled": False})
    boxes = 16 * 10_200 + len(plan.devices.filter(pl.col("role").is_in(["leaf", "spine"]))) * 2167
    power = hall_power(plan)
    assert power["equipment_w"] == boxes
    assert power["modules_w"] == plan.table("modules")["power_w"].sum() > 0


def test_a_box_of_unknown_draw_is_counted_and_its_modules_are_added() -> None:
    plan = plan_of(backend={"switch": "generic-128x400"}, frontend={"enabled": False}, storage={"enabled": False})
    unknown = plan.devices.filter(pl.col("power_w").is_null() & ~pl.col("role").is_in(["external", "pdu"]))
    assert hall_power(plan)["unknown"] == len(unknown) > 0
    assert hall_power(plan)["equipment_w"] > plan.devices["power_w"].sum()


def test_energy_is_power_times_pue_times_hours() -> None:
    power = hall_power(plan_of(economics={"pue": 1.5, "energy": "$0.10/kWh"}))
    assert power["hall_w"] == pytest.approx(power["equipment_w"] * 1.5)
    assert power["kwh_per_year"] == pytest.approx(power["equipment_w"] * 1.5 / 1000 * 8766)
    assert power["usd_per_year"] == pytest.approx(power["kwh_per_year"] * 0.10)


@pytest.mark.parametrize(("pdus", "feeds", "left"), [(2, 2, 1), (3, 2, 1), (4, 2, 2), (2, 1, 2)])
def test_when_a_feed_fails_the_pdus_of_the_other_are_left(pdus: int, feeds: int, left: int) -> None:
    plan = plan_of(sites=racks(feeds=feeds, pdu_power="17 kW"), management={"pdus_per_rack": pdus})
    assert rack_loads(plan)["left_w"].unique().to_list() == [left * 17_000]


def test_weights_that_are_known_add_up() -> None:
    loads = rack_loads(plan_of()).filter(pl.col("kind") == "compute")
    assert loads["weight_kg"].max() >= 4 * 130.5
