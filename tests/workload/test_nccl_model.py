"""NCCL's and RCCL's choice against their own cost model's published values and against behaviour that users report."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from railwright.catalog.load import load_catalog
from railwright.errors import InputError
from railwright.workload.nccl.choose import candidates, choose, choose_many, communicator_channels
from railwright.workload.nccl.environment import Environment, parse_environment
from railwright.workload.nccl.graphs import graphs_of
from railwright.workload.nccl.shape import JobShape, shape_of_server

FACTS = Path(__file__).parent / "facts"
H100 = JobShape(1, 8, "hopper", 450, 8, 50)
H100_200G = JobShape(2, 8, "hopper", 450, 8, 25)
A100 = JobShape(1, 8, "ampere", 300, 8, 25)
MI300X = JobShape(1, 8, "cdna3", 448, 8, 50, nvswitch=False)
SIZES = 2.0 ** np.arange(3, 35)


@pytest.mark.parametrize(
    ("column", "collective", "algorithm", "protocol"),
    [
        ("nccl_model_ring_Simple_AG_busbw", "all-gather", "ring", "simple"),
        ("nccl_model_ring_best_proto_AG_busbw", "all-gather", "ring", None),
        ("nccl_model_ring_Simple_AR_busbw", "all-reduce", "ring", "simple"),
        ("nccl_model_tree_best_AR_busbw", "all-reduce", "tree", None),
    ],
)
def test_costs_are_those_of_nccl_within_1_percent(
    column: str, collective: str, algorithm: str, protocol: str | None
) -> None:
    facts = pl.read_csv(FACTS / "nccl_model_h100_8x400g.csv")
    assert facts.height == 77
    for nodes, rows in facts.group_by("nodes"):
        table = candidates(collective, rows["bytes"].to_numpy(), H100.at(int(str(nodes[0]))))
        mine = table.filter(pl.col("reason").is_null() & (pl.col("algorithm") == algorithm))
        if protocol:
            mine = mine.filter(pl.col("protocol") == protocol)
        best = mine.group_by("size_bytes", maintain_order=True).agg(pl.col("busbw_gbytes_s").max())
        np.testing.assert_allclose(best["busbw_gbytes_s"], rows[column], rtol=0.01, atol=0.05)


def test_one_h100_node_takes_ring_ll_to_1_mib_and_nvls_from_2_mib() -> None:
    """Reported in NVIDIA/nccl-tests#309."""
    table = choose_many("all-reduce", SIZES, H100)
    small = table.filter(pl.col("size_bytes") <= 2**20)
    large = table.filter(pl.col("size_bytes") >= 2**21)
    assert small.select("algorithm", "protocol").unique().rows() == [("ring", "ll")]
    assert large.select("algorithm", "protocol").unique().rows() == [("nvls", "simple")]


@pytest.mark.parametrize(
    ("shape", "search", "total"),
    [
        (H100, (12, 30.0), 24),
        (A100, (12, 20.0), 24),
        (H100.at(2), (8, 48.0), 16),
        (A100.at(4), (8, 24.0), 16),
        (H100_200G, (8, 24.0), 16),
        (JobShape(2, 1, "hopper", 450, 1, 50), (2, 24.0), 4),
        (MI300X, (7, 48.0), 14),
    ],
    ids=["H100", "A100", "2xH100", "4xA100", "2xH100-200G", "one GPU per node", "MI300X"],
)
def test_channels_are_those_that_the_search_finds(shape: JobShape, search: tuple[int, float], total: int) -> None:
    graphs = graphs_of(shape, Environment())
    assert (graphs["ring"].channels, graphs["ring"].inter_gbytes_s) == search
    assert communicator_channels(shape, graphs, Environment()) == total


def test_b300_with_800g_adapters_uses_two_channels_per_adapter() -> None:
    shape = JobShape(4, 8, "blackwell", 900, 8, 100, pcie_generation=6)
    ring = graphs_of(shape, Environment())["ring"]
    assert (ring.channels, ring.inter_gbytes_s) == (16, 48.0)


def test_rings_win_large_and_trees_win_small_messages_between_many_nodes() -> None:
    table = choose_many("all-reduce", [1024, 2.0**34], A100.at(16))
    assert table["algorithm"].to_list() == ["tree", "ring"]


def test_a_two_node_tree_exceeds_the_adapters_in_busbw_and_not_in_bytes() -> None:
    """Two nodes send each byte across once, 2(n-1)/n of busbw counts it almost twice (NVIDIA/nccl#1576)."""
    tree = choose("all-reduce", 2.0**33, H100_200G, parse_environment("NCCL_ALGO=Tree"))
    line_rate = 8 * 25
    assert tree.busbw_gbytes_s > 1.4 * line_rate
    assert tree.algbw_gbytes_s < line_rate
    ring = choose("all-reduce", 2.0**33, H100_200G, parse_environment("NCCL_ALGO=Ring"))
    assert ring.busbw_gbytes_s < line_rate


@pytest.mark.parametrize(
    ("algorithm", "shape", "variables", "says"),
    [
        ("nvls", H100.at(2), "", "SHARP"),
        ("nvls", A100, "", "Hopper"),
        ("nvls", H100, "NCCL_NVLS_ENABLE=0", "NCCL_NVLS_ENABLE"),
        ("nvls-tree", H100, "", "only between nodes"),
        ("collnet-direct", H100.at(2), "", "SHARP"),
        ("tree", H100, "NCCL_ALGO=Ring", "NCCL_ALGO=Ring"),
    ],
)
def test_every_algorithm_that_is_out_says_why(algorithm: str, shape: JobShape, variables: str, says: str) -> None:
    table = choose("all-reduce", 2.0**28, shape, parse_environment(variables)).candidates
    reasons = table.filter(pl.col("algorithm") == algorithm)["reason"].to_list()
    assert reasons
    assert all(says in reason for reason in reasons)


def test_ll128_is_off_when_data_cross_the_cpu() -> None:
    table = choose("all-reduce", 2.0**22, H100.at(4), parse_environment("NCCL_NET_GDR_LEVEL=LOC")).candidates
    reasons = table.filter((pl.col("protocol") == "ll128") & (pl.col("algorithm") == "ring"))["reason"].to_list()
    assert reasons == ["off by default when data to the network cross the CPU"]


def test_pat_is_for_one_gpu_per_node_unless_asked_for() -> None:
    shape = JobShape(64, 1, "hopper", 450, 1, 50)
    assert choose("all-gather", 2.0**14, shape).algorithm == "pat"
    many = candidates("all-gather", [2.0**14], H100.at(8)).filter(pl.col("algorithm") == "pat")
    assert many["reason"].to_list() == ["by default only with one GPU per node"]
    forced = candidates("all-gather", [2.0**14], H100.at(8), parse_environment("NCCL_PAT_ENABLE=1"))
    assert forced.filter(pl.col("algorithm") == "pat")["reason"].null_count() == 1


def test_time_never_falls_as_messages_grow_by_an_order_of_magnitude() -> None:
    sizes = 10.0 ** np.arange(2, 11)
    for collective in ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce", "all-to-all", "send-recv"):
        for shape in (H100, H100.at(2), A100.at(9), MI300X.at(4), MI300X):
            assert (np.diff(choose_many(collective, sizes, shape)["time_us"]) > -1e-6).all()


def test_all_to_all_never_beats_the_injection_bound() -> None:
    for nodes in (2, 4, 32):
        shape = H100.at(nodes)
        table = choose_many("all-to-all", SIZES, shape)
        bound = 50 * (shape.ranks - 1) / (shape.ranks - 8)
        assert table["busbw_gbytes_s"].max() < bound


def test_fewer_adapters_named_in_nccl_ib_hca_means_less_bandwidth() -> None:
    half = choose("all-gather", 2.0**33, H100.at(4), parse_environment("NCCL_IB_HCA=mlx5_0,mlx5_1,mlx5_2,mlx5_3"))
    full = choose("all-gather", 2.0**33, H100.at(4))
    assert half.busbw_gbytes_s == pytest.approx(full.busbw_gbytes_s / 2, rel=0.01)


def test_a_bound_on_channels_is_obeyed() -> None:
    assert choose("all-gather", 2.0**33, H100.at(2), parse_environment("NCCL_MAX_NCHANNELS=4")).channels == 4
    assert choose("all-gather", 2.0**33, H100.at(2), parse_environment("NCCL_MIN_NCHANNELS=32")).channels == 32


def test_small_messages_use_few_channels() -> None:
    assert choose("all-gather", 1024, H100).channels == 1
    assert choose("all-gather", 2.0**30, H100).channels == 24


def test_an_algorithm_that_leaves_nothing_is_an_error_with_the_reasons() -> None:
    with pytest.raises(InputError, match="needs a network that reduces"):
        choose("all-reduce", 2.0**20, H100.at(2), parse_environment("NCCL_ALGO=CollNetDirect"))


def test_rccl_has_its_own_constants() -> None:
    table = choose("all-reduce", 2.0**32, MI300X).candidates
    assert set(table["algorithm"]) == {"ring", "tree"}
    assert choose("all-reduce", 2.0**32, MI300X).busbw_gbytes_s == pytest.approx(7 * 48, rel=0.01)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"architecture": "hooper"}, "did you mean 'hopper'"),
        ({"transport": "roce"}, "did you mean 'rocev2'"),
        ({"cpu": "arm64"}, "did you mean 'arm'"),
        ({"nodes": 0}, "at least 1"),
        ({"nics_per_node": 0}, "at least one adapter"),
        ({"nvlink_gbytes_s": -1}, "0 or more"),
        ({"pcie_generation": 7}, "choose one of 3, 4, 5, 6"),
    ],
)
def test_shapes_name_what_is_wrong(values: dict[str, object], says: str) -> None:
    given = {
        "nodes": 2,
        "gpus_per_node": 8,
        "architecture": "hopper",
        "nvlink_gbytes_s": 450,
        "nics_per_node": 8,
        "nic_gbytes_s": 50,
        **values,
    }
    with pytest.raises(InputError, match=says):
        JobShape(**given)


@pytest.mark.parametrize("sizes", [[], [0.0], [8.0, -1.0]])
def test_sizes_that_are_none_are_errors(sizes: list[float]) -> None:
    with pytest.raises(InputError, match="size"):
        choose_many("all-reduce", sizes, H100)


@pytest.mark.parametrize(
    ("key", "gpus", "nodes", "per_node", "nvlink", "nics", "nic"),
    [
        ("dgx-h100", 1024, 128, 8, 450, 8, 50),
        ("dgx-a100", 16, 2, 8, 300, 8, 25),
        ("gb200-nvl72", 144, 2, 72, 900, 72, 50),
        ("dgx-h100", 4, 1, 4, 450, 4, 50),
        ("mi300x-8", 2, 1, 2, 64, 2, 50),
    ],
)
def test_shapes_of_catalog_servers(
    key: str, gpus: int, nodes: int, per_node: int, nvlink: float, nics: int, nic: float
) -> None:
    catalog = load_catalog()
    server = catalog.server(key)
    shape = shape_of_server(server, catalog.gpu(server.gpu), gpus=gpus)
    assert (shape.nodes, shape.gpus_per_node, shape.nics_per_node) == (nodes, per_node, nics)
    assert shape.nvlink_gbytes_s == pytest.approx(nvlink)
    assert shape.nic_gbytes_s == nic


def test_a_job_that_does_not_fill_its_domains_names_the_nearest_counts() -> None:
    catalog = load_catalog()
    server = catalog.server("dgx-h100")
    with pytest.raises(InputError, match="nearest counts are 16 and 24"):
        shape_of_server(server, catalog.gpu(server.gpu), gpus=20)


def test_one_rank_has_nothing_to_choose() -> None:
    with pytest.raises(InputError, match="nobody to talk to"):
        choose("all-reduce", 8, JobShape(1, 1, "hopper", 450, 1, 50))
