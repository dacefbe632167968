"""Storage: appliances from the demand, a fabric of their own or a shared one, InfiniBand, the published storage fabric."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from railwright.catalog.load import load_catalog
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.design.summary import count_cables
from railwright.errors import InputError
from railwright.spec.load import load_spec

MakePlan = Callable[..., Plan]
EXAMPLES = Path(__file__).parents[2] / "examples"


def count(plan: Plan, role: str, network: str = "storage") -> int:
    return len(plan.devices.filter((pl.col("role") == role) & (pl.col("network") == network)))


def links(plan: Plan, tier: str, network: str = "storage") -> pl.DataFrame:
    return plan.named_links().filter((pl.col("tier") == tier) & (pl.col("network") == network))


def published(what: str) -> int:
    facts = pl.read_csv(Path(__file__).parent / "facts" / "h100_superpod_4su_networks.csv")
    return int(facts.filter(pl.col("what") == what)["count"].item())


@pytest.fixture(scope="module")
def superpod() -> Plan:
    return design_plan(load_spec(EXAMPLES / "h100-superpod-4su.yaml"), load_catalog())


def test_appliances_are_what_reading_and_writing_need_and_one_more(make_plan: MakePlan) -> None:
    # Read 250 GB/s at 80 a piece: 4. Write 9 TB in 60 s = 150 GB/s at 40 a piece: 4. One more: 5.
    plan = make_plan(
        demand={"dataset_read": 250e9, "checkpoint": 9e12, "checkpoint_time": 60e6, "restart_load_time": 600e6}
    )
    assert count(plan, "storage") == 5
    assert "read 250 GB/s" in next(r["why"] for r in plan.reasons if r["what"] == "appliances")


def test_a_fabric_of_its_own_has_servers_and_appliances_on_two_leaves_each(make_plan: MakePlan) -> None:
    plan = make_plan()
    for tier, role in (("host", "server"), ("service", "storage")):
        homes = (
            links(plan, tier).filter(pl.col("a_role") == role).group_by("a_device").agg(pl.col("b_device").n_unique())
        )
        assert homes["b_device"].unique().to_list() == [2]


def test_appliances_use_all_their_ports(make_plan: MakePlan) -> None:
    for ports in (1, 2, 3, 4, 8):
        plan = make_plan(storage={"appliances": 3, "appliance_ports": ports})
        own = links(plan, "service").join(
            plan.devices.filter(pl.col("model") == "generic-storage-appliance").select(a_device_id="device_id"),
            on="a_device_id",
        )
        assert own.group_by("a_device").len()["len"].to_list() == [ports] * 3


def test_the_storage_fabric_is_non_blocking_by_default(make_plan: MakePlan) -> None:
    plan = make_plan(200, "dgx-b200")
    switches = plan.devices.filter((pl.col("network") == "storage") & (pl.col("role") == "leaf")).select("device_id")
    sums = (
        plan.ports.join(switches, on="device_id")
        .group_by("device_id")
        .agg(
            down=pl.col("speed_gbps").filter(pl.col("direction") == "down").sum(),
            up=pl.col("speed_gbps").filter(pl.col("direction") == "up").sum(),
        )
    )
    assert sums.select((pl.col("down") <= pl.col("up")).all()).item()


def test_storage_ports_on_frontend_adapters_have_their_number(make_plan: MakePlan) -> None:
    # DGX: eight backend adapters (0 to 7), then two dual-port cards (8 and 9) with a frontend and a storage port each.
    plan = make_plan(4, "dgx-h100")
    for network in ("frontend", "storage"):
        assert links(plan, "host", network)["a_nic"].unique().sort().to_list() == [8, 9]


def test_storage_adapters_of_their_own_come_after_those_of_the_frontend(make_plan: MakePlan) -> None:
    plan = make_plan(4, "generic-8gpu-400g")
    assert links(plan, "host", "frontend")["a_nic"].unique().sort().to_list() == [8, 9]
    assert links(plan, "host", "storage")["a_nic"].unique().sort().to_list() == [10, 11]


def test_converged_with_the_frontend_appliances_stand_on_frontend_leaves_at_the_stricter_ratio(
    make_plan: MakePlan,
) -> None:
    plan = make_plan(converge=["frontend", "storage"])
    assert count(plan, "leaf") == count(plan, "spine") == 0
    assert set(links(plan, "service")["b_role"].cast(pl.String)) == {"leaf"}
    assert plan.facts["frontend"]["oversubscription"] == 1.0
    assert count(plan, "storage", "frontend") == 0
    assert "storage" not in set(links(plan, "host", "storage")["a_role"].cast(pl.String))


def test_servers_without_storage_ports_share_the_frontend_and_the_plan_says_why(make_plan: MakePlan) -> None:
    plan = make_plan(16, "mi300x-8")
    assert count(plan, "leaf") == 0
    assert "has no ports for a storage fabric" in next(
        r["why"] for r in plan.reasons if (r["network"], r["what"]) == ("storage", "topology")
    )


def test_storage_frontends_bridge_both_fabrics_with_two_links_each(make_plan: MakePlan) -> None:
    plan = make_plan(demand={"ingest": 10e9})
    gateways = plan.devices.filter(pl.col("model") == "generic-storage-gateway")
    assert len(gateways) == 3  # 10 GB/s x 8 x 1.5 = 120 Gb/s over 100 Gb/s each, and one more
    for network in ("frontend", "storage"):
        own = links(plan, "service", network).join(gateways.select(a_device_id="device_id"), on="a_device_id")
        assert own.group_by("a_device").agg(pl.col("b_device").n_unique())["b_device"].to_list() == [2, 2, 2]


def test_infiniband_storage_has_subnet_managers_and_no_as_numbers(make_plan: MakePlan) -> None:
    plan = make_plan(31, "dgx-h100", storage={"transport": "infiniband"})
    switches = plan.devices.filter((pl.col("network") == "storage") & pl.col("role").is_in(["leaf", "spine"]))
    assert switches["model"].unique().to_list() == ["qm9700"]
    assert switches["asn"].null_count() == len(switches)
    assert count(plan, "appliance") == 2


def test_appliances_on_the_backend_take_free_ports_of_its_leaves(make_plan: MakePlan) -> None:
    plan = make_plan(64, backend={"topology": "rail-optimized", "switch": "sn5400"}, converge=["backend", "storage"])
    own = links(plan, "service")
    backend = set(plan.devices.filter(pl.col("network") == "backend")["device_id"])
    assert set(own["b_device_id"]) <= backend
    assert (
        not plan.ports.filter(pl.col("lanes").is_not_null())
        .select("device_id", "cage", "lane_first")
        .is_duplicated()
        .any()
    )


def test_a_full_backend_whose_size_is_the_user_s_says_how_many_ports_are_missing(make_plan: MakePlan) -> None:
    backend = {"topology": "rail-optimized", "switch": "sn5400", "servers_per_unit": 32}
    with pytest.raises(InputError, match="8 ports of 200G are needed on backend leaves and 0 are free") as caught:
        make_plan(64, backend=backend, converge=["backend", "storage"])
    assert caught.value.key == "converge"


@pytest.mark.parametrize(
    ("storage", "key"),
    [
        ({"appliance_gbps": 33}, "storage.leaf_switch"),
        ({"leaf_switch": "qm9700"}, "storage.leaf_switch"),
        ({"ports_per_server": 9}, "storage.ports_per_server"),
    ],
)
def test_what_cannot_be_built_is_said_with_its_key(make_plan: MakePlan, storage: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError) as caught:
        make_plan(16, storage=storage)
    assert caught.value.key == key


def test_the_published_storage_fabric_comes_out_of_the_example(superpod: Plan) -> None:
    assert count(superpod, "leaf") + count(superpod, "spine") == published("storage switches")
    assert len(links(superpod, "host")) == published("storage cables at servers")
    assert len(links(superpod, "host")) + len(links(superpod, "leaf_spine")) == published("storage cables 400G")
    appliances = links(superpod, "service").filter(pl.col("a_role") == "storage")
    assert len(appliances) == 2 * published("storage splitter cables")
    # Twin-port transceivers serve servers, both ends of the links between switches, and the ports of the subnet managers.
    managers = (
        2 * published("storage switch transceivers")
        - len(links(superpod, "host"))
        - 2 * len(links(superpod, "leaf_spine"))
    )
    assert managers == len(links(superpod, "service").filter(pl.col("a_role") == "appliance")) == 4
    cords = managers // 2
    assert (
        count_cables(superpod, "storage")
        == published("storage cables 400G") + published("storage splitter cables") + cords
    )


def test_a_full_backend_gets_smaller_units_and_says_why(make_plan: MakePlan) -> None:
    plan = make_plan(64, backend={"topology": "rail-optimized", "switch": "sn5400"}, converge=["backend", "storage"])
    assert plan.spec.backend.servers_per_unit is not None
    assert plan.spec.backend.servers_per_unit < 32
    assert "share the backend" in next(r["why"] for r in plan.reasons if r["what"] == "servers_per_unit")
