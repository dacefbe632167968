"""Paths in the engine: the same as `route`, spread, pinned, sprayed, mended after failures, indifferent to names."""

import itertools

import numpy as np
import polars as pl
import pytest

from railwright.simulate.packet.engine import simulate_packets
from railwright.simulate.packet.options import infiniband, parse_options, rocev2

MTU = 4096


def cross(leaf: int) -> list[tuple[int, int, float]]:
    return [(h, leaf + h, 400 * MTU) for h in range(leaf)]


@pytest.mark.parametrize("paths", ["spray", "spray-round-robin", "adaptive", "multipath"])
def test_spreading_packets_beats_a_collision_of_hashes(leaf_spine, sends, paths) -> None:
    net = leaf_spine(2, 8, 8)
    hashed = simulate_packets(net, sends(*cross(8)), rocev2(congestion_control="none")).flows["finish_us"].max()
    spread = (
        simulate_packets(net, sends(*cross(8)), rocev2(paths=paths, congestion_control="none")).flows["finish_us"].max()
    )
    ideal = 400 * (MTU + 82) * 8 / 400e3
    assert spread < 1.35 * ideal
    assert hashed > 1.8 * ideal


def test_adaptive_infiniband_keeps_queues_shorter_than_chance(leaf_spine, sends) -> None:
    net = leaf_spine(4, 4, 4)
    rows = sends(*((h, (h + 4) % 16, 300 * MTU) for h in range(16)))
    queue = {
        paths: simulate_packets(net, rows, infiniband(paths=paths)).links_used["queue_max_bytes"].max()
        for paths in ("adaptive", "spray")
    }
    assert queue["adaptive"] < queue["spray"]


def test_flowlets_move_after_a_gap_and_not_before(leaf_spine, sends) -> None:
    net = leaf_spine(2, 1, 8)
    options = rocev2(paths="flowlet", flowlet_gap_us=5.0)
    one = simulate_packets(net, sends((0, 1, 100 * MTU)), options)
    used = (one.links_used.filter(pl.col("forward") & (pl.col("link_id") >= 2))["bytes"] > 10 * MTU).sum()
    assert used == 1
    base = options.model_dump()
    data = {**base["classes"][0], "window_bytes": MTU}
    slow = simulate_packets(
        leaf_spine(2, 1, 8, delay_ns=5000.0),
        sends((0, 1, 100 * MTU)),
        parse_options({**base, "classes": [data, *list(base["classes"][1:])]}),
    )
    assert (slow.links_used.filter(pl.col("forward") & (pl.col("link_id") >= 2))["bytes"] > 0).sum() > 6


def test_flows_go_on_over_other_spines_when_one_dies(leaf_spine, sends) -> None:
    net = leaf_spine(2, 8, 4)
    spine = 16 + 2
    base = rocev2(congestion_control="none")
    data = base.classes[0].model_copy(update={"rto_us": 200.0})
    options = parse_options(
        {
            **base.model_dump(),
            "classes": (data, *base.classes[1:]),
            "changes": ({"time_us": 20.0, "kind": "node-down", "subject": spine},),
            "reroute_us": 50.0,
        }
    )
    result = simulate_packets(net, sends(*((h, 8 + h, 2000 * MTU) for h in range(8))), options)
    assert result.diagnosis is None
    assert result.counters["drops"] > 0
    calm = simulate_packets(net, sends(*((h, 8 + h, 2000 * MTU) for h in range(8))), base)
    assert result.flows["finish_us"].max() > calm.flows["finish_us"].max()


def test_a_link_that_comes_back_ends_the_outage(star, sends) -> None:
    base = rocev2(congestion_control="none")
    data = base.classes[0].model_copy(update={"rto_us": 100.0, "retry_limit": 0})
    changes = (
        {"time_us": 10.0, "kind": "link-down", "subject": 1},
        {"time_us": 400.0, "kind": "link-up", "subject": 1},
    )
    options = parse_options({**base.model_dump(), "classes": (data, *base.classes[1:]), "changes": changes})
    flow = simulate_packets(star(2), sends((0, 1, 1000 * MTU)), options).flows.row(0, named=True)
    alone = 1000 * (MTU + 82) * 8 / 400e3
    assert 400 < flow["finish_us"] < 400 + 100 + 3 * alone


@pytest.mark.parametrize("seed", range(6))
def test_a_host_with_two_ports_goes_on_over_the_other_one(network, sends, seed) -> None:
    net = network(4, 2, [(h, 4 + s) for h in range(4) for s in range(2)])
    base = rocev2(congestion_control="none")
    data = base.classes[0].model_copy(update={"rto_us": 100.0})
    changes = (
        {"time_us": 20.0, "kind": "link-down", "subject": 0},
        {"time_us": 22.0, "kind": "link-down", "subject": 6},
    )
    options = parse_options(
        {**base.model_dump(), "classes": (data, *base.classes[1:]), "changes": changes, "reroute_us": 10.0}
    )
    rows = sends(*((a, b, 600 * MTU, 3.0 * a) for a in range(4) for b in range(4) if a != b))
    result = simulate_packets(net, rows, options, seed)
    assert result.diagnosis is None
    assert result.links_used.filter(pl.col("link_id") == 0)["bytes"].max() < 20.0 * 400e3 / 8 + MTU + 82


def test_an_unreachable_pair_ends_with_its_operation(network, sends) -> None:
    result = simulate_packets(network(2, 2, [(0, 2), (1, 3)]), sends((0, 1, 1e6)), rocev2())
    assert result.diagnosis is not None
    assert result.diagnosis.code == "unreachable"


def test_relabelling_hosts_and_spines_does_not_change_the_set_of_times(network, sends) -> None:
    rng = np.random.default_rng(4)
    leaves, per, spines = 3, 3, 3
    hosts = leaves * per
    cables = [(h, hosts + h // per) for h in range(hosts)]
    cables += [(hosts + a, hosts + leaves + s) for a in range(leaves) for s in range(spines)]
    delay = rng.uniform(
        50, 150, len(cables)
    )  # no two arrivals at the same time, hence no tie that a label could decide
    flows = [
        (h, (h + per + int(rng.integers(0, per))) % hosts, float(rng.integers(5, 60) * MTU), float(rng.uniform(0, 3)))
        for h in range(hosts)
    ]
    via = [int(rng.integers(0, spines)) for _ in flows]

    def times(label: np.ndarray) -> np.ndarray:
        net = network(
            hosts, leaves + spines, [(int(label[a]), int(label[b])) for a, b in cables], delay_ns=delay.tolist()
        )
        number = {(int(a), int(b)): i for i, (a, b) in enumerate(zip(net.link_src, net.link_dst, strict=True))}
        paths = []
        for (src, dst, *_), spine in zip(flows, via, strict=True):
            stops = [src, hosts + src // per, hosts + leaves + spine, hosts + dst // per, dst]
            paths.append([number[(int(label[a]), int(label[b]))] for a, b in itertools.pairwise(stops)])
        rows = sends(*((int(label[s]), int(label[d]), size, start) for s, d, size, start in flows))
        pinned = (np.cumsum([0] + [len(p) for p in paths]), np.concatenate(paths).astype(np.int32))
        result = simulate_packets(net, rows, rocev2(congestion_control="none"), pinned=pinned)
        return np.sort(result.flows["fct_us"].to_numpy())

    same = np.arange(hosts + leaves + spines)
    other = np.concatenate([rng.permutation(hosts), hosts + rng.permutation(leaves + spines)])
    assert np.array_equal(times(same), times(other))
