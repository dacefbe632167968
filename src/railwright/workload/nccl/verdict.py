"""Compares a log of nccl-tests with what the shape of the job promises: a verdict per size, causes, evidence and what to try."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.units import format_bytes
from railwright.workload.collectives.meaning import bus_factor, collective_name
from railwright.workload.nccl.causes import SLOW, SLOW_START, Case, Cause, causes_of
from railwright.workload.nccl.choose import NO_VARIABLES
from railwright.workload.nccl.environment import Environment
from railwright.workload.nccl.expect import expected
from railwright.workload.nccl.log import Log, Run
from railwright.workload.nccl.shape import JobShape

LARGEST_SERVER = 16
"""GPUs: a larger scale-up domain spans several hosts (NVL72), so that hosts in the log are not nodes."""

Forecast = Callable[[Run, str, NDArray[np.float64], JobShape, Environment], pl.DataFrame]
"""What a run should show: the columns of `expected` for a collective, sizes in bytes and the shape of the job in the log."""


def without_fabric(
    run: Run, collective: str, sizes: NDArray[np.float64], shape: JobShape, environment: Environment
) -> pl.DataFrame:
    """Return the forecast of NCCL's own model, which knows servers and adapters and nothing of the switches."""
    return expected(collective, sizes, shape, environment)


SIZES = pl.Schema(
    {
        "line": pl.UInt32,
        "size_bytes": pl.Float64,
        "time_us": pl.Float64,
        "busbw_gbytes_s": pl.Float64,
        "expected_us": pl.Float64,
        "expected_gbytes_s": pl.Float64,
        "ratio": pl.Float64,
        "algorithm": pl.String,
        "protocol": pl.String,
        "limit": pl.String,
        "verdict": pl.String,
    }
)
"""Columns of `Verdict.sizes`: the faster of out-of-place and in-place; ``verdict``: as expected, slow, slow start or above."""


@dataclass(frozen=True)
class Verdict:
    """What one run of a log says.

    ``code`` is ``as-expected`` or that of the first of ``causes``; ``slow_from`` is the size in bytes from which all larger ones
    are slow, if any; ``shape`` is that of the job in the log; ``remarks`` say what could not be used.
    """

    run: Run
    collective: str | None
    shape: JobShape
    code: str
    summary: str
    slow_from: float | None
    causes: tuple[Cause, ...]
    sizes: pl.DataFrame
    remarks: tuple[str, ...]


def judge(
    log: Log,
    shape: JobShape,
    environment: Environment = NO_VARIABLES,
    *,
    collective: str | None = None,
    forecast: Forecast = without_fabric,
) -> tuple[Verdict, ...]:
    """Return one verdict per run of ``log``; processes that each ran alone at the same time are one run.

    ``shape`` is what the job should be (servers of the plan, number of nodes asked for); hosts and ranks in the log override
    its counts. ``environment`` are variables that belong to the job by intent; those that the log shows are evidence, not part
    of the expectation. ``collective`` is needed when the log does not name the test: without either, nothing is expected.
    ``forecast`` says what to expect.
    """
    alone = _alone(log)
    runs = (*alone[:1], *(run for run in log.runs if run not in alone))
    return tuple(
        _judged(run, len(alone) if run in alone else 0, shape, environment, collective, forecast) for run in runs
    )


def _alone(log: Log) -> tuple[Run, ...]:
    """Return the runs of one rank each that different processes printed: a job that was not one."""
    single = [run for run in log.runs if run.stream and run.size <= 1]
    return tuple(single) if len({run.stream for run in single}) > 1 else ()


def _judged(
    run: Run, alone: int, wanted: JobShape, environment: Environment, collective: str | None, forecast: Forecast
) -> Verdict:
    remarks = []
    name = collective_name(collective) if collective else run.collective
    if name is None:
        remarks.append("the log does not name the collective; say which test it was to compare it")
    shape, doubt = _shape_of(run, wanted)
    remarks += doubt
    if run.torn:
        remarks.append(f"{run.torn} rows were torn and could not be put together")
    sizes = _sizes(run, name, shape, environment, forecast)
    case = Case(run, name, wanted, shape, sizes, alone)
    causes = tuple(causes_of(case))
    slow_from = _slow_from(sizes)
    code = causes[0].code if causes else "as-expected"
    return Verdict(
        run, name, shape, code, _summary(run, name, sizes, causes, slow_from), slow_from, causes, sizes, tuple(remarks)
    )


def _shape_of(run: Run, wanted: JobShape) -> tuple[JobShape, list[str]]:
    """Return the shape with the counts of the log, and what is odd about them."""
    if run.size < 1:
        return wanted, ["the log does not say how many ranks took part; those of the plan are assumed"]
    hosts = max(run.hosts, 1)
    if wanted.gpus_per_node > LARGEST_SERVER:
        nodes = -(-run.size // wanted.gpus_per_node)
        return replace(wanted, nodes=nodes, gpus_per_node=-(-run.size // nodes)), []
    doubt = []
    if run.size % hosts:
        doubt.append(f"{run.size} ranks on {hosts} hosts: the hosts hold different numbers of ranks")
    gpus = max(1, run.size // hosts)
    nics = max(1, min(wanted.nics_per_node, wanted.nics_per_node * gpus // wanted.gpus_per_node))
    return replace(wanted, nodes=hosts, gpus_per_node=gpus, nics_per_node=nics), doubt


def _sizes(
    run: Run, collective: str | None, shape: JobShape, environment: Environment, forecast: Forecast
) -> pl.DataFrame:
    usable = run.rows.filter((pl.col("size_bytes") > 0) & (pl.col("time_us") > 0) & pl.col("time_us").is_finite())
    best = (
        usable.group_by("size_bytes", maintain_order=True)
        .agg(pl.col("line").first(), pl.col("time_us").min())
        .sort("size_bytes")
    )
    if collective is None or best.height == 0 or shape.ranks < 2:
        return pl.DataFrame(schema=SIZES)
    ours = forecast(run, collective, best["size_bytes"].to_numpy(), shape, environment)
    measured = best["size_bytes"].to_numpy() / best["time_us"].to_numpy() / 1000 * bus_factor(collective, shape.ranks)
    ratio = measured / ours["busbw_gbytes_s"].to_numpy()
    latency = (ours["limit"] == "latency").to_numpy()
    share = np.clip((ours["fill"].to_numpy() - 0.5) / 0.45, 0, 1)
    slow = ratio < SLOW_START + (SLOW - SLOW_START) * share
    words = np.where(
        slow & latency, "slow start", np.where(slow, "slow", np.where(ratio > 1.25, "above", "as expected"))
    )
    return pl.DataFrame(
        {
            "line": best["line"],
            "size_bytes": best["size_bytes"],
            "time_us": best["time_us"],
            "busbw_gbytes_s": measured,
            "expected_us": ours["time_us"],
            "expected_gbytes_s": ours["busbw_gbytes_s"],
            "ratio": ratio,
            "algorithm": ours["algorithm"],
            "protocol": ours["protocol"],
            "limit": ours["limit"],
            "verdict": words.tolist(),
        },
        schema=SIZES,
    )


def _slow_from(sizes: pl.DataFrame) -> float | None:
    """Return the smallest size from which on every size is slow."""
    slow = sizes["verdict"].is_in(["slow", "slow start"]).to_numpy()
    if not slow.size or not slow[-1]:
        return None
    healthy = np.flatnonzero(~slow)
    first = 0 if healthy.size == 0 else int(healthy[-1]) + 1
    return float(sizes["size_bytes"][first])


def _summary(
    run: Run, collective: str | None, sizes: pl.DataFrame, causes: tuple[Cause, ...], slow_from: float | None
) -> str:
    what = f"{collective or 'unknown collective'} on {run.size or 'an unknown number of'} ranks"
    if not sizes.height:
        tail = causes[0].title if causes else "no size could be compared"
        return f"{what}: {tail}"
    last = sizes.row(-1, named=True)
    figures = (
        f"{last['busbw_gbytes_s']:.4g} GB/s at {format_bytes(last['size_bytes'])}, {last['ratio']:.0%} of the "
        f"{last['expected_gbytes_s']:.4g} GB/s expected"
    )
    verdict = causes[0].title if causes else "as expected" if slow_from is None else "slow"
    start = f", slow from {format_bytes(slow_from)}" if slow_from else ""
    return f"{what}: {verdict}{start} ({figures})"
