"""Who sends how much to whom: a traffic table as a matrix of ranks, and how much of it stays on NVLink or on one rail."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.errors import InputError
from railwright.workload.placement import Placement

MOST_CELLS = 128


@dataclass(frozen=True)
class TrafficMatrix:
    """Bytes from rank block (row) to rank block (column), float64, square; blocks have equal sizes but for the last.

    ``labels`` name the blocks, ``block`` is how many ranks one holds. ``shares`` are the parts of all bytes: ``NVLink``,
    ``network, same rail`` and ``network, cross rail``; they sum to 1 (all 0 when nothing is sent).
    """

    cells: NDArray[np.float64]
    labels: list[str]
    block: int
    shares: dict[str, float]

    @property
    def unit(self) -> str:
        """What a cell counts."""
        return "bytes" if self.block == 1 else f"bytes between blocks of {self.block} GPUs"


def traffic_matrix(traffic: pl.DataFrame, placement: Placement, *, most_cells: int = MOST_CELLS) -> TrafficMatrix:
    """Return the matrix of all sends of ``traffic`` between the ranks of ``placement``, in rank order.

    More than ``most_cells`` ranks are summed in blocks. Raises InputError for an endpoint that has no rank.
    """
    sends = traffic.filter(pl.col("kind").cast(pl.String) == "send")
    pairs = (
        sends.select("src", "dst", bytes=pl.col("bytes") * pl.col("repeat").fill_null(1))
        .group_by("src", "dst")
        .agg(pl.col("bytes").sum())
        .sort("src", "dst")
    )
    amount = pairs["bytes"].to_numpy()
    src, dst = (_ranks(placement, pairs[name].to_numpy()) for name in ("src", "dst"))
    inside = placement.domain[src] == placement.domain[dst]
    same_rail = placement.rail[src] == placement.rail[dst]
    total = float(amount.sum()) or 1.0
    block = -(-placement.ranks // most_cells)
    count = -(-placement.ranks // block)
    cells = np.zeros((count, count))
    np.add.at(cells, (src // block, dst // block), amount)
    first = placement.gpu[::block]
    last = placement.gpu[np.minimum(np.arange(1, count + 1) * block, placement.ranks) - 1]
    return TrafficMatrix(
        cells=cells,
        labels=[f"GPU {a}" if a == b else f"GPUs {a}-{b}" for a, b in zip(first, last, strict=True)],
        block=block,
        shares={
            "NVLink": float(amount[inside].sum()) / total,
            "network, same rail": float(amount[~inside & same_rail].sum()) / total,
            "network, cross rail": float(amount[~inside & ~same_rail].sum()) / total,
        },
    )


def _ranks(placement: Placement, gpus: NDArray[np.unsignedinteger]) -> NDArray[np.int64]:
    order = np.argsort(placement.gpu, kind="stable")
    spots = np.minimum(np.searchsorted(placement.gpu[order], gpus), placement.ranks - 1)
    ranks: NDArray[np.int64] = order[spots].astype(np.int64)
    strange = placement.gpu[ranks] != gpus
    if strange.any():
        raise InputError(f"GPU {gpus[strange][0]} sends or receives but has no rank", key="traffic")
    return ranks
