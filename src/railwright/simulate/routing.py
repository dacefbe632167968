"""Paths of flows over a `Network`: shortest hops, a hash per switch among equals, as ECMP does it.

A path is a list of directed link numbers from source to destination host; the paths of ``n`` flows are one array with
``n + 1`` offsets (CSR). Hosts and scale-up switches carry no transit, except that mode ``rail`` first crosses the server's
scale-up switch to the GPU on the destination's rail (what NCCL calls PXN). The hash is the one that the packet engine uses
at every switch, so that both engines choose the same links for the same seed.
"""

from collections.abc import Iterable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright import _native
from railwright.errors import InputError, nearest
from railwright.simulate.network import Network

MODES = {"ecmp": 0, "polarised": 1, "rail": 2}
"""``ecmp``: every switch has its own hash seed; ``polarised``: all share one; ``rail``: same rail first, then ECMP."""

_NAMED = 5


def mask(count: int, failed: Iterable[int] | NDArray[np.integer] | None, what: str) -> NDArray[np.uint8]:
    """Return ``count`` ones with zeros at ``failed``; raises InputError for a number out of range."""
    up = np.ones(count, np.uint8)
    if failed is not None:
        numbers = np.asarray(list(failed) if not isinstance(failed, np.ndarray) else failed, np.int64)
        wrong = numbers[(numbers < 0) | (numbers >= count)]
        if wrong.size:
            raise InputError(f"{what} {wrong[0]} does not exist; there are {count}")
        up[numbers] = 0
    return up


def route(
    network: Network,
    src: NDArray[np.integer],
    dst: NDArray[np.integer],
    *,
    entropy: NDArray[np.integer] | int = 0,
    mode: str = "ecmp",
    seed: int = 0,
    scale_up: bool = True,
    failed_links: Iterable[int] | NDArray[np.integer] | None = None,
    failed_nodes: Iterable[int] | NDArray[np.integer] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return (offsets[n + 1], directed links) of the paths from ``src[i]`` to ``dst[i]``.

    ``entropy`` (n, or one for all) stands for the UDP source port or queue pair; ``failed_links`` are directed link numbers;
    ``scale_up`` lets two endpoints of one server use its internal switch. A flow to itself has an empty path.
    Raises InputError that names the pairs that cannot reach each other.
    """
    offsets, links, unreachable = route_where_possible(
        network,
        src,
        dst,
        entropy=entropy,
        mode=mode,
        seed=seed,
        scale_up=scale_up,
        failed_links=failed_links,
        failed_nodes=failed_nodes,
    )
    if unreachable.size:
        raise InputError(no_path(network, src, dst, unreachable))
    return offsets, links


def route_where_possible(
    network: Network,
    src: NDArray[np.integer],
    dst: NDArray[np.integer],
    *,
    entropy: NDArray[np.integer] | int = 0,
    mode: str = "ecmp",
    seed: int = 0,
    scale_up: bool = True,
    failed_links: Iterable[int] | NDArray[np.integer] | None = None,
    failed_nodes: Iterable[int] | NDArray[np.integer] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Return what `route` does and the numbers of the pairs without a path, which have an empty one here."""
    if mode not in MODES:
        raise InputError(f"path mode {mode!r} is unknown{nearest(mode, MODES)}; choose one of {', '.join(MODES)}")
    sources = np.ascontiguousarray(src, np.int32)
    targets = np.ascontiguousarray(dst, np.int32)
    for name, ends in (("src", sources), ("dst", targets)):
        hosts = network.hosts
        if ends.size and (ends.min() < 0 or ends.max() >= hosts):
            wrong = ends[(ends < 0) | (ends >= hosts)][0]
            raise InputError(f"endpoint {wrong} does not exist; endpoints are 0 to {hosts - 1}", key=name)
    spread = np.broadcast_to(np.asarray(entropy, np.uint32), sources.shape)
    return _native.route_flows(
        np.ascontiguousarray(network.node_kind),
        np.ascontiguousarray(network.link_src),
        np.ascontiguousarray(network.link_dst),
        mask(network.link_src.size, failed_links, "directed link"),
        mask(network.node_kind.size, failed_nodes, "node"),
        sources,
        targets,
        np.ascontiguousarray(spread),
        MODES[mode],
        seed,
        scale_up,
    )


def flow_entropy(op_id: pl.Series, seed: int) -> NDArray[np.uint32]:
    """Return the stand-in for the source port of each operation's queue pair: fixed by its id and the seed."""
    mixed = op_id.cast(pl.UInt64).to_numpy() * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed % 2**64)
    mixed ^= mixed >> np.uint64(29)
    return (mixed >> np.uint64(16)).astype(np.uint32)


def no_path(network: Network, src: NDArray[np.integer], dst: NDArray[np.integer], flows: NDArray[np.integer]) -> str:
    """Return the sentence that names the pairs ``flows`` which cannot reach each other."""
    pairs = dict.fromkeys(
        f"{network.node_name[int(src[i])]} → {network.node_name[int(dst[i])]}" for i in flows[: 20 * _NAMED]
    )
    named = ", ".join(list(pairs)[:_NAMED])
    more = f" (and {flows.size - _NAMED} more flows)" if flows.size > _NAMED else ""
    return f"no path for {named}{more}: no working link leads there over switches alone"
