"""The contract spread over the ports of a plan."""

from collections.abc import Callable

import polars as pl
import pytest

from railwright.build.contract import Marking
from railwright.build.views import Target, device_views
from railwright.design.plan import Plan
from railwright.design.qos_table import contracts_for, headroom_use, qos_table, round_trip_us


@pytest.fixture(scope="module")
def table(plan: Plan) -> pl.DataFrame:
    named = plan.ports.join(plan.devices.select("device_id", "role"), on="device_id").select(
        "port_id", "role", "direction", "speed_gbps"
    )
    return qos_table(plan, contracts_for(plan)).join(named, on="port_id")


def test_one_row_per_link_end_and_class(plan: Plan, table: pl.DataFrame) -> None:
    assert len(table) == 2 * len(plan.links) * 5
    assert table.group_by("port_id", "class").len()["len"].max() == 1


def test_headroom_follows_the_cable_of_each_link(table: pl.DataFrame) -> None:
    lossless = table.filter((pl.col("class") == "roce") & (pl.col("role") == "leaf"))
    assert set(lossless.filter(pl.col("direction") == "down")["headroom_bytes"]) == {249_856}  # 5 m
    assert set(lossless.filter(pl.col("direction") == "up")["headroom_bytes"]) == {303_104}  # 40 m


def test_hosts_have_priorities_and_mtu_but_no_thresholds(table: pl.DataFrame) -> None:
    host = table.filter((pl.col("role") == "server") & (pl.col("class") == "roce"))
    assert set(host["lossless"]) == {True}
    assert set(host["mtu_bytes"]) == {9000}
    assert host["kmin_bytes"].null_count() == host["headroom_bytes"].null_count() == len(host)


def test_only_the_class_of_the_network_is_lossless(table: pl.DataFrame) -> None:
    lossless = table.filter(pl.col("lossless"))
    assert set(lossless["class"]) == {"roce"}
    assert set(lossless["priority"]) == {3}


def test_kmin_is_rate_times_the_round_trip_of_the_plan(plan: Plan, table: pl.DataFrame) -> None:
    rtt = round_trip_us(plan)
    assert 2 * (2 * 1.0 + 3 * 0.6) < rtt < 12
    kmin = table.filter(pl.col("kmin_bytes").is_not_null())["kmin_bytes"].unique().to_list()
    assert kmin == [round(400 * rtt * 1e3 / 8)]


def test_thresholds_of_the_spec_hold_at_every_rate_and_are_what_switches_are_told(
    make_plan: Callable[..., Plan],
) -> None:
    plan = make_plan(ecn={"kmin": 250_000, "kmax": 900_000, "pmax": 0.2})
    contracts = contracts_for(plan)
    marking = qos_table(plan, contracts).filter(pl.col("kmin_bytes").is_not_null())
    assert set(zip(marking["kmin_bytes"], marking["kmax_bytes"], marking["pmax"], strict=True)) == {
        (250_000, 900_000, 0.2)
    }
    told = {port.marking for view in device_views(plan, contracts, Target()) for port in view.ports}
    assert told == {(Marking(3, 250_000, 900_000, 20),)}


def test_pool_use_adds_the_ports_of_each_switch(plan: Plan) -> None:
    use = headroom_use(plan, qos_table(plan, contracts_for(plan))).sort("device")
    reserved = dict(zip(use["device"], use["reserved_bytes"], strict=True))
    assert reserved["spine1"] == 4 * 303_104
    assert reserved["rail1-leaf1"] == 2 * 249_856 + 2 * 303_104
    assert use["share"].max() < 1


def test_infiniband_is_lossless_by_credits(make_plan: Callable[..., Plan]) -> None:
    plan = make_plan(transport="infiniband")
    contracts = contracts_for(plan)
    assert contracts["backend"].transport == "infiniband"
    assert contracts["storage"].transport == "rocev2"
    rows = qos_table(plan, contracts)
    assert set(rows["class"]) == {"rdma", "storage", "best-effort"}
    assert rows["headroom_bytes"].null_count() == len(rows)


@pytest.mark.parametrize("congestion", ["ecn-only", "lossy+spray"])
def test_lossy_profiles_reserve_no_headroom(make_plan: Callable[..., Plan], congestion: str) -> None:
    plan = make_plan(congestion=congestion)
    rows = qos_table(plan, contracts_for(plan))
    assert not rows["lossless"].any()
    assert rows["headroom_bytes"].null_count() == len(rows)
    assert rows["kmin_bytes"].null_count() < len(rows)
