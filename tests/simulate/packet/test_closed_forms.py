"""One flow alone: its time to the nanosecond, by hand."""

import math

import pytest

from railwright.simulate.packet.engine import simulate_packets
from railwright.simulate.packet.options import parse_options, rocev2

MTU, HEADER, ACK = 4096, 82, 86


def ns(frame_bytes: int, gbps: float) -> float:
    return frame_bytes * 8 / gbps


@pytest.mark.parametrize("gbps", [100.0, 200.0, 400.0, 800.0])
@pytest.mark.parametrize("size", [1, 4096, 4097, 1_000_000])
def test_store_and_forward_over_one_switch(star, sends, gbps, size) -> None:
    net = star(2, gbps=gbps, delay_ns=150.0, latency_ns=500.0)
    options = rocev2(forwarding="store-and-forward")
    flow = simulate_packets(net, sends((0, 1, size)), options).flows.row(0, named=True)
    packets = math.ceil(size / MTU)
    last = size - (packets - 1) * MTU + HEADER
    full = ns(MTU + HEADER, gbps)
    before_last = (packets - 1) * full
    # The last packet leaves the host after the others; the switch still sends its predecessor when it is shorter.
    at_switch = before_last + ns(last, gbps)
    switch_free = full + before_last if packets > 1 else 0.0
    expected = 150 + 500 + 150 + max(at_switch, switch_free) + ns(last, gbps)
    assert flow["fct_us"] * 1e3 == pytest.approx(expected, abs=0.01)
    assert flow["hops"] == 2


@pytest.mark.parametrize("packets", [1, 7, 256])
def test_cut_through_pays_a_header_per_switch_and_the_message_once(network, sends, packets) -> None:
    net = network(
        2, 3, [(0, 2), (2, 3), (3, 4), (4, 1)], gbps=400.0, delay_ns=[20.0, 100.0, 100.0, 20.0], latency_ns=300.0
    )
    flow = simulate_packets(net, sends((0, 1, packets * MTU)), rocev2(forwarding="cut-through")).flows.row(
        0, named=True
    )
    expected = 240 + 3 * 300 + 3 * ns(64, 400) + packets * ns(MTU + HEADER, 400)
    assert flow["fct_us"] * 1e3 == pytest.approx(expected, abs=0.01)
    assert flow["ideal_us"] == pytest.approx(flow["fct_us"], abs=1e-5)


def test_cut_through_needs_an_ingress_as_fast_as_the_egress(network, sends) -> None:
    net = network(2, 1, [(0, 2), (2, 1)], gbps=[100.0, 400.0], delay_ns=0.0)
    flow = simulate_packets(net, sends((0, 1, MTU)), rocev2(forwarding="cut-through")).flows.row(0, named=True)
    assert flow["fct_us"] * 1e3 == pytest.approx(ns(MTU + HEADER, 100) + ns(MTU + HEADER, 400), abs=0.01)


def test_the_slowest_link_of_a_chain_sets_the_pace(network, sends) -> None:
    net = network(2, 2, [(0, 2), (2, 3), (3, 1)], gbps=[400.0, 100.0, 200.0], delay_ns=[10.0, 20.0, 30.0])
    packets = 50
    options = rocev2(forwarding="store-and-forward", congestion_control="none")
    flow = simulate_packets(net, sends((0, 1, packets * MTU)), options).flows.row(0, named=True)
    frame = MTU + HEADER
    assert flow["fct_us"] * 1e3 == pytest.approx(
        60 + ns(frame, 400) + packets * ns(frame, 100) + ns(frame, 200), abs=0.01
    )


def test_acknowledged_finish_adds_the_way_back(star, sends) -> None:
    net = star(2, delay_ns=100.0, latency_ns=250.0)
    times = {
        finish: simulate_packets(
            net, sends((0, 1, 10 * MTU)), rocev2(finish=finish, forwarding="store-and-forward")
        ).flows["fct_us"][0]
        for finish in ("received", "acknowledged")
    }
    back = 200 + 250 + 2 * ns(ACK, 400)
    assert (times["acknowledged"] - times["received"]) * 1e3 == pytest.approx(back, abs=0.01)


def test_two_equal_flows_share_a_link_equally(star, sends) -> None:
    size = 200 * MTU
    flows = simulate_packets(star(3), sends((0, 2, size), (1, 2, size)), rocev2(congestion_control="none")).flows
    first, second = sorted(flows["finish_us"])
    assert second - first == pytest.approx(ns(MTU + HEADER, 400) / 1e3, abs=1e-5)


def test_a_message_on_several_queue_pairs_takes_as_long_as_on_one(star, sends) -> None:
    size = 64 * MTU
    one = simulate_packets(star(2), sends((0, 1, size)), rocev2()).flows["fct_us"][0]
    base = rocev2()
    data = base.classes[0].model_copy(update={"queue_pairs": 4})
    many = parse_options({**base.model_dump(), "classes": (data, *base.classes[1:])})
    assert simulate_packets(star(2), sends((0, 1, size)), many).flows["fct_us"][0] == pytest.approx(one)


def test_a_send_to_itself_and_an_empty_one_take_no_time(star, sends) -> None:
    flows = simulate_packets(star(2), sends((0, 0, 1e6), (0, 1, 0)), rocev2()).flows
    assert flows["fct_us"].to_list() == [0.0, 0.0]
