"""Hostile text anywhere in an edited plan: refused by name, or in no file as syntax."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from xml.parsers import expat

import openpyxl
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railwright.build.acceptance import acceptance_files
from railwright.build.documents import write_documents
from railwright.build.exports import EXPORTS, write_export
from railwright.build.render import check_paths, render_plan
from railwright.design.plan import Plan
from railwright.errors import InputError

CANARY = "QzXq"
SYNTAX = [
    "\n",
    "\r",
    "\t",
    '"',
    "'",
    "`",
    "$(",
    ";",
    "|",
    "&",
    "<",
    ">",
    "{",
    "}",
    "#",
    "\\",
    "\x00",
    "..",
    " ",
    "=",
    "@",
    "é",
    "!",
]
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
hostile = st.builds(
    lambda before, inside, after: f"{before}{CANARY}{inside}{after}",
    st.sampled_from(["", "=", "+", "-", "@", '"', "\n", "$(", "<script>", "../", ";", "a"]),
    st.lists(st.sampled_from(SYNTAX), min_size=1, max_size=3).map("".join),
    st.sampled_from(["", "x", ")", "</script>", '"', "\nx"]),
)


def texts_of(plan: Plan) -> list[tuple[str, str]]:
    """Return every text column of every table that has a value."""
    return [
        (name, column)
        for name, table in plan.tables.items()
        for column, kind in table.schema.items()
        if kind == pl.String and table[column].null_count() < len(table)
    ]


def with_hostile(plan: Plan, table: str, column: str, text: str, draw: int) -> Plan:
    """Return the plan with ``text`` in one place of a column."""
    rows = plan.tables[table].with_row_index("row_")
    held = rows.filter(pl.col(column).is_not_null())["row_"]
    changed = pl.when(pl.col("row_") == held[draw % len(held)]).then(pl.lit(text)).otherwise(column)
    return plan.with_tables(**{table: rows.with_columns(changed.alias(column)).drop("row_")})


@pytest.mark.parametrize("network", ["ethernet", "infiniband"])
@given(data=st.data(), text=hostile, number=st.integers(0, 2**16))
@settings(max_examples=60, deadline=None)
def test_configurations_never_carry_hostile_text(
    papers_plan: Plan, infiniband_plan: Plan, network: str, data: st.DataObject, text: str, number: int
) -> None:
    plan = papers_plan if network == "ethernet" else infiniband_plan
    table, column = data.draw(st.sampled_from(texts_of(plan)))
    edited = with_hostile(plan, table, column, text, number)
    files: dict[str, str] = {}
    try:
        made = render_plan(
            edited, ("sonic", "nvue", "frr") if network == "ethernet" else (), network_manager=bool(number % 2)
        )
        check_paths(made.files)
        files |= made.files
        files |= acceptance_files(edited)
    except InputError:
        return
    for path, content in files.items():
        assert CANARY not in content, (table, column, path)


HARMFUL = [("devices", "name"), ("ports", "name"), ("addresses", "vrf"), ("addresses", "address")]


NAMES = ["x\nusername admin", "x; reboot", "$(reboot)", 'x"},"y":{"', "x y", "-rf", "`id`", ""]


@pytest.mark.parametrize(
    ("table", "column", "text"),
    [*((*place, text) for place in HARMFUL for text in NAMES), ("addresses", "address", "10.0.0.1/33")],
)
def test_what_is_written_as_it_stands_is_refused(papers_plan: Plan, table: str, column: str, text: str) -> None:
    edited = with_hostile(papers_plan, table, column, text, 0)
    with pytest.raises(InputError):
        render_plan(edited)
    with pytest.raises(InputError):
        acceptance_files(edited)


@given(place=st.integers(0, 2**16), text=hostile, number=st.integers(0, 2**16))
@settings(max_examples=25, deadline=None)
def test_documents_show_hostile_text_as_text(
    papers_plan: Plan, tmp_path_factory: pytest.TempPathFactory, place: int, text: str, number: int
) -> None:
    places = texts_of(papers_plan)
    table, column = places[place % len(places)]
    edited = with_hostile(papers_plan, table, column, text, number)
    try:
        files = write_documents(edited, tmp_path_factory.mktemp("papers"))
    except InputError:
        return
    for file in files:
        for cell in _cells(file):
            assert CANARY not in cell or not cell.startswith(FORMULA), (table, column, file.name, cell)
        if file.suffix in (".html", ".svg", ".md"):
            shown = file.read_text(encoding="utf-8")
            if file.suffix == ".svg":
                expat.ParserCreate().Parse(shown, True)
            assert f"<script>{CANARY}" not in shown, (table, column, file.name)


def _cells(file: Path) -> Iterator[str]:
    if file.suffix == ".csv":
        for row in csv.reader(io.StringIO(file.read_text(encoding="utf-8"))):
            yield from row
    elif file.suffix == ".xlsx":
        for sheet in openpyxl.load_workbook(file).worksheets:
            for line in sheet.iter_rows():
                for cell in line:
                    assert cell.data_type != "f", (file.name, cell.coordinate)
                    if isinstance(cell.value, str) and not cell.quotePrefix:
                        yield cell.value


def test_a_price_source_is_text_in_the_readme(papers_plan: Plan, tmp_path: Path) -> None:
    edited = with_hostile(papers_plan, "bom", "price_source", f"<script>{CANARY}</script>", 0)
    files = write_documents(edited, tmp_path)
    (readme,) = (file.read_text() for file in files if file.name == "README.md")
    assert f"&lt;script&gt;{CANARY}" in readme
    assert f"<script>{CANARY}" not in readme


@pytest.mark.parametrize("kind", sorted(EXPORTS))
@given(data=st.data(), text=hostile, number=st.integers(0, 2**16))
@settings(max_examples=15, deadline=None)
def test_exports_refuse_hostile_names(
    papers_plan: Plan,
    infiniband_plan: Plan,
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    data: st.DataObject,
    text: str,
    number: int,
) -> None:
    plan = infiniband_plan if kind == "topo" else papers_plan
    table, column = data.draw(st.sampled_from(HARMFUL))
    with pytest.raises(InputError):
        write_export(with_hostile(plan, table, column, text, number), kind, tmp_path_factory.mktemp("export"))


def test_the_contract_and_manifest_are_json_whatever_the_plan_says(papers_plan: Plan) -> None:
    made = render_plan(papers_plan)
    json.loads(made.files["contract.json"])
    json.dumps(made.manifest())
