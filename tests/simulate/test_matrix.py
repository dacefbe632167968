"""The traffic matrix: every byte once, and the shares that follow from the algorithm."""

import numpy as np
import polars as pl
import pytest

from railwright.errors import InputError
from railwright.simulate.matrix import traffic_matrix
from railwright.workload.collectives import collective_traffic
from railwright.workload.placement import Placement

SIZE = 2.0**20


def test_an_all_to_all_over_nvlink_and_rails_never_crosses_rails() -> None:
    ranks, width = 32, 8
    placement = Placement.of(ranks, gpus_per_server=width)
    matrix = traffic_matrix(collective_traffic("all-to-all", SIZE, placement), placement)
    each = SIZE / ranks
    outside = ranks * (ranks - width) * each
    relayed = outside * (width - 1) / width
    inside = ranks * (width - 1) * each
    assert matrix.cells.sum() == pytest.approx(outside + relayed + inside)
    assert matrix.shares["network, same rail"] == pytest.approx(outside / matrix.cells.sum())
    assert matrix.shares["network, cross rail"] == 0


def test_without_nvlink_seven_of_eight_network_bytes_cross_rails() -> None:
    placement = Placement.of(32, gpus_per_server=8)
    matrix = traffic_matrix(collective_traffic("all-to-all", SIZE, placement, cross_rail="network"), placement)
    assert matrix.shares["network, cross rail"] == pytest.approx(24 / 31 * 7 / 8)
    assert sum(matrix.shares.values()) == pytest.approx(1)


def test_repetitions_count_and_blocks_keep_the_sum() -> None:
    placement = Placement.of(64, gpus_per_server=8)
    traffic = collective_traffic("all-reduce", SIZE, placement, algorithm="ring")
    fine, coarse = (traffic_matrix(traffic, placement, most_cells=cells) for cells in (64, 7))
    assert fine.cells.sum() == pytest.approx(64 * 2 * 63 / 64 * SIZE)
    assert coarse.cells.shape == (7, 7)
    assert coarse.cells.sum() == pytest.approx(fine.cells.sum())
    assert coarse.labels[0] == "GPUs 0-9"
    assert coarse.labels[-1] == "GPUs 60-63"


def test_ranks_on_any_gpus_keep_their_order() -> None:
    placement = Placement.of([9, 1], gpus_per_server=8)
    traffic = collective_traffic("send-recv", SIZE, placement)
    matrix = traffic_matrix(traffic, placement)
    assert matrix.labels == ["GPU 9", "GPU 1"]
    assert np.array_equal(matrix.cells, [[0, SIZE], [SIZE, 0]])
    with pytest.raises(InputError, match="GPU 7 sends or receives but has no rank"):
        traffic_matrix(traffic.with_columns(src=pl.lit(7, pl.UInt32)), placement)
