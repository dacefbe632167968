"""Congestion control and scheduling: fixed points, fairness, short queues, shares of classes."""

import numpy as np
import polars as pl
import pytest

from railwright.simulate.packet.engine import simulate_packets
from railwright.simulate.packet.options import PacketOptions, infiniband, parse_options, rocev2

MTU = 4096
WIRE = (MTU + 82) / MTU


def incast(n: int, size: float) -> list[tuple[int, int, float]]:
    return [(h, n, size) for h in range(n)]


@pytest.mark.parametrize("control", ["dcqcn", "hpcc", "dctcp"])
def test_a_congestion_control_keeps_the_queue_below_that_of_none(star, sends, control) -> None:
    def longest(name: str) -> float:
        base = rocev2(congestion_control=name)
        data = base.classes[0].model_copy(update={"kmin_bytes": 2e5, "kmax_bytes": 4e5, "pmax": 1.0})
        options = parse_options({**base.model_dump(), "classes": (data, *base.classes[1:])})
        return simulate_packets(star(9), sends(*incast(8, 4e6)), options).links_used["queue_max_bytes"].max()

    assert longest(control) < 0.6 * longest("none")


def test_hpcc_leaves_almost_no_queue_and_little_of_the_link_unused(star, sends) -> None:
    net = star(5, gbps=100.0, delay_ns=1000.0)
    options = rocev2(congestion_control="hpcc", header_bytes=124, ack_bytes=128)
    result = simulate_packets(net, sends(*incast(4, 8e6)), options)
    samples = simulate_packets(
        net, sends(*incast(4, 8e6)), parse_options({**options.model_dump(), "sample_us": 10.0})
    ).samples
    late = samples.filter(pl.col("time_us") > 300)["queued_bytes"]
    assert late.len() == 0 or late.max() < 100e9 / 8 * 4.6e-6  # less than the bandwidth-delay product
    ideal = 32e6 * (MTU + 124) / MTU * 8 / 100e3
    assert result.flows["finish_us"].max() < ideal / 0.95 * 1.1


def test_two_dcqcn_flows_that_start_apart_converge_to_equal_shares(star, sends) -> None:
    # The first has the link for itself for 0.5 ms; both then run to 20 ms. Shares over the last half are near equal.
    net = star(3, gbps=40.0, delay_ns=2000.0, buffer_bytes=12e6)
    base = rocev2(mtu_bytes=1024)
    data = base.classes[0].model_copy(
        update={"kmin_bytes": 5e3, "kmax_bytes": 200e3, "pmax": 0.01}
    )  # Zhu et al., table 4
    options = parse_options({**base.model_dump(), "classes": (data, *base.classes[1:])})

    def carried(until_us: float) -> np.ndarray:
        rows = sends((0, 2, 2e8), (1, 2, 2e8, 500.0))
        result = simulate_packets(net, rows, options.model_copy(update={"time_limit_us": until_us}), 1)
        forward = result.links_used.filter(pl.col("forward"))
        return forward["bytes"].to_numpy()[:2]

    second_half = carried(20_000.0) - carried(10_000.0)
    assert second_half.min() / second_half.max() > 0.7
    assert second_half.sum() * 8 / 1e4 > 0.9 * 40e3  # bits per us: the link stays busy


@pytest.mark.parametrize("flows", [2, 4, 8])
def test_dcqcn_queue_stands_at_the_fixed_point_of_the_fluid_model(star, sends, flows) -> None:
    """Zhu et al. 2015, section 5: p* = cbrt(R_AI N^2 / (tau C^2) (1/B + N/(T C))^2), in packets; queue by the RED line."""
    net = star(flows + 1, gbps=40.0, delay_ns=2000.0, buffer_bytes=12e6)
    base = rocev2(mtu_bytes=1024, sample_us=20.0, time_limit_us=60_000.0)
    kmin, kmax, pmax = 5e3, 200e3, 0.01
    data = base.classes[0].model_copy(update={"kmin_bytes": kmin, "kmax_bytes": kmax, "pmax": pmax})
    options = parse_options({**base.model_dump(), "classes": (data, *base.classes[1:])})
    samples = simulate_packets(net, sends(*incast(flows, 1e9)), options).samples
    queue = samples.filter((pl.col("time_us") > 30_000) & (pl.col("link_id") == flows) & ~pl.col("forward"))
    mean_bytes = queue["queued_bytes"].sum() / (30_000 / 20)
    packet = 8 * 1024
    capacity, additive, counter = 40e9 / packet, 40e6 / packet, 10e6 / 1024
    marked = np.cbrt(additive * flows**2 / (50e-6 * capacity**2) * (1 / counter + flows / (55e-6 * capacity)) ** 2)
    assert mean_bytes == pytest.approx(kmin + marked / pmax * (kmax - kmin), rel=0.3)


def test_infiniband_congestion_control_spares_a_victim_of_credits(network, sends) -> None:
    # As above with credits: the incast stops the uplinks, the victim waits behind it; BECNs slow the incast down instead.
    cables = [(h, 15 + h // 5) for h in range(15)] + [(15, 18), (16, 18), (17, 18)]
    net = network(15, 4, cables, gbps=[100.0] * 15 + [400.0] * 3)
    rows = sends(*((h, 10, 40e6) for h in (0, 1, 2, 3, 5, 6, 7, 8)), (4, 11, 10e6, 5000.0))

    def victim(control: str) -> float:
        base = infiniband(paths="ecmp", congestion_control=control)
        data = base.classes[0].model_copy(update={"kmin_bytes": 20e3, "kmax_bytes": 40e3, "pmax": 0.05})
        result = simulate_packets(net, rows, parse_options({**base.model_dump(), "classes": (data, *base.classes[1:])}))
        assert result.counters["drops"] == 0
        return result.flows["fct_us"][8] / result.flows["ideal_us"][8]

    assert victim("ibcc") < 0.6 * victim("none")


def two_classes(first: dict[str, object], second: dict[str, object]) -> PacketOptions:
    plain = {"rto_us": 0.0, "congestion_control": "none"}
    classes = [{"name": "data", **plain, **first}, {"name": "other", **plain, **second}]
    return parse_options({"classes": classes, "notify_class": "data"})


def shares(star, sends, options: PacketOptions) -> tuple[float, float]:
    rows = sends((0, 2, 4e6), (1, 2, 4e6), **{"class": ["data", "other"]})
    finish = simulate_packets(star(3), rows, options).flows["finish_us"].to_list()
    return finish[0], finish[1]


def test_a_strict_class_takes_what_it_wants(star, sends) -> None:
    data, other = shares(star, sends, two_classes({}, {"strict": True}))
    assert other == pytest.approx(4e6 * WIRE * 8 / 400e3, rel=0.01)
    assert data == pytest.approx(2 * other, rel=0.01)


@pytest.mark.parametrize("weight", [1, 3, 9])
def test_weighted_classes_share_by_weight(star, sends, weight) -> None:
    data, other = shares(star, sends, two_classes({"weight": 1}, {"weight": weight}))
    alone = 4e6 * WIRE * 8 / 400e3
    assert other == pytest.approx(alone * (1 + 1 / weight), rel=0.02)
    assert data == pytest.approx(2 * alone, rel=0.02)


@pytest.mark.parametrize("weight", [1, 3, 9])
def test_virtual_lanes_share_a_link_by_their_arbitration_weights(star, sends, weight) -> None:
    """Both lanes have packets all the time: the heavier gets its weight of the rate until it is done (IBTA volume 1, 7.6.9)."""
    lanes = infiniband(paths="ecmp", classes=[{"name": "data"}, {"name": "management", "weight": weight}])
    rows = sends((0, 2, 4e6), (1, 2, 4e6), **{"class": ["data", "management"]})
    data, other = simulate_packets(star(3), rows, lanes).flows["finish_us"]
    alone = 4e6 * (MTU + 26) / MTU * 8 / 400e3
    assert other == pytest.approx(alone * (1 + 1 / weight), rel=0.02)
    assert data == pytest.approx(2 * alone, rel=0.02)


def test_a_high_priority_lane_passes_a_lane_without_credits(network, sends) -> None:
    """A stalled lane keeps its own credits only: the other lane of the same cables runs at line rate past it."""
    net = network(3, 2, [(0, 3), (3, 4), (4, 1), (4, 2)], gbps=[400.0, 400.0, 1.0, 400.0])
    lanes = infiniband(paths="ecmp", classes=[{"name": "data"}, {"name": "management", "strict": True}])
    rows = sends((0, 1, 4e6), (0, 2, 4e6, 50.0), **{"class": ["data", "management"]})
    flow = simulate_packets(net, rows, lanes).flows.row(1, named=True)
    assert flow["fct_us"] < 1.1 * flow["ideal_us"]


def test_a_victim_of_pause_is_spared_by_dcqcn(network, sends) -> None:
    # Hosts below two leaves fill host 10 below the third; the victim goes to the idle host 11 there. The uplinks (400G)
    # are wide enough for all: under pause alone the victim waits because they stop, not because they are full.
    cables = [(h, 15 + h // 5) for h in range(15)] + [(15, 18), (16, 18), (17, 18)]
    net = network(15, 4, cables, gbps=[100.0] * 15 + [400.0] * 3, buffer_bytes=2e6)
    rows = sends(*((h, 10, 80e6) for h in (0, 1, 2, 3, 5, 6, 7, 8)), (4, 11, 80e6, 5000.0))

    def run(control: str) -> tuple[float, float]:
        base = rocev2(congestion_control=control)
        data = base.classes[0].model_copy(update={"kmin_bytes": 5e3, "kmax_bytes": 200e3, "pmax": 0.01})
        result = simulate_packets(net, rows, parse_options({**base.model_dump(), "classes": (data, *base.classes[1:])}))
        return result.flows["fct_us"][8] / result.flows["ideal_us"][8], result.counters["paused_us"]

    alone, paused_alone = run("none")
    controlled, paused_controlled = run("dcqcn")
    assert paused_controlled < 0.2 * paused_alone
    assert alone > 2.5
    assert controlled < 0.6 * alone


def test_parking_lot_gives_the_long_flow_the_least(network, sends) -> None:
    # Flow 0 crosses three switches, each of which adds a competitor on the next link (PFC alone, one class).
    net = network(6, 3, [(0, 6), (1, 6), (2, 7), (3, 8), (4, 8), (5, 8), (6, 7), (7, 8)], gbps=100.0, buffer_bytes=2e6)
    rows = sends((0, 4, 2e6), (1, 4, 2e6), (2, 4, 2e6), (3, 4, 2e6))
    finish = simulate_packets(net, rows, rocev2(congestion_control="none")).flows["finish_us"]
    assert finish[3] < finish[2] < finish[0]
