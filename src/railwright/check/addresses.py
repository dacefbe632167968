"""Rules on addresses and AS numbers."""

from collections.abc import Iterator

import polars as pl

from railwright.check.engine import Hit, rule
from railwright.check.views import examples
from railwright.design.plan import Plan


@rule("RW601")
def duplicate_addresses(plan: Plan) -> Iterator[Hit]:
    """An address that two interfaces of one VRF have; anycast addresses (vip, gateway) may repeat."""
    clashes = (
        plan.addresses.filter(~pl.col("kind").is_in(["vip", "gateway"]))
        .with_columns(host=pl.col("address").str.split("/").list.first())
        .join(plan.devices.select("device_id", "name"), on="device_id")
        .group_by("vrf", "host", maintain_order=True)
        .agg(boxes=pl.col("name"), count=pl.len())
        .filter(pl.col("count") > 1)
        .sort("host")
    )
    for row in clashes.head(20).iter_rows(named=True):
        yield Hit(row["host"], f"{row['count']} interfaces have {row['host']}: {examples(pl.Series(row['boxes']))}")


@rule("RW602")
def duplicate_asns(plan: Plan) -> Iterator[Hit]:
    """Leaves of one network that share an AS number."""
    clashes = (
        plan.devices.filter((pl.col("role") == "leaf") & pl.col("asn").is_not_null())
        .group_by("network", "asn", maintain_order=True)
        .agg(boxes=pl.col("name"), count=pl.len())
        .filter(pl.col("count") > 1)
        .sort("asn")
    )
    for row in clashes.head(20).iter_rows(named=True):
        yield Hit(
            f"AS {row['asn']}", f"{row['count']} {row['network']} leaves share it: {examples(pl.Series(row['boxes']))}"
        )
