"""Paths: lengths of a leaf-spine, spread of the hash, failures, rails, and what the error says."""

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from railwright.errors import InputError
from railwright.simulate.network import HOST, SCALE_UP, SWITCH, Network
from railwright.simulate.routing import route


def network(kinds: list[int], cables: list[tuple[int, int]]) -> Network:
    ends = np.asarray([end for a, b in cables for end in ((a, b), (b, a))], np.int32).reshape(-1, 2)
    count = len(kinds)
    return Network(
        node_name=pl.Series([f"n{i}" for i in range(count)]),
        node_kind=np.asarray(kinds, np.uint8),
        node_buffer_bytes=np.zeros(count),
        node_latency_ns=np.zeros(count),
        link_src=np.ascontiguousarray(ends[:, 0]),
        link_dst=np.ascontiguousarray(ends[:, 1]),
        link_gbps=np.full(len(ends), 400.0),
        link_delay_ns=np.full(len(ends), 10.0),
        link_id=np.arange(len(cables), dtype=np.uint32),
    )


def leaf_spine(leaves: int, hosts_per_leaf: int, spines: int) -> Network:
    hosts = leaves * hosts_per_leaf
    cables = [(h, hosts + h // hosts_per_leaf) for h in range(hosts)]
    cables += [(hosts + leaf, hosts + leaves + s) for leaf in range(leaves) for s in range(spines)]
    return network([HOST] * hosts + [SWITCH] * (leaves + spines), cables)


def all_pairs(hosts: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    src, dst = np.divmod(np.arange(hosts * hosts), hosts)
    other = src != dst
    return src[other], dst[other]


def test_paths_have_two_links_below_one_leaf_and_four_across_the_spine() -> None:
    net = leaf_spine(4, 4, 4)
    src, dst = all_pairs(16)
    offsets, links = route(net, src, dst)
    assert np.array_equal(np.diff(offsets), np.where(src // 4 == dst // 4, 2, 4))
    assert np.array_equal(net.link_src[links[offsets[:-1]]], src)
    assert np.array_equal(net.link_dst[links[offsets[1:] - 1]], dst)
    inner = np.ones(links.size, bool)
    inner[offsets[:-1]] = False
    assert np.array_equal(net.link_src[links[inner]], net.link_dst[links[np.flatnonzero(inner) - 1]])


def test_hash_spreads_evenly_over_the_spines() -> None:
    net = leaf_spine(2, 1, 16)
    offsets, links = route(net, np.zeros(16000, int), np.ones(16000, int), entropy=np.arange(16000))
    counts = np.bincount(links[offsets[:-1] + 1], minlength=1)
    used = counts[counts > 0]
    assert used.size == 16
    assert abs(used - 1000).max() < 5 * np.sqrt(1000)


def test_one_seed_for_all_switches_polarises_a_three_tier_network() -> None:
    # host - a(0) - 4 middles, each - 4 tops, mirrored: with one seed the second choice repeats the first.
    kinds = [HOST, HOST] + [SWITCH] * (2 + 4 + 4 + 16)
    a, b, first, second, top = 2, 3, 4, 8, 12
    cables = [(0, a), (1, b)]
    cables += [(a, first + i) for i in range(4)] + [(b, second + i) for i in range(4)]
    cables += [(first + i, top + 4 * i + j) for i in range(4) for j in range(4)]
    cables += [(second + j, top + 4 * i + j) for i in range(4) for j in range(4)]
    net = network(kinds, cables)
    src, dst, entropy = np.zeros(4000, int), np.ones(4000, int), np.arange(4000)

    def tops(mode: str) -> int:
        offsets, links = route(net, src, dst, entropy=entropy, mode=mode)
        return len(np.unique(net.link_dst[links[offsets[:-1] + 2]]))

    assert tops("ecmp") == 16
    assert tops("polarised") == 4


def test_parallel_links_share_the_flows() -> None:
    net = network([HOST, HOST, SWITCH, SWITCH], [(0, 2), (1, 3), (2, 3), (2, 3), (2, 3)])
    offsets, links = route(net, np.zeros(300, int), np.ones(300, int), entropy=np.arange(300))
    assert set(links[offsets[:-1] + 1]) == {4, 6, 8}


def test_failed_link_and_failed_switch_are_avoided() -> None:
    net = leaf_spine(2, 1, 2)
    src, dst = np.zeros(64, int), np.ones(64, int)
    entropy = np.arange(64)
    _, links = route(net, src, dst, entropy=entropy, failed_nodes=[4])
    assert 4 not in net.link_dst[links]
    uplink = int(np.flatnonzero((net.link_src == 2) & (net.link_dst == 5))[0])
    _, links = route(net, src, dst, entropy=entropy, failed_links=[uplink])
    assert uplink not in links


def test_unreachable_pair_is_named() -> None:
    net = leaf_spine(2, 1, 1)
    with pytest.raises(InputError, match="n0 → n1"):
        route(net, np.array([0]), np.array([1]), failed_nodes=[4])


def test_unknown_mode_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'ecmp'"):
        route(leaf_spine(2, 1, 1), np.array([0]), np.array([1]), mode="emcp")


def rail_only() -> Network:
    # Two servers of two GPUs (0,1 and 2,3) with an internal switch each; rail r's leaf joins GPU r of both servers.
    return network(
        [HOST] * 4 + [SCALE_UP] * 2 + [SWITCH] * 2,
        [(0, 4), (1, 4), (2, 5), (3, 5), (0, 6), (2, 6), (1, 7), (3, 7)],
    )


def test_gpus_of_one_server_use_its_internal_switch() -> None:
    net = rail_only()
    _, links = route(net, np.array([0]), np.array([1]))
    assert net.link_dst[links].tolist() == [4, 1]


def test_cross_rail_traffic_needs_the_rail_mode() -> None:
    net = rail_only()
    with pytest.raises(InputError, match="n0 → n3"):
        route(net, np.array([0]), np.array([3]))
    _, links = route(net, np.array([0]), np.array([3]), mode="rail")
    assert net.link_dst[links].tolist() == [4, 1, 7, 3]


def test_a_host_with_several_ports_uses_all_of_them() -> None:
    net = network([HOST, HOST, SWITCH, SWITCH], [(0, 2), (0, 3), (1, 2), (1, 3)])
    offsets, links = route(net, np.zeros(64, int), np.ones(64, int), entropy=np.arange(64))
    assert set(links[offsets[:-1]]) == {0, 2}
