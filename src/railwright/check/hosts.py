"""Rules on the servers: one NIC per GPU, and a slot that feeds it."""

from collections.abc import Iterator

import polars as pl

from railwright.check.engine import Hit, rule
from railwright.design.context import resolve_server
from railwright.design.plan import Plan
from railwright.units import format_gbps


@rule("RW801")
def nics_per_gpu(plan: Plan) -> Iterator[Hit]:
    """Servers whose backend NICs do not match their GPUs."""
    server = resolve_server(plan.spec, plan.catalog)
    if server.backend.count != server.gpus:
        yield Hit(server.key, f"{server.backend.count} backend NICs for {server.gpus} GPUs per server")


@rule("RW802")
def pcie_slower_than_nic(plan: Plan) -> Iterator[Hit]:
    """NICs whose slot carries less than their ports."""
    server = resolve_server(plan.spec, plan.catalog)
    nic = plan.catalog.nics.get(server.backend.nic)
    if nic is None:
        return
    slot_gbps = nic.host_gbps(server.pcie_generation)
    ports = plan.ports.filter((pl.col("network") == "backend") & (pl.col("direction") == "host"))
    per_nic = ports.group_by("device_id", "nic").agg(gbps=pl.col("speed_gbps").sum())["gbps"].max()
    if isinstance(per_nic, float) and slot_gbps is not None and per_nic > slot_gbps:
        yield Hit(
            server.key,
            f"PCIe {server.pcie_generation} x{nic.pcie_lanes} carries {format_gbps(slot_gbps)}, "
            f"the NIC's ports {format_gbps(per_nic)}",
        )
