"""The dependency graph: what waits for what, repetitions, computation, and a cycle that is named."""

import polars as pl
import pytest

from railwright.errors import InputError
from railwright.simulate.packet.engine import simulate_packets
from railwright.simulate.packet.options import rocev2
from railwright.tables import conform
from railwright.workload.traffic import unfold

MTU = 4096
PACKET_US = (MTU + 82) * 8 / 400e3
"""One full RoCEv2 packet on a cable of the default 400 Gb/s."""


def test_a_send_starts_when_the_one_before_has_arrived(star, sends) -> None:
    traffic = sends((0, 1, 50 * MTU), (1, 2, 50 * MTU), after=[[], [0]])
    flows = simulate_packets(star(3), traffic, rocev2()).flows
    assert flows["start_us"][1] == flows["finish_us"][0]


def test_barrier_and_computation_hold_what_follows(star, sends) -> None:
    traffic = sends(
        (0, 1, 10 * MTU), (2, 1, 40 * MTU), (0, 0, 0), (0, 0, 0), (1, 0, MTU), after=[[], [], [0, 1], [2], [3]]
    )
    traffic = traffic.with_columns(
        kind=pl.Series(["send", "send", "barrier", "compute", "send"]), duration_us=pl.Series([0.0, 0.0, 0.0, 7.5, 0.0])
    )
    flows = simulate_packets(star(3), traffic, rocev2()).flows
    assert flows.height == 3
    assert flows["start_us"][2] == pytest.approx(flows["finish_us"][:2].max() + 7.5, abs=1e-9)


def test_repetitions_follow_one_another_when_the_last_byte_has_left(star, sends) -> None:
    one = simulate_packets(star(2), sends((0, 1, 20 * MTU)), rocev2()).flows
    five = simulate_packets(star(2), sends((0, 1, 20 * MTU), repeat=5), rocev2()).flows
    assert five["fct_us"][0] == pytest.approx(one["fct_us"][0] + 4 * 20 * PACKET_US, rel=1e-3)
    assert five["bytes"][0] == 5 * one["bytes"][0]
    assert five["ideal_us"][0] == pytest.approx(one["ideal_us"][0] + 4 * 20 * PACKET_US, rel=1e-9)
    assert five["fct_us"][0] >= five["ideal_us"][0]


def test_start_time_and_delay_of_a_send_are_kept(star, sends) -> None:
    flows = simulate_packets(star(2), sends((0, 1, MTU, 12.0), duration_us=3.0), rocev2()).flows
    assert flows["start_us"][0] == pytest.approx(15.0)


def test_operations_that_wait_for_each_other_are_named(star, sends) -> None:
    result = simulate_packets(star(2), sends((0, 1, MTU), (1, 0, MTU), after=[[1], [0]]), rocev2())
    assert result.diagnosis is not None
    assert result.diagnosis.code == "dependency-cycle"
    assert result.diagnosis.places == ["operation 0 (h0 → h1)", "operation 1 (h1 → h0)"]
    assert result.flows["finish_us"].null_count() == 2


def test_waiting_for_an_operation_that_is_not_there_is_an_error(star, sends) -> None:
    with pytest.raises(InputError, match="operation 0 waits for operation 9"):
        simulate_packets(star(2), sends((0, 1, MTU), after=[[9]]), rocev2())


def test_a_long_chain_uses_the_places_of_flows_again(star, sends) -> None:
    n = 3000
    rows = [(i % 4, (i + 1) % 4, 3 * MTU) for i in range(n)]
    result = simulate_packets(star(4), sends(*rows, after=[[]] + [[i] for i in range(n - 1)]), rocev2())
    assert result.diagnosis is None
    assert (result.flows["start_us"].diff()[1:] > 0).all()


def test_a_folded_ring_of_alike_edges_takes_as_long_as_its_steps_written_out(star, sends) -> None:
    ring = sends(*((h, (h + 1) % 6, 4 * MTU) for h in range(6)), repeat=10, group=3)
    folded = simulate_packets(star(6), ring, rocev2()).flows
    written = simulate_packets(star(6), unfold(conform("traffic", ring)), rocev2()).flows
    assert written.height == 60
    assert folded["finish_us"].max() == pytest.approx(written["finish_us"].max(), rel=1e-9)


def test_a_slow_cable_sets_the_pace_of_the_whole_ring(star, sends) -> None:
    net = star(6, gbps=[400.0, 400.0, 100.0, 400.0, 400.0, 400.0])
    ring = sends(*((h, (h + 1) % 6, 4 * MTU) for h in range(6)), repeat=10, group=3)
    finish = simulate_packets(net, ring, rocev2()).flows["finish_us"]
    slow = 4 * 4 * PACKET_US
    trip = 2 * slow + 4 * slow / 4 + 6 * 0.2
    assert 10 * slow < finish.max() < 10 * slow + trip
    alone = simulate_packets(net, ring.with_columns(group=pl.lit(None, pl.UInt32)), rocev2()).flows
    assert alone["finish_us"].min() < 0.5 * finish.min()


def test_a_folded_pipeline_hands_on_piece_by_piece(star, sends) -> None:
    chain = sends(*((h, h + 1, 8 * MTU) for h in range(4)), repeat=6, group=0, after=[[], [0], [1], [2]])
    folded = simulate_packets(star(5), chain, rocev2()).flows
    written = simulate_packets(star(5), unfold(chain), rocev2()).flows
    assert folded["finish_us"].max() < written["finish_us"].max()
    one = simulate_packets(star(5), sends((0, 1, 8 * MTU)), rocev2()).flows["fct_us"][0]
    # Acknowledgements share the cables.
    assert folded["finish_us"].max() == pytest.approx(4 * one + 5 * 8 * PACKET_US, rel=0.02)


def test_a_long_chain_of_empty_operations_ends(star, sends) -> None:
    n = 100_000
    chain = pl.concat([sends((0, 1, 0))] * n).with_columns(
        op_id=pl.Series(range(n)), after=pl.Series([[]] + [[i] for i in range(n - 1)]), kind=pl.lit("barrier")
    )
    result = simulate_packets(star(2), chain, rocev2())
    assert result.diagnosis is None
