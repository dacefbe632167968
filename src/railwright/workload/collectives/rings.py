"""Rings: which order the ranks stand in, and the folded rows that go round.

A ring over ``n`` ranks takes ``n - 1`` steps for all-gather and reduce-scatter and ``2(n - 1)`` for all-reduce, each rank
sending ``size / (n * channels)`` per step and channel. Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms
for clusters of workstations", 2009.
"""

import numpy as np
from numpy.typing import NDArray

from railwright.workload.placement import Placement
from railwright.workload.traffic import Ids, Traffic


def rail_rings(placement: Placement, channels: int, cross_nic: int = 2) -> NDArray[np.int64]:
    """Return ranks (channels, m): the order in which channel ``c`` walks the ranks of each domain, domain by domain.

    With ``G`` ranks per domain and ``j = c mod G``, ``cross_nic`` says what NCCL_CROSS_NIC does to a ring's adapters:

    - 2: an even domain is entered at column ``j`` and left at ``j + 1``, an odd one the other way round, so that both ends of
      each crossing are on one rail and every NIC serves one channel in each direction. With an odd number of domains the
      closing edge changes rail. This is NCCL's exchange of the two rings of a pair on odd nodes.
    - 1: every domain is entered at ``j`` and left at ``j + 1``: every crossing changes rail.
    - 0: a domain is entered and left by one NIC. Where no other rank has that NIC, the last rank hands its data over NVLink
      to the rank that was entered (PXN), which then comes twice in the domain: m is n plus the number of domains.

    Source: NCCL 2.30, src/graph/search.cc (`ncclTopoSearchCheckNet`), src/graph/connect.cc (`ncclTopoPostset`).
    """
    grid = placement.grid()
    domains, width = grid.shape
    column = np.arange(channels)[:, None] % width
    if width == 1:
        return np.broadcast_to(grid[:, 0], (channels, domains)).copy()
    if cross_nic == 0:
        walk = np.stack([_by_one_adapter(placement.rail[grid[0]], int(j)) for j in column[:, 0]])[:, None, :]
    else:
        inner = np.concatenate([[0], np.arange(2, width), [1]])
        forward = ((column + inner) % width)[:, None, :]
        odd = (np.arange(domains) % 2 == 1)[None, :, None]
        walk = np.where(odd, forward[:, :, ::-1], forward) if cross_nic == 2 else forward
    rings: NDArray[np.int64] = grid[np.arange(domains)[None, :, None], walk].reshape(channels, -1)
    return rings


def _by_one_adapter(rail: NDArray[np.integer], column: int) -> NDArray[np.int64]:
    """Return the columns of a domain in the order of a ring that enters and leaves it by the adapter of ``column``."""
    width = rail.size
    order = (column + np.arange(width)) % width
    same = order[1:][rail[order[1:]] == rail[column]]
    if same.size:
        return np.concatenate([order[order != same[-1]], same[-1:]])
    return np.concatenate([order, [column]])


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
    """Append rings as folded rows; ``gpus`` (rings, m) are endpoint ids in ring order. Returns op ids (rings, m).

    Row ``[r, i]`` is sent by ``gpus[r, i]`` to its successor; each ring is one group. ``after`` has one entry per row.
    """
    rings, ranks = gpus.shape
    group = np.repeat(traffic.groups(rings), ranks)
    ids = traffic.send(gpus, np.roll(gpus, -1, axis=1), bytes_each, after=after, repeat=repeat, group=group)
    return ids.reshape(rings, ranks)
