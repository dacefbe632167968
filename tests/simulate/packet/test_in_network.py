"""In-network reduction: each host sends and receives its data once, uplinks carry one stream, the tree is flat."""

import numpy as np
import polars as pl
import pytest

from railwright.errors import InputError
from railwright.simulate.in_network import aggregation_tree, reduce_in_network
from railwright.simulate.packet.engine import simulate_packets
from railwright.simulate.packet.options import infiniband

SIZE = 4 * 2**20


def test_an_all_reduce_takes_the_time_of_one_message_and_not_of_a_ring(leaf_spine, sends) -> None:
    net = leaf_spine(4, 4, 4, latency_ns=200.0)
    reducing, traffic = reduce_in_network(net, np.arange(16), SIZE)
    result = simulate_packets(reducing, traffic, infiniband(paths="ecmp"))
    assert result.diagnosis is None
    assert result.counters["drops"] == 0
    one_message = SIZE * (4096 + 26) / 4096 * 8 / 400e3
    ring = 2 * 15 / 16 * one_message
    assert one_message < result.flows["finish_us"].max() < 0.85 * ring
    up = result.links_used.filter(pl.col("forward") & (pl.col("link_id") >= 16) & (pl.col("link_id") < 32))["bytes"]
    assert up.max() < 1.1 * SIZE  # four hosts below a leaf, one stream above it
    assert (up > SIZE).sum() == 4


def test_the_tree_is_one_switch_when_all_hosts_share_it(leaf_spine) -> None:
    tree = aggregation_tree(leaf_spine(2, 4, 2), np.arange(4))
    assert tree.parent == {8: 8}
    wide = aggregation_tree(leaf_spine(2, 4, 2), np.arange(8))
    assert wide.root == 10  # the first spine: one step from both leaves
    assert wide.parent == {8: 10, 9: 10, 10: 10}


def test_more_buffers_hide_the_latency_of_the_tree(leaf_spine) -> None:
    net = leaf_spine(4, 4, 4, latency_ns=500.0)
    last = []
    for buffers in (1, 16):
        reducing, traffic = reduce_in_network(net, np.arange(16), SIZE, buffers=buffers)
        last.append(simulate_packets(reducing, traffic, infiniband(paths="ecmp")).flows["finish_us"].max())
    assert last[1] < 0.8 * last[0]


def test_hosts_without_a_common_switch_have_no_tree(network) -> None:
    with pytest.raises(InputError, match="there is no tree"):
        reduce_in_network(network(2, 2, [(0, 2), (1, 3)]), np.arange(2), SIZE)
