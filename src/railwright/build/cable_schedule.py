"""The cable schedule: one row per leg of every cable, with both ends down to cage and lanes.

A straight cable has one leg. A breakout (one cage to several) and a twin-port cable (one cage to one, several ports) have a
row per port, numbered ``leg`` of ``legs``. Everything is joined as tables: 100,000 GPUs are some 400,000 rows.
"""

import polars as pl

from railwright.build.parts import CABLE_KINDS, MODULE_KINDS, described
from railwright.catalog.load import Catalog
from railwright.design.plan import Plan
from railwright.errors import InputError


def cable_schedule(plan: Plan) -> pl.DataFrame:
    """Return the schedule of ``plan``, sorted by cable and leg.

    Columns: ``cable, leg, legs, shape, network, tier, plane, rail, speed_gbps``; for each end ``a`` and ``b`` ``_label,
    _site, _rack, _ru, _device, _port, _cage, _host_lanes, _media_lanes, _module``; then ``medium, part, part_name, length_m,
    route, loss_db, margin_db, power_w, price_usd, unverified``. Lanes count from 1 in their module or plug; ``loss_db`` and
    ``margin_db`` are empty for copper. A label is what stands on the flag at that end. Why a part was chosen is told by
    ``railwright explain CABLE_ID``. Raises InputError when the plan has no cables.
    """
    cables = plan.table("cables")
    if cables.is_empty() and not plan.links.is_empty():
        raise InputError("the plan has no cables: it was made before railwright chose them; plan again from the spec")
    legs = plan.links.join(cables, on="cable_id", how="left", maintain_order="left", validate="m:1")
    for side in ("a", "b"):
        legs = legs.join(_ends(plan, side), on=["cable_id", f"{side}_port"], how="left", maintain_order="left")
    legs = legs.sort("cable_id", "b_device_id", "b_cage", "b_lane", "a_device_id", "a_cage", "a_lane", "link_id")
    parts = described(plan.catalog, cables["part"].unique(), CABLE_KINDS)
    return (
        legs.join(
            parts.select("part", part_name="name", doubts="unverified"), on="part", how="left", maintain_order="left"
        )
        .with_columns(
            cable=cable_label(pl.col("cable_id")),
            leg=pl.int_range(1, pl.len() + 1).over("cable_id"),
            legs=pl.len().over("cable_id"),
            shape=_shape(),
            unverified=pl.concat_str(
                _doubt("part", "doubts"),
                _doubt("a_module", "a_doubts"),
                _doubt("b_module", "b_doubts"),
                separator="; ",
                ignore_nulls=True,
            ),
        )
        .select(
            *("cable", "leg", "legs", "shape", "network", "tier", "plane", "rail", "speed_gbps"),
            *_end_columns("a"),
            *_end_columns("b"),
            *("medium", "part", "part_name", pl.col("length_m").round(2), "route"),
            pl.col("loss_db", "margin_db").round(3),
            *("power_w", "price_usd", "unverified"),
        )
    )


def cable_label(cable_id: pl.Expr) -> pl.Expr:
    """Return the name of a cable from its id: ``C000042``."""
    return pl.concat_str(pl.lit("C"), cable_id.cast(pl.String).str.zfill(6))


def order_list(schedule: pl.DataFrame) -> pl.DataFrame:
    """Return what to order: ``network, medium, part, part_name, length_m, cables, metres``."""
    return (
        schedule.unique("cable", maintain_order=True)
        .group_by("network", "medium", "part", "part_name", "length_m", maintain_order=True)
        .agg(cables=pl.len(), metres=pl.col("length_m").sum())
        .sort("network", "medium", "part", "length_m", nulls_last=True)
    )


def fibre_ends(catalog: Catalog, orders: pl.DataFrame) -> pl.DataFrame:
    """Return ``orders`` with what a fibre cord must have at its ends: ``connectors, polish, gender, polarity`` with the keys.

    They are null for cables with fixed ends.
    """
    rows = [
        {
            "part": key,
            "connectors": " - ".join(dict.fromkeys((cord.connector, cord.far_connector))),
            "polish": cord.polish.upper(),
            "gender": None if cord.gender == "none" else cord.gender,
            "polarity": catalog.polarities[cord.polarity].name,
        }
        for key in orders["part"].unique().drop_nulls().sort()
        if (cord := catalog.fibre_cables.get(key)) is not None
    ]
    ends = pl.DataFrame(rows, schema=dict.fromkeys(("part", "connectors", "polish", "gender", "polarity"), pl.String))
    return orders.join(ends, on="part", how="left", maintain_order="left")


def pull_list(schedule: pl.DataFrame) -> pl.DataFrame:
    """Return the bundles to pull: cables of one part and length between the same two racks, with the first and last of them."""
    return (
        schedule.unique("cable", maintain_order=True)
        .with_columns(from_rack=pl.col("a_rack").fill_null("outside"), to_rack=pl.col("b_rack").fill_null("outside"))
        .group_by("from_rack", "to_rack", "medium", "part", "length_m", maintain_order=True)
        .agg(cables=pl.len(), first=pl.col("cable").first(), last=pl.col("cable").last(), route=pl.col("route").first())
    )


def lane_range(mask: int) -> str:
    """Return the lanes of a bit mask as people write them, from 1: ``0xf0`` is ``5-8``, ``0x05`` is ``1,3``."""
    lanes = [lane + 1 for lane in range(mask.bit_length()) if mask >> lane & 1]
    runs: list[list[int]] = []
    for lane in lanes:
        if runs and lane == runs[-1][1] + 1:
            runs[-1][1] = lane
        else:
            runs.append([lane, lane])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _ends(plan: Plan, side: str) -> pl.DataFrame:
    """Return one row per cable and port at ``side``: where the port is and what is plugged in there."""
    modules = plan.table("modules").select("module_id", module="part")
    doubts = described(plan.catalog, modules["module"].unique(), MODULE_KINDS)
    devices = plan.devices.join(
        plan.racks.select("rack_id", rack_name="name"),
        left_on="rack",
        right_on="rack_id",
        how="left",
        maintain_order="left",
    )
    ends = (
        plan.table("cable_ends")
        .filter(pl.col("end") == side)
        .join(plan.ports, on="port_id", maintain_order="left")
        .join(
            devices.select("device_id", "site", "ru", rack="rack_name", device="name"),
            on="device_id",
            maintain_order="left",
        )
        .join(modules, on="module_id", how="left", maintain_order="left")
        .join(doubts.select(module="part", doubts="unverified"), on="module", how="left", maintain_order="left")
    )
    return ends.select(
        "cable_id",
        pl.col("port_id").alias(f"{side}_port"),
        pl.col("name").alias(f"{side}_port_name"),
        pl.col("lane_first").alias(f"{side}_lane"),
        _lanes(ends["host_lanes"]).alias(f"{side}_host_lanes"),
        _lanes(ends["media_lanes"]).alias(f"{side}_media_lanes"),
        *(
            pl.col(c).alias(f"{side}_{c}")
            for c in ("device_id", "site", "rack", "ru", "device", "cage", "module", "doubts")
        ),
    )


def _lanes(masks: pl.Series) -> pl.Series:
    """Return the lane ranges of bit masks: a plan has a few dozen different ones."""
    known = {mask: lane_range(mask) for mask in masks.drop_nulls().unique()}
    return masks.replace_strict(known, default=None, return_dtype=pl.String)


def _cages(side: str) -> pl.Expr:
    """Return how many cages a cable has at ``side``; cage 0 means a port without one."""
    alone = pl.when(pl.col(f"{side}_cage") == 0).then(f"{side}_port")
    return pl.struct(f"{side}_device_id", f"{side}_cage", alone).n_unique().over("cable_id")


def _shape() -> pl.Expr:
    """Return ``straight``, ``twin`` (one cage to one cage, several ports), ``1:N`` (a breakout) or ``N:M``."""
    low, high = pl.min_horizontal(_cages("a"), _cages("b")), pl.max_horizontal(_cages("a"), _cages("b"))
    return (
        pl.when(pl.len().over("cable_id") == 1)
        .then(pl.lit("straight"))
        .when(high == 1)
        .then(pl.lit("twin"))
        .otherwise(pl.format("{}:{}", low, high))
    )


def _doubt(part: str, doubts: str) -> pl.Expr:
    marked = pl.col(doubts).is_not_null() & (pl.col(doubts) != "")
    return pl.when(marked).then(pl.format("{}: {}", part, doubts))


def _end_columns(side: str) -> list[pl.Expr]:
    own = pl.format("{}:{}", f"{side}_device", f"{side}_port_name")
    label = pl.when(_cages(side) > 1).then(own).otherwise(f"label_{side}").alias(f"{side}_label")
    columns = {
        "site": f"{side}_site",
        "rack": f"{side}_rack",
        "ru": f"{side}_ru",
        "device": f"{side}_device",
        "port": f"{side}_port_name",
        "cage": f"{side}_cage",
        "host_lanes": f"{side}_host_lanes",
        "media_lanes": f"{side}_media_lanes",
        "module": f"{side}_module",
    }
    return [label, *(pl.col(column).alias(f"{side}_{name}") for name, column in columns.items())]
