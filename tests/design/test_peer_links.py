"""Direct links between the boxes of a pair: leaves of the frontend, subnet managers."""

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from railwright.catalog.load import load_catalog
from railwright.design.design import design_plan
from railwright.design.extend import extend_plan
from railwright.design.plan import Plan
from railwright.errors import InputError
from railwright.spec.cluster import ClusterSpec

CATALOG = load_catalog()
INFINIBAND = {"topology": "rail-optimized", "switch": "qm9700", "transport": "infiniband", "full_units": True}


def plan_of(servers: int = 64, **changes: Any) -> Plan:
    spec = {"name": "test", "cluster": {"servers": servers, "server": "dgx-h100"}, **changes}
    return design_plan(ClusterSpec.model_validate(spec), CATALOG)


def peers(plan: Plan, network: str) -> pl.DataFrame:
    return plan.named_links().filter((pl.col("tier") == "peer") & (pl.col("network") == network))


def test_every_pair_of_frontend_leaves_has_its_peer_links_and_no_other_leaf_shares_them() -> None:
    plan = plan_of(frontend={"peer_links": 2})
    found = peers(plan, "frontend").group_by("a_device_id", "b_device_id").len()
    leaves = plan.devices.filter((pl.col("network") == "frontend") & pl.col("role").is_in(["leaf", "border"]))
    assert found["len"].unique().to_list() == [2]
    assert (found["b_device_id"] == found["a_device_id"] + 1).all()
    assert sorted([*found["a_device_id"], *found["b_device_id"]]) == sorted(leaves["device_id"])


@pytest.mark.parametrize("frontend", [{}, {"counts": {"leaves": 4}}, {"border_leaves": 0}, {"leaf_switch": "sn4600c"}])
def test_peer_links_take_ports_that_nothing_else_has_and_that_the_switch_has(frontend: dict[str, Any]) -> None:
    plan = plan_of(frontend={"peer_links": 2, **frontend})
    ports = plan.ports.filter((pl.col("network") == "frontend") & (pl.col("cage") > 0)).join(
        plan.devices.filter(pl.col("role").is_in(["leaf", "border", "spine"])).select("device_id", "model"),
        on="device_id",
    )
    assert ports.select("device_id", "cage", "lane_first").is_duplicated().sum() == 0
    modes = ports.group_by("device_id", "cage").agg(pl.col("speed_gbps").n_unique())
    assert modes["speed_gbps"].max() == 1
    cages = {key: sum(group.count for group in switch.cages) for key, switch in CATALOG.switches.items()}
    assert (ports["cage"] <= ports["model"].replace_strict(cages)).all()


def test_without_the_key_a_design_has_no_peer_links() -> None:
    assert peers(plan_of(), "frontend").is_empty()


def test_peer_links_that_leave_no_cage_are_an_error() -> None:
    with pytest.raises(InputError) as error:
        plan_of(frontend={"peer_links": 5000})
    assert error.value.key == "frontend.peer_links"


@pytest.mark.parametrize("cords", [0, 1, 2])
def test_the_managers_of_a_fabric_are_joined_in_pairs(cords: int) -> None:
    plan = plan_of(63, backend=INFINIBAND, storage={"transport": "infiniband"}, management={"manager_links": cords})
    found = peers(plan, "management")
    managers = plan.devices.filter(pl.col("role") == "appliance")
    pairs = found.group_by("a_device", "b_device").len().sort("a_device")
    assert len(managers) == 4
    assert pairs.rows() == (
        [
            ("storage-subnet-manager1", "storage-subnet-manager2", cords),
            ("subnet-manager1", "subnet-manager2", cords),
        ]
        if cords
        else []
    )
    assert found["speed_gbps"].unique().to_list() == ([1.0] if cords else [])


def test_a_single_manager_and_a_plan_without_management_have_no_cord(make_plan: Callable[..., Plan]) -> None:
    one = {**INFINIBAND, "subnet_managers": 1}
    assert peers(plan_of(63, backend=one, storage={"enabled": False}), "management").is_empty()
    assert peers(plan_of(63, backend=INFINIBAND, management={"enabled": False}), "management").is_empty()


def test_growth_moves_no_peer_link_and_no_manager_cord() -> None:
    racks = [{"name": "hall", "racks": {"network_racks": 8}}]
    before = plan_of(31, backend=INFINIBAND, growth={"gpus": 504}, frontend={"peer_links": 2}, sites=racks)
    grown, changes = extend_plan(before, 504)
    assert {move["network"] for move in changes["moved"]}.isdisjoint({"frontend", "management"})
    for network in ("frontend", "management"):
        ends = ("a_device", "a_port_name", "b_device", "b_port_name")
        old, new = (set(peers(plan, network).select(ends).rows()) for plan in (before, grown))
        assert old
        assert old <= new
