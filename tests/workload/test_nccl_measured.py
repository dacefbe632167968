"""Forecasts against measurements that were published (workload/nccl/data/measured.csv names each source)."""

from pathlib import Path

import numpy as np
import polars as pl

from railwright.workload.nccl.measured import FITTED, forecasts


def test_healthy_large_measurements_are_met_within_5_percent_in_the_median() -> None:
    scored = forecasts().filter(pl.col("scored") == 1)
    assert scored.height == 33
    assert scored["size_bytes"].min() >= 2**28
    assert np.median(scored["error_percent"].abs()) <= 5
    independent = scored.filter(~pl.col("source").is_in(FITTED))
    assert np.median(independent["error_percent"].abs()) <= 5


def test_every_measurement_that_is_not_scored_says_why() -> None:
    table = forecasts()
    assert table.height == 43
    assert table.filter((pl.col("scored") == 0) & pl.col("reason").is_null()).height == 0


def test_the_documentation_shows_every_measurement_with_our_forecast() -> None:
    page = (Path(__file__).parents[2] / "docs" / "collectives.md").read_text(encoding="utf-8")
    for row in forecasts().iter_rows(named=True):
        measured = "-" if row["measured_busbw"] is None else f"{row['measured_busbw']:g}"
        error = "-" if row["error_percent"] is None else f"{row['error_percent']:+.1f} %"
        note = "scored" if row["scored"] else row["reason"]
        line = (
            f"| {row['platform']} | {row['gpus']} | {row['collective']} | {row['size_bytes'] / 2**20:g} | {measured} | "
            f"{row['forecast_busbw']:.1f} | {error} | {row['algorithm']} | {note} | {row['source']} |"
        )
        assert line in page
