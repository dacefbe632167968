"""Rules on the servers: one NIC per GPU, and a slot that feeds it."""

from collections.abc import Iterator

import polars as pl

from railwright.check.engine import Hit, rule
from railwright.design.context import resolve_server
from railwright.design.plan import Plan
from railwright.units import format_gbps

PCIE_GT_PER_LANE = {3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
"""Transfer rate per lane and direction in GT/s (PCI Express base specification 3.0 to 6.0)."""
PCIE_CODING = {3: 128 / 130, 4: 128 / 130, 5: 128 / 130, 6: 242 / 256}
"""Payload share of the line code: 128b/130b, and the 242 of 256 bytes of a flit that carry data in generation 6."""


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
    generation = min(nic.pcie_generation, server.pcie_generation)
    slot = PCIE_GT_PER_LANE[generation] * PCIE_CODING[generation] * nic.pcie_lanes
    ports = plan.ports.filter((pl.col("network") == "backend") & (pl.col("direction") == "host"))
    per_nic = ports.group_by("device_id", "nic").agg(gbps=pl.col("speed_gbps").sum())["gbps"].max()
    if isinstance(per_nic, float) and per_nic > slot:
        yield Hit(
            server.key,
            f"PCIe {generation} x{nic.pcie_lanes} carries {format_gbps(slot)}, the NIC's ports {format_gbps(per_nic)}",
        )
