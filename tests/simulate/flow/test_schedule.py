"""Operations in time: what waits for what, how long it takes, and a slow simulator to compare with."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulate.flow.reference import Op, simulate

from railwright import _native
from railwright.errors import InputError
from railwright.simulate.flow.engine import FlowOptions, simulate_flows

LINE = 50_000.0
"""Bytes per microsecond of 400 Gb/s."""


def test_a_lone_flow_takes_its_bytes_over_the_rate_and_the_latency_of_its_path(star, sends) -> None:
    result = simulate_flows(star(2, delay_ns=100.0, latency_ns=600.0), sends((0, 1, 1e6)), FlowOptions(overhead_us=2.0))
    assert result.finish_us == pytest.approx(1e6 / LINE + 0.2 + 0.6 + 2.0)
    assert result.flows["ideal_us"][0] == pytest.approx(result.finish_us)
    assert result.flows["hops"][0] == 2


def test_goodput_stretches_what_crosses_the_fabric(rail_only, sends) -> None:
    traffic = sends((0, 2, 1e6), (0, 1, 9e6))
    flows = simulate_flows(rail_only(2, 2), traffic, FlowOptions(goodput=0.5)).flows
    assert flows["finish_us"].to_list() == pytest.approx([40.0, 20.0])


def test_incast_finishes_when_the_last_link_has_carried_everything(star, sends) -> None:
    traffic = sends((1, 0, 1e6), (2, 0, 2e6), (3, 0, 3e6))
    flows = simulate_flows(star(4), traffic).flows
    assert flows["finish_us"].to_list() == pytest.approx([60.0, 100.0, 120.0])


def test_a_send_waits_until_the_one_before_has_arrived(star, sends) -> None:
    traffic = sends((0, 1, 1e6), (1, 2, 1e6), after=[[], [0]])
    flows = simulate_flows(star(3, delay_ns=500.0), traffic).flows
    assert flows["start_us"].to_list() == pytest.approx([0.0, 21.0])
    assert flows["finish_us"][1] == pytest.approx(42.0)


def test_barrier_and_computation_hold_what_follows(star, sends) -> None:
    traffic = sends(
        (0, 1, 1e6), (2, 1, 1e6), (0, 0, 0), (0, 0, 0), (1, 0, 1e6),
        after=[[], [], [0, 1], [2], [3]],
        kind=["send", "send", "barrier", "compute", "send"],
        duration_us=[0.0, 0.0, 0.0, 7.5, 0.0],
    )  # fmt: skip
    flows = simulate_flows(star(3), traffic).flows
    assert flows.height == 3
    assert flows["start_us"][2] == pytest.approx(40.0 + 7.5)


def test_repetitions_follow_each_other_without_waiting_for_the_arrival(star, sends) -> None:
    result = simulate_flows(star(2, delay_ns=5000.0), sends((0, 1, 1e6), repeat=50))
    assert result.finish_us == pytest.approx(50 * 20.0 + 10.0)
    assert result.flows["bytes"][0] == 50e6


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("hosts", [2, 5, 8])
def test_a_ring_takes_steps_times_latency_and_transfer(star, sends, hosts: int, fold: bool) -> None:
    steps = 2 * (hosts - 1)
    traffic = sends(*((h, (h + 1) % hosts, 1e5) for h in range(hosts)), repeat=steps, group=0)
    result = simulate_flows(star(hosts, delay_ns=500.0, latency_ns=600.0), traffic, FlowOptions(fold=fold))
    assert result.finish_us == pytest.approx(steps * (1e5 / LINE + 1.6))


def test_a_pipeline_takes_one_piece_per_stage_and_the_rest_behind_it(star, sends) -> None:
    pieces, stages = 40, 4
    traffic = sends(
        *((h, h + 1, 1e5) for h in range(stages)), repeat=pieces, group=0, after=[[]] + [[i] for i in range(stages - 1)]
    )
    result = simulate_flows(star(stages + 1, delay_ns=250.0), traffic)
    assert result.finish_us == pytest.approx((stages + pieces - 1) * 2.0 + stages * 0.5)


def test_priorities_let_one_class_pass_first(star, sends) -> None:
    traffic = sends((1, 0, 1e6), (2, 0, 1e6), **{"class": ["bulk", "urgent"]})
    flows = simulate_flows(star(3), traffic, FlowOptions(priorities={"bulk": 1})).flows
    assert flows["finish_us"].to_list() == pytest.approx([40.0, 20.0])


def test_caps_and_weights_are_per_class(star, sends) -> None:
    traffic = sends((1, 0, 1e6), (2, 0, 1e6), **{"class": ["slow", "fast"]})
    capped = simulate_flows(star(3), traffic, FlowOptions(caps_gbps={"slow": 100.0})).flows
    assert capped["finish_us"].to_list() == pytest.approx([80.0, 1e6 / 37_500])
    weighted = simulate_flows(star(3), traffic, FlowOptions(weights={"fast": 3.0})).flows
    assert weighted["finish_us"][1] == pytest.approx(1e6 / 37_500)


def test_queue_pairs_split_a_send_over_several_paths(leaf_spine, sends) -> None:
    net = leaf_spine(2, 1, 8, gbps=[400.0] * 2 + [50.0] * 16)
    one = simulate_flows(net, sends((0, 1, 1e6)), FlowOptions(queue_pairs=1))
    many = simulate_flows(net, sends((0, 1, 1e6)), FlowOptions(queue_pairs=64))
    sprayed = simulate_flows(net, sends((0, 1, 1e6)), FlowOptions(paths="spray"))
    assert one.finish_us == pytest.approx(8 * 1e6 / LINE)
    assert sprayed.finish_us == pytest.approx(1e6 / LINE)
    assert sprayed.finish_us < many.finish_us < one.finish_us / 2


def test_bytes_on_links_are_those_of_the_flows(leaf_spine, sends) -> None:
    net = leaf_spine(4, 4, 3, gbps=[400.0] * 16 + [200.0] * 12)
    rng = np.random.default_rng(5)
    src = rng.integers(0, 16, 200)
    dst = (src + rng.integers(1, 16, 200)) % 16
    amount = rng.uniform(1e4, 1e6, 200)
    traffic = sends(*zip(src, dst, amount, rng.uniform(0, 50, 200), strict=True))
    for paths in ("ecmp", "spray", "adaptive"):
        used = simulate_flows(net, traffic, FlowOptions(paths=paths)).links_used
        up, down = used["bytes"].to_numpy()[:32:2], used["bytes"].to_numpy()[1:32:2]
        assert up == pytest.approx(np.bincount(src, amount, 16))
        assert down == pytest.approx(np.bincount(dst, amount, 16))
        crossing = src // 4 != dst // 4
        assert used["bytes"].to_numpy()[32:].sum() == pytest.approx(2 * amount[crossing].sum())
        assert used["util"].max() <= 1 + 1e-9


def test_waiting_in_a_circle_is_named(star, sends) -> None:
    with pytest.raises(InputError, match="wait for each other in a circle: 0 → 1 → 0"):
        simulate_flows(star(2), sends((0, 1, 1e6), (1, 0, 1e6), after=[[1], [0]]))


def test_waiting_for_an_operation_that_is_not_there_is_an_error(star, sends) -> None:
    with pytest.raises(InputError, match="operation 9 is waited for and does not exist"):
        simulate_flows(star(2), sends((0, 1, 1e6), after=[[9]]))


def test_an_endpoint_that_is_not_there_is_named(star, sends) -> None:
    with pytest.raises(InputError, match="operation 0 has dst 7; endpoints are 0 to 1"):
        simulate_flows(star(2), sends((0, 7, 1e6)))


def test_a_repeating_group_that_is_no_ring_is_an_error(star, sends) -> None:
    with pytest.raises(InputError, match="is not a ring"):
        simulate_flows(star(3), sends((0, 1, 1e6), (0, 2, 1e6), repeat=3, group=0))


def test_incremental_rates_stay_exact_over_thousands_of_events(leaf_spine, sends) -> None:
    rng = np.random.default_rng(2)
    src = rng.integers(0, 32, 1500)
    dst = (src + rng.integers(1, 32, 1500)) % 32
    rows = zip(src, dst, rng.uniform(1e4, 1e6, 1500), rng.uniform(0, 2000, 1500), strict=True)
    classes = {"class": rng.choice(["a", "b"], 1500).tolist()}
    options = FlowOptions(audit_every=7, priorities={"b": 1}, weights={"a": 2.0}, fold=False)
    result = simulate_flows(leaf_spine(8, 4, 4, gbps=[400.0] * 32 + [300.0] * 32), sends(*rows, **classes), options)
    assert result.counters["instants"] > 1500
    assert result.counters["audit"] < 1e-9


def problem(capacity: list[float], ops: list[Op]) -> dict[str, Any]:
    sending = [op for op in ops if op.path is not None]
    counts = [0 if op.path is None else 1 for op in ops]
    waits = [op.waits for op in ops]

    def array(values: list[Any], kind: type) -> np.ndarray:
        return np.asarray(values, kind)

    return {
        "capacity": array(capacity, np.float64),
        "path_offset": array([0, *np.cumsum([len(op.path or []) for op in sending])], np.int64),
        "path_link": array([link for op in sending for link, _ in op.path or []], np.int32),
        "path_share": array([share for op in sending for _, share in op.path or []], np.float64),
        "op_kind": array([int(op.path is None) for op in ops], np.uint8),
        "op_duration": array([op.amount if op.path is None else 0.0 for op in ops], np.float64),
        "op_start": array([op.start for op in ops], np.float64),
        "op_weight": array([op.weight for op in ops], np.float64),
        "op_cap": array([op.cap for op in ops], np.float64),
        "op_handover": array([op.handover for op in ops], np.float64),
        "op_priority": array([op.priority for op in ops], np.uint8),
        "op_repeat": array([op.repeat for op in ops], np.uint32),
        "flow_offset": array([0, *np.cumsum(counts)], np.int64),
        "flow_path": array(list(range(len(sending))), np.int32),
        "flow_bytes": array([op.amount for op in sending], np.float64),
        "flow_latency": array([op.latency for op in sending], np.float64),
        "wait_offset": array([0, *np.cumsum([len(w) for w in waits])], np.int64),
        "wait_op": array([on for w in waits for on, _ in w], np.uint32),
        "wait_lag": array([lag for w in waits for _, lag in w], np.int8),
        **{
            f"link_change_{name}": array([], kind)
            for name, kind in (("time", float), ("link", np.int32), ("capacity", float))
        },
        **{
            f"reroute_{name}": array([], kind)
            for name, kind in (("time", float), ("flow", np.uint32), ("path", np.int32), ("latency", float))
        },
    }


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[float], list[Op]]:
    links = draw(st.integers(1, 6))
    capacity = draw(st.lists(st.sampled_from([1.0, 2.0, 5.0]), min_size=links, max_size=links))
    number = st.sampled_from([0.0, 1.0, 2.5, 4.0])
    ops: list[Op] = []
    for i in range(draw(st.integers(1, 10))):
        on = draw(st.lists(st.integers(0, links - 1), min_size=0, max_size=3, unique=True))
        waits = draw(st.lists(st.integers(0, i - 1), max_size=2, unique=True)) if i else []
        timed = draw(st.booleans()) and draw(st.booleans())
        ops.append(
            Op(
                amount=draw(st.sampled_from([0.0, 1.0, 3.0, 7.5])),
                path=None if timed else [(link, draw(st.sampled_from([1.0, 1.0, 0.5]))) for link in on],
                latency=draw(number),
                start=draw(st.sampled_from([0.0, 0.0, 3.3])),
                repeat=draw(st.sampled_from([1, 1, 2, 3])),
                weight=draw(st.sampled_from([1.0, 2.0])),
                cap=draw(st.sampled_from([math.inf, math.inf, 0.7])),
                priority=draw(st.sampled_from([0, 0, 1])),
                handover=draw(st.sampled_from([0.0, 0.0, 1.5])),
                waits=[(w, draw(st.sampled_from([-1, -1, -2]))) for w in waits],
            )
        )
    return capacity, ops


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[float], list[Op]]:
    """Rings and pipelines over shared or private links, with a few loose sends beside them."""
    links = draw(st.integers(2, 6))
    capacity = draw(st.lists(st.sampled_from([1.0, 2.0, 5.0]), min_size=links, max_size=links))
    ops: list[Op] = []
    for _ in range(draw(st.integers(1, 3))):
        size, first = draw(st.integers(1, 4)), len(ops)
        repeat = draw(st.integers(2, 40))
        ring = draw(st.booleans())
        for i in range(size):
            before = (first + (i - 1) % size, 1) if ring else (first + i - 1, 0)
            on = draw(st.lists(st.integers(0, links - 1), min_size=1, max_size=2, unique=True))
            ops.append(
                Op(
                    amount=draw(st.sampled_from([1.0, 2.0])),
                    path=[(link, 1.0) for link in on],
                    latency=draw(st.sampled_from([0.0, 0.5, 2.0])),
                    start=draw(st.sampled_from([0.0, 0.0, 1.7])),
                    repeat=repeat,
                    waits=[before] if ring or i else [],
                )
            )
    for _ in range(draw(st.integers(0, 2))):
        ops.append(
            Op(amount=draw(st.sampled_from([1.0, 9.0])), path=[(draw(st.integers(0, links - 1)), 1.0)], waits=[(0, -1)])
        )
    return capacity, ops


def compare(case: tuple[list[float], list[Op]], *, close: float) -> None:
    capacity, ops = case
    expected = simulate(capacity, ops)
    for fold in (True, False):
        raw = _native.flow_run(problem(capacity, ops), fold, 1)
        assert raw["start"] == pytest.approx([start for start, _ in expected], rel=close, abs=1e-5, nan_ok=True)
        assert raw["finish"] == pytest.approx([finish for _, finish in expected], rel=close, abs=1e-5, nan_ok=True)
        assert raw["audit"] < 1e-9


@given(graphs())
@settings(max_examples=250, deadline=None)
def test_random_graphs_run_as_in_the_slow_simulator(case: tuple[list[float], list[Op]]) -> None:
    compare(case, close=1e-6)


@given(groups())
@settings(max_examples=150, deadline=None)
def test_rings_and_pipelines_run_as_in_the_slow_simulator(case: tuple[list[float], list[Op]]) -> None:
    compare(case, close=1e-6)
