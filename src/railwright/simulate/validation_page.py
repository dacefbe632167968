"""docs/validation.md as text, from fresh runs; nothing on it is written by hand but the sentences around the tables."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from railwright.simulate.validation import (
    MEAN_ERROR,
    WORST_ERROR,
    against_closed_forms,
    busiest_link_against_flow,
    flow_against_packet,
    small_messages,
)
from railwright.units import format_bytes
from railwright.workload.nccl.measured import FITTED, forecasts

MEDIAN_ERROR_PERCENT = 5.0


@dataclass(frozen=True)
class Page:
    """The page, and the bars that were missed, in words."""

    text: str
    missed: tuple[str, ...]


def validation_page(progress: Callable[[str], None] = lambda _: None) -> Page:
    """Run everything and return the page; about two minutes of processor time."""
    progress("forecasts against measurements")
    measured, missed_measured = _measured(forecasts())
    packet, missed_packet = _packet(flow_against_packet(progress))
    progress("small messages")
    small = _small(small_messages())
    progress("closed forms")
    forms = _forms(against_closed_forms())
    progress("busiest links")
    links = _links(busiest_link_against_flow())
    text = "\n\n".join((_HEAD, measured, packet, small, forms, links)) + "\n"
    return Page(text, (*missed_measured, *missed_packet))


_HEAD = """# Validation

Written by `railwright doctor --validation docs/validation.md` (or `make validation`); every row of every comparison is shown.
How the models work: [collectives](collectives.md), [busbw](busbw.md)."""


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def _percent(value: float) -> str:
    return f"{100 * value:+.1f} %"


def _measured(table: pl.DataFrame) -> tuple[str, list[str]]:
    scored = table.filter(pl.col("scored") == 1)
    median = float(np.median(scored["error_percent"].abs().to_numpy()))
    independent = scored.filter(~pl.col("source").is_in(FITTED))
    other = float(np.median(independent["error_percent"].abs().to_numpy()))
    rows = []
    for row in table.iter_rows(named=True):
        known = row["measured_busbw"] is not None
        rows.append(
            (
                row["platform"],
                row["gpus"],
                row["collective"],
                f"{row['size_bytes'] / 2**20:g}",
                f"{row['measured_busbw']:g}" if known else "-",
                f"{row['forecast_busbw']:.1f}",
                f"{row['error_percent']:+.1f} %" if known else "-",
                row["algorithm"],
                "scored" if row["scored"] else row["reason"],
                row["source"],
            )
        )
    columns = (
        "platform",
        "GPUs",
        "collective",
        "MiB",
        "measured",
        "forecast",
        "error",
        "algorithm",
        "scored",
        "source",
    )
    text = f"""## Forecasts against published nccl-tests

busbw in GB/s. Scored are rows that are healthy, verified and at least 256 MiB: {scored.height} of {table.height}. Median error
**{median:.1f} %** (bar: {MEDIAN_ERROR_PERCENT:g} %); {other:.1f} % without the rows that the model was fitted to.

{_table(columns, rows)}"""
    return text, [f"forecasts: median error {median:.1f} %"] if median > MEDIAN_ERROR_PERCENT else []


def _packet(table: pl.DataFrame) -> tuple[str, list[str]]:
    errors = table["error"].abs().to_numpy()
    mean, worst = float(errors.mean()), float(errors.max())
    rows = [
        (
            row["collective"],
            row["gpus"],
            format_bytes(row["size_bytes"]),
            row["paths"],
            "one out" if row["failed"] else "all",
            f"{row['flow_us']:.1f}",
            f"{row['packet_us']:.1f}",
            _percent(row["error"]),
            f"{row['ecn_marks']:,}",
            row["drops"],
        )
        for row in table.iter_rows(named=True)
    ]
    columns = (
        "collective",
        "GPUs",
        "size",
        "paths",
        "leaves",
        "flow (us)",
        "packet (us)",
        "error",
        "ECN marks",
        "drops",
    )
    text = f"""## Flow engine against packet engine

Finish times of the same traffic on the same network with the same hashes: H100 servers on 400G RoCEv2 with rails, four servers
per leaf, non-blocking, DCQCN and PFC on. All-reduce: a ring per rail. All-to-all: 64 MiB on 256 GPUs and 16 MiB on 64, so
256 KiB to each peer, across rails over the spines (`ecmp`, `spray`) or over NVLink to the rail first (`rail`). With
a leaf out, four GPUs send over a neighbour's adapter. Mean error **{100 * mean:.1f} %** (bar: {100 * MEAN_ERROR:g} %), worst
**{100 * worst:.1f} %** (bar: {100 * WORST_ERROR:g} %).

{_table(columns, rows)}

What is left: DCQCN's cuts and the queues let messages of an all-to-all finish at other times than equal shares would (both
signs). What congestion control leaves of full links is in the flow engine by constants that other runs of the packet engine gave
(`data/goodput.json`). So are the acknowledgements of every packet, here only: 2 % of a cable that is busy both ways. `simulate`
leaves them out, since adapters acknowledge many packets at once."""
    missed = []
    if mean > MEAN_ERROR:
        missed.append(f"flow against packet: mean error {100 * mean:.1f} %")
    if worst > WORST_ERROR:
        missed.append(f"flow against packet: worst error {100 * worst:.1f} %")
    return text, missed


def _small(table: pl.DataFrame) -> str:
    rows = [
        (
            row["gpus"],
            format_bytes(row["message_bytes"]),
            f"{row['flow_us']:.1f}",
            f"{row['packet_us']:.1f}",
            _percent(row["error"]),
        )
        for row in table.iter_rows(named=True)
    ]
    missed = int((table["error"].abs() > WORST_ERROR).sum())
    return f"""### Small messages of an all-to-all

The same bar for messages below those of the 24 cases, all leaves up, sprayed, eight messages in flight per GPU: {missed} of
{table.height} miss it. The flow engine keeps alike GPUs in step, so that all eight messages end together; were the next eight to
start a path's delay later, 32 KiB to each of 256 GPUs would take a quarter too long, as it did before. In a crowd packets get out
of step and hide the delay behind the rest of the window: the next message starts when the last byte has left, or as much later
as the window is too small for the delay.

{_table(("GPUs", "message", "flow (us)", "packet (us)", "error"), rows)}"""


def _forms(table: pl.DataFrame) -> str:
    rows = [
        (
            row["collective"],
            row["algorithm"],
            row["gpus"],
            row["fabric"],
            row["formula"],
            f"{row['closed_us']:.1f}",
            f"{row['analytic_us']:.1f}",
            _percent(row["analytic_us"] / row["closed_us"] - 1),
            f"{row['flow_us']:.1f}",
            _percent(row["flow_us"] / row["closed_us"] - 1),
        )
        for row in table.iter_rows(named=True)
    ]
    columns = ("collective", "algorithm", "GPUs", "fabric", "closed form", "us", "analytic", "", "flow", "")
    return f"""## Analytic and flow engine against closed forms

S = 1 GiB, B = payload rate of a 400G adapter, c = what congestion control leaves of full links between switches (measured),
V = 371 GB/s of NVLink (18 links as NCCL counts them), n GPUs. The forms count bytes and no latency or filling of pipelines, so
that nothing may be faster. A broadcast is a chain through every GPU of every server: its filling grows with n.

{_table(columns, rows)}"""


def _links(table: pl.DataFrame) -> str:
    rows = [
        (
            row["fabric"],
            row["collective"],
            row["algorithm"],
            row["paths"],
            f"{row['ceiling_us']:.1f}",
            f"{row['flow_us']:.1f}",
            _percent(row["flow_us"] / row["ceiling_us"] - 1),
        )
        for row in table.iter_rows(named=True)
    ]
    columns = ("fabric", "collective", "algorithm", "paths", "busiest link (us)", "flow engine (us)", "above")
    return f"""## The busiest link against the flow engine

What `busbw` takes for the fabric's part of the time, 256 GPUs, 1 GiB. It is a lower bound; for an all-to-all over
hashed paths the two draw their hashes independently, so that the difference is also luck.

{_table(columns, rows)}"""
