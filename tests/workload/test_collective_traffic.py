"""Traffic tables of collectives against conservation laws and closed forms."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railwright.errors import InputError
from railwright.tables import TABLES
from railwright.workload.collectives import ALGORITHMS, bus_factor, collective_name, collective_traffic
from railwright.workload.collectives.rings import rail_rings
from railwright.workload.collectives.trees import binary_tree, second_tree
from railwright.workload.placement import Placement
from railwright.workload.traffic import merge, unfold

SIZE = 2.0**30
EVERY = [(collective, algorithm) for collective, known in ALGORITHMS.items() for algorithm in known]
SHAPES = [(2, 8), (3, 4), (5, 1), (1, 8), (6, 3), (4, 2), (2, 18)]


def placed(domains: int, width: int) -> Placement:
    return Placement.of(domains * width, gpus_per_server=width)


def sent(table: pl.DataFrame, by: str = "src") -> np.ndarray:
    """Bytes per endpoint that sends (or receives) anything, in endpoint order."""
    total = table.group_by(by).agg((pl.col("bytes") * pl.col("repeat")).sum()).sort(by)
    return total["bytes"].to_numpy()


def finish_order(table: pl.DataFrame) -> list[int]:
    """Ops in an order in which they can run; shorter than the table when some wait for ever."""
    waits = dict(zip(table["op_id"].to_list(), (set(after) for after in table["after"].to_list()), strict=True))
    followers: dict[int, list[int]] = {op: [] for op in waits}
    for op, after in waits.items():
        for other in after:
            followers[other].append(op)
    ready = [op for op, after in waits.items() if not after]
    done = []
    while ready:
        op = ready.pop()
        done.append(op)
        for follower in followers[op]:
            waits[follower].discard(op)
            if not waits[follower]:
                ready.append(follower)
    return done


@pytest.mark.parametrize(("collective", "algorithm"), EVERY)
@pytest.mark.parametrize(("domains", "width"), SHAPES)
def test_every_op_runs_and_folding_keeps_the_bytes(collective: str, algorithm: str, domains: int, width: int) -> None:
    table = collective_traffic(collective, SIZE, placed(domains, width), algorithm=algorithm)
    assert dict(table.schema) == dict(TABLES["traffic"])
    assert (table["src"] != table["dst"]).all()
    assert table["op_id"].to_list() == list(range(table.height))
    explicit = unfold(table)
    assert explicit["repeat"].unique().to_list() == [1]
    assert explicit["group"].null_count() == explicit.height
    np.testing.assert_allclose(sent(explicit), sent(table))
    assert len(finish_order(explicit)) == explicit.height


@pytest.mark.parametrize(("domains", "width"), [(4, 8), (2, 8), (8, 1), (1, 8), (4, 18)])
@pytest.mark.parametrize(
    ("collective", "algorithm"),
    [
        *(("all-reduce", name) for name in ("ring", "ring-flat", "hierarchical", "halving-doubling")),
        *(
            (collective, name)
            for collective in ("all-gather", "reduce-scatter")
            for name in ("ring", "ring-flat", "hierarchical", "pat")
        ),
    ],
)
def test_bandwidth_optimal_algorithms_send_the_bus_factor_times_the_size_per_rank(
    collective: str, algorithm: str, domains: int, width: int
) -> None:
    table = collective_traffic(collective, SIZE, placed(domains, width), algorithm=algorithm)
    expected = bus_factor(collective, domains * width) * SIZE
    np.testing.assert_allclose(sent(table, "src"), expected)
    np.testing.assert_allclose(sent(table, "dst"), expected)


def test_a_ring_all_reduce_is_one_row_per_rank_and_channel() -> None:
    table = collective_traffic("all-reduce", SIZE, placed(4, 8), channels=8)
    assert table.height == 32 * 8
    assert table["repeat"].unique().to_list() == [2 * 31]
    assert table["bytes"].unique().to_list() == [SIZE / (32 * 8)]
    assert table["group"].n_unique() == 8


def test_chunks_of_a_ring_change_neither_bytes_nor_steps() -> None:
    whole = collective_traffic("all-reduce", SIZE, placed(2, 8))
    cut = collective_traffic("all-reduce", SIZE, placed(2, 8), chunks=4)
    np.testing.assert_allclose(sent(whole), sent(cut))
    assert whole["repeat"].unique().to_list() == cut["repeat"].unique().to_list()


@pytest.mark.parametrize("domains", [2, 3, 4, 7, 8, 16])
def test_all_reduce_trees_carry_the_size_once_up_and_once_down_every_edge(domains: int) -> None:
    table = collective_traffic("all-reduce", SIZE, placed(domains, 1), algorithm="tree")
    np.testing.assert_allclose(sent(table).sum(), 2 * (domains - 1) * SIZE)


@pytest.mark.parametrize("domains", [2, 4, 8])
def test_trees_send_less_than_rings_between_few_nodes(domains: int) -> None:
    """Why busbw of a 2-node tree exceeds the adapters: nodes send 2(N-1)/N of the size, rings 2(n-1)/n (NVIDIA/nccl#1576)."""
    placement = placed(domains, 8)
    for algorithm, share in (("tree", 2 * (domains - 1) / domains), ("ring", 2 * (8 * domains - 1) / (8 * domains))):
        table = collective_traffic("all-reduce", SIZE, placement, algorithm=algorithm)
        network = table.filter(pl.col("src") // 8 != pl.col("dst") // 8)
        assert sent(network).sum() / domains == pytest.approx(share * SIZE)


def test_nvls_loads_a_port_with_size_times_one_plus_one_over_gpus() -> None:
    table = collective_traffic("all-reduce", SIZE, placed(1, 8), algorithm="nvls")
    np.testing.assert_allclose(sent(table), SIZE * (1 + 1 / 8))


def test_collnet_puts_each_nics_shard_on_the_network_once() -> None:
    placement = placed(4, 8)
    table = collective_traffic("all-reduce", SIZE, placement, algorithm="collnet")
    network = table.filter(pl.col("src") // 8 != pl.col("dst") // 8)
    np.testing.assert_allclose(sent(network), SIZE / 8)
    assert (network["src"] % 8 == network["dst"] % 8).all()


@pytest.mark.parametrize(
    "algorithm", ["ring", "tree", "nvls", "nvls-tree", "collnet", "hierarchical", "halving-doubling"]
)
def test_all_reduce_between_an_even_number_of_servers_stays_on_its_rails(algorithm: str) -> None:
    table = collective_traffic("all-reduce", SIZE, placed(4, 8), algorithm=algorithm)
    network = table.filter(pl.col("src") // 8 != pl.col("dst") // 8)
    assert (network["src"] % 8 == network["dst"] % 8).all()
    per_nic = sent(network)
    assert per_nic.size == 32


def test_every_nic_serves_one_ring_in_each_direction() -> None:
    rings = rail_rings(placed(4, 8), 8)
    ends = np.roll(rings, -1, axis=1)
    crossing = rings // 8 != ends // 8
    for side in (rings, ends):
        assert np.bincount(side[crossing], minlength=32).tolist() == [1] * 32


@given(st.integers(2, 200))
def test_the_two_trees_span_all_nodes_and_no_node_has_children_in_both_when_even(nodes: int) -> None:
    trees = [binary_tree(nodes), second_tree(nodes)]
    for parent in trees:
        assert (parent == -1).sum() == 1
        depth = np.zeros(nodes, int)
        above = parent.copy()
        while (above >= 0).any():
            depth += above >= 0
            above = np.where(above >= 0, parent[above], -1)
        assert depth.max() <= int(np.ceil(np.log2(nodes))) + 1
        assert np.bincount(parent[parent >= 0], minlength=nodes).max() <= 2
    if nodes % 2 == 0:
        first, second = (np.bincount(parent[parent >= 0], minlength=nodes) for parent in trees)
        assert not ((first > 0) & (second > 0) & (np.arange(nodes) % (nodes - 1) > 0)).any()


def test_broadcast_reaches_every_rank_once_and_reduce_gathers_from_every_rank_once() -> None:
    placement = placed(3, 4)
    out = collective_traffic("broadcast", SIZE, placement, root=5)
    np.testing.assert_allclose(sent(out, "dst"), SIZE)
    assert 5 not in out["dst"]
    back = collective_traffic("reduce", SIZE, placement, root=5)
    np.testing.assert_allclose(sent(back, "src"), SIZE)
    assert 5 not in back["src"]


def test_an_even_all_to_all_sends_its_share_to_everyone() -> None:
    table = collective_traffic("all-to-all", SIZE, placed(2, 4), cross_rail="network")
    assert table.height == 8 * 7
    assert table["bytes"].unique().to_list() == [SIZE / 8]
    assert table.select("src", "dst").n_unique() == 56


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**32), st.sampled_from([None, 1, 3]))
def test_pxn_delivers_the_same_bytes_and_never_changes_rail_on_the_network(
    domains: int, width: int, seed: int, window: int | None
) -> None:
    ranks = domains * width
    if ranks < 2:
        return
    matrix = np.random.default_rng(seed).integers(0, 4, (ranks, ranks)) * 1000.0
    np.fill_diagonal(matrix, 0)
    placement = placed(domains, width)
    table = collective_traffic("all-to-all", 0, placement, matrix=matrix, window=window)
    network = table.filter(pl.col("src") // width != pl.col("dst") // width)
    assert (network["src"] % width == network["dst"] % width).all()
    domain = np.arange(ranks) // width
    cross = np.where(domain[:, None] != domain, matrix, 0)
    arrived = np.zeros(ranks)
    np.add.at(arrived, network["dst"].to_numpy(), network["bytes"].to_numpy())
    np.testing.assert_allclose(arrived, cross.sum(axis=0))
    local = table.filter(pl.col("src") // width == pl.col("dst") // width)
    direct = matrix.sum() - cross.sum()
    handed = sum(cross[i, j] for i in range(ranks) for j in range(ranks) if i % width != j % width)
    np.testing.assert_allclose(local["bytes"].sum(), direct + handed)
    assert len(finish_order(table)) == table.height


def test_data_handed_over_nvlink_is_there_before_the_nic_sends_it() -> None:
    table = collective_traffic("all-to-all", SIZE, placed(2, 4), window=None)
    rows = {row["op_id"]: row for row in table.to_dicts()}
    for row in rows.values():
        if row["src"] // 4 != row["dst"] // 4:
            handed = [rows[op] for op in row["after"]]
            assert {other["dst"] for other in handed} == {row["src"]}
            assert len(handed) == 3
            assert row["bytes"] * row["repeat"] == SIZE / 8 * 4


def test_a_window_of_one_serves_one_destination_at_a_time() -> None:
    table = collective_traffic("all-to-all", SIZE, placed(4, 1), window=1)
    assert table["after"].list.len().to_list() == [0] * 4 + [1] * 8


def test_send_recv_goes_to_the_next_rank_on_the_rail_of_the_receiver() -> None:
    table = collective_traffic("send-recv", SIZE, placed(2, 8))
    network = table.filter(pl.col("src") // 8 != pl.col("dst") // 8).sort("src")
    assert network.select("src", "dst").rows() == [(0, 8), (8, 0)]


def test_an_nvl72_rack_is_one_domain_with_its_rails_inside_each_tray() -> None:
    placement = Placement.of(144, gpus_per_server=4, domain_gpus=72)
    assert placement.domains == 2
    assert placement.grid().shape == (2, 72)
    assert placement.rail[:5].tolist() == [1, 2, 3, 4, 1]
    table = collective_traffic("all-reduce", SIZE, placement, algorithm="nvls")
    network = table.filter(pl.col("src") // 72 != pl.col("dst") // 72)
    np.testing.assert_allclose(sent(network), SIZE / 72)


def test_an_uneven_placement_falls_back_to_a_flat_ring_and_says_so_when_asked_for_rails() -> None:
    placement = Placement.of([0, 1, 2, 8, 9], gpus_per_server=8)
    assert not placement.balanced
    assert collective_traffic("all-reduce", SIZE, placement)["group"].n_unique() == 1
    with pytest.raises(InputError, match="ring-flat"):
        collective_traffic("all-reduce", SIZE, placement, algorithm="tree")


def test_merged_jobs_keep_their_own_waits_and_groups() -> None:
    one = collective_traffic("all-reduce", SIZE, placed(2, 2), job="a")
    two = collective_traffic("all-reduce", SIZE, placed(2, 2), algorithm="tree", job="b")
    both = merge([one, two])
    assert both["op_id"].n_unique() == both.height
    assert both["group"].n_unique() == one["group"].n_unique() + two["group"].n_unique()
    second = both.filter(pl.col("job") == "b")
    assert second["after"].explode(empty_as_null=False).min() >= one.height
    assert len(finish_order(unfold(both))) == unfold(both).height


def test_unfolding_a_ring_makes_step_k_wait_for_the_predecessors_step_before() -> None:
    table = unfold(collective_traffic("all-gather", SIZE, placed(3, 1)))
    assert table["src"].to_list() == [0, 0, 1, 1, 2, 2]
    assert table["after"].to_list() == [[], [0, 4], [], [0, 2], [], [2, 4]]


def test_unfolding_a_pipeline_makes_piece_k_wait_for_piece_k() -> None:
    table = unfold(collective_traffic("broadcast", SIZE, placed(3, 1), chunks=2))
    rows = {(row["src"], row["op_id"]): row["after"] for row in table.to_dicts()}
    first = min(op for src, op in rows if src == 0)
    second = min(op for src, op in rows if src == 1)
    assert rows[(0, first)] == []
    assert rows[(0, first + 1)] == [first]
    assert rows[(1, second)] == [first]
    assert sorted(rows[(1, second + 1)]) == sorted([second, first + 1])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"name": "all-redcue"}, "did you mean 'all-reduce'"),
        ({"algorithm": "rin"}, "did you mean 'ring'"),
        ({"cross_rail": "nvlnk"}, "did you mean 'nvlink'"),
        ({"channels": 0}, "at least 1"),
        ({"size_bytes": 0}, "more than 0 bytes"),
        ({"root": 99}, "ranks are 0 to 15"),
        ({"matrix": [[0.0]]}, "only all-to-all"),
        ({"name": "all-to-all", "matrix": [[0.0]]}, "16 ranks need"),
        ({"name": "all-to-all", "matrix": -np.ones((16, 16))}, "bytes are 0 or more"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, object], says: str) -> None:
    given: dict[str, Any] = {"name": "all-reduce", "size_bytes": SIZE, "placement": placed(2, 8), **arguments}
    with pytest.raises(InputError, match=says):
        collective_traffic(**given)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("AllReduce", "all-reduce"),
        ("all_gather_perf", "all-gather"),
        ("alltoall", "all-to-all"),
        ("SendRecv", "send-recv"),
    ],
)
def test_collectives_are_known_by_the_names_of_nccl_tests(text: str, name: str) -> None:
    assert collective_name(text) == name


def test_placements_name_what_is_wrong() -> None:
    with pytest.raises(InputError, match="GPU 3 has two ranks"):
        Placement.of([3, 3], gpus_per_server=8)
    with pytest.raises(InputError, match="at least one GPU"):
        Placement.of(0, gpus_per_server=8)
    with pytest.raises(InputError, match="-1 is not a GPU id"):
        Placement.of([-1], gpus_per_server=8)


@pytest.mark.parametrize("domains", [2, 3, 8])
def test_a_ring_that_comes_back_to_its_adapter_keeps_to_its_rail_with_any_number_of_servers(domains: int) -> None:
    placement = placed(domains, 8)
    table = collective_traffic("all-reduce", SIZE, placement, algorithm="ring", cross_nic=0)
    src, dst = (table[name].to_numpy() for name in ("src", "dst"))
    crossing = src // 8 != dst // 8
    assert np.all(src[crossing] % 8 == dst[crossing] % 8)
    assert crossing.sum() == 8 * domains
    assert table.height == 8 * (9 * domains)  # eight ranks and one hand-over per server and ring
    sent = (table["bytes"] * table["repeat"]).to_numpy()
    for gpu in range(8 * domains):
        out = sent[crossing & (src == gpu)].sum()
        assert out == pytest.approx(2 * (8 * domains - 1) / (8 * domains) * SIZE / 8)


def test_a_ring_that_may_use_other_adapters_changes_rail_at_every_crossing() -> None:
    table = collective_traffic("all-reduce", SIZE, placed(4, 8), algorithm="ring", cross_nic=1)
    src, dst = (table[name].to_numpy().astype(int) for name in ("src", "dst"))
    crossing = src // 8 != dst // 8
    assert np.all((src[crossing] - dst[crossing]) % 8 == 1)


def test_gpus_that_share_an_adapter_need_no_hand_over() -> None:
    placement = Placement.of(32, gpus_per_server=8, rails=4)
    table = collective_traffic("all-reduce", SIZE, placement, algorithm="ring", cross_nic=0)
    assert table.height == 8 * 32
    rail = placement.rail
    src, dst = (table[name].to_numpy() for name in ("src", "dst"))
    crossing = src // 8 != dst // 8
    assert np.all(rail[src[crossing]] == rail[dst[crossing]])


def test_in_a_ring_with_hand_overs_each_step_waits_for_the_row_before() -> None:
    table = collective_traffic("all-gather", SIZE, placed(2, 4), algorithm="ring", cross_nic=0)
    explicit = unfold(table)
    ends = {row["op_id"]: row["dst"] for row in explicit.iter_rows(named=True)}
    for row in explicit.iter_rows(named=True):
        arrived = [op for op in row["after"] if op // 7 != row["op_id"] // 7]
        assert all(ends[op] == row["src"] for op in arrived)
        assert len(arrived) == (0 if row["op_id"] % 7 == 0 else 1)


def test_rows_of_a_ring_out_of_order_that_come_by_a_rank_twice_are_no_ring() -> None:
    table = collective_traffic("all-gather", SIZE, placed(2, 4), algorithm="ring", channels=1, cross_nic=0)
    with pytest.raises(InputError, match="not a ring"):
        unfold(table.reverse())
