"""NCCL's variables in the engines: adapters of rings, channels, PXN, queue pairs and the bounce through the CPU."""

from functools import cache
from pathlib import Path

import pytest

from railwright.catalog.load import load_catalog
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.simulate.library import shape_of_placement, taken
from railwright.simulate.plan_network import placement_of
from railwright.simulate.results import SimulationResult
from railwright.simulate.run import simulate_collective
from railwright.spec.load import load_spec
from railwright.workload.nccl.environment import parse_environment

EXAMPLES = Path(__file__).parents[2] / "examples"
GIB = 2.0**30
NVLINK_COUNTED = 18 * 20.6
"""GB/s: 18 links as NCCL counts them (src/graph/topo.h)."""
LINE = 8 * 50 * 4096 / (4096 + 82)
"""GB/s of payload through eight 400G adapters with RoCEv2's headers."""


@cache
def plan_of(name: str) -> Plan:
    return design_plan(load_spec(EXAMPLES / f"{name}.yaml"), load_catalog())


def ring(name: str, variables: str, engine: str = "flow", size: float = GIB) -> SimulationResult:
    environment = parse_environment(variables)
    return simulate_collective(
        plan_of(name), "all-reduce", size, engine=engine, algorithm="ring", environment=environment
    )


@pytest.mark.parametrize("engine", ["analytic", "flow"])
@pytest.mark.parametrize("name", ["rail-only-128", "rail-optimized-1024", "leaf-spine-64x400"])
def test_a_ring_that_comes_back_to_its_adapter_is_bound_by_nvlink(engine: str, name: str) -> None:
    """All eight rings then leave every GPU over NVLink, which H100 has 370.8 GB/s of; the adapters would carry 392."""
    assert ring(name, "NCCL_CROSS_NIC=0", engine).busbw_gbytes_s == pytest.approx(NVLINK_COUNTED, rel=0.005)
    assert ring(name, "NCCL_CROSS_NIC=2", engine).busbw_gbytes_s == pytest.approx(LINE, rel=0.005)


def spine_bytes(result: SimulationResult, plan: Plan) -> float:
    tiers = plan.links.filter(tier="leaf_spine")["link_id"]
    used = result.engine.links_used
    return float(used.filter(used["link_id"].is_in(tiers.implode()))["bytes"].sum())


def test_rings_climb_to_the_spines_at_every_crossing_only_when_they_may_change_rail() -> None:
    """128 servers in 4 units: with 0 and 2 a ring leaves its unit 4 times, with 1 all 128 crossings change leaf."""
    plan = plan_of("rail-optimized-1024")
    sent = 2 * 1023 / 1024 * GIB
    climbed = {value: spine_bytes(ring("rail-optimized-1024", f"NCCL_CROSS_NIC={value}"), plan) for value in (0, 1, 2)}
    assert climbed[2] == pytest.approx(2 * 4 * sent, rel=1e-6)
    assert climbed[0] == pytest.approx(2 * 4 * sent, rel=1e-6)
    assert climbed[1] == pytest.approx(2 * 128 * sent, rel=1e-6)


def test_rails_that_are_not_joined_are_changed_over_nvlink() -> None:
    result = ring("rail-only-128", "NCCL_CROSS_NIC=1")
    assert result.busbw_gbytes_s == pytest.approx(NVLINK_COUNTED, rel=0.005)
    assert ring("rail-only-128", "NCCL_CROSS_NIC=1", "analytic").busbw_gbytes_s == pytest.approx(
        result.busbw_gbytes_s, rel=0.005
    )


def test_where_all_adapters_share_a_leaf_no_rail_is_left() -> None:
    one, two = (ring("leaf-spine-64x400-oversubscribed", f"NCCL_CROSS_NIC={value}").time_us for value in (1, 2))
    assert one == pytest.approx(two, rel=0.001)


@pytest.mark.parametrize("engine", ["analytic", "flow"])
def test_few_channels_use_few_adapters(engine: str) -> None:
    result = ring("rail-only-128", "NCCL_MAX_NCHANNELS=2", engine)
    assert result.setting["channels"] == 2
    assert result.busbw_gbytes_s == pytest.approx(LINE / 4, rel=0.01)


@pytest.mark.parametrize("engine", ["analytic", "flow"])
def test_channels_are_those_of_the_model_and_in_the_result(engine: str) -> None:
    result = ring("rail-only-128", "", engine)
    assert (result.setting["channels"], result.setting["cross_nic"]) == (16, 2)
    assert result.setting["protocol"] in ("ll", "ll128", "simple")


def test_the_engines_agree_on_rings_of_any_number_of_channels() -> None:
    for channels in (1, 4, 8, 16, 32):
        text = f"NCCL_MIN_NCHANNELS={channels} NCCL_MAX_NCHANNELS={channels}"
        analytic, flow = (ring("rail-only-128", text, engine).time_us for engine in ("analytic", "flow"))
        assert analytic == pytest.approx(flow, rel=0.01)


def test_variables_choose_the_algorithm_of_a_simulation() -> None:
    plan = plan_of("rail-only-128")
    for text, algorithm in (
        ("NCCL_ALGO=Tree", "tree"),
        ("NCCL_ALGO=allreduce:ring;broadcast:ring", "ring"),
        ("NCCL_ALGO=^NVLSTree,Ring", "tree"),
    ):
        environment = parse_environment(text)
        result = simulate_collective(plan, "all-reduce", 2.0**28, environment=environment)
        assert result.setting["algorithm"] == algorithm


def test_without_gpudirect_an_adapter_moves_half_of_its_slot() -> None:
    """PCIe 5.0 x16 counts 48 GB/s in NCCL; each byte crosses it twice on the way to host memory and on to the adapter."""
    result = ring("rail-only-128", "NCCL_NET_GDR_LEVEL=LOC")
    assert result.busbw_gbytes_s == pytest.approx(8 * 24, rel=0.03)
    assert result.busbw_gbytes_s <= 8 * 24


def test_queue_pairs_spread_a_connection_over_hashed_paths() -> None:
    plan = plan_of("leaf-spine-64x400-oversubscribed")
    times = []
    for pairs in (1, 8):
        environment = parse_environment(f"NCCL_IB_QPS_PER_CONNECTION={pairs}")
        result = simulate_collective(plan, "all-to-all", GIB, engine="flow", paths="ecmp", environment=environment)
        assert result.setting["queue_pairs"] == pairs
        times.append(result.time_us)
    assert times[1] < times[0]


def test_without_pxn_an_all_to_all_climbs_to_the_spines() -> None:
    plan = plan_of("rail-optimized-1024")
    ranks = list(range(64))
    with_pxn, without = (
        spine_bytes(
            simulate_collective(
                plan, "all-to-all", GIB, ranks, "flow", environment=parse_environment(f"NCCL_P2P_PXN_LEVEL={level}")
            ),
            plan,
        )
        for level in (2, 0)
    )
    assert with_pxn == 0
    assert without > 0


def test_one_gpu_per_server_is_a_job_of_as_many_nodes() -> None:
    plan = plan_of("rail-only-128")
    placement = placement_of(plan, list(range(0, 128, 8)))
    shape = shape_of_placement(plan, placement)
    assert shape is not None
    assert (shape.nodes, shape.gpus_per_node, shape.nics_per_node) == (16, 1, 1)
    assert taken(plan, "all-reduce", GIB, placement).algorithm == "ring"


def test_a_failure_tells_the_time_without_it_and_who_is_hit() -> None:
    """Two adapters share one when a leaf of a rail is out: their rings take twice as long, and no other."""
    plan = plan_of("rail-only-128")
    result = simulate_collective(plan, "all-reduce", GIB, engine="flow", algorithm="ring", fail=("leaf:rail3-leaf1",))
    told = result.setting["without_failures"]
    assert told["time_us"] == pytest.approx(2 * 127 / 128 * GIB / (LINE * 1000), rel=0.005)
    assert told["slowdown"] == pytest.approx(result.time_us / told["time_us"])
    assert told["slowdown"] == pytest.approx(2, rel=0.02)
    assert (told["endpoints"], told["hit"] > 0, len(told["names"]) <= 8) == (128, True, True)
    sends = simulate_collective(plan, "send-recv", GIB, engine="flow", fail=("nic:server-0001:gpu0@50%",))
    assert sends.setting["without_failures"]["hit"] < 16
    assert simulate_collective(plan, "all-reduce", GIB, engine="flow").setting["without_failures"] is None
