"""The cost of every algorithm and protocol: ``time = latency + bytes / bandwidth``, as NCCL and RCCL compute it.

Latency and bandwidth depend on the shape only; two corrections depend on the size: the table for trees and the plateau factor
for rings. Sources: NCCL 2.30.7, src/graph/tuning.cc (`ncclTopoTuneModel`, `ncclTopoGetAlgoTime`); RCCL 2.21.5, same file.

Valid for NCCL's own decision. As a forecast of measurements it is close for rings and trees of large messages, and off where
`expect` says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from railwright.workload.nccl.constants import PROTOCOLS
from railwright.workload.nccl.environment import Environment
from railwright.workload.nccl.graphs import Graph
from railwright.workload.nccl.shape import JobShape

COSTED = ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce")
"""The collectives that NCCL costs; all-to-all and send/recv are grouped point-to-point calls and have no choice."""

_RUNS = {
    "all-reduce": ("tree", "ring", "collnet-direct", "collnet-chain", "nvls", "nvls-tree"),
    "all-gather": ("ring", "collnet-direct", "nvls", "pat"),
    "reduce-scatter": ("ring", "collnet-direct", "nvls", "pat"),
    "broadcast": ("ring",),
    "reduce": ("ring",),
}
_SIMPLE_ONLY = ("collnet-direct", "collnet-chain", "nvls", "nvls-tree", "pat")


@dataclass(frozen=True)
class Cost:
    """Latency (us) and bandwidth (bytes per us / 1000, that is GB/s of algbw) of one combination; 0 bandwidth: impossible."""

    latency_us: float
    algbw: float


def runs(collective: str, algorithm: str, protocol: str) -> bool:
    """Whether the library has a kernel for this combination at all."""
    return algorithm in _RUNS[collective] and (protocol == "simple" or algorithm not in _SIMPLE_ONLY)


def _log2(value: int) -> int:
    return value.bit_length() - 1


def _steps(collective: str, ranks: int) -> int:
    if collective == "all-reduce":
        return 2 * (ranks - 1)
    return ranks - 1 if collective in ("all-gather", "reduce-scatter") else ranks


def cost_of(
    collective: str,
    algorithm: str,
    protocol: str,
    shape: JobShape,
    graphs: Mapping[str, Graph],
    environment: Environment,
) -> Cost:
    """Return latency and bandwidth of a combination that `runs`, before corrections by size."""
    graph = graphs[algorithm]
    nccl = not shape.constants.bandwidth_ratio
    bandwidth = _nccl_busbw if nccl else _rccl_busbw
    busbw = bandwidth(collective, algorithm, protocol, shape, graph)
    to_algbw = 1.0
    if algorithm == "ring" or collective not in ("all-gather", "reduce-scatter"):
        ringlike = algorithm in ("ring", "nvls", "nvls-tree")
        to_algbw = shape.ranks / _steps(collective, shape.ranks) if ringlike else 0.5
    return Cost(_latency_us(collective, algorithm, protocol, shape, graph, environment), busbw * to_algbw)


def _nccl_busbw(collective: str, algorithm: str, protocol: str, shape: JobShape, graph: Graph) -> float:
    constants, architecture = shape.constants, shape.architecture
    size = min(shape.nodes, 3) - 1
    two = shape.nodes <= 2
    per_node = shape.gpus_per_node
    channels = graph.channels
    speed = graph.intra_gbytes_s if two or algorithm.startswith("collnet") else graph.inter_gbytes_s
    if algorithm in ("nvls", "nvls-tree"):
        if channels < 2:
            return 0.0
        inside = graph.intra_gbytes_s * constants.nvls_efficiency[architecture] * (channels - 1) / channels
        inside *= 2 if collective == "all-reduce" else (per_node - 1) / per_node
        between = graph.inter_gbytes_s * (2 if two and algorithm == "nvls-tree" else 1)
        speed = min(inside, between)
        if algorithm == "nvls-tree":
            speed = min(speed, constants.channel_max["nvls-tree"][architecture][size])
    busbw = channels * speed
    if algorithm == "pat":
        return busbw * 0.75
    if algorithm == "ring":
        if protocol == "ll":
            busbw = min(_ll_max(shape), busbw / 2)
        elif protocol == "ll128":
            busbw = min(busbw * 0.92, channels * constants.channel_max["ring-ll128"][architecture][size])
    elif algorithm == "tree":
        busbw = min(busbw * 0.92, channels * constants.channel_max["tree"][architecture][size])
        if protocol == "ll":
            busbw = min(busbw / 3.8, _ll_max(shape))
        elif protocol == "ll128":
            share = 7 / 9 if shape.nodes == 1 else 120 / 128
            busbw = min(busbw * share, channels * constants.channel_max["tree-ll128"][architecture][size])
    elif algorithm == "collnet-direct":
        if collective != "all-reduce":
            return per_node * min(graph.intra_gbytes_s, graph.inter_gbytes_s * 0.9)
        per_nic = per_node / channels if channels else 0.0
        busbw /= per_nic - (per_nic - 1) / 2 if per_nic else 1.0
        if architecture in ("hopper", "blackwell"):
            busbw *= 0.85
    return busbw


def _ll_max(shape: JobShape) -> float:
    constants = shape.constants
    if shape.nodes == 1:
        return constants.ll_max_by_gpu[shape.architecture]
    return constants.ll_max_by_cpu[shape.cpu][min(shape.nodes, 3) - 2]


def _rccl_busbw(collective: str, algorithm: str, protocol: str, shape: JobShape, graph: Graph) -> float:
    """RCCL replaces NCCL's caps by measured ratios; one node has no Simple tree and a faster LL ring for rooted collectives."""
    one = shape.nodes == 1
    if algorithm == "tree" and protocol == "simple" and one:
        return 0.0
    speed = graph.intra_gbytes_s if shape.nodes <= 2 else graph.inter_gbytes_s
    ratio = shape.constants.bandwidth_ratio[algorithm][0 if shape.nodes <= 2 else 1][PROTOCOLS.index(protocol)]
    faster = 1.65 if one and protocol == "ll" and collective in ("broadcast", "reduce") else 1.0
    return graph.channels * speed * ratio * faster


def _latency_us(
    collective: str, algorithm: str, protocol: str, shape: JobShape, graph: Graph, environment: Environment
) -> float:
    constants = shape.constants
    which = PROTOCOLS.index(protocol)
    nodes, per_node, ranks = shape.nodes, shape.gpus_per_node, shape.ranks
    base = constants.base_latency_us[algorithm][which]
    inside = constants.link_latency_us[graph.link][algorithm][which]
    exposed = "tree" if per_node == 1 and not constants.bandwidth_ratio else algorithm
    between = constants.link_latency_us["net"][exposed][which]
    if algorithm == "ring":
        if collective in ("broadcast", "reduce"):
            link = constants.link_latency_us[graph.link if nodes == 1 else "net"]
            if nodes == 1 or shape.nics_per_node == 1:
                return base + link["ring"][which]
            # Rings that start at different adapters walk their node in different orders: NCCL then counts every step.
            return base + ranks * link["tree" if protocol == "simple" else "ring"][which]
        steps = _steps(collective, ranks)
        crossings = 0
        if nodes > 1:
            overhead = environment.net_overhead_us
            overhead = constants.net_overhead_us[shape.cpu] if overhead is None else overhead
            inside = max(inside, overhead * (3 if protocol == "simple" else 1))
            crossings = (2 if collective == "all-reduce" else 1) * (nodes - 1)
            if constants.bandwidth_ratio and collective == "all-reduce":
                crossings = 2 * nodes
        return base + (steps - crossings) * inside + crossings * between
    if algorithm == "tree":
        return base + 2 * ((per_node - 1) * inside + _log2(nodes) * between)
    if algorithm == "collnet-direct":
        return base + 2 * (min(1, per_node - 1) * inside + (per_node - 1) * 0.4) + between
    if algorithm == "collnet-chain":
        return base + 2 * (per_node - 1) * inside + between
    if algorithm == "nvls":
        return inside + (between if nodes > 1 else 0.0)
    if algorithm == "nvls-tree":
        return base + inside + 2 * _log2(nodes) * between
    return base + _log2(nodes) * between / 3.5 + ranks * 2.8


def times_us(
    cost: Cost,
    collective: str,
    algorithm: str,
    protocol: str,
    sizes: NDArray[np.float64],
    shape: JobShape,
    channels: int,
) -> NDArray[np.float64]:
    """Return the time of each of ``sizes`` (bytes) with NCCL's corrections by size; infinite where the bandwidth is 0.

    ``channels`` are those of the communicator (the plateau of rings starts at 64 bytes per rank and channel).
    """
    constants = shape.constants
    index = np.floor(np.log2(np.maximum(sizes, 64))).astype(np.int64) - 6
    factor = np.ones(sizes.size)
    latency = np.full(sizes.size, cost.latency_us)
    if constants.bandwidth_ratio:
        if algorithm == "tree" or shape.nodes > 1:
            table = (constants.tree_correction if algorithm == "tree" else constants.ring_correction)[protocol]
            factor = table[np.minimum(index, table.size - 1)]
    elif collective == "all-reduce":
        if algorithm == "tree" or (
            algorithm == "nvls-tree" and shape.architecture == "blackwell" and shape.cpu != "arm"
        ):
            table = constants.tree_correction[protocol]
            last = table.size - (1 if algorithm == "tree" else 0)
            corrected = (sizes >= 64) & (index < last)
            factor = np.where(corrected, table[np.minimum(index, table.size - 1)], 1.0)
        if algorithm == "ring" and protocol == "simple" and shape.nodes > 1:
            plateau = sizes // (channels * shape.ranks) >= 64
            latency = np.where(plateau, latency * constants.plateau[shape.architecture], latency)
    algbw = cost.algbw * factor
    with np.errstate(divide="ignore"):
        return np.where(algbw > 0, latency + sizes / (1000 * algbw), np.inf)
