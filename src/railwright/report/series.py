"""The time series of a packet run as drawings: what the busiest links carried, and the longest queues.

Input are the tables of `simulate --series`: ``carried`` and ``queues`` (see `simulate.packet.engine.PacketResult`).
"""

from pathlib import Path

import polars as pl

from railwright.report.line_chart import Line, line_chart

SHOWN = 8
"""Lines per drawing: the links with the most bytes, the queues with the most bytes at one moment."""


def write_series(carried: pl.DataFrame, queues: pl.DataFrame, folder: Path) -> None:
    """Write ``carried.svg`` and ``queues.svg`` into ``folder``, each where its table has rows."""
    if not carried.is_empty():
        rates = carried.with_columns(value=pl.col("bytes") * 8e-3 / (pl.col("time_us") - pl.col("since_us")))
        drawing = line_chart(
            _lines(rates, pl.col("bytes").sum()),
            title="What the busiest links carry",
            x_label="time (us)",
            y_label="rate (Gb/s)",
        )
        (folder / "carried.svg").write_text(drawing, encoding="utf-8")
    if not queues.is_empty():
        port = ["link_id", "forward", "from", "to"]
        per_port = queues.group_by("time_us", *port).agg(value=pl.col("queued_bytes").sum() / 1e3)
        moments = carried.select("time_us").unique().join(per_port.select(port).unique(), how="cross")
        filled = moments.join(per_port, on=["time_us", *port], how="left")
        drawing = line_chart(
            _lines(filled.with_columns(pl.col("value").fill_null(0.0)), pl.col("value").max()),
            title="The longest queues",
            x_label="time (us)",
            y_label="queue (kB)",
        )
        (folder / "queues.svg").write_text(drawing, encoding="utf-8")


def _lines(values: pl.DataFrame, rank: pl.Expr) -> list[Line]:
    """Return a line per direction of a link, those with the highest ``rank`` first."""
    port = ["link_id", "forward", "from", "to"]
    top = values.group_by(port).agg(rank=rank).sort("rank", "link_id", "forward", descending=[True, False, True])
    lines = []
    for link_id, forward, start, end in top.select(port).head(SHOWN).iter_rows():
        own = values.filter((pl.col("link_id") == link_id) & (pl.col("forward") == forward)).sort("time_us")
        lines.append(Line(f"{start} → {end}", own["time_us"].to_list(), own["value"].to_list()))
    return lines
