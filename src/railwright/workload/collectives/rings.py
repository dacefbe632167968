"""Rings: which order the ranks stand in, and the folded rows that go round.

A ring over ``n`` ranks takes ``n - 1`` steps for all-gather and reduce-scatter and ``2(n - 1)`` for all-reduce, each rank
sending ``size / (n * channels)`` per step and channel. Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms
for clusters of workstations", 2009.
"""

import numpy as np
from numpy.typing import NDArray

from railwright.workload.placement import Placement
from railwright.workload.traffic import Ids, Traffic


def rail_rings(placement: Placement, channels: int) -> NDArray[np.int64]:
    """Return ranks (channels, n): channel ``c`` crosses between domains on one rail per pair and walks a domain over NVLink.

    With ``G`` ranks per domain and ``j = c mod G``, an even domain is entered at column ``j`` and left at ``j + 1``, an odd one
    the other way round, so that both ends of each crossing are on one rail and every NIC serves one channel in each direction.
    This is what NCCL does with NCCL_CROSS_NIC=2 (it exchanges the two NICs of a ring on odd nodes). With an odd number of
    domains the closing edge of each ring changes rail, as NCCL's does.
    """
    grid = placement.grid()
    domains, width = grid.shape
    column = np.arange(channels)[:, None] % width
    if width == 1:
        return np.broadcast_to(grid[:, 0], (channels, domains)).copy()
    inner = np.concatenate([[0], np.arange(2, width), [1]])
    forward = (column + inner) % width
    backward = forward[:, ::-1]
    odd = (np.arange(domains) % 2 == 1)[None, :, None]
    walk = np.where(odd, backward[:, None, :], forward[:, None, :])
    rings: NDArray[np.int64] = grid[np.arange(domains)[None, :, None], walk].reshape(channels, -1)
    return rings


def flat_rings(placement: Placement, channels: int) -> NDArray[np.int64]:
    """Return ranks (channels, n) in rank order for every channel: what a job without topology knowledge does."""
    return np.broadcast_to(np.arange(placement.ranks), (channels, placement.ranks)).copy()


def ring_rows(
    traffic: Traffic,
    gpus: NDArray[np.integer],
    bytes_each: float,
    repeat: int,
    after: Ids | tuple[Ids, Ids] | None = None,
) -> Ids:
    """Append rings as folded rows; ``gpus`` (rings, n) are endpoint ids in ring order. Returns op ids (rings, n).

    Row ``[r, i]`` is sent by ``gpus[r, i]`` to its successor; each ring is one group. ``after`` has one entry per row.
    """
    rings, ranks = gpus.shape
    group = np.repeat(traffic.groups(rings), ranks)
    ids = traffic.send(gpus, np.roll(gpus, -1, axis=1), bytes_each, after=after, repeat=repeat, group=group)
    return ids.reshape(rings, ranks)
