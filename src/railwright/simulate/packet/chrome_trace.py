"""A run as a Chrome trace (chrome://tracing, Perfetto): one process per job with a row per source endpoint, and counters.

Counters are the series of the packet engine: the use, marks and pauses of the links that carry most, and the longest queues.
"""

from pathlib import Path

import polars as pl

MOST_COUNTERS = 64
"""How many links and how many queues are drawn: those with the most bytes, and the longest queues."""


def write_chrome_trace(
    flows: pl.DataFrame, path: Path, *, carried: pl.DataFrame | None = None, queues: pl.DataFrame | None = None
) -> None:
    """Write the finished rows of table ``flows`` to ``path`` as trace events, times in microseconds.

    ``carried`` and ``queues`` are the series of a packet run (`PacketResult`), drawn as counters of the process ``network``.
    """
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
    counters = [
        frame for frame in (_links(carried), _queues(queues), _marks(carried)) if frame is not None and frame.height
    ]
    processes = [*number, *(["network"] if counters else [])]
    names = pl.DataFrame(
        {
            "name": "process_name",
            "ph": "M",
            "pid": [number.get(job, 0) for job in processes],
            "args": [{"name": job} for job in processes],
        }
    )
    parts = [frame.write_json()[1:-1] for frame in (names, events, *counters) if frame.height]
    temporary = path.with_name(path.name + ".partial")
    temporary.write_text('{"displayTimeUnit": "ns", "traceEvents": [' + ",\n".join(parts) + "]}\n", encoding="utf-8")
    temporary.replace(path)


def _most(series: pl.DataFrame, key: list[str], by: pl.Expr) -> pl.DataFrame:
    """Return the rows of the ``MOST_COUNTERS`` keys that are largest ``by``."""
    top = series.group_by(key, maintain_order=True).agg(by.alias("size")).filter(pl.col("size") > 0)
    return series.join(top.sort("size", descending=True, maintain_order=True).head(MOST_COUNTERS), on=key, how="semi")


def _counters(series: pl.DataFrame, name: pl.Expr, values: pl.Expr) -> pl.DataFrame:
    return series.select(name=name, ph=pl.lit("C"), ts="time_us", pid=pl.lit(0), args=values)


_SIDE = pl.when(pl.col("forward")).then(pl.lit("")).otherwise(pl.lit(" back"))


def _links(carried: pl.DataFrame | None) -> pl.DataFrame | None:
    if carried is None or carried.is_empty():
        return None
    most = _most(carried, ["link_id", "forward"], pl.col("bytes").sum())
    span = pl.col("time_us") - pl.col("since_us")
    values = pl.struct(used_percent=100 * pl.col("util"), paused_percent=100 * pl.col("pause_us") / span)
    return _counters(most, pl.format("link {}{}", "link_id", _SIDE), values)


def _marks(carried: pl.DataFrame | None) -> pl.DataFrame | None:
    if carried is None or carried.is_empty():
        return None
    most = _most(carried, ["link_id", "forward"], pl.col("ecn_marks").sum())
    return _counters(most, pl.format("ECN marks, link {}{}", "link_id", _SIDE), pl.struct("ecn_marks"))


def _queues(queues: pl.DataFrame | None) -> pl.DataFrame | None:
    if queues is None or queues.is_empty():
        return None
    most = _most(queues, ["link_id", "forward", "class"], pl.col("queued_bytes").max())
    name = pl.format("queue of link {}{}, class {}", "link_id", _SIDE, "class")
    return _counters(most, name, pl.struct("queued_bytes"))
