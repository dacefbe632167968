"""Papers: schedule, sheets, drawings and the bill of materials against the plan that they are made from."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import openpyxl
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railwright import tables
from railwright.build import sheets
from railwright.build.bom_sheet import bom_sheet, bom_summary
from railwright.build.cable_schedule import cable_schedule, fibre_ends, lane_range, order_list, pull_list
from railwright.build.documents import write_documents
from railwright.build.elevations import RU_PX, draw_rack, hall_drawings, rack_view, type_drawings, type_name
from railwright.build.install_sheets import install_sheets
from railwright.build.sheets import Sheet, guarded, write_csv, write_workbook
from railwright.build.trays import tray_list
from railwright.design.plan import Plan
from railwright.errors import InputError

DANGEROUS = ("=", "+", "-", "@", "\t", "\r", "\n")


def lanes_of(text: str) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def test_schedule_has_one_row_per_link_with_the_plans_own_ends(papers_plan: Plan) -> None:
    schedule = cable_schedule(papers_plan)
    ours = schedule.select("a_device", "a_port", "b_device", "b_port", "speed_gbps").sort(pl.all())
    links = papers_plan.named_links().select(
        "a_device", "b_device", "speed_gbps", a_port="a_port_name", b_port="b_port_name"
    )
    assert ours.equals(links.select(ours.columns).sort(pl.all()))
    assert schedule["medium"].null_count() == schedule["part"].null_count() == schedule["length_m"].null_count() == 0


def test_legs_of_a_cable_are_numbered_from_one_and_share_no_lane_of_a_cage(papers_plan: Plan) -> None:
    schedule = cable_schedule(papers_plan)
    legs = schedule.group_by("cable").agg(pl.col("leg").sort(), pl.col("legs").unique())
    assert all(
        own == list(range(1, total[0] + 1)) and len(total) == 1 for own, total in legs.select("leg", "legs").rows()
    )
    split = schedule.filter(pl.col("shape") == "1:4")
    assert split.height > 0
    for _, cable in split.group_by("cable"):
        assert (cable.height, cable["b_device"].n_unique(), cable["b_cage"].n_unique()) == (4, 1, 1)
        used = [lanes_of(text) for text in cable["b_host_lanes"]]
        assert len(set().union(*used)) == sum(map(len, used))
        assert cable["a_label"].n_unique() == 4
        assert cable["b_label"].n_unique() == 1


def test_a_cable_of_several_ports_between_two_cages_is_a_twin(make_plan: Callable[..., Plan]) -> None:
    plan = make_plan()
    two = plan.links.filter(pl.col("tier") == "leaf_spine").head(2)
    ports = plan.ports.with_columns(
        cage=pl.when(pl.col("port_id").is_in([*two["a_port"], *two["b_port"]]))
        .then(33)
        .otherwise("cage")
        .cast(pl.UInt16)
    )
    links = plan.links.with_columns(
        cable_id=pl.when(pl.col("link_id").is_in(two["link_id"].implode()))
        .then(99)
        .otherwise("cable_id")
        .cast(pl.UInt32)
    )
    ends = pl.concat(
        [
            two.select(
                cable_id=pl.lit(99),
                end=pl.lit(side),
                port_id=f"{side}_port",
                host_lanes=pl.Series([0x0F, 0xF0]),
                media_lanes=pl.Series([0x0F, 0xF0]),
            )
            for side in ("a", "b")
        ]
    )
    cables = pl.concat(
        [
            plan.table("cables"),
            tables.conform("cables", pl.DataFrame({"cable_id": [99], "medium": ["aec"], "part": ["x"]})),
        ]
    )
    twin = cable_schedule(plan.with_tables(ports=ports, links=links, cables=cables, cable_ends=ends))
    rows = twin.filter(pl.col("cable") == "C000099")
    assert rows["shape"].to_list() == ["twin", "twin"]
    assert rows["a_host_lanes"].to_list() == ["1-4", "5-8"]
    assert rows["unverified"].to_list() == ["x: not in the catalog"] * 2


@given(st.integers(1, 0xFFFF))
def test_lane_ranges_say_every_lane_of_the_mask_once(mask: int) -> None:
    assert sum(1 << (lane - 1) for lane in lanes_of(lane_range(mask))) == mask


def test_order_list_and_pull_list_count_every_cable(papers_plan: Plan) -> None:
    schedule = cable_schedule(papers_plan)
    total = len(papers_plan.table("cables"))
    assert order_list(schedule)["cables"].sum() == pull_list(schedule)["cables"].sum() == total
    assert order_list(schedule)["metres"].sum() == pytest.approx(papers_plan.table("cables")["length_m"].sum())


def test_schedule_of_a_plan_without_cables_is_refused(make_plan: Callable[..., Plan]) -> None:
    plan = make_plan()
    with pytest.raises(InputError, match="no cables"):
        cable_schedule(plan.with_tables(cables=tables.empty("cables")))


@given(st.lists(st.text(max_size=12), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_no_text_of_a_sheet_can_be_read_as_a_formula(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("sheets")
    frame = pl.DataFrame({"text": texts, "number": [-1.5] * len(texts)})
    write_csv(frame, folder / "a.csv")
    read = list(csv.reader(io.StringIO((folder / "a.csv").read_text(encoding="utf-8"), newline="")))[1:]
    assert not any(row[0].startswith(DANGEROUS) for row in read if row)
    assert all(row[1] == "-1.5" for row in read if row)
    write_workbook({"S": Sheet(frame)}, folder / "a.xlsx")
    cells = list(openpyxl.load_workbook(folder / "a.xlsx")["S"].iter_rows(min_row=2))
    assert len(cells) == len(texts)
    for row in cells:
        assert row[0].data_type != "f"
        assert not str(row[0].value or "").startswith(DANGEROUS)
        assert row[1].value == -1.5


def test_guard_leaves_other_text_and_numbers_alone() -> None:
    frame = pl.DataFrame({"a": ["swp1", "=1+1", None, "x=1"], "b": [-1, 2, 3, 4]})
    assert guarded(frame).rows() == [("swp1", -1), ("'=1+1", 2), (None, 3), ("x=1", 4)]


def test_workbook_says_what_the_csv_says(papers_plan: Plan, tmp_path: Path) -> None:
    write_documents(papers_plan, tmp_path)
    book = openpyxl.load_workbook(tmp_path / "cable-schedule.xlsx")
    assert book.sheetnames == ["About", "Legs", "Order list", "Pull list", "Trays"]
    rows = list(book["Legs"].iter_rows(values_only=True))
    with (tmp_path / "cable-schedule.csv").open(newline="") as stream:
        listed = list(csv.DictReader(stream))
    assert len(rows) == len(listed) + 1
    for head, row, row_csv in ((rows[0], rows[1], listed[0]), (rows[0], rows[-1], listed[-1])):
        for name, value in zip(head, row, strict=True):
            assert str(value if value is not None else "") == row_csv[name] or float(value) == float(row_csv[name])
    assert book["Legs"].freeze_panes == "A2"
    assert book["Legs"].auto_filter.ref.startswith("A1:")


def test_a_table_longer_than_a_sheet_goes_on_in_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheets, "MOST_ROWS", 10)
    monkeypatch.setattr(sheets, "CHUNK_ROWS", 4)
    write_workbook({"Rows": Sheet(pl.DataFrame({"n": range(25)}))}, tmp_path / "long.xlsx")
    book = openpyxl.load_workbook(tmp_path / "long.xlsx")
    assert book.sheetnames == ["Rows", "Rows 2", "Rows 3"]
    values = [row[0] for sheet in book for row in sheet.iter_rows(min_row=2, values_only=True)]
    assert values == list(range(25))


def test_a_box_is_drawn_over_the_units_that_it_takes(papers_plan: Plan) -> None:
    view = rack_view(papers_plan)
    rack = view.racks.row(0, named=True)
    svg = draw_rack(view.boxes.filter(pl.col("rack_id") == 0), rack, "rack", [])
    root = ElementTree.fromstring(svg)  # noqa: S314
    places = {
        (float(rect.get("y", "0")), float(rect.get("height", "0")))
        for rect in root.iter("{http://www.w3.org/2000/svg}rect")
        if rect.get("stroke") == "#4B5563"
    }
    # A box of 8 units at the lowest unit of a rack of 48 begins 40 units below the top.
    assert (40 * RU_PX + 0.5, 8 * RU_PX - 1) in places


def test_racks_with_the_same_boxes_share_a_drawing_and_differing_ones_do_not(papers_plan: Plan) -> None:
    view = rack_view(papers_plan)
    boxes = view.boxes.select("rack_id", "ru", "role", "network", "model").sort(pl.all())
    content = {rack: rows.drop("rack_id").rows() for (rack,), rows in boxes.group_by("rack_id", maintain_order=True)}
    of_type: dict[str, list[tuple[object, ...]]] = {}
    for rack, letters in view.racks.select("rack_id", "type").iter_rows():
        assert of_type.setdefault(letters, content[rack]) == content[rack]
    assert len(of_type) == len({str(rows) for rows in content.values()}) < view.racks.height
    assert list(type_drawings(view)) == list(of_type)


def test_rack_types_are_lettered_like_columns() -> None:
    assert [type_name(n) for n in (0, 25, 26, 51, 52, 701, 702)] == ["A", "Z", "AA", "AZ", "BA", "ZZ", "AAA"]


def test_drawings_are_well_formed_whatever_boxes_are_called(papers_plan: Plan) -> None:
    view = rack_view(papers_plan)
    evil = "<script>alert(1)</script>\"'&"
    boxes = view.boxes.filter(pl.col("rack_id") == 0).with_columns(name=pl.lit(evil), model_name=pl.lit(evil))
    for generic in (True, False):
        svg = draw_rack(boxes, view.racks.row(0, named=True), evil, [evil], generic=generic)
        ElementTree.fromstring(svg)  # noqa: S314
        assert "<script" not in svg
    for svg in (*type_drawings(view).values(), *hall_drawings(view).values()):
        ElementTree.fromstring(svg)  # noqa: S314


def test_a_rack_over_its_limit_is_marked(papers_plan: Plan) -> None:
    racks = papers_plan.racks.with_columns(power_limit_w=pl.when(pl.col("rack_id") == 0).then(1000.0).otherwise(1e6))
    view = rack_view(papers_plan.with_tables(racks=racks))
    assert "over the limit" in draw_rack(
        view.boxes.filter(pl.col("rack_id") == 0), view.racks.row(0, named=True), "", []
    )
    (hall,) = hall_drawings(view).values()
    assert hall.count("#B91C1C") == 1


def test_a_cable_between_racks_is_on_both_sheets_and_one_inside_on_one(papers_plan: Plan) -> None:
    schedule = cable_schedule(papers_plan)
    pages = dict(install_sheets(papers_plan, rack_view(papers_plan), schedule))
    racks = schedule.select(
        pl.col("a_rack").is_not_null().cast(pl.Int64)
        + (pl.col("b_rack").is_not_null() & pl.col("b_rack").ne_missing(pl.col("a_rack"))).cast(pl.Int64)
    ).to_series()
    assert sum(page.count("<tr><td>C0") for page in pages.values()) == racks.sum()
    assert set(pages) == {*(f"{name}.html" for name in papers_plan.racks["name"]), "index.html"}
    first = pages["row1-rack1.html"]
    assert "Feed A: row1-rack1-pdu1, row1-rack1-pdu3." in first
    assert "Feed B: row1-rack1-pdu2." in first


def test_values_on_install_sheets_are_escaped(papers_plan: Plan) -> None:
    schedule = cable_schedule(papers_plan).with_columns(part=pl.lit("<img src=x>"), a_module=pl.lit("a&b"))
    page = dict(install_sheets(papers_plan, rack_view(papers_plan), schedule))["row1-rack1.html"]
    assert "<img" not in page
    assert "a&amp;b" in page


def test_bill_of_materials_multiplies_and_never_prices_the_unknown(papers_plan: Plan) -> None:
    bom = bom_sheet(papers_plan)
    servers = bom.filter(pl.col("part") == "dgx-h100").row(0, named=True)
    assert (servers["quantity"], servers["spares"], servers["total_usd"]) == (12, 0, 12 * 300000)
    assert (servers["price_date"], servers["price_source"]) == ("2025-03", "offer")
    assert bom.filter(pl.col("unit_price_usd") == 0).is_empty()
    unknown = bom.filter(pl.col("unit_price_usd").is_null())
    assert unknown["total_usd"].null_count() == unknown.height > 0
    # Spares of 2 percent, rounded up, of what is changed in the field.
    cords = bom.filter(pl.col("section") == "cables")
    assert (cords["spares"] == (cords["quantity"] * 0.02 - 1e-9).ceil()).all()
    summary = dict(bom_summary(papers_plan).iter_rows())
    assert int(summary["Pieces without a price, not in the sum"].replace(",", "")) > 0
    assert summary["Spares"].startswith("2% of switches, modules, cables")
    assert "2025-03" in summary["Prices seen"]


def test_papers_are_the_same_bytes_when_made_again(papers_plan: Plan, tmp_path: Path) -> None:
    first = write_documents(papers_plan, tmp_path / "a")
    again = write_documents(papers_plan, tmp_path / "b")
    assert [f.relative_to(tmp_path / "a") for f in first] == [f.relative_to(tmp_path / "b") for f in again]
    assert all(one.read_bytes() == two.read_bytes() for one, two in zip(first, again, strict=True))


@pytest.mark.parametrize(("table", "name"), [("racks", "../../escape"), ("devices", "a/../../b"), ("racks", "<b>")])
def test_names_that_could_leave_the_folder_are_refused(
    papers_plan: Plan, tmp_path: Path, table: str, name: str
) -> None:
    frame = papers_plan.tables[table]
    first = pl.int_range(pl.len()) == 0
    hostile = papers_plan.with_tables(
        **{table: frame.with_columns(name=pl.when(first).then(pl.lit(name)).otherwise("name"))}
    )
    with pytest.raises(InputError, match="cannot be the name of"):
        write_documents(hostile, tmp_path / "deep" / "papers")
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_trays_carry_every_cable_and_bundle_along_its_whole_way(papers_plan: Plan) -> None:
    racks = papers_plan.racks.select("name", "site", "row", "position")
    ways = (
        cable_schedule(papers_plan)
        .unique("cable")
        .select("a_rack", "b_rack")
        .join(racks.rename({name: f"a_{name}" for name in racks.columns}), left_on="a_rack", right_on="a_name")
        .join(racks.rename({name: f"b_{name}" for name in racks.columns}), left_on="b_rack", right_on="b_name")
        .filter(pl.col("a_site") == pl.col("b_site"))
        .with_columns(
            steps=sum(
                (pl.col(f"a_{axis}").cast(pl.Int64) - pl.col(f"b_{axis}").cast(pl.Int64)).abs()
                for axis in ("row", "position")
            ),
            pair=pl.concat_list("a_rack", "b_rack").list.sort().list.join(" "),
        )
    )
    trays = tray_list(papers_plan)
    assert trays["cables"].sum() == ways["steps"].sum() > 0
    assert trays["bundles"].sum() == ways.unique("pair")["steps"].sum()
    assert (trays["bundles"] <= trays["cables"]).all()
    assert (trays["bundles"] > 0).all()


def test_the_order_list_says_face_gender_and_polarity_with_keys_of_every_fibre_cord(papers_plan: Plan) -> None:
    orders = fibre_ends(papers_plan.catalog, order_list(cable_schedule(papers_plan)))
    fibre = orders.filter(pl.col("medium").is_in(["mmf", "smf"]))
    parallel = fibre.filter(pl.col("connectors").str.starts_with("mpo"))
    assert fibre.height > 0 < parallel.height
    assert fibre.select("connectors", "polish", "polarity").null_count().sum_horizontal().item() == 0
    assert set(parallel["gender"]) == {"female"}
    assert parallel["polarity"].str.contains("key up to key").all()
    others = orders.filter(~pl.col("medium").is_in(["mmf", "smf"]))
    assert others["polarity"].null_count() == others.height > 0


def test_the_summary_of_prices_stays_within_its_column(papers_plan: Plan, tmp_path: Path) -> None:
    write_documents(papers_plan, tmp_path)
    sheet = openpyxl.load_workbook(tmp_path / "bom.xlsx")["Summary"]
    assert all(row[1].alignment.wrap_text for row in sheet.iter_rows(min_row=2))
    assert sheet.column_dimensions["B"].width <= 60
    for number, row in enumerate(sheet.iter_rows(min_row=2), start=2):
        height = sheet.row_dimensions[number].height or sheets.LINE_POINTS
        assert len(row[1].value) <= sheets.WIDEST * height / sheets.LINE_POINTS


def test_an_order_number_stands_only_beside_the_length_that_it_orders(infiniband_plan: Plan) -> None:
    # The published bill of materials orders this part in 30 m under this number.
    assert infiniband_plan.catalog.fibre_cables["mfp7e10"].order_numbers == {"980-9I570-00N030": "30 m"}
    cords = bom_sheet(infiniband_plan).filter(pl.col("part") == "mfp7e10")
    of_30_m = pl.col("item").str.contains(", 30 m")
    assert len(cords.filter(~of_30_m)) > 0
    assert cords.select((pl.col("order_numbers").is_not_null() == of_30_m).all()).item()
