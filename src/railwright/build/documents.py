"""The papers of a plan: cable schedule, bill of materials, rack elevations, install sheets and a guide to them.

Everything is made from the plan's tables, so that a changed plan gives changed papers and nothing has to be kept in step.
"""

import html
from collections.abc import Callable
from pathlib import Path

import polars as pl

import railwright
from railwright.build import names
from railwright.build.bom_sheet import bom_sheet, bom_summary
from railwright.build.cable_schedule import cable_schedule, fibre_ends, order_list, pull_list
from railwright.build.elevations import RackView, hall_drawings, rack_view, type_drawings
from railwright.build.install_sheets import write_install_sheets
from railwright.build.sheets import Sheet, write_csv, write_workbook
from railwright.build.trays import tray_list
from railwright.design.plan import Plan

Progress = Callable[[str], None]

_CABLE_FORMATS = {
    "speed_gbps": "exact",
    "length_m": "decimal",
    "loss_db": "decimal",
    "margin_db": "decimal",
    "power_w": "decimal",
    "price_usd": "usd",
    "metres": "decimal",
    "cables": "integer",
    "bundles": "integer",
}
_BOM_FORMATS = {
    "item": "wrapped",
    "price_source": "wrapped",
    "settle_first": "wrapped",
    "unit_price_usd": "usd",
    "total_usd": "usd",
    "unit_power_w": "decimal",
}
_RACK_FORMATS = {
    "power_w": "integer",
    "power_limit_w": "integer",
    "pdu_w": "integer",
    "left_w": "integer",
    "weight_kg": "integer",
}


def write_documents(plan: Plan, directory: Path, progress: Progress | None = None) -> list[Path]:
    """Write the papers of ``plan`` into ``directory`` and return the files, in the order in which they were written.

    ``cable-schedule.csv`` and ``.xlsx``, ``trays.csv``, ``bom.csv`` and ``.xlsx``, ``racks.csv``, ``elevations/`` (SVG per rack
    type and per hall), ``install/`` (HTML per rack), ``README.md``. Raises InputError when the plan has no cables, or for names
    that cannot be names of files.
    """
    say = progress or _silent
    names.check_all(plan.devices["name"], names.DEVICE, "the name of a device")
    names.check_all(plan.racks["name"], names.DEVICE, "the name of a rack")
    names.check_all(plan.racks["site"].unique().sort(), names.DEVICE, "the name of a site")
    directory.mkdir(parents=True, exist_ok=True)
    say("cable schedule")
    schedule = cable_schedule(plan)
    files = _schedule_files(plan, schedule, directory)
    say("bill of materials")
    files += _bom_files(plan, directory)
    say("racks")
    view = rack_view(plan)
    files.append(write_csv(_rack_list(view), directory / "racks.csv"))
    files += _drawings(view, directory / "elevations")
    say("install sheets")
    files += write_install_sheets(plan, view, schedule, directory / "install")
    files.append(_guide(plan, view, schedule, directory / "README.md"))
    return files


def _schedule_files(plan: Plan, schedule: pl.DataFrame, directory: Path) -> list[Path]:
    trays = tray_list(plan)
    filled = [name for name in schedule.columns if schedule[name].null_count() < schedule.height]
    sheets = {
        "About": Sheet(_about(plan, schedule)),
        "Legs": Sheet(schedule.select(filled), _CABLE_FORMATS),
        "Order list": Sheet(fibre_ends(plan.catalog, order_list(schedule)), _CABLE_FORMATS),
        "Pull list": Sheet(pull_list(schedule), _CABLE_FORMATS),
        "Trays": Sheet(trays, _CABLE_FORMATS),
    }
    return [
        write_csv(schedule, directory / "cable-schedule.csv"),
        write_csv(trays, directory / "trays.csv"),
        write_workbook(sheets, directory / "cable-schedule.xlsx"),
    ]


def _bom_files(plan: Plan, directory: Path) -> list[Path]:
    bom = bom_sheet(plan)
    sheets = {"Summary": Sheet(bom_summary(plan), {"value": "wrapped"}), "Bill of materials": Sheet(bom, _BOM_FORMATS)}
    return [write_csv(bom, directory / "bom.csv"), write_workbook(sheets, directory / "bom.xlsx")]


def _rack_list(view: RackView) -> pl.DataFrame:
    return view.racks.select(
        *("name", "site", "row", "position", "kind", "type", "height_ru", "used_ru", "power_w", "unknown"),
        *("power_limit_w", "pdus", "feeds", "pdu_w", "left_w", "weight_kg", "weight_limit_kg"),
    ).rename({"unknown": "boxes_of_unknown_draw"})


def _drawings(view: RackView, directory: Path) -> list[Path]:
    directory.mkdir(parents=True, exist_ok=True)
    texts = {f"rack-type-{letters}.svg": text for letters, text in type_drawings(view).items()}
    texts |= {f"hall-{site}.svg": text for site, text in hall_drawings(view).items()}
    for name, text in texts.items():
        (directory / name).write_text(text, encoding="utf-8")
    return [directory / name for name in texts]


def _about(plan: Plan, schedule: pl.DataFrame) -> pl.DataFrame:
    doubtful = schedule.filter(pl.col("unverified") != "")["cable"].n_unique()
    cables = schedule["cable"].n_unique()
    rows = [
        ("plan", plan.spec.name),
        ("made by", f"railwright {railwright.__version__}, plan of version {plan.version}, seed {plan.spec.seed}"),
        ("cables", f"{cables:,}"),
        ("legs", f"{schedule.height:,}"),
        ("cables without a part", f"{schedule.filter(pl.col('part').is_null())['cable'].n_unique():,}"),
        ("cables with unverified facts", f"{doubtful:,}"),
        ("leg, legs", "a breakout or twin-port cable has one row per port: leg 1 of 2, leg 2 of 2"),
        ("shape", "straight; twin: one cage to one cage; 1:N: one cage to N cages"),
        ("lanes", "numbered from 1 in the module or plug; host side and media side"),
        ("loss_db, margin_db", "of the worst lane with the worst parts allowed; empty for copper"),
        ("why this part", "railwright explain cable:42 --plan PLAN (for C000042)"),
    ]
    return pl.DataFrame(rows, schema={"what": pl.String, "value": pl.String}, orient="row")


def _guide(plan: Plan, view: RackView, schedule: pl.DataFrame, file: Path) -> Path:
    cables, types = schedule["cable"].n_unique(), view.racks["type"].n_unique()
    rows = {
        "`cable-schedule.csv`, `.xlsx`": f"{cables:,} cables, {schedule.height:,} legs: both ends to lane and module, part, "
        "length, route, loss and margin; the workbook adds what to order and what to pull",
        "`trays.csv`": "cables and bundles on every piece of ladder",
        "`bom.csv`, `bom.xlsx`": "what to buy, with spares, prices with date and source, marks of doubt",
        "`racks.csv`": f"{view.racks.height:,} racks: type, units, draw, feeds, weight",
        "`elevations/`": f"one drawing per rack type ({types}), one per hall",
        "`install/index.html`": "a sheet per rack: boxes, feeds, parts to bring, cables",
    }
    lines = [
        f"# {plan.spec.name}: papers",
        "",
        f"Made by railwright {railwright.__version__} from the plan (version {plan.version}, seed {plan.spec.seed}).",
        "",
        "| file | what |",
        "|---|---|",
        *(f"| {name} | {what} |" for name, what in rows.items()),
        "",
        "## Bill of materials",
        "",
        *(f"- {what}: {html.escape(' '.join(value.split()))}" for what, value in bom_summary(plan).iter_rows()),
        "",
    ]
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def _silent(_step: str) -> None:
    pass
