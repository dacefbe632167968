"""What nccl-tests should show: the library's choice, with its time mended where measurements say that its own model is off.

The library needs its cost model only to rank; a few of its terms are known to be wrong as forecasts. Each mend below names the
measurement that it rests on. Everything else is the model's own time.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.workload.collectives.meaning import bus_factor, collective_name
from railwright.workload.nccl.choose import NO_VARIABLES, applied, choose_many
from railwright.workload.nccl.cost import COSTED
from railwright.workload.nccl.environment import Environment
from railwright.workload.nccl.pairwise import pairwise_loads_us
from railwright.workload.nccl.shape import JobShape

NVLS_USE = {"hopper": 0.83, "blackwell": 0.74}
"""Share of NVLink (as NCCL counts it) that an NVLS all-reduce on one node moves in each direction.

Hopper: 480 GB/s busbw with 8 GPUs (nccl-tests#212); it then gives 411, 440 and 462 with 5, 6 and 7 GPUs, where 420, 440 and 460
are measured (nccl#1455), and 213 on H800, where 215 is measured (nccl#1374). Blackwell: NCCL's own factor, unverified. Domains
of more than 8 GPUs keep the library's time when it is longer (72 GB200: 918 for 847 measured, coreweave/nccl-tests#43).
"""

DIRECT_USE = 0.8
"""Share of NVLink that CollNetDirect moves without multicast: 110 GB/s algbw on DGX A100 with SHARP (nccl#320)."""


def expected(
    collective: str,
    sizes: Sequence[float] | NDArray[np.float64],
    shape: JobShape,
    environment: Environment = NO_VARIABLES,
) -> pl.DataFrame:
    """Return one row per size: size_bytes, algorithm, protocol, channels, time_us, algbw_gbytes_s, busbw_gbytes_s, fill, limit.

    ``fill`` is the share of the rate that a message 1,000 times as large reaches: 1 is a pure matter of bandwidth.
    ``limit`` says what bounds large messages: ``nvlink``, ``adapters``, ``pcie``, ``latency`` (start-up is
    half the time or more).
    """
    name = collective_name(collective)
    shape = applied(shape, environment)
    table = choose_many(name, sizes, shape, environment)
    bytes_ = table["size_bytes"].to_numpy()
    times = table["time_us"].to_numpy().copy()
    algorithm = table["algorithm"].to_numpy()
    gpus = shape.gpus_per_node
    if shape.nodes == 1 and name == "all-reduce" and shape.architecture in NVLS_USE:
        rate = NVLS_USE[shape.architecture] * shape.nvlink_counted / (1 + 1 / gpus)
        start = shape.constants.link_latency_us["nvlink"]["nvls"][2]
        mended = start + bytes_ / (1000 * rate)
        if gpus > 8:
            mended = np.maximum(mended, times)
        times = np.where(algorithm == "nvls", mended, times)
    if shape.nodes == 2 and name == "all-reduce" and shape.architecture in NVLS_USE and gpus <= 8:
        times = np.where(algorithm == "nvls-tree", np.minimum(times, _two_node_nvls_tree_us(bytes_, shape)), times)
    if gpus > 1 and name == "all-reduce":
        bound = bytes_ * 2 * (gpus - 1) / gpus / (1000 * DIRECT_USE * max(shape.nvlink_counted, shape.pcie_counted))
        times = np.where(algorithm == "collnet-direct", np.maximum(times, bound), times)
    algbw = bytes_ / times / 1000
    large = choose_many(name, bytes_ * 1000, shape, environment)["algbw_gbytes_s"].to_numpy()
    fill = np.minimum(table["algbw_gbytes_s"].to_numpy() / large, 1.0)
    wire = _wire(name, shape, environment)
    return table.with_columns(
        pl.Series("time_us", times),
        pl.Series("algbw_gbytes_s", algbw),
        pl.Series("busbw_gbytes_s", algbw * bus_factor(name, shape.ranks)),
        pl.Series("fill", fill),
        pl.Series("limit", np.where(fill < 0.5, "latency", wire).tolist(), dtype=pl.String),
    )


def _two_node_nvls_tree_us(sizes: NDArray[np.float64], shape: JobShape) -> NDArray[np.float64]:
    """Return the time of an NVLS tree all-reduce on two nodes: the slowest of NVLink, adapters and the library's cap.

    Each node sends every byte once over its adapters (docs/collectives.md), and NVLink carries what it carries on one node. The
    library multiplies the channels by the rate that its search settled on, which is that of the adapters inside the nodes as
    well; on Blackwell NVLink has twice that: 690 GB/s busbw measured on two B200 nodes (coreweave/nccl-tests#92), 720 here and
    497 by the library. On Hopper the library's cap per channel binds in both.
    """
    constants, gpus = shape.constants, shape.gpus_per_node
    channels = min(gpus, constants.channels["nvls_arity"])
    factor = bus_factor("all-reduce", shape.ranks)
    algbw = min(
        NVLS_USE[shape.architecture] * shape.nvlink_counted / (1 + 1 / gpus),
        shape.nics_per_node * shape.nic_counted,
        channels * constants.channel_max["nvls-tree"][shape.architecture][1] / factor,
    )
    links = constants.link_latency_us
    start = (
        constants.base_latency_us["nvls-tree"][2] + links["nvlink"]["nvls-tree"][2] + 2 * links["net"]["nvls-tree"][2]
    )
    return start + sizes / (1000 * algbw)


def _wire(collective: str, shape: JobShape, environment: Environment) -> str:
    """Return what carries the most per byte of its rate: ``adapters``, ``nvlink`` or ``pcie``."""
    inner = "nvlink" if shape.nvlink_gbytes_s and environment.nvlink else "pcie"
    if collective in COSTED:
        inside = shape.nvlink_counted if inner == "nvlink" else shape.pcie_counted
        outer = shape.nodes > 1 and shape.nics_per_node * shape.nic_counted < 1.2 * inside
    else:
        _, inside_us, outside_us = pairwise_loads_us(collective, np.ones(1), shape)
        outer = bool(outside_us[0] > inside_us[0])
    return "adapters" if outer else inner
