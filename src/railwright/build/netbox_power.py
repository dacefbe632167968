"""Power for NetBox: panels, feeds, outlets and the cords between them.

Every PDU hangs on a feed of its own; the PDUs of a rack take the site's feeds A, B … in turn, and power supply n of a box goes
to PDU n of its rack, counted round. A plan says how much a PDU carries, not at which voltage: feeds are written as three-phase
at ``VOLTS`` with the current that follows, and say that this is assumed.
"""

from collections.abc import Mapping

import polars as pl

from railwright.build.netbox_types import PDU_INLET
from railwright.design.plan import Plan
from railwright.design.power import rack_loads

VOLTS = 415
"""Line to line (assumption: usual at the rack of AI halls in North America; 400 in Europe)."""
ROOT_3 = 1.732
"""As NetBox reckons three-phase power (dcim/models/power.py)."""


def power_tables(plan: Plan, types: pl.DataFrame) -> Mapping[str, pl.DataFrame]:
    """Return the import tables ``panels, feeds, outlets, cables``; empty where the plan has no PDUs.

    ``types`` is ``netbox_types.type_names``. Boxes whose number of power supplies is unknown have no cord.
    """
    pdus = _pdus(plan)
    cords = _cords(plan, types, pdus)
    return {
        "panels": pdus.select("site", name="panel").unique(maintain_order=True).sort("site", "name"),
        "feeds": _feeds(pdus),
        "outlets": cords.select(
            device="pdu", name="outlet", power_port=pl.lit(PDU_INLET), description=pl.format("{} {}", "box", "supply")
        ),
        "cables": pl.concat([_inlets(pdus), _supply_cables(cords)]),
    }


def _pdus(plan: Plan) -> pl.DataFrame:
    """Return the PDUs in racks: ``rack, rack_name, site, pdu, nth`` (in the rack, from 0), ``pdus, letter, panel, watts``."""
    loads = rack_loads(plan).select("rack_id", "feeds", "pdu_w", "power_limit_w", rack_name="name", rack_site="site")
    feed = (pl.col("nth") % pl.col("feeds")).cast(pl.UInt32)
    letters = {number: chr(65 + number) for number in range(26)}
    per_feed = (pl.col("pdus") / pl.col("feeds")).ceil()
    return (
        plan.devices.filter((pl.col("role") == "pdu") & pl.col("rack").is_not_null())
        .sort("rack", "device_id")
        .join(loads, left_on="rack", right_on="rack_id", maintain_order="left")
        .with_columns(nth=pl.int_range(pl.len()).over("rack"), pdus=pl.len().over("rack"))
        .with_columns(letter=feed.replace_strict(letters, return_dtype=pl.String))
        .select(
            "rack",
            "rack_name",
            "nth",
            "pdus",
            "letter",
            site="rack_site",
            pdu="name",
            panel=pl.format("{} feed {}", "rack_site", "letter"),
            watts=pl.coalesce("pdu_w", pl.col("power_limit_w") / per_feed),
            given=pl.col("pdu_w").is_not_null(),
        )
    )


def _feeds(pdus: pl.DataFrame) -> pl.DataFrame:
    amperes = (pl.col("watts") / (VOLTS * ROOT_3)).ceil().cast(pl.Int64)
    origin = (
        pl.when("given").then(pl.lit("from the spec")).otherwise(pl.lit("the rack's limit over the PDUs of a feed"))
    )
    return pdus.select(
        "site",
        power_panel="panel",
        rack="rack_name",
        name="pdu",
        status=pl.lit("planned"),
        type=pl.when(pl.col("letter") == "A").then(pl.lit("primary")).otherwise(pl.lit("redundant")),
        supply=pl.lit("ac"),
        phase=pl.lit("three-phase"),
        voltage=pl.lit(VOLTS),
        amperage=pl.max_horizontal(amperes, 1),
        max_utilization=pl.lit(100),
        description=pl.format(
            f"Voltage assumed ({VOLTS} V, three-phase); current for {{}} kW, {{}}",
            (pl.col("watts") / 1000).round(1),
            origin,
        ),
    )


def _cords(plan: Plan, types: pl.DataFrame, pdus: pl.DataFrame) -> pl.DataFrame:
    """Return a row per power supply in a rack with PDUs: ``box, supply, pdu, outlet``."""
    supplies = (
        plan.devices.filter(pl.col("rack").is_not_null() & (pl.col("role") != "pdu"))
        .join(types.select("model", "psus"), on="model", maintain_order="left")
        .filter(pl.col("psus").is_not_null())
        .sort("rack", "ru", "device_id")
        .select("rack", box="name", number=pl.int_ranges(1, pl.col("psus") + 1))
        .explode("number")
    )
    in_rack = pdus.select("rack", "pdus").unique("rack")
    return (
        supplies.join(in_rack, on="rack", maintain_order="left")
        .with_columns(nth=(pl.col("number") - 1) % pl.col("pdus").cast(pl.Int64))
        .join(pdus.select("rack", "pdu", pl.col("nth").cast(pl.Int64)), on=["rack", "nth"], maintain_order="left")
        .select(
            "box",
            "pdu",
            supply=pl.format("PSU{}", "number"),
            outlet=pl.format("Outlet {}", pl.int_range(1, pl.len() + 1).over("pdu")),
        )
    )


def _inlets(pdus: pl.DataFrame) -> pl.DataFrame:
    return pdus.select(
        side_a_device=pl.lit(None, pl.String),
        side_a_power_panel="panel",
        side_a_type=pl.lit("dcim.powerfeed"),
        side_a_name="pdu",
        side_b_device="pdu",
        side_b_type=pl.lit("dcim.powerport"),
        side_b_name=pl.lit(PDU_INLET),
        type=pl.lit("power"),
        status=pl.lit("planned"),
    )


def _supply_cables(cords: pl.DataFrame) -> pl.DataFrame:
    return cords.select(
        side_a_device="box",
        side_a_power_panel=pl.lit(None, pl.String),
        side_a_type=pl.lit("dcim.powerport"),
        side_a_name="supply",
        side_b_device="pdu",
        side_b_type=pl.lit("dcim.poweroutlet"),
        side_b_name="outlet",
        type=pl.lit("power"),
        status=pl.lit("planned"),
    )
