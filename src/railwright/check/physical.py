"""Rules on racks and on the cables as things: power, height, weight, cooling, air, feeds, and links without a cable."""

from collections.abc import Callable, Iterator

import polars as pl

from railwright.check.channels import hits
from railwright.check.engine import Hit, rule
from railwright.check.views import examples
from railwright.design.plan import Plan
from railwright.design.power import rack_loads
from railwright.findings import Severity
from railwright.units import counted, format_w


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
        draw_w, limit_w = _told_apart(worst["power_w"], worst["power_limit_w"], format_w, "W")
        yield Hit(
            "racks",
            f"{counted(len(over), 'rack is', 'racks are')} above the limit, the worst ({worst['name']}) draws {draw_w} of "
            f"{limit_w}: {examples(over['name'])}",
        )


@rule("RW702")
def rack_height(plan: Plan) -> Iterator[Hit]:
    """Racks whose devices need more rack units than there are."""
    heights = pl.DataFrame(
        {
            "model": [*plan.catalog.servers, *plan.catalog.switches],
            "height": [
                *(server.ru for server in plan.catalog.servers.values()),
                *(switch.ru for switch in plan.catalog.switches.values()),
            ],
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
            f"{counted(len(over), 'rack is', 'racks are')} over-full, the worst ({worst['name']}) needs "
            f"{worst['used']} of {worst['height_ru']} RU",
        )


@rule("RW703")
def link_without_cable(plan: Plan) -> Iterator[Hit]:
    """Links that no part of the catalog can join."""
    missing = plan.table("cables").filter(pl.col("part").is_null())
    if missing.is_empty():
        return
    sites = plan.devices.select("device_id", "site").join(plan.ports.select("device_id", "port_id"), on="device_id")
    ends = plan.links.select("cable_id", "a_port", "b_port").unique("cable_id", keep="first", maintain_order=True)
    for side in ("a", "b"):
        ends = ends.join(
            sites.select(pl.col("port_id").alias(f"{side}_port"), pl.col("site").alias(f"{side}_site")),
            on=f"{side}_port",
        )
    apart = missing.join(
        ends.select("cable_id", apart=pl.col("a_site") != pl.col("b_site")), on="cable_id", maintain_order="left"
    )
    grouped = apart.group_by("reason", "apart", maintain_order=True).agg(
        pl.col("label_a", "label_b").first(), pl.len(), length_m=pl.col("length_m").max()
    )
    for row in grouped.iter_rows(named=True):
        more = f"; {counted(row['len'] - 1, 'more cable', 'more cables')} alike" if row["len"] > 1 else ""
        yield Hit(
            f"{row['label_a']} - {row['label_b']}",
            f"{row['reason']}{more}",
            fix=_mend(row["reason"], apart=row["apart"]),
            severity=Severity.WARNING if row["apart"] else None,
        )


def _mend(reason: str, *, apart: bool) -> str | None:
    """Return how to mend a link without a cable where the reason says more than the rule does."""
    if apart:
        return "lease wavelengths or order a line system between the sites (coherent modules and amplifiers)"
    if "the spec forbids" in reason:
        return "Take the medium that works out of cabling.forbid, or place the ends nearer."
    if "the channel may lose" in reason:
        return "Fewer panels or splices (cabling.patch_panels, cabling.splices), or low-loss connectors (cabling.connectors)."
    return None


@rule("RW704")
def two_modules_in_a_cage(plan: Plan) -> Iterator[Hit]:
    """Cages with more than one module."""
    twice = (
        plan.table("modules")
        .group_by("device_id", "cage")
        .agg(pl.len(), pl.col("part").sort())
        .filter(pl.col("len") > 1)
    )
    for row in twice.sort("device_id", "cage").head(1).iter_rows(named=True):
        name = plan.devices.filter(pl.col("device_id") == row["device_id"])["name"].item()
        others = f"; {counted(len(twice) - 1, 'more cage', 'more cages')} alike" if len(twice) > 1 else ""
        yield Hit(f"{name} cage {row['cage']}", f"{' and '.join(row['part'])} in one cage{others}")


@rule("RW705")
def lanes_used_twice(plan: Plan) -> Iterator[Hit]:
    """Ports of one module that use the same lane of it."""
    ends = plan.table("cable_ends").filter(pl.col("module_id").is_not_null())
    for column, what in (("host_lanes", "electrical"), ("media_lanes", "optical")):
        masks = ends.group_by("module_id").agg(
            each=pl.col(column).bitwise_count_ones().sum(), together=pl.col(column).bitwise_or().bitwise_count_ones()
        )
        wrong = masks.filter(pl.col("each") != pl.col("together")).sort("module_id")
        if len(wrong):
            module = plan.table("modules").filter(pl.col("module_id") == wrong["module_id"][0]).row(0, named=True)
            name = plan.devices.filter(pl.col("device_id") == module["device_id"])["name"].item()
            yield Hit(
                f"{name} cage {module['cage']}",
                f"ports of {module['part']} share {what} lanes; {counted(len(wrong), 'module', 'modules')} in all",
            )


@rule("RW706")
def rack_weight(plan: Plan) -> Iterator[Hit]:
    """Racks that weigh more than they may."""
    yield from _over(
        rack_loads(plan), "weight_kg", "weight_limit_kg", lambda kilograms: f"{kilograms:,.0f} kg", "kg", "weighs"
    )


@rule("RW711")
def module_power(plan: Plan) -> Iterator[Hit]:
    """Modules and plugs that draw more than their cage gives."""
    yield from hits(plan, "RW711")


@rule("RW712")
def feed_lost(plan: Plan) -> Iterator[Hit]:
    """Racks whose PDUs are overloaded when one feed fails."""
    loads = rack_loads(plan)
    yield from _over(loads, "power_w", "left_w", format_w, "W", "draws, when one feed fails,")


@rule("RW717")
def feeds_unknown(plan: Plan) -> Iterator[Hit]:
    """Sites whose PDUs cannot be held against their load, since nobody said what one carries."""
    loads = rack_loads(plan).filter(pl.col("pdu_w").is_null() & (pl.col("pdus") > 0))
    each = loads.with_columns(
        each=pl.col("power_w")
        / pl.when(pl.col("feeds") > 1)
        .then(pl.col("pdus") - (pl.col("pdus") / pl.col("feeds")).ceil())
        .otherwise(pl.col("pdus"))
    ).sort("each", "rack_id", descending=[True, False], nulls_last=True)
    for (site,), rows in each.group_by(["site"], maintain_order=True):
        worst = rows.row(0, named=True)
        apart = worst["feeds"] > 1 and worst["pdus"] > 1
        yield Hit(
            str(site),
            f"what a PDU carries is not given, so circuits are not checked: a PDU of {worst['name']} has to carry "
            + (
                f"{format_w(worst['each'])} when one feed fails"
                if apart
                else f"{format_w(worst['power_w'] / worst['pdus'])}"
            ),
        )


@rule("RW713")
def rack_cooling(plan: Plan) -> Iterator[Hit]:
    """Racks that give off more heat than is taken away."""
    yield from _over(rack_loads(plan), "power_w", "cooling_limit_w", format_w, "W", "gives off")


@rule("RW714")
def airflow(plan: Plan) -> Iterator[Hit]:
    """Boxes that blow against the cold aisle of their site."""
    cold = {site.name: site.racks.airflow for site in plan.spec.sites}
    servers, switches = plan.catalog.servers, plan.catalog.switches
    mounted = plan.devices.filter(pl.col("rack").is_not_null())
    counted = mounted.group_by("site", "model").agg(pl.len(), pl.col("name").min()).sort("site", "model")
    for site, model, count, name in counted.iter_rows():
        flow = servers[model].airflow if model in servers else switches[model].airflow if model in switches else None
        if flow is not None and flow not in ("either", cold.get(site, flow)):
            yield Hit(name, f"{count:,} x {model} blow {flow}, the cold air of {site} comes {cold.get(site)}")


@rule("RW715")
def supplies(plan: Plan) -> Iterator[Hit]:
    """Boxes that need more power than half of their supplies give."""
    for model in plan.devices["model"].unique().drop_nulls().sort():
        switch = plan.catalog.switches.get(model)
        if switch is None or switch.psus is None or switch.psu_w is None or switch.power_max_w is None:
            continue
        left = (switch.psus - switch.psus // 2) * switch.psu_w if switch.psus > 1 else switch.psu_w
        if switch.power_max_w > left:
            yield Hit(model, f"draws {format_w(switch.power_max_w)} at most, one feed's supplies give {format_w(left)}")


@rule("RW716")
def single_feed(plan: Plan) -> Iterator[Hit]:
    """Sites whose racks hang on one power feed."""
    for site in plan.spec.sites:
        if site.racks.feeds == 1:
            yield Hit(site.name, "its racks have one power feed")


def _over(
    loads: pl.DataFrame, column: str, limit: str, show: Callable[[float], str], unit: str, verb: str
) -> Iterator[Hit]:
    """Yield a hit for the racks whose ``column`` is above their ``limit``; racks without a limit are left out."""
    over = loads.filter(pl.col(column) > pl.col(limit) * (1 + 1e-9)).sort(
        pl.col(column) / pl.col(limit), "rack_id", descending=[True, False]
    )
    if len(over):
        worst = over.row(0, named=True)
        borne, allowed = _told_apart(worst[column], worst[limit], show, unit)
        yield Hit(
            worst["name"],
            f"{verb} {borne}, {allowed} are allowed; {counted(len(over), 'rack', 'racks')} in all: {examples(over['name'])}",
        )


def _told_apart(value: float, limit: float, show: Callable[[float], str], unit: str) -> tuple[str, str]:
    """Return both as ``show`` writes them, with as many digits as tell them apart where that rounds them to the same."""
    for write in (show, *(f"{{:,.{digits}f}} {unit}".format for digits in (0, 3, 6))):
        if write(value) != write(limit):
            return write(value), write(limit)
    return f"{value!r} {unit}", f"{limit!r} {unit}"
