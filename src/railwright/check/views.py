"""What several rules look at: capacity by direction, links between roles, endpoints per leaf."""

import polars as pl

from railwright.design.plan import Plan

PLURALS = {"leaf": "leaves", "spine": "spines", "core": "cores", "border": "border leaves"}


def switch_capacity(plan: Plan, network: str) -> pl.DataFrame:
    """Return one row per switch of ``network``: ``device_id, name, role, model, plane, rail, pod, down_gbps, up_gbps``.

    ``down_gbps`` counts ports toward endpoints and lower tiers, ``up_gbps`` those toward upper tiers.
    """
    sums = (
        plan.ports.filter(pl.col("network") == network)
        .group_by("device_id")
        .agg(
            down_gbps=pl.col("speed_gbps").filter(pl.col("direction") == "down").sum(),
            up_gbps=pl.col("speed_gbps").filter(pl.col("direction") == "up").sum(),
            up_ports=(pl.col("direction") == "up").sum(),
        )
    )
    return (
        plan.devices.filter(
            (pl.col("network") == network) & pl.col("role").is_in(["leaf", "spine", "core", "tor", "border"])
        )
        .select("device_id", "name", "role", "model", "plane", "rail", "pod")
        .join(sums, on="device_id", maintain_order="left")
    )


def pair_links(plan: Plan, network: str, lower: str, upper: str) -> pl.DataFrame:
    """Return parallel links by pair of switches: ``a_device, b_device, links, gbps``."""
    return (
        plan.named_links()
        .filter((pl.col("network") == network) & (pl.col("a_role") == lower) & (pl.col("b_role") == upper))
        .group_by("a_device", "b_device")
        .agg(links=pl.len(), gbps=pl.col("speed_gbps").sum())
        .sort("a_device", "b_device")
    )


def examples(names: pl.Series, most: int = 3) -> str:
    """Return up to ``most`` names and how many more there are."""
    shown = ", ".join(names.head(most).to_list())
    more = len(names) - most
    return f"{shown} and {more} more" if more > 0 else shown
