"""The validation page: what it compares, that small fresh runs agree with it, and that it is complete."""

from pathlib import Path

import pytest

from railwright.simulate.plan_goodput import plan_goodput
from railwright.simulate.plan_network import network_from_plan
from railwright.simulate.validation import (
    MEAN_ERROR,
    WORST_ERROR,
    Case,
    against_closed_forms,
    cases,
    run_both,
    validation_plan,
)
from railwright.workload.nccl.measured import forecasts

PAGE = (Path(__file__).parents[2] / "docs" / "validation.md").read_text(encoding="utf-8")


def test_there_are_24_cases_over_collectives_paths_sizes_and_a_failed_leaf() -> None:
    every = cases()
    assert len(set(every)) == 24
    assert {case.paths for case in every} == {"ecmp", "spray", "rail"}
    assert {case.gpus for case in every} == {64, 256}
    assert sum(case.failed for case in every) == 12


@pytest.mark.parametrize("collective", ["all-reduce", "all-to-all"])
@pytest.mark.parametrize("paths", ["ecmp", "spray", "rail"])
@pytest.mark.parametrize("failed", [False, True])
def test_the_flow_engine_agrees_with_the_packet_engine_on_64_gpus(collective: str, paths: str, failed: bool) -> None:
    plan = validation_plan(64)
    size = 2.0**24
    told = run_both(Case(collective, 64, size, paths, failed), plan, network_from_plan(plan))
    assert abs(float(str(told["error"]))) <= WORST_ERROR
    assert told["drops"] == 0


def test_windows_of_small_messages_take_as_long_as_in_the_packet_engine() -> None:
    plan = validation_plan(128)
    told = run_both(Case("all-to-all", 128, 128 * 2.0**15, "spray", False), plan, network_from_plan(plan))
    assert abs(float(str(told["error"]))) <= WORST_ERROR


def test_no_engine_is_faster_than_the_closed_form_and_rings_and_exchanges_are_close_to_it() -> None:
    """An exchange that fills the fabric runs at the share of it that congestion control leaves (measured, see goodput)."""
    left = plan_goodput(validation_plan(256)).spread_share
    table = against_closed_forms()
    for row in table.iter_rows(named=True):
        for engine, share in (("analytic_us", 1.0), ("flow_us", left if row["collective"] == "all-to-all" else 1.0)):
            assert row[engine] >= row["closed_us"] * (1 - 1e-9)
            if row["collective"] != "broadcast":
                assert row[engine] == pytest.approx(row["closed_us"] / share, rel=0.02)


def test_the_page_has_every_case_and_every_measurement_and_met_its_bars() -> None:
    section = PAGE.split("## Flow engine against packet engine")[1].split("\n### ")[0]
    errors = [
        float(cells[8].split()[0]) / 100
        for cells in (line.split("|") for line in section.splitlines())
        if len(cells) == 12 and cells[8].strip().endswith("%")
    ]
    assert len(errors) == 24
    assert sum(map(abs, errors)) / 24 <= MEAN_ERROR
    assert max(map(abs, errors)) <= WORST_ERROR
    measured = PAGE.split("## Forecasts against published nccl-tests")[1].split("\n## ")[0]
    for row in forecasts().iter_rows(named=True):
        assert f"| {row['platform']} | {row['gpus']} | {row['collective']} |" in measured
        assert row["source"] in measured
