"""Flows as a Chrome trace (chrome://tracing, Perfetto): one process per job, one row per source endpoint."""

from pathlib import Path

import polars as pl


def write_chrome_trace(flows: pl.DataFrame, path: Path) -> None:
    """Write the finished rows of table ``flows`` to ``path`` as trace events, times in microseconds."""
    jobs = flows["job"].fill_null("").unique(maintain_order=True)
    number = dict(zip(jobs, range(1, len(jobs) + 1), strict=True))
    finished = flows.drop_nulls("finish_us")
    events = finished.select(
        name=pl.format("{} → {}", "src", "dst"),
        cat=pl.col("class").fill_null(""),
        ph=pl.lit("X"),
        ts="start_us",
        dur="fct_us",
        pid=pl.col("job").fill_null("").replace_strict(number, return_dtype=pl.UInt32),
        tid="src",
        args=pl.struct("op_id", "bytes", "ideal_us", "retransmitted_bytes"),
    )
    names = pl.DataFrame(
        {"name": "process_name", "ph": "M", "pid": list(number.values()), "args": [{"name": job} for job in jobs]}
    )
    parts = [frame.write_json()[1:-1] for frame in (names, events) if frame.height]
    temporary = path.with_name(path.name + ".partial")
    temporary.write_text('{"displayTimeUnit": "ns", "traceEvents": [' + ",\n".join(parts) + "]}\n", encoding="utf-8")
    temporary.replace(path)
