"""Device types for NetBox, from the catalog: the face plate and the power supplies, never the names of ports.

Names of interfaces depend on the operating system and on breakouts, so they come with each device (``08-interfaces.csv``) and
not with its type. What nobody knows (number of power supplies, weight) is left out.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

import polars as pl

from railwright.build.parts import DEVICE_KINDS, find_entry
from railwright.catalog.boxes import Box
from railwright.catalog.model import Entry, Server, Switch
from railwright.design.plan import Plan
from railwright.documents import write_yaml

LONGEST_NAME = 100
PDU_INLET = "Inlet"


def slug(text: str) -> str:
    """Return ``text`` as NetBox wants a slug: lower case, digits, hyphens; ``x`` where nothing else is left."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:LONGEST_NAME] or "x"


def type_names(plan: Plan) -> pl.DataFrame:
    """Return one row per model of ``plan``: ``model`` (catalog key), ``manufacturer, device_type`` (what NetBox calls it),
    ``psus`` (null: not known) and ``u_height``.
    """
    rows = []
    taken: set[tuple[str, str]] = set()
    spellings: dict[str, str] = {}
    for key in plan.devices["model"].unique().drop_nulls().sort():
        entry = find_entry(plan.catalog, key, DEVICE_KINDS)
        vendor = (entry.vendor if entry is not None else "unknown")[:LONGEST_NAME]
        vendor = spellings.setdefault(slug(vendor), vendor)
        name = (entry.name if entry is not None else key)[:LONGEST_NAME]
        if (slug(vendor), slug(name)) in taken:
            name = f"{name[: LONGEST_NAME - len(key) - 3]} ({key})"
        taken.add((slug(vendor), slug(name)))
        rows.append(
            {
                "model": key,
                "manufacturer": vendor,
                "device_type": name,
                "psus": getattr(entry, "psus", None),
                "u_height": getattr(entry, "ru", None) or 0,
            }
        )
    schema = {
        "model": pl.String,
        "manufacturer": pl.String,
        "device_type": pl.String,
        "psus": pl.Int64,
        "u_height": pl.Int64,
    }
    return pl.DataFrame(rows, schema=schema)


def device_types(plan: Plan, types: pl.DataFrame) -> str:
    """Return all device types as YAML documents for NetBox's import of device types; ``types`` is :func:`type_names`."""
    texts = []
    for row in types.iter_rows(named=True):
        entry = find_entry(plan.catalog, row["model"], DEVICE_KINDS)
        texts.append("---\n" + write_yaml(_device_type(row, entry)))
    return "".join(texts)


def _device_type(row: Mapping[str, Any], entry: Entry | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "manufacturer": row["manufacturer"],
        "model": row["device_type"],
        "slug": slug(f"{row['manufacturer']}-{row['model']}"),
        "u_height": row["u_height"],
        "is_full_depth": row["u_height"] > 0,
    }
    if isinstance(entry, Switch) and entry.part_number:
        data["part_number"] = entry.part_number[:50]
    airflow = getattr(entry, "airflow", None)
    if airflow in ("front-to-rear", "rear-to-front"):
        data["airflow"] = airflow
    weight = getattr(entry, "weight_kg", None)
    if weight is not None:
        data |= {"weight": round(weight, 2), "weight_unit": "kg"}
    data["comments"] = _comments(row["model"], entry)
    supplies = _supplies(entry)
    if supplies:
        data["power-ports"] = supplies
    if isinstance(entry, Switch):
        cages = [group for group in entry.cages for _ in range(group.count)]
        data["module-bays"] = [
            {"name": f"Cage {number}", "position": str(number), "label": group.form_factor}
            for number, group in enumerate(cages, start=1)
        ]
    return data


def _supplies(entry: Entry | None) -> list[dict[str, Any]]:
    """Return power ports. All supplies share the load (``allocated_draw``); ``maximum_draw`` is with only the needed ones."""
    if isinstance(entry, Box) and entry.role == "pdu":
        return [{"name": PDU_INLET}]
    count = getattr(entry, "psus", None)
    draw = getattr(entry, "power_max_w", None)
    if count is None:
        return []
    ports = [{"name": f"PSU{number}"} for number in range(1, count + 1)]
    if draw is None:
        return ports
    needed = entry.psus_needed if isinstance(entry, Server) and entry.psus_needed else max(1, count // 2)
    draws = {"maximum_draw": math.ceil(draw / needed), "allocated_draw": math.ceil(draw / count)}
    return [{**port, **draws} for port in ports]


def _comments(key: str, entry: Entry | None) -> str:
    if entry is None:
        return f"catalog key {key}, which the catalog lacks"
    doubts = f"; unverified: {', '.join(entry.unverified)}" if entry.unverified else ""
    return f"catalog key {key}; source: {entry.sources['*']}{doubts}"
