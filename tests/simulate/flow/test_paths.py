"""Paths of the flow engine: the packet engine's hash, equal and weighted spreading, and ways around dead adapters."""

import numpy as np
import pytest

from railwright.errors import InputError
from railwright.simulate.failures import condition, parse_failures
from railwright.simulate.flow.engine import FlowOptions, simulate_flows
from railwright.simulate.network import Network
from railwright.simulate.paths import Paths, find_paths
from railwright.simulate.routing import route
from railwright.workload.collectives import collective_traffic
from railwright.workload.placement import Placement


def paths_of(network: Network, pairs: list[tuple[int, int]], mode: str, *fail: str, join_alike: bool = False) -> Paths:
    src, dst = (np.asarray(side) for side in zip(*pairs, strict=True))
    state = condition(network, parse_failures(fail, network))
    entropy = np.arange(src.size, dtype=np.uint32)
    return find_paths(network, src, dst, mode, entropy=entropy, seed=3, state=state, join_alike=join_alike)


def test_hashed_paths_are_those_of_the_packet_engine(leaf_spine) -> None:
    network = leaf_spine(4, 2, 4)
    pairs = [(i % 8, (i * 3 + 1) % 8) for i in range(40) if i % 8 != (i * 3 + 1) % 8]
    found = paths_of(network, pairs, "ecmp")
    src, dst = (np.asarray(side) for side in zip(*pairs, strict=True))
    offset, link = route(network, src, dst, entropy=np.arange(src.size), seed=3)
    assert np.array_equal(found.offset, offset)
    assert np.array_equal(found.link, link)
    assert set(found.share.tolist()) == {1.0}


@pytest.mark.parametrize("mode", ["spray", "adaptive"])
def test_spread_paths_leave_and_arrive_whole_and_split_evenly(leaf_spine, mode: str) -> None:
    network = leaf_spine(3, 2, 5)
    found = paths_of(network, [(0, 4), (1, 5), (0, 1)], mode)
    for pair, hops in ((0, 12), (1, 12), (2, 2)):
        link = found.link[found.offset[pair] : found.offset[pair + 1]]
        share = found.share[found.offset[pair] : found.offset[pair + 1]]
        assert link.size == hops
        balance = np.zeros(network.node_kind.size)
        np.add.at(balance, network.link_dst[link], share)
        np.add.at(balance, network.link_src[link], -share)
        source, target = [(0, 4), (1, 5), (0, 1)][pair]
        assert balance[source] == pytest.approx(-1.0)
        assert balance[target] == pytest.approx(1.0)
        assert np.delete(balance, [source, target]) == pytest.approx(0.0)
        if hops > 2:
            assert sorted(share.tolist()) == pytest.approx([0.2] * 10 + [1.0] * 2)


def test_adaptive_paths_follow_the_rates_of_the_links(leaf_spine) -> None:
    network = leaf_spine(2, 1, 2, gbps=[400.0, 400.0, 300.0, 100.0, 300.0, 100.0])
    found = paths_of(network, [(0, 1)], "adaptive")
    up = {
        int(network.link_dst[link]): share
        for link, share in zip(found.link, found.share, strict=True)
        if network.link_src[link] == 2
    }
    assert up == pytest.approx({4: 0.75, 5: 0.25})


def test_a_failed_spine_gets_no_share(leaf_spine) -> None:
    network = leaf_spine(2, 1, 4)
    found = paths_of(network, [(0, 1)], "spray", "switch:s5")
    assert sorted(found.share.tolist()) == pytest.approx([1 / 3] * 6 + [1.0] * 2)


def test_joined_links_give_the_same_result_in_fewer_hops(leaf_spine) -> None:
    network = leaf_spine(4, 4, 8, gbps=[400.0] * 16 + [100.0] * 32)
    pairs = [(a, b) for a in range(16) for b in range(16) if a != b]
    joined = paths_of(network, pairs, "spray", join_alike=True)
    assert np.diff(joined.offset).max() == 4
    assert np.unique(joined.stands_for).size == 32 + 2 * 4
    traffic = collective_traffic("all-to-all", 1e8, Placement.of(16, gpus_per_server=1), window=4)
    alike = simulate_flows(network, traffic, FlowOptions(paths="spray"))
    # A change far in the future changes nothing but keeps links apart.
    apart = simulate_flows(network, traffic, FlowOptions(paths="spray", fail=("switch:s20@1h",)))
    assert alike.finish_us == pytest.approx(apart.finish_us, rel=1e-9)
    assert alike.links_used["bytes"].to_numpy() == pytest.approx(apart.links_used["bytes"].to_numpy(), rel=1e-9)


def test_a_dead_adapter_is_bypassed_over_nvlink(rail_only) -> None:
    network = rail_only(2, 4)
    found = paths_of(network, [(1, 5), (0, 4)], "ecmp", "switch:s9")
    assert found.relayed.tolist() == [True, False]
    nodes = network.link_dst[found.link[found.offset[0] : found.offset[1]]].tolist()
    assert [network.node_name[node] for node in nodes] == ["x12", "h2", "s10", "h6", "x13", "h5"]


def test_a_cross_rail_pair_without_spine_is_relayed(rail_only) -> None:
    found = paths_of(rail_only(2, 4), [(0, 5)], "ecmp")
    assert found.relayed.tolist() == [True]
    assert found.offset[1] == 4


def test_a_pair_without_any_way_is_named(star, sends) -> None:
    with pytest.raises(InputError, match="no path for h0 → h1"):
        simulate_flows(star(2), sends((0, 1, 1e6)), FlowOptions(fail=("switch:s2",)))


def test_unknown_mode_suggests_the_nearest(star) -> None:
    with pytest.raises(InputError, match="did you mean 'spray'"):
        paths_of(star(2), [(0, 1)], "spary")
