"""Rules on racks: power and height."""

from collections.abc import Iterator

import polars as pl

from railwright.check.engine import Hit, rule
from railwright.check.views import examples
from railwright.design.plan import Plan
from railwright.units import format_w


@rule("RW701")
def rack_power(plan: Plan) -> Iterator[Hit]:
    """Racks whose devices draw more than the limit."""
    draw = plan.devices.group_by("rack").agg(power_w=pl.col("power_w").sum())
    over = (
        plan.racks.join(draw, left_on="rack_id", right_on="rack")
        .filter(pl.col("power_w") > pl.col("power_limit_w"))
        .sort("rack_id")
    )
    if len(over):
        worst = over.sort("power_w", descending=True).row(0, named=True)
        yield Hit(
            "racks",
            f"{len(over)} racks are above their limit, the worst ({worst['name']}) draws {format_w(worst['power_w'])} of "
            f"{format_w(worst['power_limit_w'])}: {examples(over['name'])}",
        )


@rule("RW702")
def rack_height(plan: Plan) -> Iterator[Hit]:
    """Racks whose devices need more rack units than there are."""
    heights = pl.DataFrame(
        {
            "model": [*plan.catalog.servers, *plan.catalog.switches],
            "height": [e.ru for e in (*plan.catalog.servers.values(), *plan.catalog.switches.values())],
        }
    )
    used = plan.devices.join(heights, on="model").group_by("rack").agg(used=pl.col("height").sum())
    over = (
        plan.racks.join(used, left_on="rack_id", right_on="rack")
        .filter(pl.col("used") > pl.col("height_ru"))
        .sort("rack_id")
    )
    if len(over):
        worst = over.sort("used", descending=True).row(0, named=True)
        yield Hit(
            "racks",
            f"{len(over)} racks are over-full, the worst ({worst['name']}) needs {worst['used']} of {worst['height_ru']} RU",
        )
