"""What racks and halls draw, what is left when a power feed fails, what they weigh, and what the energy costs.

The draw of a box is the maximum of its data sheet, which vendors state with modules and cables in place; the draw of modules
and cables is therefore shown beside it and not added. Where the draw of a box is unknown its modules are all that is known of
it: they are added, and the box is counted as unknown. Heat is taken to be the electrical power.
"""

from collections.abc import Mapping
from typing import Any

import polars as pl

from railwright.catalog.boxes import Box
from railwright.catalog.model import Server, Switch
from railwright.design.plan import Plan
from railwright.design.prices import HOURS_PER_YEAR


def box_powers(plan: Plan) -> pl.DataFrame:
    """Return one row per device: ``device_id, rack, site, role, power_w`` (known part), ``known`` and ``modules_w``."""
    modules = plan.table("modules").group_by("device_id").agg(modules_w=pl.col("power_w").sum())
    return (
        plan.devices.filter(pl.col("role") != "external")
        .join(modules, on="device_id", how="left", maintain_order="left")
        .select(
            "device_id",
            "rack",
            "site",
            "role",
            power_w=pl.coalesce("power_w", "modules_w", 0.0),
            known=pl.col("power_w").is_not_null() | (pl.col("role") == "pdu"),
            modules_w=pl.col("modules_w").fill_null(0.0),
        )
    )


def rack_loads(plan: Plan) -> pl.DataFrame:
    """Return one row per rack, with what it bears and what it may.

    Columns: ``rack_id, name, site, kind, power_w, modules_w, unknown`` (boxes of unknown draw), ``power_limit_w,
    cooling_limit_w, pdus, feeds, pdu_w`` (null: not given), ``left_w`` (what the PDUs carry when one feed fails; null when
    ``pdu_w`` is), ``weight_kg`` (known part), ``weight_limit_kg``.
    """
    sites = pl.DataFrame(
        [
            {
                "site": site.name,
                "cooling": site.racks.cooling,
                "feeds": site.racks.feeds,
                "pdu_w": site.racks.pdu_power,
                "weight_limit_kg": site.racks.weight,
            }
            for site in plan.spec.sites
        ],
        schema={
            "site": pl.String,
            "cooling": pl.Float64,
            "feeds": pl.Int64,
            "pdu_w": pl.Float64,
            "weight_limit_kg": pl.Float64,
        },
    )
    drawn = (
        box_powers(plan)
        .group_by("rack")
        .agg(
            pl.col("power_w").sum(),
            pl.col("modules_w").sum(),
            unknown=(~pl.col("known")).sum(),
            pdus=(pl.col("role") == "pdu").sum(),
        )
    )
    weights = box_weights(plan)
    weighed = (
        plan.devices.with_columns(weight=pl.col("model").replace_strict(weights, default=None, return_dtype=pl.Float64))
        .group_by("rack")
        .agg(weight_kg=pl.col("weight").sum())
    )
    section = plan.spec.management
    in_network = section.pdus_per_rack if section.pdus_per_network_rack is None else section.pdus_per_network_rack
    planned = pl.when(pl.col("kind") == "compute").then(section.pdus_per_rack).otherwise(in_network)
    return (
        plan.racks.join(sites, on="site", how="left", maintain_order="left")
        .join(drawn, left_on="rack_id", right_on="rack", how="left", maintain_order="left")
        .join(weighed, left_on="rack_id", right_on="rack", how="left", maintain_order="left")
        .with_columns(
            pl.col("power_w", "modules_w", "weight_kg").fill_null(0.0),
            pl.col("unknown").fill_null(0),
            pdus=pl.when(pl.col("pdus").fill_null(0) > 0).then("pdus").otherwise(planned),
        )
        .with_columns(
            left_w=pl.when(pl.col("feeds") > 1)
            .then((pl.col("pdus") - (pl.col("pdus") / pl.col("feeds")).ceil()) * pl.col("pdu_w"))
            .otherwise(pl.col("pdus") * pl.col("pdu_w"))
        )
        .select(
            "rack_id",
            "name",
            "site",
            "kind",
            "power_w",
            "modules_w",
            "unknown",
            "power_limit_w",
            cooling_limit_w=pl.coalesce("cooling", "power_limit_w"),
            pdus="pdus",
            feeds="feeds",
            pdu_w="pdu_w",
            left_w="left_w",
            weight_kg="weight_kg",
            weight_limit_kg="weight_limit_kg",
        )
    )


def hall_power(plan: Plan) -> dict[str, Any]:
    """Return the power of the halls: ``equipment_w, modules_w, cables_w, unknown, hall_w, kwh_per_year, usd_per_year, sites``.

    ``hall_w`` is the equipment times the PUE; energy is that of a year at maximum draw, an upper bound for real use.
    ``sites`` maps each site to its ``equipment_w``.
    """
    economics = plan.spec.economics
    boxes = box_powers(plan)
    equipment = float(boxes["power_w"].sum())
    hall = equipment * economics.pue
    kwh = hall / 1000 * HOURS_PER_YEAR
    per_site = boxes.group_by("site").agg(pl.col("power_w").sum()).sort("site")
    return {
        "equipment_w": equipment,
        "modules_w": float(plan.table("modules")["power_w"].sum()),
        "cables_w": float(plan.table("cables")["power_w"].sum()),
        "unknown": int((~boxes["known"]).sum()),
        "hall_w": hall,
        "kwh_per_year": kwh,
        "usd_per_year": kwh * economics.energy,
        "sites": dict(per_site.iter_rows()),
    }


def box_weights(plan: Plan) -> dict[str, float]:
    """Return the weight of every model in use whose weight is known."""
    kinds: tuple[Mapping[str, Server | Switch | Box], ...] = (
        plan.catalog.servers,
        plan.catalog.switches,
        plan.catalog.boxes,
    )
    found: dict[str, float] = {}
    for model in plan.devices["model"].unique(maintain_order=True).drop_nulls():
        weight = next((kind[model].weight_kg for kind in kinds if model in kind), None)
        if weight is not None:
            found[model] = weight
    return found
