"""Which servers are near each other: one row per GPU server with its scale-up domain, its leaves and its pod.

A *unit* is the set of servers that hang on the same leaves (a leaf of a leaf-spine fabric, a scalable unit of a rail-optimized
one): between them no traffic of one rail climbs to a spine. Units and pods count from 1 in the order of their first server.
"""

import numpy as np
import polars as pl

from railwright.design.context import resolve_server
from railwright.design.plan import Plan
from railwright.errors import InputError


def server_groups(plan: Plan, network: str = "backend") -> pl.DataFrame:
    """Return one row per GPU server, in the order of their global GPU ids.

    Columns: ``server`` (UInt32, index from 0: GPUs ``server * gpus_per_server …``), ``name``, ``domain`` (UInt32, from 0),
    ``unit`` and ``pod`` (UInt32, from 1), ``leaves`` (their names, joined by commas). Raises InputError when the plan has no
    such network.
    """
    server = resolve_server(plan.spec, plan.catalog)
    servers = plan.devices.filter(pl.col("role") == "server").sort("device_id")
    hosts = plan.named_links().filter((pl.col("network") == network) & (pl.col("tier") == "host"))
    if hosts.is_empty():
        raise InputError(f"the plan has no {network} links", key=network)
    pods = plan.devices.select(pl.col("device_id").alias("b_device_id"), "pod")
    leaves = (
        hosts.join(pods, on="b_device_id", how="left")
        .sort("a_device_id", "b_device_id")
        .group_by("a_device_id", maintain_order=True)
        .agg(pl.col("b_device").unique(maintain_order=True).str.join(",").alias("leaves"), pl.col("pod").min())
    )
    index = np.arange(servers.height)
    frame = servers.select(
        "name",
        pl.Series("server", index, pl.UInt32),
        "device_id",
        pl.Series("domain", index * server.gpus // server.scale_up_gpus, pl.UInt32),
    ).join(leaves, left_on="device_id", right_on="a_device_id", how="left", maintain_order="left")
    return frame.select(
        "server",
        "name",
        "domain",
        _numbered(frame["leaves"].fill_null("")).alias("unit"),
        _numbered(frame["pod"].fill_null(0)).alias("pod"),
        pl.col("leaves").fill_null(""),
    )


def _numbered(values: pl.Series) -> pl.Series:
    """Return the values as numbers from 1 in order of first appearance."""
    _, first, place = np.unique(values.to_numpy(), return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))
    return pl.Series(order[place] + 1, dtype=pl.UInt32)
