"""The report as a reader gets it: one file, no network, readable at every size, nothing unescaped."""

import re
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from railwright.catalog.load import load_catalog
from railwright.check.engine import check_plan
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.findings import Finding, Severity
from railwright.report.comparison import compare_networks
from railwright.report.content import collect
from railwright.report.html import render, write_html
from railwright.report.topology_view import MOST_BOXES, MOST_LINES, draw, overview, unit_detail
from railwright.simulate.survey import survey
from railwright.spec.load import load_spec

EXAMPLES = Path(__file__).parents[2] / "examples"


@cache
def plan_of(name: str) -> Plan:
    return design_plan(load_spec(EXAMPLES / f"{name}.yaml"), load_catalog())


@cache
def page() -> str:
    plan = plan_of("rail-only-128")
    hostile = Finding("RW999", Severity.ERROR, "<script>alert(1)</script>", "a & b", "mend", "nowhere")
    return render(collect(plan, [*check_plan(plan), hostile], survey(plan)))


def test_the_page_loads_nothing_from_elsewhere() -> None:
    tags = re.findall(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)\s*=\s*[\"']?([^\"'>\s]+)", page())
    assert tags == []


def test_text_from_outside_is_escaped() -> None:
    assert "<script>alert(1)</script>" not in page()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page()


def test_the_page_has_every_section_and_the_plans_values() -> None:
    for section in (
        "topology",
        "networks",
        "findings",
        "collectives",
        "traffic",
        "comparison",
        "decisions",
        "assumptions",
    ):
        assert f'id="{section}"' in page()
    for value in ("rail1-leaf1", "RW902", "all-to-all", "NVLink", "RoCEv2", "unverified"):
        assert value in page()


def test_the_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    plan = plan_of("rail-only-128")
    file = write_html(collect(plan, [], survey(plan)), tmp_path / "new" / "report.html")
    assert file.read_text(encoding="utf-8").rstrip().endswith("</html>")
    assert [entry.name for entry in file.parent.iterdir()] == ["report.html"]


@pytest.mark.parametrize("name", ["rail-only-128", "b200-4096-rocev2", "multi-plane-2048", "h100-superpod-4su"])
@pytest.mark.parametrize("network", ["backend", "frontend", "storage"])
def test_overviews_stay_readable(name: str, network: str) -> None:
    view = overview(plan_of(name), network)
    assert view.boxes.group_by("tier").len()["len"].max() <= MOST_BOXES
    assert view.lines.height <= 2 * MOST_LINES
    assert draw(view).data


@pytest.mark.parametrize("name", ["rail-only-128", "b200-4096-rocev2"])
def test_lines_of_the_overview_stand_for_every_link(name: str) -> None:
    plan = plan_of(name)
    backend = plan.links.filter((pl.col("network") == "backend") & (pl.col("tier") != "oob"))
    assert overview(plan).lines["links"].sum() == backend.height


def test_one_unit_is_shown_in_full_when_the_overview_groups() -> None:
    detail = unit_detail(plan_of("b200-4096-rocev2"))
    assert detail is not None
    servers = detail.boxes.filter(pl.col("tier") == 0)
    assert servers.height == 64
    assert servers["box"][0] == "server-0001"
    assert unit_detail(plan_of("rail-only-128")) is None


def test_the_three_comparisons_have_the_expected_rows() -> None:
    first, second, third = compare_networks(plan_of("h100-superpod-4su"))
    assert [row[0] for row in first.rows] == [
        "Primary traffic",
        "Endpoints",
        "Transport",
        "Loss tolerance",
        "Latency target",
        "Oversubscription",
        "Failure goal",
        "Stretch over sites",
        "Cost of getting it wrong",
    ]
    assert [row[0] for row in second.rows] == ["Backend", "Frontend", "Storage", "Management"]
    assert third.chosen == "InfiniBand"
    assert compare_networks(plan_of("rail-only-128"))[2].chosen == "RoCEv2"


def test_the_collectives_table_compares_the_engines_at_one_size() -> None:
    plan = plan_of("rail-only-128")
    content = collect(plan, [], survey(plan))
    assert {row[2] for row in content.collectives} == {"analytic", "flow"}
    assert {row[3] for row in content.collectives} == {"1 GiB"}


@pytest.mark.parametrize("name", ["rail-only-128", "dual-site-frontend", "h100-superpod-4su"])
def test_decisions_and_drawings_are_written_for_people(name: str) -> None:
    plan = plan_of(name)
    content = collect(plan, [], survey(plan))
    for reason in content.reasons:
        assert "_" not in reason["what"]
        assert not re.search(r"\bTrue\b|\bFalse\b|\d\.0\b", reason["value"]), reason
    for network in ("backend", "frontend", "storage"):
        figure = draw(overview(plan, network))
        labels = [note.text for note in figure.layout.annotations]
        assert labels
        assert not any("_" in text for text in [*labels, *figure.layout.yaxis.ticktext])
        assert all(note.bgcolor for note in figure.layout.annotations)


def test_every_label_of_a_drawing_stands_at_its_box() -> None:
    view = overview(plan_of("rail-only-128"))
    labelled = view.boxes.filter(pl.col("label") != "").select("label", "x", "tier").rows()
    drawn = [(note.text, note.x, note.y) for note in draw(view).layout.annotations]
    assert sorted(drawn) == sorted(labelled)
