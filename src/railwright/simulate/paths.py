"""The links that every operation's bytes take, as the flow engine wants them: compressed rows of links and shares.

Hashed modes (`routing.MODES`) give each queue pair one path, chosen by the hash that the packet engine uses. Spreading modes
give one path that uses every shortest way at once, each link for a share of the bytes: equal shares for sprayed packets and
flowlets (which are taken to be many and short), shares by rate where the switch looks at its queues (adaptive). That is the
limit of many packets; what it misses is the imbalance of few packets and of flowlets that are longer than thought.

A pair that lost its last way because an adapter or leaf is down is relayed: over NVLink to the GPU of the own domain, across
to the GPU in the same place of the other domain, and over NVLink again, as NCCL does when it starts without that adapter.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from railwright import _native
from railwright.errors import InputError, nearest
from railwright.simulate.failures import Condition
from railwright.simulate.network import HOST, SCALE_UP, SWITCH, Network
from railwright.simulate.routing import MODES as HASHED
from railwright.simulate.routing import mask, route_where_possible

SPREAD = ("spray", "adaptive", "flowlet", "spray-round-robin", "multipath")
MODES = (*HASHED, *SPREAD)

_NEXT_QUEUE_PAIR = 0x9E3779B1
"""Distance between the hash inputs of two queue pairs of a connection, as in the packet engine."""


@dataclass(frozen=True)
class Paths:
    """Paths of ``n`` pairs.

    ``offset`` (int64, n + 1), ``link`` (int32), ``share`` (float64): compressed rows. ``reached`` (bool, n): there is a way.
    ``relayed`` (bool, n): it leads over other GPUs' adapters. ``stands_for`` (int32, 2m): links that are alike share one
    number (`native/flow/spray.hpp`); it is the identity unless links were joined.
    """

    offset: NDArray[np.int64]
    link: NDArray[np.int32]
    share: NDArray[np.float64]
    reached: NDArray[np.bool_]
    relayed: NDArray[np.bool_]
    stands_for: NDArray[np.int32]


def find_paths(
    network: Network,
    src: NDArray[np.integer],
    dst: NDArray[np.integer],
    mode: str,
    *,
    entropy: NDArray[np.uint32],
    seed: int,
    scale_up: bool = True,
    state: Condition,
    join_alike: bool = False,
) -> Paths:
    """Return the paths of pairs ``src[i]`` → ``dst[i]`` in ``mode`` on a network in ``state``; raises InputError for the mode.

    ``join_alike`` lets links that carry equal shares of everything count as one (spreading modes only).
    """
    if mode not in MODES:
        raise InputError(
            f"path mode {mode!r} is unknown{nearest(mode, MODES)}; choose one of {', '.join(MODES)}", key="paths"
        )
    paths = _direct(network, src, dst, mode, entropy, seed, scale_up, state, join_alike)
    lost = np.flatnonzero(~paths.reached)
    if lost.size and scale_up:
        paths = _relay(network, src, dst, mode, entropy, seed, state, paths, lost)
    return paths


def queue_pair_entropy(entropy: NDArray[np.uint32], pair: int) -> NDArray[np.uint32]:
    """Return the hash input of queue pair number ``pair`` of each connection."""
    return (entropy.astype(np.uint64) + np.uint64(pair * _NEXT_QUEUE_PAIR)).astype(np.uint32)


def _direct(
    network: Network,
    src: NDArray[np.integer],
    dst: NDArray[np.integer],
    mode: str,
    entropy: NDArray[np.uint32],
    seed: int,
    scale_up: bool,
    state: Condition,
    join_alike: bool,
) -> Paths:
    identity = np.arange(network.link_src.size, dtype=np.int32)
    unrelayed = np.zeros(src.size, np.bool_)
    if mode in HASHED:
        offset, link, unreachable = route_where_possible(
            network,
            src,
            dst,
            entropy=entropy,
            mode=mode,
            seed=seed,
            scale_up=scale_up,
            failed_links=state.failed_links,
            failed_nodes=state.failed_nodes,
        )
        return Paths(offset, link, np.ones(link.size), _all_but(src.size, unreachable), unrelayed, identity)
    weight = state.gbps if mode == "adaptive" else np.ones(network.link_gbps.size)
    found = _native.spray_paths(
        np.ascontiguousarray(network.node_kind),
        np.ascontiguousarray(network.link_src),
        np.ascontiguousarray(network.link_dst),
        mask(network.link_src.size, state.failed_links, "directed link"),
        mask(network.node_kind.size, state.failed_nodes, "node"),
        np.ascontiguousarray(weight),
        np.ascontiguousarray(src, np.int32),
        np.ascontiguousarray(dst, np.int32),
        join_alike and not np.any(state.gbps != network.link_gbps),
    )
    return Paths(
        found["offset"],
        found["link"],
        found["share"],
        _all_but(src.size, found["unreachable"]),
        unrelayed,
        found["stands_for"],
    )


def _all_but(count: int, without: NDArray[np.int64]) -> NDArray[np.bool_]:
    reached = np.ones(count, np.bool_)
    reached[without] = False
    return reached


def _relay(
    network: Network,
    src: NDArray[np.integer],
    dst: NDArray[np.integer],
    mode: str,
    entropy: NDArray[np.uint32],
    seed: int,
    state: Condition,
    paths: Paths,
    lost: NDArray[np.int64],
) -> Paths:
    """Return ``paths`` with ways over neighbours for those of ``lost`` that have one."""
    domains = scale_up_domains(network)
    if domains.domain_of.size == 0:
        return paths
    found: list[tuple[NDArray[np.int64], Paths, NDArray[np.integer], NDArray[np.integer]]] = []
    left = lost
    for shift in range(domains.widest):
        if not left.size:
            break
        near = domains.neighbour(src[left], shift)
        for same_place in (False, True):
            if not left.size:
                break
            far = domains.same_place(near, dst[left]) if same_place else dst[left]
            keep = np.isin(left, lost) & (near >= 0) & (far >= 0)
            rows, start, end = left[keep], near[keep], far[keep]
            way = _direct(network, start, end, mode, entropy[rows], seed, True, state, False)
            good = np.flatnonzero(way.reached)
            found.append((rows[good], _pick(way, good), start[good], end[good]))
            open_ = np.ones(left.size, np.bool_)
            open_[np.flatnonzero(keep)[good]] = False
            left, near = left[open_], near[open_]
    return _splice(network, src, dst, paths, domains, found)


@dataclass(frozen=True)
class Domains:
    """Which scale-up domain each endpoint is in (int64, hosts; -1: none), its place there, and its links up and down."""

    domain_of: NDArray[np.int64]
    place: NDArray[np.int64]
    members: NDArray[np.int64]
    up: NDArray[np.int64]
    down: NDArray[np.int64]

    @property
    def widest(self) -> int:
        """Endpoints of the largest domain."""
        return int(self.members.shape[1])

    def neighbour(self, endpoint: NDArray[np.integer], shift: int) -> NDArray[np.int64]:
        """Return the endpoint ``shift`` places further in the same domain (-1: none)."""
        domain = self.domain_of[endpoint]
        there = self.members[domain, (self.place[endpoint] + shift) % self.widest]
        return np.where(domain >= 0, there, -1)

    def same_place(self, like: NDArray[np.integer], endpoint: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the endpoint of ``endpoint``'s domain in the place that ``like`` has in its own."""
        domain = self.domain_of[endpoint]
        return np.where((domain >= 0) & (like >= 0), self.members[domain, self.place[like]], -1)


def scale_up_domains(network: Network) -> Domains:
    """Return the scale-up domains of ``network``."""
    kind = network.node_kind
    up = np.flatnonzero((kind[network.link_src] == HOST) & (kind[network.link_dst] == SCALE_UP))
    hosts = network.hosts
    domain_of, up_link = np.full(hosts, -1), np.full(hosts, -1)
    domain_of[network.link_src[up]] = network.link_dst[up]
    up_link[network.link_src[up]] = up
    inside = np.flatnonzero(domain_of >= 0)
    if not inside.size:
        none = np.zeros(0, np.int64)
        return Domains(none, none, np.zeros((0, 0), np.int64), none, none)
    _, number = np.unique(domain_of[inside], return_inverse=True)
    order = np.lexsort((inside, number))
    counts = np.bincount(number)
    place_in = np.empty(inside.size, np.int64)
    place_in[order] = np.arange(inside.size) - np.repeat(np.cumsum(counts) - counts, counts)
    members = np.full((counts.size, int(counts.max())), -1)
    members[number, place_in] = inside
    place = np.full(hosts, 0)
    place[inside] = place_in
    domain_of[inside] = number
    return Domains(domain_of, place, members, up_link, up_link ^ 1)


def _pick(paths: Paths, rows: NDArray[np.int64]) -> Paths:
    counts = np.diff(paths.offset)[rows]
    offset = np.concatenate([[0], np.cumsum(counts)])
    spots = np.repeat(paths.offset[rows] - offset[:-1], counts) + np.arange(offset[-1])
    return Paths(
        offset, paths.link[spots], paths.share[spots], paths.reached[rows], paths.relayed[rows], paths.stands_for
    )


def _splice(
    network: Network,
    src: NDArray[np.integer],
    dst: NDArray[np.integer],
    paths: Paths,
    domains: Domains,
    found: list[tuple[NDArray[np.int64], Paths, NDArray[np.integer], NDArray[np.integer]]],
) -> Paths:
    pieces = [(np.repeat(np.arange(src.size), np.diff(paths.offset)), paths.link, paths.share, 1)]
    reached, relayed = paths.reached.copy(), paths.relayed.copy()
    for rows, way, near, far in found:
        reached[rows], relayed[rows] = True, True
        pieces.append((np.repeat(rows, np.diff(way.offset)), way.link, way.share, 1))
        for here, there, turn in ((src[rows], near, 0), (far, dst[rows], 2)):
            hop = here != there
            for link in (domains.up[here[hop]], domains.down[there[hop]]):
                pieces.append((rows[hop], link.astype(np.int32), np.ones(int(hop.sum())), turn))
    row = np.concatenate([piece[0] for piece in pieces])
    turns = np.concatenate([np.full(piece[0].size, piece[3]) for piece in pieces])
    order = np.lexsort((np.arange(row.size), turns, row))
    offset = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=src.size))])
    link = np.concatenate([piece[1] for piece in pieces])[order]
    share = np.concatenate([piece[2] for piece in pieces])[order]
    return Paths(offset, link, share, reached, relayed, paths.stands_for)


def latencies_us(network: Network, paths: Paths) -> NDArray[np.float64]:
    """Return the mean time that the first bit takes on each path (float64, n): propagation and the switches on the way."""
    per_link = (
        network.link_delay_ns + np.where(network.node_kind == SWITCH, network.node_latency_ns, 0.0)[network.link_dst]
    )
    return _sums(paths, per_link[paths.link] * paths.share) / 1e3


def crosses_network(network: Network, paths: Paths) -> NDArray[np.bool_]:
    """Return whether each path (bool, n) leaves its scale-up domain."""
    inside: NDArray[np.bool_] = network.node_kind == SCALE_UP
    outer = ~(inside[network.link_src] | inside[network.link_dst])
    return _sums(paths, outer[paths.link].astype(np.float64)) > 0


def narrowest_gbps(paths: Paths, gbps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rate (float64, n, Gb/s) of each path when nothing else moves (infinity for an empty one)."""
    with np.errstate(divide="ignore"):
        per_hop = gbps[paths.link] / paths.share
    rates = np.full(paths.offset.size - 1, np.inf)
    filled = np.flatnonzero(np.diff(paths.offset) > 0)
    if filled.size:
        rates[filled] = np.minimum.reduceat(per_hop, paths.offset[filled])
    return rates


def _sums(paths: Paths, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of ``values`` (one per link of a path) on each path; alike paths get the same bits, so that they fold."""
    sums = np.zeros(paths.offset.size - 1)
    filled = np.flatnonzero(np.diff(paths.offset) > 0)
    if filled.size:
        sums[filled] = np.add.reduceat(values, paths.offset[filled])
    return sums
