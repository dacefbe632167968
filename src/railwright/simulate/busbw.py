"""What nccl-tests should print on a plan, row by row, with the fabric in the reckoning.

Start-up, algorithm, protocol and what NVLink, PCIe and adapters allow come from NCCL's own model (`workload.nccl.expect`); what
the fabric allows, with its oversubscription and the collisions of hashed paths, from `fabric_load`. NCCL knows nothing of the
fabric, so its choice stays and only the time changes:

    time = start-up + max(bytes / rate of NCCL's model, time of the busiest network link)

Wrong when other jobs share the fabric (`jobs`), or something is down (``simulate --fail``).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.design.plan import Plan
from railwright.errors import InputError, nearest
from railwright.simulate.fabric_load import Ceiling, fabric_ceiling
from railwright.simulate.goodput import goodput_share
from railwright.simulate.library import LIBRARY_NAMES, cross_rail_of, queue_pairs_of
from railwright.simulate.network import Network
from railwright.simulate.plan_goodput import BALANCING_PATHS
from railwright.simulate.plan_network import network_from_plan
from railwright.simulate.run import PATHS
from railwright.simulate.scopes import Scope
from railwright.workload.collectives import bus_factor, collective_name
from railwright.workload.nccl.choose import NO_VARIABLES
from railwright.workload.nccl.environment import Environment
from railwright.workload.nccl.expect import expected

BINDING = 1.02
"""The fabric is named as the bottleneck when it needs this much longer than what NCCL's model allows."""

_SIZE = re.compile(r"^(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?$", re.IGNORECASE)
_FACTORS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_MOST_SIZES = 200

ROWS = pl.Schema(
    {
        "scope": pl.String,
        "collective": pl.String,
        "ranks": pl.UInt32,
        "nodes": pl.UInt32,
        "size_bytes": pl.Float64,
        "count": pl.UInt64,
        "algorithm": pl.String,
        "protocol": pl.String,
        "channels": pl.UInt32,
        "time_us": pl.Float64,
        "algbw_GBps": pl.Float64,
        "busbw_GBps": pl.Float64,
        "limit": pl.String,
        "bottleneck": pl.String,
    }
)
"""Columns of `rows`: ``count`` in elements of 4 bytes; ``limit``: latency, nvlink, pcie, adapters or fabric."""


@dataclass
class Fabric:
    """A plan made ready for forecasts: network, path mode, payload share, queue pairs and what was worked out so far."""

    plan: Plan
    network: Network
    paths: str
    goodput: float
    queue_pairs: int
    cross_rail: str
    cross_nic: int
    seed: int
    ceilings: dict[tuple[str, str, str, int], Ceiling | None] = field(default_factory=dict)

    def ceiling(self, scope: Scope, collective: str, algorithm: str, channels: int) -> Ceiling | None:
        """Return what the fabric allows NCCL's ``algorithm`` on ``scope``."""
        key = (scope.name, collective, algorithm, channels)
        if key not in self.ceilings:
            self.ceilings[key] = fabric_ceiling(
                self.network,
                collective,
                scope.placement,
                _between_domains(collective, algorithm, scope),
                paths=self.paths,
                goodput=self.goodput,
                channels=channels if algorithm in ("ring", "tree") else None,
                queue_pairs=self.queue_pairs,
                cross_rail=self.cross_rail,
                cross_nic=self.cross_nic,
                seed=self.seed,
            )
        return self.ceilings[key]


def open_fabric(
    plan: Plan, environment: Environment = NO_VARIABLES, *, paths: str | None = None, seed: int | None = None
) -> Fabric:
    """Return ``plan``'s backend ready for forecasts; ``paths`` (of `simulate.run.PATHS`) replaces the plan's load balancing.

    Raises InputError for an unknown path mode.
    """
    if paths is not None and paths not in PATHS:
        raise InputError(
            f"path mode {paths!r} is unknown{nearest(paths, PATHS)}; choose one of {', '.join(PATHS)}", key="paths"
        )
    balancing = str(plan.facts["backend"]["load_balancing"])
    return Fabric(
        plan=plan,
        network=network_from_plan(plan),
        paths=paths or BALANCING_PATHS[balancing],
        goodput=goodput_share(plan.spec.backend.transport),
        queue_pairs=queue_pairs_of(plan, environment, paths),
        cross_rail=cross_rail_of(plan, environment),
        cross_nic=environment.cross_nic,
        seed=plan.spec.seed if seed is None else seed,
    )


def parse_sizes(text: str) -> list[float]:
    """Return the sizes of ``8:16G`` (doubling), ``1M:1G:4`` (times 4) or ``1M,64M`` in bytes.

    K, M, G and T are powers of 1024 as in nccl-tests. Raises InputError.
    """
    parts = text.split(":")
    if len(parts) == 1:
        return [_bytes(part, text) for part in text.split(",")]
    if len(parts) > 3:
        raise InputError(f"{text!r} has too many parts; write FIRST:LAST or FIRST:LAST:FACTOR", key="sizes")
    first, last = _bytes(parts[0], text), _bytes(parts[1], text)
    factor = _bytes(parts[2], text) if len(parts) == 3 else 2.0
    if first > last or factor <= 1:
        raise InputError(f"{text!r}: the first size is at most the last one, the factor above 1", key="sizes")
    count = int(np.floor(np.log(last / first) / np.log(factor) + 1e-9)) + 1
    if count > _MOST_SIZES:
        raise InputError(f"{text!r} gives {count:,} sizes; at most {_MOST_SIZES}", key="sizes")
    return [float(np.floor(first * factor**power)) for power in range(count)]


def _bytes(word: str, text: str) -> float:
    match = _SIZE.match(word.strip())
    value = float(match[1]) * _FACTORS[match[2].upper()] if match else 0.0
    if not 0 < value <= 2**50:
        raise InputError(f"{text!r}: {word!r} is not a size; write for example 8:16G, or 1M,1G", key="sizes")
    return value


def _between_domains(collective: str, algorithm: str, scope: Scope) -> str:
    """Return the algorithm of `collective_traffic` whose network bytes are those of NCCL's ``algorithm``."""
    if algorithm == "nvls":
        return "collnet" if collective == "all-reduce" else "nvls"
    if algorithm.startswith("collnet") and collective != "all-reduce":
        return "nvls"
    found = LIBRARY_NAMES.get(algorithm, algorithm)
    return "ring-flat" if found == "ring" and not scope.placement.balanced else found


def forecast(
    fabric: Fabric,
    scope: Scope,
    collective: str,
    sizes: Sequence[float] | NDArray[np.float64],
    environment: Environment = NO_VARIABLES,
) -> pl.DataFrame:
    """Return the columns of `expect.expected` with the fabric in ``time_us`` and what follows from it.

    ``limit`` may also be ``fabric``; ``bottleneck`` says in words what bounds the row.
    """
    name = collective_name(collective)
    table = expected(name, sizes, scope.shape, environment)
    time_us, fill = table["time_us"].to_numpy().copy(), table["fill"].to_numpy()
    limit = table["limit"].to_list()
    words = [_WORDS[word] if word != "nvlink" or scope.shape.nvswitch else "xGMI" for word in limit]
    largest = {row["algorithm"]: row["channels"] for row in table.select("algorithm", "channels").iter_rows(named=True)}
    for algorithm, channels in largest.items():
        ceiling = fabric.ceiling(scope, name, str(algorithm), int(channels))
        if ceiling is None:
            continue
        rows = (table["algorithm"] == algorithm).to_numpy()
        needed = table["size_bytes"].to_numpy() * ceiling.us_per_byte
        moving = time_us * fill
        slower = rows & (needed > moving)
        for row in np.flatnonzero(slower & (needed > BINDING * moving) & (needed > 0.5 * (time_us - moving + needed))):
            limit[row], words[row] = "adapters" if ceiling.adapter else "fabric", describe(fabric, ceiling)
        time_us = np.where(slower, time_us - moving + needed, time_us)
        if ceiling.relayed:
            words = [f"{word}; {_RELAYED}" if here else word for word, here in zip(words, rows, strict=True)]
    algbw = table["size_bytes"].to_numpy() / time_us / 1000
    return table.with_columns(
        pl.Series("time_us", time_us),
        pl.Series("algbw_gbytes_s", algbw),
        pl.Series("busbw_gbytes_s", algbw * bus_factor(name, scope.shape.ranks)),
        pl.Series("limit", limit, dtype=pl.String),
        pl.Series("bottleneck", words, dtype=pl.String),
    )


_RELAYED = "changes rail where rails are not joined: over NVLink here, in NCCL an error; NCCL_CROSS_NIC=0 avoids it"
_WORDS = {"latency": "start-up", "nvlink": "NVLink", "adapters": "adapters", "pcie": "PCIe"}


def describe(fabric: Fabric, ceiling: Ceiling) -> str:
    """Return the busiest link in words."""
    network, link = fabric.network, ceiling.link
    ends = f"{network.node_name[int(network.link_src[link])]} → {network.node_name[int(network.link_dst[link])]}"
    if ceiling.flows is None:
        return f"{ends}{', collisions not counted' if ceiling.even else ''}"
    return f"{ends}, {ceiling.flows} flow{'' if ceiling.flows == 1 else 's'}"


def rows(
    fabric: Fabric,
    scope: Scope,
    collective: str,
    sizes: Sequence[float] | NDArray[np.float64],
    environment: Environment = NO_VARIABLES,
) -> pl.DataFrame:
    """Return the table of nccl-tests for ``collective`` on ``scope``: columns `ROWS`, one row per size."""
    table = forecast(fabric, scope, collective, sizes, environment)
    return table.select(
        pl.lit(scope.name).alias("scope"),
        pl.lit(collective_name(collective)).alias("collective"),
        pl.lit(scope.shape.ranks, pl.UInt32).alias("ranks"),
        pl.lit(scope.shape.nodes, pl.UInt32).alias("nodes"),
        "size_bytes",
        (pl.col("size_bytes") // 4).cast(pl.UInt64).alias("count"),
        "algorithm",
        "protocol",
        pl.col("channels").cast(pl.UInt32),
        "time_us",
        pl.col("algbw_gbytes_s").alias("algbw_GBps"),
        pl.col("busbw_gbytes_s").alias("busbw_GBps"),
        "limit",
        "bottleneck",
    )
