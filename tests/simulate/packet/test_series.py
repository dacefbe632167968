"""Series over time: what they sum up to, and how much memory they may take."""

import numpy as np
import polars as pl
import pytest

from railwright.simulate.packet.engine import simulate_packets
from railwright.simulate.packet.options import rocev2


def incast(star, sends, **options: object):
    rows = sends(*((h, 8, 2e6) for h in range(8)))
    return simulate_packets(star(9, buffer_bytes=3e6), rows, rocev2(congestion_control="none", **options))


def test_a_series_sums_up_to_the_totals_of_the_run(star, sends) -> None:
    result = incast(star, sends, sample_us=1.0)
    series = result.carried.group_by("link_id", "forward").agg(pl.col("bytes", "ecn_marks", "pause_us").sum())
    both = series.join(result.links_used, on=["link_id", "forward"], suffix="_total")
    end = result.counters["end_us"]
    last = float(np.floor(end))
    assert both["pause_us_total"].sum() > 0
    assert (both["pause_us_total"] - both["pause_us"]).abs().max() <= end - last + 1e-9
    assert both["ecn_marks"].sum() == pytest.approx(both["ecn_marks_total"].sum(), abs=20)
    missing = both["bytes_total"] - both["bytes"]
    assert missing.min() >= 0
    assert missing.max() <= 50_000 * (end - last) + 4178
    assert result.carried["util"].max() < 1.1  # a packet counts from its first bit on


def test_series_keep_to_their_limit_by_looking_half_as_often(star, sends) -> None:
    result = incast(star, sends, sample_us=0.05, sample_limit=1000)
    assert result.carried.height <= 1000
    assert result.samples.height <= 1000
    times = result.carried["time_us"].unique().sort()
    steps = times.diff().drop_nulls().round(6).unique()
    assert steps.len() == 1  # even spacing, a power of two times what was asked
    assert np.log2(steps[0] / 0.05) == pytest.approx(round(np.log2(steps[0] / 0.05)))
    assert times.max() > 0.9 * result.counters["end_us"]


def test_looking_changes_nothing(star, sends) -> None:
    assert incast(star, sends, sample_us=0.7).flows.equals(incast(star, sends).flows)
    assert incast(star, sends, latency_budget=True).flows.equals(incast(star, sends).flows)
