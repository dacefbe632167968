"""Rules on management: everything reachable out of band, and room left on its wires."""

from collections.abc import Iterator

import polars as pl

from railwright.check.engine import Hit, rule
from railwright.check.views import examples
from railwright.design.plan import Plan
from railwright.units import format_gbps

OOB_PORT_GBPS = 1.0
"""Console and management ports of switches are 1000BASE-T."""

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
    "service",
    "pdu",
    "appliance",
)


@rule("RW501")
def telemetry_load(plan: Plan) -> Iterator[Hit]:
    """Telemetry above half of a switch's out-of-band port, or of all out-of-band uplinks together."""
    management = plan.spec.management
    if not management.enabled:
        return
    switches = plan.devices.filter(pl.col("role").is_in(["leaf", "spine", "core", "border"]))
    ports = plan.ports.group_by("device_id").len("ports")
    per_switch = switches.join(ports, on="device_id").select("name", "ports").sort("ports", "name")
    if per_switch.is_empty():
        return
    port_gbps = management.telemetry_bytes_per_port * 8 / (management.telemetry_interval / 1e6) / 1e9
    largest = per_switch.row(-1, named=True)
    if largest["ports"] * port_gbps > OOB_PORT_GBPS / 2:
        yield Hit(
            "management.telemetry_interval",
            f"{largest['name']} sends {format_gbps(largest['ports'] * port_gbps)} of counters over its {OOB_PORT_GBPS:g}G "
            "out-of-band port",
        )
    total = int(per_switch["ports"].sum()) * port_gbps
    uplinks = float(
        plan.links.filter((pl.col("network") == "management") & (pl.col("tier") == "uplink"))["speed_gbps"].sum()
    )
    if uplinks and total > uplinks / 2:
        yield Hit(
            "management.telemetry_interval",
            f"{int(per_switch['ports'].sum())} switch ports send {format_gbps(total)} of counters over out-of-band uplinks of "
            f"{format_gbps(uplinks)}",
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
