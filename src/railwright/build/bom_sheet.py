"""The bill of materials as a sheet to order from, and what has to be said about it: spares, prices, doubts.

A price that nobody knows stays empty; the summary counts the pieces without one. Nothing is ever priced at 0.
"""

from typing import Any

import polars as pl

from railwright.build.parts import CABLE_KINDS, DEVICE_KINDS, MODULE_KINDS, described
from railwright.design.bom import IN_LINK_PRICE, SPARED, bill_of_materials, capital_cost
from railwright.design.plan import Plan
from railwright.units import format_usd, write_fraction

_BUYER_CHECKS = {
    "device-model": "model of the switch or adapter",
    "form-factor": "form factor",
    "coding": "coding",
    "protocol": "protocol",
    "fibre": "fibre",
    "connector": "connector",
    "distance": "distance",
}


def bom_of(plan: Plan) -> pl.DataFrame:
    """Return table ``bom`` of ``plan``, made now when the plan has none."""
    known = plan.table("bom")
    return known if len(known) else bill_of_materials(plan)


def bom_sheet(plan: Plan) -> pl.DataFrame:
    """Return one row per kind of thing to buy.

    Columns: ``section, item, part, vendor, order_numbers, network, quantity, spares, to_order, unit_price_usd, total_usd``
    (with spares), ``price_date, price_source, unit_power_w, unverified, settle_first`` (what to settle with the seller).
    """
    bom = bom_of(plan)
    kinds = (*DEVICE_KINDS, *CABLE_KINDS, *MODULE_KINDS)
    parts = described(plan.catalog, bom["part"].unique(), kinds).select("part", "vendor", "order_numbers")
    checks = {key: _settle(plan, key) for key in bom["part"].unique().drop_nulls().sort()}
    pieces = pl.col("quantity").cast(pl.Int64) + pl.col("spares").cast(pl.Int64)
    # The number of a cable belongs to one length: its item names it where the catalog has the number of that length.
    of_length = pl.col("item").str.extract(r", order (\S+)$")
    return bom.join(parts, on="part", how="left", maintain_order="left").select(
        *("section", "item", "part", "vendor"),
        pl.when(pl.col("section") == "cables").then(of_length).otherwise("order_numbers").alias("order_numbers"),
        *("network", "quantity", "spares"),
        pieces.alias("to_order"),
        "unit_price_usd",
        (pieces * pl.col("unit_price_usd")).alias("total_usd"),
        *("price_date", "price_source", "unit_power_w"),
        pl.when("unverified").then(pl.lit("unverified")).alias("unverified"),
        pl.col("part").replace_strict(checks, default=None, return_dtype=pl.String).alias("settle_first"),
    )


def bom_summary(plan: Plan) -> pl.DataFrame:
    """Return ``what, value``: totals, the pieces without a price, the policy for spares, the doubts."""
    bom = bom_of(plan)
    known, missing = capital_cost(bom)
    priced = bom.filter(pl.col("unit_price_usd").is_not_null())
    dates = priced["price_date"].drop_nulls().sort().to_list()
    rows = [
        ("Sum of the known prices, with spares", format_usd(known) if priced.height else "no price is known"),
        ("Pieces without a price, not in the sum", f"{missing:,}"),
        ("Prices seen", " to ".join(dict.fromkeys([dates[0], dates[-1]])) if dates else "no date"),
        (
            "Prices from",
            "; ".join(priced["price_source"].unique().drop_nulls().sort()) or "nowhere: give economics.prices",
        ),
        (
            "Spares",
            f"{write_fraction(plan.spec.economics.spares)} of {', '.join(SPARED)}, rounded up per line; none of the rest",
        ),
        ("Rows with unverified facts", f"{int(bom['unverified'].sum()):,} of {len(bom):,}"),
    ]
    in_link = bom.filter(pl.col("price_source") == IN_LINK_PRICE)
    if in_link.height:
        pieces = int(in_link["quantity"].sum())
        rows.append(("Modules whose price is in that of their cable", f"{pieces:,}"))
    return pl.DataFrame(rows, schema={"what": pl.String, "value": pl.String}, orient="row")


def _settle(plan: Plan, key: str) -> str | None:
    for kind in ("optics", "cables"):
        entries = plan.catalog.kind(kind)
        if key in entries:
            checks: Any = entries[key].buyer_checks
            return ", ".join(_BUYER_CHECKS[check] for check in checks) or None
    return None
