"""Losses: who sends what again, timeouts, and the named end of a run whose last packet is gone."""

import pytest

from railwright.simulate.packet.engine import simulate_packets
from railwright.simulate.packet.options import PacketOptions, parse_options, rocev2

MTU = 4096


def with_loss(probability: float, *, paths: str = "ecmp", burst: float = 1.0, **changes: object) -> PacketOptions:
    base = rocev2(congestion_control="none", paths=paths)
    data = base.classes[0].model_copy(update={"rto_us": 500.0, "retry_limit": 0, **changes})
    losses = ({"cable": 0, "probability": probability, "burst_packets": burst},)
    return parse_options({**base.model_dump(), "classes": (data, *base.classes[1:]), "losses": losses})


@pytest.mark.parametrize("selective", [False, True])
@pytest.mark.parametrize("burst", [1.0, 8.0])
def test_every_byte_arrives_over_a_bad_cable(star, sends, selective, burst) -> None:
    options = with_loss(0.01, burst=burst, selective_repeat=selective)
    result = simulate_packets(star(2), sends((0, 1, 2000 * MTU)), options, 3)
    assert result.diagnosis is None
    assert result.counters["corrupted"] > 0
    assert result.flows["retransmitted_bytes"][0] >= MTU


def test_selective_repeat_sends_less_again_than_go_back_n(star, sends) -> None:
    again = {
        selective: simulate_packets(
            star(2, delay_ns=2000.0), sends((0, 1, 4000 * MTU)), with_loss(0.002, selective_repeat=selective), 5
        ).flows["retransmitted_bytes"][0]
        for selective in (False, True)
    }
    assert again[True] < again[False] / 5


def test_share_of_corrupted_packets_is_what_was_asked(star, sends) -> None:
    packets = 50_000
    for burst in (1.0, 10.0):
        options = with_loss(0.02, burst=burst, selective_repeat=True)
        options = parse_options({**options.model_dump(), "ack_every": 64})
        result = simulate_packets(star(2), sends((0, 1, packets * MTU)), options, 7)
        lost = result.counters["corrupted"]
        crossed = (result.counters["packet_hops"] + lost) / 2  # what is lost on the first of two links crosses but one
        assert lost / crossed == pytest.approx(0.02, rel=0.2)


def test_a_lost_tail_without_timeout_is_named(star, sends) -> None:
    runs = [simulate_packets(star(2), sends((0, 1, MTU)), with_loss(0.5, rto_us=0.0), seed) for seed in range(8)]
    stuck = [run.diagnosis for run in runs if run.diagnosis is not None]
    assert 0 < len(stuck) < len(runs)
    assert {diagnosis.code for diagnosis in stuck} == {"lost-tail"}
    assert "rto_us" in stuck[0].message
    assert stuck[0].places == ["operation 0 (h0 → h1)"]


def test_a_lost_tail_with_timeout_arrives(star, sends) -> None:
    runs = [simulate_packets(star(2), sends((0, 1, MTU)), with_loss(0.5), seed) for seed in range(8)]
    assert all(run.diagnosis is None for run in runs)
    assert sum(run.counters["timeouts"] for run in runs) > 0
    assert all(run.flows["fct_us"][0] > 500 for run in runs if run.counters["timeouts"])


def test_retries_run_out_on_a_dead_path(star, sends) -> None:
    down = ({"time_us": 0.5, "kind": "link-down", "subject": 1},)
    base = rocev2(congestion_control="none")
    data = base.classes[0].model_copy(update={"rto_us": 100.0})
    options = parse_options(
        {**base.model_dump(), "classes": (data, *base.classes[1:]), "changes": down, "reroute_us": 1e5}
    )
    result = simulate_packets(star(2), sends((0, 1, 1000 * MTU)), options)
    assert result.diagnosis is not None
    assert result.diagnosis.code == "retry-exceeded"


def test_spray_delivers_each_byte_once_and_sends_none_again(leaf_spine, sends) -> None:
    net = leaf_spine(2, 4, 4)
    rows = [(h, 4 + h, 500 * MTU) for h in range(4)]
    result = simulate_packets(net, sends(*rows), rocev2(paths="spray", congestion_control="none"))
    assert result.diagnosis is None
    assert result.counters["out_of_order"] > 0
    assert result.counters["retransmitted_packets"] == 0
    assert result.counters["data_packet_hops"] == 4 * 500 * 4


def test_timeout_under_spray_does_not_count_twice(leaf_spine, sends) -> None:
    net = leaf_spine(2, 4, 4)
    options = with_loss(0.02, paths="spray", selective_repeat=True, reorder_packets=-1, rto_us=50.0)
    result = simulate_packets(net, sends(*((h, 4 + h, 500 * MTU) for h in range(4))), options, 11)
    assert result.diagnosis is None
    assert result.counters["timeouts"] > 0
    # Only hosts of the bad cable lose; what is sent again is a few packets, not whole windows.
    assert result.flows["retransmitted_bytes"].sum() < 200 * MTU
    assert result.flows["retransmitted_bytes"][1:].sum() == 0


def test_tcp_fills_its_link_and_recovers_from_drops(star, sends) -> None:
    net = star(3, gbps=25.0, delay_ns=5000.0, buffer_bytes=400_000.0)
    options = rocev2(mtu_bytes=1448, header_bytes=90)
    rows = sends((0, 2, 20e6), (1, 2, 20e6), **{"class": "best_effort", "direction": "north_south"})
    result = simulate_packets(net, rows, options)
    assert result.diagnosis is None
    assert result.counters["drops"] > 0
    assert result.counters["pause_frames"] == 0
    ideal = 40e6 * 8 / 25e3
    # Slow start overshoots; a retransmission that is lost too costs the least timeout, 5 ms.
    assert ideal < result.flows["finish_us"].max() < ideal + 6_000


def test_a_short_tcp_flow_needs_the_rounds_of_slow_start(star, sends) -> None:
    net = star(2, gbps=100.0, delay_ns=50_000.0)
    rows = sends((0, 1, 70 * 4096), **{"class": "best_effort", "direction": "north_south"})
    flow = simulate_packets(net, rows, rocev2()).flows.row(0, named=True)
    assert flow["fct_us"] == pytest.approx(
        2 * 200 + 100, rel=0.1
    )  # 10, 20, 40 packets: two round trips and half of one
