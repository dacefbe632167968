"""Exchanges between partners: everyone with everyone inside a domain, halving and doubling, PAT.

All functions append rows to a `Traffic` and return op ids in a shape that the next phase can wait for.
"""

import numpy as np
from numpy.typing import NDArray

from railwright.workload.traffic import NONE, Ids, Traffic

DIRECT_GPUS = 16
"""Largest domain whose inner phases are written pair by pair; larger ones (NVL72) use a folded ring of the same bytes."""


def inside_domains(
    traffic: Traffic, gpus: NDArray[np.integer], bytes_each: float, after: Ids | None = None
) -> Ids | None:
    """Append one all-to-all of ``bytes_each`` per pair inside each row of ``gpus`` (domains, G).

    This is the inner phase of a hierarchical reduce-scatter or all-gather. ``after`` (domains, G, k) says what each GPU waits
    for. Returns op ids (domains, G, m) of what arrives at each GPU, or None when G is 1.
    """
    domains, width = gpus.shape
    if width == 1:
        return after
    waits = None if after is None else after.reshape(domains, width, -1)
    if width > DIRECT_GPUS:
        group = np.repeat(traffic.groups(domains), width)
        target = np.roll(gpus, -1, axis=1)
        round_ids = traffic.send(gpus, target, bytes_each, after=_rows(waits), repeat=width - 1, group=group)
        return np.roll(round_ids.reshape(domains, width), 1, axis=1)[:, :, None]
    shift = np.arange(1, width)
    peer = (np.arange(width)[:, None] + shift) % width
    source = np.broadcast_to(gpus[:, :, None], (domains, width, width - 1))
    held = None if waits is None else np.repeat(waits.reshape(domains * width, -1), width - 1, axis=0)
    ids = traffic.send(source, gpus[:, peer], bytes_each, after=held).reshape(domains, width, width - 1)
    sender = (np.arange(width)[:, None] - shift) % width
    return ids[:, sender, shift - 1]


def _rows(waits: Ids | None) -> Ids | None:
    return None if waits is None else waits.reshape(-1, waits.shape[-1])


def halving_doubling(traffic: Traffic, gpus: NDArray[np.integer], size: float, after: Ids | None = None) -> Ids:
    """Append a recursive halving-doubling all-reduce of ``size`` bytes over each row of ``gpus`` (sets, n).

    log2(n) halving steps (reduce-scatter, far partner first) and as many doubling steps. When n is not a power of two, each of
    the first ``2e`` ranks (e = n - 2^k) with an even number first hands all its data to its neighbour and gets the result
    back at the end. ``after`` (sets, n, k). Returns op ids (sets, n, m) that each rank's result rests on.
    Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005.
    """
    sets, ranks = gpus.shape
    levels = int(ranks).bit_length() - 1
    core = 1 << levels
    extra = ranks - core
    waits = np.full((sets, ranks, 1), NONE, np.int64) if after is None else after.reshape(sets, ranks, -1)
    giver, taker = np.arange(0, 2 * extra, 2), np.arange(1, 2 * extra, 2)
    active = np.concatenate([taker, np.arange(2 * extra, ranks)])
    state = waits[:, active]
    if extra:
        handed = traffic.send(gpus[:, giver], gpus[:, taker], size, after=_rows(waits[:, giver]))
        added = np.full((sets, core, 1), NONE, np.int64)
        added[:, :extra, 0] = handed.reshape(sets, extra)
        state = np.concatenate([state, added], axis=2)
    halving = [(core >> (level + 1), size / (1 << (level + 1))) for level in range(levels)]
    for distance, share in [*halving, *reversed(halving)]:
        peer = np.arange(core) ^ distance
        ids = traffic.send(gpus[:, active], gpus[:, active[peer]], share, after=_rows(state)).reshape(sets, core)
        state = np.stack([ids, ids[:, peer]], axis=2)
    if extra:
        back = state[:, :extra]
        returned = traffic.send(gpus[:, taker], gpus[:, giver], size, after=_rows(back))
        result = np.full((sets, ranks, max(state.shape[2], 1)), NONE, np.int64)
        result[:, active] = state
        result[:, giver, 0] = returned.reshape(sets, extra)
        return result
    return state


def pat(
    traffic: Traffic,
    gpus: NDArray[np.integer],
    share: float,
    *,
    scatter: bool,
    after: Ids | None = None,
) -> Ids:
    """Append a PAT all-gather (or, ``scatter``, reduce-scatter) over each row of ``gpus`` (sets, n); ``share`` = size / n bytes.

    log2(n) steps; the all-gather starts with the farthest partner and one share, so that most bytes travel to near partners
    (the reverse of Bruck's); in the step with distance ``d`` every rank sends ``ceil((n - d) / 2d)`` shares to rank ``i + d``.
    The reduce-scatter is the same backwards. ``after`` (sets, n, k); returns op ids (sets, n, m). Source: Jeaugey, "PAT: a new
    algorithm for all-gather and reduce-scatter operations at scale", 2025.
    """
    sets, ranks = gpus.shape
    distances = [1 << level for level in range((ranks - 1).bit_length())]
    state = after
    rank = np.arange(ranks)
    for distance in distances if scatter else reversed(distances):
        blocks = -(-(ranks - distance) // (2 * distance))
        peer = (rank + (-distance if scatter else distance)) % ranks
        ids = traffic.send(gpus, gpus[:, peer], blocks * share, after=None if state is None else _rows(state))
        sent = ids.reshape(sets, ranks)
        arrived = np.empty_like(sent)
        arrived[:, peer] = sent
        state = np.stack([sent, arrived], axis=2)
    return np.full((sets, ranks, 1), NONE, np.int64) if state is None else state
