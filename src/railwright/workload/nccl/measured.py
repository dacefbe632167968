"""Published measurements of nccl-tests and our forecast for each: ``data/measured.csv`` names the source of every row.

A row is scored when it is healthy, verified and at least 256 MiB; the others say why not, and none is left out.
"""

from functools import cache
from importlib.resources import files

import polars as pl

from railwright.workload.nccl.environment import parse_environment
from railwright.workload.nccl.expect import expected
from railwright.workload.nccl.shape import JobShape

FITTED = ("NVIDIA/nccl-tests#212 (sjeaugey)", "NVIDIA/nccl#320 (sjeaugey)")
"""Sources of the rows that `expect`'s mends were fitted to: they agree by construction."""


@cache
def forecasts() -> pl.DataFrame:
    """Return the measurements with ``algorithm``, ``forecast_busbw`` (GB/s) and ``error_percent`` (null if not measured)."""
    with files("railwright.workload.nccl").joinpath("data/measured.csv").open("rb") as stream:
        facts = pl.read_csv(stream)
    rows = []
    for row in facts.iter_rows(named=True):
        shape = JobShape(
            nodes=row["nodes"],
            gpus_per_node=row["gpus"] // row["nodes"],
            architecture=row["architecture"],
            nvlink_gbytes_s=row["nvlink_gbytes_s"],
            nics_per_node=row["nics_per_node"],
            nic_gbytes_s=row["nic_gbytes_s"],
            sharp=bool(row["sharp"]),
            nvswitch=bool(row["nvswitch"]),
        )
        table = expected(row["collective"], [row["size_bytes"]], shape, parse_environment(row["environment"] or ""))
        rows.append(table.select("algorithm", "busbw_gbytes_s").row(0))
    ours = pl.DataFrame(rows, schema=["algorithm", "forecast_busbw"], orient="row")
    error = (pl.col("forecast_busbw") / pl.col("measured_busbw") - 1) * 100
    return pl.concat([facts, ours], how="horizontal").with_columns(error.alias("error_percent"))
