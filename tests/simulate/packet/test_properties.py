"""Invariants on random small networks: bytes are conserved, the same seed gives the same bytes, lossless loses nothing."""

import math

import numpy as np
import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railwright.simulate.packet.engine import simulate_packets
from railwright.simulate.packet.options import PATHS, infiniband, rocev2

MTU = 4096
SETTINGS = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
FLOWS = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(1, 60 * MTU), st.floats(0, 20, allow_nan=False)),
    min_size=1,
    max_size=24,
)


def packets(size: float) -> int:
    return math.ceil(size / MTU)


@SETTINGS
@given(
    flows=FLOWS,
    paths=st.sampled_from(sorted(PATHS)),
    control=st.sampled_from(["none", "dcqcn", "dctcp"]),
    seed=st.integers(0, 99),
)
def test_rocev2_conserves_bytes_and_loses_nothing(leaf_spine, sends, flows, paths, control, seed) -> None:
    net = leaf_spine(2, 4, 2, buffer_bytes=600_000.0, latency_ns=300.0)
    options = rocev2(paths=paths, congestion_control=control, scale_up=False)
    result = simulate_packets(net, sends(*flows), options, seed)
    assert result.diagnosis is None
    assert result.counters["drops"] == 0
    assert result.counters["retransmitted_packets"] == 0
    sent = [(s, d, size) for s, d, size, _ in flows if s != d]
    assert result.counters["data_packets"] == sum(packets(size) for *_, size in sent)
    assert result.counters["data_packet_hops"] == sum(
        packets(size) * (2 if s // 4 == d // 4 else 4) for s, d, size in sent
    )
    assert (result.flows["fct_us"] >= result.flows["ideal_us"] - 1e-6).all()
    if paths in ("ecmp", "polarised", "rail"):
        assert result.counters["out_of_order"] == 0


@SETTINGS
@given(
    flows=FLOWS,
    paths=st.sampled_from(["ecmp", "adaptive", "spray"]),
    credit=st.integers(9000, 200_000),
    seed=st.integers(0, 99),
)
def test_infiniband_never_drops_nor_exceeds_a_buffer(leaf_spine, sends, flows, paths, credit, seed) -> None:
    net = leaf_spine(2, 4, 2, latency_ns=200.0)
    result = simulate_packets(net, sends(*flows), infiniband(paths=paths, credit_bytes=credit), seed)
    assert result.diagnosis is None
    assert result.counters["drops"] == 0
    inputs = 6  # links into a switch, each with one buffer per lane
    assert result.links_used["queue_max_bytes"].max() <= inputs * credit or not result.links_used.height


@SETTINGS
@given(flows=FLOWS, seed=st.integers(0, 2**63 - 1), paths=st.sampled_from(["ecmp", "spray", "flowlet"]))
def test_same_seed_same_bytes(leaf_spine, sends, flows, seed, paths) -> None:
    net = leaf_spine(2, 4, 2, buffer_bytes=600_000.0)
    options = rocev2(paths=paths, losses=({"cable": 1, "probability": 0.01},))
    first, again = (simulate_packets(net, sends(*flows), options, seed) for _ in range(2))
    assert first.flows.equals(again.flows)
    assert first.links_used.equals(again.links_used)
    assert first.counters["events"] == again.counters["events"]


@SETTINGS
@given(flows=FLOWS, loss=st.floats(0.0005, 0.05), selective=st.booleans(), seed=st.integers(0, 99))
def test_every_message_arrives_over_bad_cables(leaf_spine, sends, flows, loss, selective, seed) -> None:
    net = leaf_spine(2, 4, 2)
    base = rocev2(congestion_control="none")
    data = base.classes[0].model_copy(update={"rto_us": 100.0, "retry_limit": 0, "selective_repeat": selective})
    losses = tuple({"cable": cable, "probability": loss} for cable in range(4))
    options = rocev2(congestion_control="none", classes=(data, *base.classes[1:]), losses=losses)
    result = simulate_packets(net, sends(*flows), options, seed)
    assert result.diagnosis is None
    assert result.flows["finish_us"].null_count() == 0


@SETTINGS
@given(n=st.integers(2, 7), packets_each=st.integers(1, 80), small=st.integers(300_000, 900_000))
def test_more_buffer_never_delays_the_end_of_an_incast(star, sends, n, packets_each, small) -> None:
    rows = sends(*((h, n, packets_each * MTU) for h in range(n)))
    options = rocev2(congestion_control="none")
    last = [
        simulate_packets(star(n + 1, buffer_bytes=float(size)), rows, options).flows["finish_us"].max()
        for size in (small, 10 * small)
    ]
    assert last[1] <= last[0] + 1e-9


@SETTINGS
@given(
    size=st.integers(1, 400_000),
    hops=st.integers(1, 4),
    gbps=st.lists(st.sampled_from([25.0, 100.0, 400.0]), min_size=5, max_size=5),
    forwarding=st.sampled_from(["store-and-forward", "cut-through"]),
)
def test_a_flow_alone_takes_its_ideal_time(network, sends, size, hops, gbps, forwarding) -> None:
    cables = [(0, 2), *((2 + i, 3 + i) for i in range(hops - 1)), (1 + hops, 1)]
    net = network(2, hops, cables, gbps=gbps[: len(cables)])
    options = rocev2(congestion_control="none", forwarding=forwarding)
    flow = simulate_packets(net, sends((0, 1, size)), options).flows.row(0, named=True)
    assert np.isclose(flow["fct_us"], flow["ideal_us"], atol=1e-5)


def test_tables_have_their_schema_and_every_link_both_ways(star, sends) -> None:
    result = simulate_packets(star(3), sends((0, 1, MTU)), rocev2())
    assert result.links_used.height == 6
    assert result.links_used.filter(pl.col("link_id") == 0)["forward"].to_list() == [True, False]
    assert result.links_used["bytes"][0] == MTU + 82
