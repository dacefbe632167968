"""A plan in figures: what ``railwright plan --json`` prints, computed from the tables alone."""

from typing import Any

import polars as pl

from railwright.catalog.load import Catalog
from railwright.design.bom import capital_cost
from railwright.design.context import resolve_server
from railwright.design.plan import Plan
from railwright.design.power import hall_power
from railwright.design.prices import known_price

SWITCH_ROLES = ("leaf", "spine", "core", "border", "tor", "oob")


def summarise(plan: Plan) -> dict[str, Any]:
    """Return the figures of ``plan``: ``cluster, networks, totals, reasons`` with stable keys.

    ``networks.<name>``: ``topology, endpoints`` (backend: NICs; otherwise boxes), ``oversubscription`` (of the worst switch
    of any tier but the border, down over up capacity as built; 1.0 without uplinks), ``oversubscription_by_tier, switches,
    links, cables, tiers, planes``.

    ``totals``: sums over the boxes (and cables and modules once there are any). ``price_usd`` is None while a price is
    missing: ``known_price_usd`` sums the others and ``unpriced`` counts the pieces without one. ``power_w`` sums the boxes
    whose draw is known, ``power_unknown`` counts the others.
    """
    ends = _ends(plan)
    servers = len(plan.devices.filter(pl.col("role") == "server"))
    present = plan.links["network"].unique(maintain_order=True).cast(pl.String).to_list()
    return {
        "cluster": {
            "name": plan.spec.name,
            "gpus": servers * resolve_server(plan.spec, plan.catalog).gpus,
            "servers": servers,
        },
        "networks": {name: _network(plan, name, ends) for name in present},
        "totals": _totals(plan),
        "reasons": [dict(reason) for reason in plan.reasons],
    }


def count_cables(plan: Plan, network: str) -> int:
    """Return the cables of ``network``: those of table ``cables``, or before cabling one per link, legs of a split port one.

    Legs share a cable when they leave one connector of a switch: a cage of eight lanes in an OSFP has two connectors (twin
    port), every other cage one.
    """
    return _count_cables(plan, network, _ends(plan))


def _network(plan: Plan, name: str, ends: pl.DataFrame) -> dict[str, Any]:
    facts = plan.facts.get(name, {})
    links = plan.links.filter(pl.col("network") == name)
    by_role = dict(
        plan.devices.filter((pl.col("network") == name) & pl.col("role").is_in(SWITCH_ROLES))
        .group_by("role")
        .len()
        .with_columns(pl.col("role").cast(pl.String))
        .iter_rows()
    )
    ratios = _oversubscription(plan, name)
    tiers = 1 + sum(tier in set(links["tier"].cast(pl.String)) for tier in ("leaf_spine", "spine_core"))
    return {
        "topology": facts.get("topology", "leaf-spine" if tiers > 1 else "star"),
        "endpoints": _endpoints(name, links, ends),
        "oversubscription": max((ratio for role, ratio in ratios.items() if role != "border"), default=1.0),
        "oversubscription_by_tier": ratios,
        "switches": {
            **{role: by_role.get(role, 0) for role in ("leaf", "spine", "core")},
            **{role: count for role, count in sorted(by_role.items()) if role not in ("leaf", "spine", "core")},
        },
        "links": len(links),
        "cables": _count_cables(plan, name, ends),
        "tiers": tiers,
        "planes": max(1, links["plane"].drop_nulls().n_unique()),
    }


def _ends(plan: Plan) -> pl.DataFrame:
    """Return one row per port with its device, role and connector."""
    return plan.ports.join(plan.devices.select("device_id", "role", "model"), on="device_id").select(
        "port_id", "device_id", "role", "nic", connector=_connector(plan.catalog)
    )


def _connector(catalog: Catalog) -> pl.Expr:
    twin = [key for key, entry in catalog.switches.items() if entry.cages[0].form_factor.startswith("osfp")]
    half = pl.when(pl.col("model").is_in(twin)).then(pl.col("lane_first") // 4).otherwise(0)
    return (
        pl.when(pl.col("lanes").is_null()).then(None).otherwise(pl.col("cage").cast(pl.UInt64) * 16 + half)
        + pl.col("device_id").cast(pl.UInt64) * 1_048_576
    )


def _count_cables(plan: Plan, network: str, ends: pl.DataFrame) -> int:
    links = plan.links.filter(pl.col("network") == network)
    if links["cable_id"].null_count() == 0:
        return int(links["cable_id"].n_unique())
    sides = [
        links.join(ends, left_on=f"{side}_port", right_on="port_id", maintain_order="left").select(
            pl.when(pl.len().over("connector") > 1).then("connector").alias(side)
        )
        for side in ("a", "b")
    ]
    shared = pl.concat(sides, how="horizontal").with_columns(by=pl.coalesce("b", "a"))["by"]
    return int(shared.drop_nulls().n_unique()) + int(shared.null_count())


def _endpoints(name: str, links: pl.DataFrame, ends: pl.DataFrame) -> int:
    hosts = links.filter(pl.col("tier").is_in(["host", "oob"])).join(ends, left_on="a_port", right_on="port_id")
    if name == "backend":
        return hosts.filter(pl.col("role") == "server").select("device_id", "nic").n_unique()
    return int(hosts["device_id"].n_unique())


def _oversubscription(plan: Plan, name: str) -> dict[str, float]:
    """Return the worst ratio of down to up capacity per switch role that has uplinks."""
    switches = plan.devices.filter((pl.col("network") == name) & pl.col("role").is_in(SWITCH_ROLES))
    capacity = (
        plan.ports.filter(pl.col("network") == name)
        .join(switches.select("device_id", "role"), on="device_id")
        .group_by("device_id", "role")
        .agg(
            down=pl.col("speed_gbps").filter(pl.col("direction") == "down").sum(),
            up=pl.col("speed_gbps").filter(pl.col("direction") == "up").sum(),
        )
        .filter(pl.col("up") > 0)
        .group_by("role")
        .agg(ratio=(pl.col("down") / pl.col("up")).max())
        .sort("role")
    )
    return {str(role): round(float(ratio), 4) for role, ratio in capacity.iter_rows()}


def _totals(plan: Plan) -> dict[str, Any]:
    power = hall_power(plan)
    active = plan.devices.filter(~pl.col("role").is_in(["external"]))
    known_usd, unpriced = _cost(plan, active)
    return {
        "power_w": power["equipment_w"],
        "power_unknown": power["unknown"],
        "module_power_w": power["modules_w"],
        "cable_power_w": power["cables_w"],
        "hall_power_w": power["hall_w"],
        "kwh_per_year": power["kwh_per_year"],
        "energy_usd_per_year": power["usd_per_year"],
        "price_usd": known_usd if unpriced == 0 else None,
        "known_price_usd": known_usd,
        "unpriced": unpriced,
        "rack_count": len(plan.racks),
        "device_count": len(plan.devices),
        "link_count": len(plan.links),
        "cable_count": len(plan.table("cables")),
        "module_count": len(plan.table("modules")),
        "cable_m": float(plan.table("cables")["length_m"].sum()),
    }


def _cost(plan: Plan, devices: pl.DataFrame) -> tuple[float, int]:
    """Return the sum of known prices and the number of pieces without one: of the whole bill, or before cabling of the boxes."""
    if len(plan.table("bom")):
        return capital_cost(plan.table("bom"))
    total, unknown = 0.0, 0
    for model, count in devices.group_by("model").len().sort("model").iter_rows():
        kind = next((name for name in ("servers", "switches") if model in plan.catalog.kind(name)), "boxes")
        price = known_price(plan.catalog, plan.spec, kind, model)
        total += 0.0 if price is None else count * price.usd
        unknown += count if price is None else 0
    return total, unknown
