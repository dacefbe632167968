"""`collective_traffic`: one collective on placed ranks as a traffic table, whatever the algorithm.

Every algorithm below moves the textbook number of bytes per rank (the tests hold it to that): all-reduce ``2(n-1)/n * size``
for rings and halving-doubling, all-gather and reduce-scatter ``(n-1)/n * size``, trees ``size`` per edge and direction. NVLS and
CollNet compute inside switches, so that their NVLink rows stand for fewer bytes: see `hierarchical`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from railwright.errors import InputError, nearest
from railwright.workload.collectives.exchange import halving_doubling, inside_domains, pat
from railwright.workload.collectives.meaning import collective_name
from railwright.workload.collectives.pairs import all_pairs, pair_rows
from railwright.workload.collectives.rings import flat_rings, rail_rings, ring_rows
from railwright.workload.collectives.trees import chains, column_trees, rail_trees, tree_rows
from railwright.workload.placement import Placement
from railwright.workload.traffic import Ids, Traffic

PIECE_BYTES = 512 * 1024
"""One step of NCCL's buffer (NCCL_BUFFSIZE 4 MiB / 8 steps): the piece in which trees and chains are pipelined."""

MOST_PIECES = 128
PHASE_CHUNKS = 4


@dataclass(frozen=True)
class _Job:
    """What an algorithm gets: the collective, its size in bytes, the ranks and the knobs of `collective_traffic`."""

    collective: str
    size: float
    placement: Placement
    channels: int | None
    chunks: int | None
    relay: bool
    cross_nic: int
    root: int
    matrix: NDArray[np.float64] | None
    window: int | None
    traffic: Traffic

    def rings(self, *, flat: bool) -> NDArray[np.int64]:
        if flat:
            return flat_rings(self.placement, self.channels or 1)
        return rail_rings(self.placement, self.channels or self.placement.grid().shape[1], self.cross_nic)


def _ring(job: _Job, *, flat: bool = False) -> None:
    """Rings over all ranks; ``chunks`` splits each step into that many chains in flight at once (default 1)."""
    rings, ranks = job.rings(flat=flat), job.placement.ranks
    chunks = job.chunks or 1
    steps = (ranks - 1) * (2 if job.collective == "all-reduce" else 1)
    gpus = job.placement.gpu[np.repeat(rings, chunks, axis=0)]
    ring_rows(job.traffic, gpus, job.size / (ranks * gpus.shape[0]), steps)


def _chain(job: _Job, *, flat: bool = False) -> None:
    """Broadcast and reduce as NCCL does them: every ring cut open at the root, pipelined in ``chunks`` pieces.

    A chain passes each rank once: with ``cross_nic`` 0 the order is that of 2, which keeps to its rail as well.
    """
    rings = replace(job, cross_nic=job.cross_nic or 2).rings(flat=flat)
    _trees(job, chains(rings, job.root), job.size / rings.shape[0])


def _tree(job: _Job) -> None:
    """Double binary trees over the domains, one pair per channel, each tree with half of the channel's bytes."""
    parent = rail_trees(job.placement, job.channels or job.placement.grid().shape[1])
    _trees(job, parent, job.size / parent.shape[0])


def _trees(job: _Job, parent: NDArray[np.int64], bytes_per_tree: float) -> None:
    pieces = job.chunks or min(MOST_PIECES, max(1, ceil(bytes_per_tree / PIECE_BYTES)))
    up = job.collective in ("all-reduce", "reduce")
    down = job.collective in ("all-reduce", "broadcast")
    tree_rows(job.traffic, parent, job.placement.gpu, bytes_per_tree / pieces, pieces, up=up, down=down)


def _hierarchical(job: _Job, *, between: str, in_switch: bool) -> None:
    """Inner reduce-scatter over NVLink, one set of ranks per column between domains, inner all-gather.

    With ``in_switch`` (NVLS: the NVSwitch adds and copies) a GPU's port carries ``size * (1 + 1/G) / 2`` per phase and direction
    on average instead of ``size * (G - 1) / G``; the rows of both inner phases are scaled to that. ``between`` is ``ring``,
    ``tree``, ``halving-doubling``, ``pat`` or ``switch`` (CollNet/SHARP: each NIC sends its shard once and receives the result
    once; the next domain on the rail stands in for the switch). ``chunks`` (default `phase_chunks`) copies of the whole follow
    each other, so that inner and outer phases overlap as they do in NCCL; between domains each waits for the one before, as
    NCCL's loops do on a connection.
    """
    grid = job.placement.grid()
    domains, width = grid.shape
    gpus = job.placement.gpu[grid].astype(np.int64)
    chunks = job.chunks or phase_chunks(job.size, width, domains)
    size = job.size / chunks
    inner = size / width * ((width + 1) / (2 * (width - 1)) if in_switch and width > 1 else 1.0)
    scatter = job.collective in ("all-reduce", "reduce-scatter")
    gather = job.collective in ("all-reduce", "all-gather")
    columns = np.ascontiguousarray(gpus.T)
    before: Ids | None = None
    crossed: Ids | None = None
    for _ in range(chunks):
        if scatter:
            before = inside_domains(job.traffic, gpus, inner, before)
        arrived = before
        if domains > 1:
            ready = [ids for ids in (before, crossed) if ids is not None]
            waits = np.concatenate(ready, axis=2) if ready else None
            crossed = _swapped(_between(job, between, columns, size / width, _swapped(waits)))
            arrived = crossed
        if gather:
            last = inside_domains(job.traffic, gpus, inner, arrived)
            before = before if scatter or domains > 1 else last


def phase_chunks(size_bytes: float, width: int, domains: int) -> int:
    """Return into how many chunks a hierarchical collective over ``domains`` of ``width`` ranks is cut: 1 to `PHASE_CHUNKS`.

    More overlap inner and outer phases better; but a chunk pays all steps' latency again, so that no step between domains
    becomes smaller than `PIECE_BYTES`.
    """
    if width == 1 or domains == 1:
        return 1
    return int(min(PHASE_CHUNKS, max(1, size_bytes // (width * domains * PIECE_BYTES))))


def _swapped(ids: Ids | None) -> Ids | None:
    """Return op ids of (domains, width, k) by column, (width, domains, k), or the other way round."""
    return None if ids is None else np.ascontiguousarray(ids.transpose(1, 0, 2))


def _between(job: _Job, how: str, columns: NDArray[np.int64], shard: float, after: Ids | None) -> Ids:
    """Append the phase between domains for every column (width, domains) of ``shard`` bytes; see `_hierarchical`."""
    width, domains = columns.shape
    if how == "tree":
        return _between_by_trees(job, shard, after)
    both = job.collective == "all-reduce"
    flat = None if after is None else after.reshape(width * domains, -1)
    if how == "halving-doubling":
        return halving_doubling(job.traffic, columns, shard, after)
    if how == "pat":
        return pat(job.traffic, columns, shard / domains, scatter=job.collective == "reduce-scatter", after=after)
    if how == "switch":
        ids = job.traffic.send(columns, np.roll(columns, -1, axis=1), shard, after=flat)
        return np.roll(ids.reshape(width, domains), 1, axis=1)[:, :, None]
    steps = (domains - 1) * (2 if both else 1)
    ids = ring_rows(job.traffic, columns, shard / domains, steps, flat)
    return np.roll(ids, 1, axis=1)[:, :, None]


def _between_by_trees(job: _Job, shard: float, after: Ids | None) -> Ids:
    grid = job.placement.grid()
    domains, width = grid.shape
    own = None
    if after is not None:
        own = np.empty((grid.size, after.shape[2]), np.int64)
        own[grid.T] = after
    pieces = min(MOST_PIECES, max(1, ceil(shard / 2 / PIECE_BYTES)))
    parent = column_trees(grid)
    gpus = job.placement.gpu
    arrived = tree_rows(job.traffic, parent, gpus, shard / 2 / pieces, pieces, up=True, down=True, after=own)
    per_column = arrived.reshape(width, 2, grid.size, -1)
    ends = per_column[np.arange(width)[:, None], :, grid.T]
    return ends.reshape(width, domains, -1)


def _pairs(job: _Job) -> None:
    """All-to-all: pairwise sends, each rank serving nearest rank numbers first, ``window`` at a time; PXN as in `pairs`."""
    ranks = job.placement.ranks
    if job.matrix is None:
        src, dst, load = all_pairs(ranks, job.size)
    else:
        src, dst = np.nonzero((job.matrix > 0) & ~np.eye(ranks, dtype=bool))
        load = job.matrix[src, dst]
    pair_rows(job.traffic, job.placement, src, dst, load, relay=job.relay, window=job.window)


def _neighbours(job: _Job) -> None:
    """Send/recv as nccl-tests' sendrecv: every rank sends ``size`` to the next one."""
    ranks = job.placement.ranks
    src = np.arange(ranks)
    load = np.full(ranks, job.size)
    pair_rows(job.traffic, job.placement, src, (src + 1) % ranks, load, relay=job.relay, window=None)


_ALL_REDUCE: Mapping[str, Callable[[_Job], None]] = {
    "ring": _ring,
    "ring-flat": lambda job: _ring(job, flat=True),
    "tree": _tree,
    "nvls": lambda job: _hierarchical(job, between="ring", in_switch=True),
    "nvls-tree": lambda job: _hierarchical(job, between="tree", in_switch=True),
    "collnet": lambda job: _hierarchical(job, between="switch", in_switch=True),
    "hierarchical": lambda job: _hierarchical(job, between="ring", in_switch=False),
    "halving-doubling": lambda job: _hierarchical(job, between="halving-doubling", in_switch=False),
}
_ONE_WAY: Mapping[str, Callable[[_Job], None]] = {
    "ring": _ring,
    "ring-flat": lambda job: _ring(job, flat=True),
    "pat": lambda job: _hierarchical(job, between="pat", in_switch=False),
    "nvls": lambda job: _hierarchical(job, between="ring", in_switch=True),
    "hierarchical": lambda job: _hierarchical(job, between="ring", in_switch=False),
}
_ROOTED: Mapping[str, Callable[[_Job], None]] = {"ring": _chain, "ring-flat": lambda job: _chain(job, flat=True)}

ALGORITHMS: Mapping[str, Mapping[str, Callable[[_Job], None]]] = {
    "all-reduce": _ALL_REDUCE,
    "all-gather": _ONE_WAY,
    "reduce-scatter": _ONE_WAY,
    "broadcast": _ROOTED,
    "reduce": _ROOTED,
    "all-to-all": {"pairwise": _pairs},
    "send-recv": {"pairwise": _neighbours},
}
"""What each collective can run as; the first one is the default when the placement is balanced."""


def collective_traffic(
    name: str,
    size_bytes: float,
    placement: Placement,
    *,
    algorithm: str | None = None,
    channels: int | None = None,
    chunks: int | None = None,
    cross_rail: str = "nvlink",
    cross_nic: int = 2,
    root: int = 0,
    matrix: ArrayLike | None = None,
    window: int | None = 8,
    job: str = "job",
    traffic_class: str = "rdma",
) -> pl.DataFrame:
    """Return the traffic table of collective ``name`` with nccl-tests' ``size_bytes`` (see `meaning`) on ``placement``.

    ``algorithm`` is a key of `ALGORITHMS` (default: ``ring``, or ``ring-flat`` when the domains are not filled alike).
    ``channels`` is the number of rings or tree pairs (default: ranks per domain, so that every NIC has one).
    ``chunks``: rings: pieces of a step in flight at once (1); trees and chains: pieces in the pipeline (512 KiB each, at most
    128); hierarchical ones: copies of all phases in a row (`phase_chunks`). ``cross_rail`` is ``nvlink`` (PXN) or ``network``;
    only pairwise collectives differ. ``cross_nic`` is NCCL_CROSS_NIC for rings (`rail_rings`). ``root`` is a rank. ``matrix``
    (n, n) gives bytes from rank i to rank j of an uneven all-to-all in place of ``size_bytes``. ``window``: network sends that
    each rank has in flight in an all-to-all (None: all).

    Endpoints are global GPU ids. Raises InputError that names the argument.
    """
    collective = collective_name(name)
    if placement.ranks < 2:
        raise InputError(f"{placement.ranks} rank has nobody to talk to; at least 2 are needed", key="ranks")
    if matrix is None and not size_bytes > 0:
        raise InputError(f"{size_bytes} is not an amount of data; more than 0 bytes are needed", key="size")
    for key, value in (("channels", channels), ("chunks", chunks), ("window", window)):
        if value is not None and value < 1:
            raise InputError(f"{value} is not a count; at least 1 is needed", key=key)
    if cross_rail not in ("nvlink", "network"):
        allowed = ("nvlink", "network")
        raise InputError(
            f"{cross_rail!r} is unknown{nearest(cross_rail, allowed)}; choose nvlink or network", key="cross_rail"
        )
    if cross_nic not in (0, 1, 2):
        raise InputError(f"{cross_nic} is not a value of NCCL_CROSS_NIC; choose 0, 1 or 2", key="cross_nic")
    if not 0 <= root < placement.ranks:
        raise InputError(f"rank {root} does not exist; ranks are 0 to {placement.ranks - 1}", key="root")
    known = ALGORITHMS[collective]
    if algorithm is None:
        algorithm = next(iter(known)) if "ring" not in known or placement.balanced else "ring-flat"
    if algorithm not in known:
        raise InputError(
            f"{algorithm!r} is not an algorithm of {collective}{nearest(algorithm, known)}; "
            f"choose one of {', '.join(known)}",
            key="algorithm",
        )
    traffic = Traffic(job, traffic_class)
    known[algorithm](
        _Job(
            collective=collective,
            size=float(size_bytes),
            placement=placement,
            channels=channels,
            chunks=chunks,
            relay=cross_rail == "nvlink",
            cross_nic=cross_nic,
            root=root,
            matrix=_checked_matrix(matrix, collective, placement.ranks),
            window=window,
            traffic=traffic,
        )
    )
    return traffic.frame()


def _checked_matrix(matrix: ArrayLike | None, collective: str, ranks: int) -> NDArray[np.float64] | None:
    if matrix is None:
        return None
    if collective != "all-to-all":
        raise InputError(f"{collective} is even by definition; only all-to-all takes a matrix", key="matrix")
    values = np.asarray(matrix, np.float64)
    if values.shape != (ranks, ranks):
        raise InputError(f"the shape is {values.shape}; {ranks} ranks need ({ranks}, {ranks})", key="matrix")
    if not bool(np.all(np.isfinite(values) & (values >= 0))):
        raise InputError("an entry is negative or not a number; bytes are 0 or more", key="matrix")
    return values
