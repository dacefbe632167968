"""The bill of materials: everything that a plan needs, with spares and the prices that are known.

Spares (``economics.spares``) are bought of what fails in the field and is changed on the spot: modules, cables, cords and
switches, rounded up per kind. An AOC, AEC or DAC is its own spare part as a whole. Of servers, racks and PDUs there are
none. An unknown price stays null and is counted (``unpriced``); where the only price known is one for a whole link with both
its modules (``links.400`` of the catalog), the cable carries it and the modules say so.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from railwright import tables
from railwright.catalog.boxes import Box
from railwright.catalog.cables import Cable
from railwright.catalog.fibres import FibreCable
from railwright.catalog.model import Server, Switch
from railwright.design.plan import Plan
from railwright.design.prices import KnownPrice, known_price

SPARED = ("switches", "modules", "cables")
"""Sections of which spares are bought."""
IN_LINK_PRICE = "included in the price of the cables"
"""Price source of modules whose price is that of their link; such rows have no price of their own and lack none."""
TRUNK_CHANNELS = 12
"""Channels of eight fibres in one trunk between two racks (twelve MPO-12, as generic-os2-trunk)."""
PANEL_PORTS = 72
"""MPO ports of a patch panel of one rack unit (assumption, a common size)."""
CORD_TO_PANEL_M = 5.0
"""Cord from a port to the panel of its rack: up or down a whole rack and to the side."""

Row = dict[str, Any]


def bill_of_materials(plan: Plan) -> pl.DataFrame:
    """Return the table ``bom`` of a cabled plan: one row per kind of thing, network and (of cables) length."""
    rows = [*_boxes(plan), *_racks(plan), *_cables(plan), *_modules(plan)]
    return tables.conform("bom", pl.DataFrame(rows, schema={**tables.TABLES["bom"], "network": pl.String}))


def unpriced(bom: pl.DataFrame) -> pl.DataFrame:
    """Return the rows whose price nobody knows."""
    return bom.filter(pl.col("unit_price_usd").is_null() & (pl.col("price_source").fill_null("") != IN_LINK_PRICE))


def capital_cost(bom: pl.DataFrame) -> tuple[float, int]:
    """Return the sum of known prices with spares in US dollars, and the number of pieces without a price."""
    pieces = pl.col("quantity").cast(pl.Int64) + pl.col("spares").cast(pl.Int64)
    known = bom.select((pieces * pl.col("unit_price_usd")).sum()).item()
    missing = unpriced(bom).select(pieces.sum()).item()
    return float(known or 0.0), int(missing or 0)


def _row(plan: Plan, section: str, item: str, part: str | None, network: str | None, quantity: int, **more: Any) -> Row:
    spares = math.ceil(quantity * plan.spec.economics.spares - 1e-9) if section in SPARED else 0
    price: KnownPrice | None = more.pop("price", None)
    return {
        "section": section,
        "item": item,
        "part": part,
        "network": network,
        "quantity": quantity,
        "spares": spares,
        "unit_price_usd": None if price is None else price.usd,
        "price_date": None if price is None else price.date,
        "price_source": None if price is None else price.source,
        "unit_power_w": None,
        "unverified": price is not None and price.doubtful,
        **more,
    }


def _boxes(plan: Plan) -> Iterator[Row]:
    catalog = plan.catalog
    kinds: tuple[tuple[str, Mapping[str, Server | Switch | Box]], ...] = (
        ("servers", catalog.servers),
        ("switches", catalog.switches),
        ("boxes", catalog.boxes),
    )
    counted = (
        plan.devices.filter(pl.col("role") != "external")
        .group_by(pl.col("network").cast(pl.String), pl.col("role").cast(pl.String), "model")
        .agg(count=pl.len(), power_w=pl.col("power_w").max())
        .sort("network", "role", "model")
    )
    for network, role, model, count, power in counted.iter_rows():
        kind, entries = next(((name, found) for name, found in kinds if model in found), ("boxes", catalog.boxes))
        entry = entries.get(model)
        section = "pdus" if role == "pdu" else kind
        order = f", order {entry.part_number}" if isinstance(entry, Switch) and entry.part_number else ""
        yield _row(
            plan,
            section,
            f"{entry.name if entry else model} ({role}){order}",
            model,
            network,
            count,
            price=known_price(catalog, plan.spec, kind, model),
            unit_power_w=power,
            unverified=bool(entry is not None and entry.unverified),
        )


def _racks(plan: Plan) -> Iterator[Row]:
    counted = plan.racks.group_by("height_ru", pl.col("kind").cast(pl.String)).len().sort("height_ru", "kind")
    for height, kind, count in counted.iter_rows():
        yield _row(plan, "racks", f"Rack of {height} RU ({kind})", None, None, count)


def _links(plan: Plan) -> pl.DataFrame:
    """Return one row per cable: ``network, part, medium, length_m, route, gbps, links`` and its module parts."""
    modules = plan.table("modules").select("module_id", module="part")
    of_cable = (
        plan.table("cable_ends")
        .join(modules, on="module_id", how="left", maintain_order="left")
        .group_by("cable_id")
        .agg(modules=pl.col("module").drop_nulls().unique().sort().str.join(" "))
    )
    sums = plan.links.group_by("cable_id").agg(
        network=pl.col("network").first().cast(pl.String), gbps=pl.col("speed_gbps").max(), links=pl.len()
    )
    return (
        plan.table("cables")
        .filter(pl.col("part").is_not_null())
        .join(sums, on="cable_id", maintain_order="left")
        .join(of_cable, on="cable_id", how="left", maintain_order="left")
    )


def _link_price(plan: Plan, part: str, modules: str, gbps: float, links: int) -> KnownPrice | None:
    """Return the price of a whole link of fibre where the catalog has one and none of its pieces has its own."""
    if part in plan.catalog.cables or known_price(plan.catalog, plan.spec, "fibre_cables", part) is not None:
        return None
    if any(known_price(plan.catalog, plan.spec, "optics", key) is not None for key in modules.split()):
        return None
    price = known_price(plan.catalog, plan.spec, "links", f"{gbps:g}")
    if price is None:
        return None
    return KnownPrice(price.usd * links, price.date, f"{price.source}; with both modules", price.doubtful)


def _cables(plan: Plan) -> Iterator[Row]:
    links = _links(plan)
    fixed = pl.col("part").is_in(list(plan.catalog.cables))
    panelled = plan.spec.cabling.patch_panels > 0
    through_panels = ~fixed & ~pl.col("route").str.starts_with("in ") if panelled else pl.lit(value=False)
    counted = (
        links.with_columns(panels=through_panels)
        .with_columns(
            length_m=pl.when("panels").then(CORD_TO_PANEL_M).otherwise("length_m"),
            pieces=pl.when("panels").then(2).otherwise(1),
        )
        .group_by("network", "part", "length_m", "gbps", "links", "modules", "panels")
        .agg(pieces=pl.col("pieces").sum(), power_w=pl.col("power_w").max())
        .sort("network", "part", "length_m", "gbps", "links", "modules")
    )
    pieces: dict[tuple[str, str, float, float | None, KnownPrice | None], int] = {}
    for row in counted.iter_rows(named=True):
        kind = "cables" if row["part"] in plan.catalog.cables else "fibre_cables"
        price = known_price(plan.catalog, plan.spec, kind, row["part"])
        if price is None and not row["panels"]:
            price = _link_price(plan, row["part"], row["modules"] or "", row["gbps"], row["links"])
        same = (row["network"], row["part"], row["length_m"], row["power_w"], price)
        pieces[same] = pieces.get(same, 0) + row["pieces"]
    for (network, key, length, power, price), count in pieces.items():
        entry, orders = _ordered(plan, key)
        order = next((f", order {number}" for number, what in orders.items() if what == f"{length:g} m"), "")
        if length > max(entry.lengths_m, default=length):
            order = " (not sold so long)"
        yield _row(
            plan,
            "cables",
            f"{entry.name}, {length:g} m{order}",
            key,
            network,
            count,
            price=price,
            unit_power_w=power,
            unverified=bool(entry.unverified),
        )
    if panelled:
        yield from _trunks(plan, links.filter(through_panels))


def _ordered(plan: Plan, key: str) -> tuple[Cable | FibreCable, Mapping[str, str]]:
    """Return the entry of a cable or cord and its order numbers."""
    if key in plan.catalog.cables:
        return plan.catalog.cables[key], plan.catalog.cables[key].order_numbers
    return plan.catalog.fibre_cables[key], plan.catalog.fibre_cables[key].order_numbers


def _trunks(plan: Plan, channels: pl.DataFrame) -> Iterator[Row]:
    """Yield trunks between racks (twelve channels each) and the panels at their ends."""
    runs = channels.group_by("network", "medium", "route").agg(channels=pl.len(), length_m=pl.col("length_m").max())
    runs = runs.with_columns(trunks=(pl.col("channels") / TRUNK_CHANNELS).ceil().cast(pl.Int64))
    if plan.spec.cabling.patch_panels == 2:
        summed = runs.group_by("network", pl.col("medium").cast(pl.String), "length_m").agg(pl.col("trunks").sum())
        for network, medium, length, trunks in summed.sort("network", "medium", "length_m").iter_rows():
            key = "generic-os2-trunk" if medium == "smf" else "generic-om4-trunk"
            entry = plan.catalog.fibre_cables[key]
            price = known_price(plan.catalog, plan.spec, "fibre_cables", key)
            yield _row(
                plan, "cables", f"{entry.name}, {length:g} m", key, network, trunks, price=price, unverified=True
            )
    racks = runs.with_columns(rack=pl.col("route").str.split(" > ")).explode("rack")
    per_rack = racks.group_by("rack").agg(pl.col("channels").sum())
    panels = int((per_rack["channels"] / PANEL_PORTS).ceil().sum())
    yield _row(plan, "panels", f"Patch panel, {PANEL_PORTS} MPO ports, 1 RU", None, None, panels, unverified=True)


def _modules(plan: Plan) -> Iterator[Row]:
    ends = plan.table("cable_ends").filter(pl.col("module_id").is_not_null())
    cables = _links(plan).select("cable_id", "network", "gbps", "links", "modules", cord="part")
    of_module = (
        ends.join(cables, on="cable_id")
        .group_by("module_id")
        .agg(pl.col("network", "gbps", "links", "modules", "cord").sort_by("network", "modules").first())
    )
    counted = (
        plan.table("modules")
        .join(of_module, on="module_id", how="left")
        .group_by("network", "part", "gbps", "links", "modules", "cord")
        .agg(count=pl.len(), power_w=pl.col("power_w").max())
        .sort("network", "part", "gbps", "links", "modules", "cord")
    )
    pieces: dict[tuple[str, str, float | None, bool], int] = {}
    for row in counted.iter_rows(named=True):
        own = known_price(plan.catalog, plan.spec, "optics", row["part"])
        link = own or _link_price(plan, row["cord"], row["modules"], row["gbps"], row["links"])
        same = (row["network"], row["part"], row["power_w"], own is None and link is not None)
        pieces[same] = pieces.get(same, 0) + row["count"]
    for (network, key, power, in_link), count in pieces.items():
        optic = plan.catalog.optics[key]
        order = next((f", order {number}" for number in optic.order_numbers), "")
        more = {"price_source": IN_LINK_PRICE} if in_link else {}
        yield _row(
            plan,
            "modules",
            f"{optic.name}{order}",
            key,
            network,
            count,
            price=known_price(plan.catalog, plan.spec, "optics", key),
            unit_power_w=power,
            unverified=bool(optic.unverified),
            **more,
        )
