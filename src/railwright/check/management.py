"""Rules on management: everything reachable out of band, and room left on its wires."""

from collections.abc import Iterator

import polars as pl

from railwright.check.engine import Hit, rule
from railwright.check.views import examples
from railwright.design.plan import Plan
from railwright.units import format_gbps

MANAGED_ROLES = (
    "server",
    "leaf",
    "spine",
    "core",
    "border",
    "firewall",
    "load_balancer",
    "storage",
    "head",
    "pdu",
    "appliance",
)


@rule("RW501")
def telemetry_load(plan: Plan) -> Iterator[Hit]:
    """Telemetry above half of the out-of-band uplinks."""
    management = plan.spec.management
    if not management.enabled:
        return
    switches = plan.devices.filter(pl.col("role").is_in(["leaf", "spine", "core", "border"])).select("device_id")
    ports = len(plan.ports.join(switches, on="device_id", how="semi"))
    load = ports * management.telemetry_bytes_per_port * 8 / (management.telemetry_interval / 1e6) / 1e9
    uplinks = float(
        plan.links.filter((pl.col("network") == "management") & (pl.col("tier") == "uplink"))["speed_gbps"].sum()
    )
    if uplinks and load > uplinks / 2:
        yield Hit(
            "management.telemetry_interval",
            f"{ports} switch ports send {format_gbps(load)} of counters over out-of-band uplinks of {format_gbps(uplinks)}",
        )


@rule("RW502")
def unreachable_out_of_band(plan: Plan) -> Iterator[Hit]:
    """Boxes without an out-of-band port."""
    if not plan.spec.management.enabled:
        return
    reached = (
        plan.ports.filter(pl.col("network") == "management")
        .join(plan.links.filter(pl.col("tier") == "oob").select(port_id="a_port"), on="port_id", how="semi")
        .select("device_id")
    )
    lost = (
        plan.devices.filter(pl.col("role").is_in(MANAGED_ROLES))
        .join(reached, on="device_id", how="anti")
        .sort("device_id")
    )
    for (role,), rows in lost.group_by(["role"], maintain_order=True):
        yield Hit(f"{role} boxes", f"{len(rows)} have no out-of-band link: {examples(rows['name'])}")
