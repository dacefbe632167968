"""Folding: alike operations are computed once, and the result is that of computing each."""

import numpy as np
import pytest

from railwright.simulate.flow.engine import FlowOptions, simulate_flows
from railwright.simulate.results import EngineResult
from railwright.workload.collectives import collective_traffic
from railwright.workload.placement import Placement

SIZE = 64 * 2.0**20


def both(network, traffic, **options: object) -> tuple[EngineResult, EngineResult]:
    folded = simulate_flows(network, traffic, FlowOptions(**options))
    single = simulate_flows(network, traffic, FlowOptions(fold=False, **options))
    for name in ("start_us", "finish_us"):
        assert folded.flows[name].to_numpy() == pytest.approx(single.flows[name].to_numpy(), rel=1e-9, abs=1e-6)
    assert folded.links_used["bytes"].to_numpy() == pytest.approx(
        single.links_used["bytes"].to_numpy(), rel=1e-9, abs=1e-3
    )
    return folded, single


@pytest.mark.parametrize(
    "algorithm", ["ring", "tree", "hierarchical", "nvls", "nvls-tree", "halving-doubling", "collnet"]
)
def test_all_reduce_on_a_rail_only_network_folds_to_the_same_result(rail_only, algorithm: str) -> None:
    channels = 1 if algorithm == "ring" else None
    placement = Placement.of(64, gpus_per_server=8)
    traffic = collective_traffic("all-reduce", SIZE, placement, algorithm=algorithm, channels=channels)
    folded, _ = both(rail_only(8, 8, delay_ns=300.0, latency_ns=600.0), traffic, overhead_us=1.5)
    assert folded.counters["operations"] <= traffic.height / 8


def test_rings_that_share_nvlink_end_alike_though_each_send_is_chaotic(rail_only) -> None:
    # Seven rings on every NVLink port: a difference in the last bit of a rate grows tenfold every few steps, in the model
    # itself, so that single rows agree to some percent only. The collective's end does not depend on it.
    traffic = collective_traffic("all-reduce", SIZE, Placement.of(64, gpus_per_server=8), algorithm="ring")
    network = rail_only(8, 8, delay_ns=300.0, latency_ns=600.0)
    folded, single = simulate_flows(network, traffic), simulate_flows(network, traffic, FlowOptions(fold=False))
    assert folded.counters["operations"] == 8
    assert folded.finish_us == pytest.approx(single.finish_us, rel=1e-9)
    assert folded.flows["finish_us"].to_numpy() == pytest.approx(single.flows["finish_us"].to_numpy(), rel=0.05)


@pytest.mark.parametrize("paths", ["ecmp", "spray", "adaptive", "flowlet"])
@pytest.mark.parametrize("collective", ["all-gather", "all-to-all", "broadcast"])
def test_collectives_across_spines_fold_to_the_same_result(leaf_spine, paths: str, collective: str) -> None:
    network = leaf_spine(4, 4, 2, delay_ns=100.0, latency_ns=600.0, gbps=[400.0] * 16 + [800.0] * 8)
    placement = Placement.of(16, gpus_per_server=1)
    both(network, collective_traffic(collective, SIZE, placement), paths=paths)


def test_a_failed_spine_and_a_slow_link_do_not_upset_folding(leaf_spine) -> None:
    network = leaf_spine(4, 4, 4, delay_ns=100.0)
    traffic = collective_traffic("all-reduce", SIZE, Placement.of(16, gpus_per_server=1), algorithm="ring")
    both(network, traffic, paths="spray", fail=("switch:s21", "link:h3--s16@50%"))


def test_a_link_that_breaks_during_the_run_does_not_upset_folding(leaf_spine) -> None:
    network = leaf_spine(4, 4, 4, delay_ns=100.0)
    traffic = collective_traffic("all-to-all", SIZE, Placement.of(16, gpus_per_server=1), window=None)
    both(network, traffic, paths="spray", fail=("switch:s22@200us",), reroute_us=50.0)


def test_a_symmetric_ring_costs_its_classes_and_not_its_ranks(star, sends) -> None:
    counts = []
    for hosts in (8, 64, 512):
        traffic = sends(*((h, (h + 1) % hosts, 1e5) for h in range(hosts)), repeat=2 * (hosts - 1), group=0)
        counts.append(simulate_flows(star(hosts, delay_ns=100.0), traffic).counters["operations"])
    assert counts == [1, 1, 1]


def test_one_odd_link_splits_exactly_what_it_touches(star, sends) -> None:
    delay = np.full(6, 100.0)
    delay[2] = 400.0
    traffic = sends(*((h, (h + 1) % 6, 1e5) for h in range(6)), repeat=100, group=0)
    folded, single = both(star(6, delay_ns=delay), traffic)
    # Around the ring, the two odd hops delay every round of six steps by 0.3 us each.
    round_us = 6 * (1e5 / 50_000 + 0.2) + 2 * 0.3
    assert folded.finish_us == pytest.approx(100 * round_us / 6, rel=0.01)
    assert folded.counters["operations"] == single.counters["operations"] == 6


def test_rings_that_share_a_link_with_others_take_the_general_way(star, sends) -> None:
    rows = [(h, (h + 1) % 6, 1e5) for h in range(6)]
    alone = simulate_flows(star(6, delay_ns=100.0), sends(*rows, repeat=60, group=0))
    beside = simulate_flows(
        star(6, delay_ns=100.0), sends(*rows, (0, 1, 1.0), repeat=[60] * 6 + [1], group=[0] * 6 + [None])
    )
    assert beside.counters["events"] > alone.counters["events"]
    assert beside.finish_us == pytest.approx(alone.finish_us, rel=1e-4)


def test_steady_repetition_is_skipped_without_changing_the_result(star, sends) -> None:
    def run(repeat: int) -> EngineResult:
        rows = [(h, (h + 1) % 4, 1e5) for h in range(4)] * 2
        return simulate_flows(star(4, delay_ns=100.0), sends(*rows, repeat=repeat, group=[0] * 4 + [1] * 4))

    short, long = run(20), run(20_000)
    assert long.counters["skipped"] > 0.9 * long.counters["repetitions"]
    assert long.finish_us == pytest.approx(1000 * short.finish_us, rel=1e-3)
