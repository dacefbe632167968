"""Install sheets: a page per rack that says what goes where, which cables end in it and how it is fed.

Pages are HTML for print or tablet, one file per rack, without anything from outside. Rows of cables are turned into markup as
columns, each value escaped; a cable inside a rack stands there once, one between racks on the sheets of both.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from railwright.build.elevations import RackView, draw_rack, draw_text, environment
from railwright.build.parts import DEVICE_KINDS, find_entry
from railwright.design.plan import Plan
from railwright.units import format_w

_ESCAPES = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;"))
_CABLE_COLUMNS = ("cable", "leg", "from", "cage", "module", "to rack", "RU", "to", "module there", "part", "length")


def install_sheets(plan: Plan, view: RackView, schedule: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield file name and HTML of every rack's sheet and, last, of ``index.html``.

    ``schedule`` is that of ``cable_schedule``; names of racks become names of files and are checked before.
    """
    rows = _cable_rows(schedule)
    boxes = {rack: own for (rack,), own in view.boxes.group_by("rack_id", maintain_order=True)}
    bring = _parts_to_bring(schedule)
    template = environment().get_template("install.html.j2")
    listed = []
    for rack in view.racks.iter_rows(named=True):
        own = boxes.get(rack["rack_id"], view.boxes.clear())
        count, markup = rows.get(rack["name"], (0, ""))
        yield (
            f"{rack['name']}.html",
            template.render(
                plan=plan.spec.name,
                rack=rack,
                draw=draw_text(rack),
                drawing=draw_rack(own, rack, rack["name"], []),
                boxes=[
                    _box(plan, box) for box in own.sort("ru", descending=True, nulls_last=True).iter_rows(named=True)
                ],
                feeds=_feeds(rack, own),
                bring=bring.get(rack["name"], []),
                cable_columns=_CABLE_COLUMNS,
                cable_count=count,
                cables=markup,
            ),
        )
        listed.append(
            (rack["name"], rack["site"], rack["kind"], rack["type"], own.height, count, format_w(rack["power_w"]))
        )
    yield "index.html", environment().get_template("install_index.html.j2").render(plan=plan.spec.name, racks=listed)


def write_install_sheets(plan: Plan, view: RackView, schedule: pl.DataFrame, directory: Path) -> list[Path]:
    """Write the sheets into ``directory`` and return the files."""
    directory.mkdir(parents=True, exist_ok=True)
    files = []
    for name, text in install_sheets(plan, view, schedule):
        files.append(directory / name)
        files[-1].write_text(text, encoding="utf-8")
    return files


def _cable_rows(schedule: pl.DataFrame) -> dict[str, tuple[int, str]]:
    """Return by rack the number of cable rows and their markup."""
    sides = []
    for near, far in (("a", "b"), ("b", "a")):
        keep = pl.col(f"{near}_rack").is_not_null()
        if near == "b":
            keep &= pl.col("a_rack").ne_missing(pl.col("b_rack"))
        sides.append(
            schedule.filter(keep).select(
                pl.col(f"{near}_rack").alias("rack"),
                pl.col(f"{near}_ru").alias("ru"),
                pl.col(f"{near}_device").alias("device"),
                pl.col(f"{near}_cage").alias("place"),
                "cable",
                pl.when(pl.col("legs") > 1).then(pl.format("{}/{}", "leg", "legs")).otherwise(pl.lit("")).alias("leg"),
                pl.format("{}:{}", f"{near}_device", f"{near}_port").alias("from"),
                pl.when(pl.col(f"{near}_cage") > 0)
                .then(pl.format("{} lanes {}", f"{near}_cage", pl.col(f"{near}_host_lanes").fill_null("?")))
                .otherwise(pl.lit(""))
                .alias("cage"),
                pl.col(f"{near}_module").fill_null("").alias("module"),
                pl.when(pl.col(f"{far}_rack").eq_missing(pl.col(f"{near}_rack")))
                .then(pl.lit("here"))
                .otherwise(pl.col(f"{far}_rack").fill_null("outside"))
                .alias("to rack"),
                pl.col(f"{far}_ru").cast(pl.String).fill_null("").alias("RU"),
                pl.format("{}:{}", f"{far}_device", f"{far}_port").alias("to"),
                pl.col(f"{far}_module").fill_null("").alias("module there"),
                pl.col("part").fill_null("no part fits").alias("part"),
                pl.format("{} m", pl.col("length_m").round(2)).fill_null("").alias("length"),
            )
        )
    rows = pl.concat(sides).sort("rack", "ru", "device", "place", "cable", "leg", nulls_last=True)
    grouped = rows.group_by("rack", maintain_order=True).agg(pl.len(), markup=_markup(_CABLE_COLUMNS).str.join("\n"))
    return {rack: (count, markup) for rack, count, markup in grouped.iter_rows()}


def _markup(columns: tuple[str, ...]) -> pl.Expr:
    """Return table rows (HTML) of text columns, every value escaped."""
    cells: list[pl.Expr] = []
    for column in columns:
        value = pl.col(column)
        for plain, escaped in _ESCAPES:
            value = value.str.replace_all(plain, escaped, literal=True)
        cells += [pl.lit("<td>"), value]
    return pl.concat_str(pl.lit("<tr>"), *cells)


def _parts_to_bring(schedule: pl.DataFrame) -> dict[str, list[str]]:
    """Return by rack the modules to plug in there and the cables that start there, counted."""
    ends = pl.concat(
        [
            schedule.select(
                rack=f"{side}_rack",
                device=f"{side}_device",
                cage=f"{side}_cage",
                port=f"{side}_port",
                part=f"{side}_module",
            )
            for side in ("a", "b")
        ]
    ).filter(pl.col("part").is_not_null() & pl.col("rack").is_not_null())
    modules = ends.unique(["device", "cage", "part"]).group_by("rack", "part").len().sort("rack", "part")
    cables = (
        schedule.filter(pl.col("a_rack").is_not_null())
        .unique("cable")
        .group_by("a_rack", "part", "length_m")
        .len()
        .sort("a_rack", "part", "length_m", nulls_last=True)
    )
    found: dict[str, list[str]] = {}
    for rack, part, count in modules.iter_rows():
        found.setdefault(rack, []).append(f"{count} x module {part}")
    for rack, part, length, count in cables.iter_rows():
        found.setdefault(rack, []).append(f"{count} x {part or 'cable without a part'}, {length:g} m")
    return found


def _box(plan: Plan, box: dict[str, Any]) -> dict[str, Any]:
    entry = find_entry(plan.catalog, box["model"], DEVICE_KINDS) if box["model"] else None
    supplies = getattr(entry, "psus", None)
    units = None
    if box["ru"] is not None:
        last = box["ru"] + box["height"] - 1
        units = f"{box['ru']}" if last == box["ru"] else f"{box['ru']}-{last}"
    weight = getattr(entry, "weight_kg", None)
    return {
        "units": units or "beside",
        "name": box["name"],
        "role": " ".join(dict.fromkeys(p for p in (box["network"], box["role"].replace("_", " ")) if p)),
        "model": box["model_name"] or box["model"],
        "draw": "not known" if box["power_w"] is None else format_w(box["power_w"]),
        "supplies": "not known" if supplies is None else str(supplies),
        "weight": "not known" if weight is None else f"{weight:g} kg",
        "pdu": box["role"] == "pdu",
    }


def _feeds(rack: dict[str, Any], boxes: pl.DataFrame) -> list[str]:
    """Return how the rack is fed, in sentences."""
    feeds = int(rack["feeds"])
    pdus = boxes.filter(pl.col("role") == "pdu")["name"].to_list()
    letters = [chr(65 + n) for n in range(feeds)]
    lines = [f"{feeds} independent {'feed' if feeds == 1 else 'feeds'}: {', '.join(letters)}."]
    for n, letter in enumerate(letters):
        own = pdus[n::feeds]
        lines.append(f"Feed {letter}: {', '.join(own) if own else 'no PDU planned'}.")
    if pdus:
        lines.append("Power supply n of a box goes to PDU n of the rack, counted round: supplies 1, 2 … to PDUs 1, 2 …")
    if rack["pdu_w"] is not None:
        lines.append(f"One PDU carries {format_w(rack['pdu_w'])}.")
    if rack["left_w"] is not None and feeds > 1:
        enough = rack["left_w"] >= rack["power_w"]
        lines.append(
            f"With one feed lost {format_w(rack['left_w'])} are left for {format_w(rack['power_w'])}: "
            + ("enough." if enough else "NOT ENOUGH.")
        )
    return lines
