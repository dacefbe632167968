"""All-to-all (even and uneven) and send/recv: one row per pair, and PXN's detour over NVLink.

With ``cross_rail="nvlink"`` (NCCL_P2P_PXN_LEVEL 2, the default) data for a GPU on another rail first goes over NVLink to the GPU
of the own domain on that rail, which puts it on the network together with what its neighbours send to the same GPU: one leaf
hop instead of a path through the spines. Large messages are handed over in pieces, one behind the other, each sent on when it
is there (a pipeline group, see `workload.traffic`). With ``"network"`` every pair is one row from the source's own NIC.

Ranks serve their peers in the rounds of NCCL's point-to-point schedule, in which no two ranks send to the same one: domain by
domain, the next one ``d`` domains away with ``d = 0, 1, 3, 6, 10, …`` (mod the next power of two), and inside it GPU by GPU from
the own place on. Source: NCCL 2.30, src/init.cc (`ncclP2pSchedule`).
"""

import numpy as np
from numpy.typing import NDArray

from railwright.workload.placement import Placement
from railwright.workload.traffic import NONE, Ids, Traffic

HANDED_BYTES = 512 * 1024
"""One step of NCCL's buffer (see `build.PIECE_BYTES`): the piece in which data are handed to another GPU's adapter."""

MOST_HANDED = 8
"""Most pieces per message: with more, the first piece is so small that filling the pipeline costs next to nothing."""


def pair_rows(
    traffic: Traffic,
    placement: Placement,
    src: NDArray[np.int64],
    dst: NDArray[np.int64],
    bytes_each: NDArray[np.float64],
    *,
    relay: bool,
    window: int | None,
) -> None:
    """Append sends between ranks. Each rank has ``window`` sends in flight, in the order of their rounds (None: all).

    ``src``, ``dst``, ``bytes_each``: one entry per pair (src differs from dst). A NIC that sends for its neighbours (``relay``)
    counts one send per destination; what they hand to it over NVLink runs as many destinations ahead.
    """
    ranks = placement.ranks
    order = np.lexsort((src, rounds(placement, src, dst)))
    src, dst, bytes_each = src[order], dst[order], bytes_each[order]
    gpu = placement.gpu
    if not relay:
        ids = traffic.next_id + np.arange(src.size)
        traffic.send(gpu[src], gpu[dst], bytes_each, after=_window(src, ids, window))
        return
    over = placement.relay(src, dst)
    carried, place = np.unique(over * ranks + dst, return_inverse=True)
    carrier, target = np.divmod(carried, ranks)
    handed = np.flatnonzero(over != src)
    pieces = int(np.clip(np.ceil(bytes_each.max(initial=0.0) / HANDED_BYTES), 1, MOST_HANDED))
    group = traffic.groups(carried.size) if pieces > 1 and handed.size else None
    first_ids = traffic.next_id + np.arange(handed.size)
    ahead = None if window is None else window * max(1, ranks // placement.domains - 1)
    handed_ids = traffic.send(
        gpu[src[handed]],
        gpu[over[handed]],
        bytes_each[handed] / pieces,
        after=_window(src[handed], first_ids, ahead),
        repeat=pieces,
        group=None if group is None else group[place[handed]],
    )
    by_load = np.argsort(place[handed], kind="stable")
    waits = np.bincount(place[handed], minlength=carried.size)
    order = np.lexsort((carrier, rounds(placement, carrier, target)))
    piped = waits[order] > 0
    ids = np.empty(carried.size, np.int64)
    ids[np.concatenate([order[piped], order[~piped]])] = traffic.next_id + np.arange(carried.size)
    load = np.bincount(place, weights=bytes_each, minlength=carried.size)
    earlier = _window(carrier[order], ids[order], window)
    starts = np.concatenate([[0], np.cumsum(waits)])
    for part, repeat in ((piped, pieces), (~piped, 1)):
        rows = order[part]
        counts = waits[rows]
        spots = np.repeat(starts[rows] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        row, values = np.repeat(np.arange(rows.size), counts), handed_ids[by_load][spots]
        if earlier is not None:
            before = earlier[part, 0]
            held = np.flatnonzero(before != NONE)
            row, values = np.concatenate([row, held]), np.concatenate([values, before[held]])
            by_row = np.argsort(row, kind="stable")
            row, values = row[by_row], values[by_row]
        offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows.size))])
        traffic.send(
            gpu[carrier[rows]],
            gpu[target[rows]],
            load[rows] / repeat,
            after=(values, offsets),
            repeat=repeat,
            group=None if group is None or repeat == 1 else group[rows],
        )


def rounds(placement: Placement, src: NDArray[np.integer], dst: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the round of NCCL's schedule in which rank ``src`` sends to rank ``dst``; 0 is to itself.

    Domains that hold different numbers of ranks count as one flat row of ranks.
    """
    ranks = placement.ranks
    node, local, width = np.arange(ranks), np.zeros(ranks, np.int64), 1
    if placement.balanced:
        grid = placement.grid()
        width = grid.shape[1]
        node[grid.ravel()] = np.repeat(np.arange(grid.shape[0]), width)
        local[grid.ravel()] = np.tile(np.arange(width), grid.shape[0])
    nodes = ranks // width
    turn = _turns(nodes)[(node[dst] - node[src]) % nodes]
    order: NDArray[np.int64] = turn * width + (local[dst] - local[src]) % width
    return order


def _turns(nodes: int) -> NDArray[np.int64]:
    """Return at which turn each distance 0 … nodes - 1 comes: triangular numbers modulo the next power of two, too large ones
    skipped."""
    power = 1 << (nodes - 1).bit_length()
    step = np.arange(power, dtype=np.int64)
    distance = step * (step + 1) // 2 % power
    kept = distance[distance < nodes]
    turns = np.empty(nodes, np.int64)
    turns[kept] = np.arange(nodes)
    return turns


def _window(src: NDArray[np.int64], ids: Ids, window: int | None) -> Ids | None:
    """Return (m, 1) op ids: each row waits for the row of the same ``src`` that came ``window`` earlier, in row order."""
    if window is None:
        return None
    order = np.argsort(src, kind="stable")
    starts = np.flatnonzero(np.concatenate([[True], np.diff(src[order]) != 0]))
    position = np.arange(src.size) - np.repeat(starts, np.diff(np.concatenate([starts, [src.size]])))
    waits = np.full((src.size, 1), NONE, np.int64)
    late = np.flatnonzero(position >= window)
    waits[order[late], 0] = ids[order[late - window]]
    return waits


def all_pairs(ranks: int, size: float) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return (src, dst, bytes) of an even all-to-all: ``size / n`` from each rank to each other one."""
    src = np.repeat(np.arange(ranks), ranks - 1)
    shift = np.tile(np.arange(1, ranks), ranks)
    return src, (src + shift) % ranks, np.full(src.size, size / ranks)
