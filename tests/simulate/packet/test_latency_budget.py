"""Where the time goes: parts that add up, each of them where its cause is and nowhere else; ideal times of repeated sends."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railwright.simulate.packet.budget import PARTS
from railwright.simulate.packet.engine import PacketResult, simulate_packets
from railwright.simulate.packet.options import PATHS, infiniband, parse_options, rocev2

MTU, FRAME = 4096, 4178
FRAME_US = FRAME * 8 / 400e3


def row(result: PacketResult, of: str = "all") -> dict[str, float]:
    found = result.budget.filter(pl.col("of") == of)
    assert found.height == 1
    return found.row(0, named=True)


def adds_up(result: PacketResult) -> bool:
    total = result.budget.select(pl.sum_horizontal(f"{part}_us" for part in PARTS)).to_series()
    return np.allclose(total, result.budget["fct_us"], atol=1e-5)


def test_an_idle_path_is_serialisation_propagation_and_switching(network, sends) -> None:
    net = network(2, 2, [(0, 2), (2, 3), (3, 1)], delay_ns=[20.0, 100.0, 30.0], latency_ns=600.0)
    options = rocev2(forwarding="store-and-forward", latency_budget=True)
    told = row(simulate_packets(net, sends((0, 1, 10 * MTU)), options))
    assert told["propagation_us"] == pytest.approx(0.150)
    assert told["switching_us"] == pytest.approx(1.2)
    assert told["serialisation_us"] == pytest.approx(
        12 * FRAME_US
    )  # the message once, a packet at each of two switches
    assert [told[f"{part}_us"] for part in ("sender", "queueing", "pause", "retransmit", "late")] == [0, 0, 0, 0, 0]


def test_the_second_of_two_flows_of_a_host_waits_at_the_sender(star, sends) -> None:
    result = simulate_packets(star(3), sends((0, 1, MTU), (0, 2, MTU)), rocev2(latency_budget=True))
    assert row(result)["sender_us"] == pytest.approx(FRAME_US / 2)  # none and one packet
    assert row(result, "slowest 1%")["sender_us"] == pytest.approx(FRAME_US)
    assert row(result)["queueing_us"] == 0


def test_packets_that_meet_at_a_switch_queue_there(star, sends) -> None:
    result = simulate_packets(star(4), sends(*((h, 3, MTU) for h in range(3))), rocev2(latency_budget=True))
    assert row(result)["queueing_us"] == pytest.approx((0 + 1 + 2) * FRAME_US / 3)
    assert row(result)["sender_us"] == row(result)["pause_us"] == 0


def test_a_pause_counts_as_such_at_the_switch_and_at_the_sender(star, sends) -> None:
    storm = ({"time_us": 0.0, "kind": "storm-on", "subject": 1}, {"time_us": 50.0, "kind": "storm-off", "subject": 1})
    for size in (MTU, 4000 * MTU):  # one packet waits at the switch; the long message fills it and stops its own host
        base = rocev2(congestion_control="none", changes=storm, latency_budget=True)
        told = row(simulate_packets(star(2, buffer_bytes=1e6), sends((0, 1, size, 1.0)), base))
        assert 40 < told["pause_us"] < 51
        assert told["queueing_us"] + told["sender_us"] < 10
        assert told["serialisation_us"] == pytest.approx((math.ceil(size / MTU)) * FRAME_US, rel=0.1)


def test_a_corrupted_last_packet_costs_its_timeout(star, sends) -> None:
    base = rocev2(congestion_control="none", latency_budget=True, losses=({"cable": 0, "probability": 0.5},))
    data = base.classes[0].model_copy(update={"rto_us": 100.0, "retry_limit": 0})
    options = parse_options({**base.model_dump(), "classes": (data, *base.classes[1:])})
    waits = set()
    for seed in range(12):
        result = simulate_packets(star(2), sends((0, 1, MTU)), options, seed)
        waits.add(round(row(result)["retransmit_us"], 6))
        assert adds_up(result)
        assert row(result)["late_us"] == 0
    assert waits <= {100.0 * n for n in range(20)}
    assert len(waits) > 1


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    flows=st.lists(
        st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(1, 60 * MTU), st.floats(0, 20)),
        min_size=1,
        max_size=24,
    ),
    paths=st.sampled_from(sorted(PATHS)),
    repeat=st.integers(1, 4),
    transport=st.sampled_from([rocev2, infiniband]),
)
def test_parts_are_never_negative_and_add_up(leaf_spine, sends, flows, paths, repeat, transport) -> None:
    net = leaf_spine(2, 4, 2, buffer_bytes=600_000.0, latency_ns=300.0)
    options = transport(paths=paths, latency_budget=True)
    result = simulate_packets(net, sends(*flows, repeat=repeat), options, 1)
    assert adds_up(result)
    if result.budget.height:
        assert result.budget.select(pl.min_horizontal(f"{part}_us" for part in PARTS).min()).item() > -1e-5
    assert (result.flows["fct_us"] >= result.flows["ideal_us"] - 1e-6).all()


@pytest.mark.parametrize("forwarding", ["store-and-forward", "cut-through"])
@pytest.mark.parametrize("gbps", [(400.0, 400.0, 400.0), (400.0, 100.0, 200.0), (100.0, 400.0, 100.0)])
@pytest.mark.parametrize("size", [100, MTU + 1, 20 * MTU, 20 * MTU + 100])
@pytest.mark.parametrize("repeat", [1, 2, 5, 40])
def test_repeated_sends_alone_have_a_slowdown_of_one(network, sends, forwarding, gbps, size, repeat) -> None:
    net = network(2, 2, [(0, 2), (2, 3), (3, 1)], gbps=gbps, delay_ns=[10.0, 20.0, 30.0], latency_ns=300.0)
    options = rocev2(congestion_control="none", forwarding=forwarding)
    flow = simulate_packets(net, sends((0, 1, size), repeat=repeat), options).flows.row(0, named=True)
    assert flow["fct_us"] == pytest.approx(flow["ideal_us"], abs=2e-5)


def test_the_ideal_of_repeated_sends_is_one_latency_and_all_the_bytes(star, sends) -> None:
    flow = simulate_packets(star(2, latency_ns=500.0), sends((0, 1, 7 * MTU), repeat=30), rocev2()).flows
    head = 0.2 + 0.5 + 64 * 8 / 400e3
    assert flow["ideal_us"][0] == pytest.approx(head + 210 * FRAME_US, abs=1e-5)


def test_no_budget_is_kept_unless_asked_for(star, sends) -> None:
    assert simulate_packets(star(2), sends((0, 1, MTU)), rocev2()).budget.is_empty()
