"""Rack elevations and halls as drawings (SVG): what stands where, seen from the front.

Racks with the same boxes in the same places are one type and share a drawing, so that a hall of 3,000 racks has a dozen.
Drawings are templates filled by Jinja2 with autoescape; a name can never become markup.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import polars as pl
from jinja2 import Environment, PackageLoader, StrictUndefined

from railwright.build.parts import DEVICE_KINDS, described
from railwright.design.placement import box_heights
from railwright.design.plan import Plan
from railwright.design.power import rack_loads
from railwright.units import format_w

COLOURS = {
    "server": "#BFDBFE",
    "leaf": "#BBF7D0",
    "spine": "#FDE68A",
    "core": "#FDBA74",
    "border": "#DDD6FE",
    "tor": "#BBF7D0",
    "oob": "#E5E7EB",
    "storage": "#FBCFE8",
    "firewall": "#FECACA",
    "load_balancer": "#FECACA",
}
OTHER_COLOUR = "#F3F4F6"
KIND_COLOURS = {"compute": "#BFDBFE", "network": "#BBF7D0", "service": "#FBCFE8"}

RU_PX = 16
FRONT_PX = 300
HALL_CELL_PX = (54, 44)


@dataclass(frozen=True)
class RackView:
    """The racks of a plan and what stands in them.

    ``racks``: the columns of ``power.rack_loads`` and ``row, position, height_ru, used_ru, type`` (``A``, ``B`` … ``Z``,
    ``AA``). ``boxes``: ``rack_id, ru, height, device_id, name, role, network, model, model_name, power_w``; ``ru`` is null for
    what stands in no rack unit.
    """

    racks: pl.DataFrame
    boxes: pl.DataFrame


def rack_view(plan: Plan) -> RackView:
    """Return the racks of ``plan`` with their types."""
    names = described(plan.catalog, plan.devices["model"].unique(), DEVICE_KINDS).select(
        model="part", model_name="name"
    )
    boxes = (
        plan.devices.with_columns(height=pl.Series(box_heights(plan.catalog, plan.devices)))
        .filter(pl.col("rack").is_not_null())
        .join(names, on="model", how="left", maintain_order="left")
        .select(
            pl.col("rack").alias("rack_id"),
            "ru",
            "height",
            "device_id",
            "name",
            pl.col("role", "network").cast(pl.String),
            "model",
            "model_name",
            "power_w",
        )
        .sort("rack_id", "ru", "device_id", nulls_last=True)
    )
    content = pl.format(
        "{}/{}/{}/{}/{}", pl.col("ru").fill_null(0), "height", "role", pl.col("network").fill_null(""), "model"
    )
    sums = boxes.group_by("rack_id").agg(
        used_ru=pl.col("height").filter(pl.col("ru").is_not_null()).sum(), content=content.str.join(";")
    )
    racks = (
        rack_loads(plan)
        .join(plan.racks.select("rack_id", "row", "position", "height_ru"), on="rack_id", maintain_order="left")
        .join(sums, on="rack_id", how="left", maintain_order="left")
        .with_columns(pl.col("used_ru").fill_null(0))
        .sort("rack_id")
    )
    alike = ["kind", "height_ru", "content"]
    types = racks.select(alike).unique(maintain_order=True)
    types = types.with_columns(type=pl.Series([type_name(number) for number in range(types.height)], dtype=pl.String))
    typed = racks.join(types, on=alike, how="left", nulls_equal=True, maintain_order="left")
    return RackView(typed.drop("content"), boxes)


def type_name(number: int) -> str:
    """Return the letters of rack type ``number`` (from 0): A to Z, then AA."""
    name = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        name = chr(65 + rest) + name
    return name


def type_drawings(view: RackView) -> dict[str, str]:
    """Return the elevation of every rack type by its letters; boxes are named by model, racks of the type are listed."""
    drawings = {}
    for (letters,), alike in view.racks.group_by("type", maintain_order=True):
        rack = alike.row(0, named=True)
        drawings[str(letters)] = rack_drawing(view, rack, f"Rack type {letters}", _places(alike), generic=True)
    return drawings


def rack_drawing(
    view: RackView, rack: Mapping[str, Any], title: str, notes: list[str], *, generic: bool = False
) -> str:
    """Return the elevation of one rack (a row of ``view.racks``); ``generic`` leaves out the names of boxes."""
    boxes = view.boxes.filter(pl.col("rack_id") == rack["rack_id"])
    return draw_rack(boxes, rack, title, notes, generic=generic)


def draw_rack(
    boxes: pl.DataFrame, rack: Mapping[str, Any], title: str, notes: list[str], *, generic: bool = False
) -> str:
    """Return the elevation of ``rack`` with ``boxes`` (rows of :class:`RackView`) as SVG text."""
    height = int(rack["height_ru"])
    shown = [
        _box(box, height, generic=generic) for box in boxes.filter(pl.col("ru").is_not_null()).iter_rows(named=True)
    ]
    beside = boxes.filter(pl.col("ru").is_null())
    kinds = beside.group_by("role", "model_name", maintain_order=True).len()
    listed = [f"{count} x {model} ({role.replace('_', ' ')})" for role, model, count in kinds.iter_rows()]
    over = rack["power_limit_w"] is not None and rack["power_w"] > rack["power_limit_w"]
    facts = [
        f"{rack['kind']} rack, {height} RU, {rack['used_ru']} used",
        draw_text(rack),
    ]
    return _filled(
        "rack.svg.j2",
        title=title,
        facts=facts,
        over=over,
        boxes=shown,
        beside=[f"Beside the units: {', '.join(listed)}"] if listed else [],
        notes=notes,
        units=[(unit, (height - unit) * RU_PX) for unit in range(height, 0, -1)],
        front=FRONT_PX,
        unit_px=RU_PX,
        rack_px=height * RU_PX,
        legend=_legend(boxes),
    )


def hall_drawings(view: RackView) -> dict[str, str]:
    """Return the plan view of every site by its name: rows of racks with their types and draw."""
    return {
        str(site): _hall(str(site), racks)
        for (site,), racks in view.racks.sort("site", "row", "position").group_by("site", maintain_order=True)
    }


def _hall(site: str, racks: pl.DataFrame) -> str:
    width, height = HALL_CELL_PX
    rows = racks["row"].unique().sort().to_list()
    place = {row: number for number, row in enumerate(rows)}
    cells = [
        {
            "x": (rack["position"] - 1) * width,
            "y": place[rack["row"]] * (height + 22),
            "type": rack["type"],
            "position": rack["position"],
            "draw": f"{rack['power_w'] / 1000:.1f}{'+' if rack['unknown'] else ''} kW",
            "colour": KIND_COLOURS[rack["kind"]],
            "over": rack["power_limit_w"] is not None and rack["power_w"] > rack["power_limit_w"],
            "name": f"{rack['name']}: {rack['kind']}, type {rack['type']}, {draw_text(rack)}",
        }
        for rack in racks.iter_rows(named=True)
    ]
    kinds = racks.group_by("kind", maintain_order=True).len().iter_rows()
    types = racks.group_by("type", "kind", maintain_order=True).len().iter_rows()
    total = float(racks["power_w"].sum())
    return _filled(
        "hall.svg.j2",
        title=f"{site}: {_counted(racks.height, 'rack')} in {_counted(len(rows), 'row')}",
        draw=f"{format_w(total)}{_unknown(int(racks['unknown'].sum()))}; a rack marked with + has boxes of unknown draw",
        cells=cells,
        rows=[(row, place[row] * (height + 22)) for row in rows],
        cell=HALL_CELL_PX,
        legend=[(f"{count} {kind}", KIND_COLOURS[kind]) for kind, count in kinds],
        types=_wrapped([f"{letters} x {count}" for letters, _, count in types], 90),
        width=max(520, int(racks.select(pl.col("position").max()).item() or 1) * width),
        height=len(rows) * (height + 22),
    )


def _box(box: Mapping[str, Any], height: int, *, generic: bool) -> dict[str, Any]:
    what = " ".join(dict.fromkeys(part for part in (box["network"], box["role"].replace("_", " ")) if part))
    beside = what if generic else box["model_name"]
    name = box["model_name"] if generic else box["name"]
    two_lines = box["height"] > 1
    return {
        "y": (height - box["ru"] - box["height"] + 1) * RU_PX,
        "height": box["height"] * RU_PX,
        "label": _short(name, 46 if two_lines else 50 - min(len(beside), 22)),
        "what": _short(beside, 46 if two_lines else 22),
        "colour": COLOURS.get(box["role"], OTHER_COLOUR),
        "hover": f"{box['name']}: {box['model_name']} ({what}), RU {box['ru']}"
        + (f" to {box['ru'] + box['height'] - 1}" if box["height"] > 1 else ""),
        "two_lines": two_lines,
    }


def draw_text(rack: Mapping[str, Any]) -> str:
    """Say what ``rack`` (a row of ``RackView.racks``) draws, of what it may, and what is not known of it."""
    limit = f" of {format_w(rack['power_limit_w'])}" if rack["power_limit_w"] is not None else ""
    return f"{format_w(rack['power_w'])}{limit}{_unknown(rack['unknown'])}"


def _unknown(boxes: int) -> str:
    """Say what is missing from a sum of draws, in words; nothing where nothing is."""
    return f" and {boxes} {'box' if boxes == 1 else 'boxes'} of unknown draw" if boxes else ""


def _legend(boxes: pl.DataFrame) -> list[tuple[str, str, int, int]]:
    """Return name, colour and place (column, line) of every role in the drawing, four to a line; what has no colour is one."""
    roles = boxes.filter(pl.col("ru").is_not_null())["role"].unique(maintain_order=True)
    named = {role.replace("_", " ") if role in COLOURS else "other": COLOURS.get(role, OTHER_COLOUR) for role in roles}
    return [(name, colour, n % 4, n // 4) for n, (name, colour) in enumerate(named.items())]


def _places(alike: pl.DataFrame) -> list[str]:
    """Return the racks of one type as lines: by site and row, positions in runs."""
    lines = []
    several = alike["site"].n_unique() > 1
    for (site, row), racks in alike.sort("site", "row", "position").group_by(["site", "row"], maintain_order=True):
        where = f"{site}, row {row}" if several else f"row {row}"
        lines.append(f"{where}: rack {_runs(racks['position'].to_list())}")
    shown = lines[:12]
    more = [f"… and {len(lines) - 12} more rows (racks.csv has all)"] if len(lines) > 12 else []
    return (
        [f"{_counted(alike.height, 'rack')} of this type"]
        + [line for text in shown for line in _wrapped(text.split(" "), 60, " ")]
        + more
    )


def _runs(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _wrapped(words: list[str], width: int, gap: str = ", ") -> list[str]:
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(gap) + len(word) > width:
            lines.append("")
        lines[-1] += (gap if lines[-1] else "") + word
    return lines


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _filled(name: str, **values: Any) -> str:
    """Return template ``name`` with ``values``, escaped."""
    return str(environment().get_template(name).render(**values))


@cache
def environment() -> Environment:
    """Return the templates of this room; everything that is filled in is escaped."""
    return Environment(
        loader=PackageLoader("railwright.build"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
