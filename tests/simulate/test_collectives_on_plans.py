"""Collectives on whole plans: both engines against closed forms that are written out here."""

from functools import cache
from pathlib import Path

import pytest

from railwright.catalog.load import load_catalog
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.errors import InputError
from railwright.simulate.plan_network import network_from_plan, placement_of
from railwright.simulate.routing import route
from railwright.simulate.run import simulate_collective
from railwright.spec.load import load_spec

EXAMPLES = Path(__file__).parents[2] / "examples"
GIB = 2.0**30
LINE_BYTES_PER_US = 400e9 / 8 / 1e6
ROCE_PAYLOAD = 4096 / (4096 + 82)
"""Preamble 8, gap 12, Ethernet 14, FCS 4, IPv4 20, UDP 8, BTH 12, ICRC 4."""


@cache
def plan_of(name: str) -> Plan:
    return design_plan(load_spec(EXAMPLES / f"{name}.yaml"), load_catalog())


@pytest.mark.parametrize("engine", ["analytic", "flow"])
@pytest.mark.parametrize("rail", [0, 7])
def test_same_rank_all_reduce_of_1_gib_on_rail_only_takes_the_closed_form(engine: str, rail: int) -> None:
    ranks = [server * 8 + rail for server in range(16)]
    result = simulate_collective(plan_of("rail-only-128"), "all-reduce", GIB, ranks, engine, algorithm="ring")
    moved = 2 * 15 / 16 * GIB / (LINE_BYTES_PER_US * ROCE_PAYLOAD)
    switch_and_fibre = 30 * (0.6 + 2 * 5.0 * 4.9e-3)
    assert result.time_us == pytest.approx(moved + switch_and_fibre, rel=0.01)
    assert result.busbw_gbytes_s == pytest.approx(50 * ROCE_PAYLOAD, rel=0.01)


@pytest.mark.parametrize("engine", ["analytic", "flow"])
def test_a_ring_over_all_gpus_runs_at_line_rate_minus_headers(engine: str) -> None:
    result = simulate_collective(plan_of("rail-only-128"), "all-reduce", 16 * GIB, engine=engine, algorithm="ring")
    assert result.busbw_gbytes_s == pytest.approx(8 * 50 * ROCE_PAYLOAD, rel=0.005)


@pytest.mark.parametrize("engine", ["analytic", "flow"])
def test_all_to_all_never_beats_the_injection_bound(engine: str) -> None:
    result = simulate_collective(plan_of("rail-only-128"), "all-to-all", GIB, engine=engine)
    outside = GIB * (128 - 8) / 128
    bound_us = outside / (LINE_BYTES_PER_US * ROCE_PAYLOAD)
    assert bound_us * 0.999 <= result.time_us <= bound_us * 1.15


@pytest.mark.parametrize(
    ("name", "close"),
    [
        ("rail-only-128", 0.01),
        ("rail-optimized-1024", 0.01),
        ("h100-superpod-4su", 0.01),
        ("multi-plane-2048", 0.03),  # seven rings fill 95 % of an NVLink port beside 800G of adapters
    ],
)
@pytest.mark.parametrize("collective", ["all-gather", "reduce-scatter"])
def test_engines_agree_on_rings(name: str, close: float, collective: str) -> None:
    plan = plan_of(name)
    analytic = simulate_collective(plan, collective, GIB, algorithm="ring")
    flow = simulate_collective(plan, collective, GIB, engine="flow", algorithm="ring")
    assert analytic.time_us == pytest.approx(flow.time_us, rel=close)


def test_same_rank_pairs_are_one_switch_apart_and_cross_rail_pairs_meet_on_nvlink() -> None:
    plan = plan_of("rail-only-128")
    network = network_from_plan(plan)
    placement = placement_of(plan)
    same = [(a, b) for a in range(128) for b in range(128) if a // 8 != b // 8 and a % 8 == b % 8]
    src, dst = (placement.gpu[list(side)].astype("int32") for side in zip(*same, strict=True))
    offsets, links = route(network, src, dst)
    assert set((offsets[1:] - offsets[:-1]).tolist()) == {2}
    assert {str(network.node_name[int(node)])[-6:] for node in network.link_dst[links[offsets[:-1]]]} == {"-leaf1"}
    inside, _ = route(network, [0], [5])
    assert inside[1] == 2
    with pytest.raises(InputError, match="no path"):
        route(network, [0], [9])
    crossed, path = route(network, [0], [9], mode="rail")
    assert crossed[1] == 4
    assert str(network.node_name[int(network.link_dst[path[0]])]) == "nvlink-domain1"


def test_keys_that_an_engine_cannot_know_are_none() -> None:
    summary = simulate_collective(plan_of("rail-only-128"), "all-reduce", GIB).as_dict()
    assert summary["pfc"] == {"pause_frames": None, "paused_us": None}
    assert summary["ecn"]["marks"] is None
    assert summary["fct_us"] == {"p50": None, "p99": None, "p999": None, "max": None}


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("engine", {"engine": "analytics"}),
        ("paths", {"engine": "flow", "paths": "ecpm"}),
        ("collective", {"collective": "all-redcue"}),
        ("ranks", {"ranks": 4096}),
        ("fail", {"fail": ["leaf:rail3-leaf1"]}),
    ],
)
def test_bad_requests_name_the_key(key: str, changes: dict[str, object]) -> None:
    request: dict[str, object] = {"collective": "all-reduce", "size_bytes": GIB, **changes}
    with pytest.raises(InputError) as error:
        simulate_collective(plan_of("rail-only-128"), **request)  # type: ignore[arg-type]
    assert error.value.key == key
