"""What the fabric allows a collective: the bytes on every link in one pass, and the link that needs the longest for its share.

A ring, tree or pipeline in steady state, and an all-to-all as a whole, can go no faster than its busiest link: time per byte of
message = bytes on the link / its payload rate. With hashed paths this is where collisions and oversubscription show. It is
exact for what repeats steadily with equal messages (the slowest edge of a ring sets the pace of all), and a lower bound for an
all-to-all, whose messages do not all meet at the best time (docs/validation.md has the distance to the flow engine).
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.errors import InputError
from railwright.simulate.failures import condition
from railwright.simulate.flow.engine import BYTES_PER_US
from railwright.simulate.network import HOST, SCALE_UP, Network
from railwright.simulate.paths import find_paths, queue_pair_entropy
from railwright.simulate.routing import MODES as HASHED
from railwright.simulate.routing import flow_entropy, no_path
from railwright.workload.collectives import collective_traffic
from railwright.workload.placement import Placement

MOST_PATHS = 4_000_000
"""Paths that are worked out one by one; an all-to-all with more is taken to be spread evenly (hundreds of flows per link)."""

_SIZE = float(2**30)


@dataclass(frozen=True)
class Ceiling:
    """The least time per byte of message that the network needs, and where.

    ``link`` is the busiest directed link; ``adapter``: it is a server's own; ``flows`` cross it (None: everything is spread
    evenly); ``even`` says that collisions of hashed paths were not counted; ``relayed`` that some pair has no way of its own and
    goes over NVLink and other GPUs' adapters.
    """

    us_per_byte: float
    link: int
    adapter: bool
    flows: int | None
    even: bool = False
    relayed: bool = False


def fabric_ceiling(
    network: Network,
    collective: str,
    placement: Placement,
    algorithm: str,
    *,
    paths: str,
    goodput: float,
    channels: int | None = None,
    queue_pairs: int = 1,
    cross_rail: str = "nvlink",
    cross_nic: int = 2,
    seed: int = 0,
) -> Ceiling | None:
    """Return the ceiling of ``collective`` by ``algorithm`` (of `collectives.ALGORITHMS`), or None when nothing leaves a domain.

    ``paths`` is a mode of `simulate.paths`, ``goodput`` the payload share of a link's rate, ``queue_pairs`` the flows into
    which each connection is split.
    """
    if placement.domains < 2:
        return None
    summed = even = False
    if collective == "all-to-all":
        sends = _all_to_all(placement, relay=cross_rail == "nvlink")
        even = paths in HASHED and sends.height * queue_pairs > MOST_PATHS
        summed = even or paths not in HASHED
        if summed:
            sends = _by_leaf(network, sends)
    else:
        traffic = collective_traffic(
            collective,
            _SIZE,
            placement,
            algorithm=algorithm,
            channels=channels,
            cross_rail=cross_rail,
            cross_nic=cross_nic,
        )
        sends = _leaving(network, traffic)
    carried, flows, relayed = _carried(network, sends, "spray" if even else paths, queue_pairs, seed)
    rate = network.link_gbps * (goodput * BYTES_PER_US)
    needed, own = _times_us(network, carried, rate)
    if summed:
        needed = np.where(own, _injection_us(network, placement, rate), needed)
    busiest = int(np.argmax(needed))
    if needed[busiest] <= 0:
        return None
    return Ceiling(
        us_per_byte=float(needed[busiest]) / _SIZE,
        link=busiest,
        adapter=bool(own[busiest]),
        flows=None if summed or paths not in HASHED else int(flows[busiest]),
        even=even,
        relayed=relayed,
    )


def _times_us(
    network: Network, carried: NDArray[np.float64], rate: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return how long each directed link needs (0 inside scale-up domains), and which links are a server's own.

    The ports of one adapter share what it carries: NCCL deals its channels out to them in turn, whatever the hash says.
    """
    inside = (network.node_kind[network.link_src] == SCALE_UP) | (network.node_kind[network.link_dst] == SCALE_UP)
    part = network.node_name.str.contains(":", literal=True).to_numpy()
    out, into = part[network.link_src], part[network.link_dst]
    own = (out | into) & ~inside
    pooled = own & (out != into)
    place = np.where(out, 2 * network.link_src.astype(np.int64), 2 * network.link_dst.astype(np.int64) + 1)
    load, speed = (np.bincount(place[pooled], values[pooled], 2 * part.size) for values in (carried, rate))
    times = np.where(inside, 0.0, carried / rate)
    times[pooled] = load[place[pooled]] / speed[place[pooled]]
    return times, own


def _injection_us(network: Network, placement: Placement, rate: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how long the links out of the ranks' endpoints need for an even all-to-all of one `_SIZE` (0 elsewhere)."""
    out = (network.node_kind[network.link_src] == HOST) & (network.node_kind[network.link_dst] != SCALE_UP)
    speed = np.bincount(network.link_src[out], rate[out], network.node_kind.size)
    _, domain, width = np.unique(placement.domain, return_inverse=True, return_counts=True)
    load = np.zeros(network.node_kind.size)
    load[placement.gpu] = _SIZE * (placement.ranks - width[domain]) / placement.ranks
    times = np.zeros(rate.size)
    times[out] = load[network.link_src[out]] / speed[network.link_src[out]]
    return times


def _leaving(network: Network, traffic: pl.DataFrame) -> pl.DataFrame:
    """Return op_id, src, dst, bytes (all repetitions) of the sends that leave their scale-up domain."""
    domain = _domains(network)
    sends = traffic.filter(pl.col("kind") == "send").select(
        "op_id", "src", "dst", pl.col("bytes") * pl.col("repeat").fill_null(1)
    )
    src, dst = sends["src"].to_numpy(), sends["dst"].to_numpy()
    return sends.filter(pl.Series((domain[src] != domain[dst]) | (domain[src] < 0)))


def _domains(network: Network) -> NDArray[np.int64]:
    """Return the scale-up switch of each endpoint (int64, hosts; -1: none)."""
    found = np.full(network.hosts, -1)
    up = (network.node_kind[network.link_src] == HOST) & (network.node_kind[network.link_dst] == SCALE_UP)
    found[network.link_src[up]] = network.link_dst[up]
    return found


def _all_to_all(placement: Placement, *, relay: bool) -> pl.DataFrame:
    """Return what an even all-to-all of one `_SIZE` sends over the network; with PXN (``relay``) per adapter and peer."""
    part = _SIZE / placement.ranks
    if relay and placement.balanced:
        grid = placement.gpu[placement.grid()].astype(np.int64)
        domains, width = grid.shape
        here, there = np.nonzero(~np.eye(domains, dtype=bool))
        src, dst, load = grid[here].ravel(), grid[there].ravel(), part * width
    else:
        here, there = np.nonzero(placement.domain[:, None] != placement.domain[None, :])
        gpu = placement.gpu.astype(np.int64)
        carrier = placement.relay(here, there) if relay else here
        src, dst, load = gpu[carrier], gpu[there], part
    return pl.DataFrame({"op_id": np.arange(src.size, dtype=np.uint32), "src": src, "dst": dst}).with_columns(
        bytes=pl.lit(load)
    )


def _by_leaf(network: Network, sends: pl.DataFrame) -> pl.DataFrame:
    """Return ``sends`` summed between representatives: one endpoint stands for all on its leaves.

    Where paths are spread evenly the links between switches carry the same as without it.
    """
    fabric = (network.node_kind[network.link_src] == HOST) & (network.node_kind[network.link_dst] != SCALE_UP)
    leaf = np.full(network.hosts, np.iinfo(np.int64).max)
    np.minimum.at(leaf, network.link_src[fabric], network.link_dst[fabric])
    _, first, place = np.unique(leaf, return_index=True, return_inverse=True)
    stands = first[place]
    summed = (
        sends.with_columns(
            src=pl.Series(stands[sends["src"].to_numpy()]), dst=pl.Series(stands[sends["dst"].to_numpy()])
        )
        .filter(pl.col("src") != pl.col("dst"))
        .group_by("src", "dst")
        .agg(pl.col("bytes").sum())
        .sort("src", "dst")
    )
    return summed.with_row_index("op_id")


def _carried(
    network: Network, sends: pl.DataFrame, mode: str, queue_pairs: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.int64], bool]:
    """Return bytes and number of flows per directed link, and whether any pair is relayed."""
    pairs = queue_pairs if mode in HASHED else 1
    if mode not in HASHED:
        sends = sends.group_by("src", "dst", maintain_order=True).agg(pl.col("op_id").first(), pl.col("bytes").sum())
    entropy = flow_entropy(sends["op_id"], seed)
    src, dst, load = (sends[name].to_numpy() for name in ("src", "dst", "bytes"))
    links = network.link_gbps.size
    carried, flows = np.zeros(links), np.zeros(links, np.int64)
    relayed = False
    for pair in range(pairs):
        found = find_paths(
            network,
            src,
            dst,
            mode,
            entropy=queue_pair_entropy(entropy, pair) if pair else entropy,
            seed=seed,
            state=condition(network, ()),
        )
        lost = np.flatnonzero(~found.reached)
        if lost.size:
            raise InputError(no_path(network, src, dst, lost))
        relayed = relayed or bool(found.relayed.any())
        held = np.repeat(load / pairs, np.diff(found.offset)) * found.share
        carried += np.bincount(found.link, held, links)
        flows += np.bincount(found.link, minlength=links)
    return carried, flows, relayed
