"""Which algorithm, protocol and how many channels NCCL or RCCL takes for a collective, and the time it reckons with.

The library computes the cost of every combination that is possible here and takes the cheapest. This module does the same, and
says for every other combination why it is out or how much slower it would be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.errors import InputError
from railwright.workload.collectives.meaning import bus_factor, collective_name
from railwright.workload.nccl.constants import PROTOCOLS
from railwright.workload.nccl.cost import COSTED, Cost, cost_of, runs, times_us
from railwright.workload.nccl.environment import Environment
from railwright.workload.nccl.graphs import Graph, graphs_of
from railwright.workload.nccl.pairwise import pairwise_times_us
from railwright.workload.nccl.shape import JobShape

NO_VARIABLES = Environment()


@dataclass(frozen=True)
class Choice:
    """What the library takes for one size, and every candidate.

    ``candidates``: algorithm, protocol, channels, time_us, busbw_gbytes_s (null when impossible), reason (null for the choice).
    """

    collective: str
    size_bytes: float
    algorithm: str
    protocol: str
    channels: int
    time_us: float
    algbw_gbytes_s: float
    busbw_gbytes_s: float
    candidates: pl.DataFrame


def applied(shape: JobShape, environment: Environment) -> JobShape:
    """Return the shape that remains under the user's variables: fewer adapters, sockets, no GPUDirect RDMA, no SHARP."""
    adapters = shape.nics_per_node if environment.adapters is None else min(environment.adapters, shape.nics_per_node)
    return replace(
        shape,
        nics_per_node=adapters,
        transport="socket" if environment.sockets else shape.transport,
        gdr=shape.gdr and environment.gdr,
        sharp=shape.sharp and environment.collnet is not False,
    )


def why_not(
    collective: str, algorithm: str, protocol: str, shape: JobShape, environment: Environment, graph: Graph
) -> str | None:
    """Return why a combination that `runs` cannot be taken here, or None."""
    allowed = environment.algorithms
    if allowed is not None and algorithm not in allowed[collective]:
        return f"NCCL_ALGO={environment.variables.get('NCCL_ALGO')} excludes it"
    protocols = environment.protocols
    if protocols is not None and protocol not in protocols[collective]:
        return f"NCCL_PROTO={environment.variables.get('NCCL_PROTO')} excludes it"
    one = shape.nodes == 1
    arity = shape.constants.channels.get("direct_arity", 0) + 1
    if algorithm.startswith("collnet"):
        if not shape.sharp or environment.collnet is False:
            return "needs a network that reduces (SHARP) and its CollNet plugin"
        if one:
            return "one node has no network to reduce in"
        if shape.gpus_per_node > arity:
            return f"only up to {arity} GPUs per node"
    if algorithm == "collnet-direct" and not (shape.nvswitch and shape.nvlink_gbytes_s):
        return "needs NVSwitch"
    if algorithm in ("nvls", "nvls-tree"):
        if not environment.nvls:
            return "NCCL_NVLS_ENABLE=0 excludes it"
        if graph.channels < 2:
            return "needs NVSwitch with multicast (Hopper or later) and at least 2 GPUs"
        if algorithm == "nvls-tree" and one:
            return "only between nodes"
        if algorithm == "nvls" and not one and not shape.sharp:
            return "between nodes only with a network that reduces (SHARP)"
        if collective != "all-reduce" and shape.gpus_per_node > shape.constants.channels["nvls_arity"]:
            return f"only up to {shape.constants.channels['nvls_arity']} GPUs per node for {collective}"
    sharded = algorithm in ("nvls", "collnet-direct") and collective != "all-reduce" and not one
    if sharded and shape.gpus_per_node > graph.channels:
        return "needs one adapter per GPU"
    if algorithm == "pat":
        if environment.pat == 0:
            return "NCCL_PAT_ENABLE=0 excludes it"
        if environment.pat == 2 and shape.gpus_per_node > 1:
            return "by default only with one GPU per node"
    if protocol == "ll128" and protocols is None:
        return _ll128_off(shape, graph)
    return None


def _ll128_off(shape: JobShape, graph: Graph) -> str | None:
    """LL128 relies on 128-byte stores staying whole: by default only over NVLink and adapters that read GPU memory directly."""
    if shape.constants.bandwidth_ratio:
        return None
    if graph.link != "nvlink":
        return "off by default when GPUs are not joined by NVLink"
    if shape.nodes > 1 and (not shape.gdr or shape.transport == "socket"):
        return "off by default when data to the network cross the CPU"
    return None


def communicator_channels(shape: JobShape, graphs: Mapping[str, Graph], environment: Environment) -> int:
    """Return the channels of the communicator: twice those of the ring search, more for few fast ones, within the bounds set."""
    most = shape.constants.channels["most"]
    ring, chain = graphs["ring"], graphs["collnet-chain"]
    count = min(most, 2 * ring.channels)
    if shape.sharp and shape.nodes > 1 and chain.intra_gbytes_s > chain.inter_gbytes_s and shape.gpus_per_node > 1:
        count = min(most, count + count // 2)
    fast = shape.architecture not in ("volta", "ampere") and ring.intra_gbytes_s > 45
    if fast and shape.nodes > 1 and count < 16:
        count *= 2
    count = min(count, environment.max_channels or most)
    return min(most, max(count, environment.min_channels))


def _channels(
    algorithm: str, protocol: str, sizes: NDArray[np.float64], shape: JobShape, total: int, environment: Environment
) -> NDArray[np.int64]:
    """Return the channels used for each size: small messages use fewer, so that every thread keeps some bytes to move."""
    constants = shape.constants
    threads = constants.threads
    if algorithm in ("nvls", "nvls-tree"):
        kind = "nvls_blackwell" if shape.architecture == "blackwell" else "nvls_hopper"
        if kind == "nvls_blackwell" and shape.nodes == 1:
            kind = "nvls_blackwell_one_node"
        count = constants.channels[kind]
        if algorithm == "nvls" and shape.nodes > 1:
            count = min(count, total)
        return np.full(sizes.size, min(count, environment.max_channels or count))
    override = environment.ll128_threads if protocol == "ll128" else environment.threads
    used = override or (threads["most"] if algorithm.startswith("collnet") else threads[protocol])
    threshold = threads["threshold"]["collnet" if algorithm.startswith("collnet") else protocol]
    if algorithm == "ring" and protocol == "ll":
        threshold *= shape.ranks
    if algorithm == "collnet-direct":
        threshold *= min(shape.gpus_per_node, shape.nics_per_node)
    used_channels: NDArray[np.int64] = np.clip(sizes // (used * threshold), 1, total).astype(np.int64)
    return used_channels


@lru_cache(maxsize=256)
def _prepared(shape: JobShape, nvlink: bool, nvls: bool, cross_nic: int) -> Mapping[str, Graph]:
    return graphs_of(shape, Environment(nvlink=nvlink, nvls=nvls, cross_nic=cross_nic))


def candidates(
    collective: str,
    sizes: Sequence[float] | NDArray[np.float64],
    shape: JobShape,
    environment: Environment = NO_VARIABLES,
) -> pl.DataFrame:
    """Return every combination for every size.

    Columns: size_bytes, algorithm, protocol, channels, time_us, algbw_gbytes_s, busbw_gbytes_s, reason. ``time_us`` is infinite
    and ``reason`` says why where a combination is impossible; otherwise ``reason`` is null.
    """
    collective = collective_name(collective)
    bytes_ = np.asarray(sizes, np.float64)
    if bytes_.size == 0:
        raise InputError("no size is given; at least one is needed", key="size")
    if not bool(np.all(bytes_ > 0)):
        raise InputError(f"{bytes_.min()} is not an amount of data; more than 0 bytes are needed", key="size")
    if shape.ranks < 2:
        raise InputError("1 rank has nobody to talk to; at least 2 are needed", key="ranks")
    shape = applied(shape, environment)
    graphs = _prepared(shape, environment.nvlink, environment.nvls, environment.cross_nic)
    total = communicator_channels(shape, graphs, environment)
    blocks = []
    if collective not in COSTED:
        times = pairwise_times_us(collective, bytes_, shape)
        channels = np.full(bytes_.size, min(total, 32))
        blocks.append(_block(collective, "pairwise", "simple", bytes_, channels, times, shape, None))
    else:
        for algorithm in shape.constants.algorithms:
            for protocol in PROTOCOLS:
                if not runs(collective, algorithm, protocol):
                    continue
                graph = graphs.get(algorithm, Graph(0, 0.0, 0.0, "pci"))
                reason = why_not(collective, algorithm, protocol, shape, environment, graph)
                cost = (
                    Cost(0.0, 0.0)
                    if reason is not None
                    else cost_of(collective, algorithm, protocol, shape, graphs, environment)
                )
                if reason is None and cost.algbw == 0:
                    reason = f"{shape.constants.name} gives it no bandwidth on this shape"
                times = times_us(cost, collective, algorithm, protocol, bytes_, shape, total)
                channels = _channels(algorithm, protocol, bytes_, shape, total, environment)
                blocks.append(_block(collective, algorithm, protocol, bytes_, channels, times, shape, reason))
    return pl.concat(blocks)


def _block(
    collective: str,
    algorithm: str,
    protocol: str,
    sizes: NDArray[np.float64],
    channels: NDArray[np.int64],
    times: NDArray[np.float64],
    shape: JobShape,
    reason: str | None,
) -> pl.DataFrame:
    algbw = sizes / times / 1000
    return pl.DataFrame(
        {
            "size_bytes": sizes,
            "algorithm": [algorithm] * sizes.size,
            "protocol": [protocol] * sizes.size,
            "channels": channels,
            "time_us": times,
            "algbw_gbytes_s": algbw,
            "busbw_gbytes_s": algbw * bus_factor(collective, shape.ranks),
            "reason": pl.Series([reason] * sizes.size, dtype=pl.String),
        }
    )


def choose_many(
    collective: str,
    sizes: Sequence[float] | NDArray[np.float64],
    shape: JobShape,
    environment: Environment = NO_VARIABLES,
) -> pl.DataFrame:
    """Return what the library takes for each of ``sizes``, in their order: the columns of `candidates` without ``reason``.

    Raises InputError when the user's variables leave nothing.
    """
    every = candidates(collective, sizes, shape, environment)
    possible = every.filter(pl.col("reason").is_null())
    if possible.height == 0:
        raise InputError(
            f"NCCL_ALGO={environment.variables.get('NCCL_ALGO', '(unset)')} with "
            f"NCCL_PROTO={environment.variables.get('NCCL_PROTO', '(unset)')} leaves no way to run {collective} here: "
            + "; ".join(f"{row[0]}/{row[1]}: {row[2]}" for row in _reasons(every).rows()),
            key="NCCL_ALGO",
        )
    best = possible.group_by("size_bytes", maintain_order=True).agg(
        pl.all().sort_by("time_us", maintain_order=True).first()
    )
    wanted = pl.DataFrame({"size_bytes": np.asarray(sizes, np.float64)})
    return wanted.join(best.drop("reason"), on="size_bytes", how="left", maintain_order="left")


def _reasons(every: pl.DataFrame) -> pl.DataFrame:
    return every.select("algorithm", "protocol", "reason").unique(maintain_order=True)


def choose(collective: str, size_bytes: float, shape: JobShape, environment: Environment = NO_VARIABLES) -> Choice:
    """Return what the library takes for one size, with all candidates and why they are not it. Raises InputError."""
    taken = choose_many(collective, [size_bytes], shape, environment).row(0, named=True)
    slower = pl.format("{} times slower", (pl.col("time_us") / taken["time_us"]).round(2))
    is_taken = (pl.col("algorithm") == taken["algorithm"]) & (pl.col("protocol") == taken["protocol"])
    table = (
        candidates(collective, [size_bytes], shape, environment)
        .with_columns(
            pl.when(is_taken).then(pl.lit(None)).otherwise(pl.coalesce("reason", slower)).alias("reason"),
            pl.when(pl.col("time_us").is_finite()).then("time_us").alias("time_us"),
            pl.when(pl.col("time_us").is_finite()).then("busbw_gbytes_s").alias("busbw_gbytes_s"),
        )
        .select("algorithm", "protocol", "channels", "time_us", "busbw_gbytes_s", "reason")
        .sort("time_us", nulls_last=True, maintain_order=True)
    )
    return Choice(
        collective=collective_name(collective),
        size_bytes=size_bytes,
        algorithm=taken["algorithm"],
        protocol=taken["protocol"],
        channels=taken["channels"],
        time_us=taken["time_us"],
        algbw_gbytes_s=taken["algbw_gbytes_s"],
        busbw_gbytes_s=taken["busbw_gbytes_s"],
        candidates=table,
    )
