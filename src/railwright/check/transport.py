"""Rules on what the backend's transport needs from switches and NICs: features, ordering, balance of flows."""

from collections.abc import Iterator

import polars as pl

from railwright.catalog.model import Nic, Switch
from railwright.check.engine import Hit, rule
from railwright.check.views import switch_capacity
from railwright.design.context import resolve_server
from railwright.design.plan import Plan
from railwright.design.qos_table import contracts_for, link_ends, qos_table
from railwright.design.thresholds import marking_bounds
from railwright.units import format_bytes

NEEDS = {
    "dcqcn+pfc": ("ecn", "pfc_classes"),
    "ecn-only": ("ecn",),
    "pfc-only": ("pfc_classes",),
    "lossy+spray": ("packet_spray",),
    "credits": (),
}
BALANCING_FEATURE = {
    "spray": "packet_spray",
    "adaptive": "adaptive_routing",
    "flowlet": "flowlet",
    "ecmp-qp": "qpn_hash",
}


def _platforms(plan: Plan) -> list[Switch]:
    keys = plan.devices.filter(pl.col("network") == "backend")["model"].unique().sort()
    return [plan.catalog.switches[key] for key in keys if key in plan.catalog.switches]


def _congestion(plan: Plan) -> str:
    backend = plan.spec.backend
    return backend.congestion or ("credits" if backend.transport == "infiniband" else "dcqcn+pfc")


def _balancing(plan: Plan) -> str:
    chosen = plan.spec.backend.load_balancing or plan.facts.get("backend", {}).get("load_balancing")
    return str(chosen or ("adaptive" if plan.spec.backend.transport == "infiniband" else "ecmp"))


def _needed(plan: Plan) -> tuple[str, ...]:
    reduction = ("in_network_reduction",) if plan.spec.backend.in_network_reduction else ()
    return NEEDS[_congestion(plan)] + reduction


def _has_spines(plan: Plan) -> bool:
    return not plan.devices.filter((pl.col("network") == "backend") & (pl.col("role") == "spine")).is_empty()


@rule("RW301")
def missing_feature(plan: Plan) -> Iterator[Hit]:
    """Platforms that are known not to have a feature that is needed."""
    for switch in _platforms(plan):
        for feature in _needed(plan):
            value = getattr(switch.features, feature)
            if value is False or value == 0:
                yield Hit(
                    switch.key, f"{switch.name} has no {feature.replace('_', ' ')}, which {_congestion(plan)} needs"
                )


@rule("RW302")
def spray_without_reordering(plan: Plan) -> Iterator[Hit]:
    """Spray or adaptive routing toward NICs that are known to need packets in order."""
    if _balancing(plan) not in ("spray", "adaptive") or not _has_spines(plan):
        return
    nic = _nic(plan)
    if nic is not None and nic.out_of_order_receive is False:
        yield Hit(
            nic.key, f"{nic.name} takes packets out of order for losses, and the backend is set to {_balancing(plan)}"
        )


@rule("RW303")
def balancing_not_offered(plan: Plan) -> Iterator[Hit]:
    """Platforms that are known not to offer the chosen load balancing."""
    feature = BALANCING_FEATURE.get(_balancing(plan))
    if feature is None or not _has_spines(plan):
        return
    for switch in _platforms(plan):
        if getattr(switch.features, feature) is False:
            yield Hit(
                switch.key,
                f"{switch.name} has no {feature.replace('_', ' ')}, and the backend is set to {_balancing(plan)}",
            )


@rule("RW304")
def unknown_feature(plan: Plan) -> Iterator[Hit]:
    """Features that the plan relies on and the catalog does not know."""
    balancing = BALANCING_FEATURE.get(_balancing(plan))
    wanted = (*_needed(plan), *((balancing,) if balancing and _has_spines(plan) else ()))
    for switch in _platforms(plan):
        unknown = [name.replace("_", " ") for name in wanted if getattr(switch.features, name) is None]
        if unknown:
            yield Hit(switch.key, f"not known of {switch.name}: {', '.join(unknown)}")
    nic = _nic(plan)
    if (
        nic is not None
        and _balancing(plan) in ("spray", "adaptive")
        and _has_spines(plan)
        and nic.out_of_order_receive is None
    ):
        yield Hit(nic.key, f"not known of {nic.name}: whether it receives out of order")


@rule("RW311")
def pause_before_mark(plan: Plan) -> Iterator[Hit]:
    """Switches whose ECN threshold is so high that PFC can pause first; the worst switch of each platform and class."""
    table = plan.table("qos")
    ethernet = {name: own for name, own in contracts_for(plan).items() if own.transport == "rocev2"}
    if table.is_empty():
        table = qos_table(plan, ethernet)
    bounds = marking_bounds(plan, table, link_ends(plan)).filter(pl.col("kmin_bytes") > pl.col("most_bytes"))
    worst = bounds.sort(pl.col("kmin_bytes") / pl.col("most_bytes"), descending=True, maintain_order=True)
    counted = worst.group_by("model", "class", maintain_order=True).agg(pl.all().first(), switches=pl.len())
    for row in counted.iter_rows(named=True):
        more = f" (and {row['switches'] - 1} more {row['model']})" if row["switches"] > 1 else ""
        told = f"class {row['class']} of {row['device']}{more} marks from {format_bytes(row['kmin_bytes'])}, but with"
        told += f" {row['ports']:.0f} lossless ports "
        if row["most_bytes"] > 0:
            told += f"PFC can pause from {format_bytes(row['most_bytes'])} per queue"
        else:
            told += (
                f"headroom takes {format_bytes(row['reserved_bytes'])} of a pool of {format_bytes(row['pool_bytes'])}"
            )
        yield Hit(row["device"], told)


@rule("RW111")
def elephants_on_hashed_paths(plan: Plan) -> Iterator[Hit]:
    """Few flows per uplink under a static hash."""
    if _balancing(plan) not in ("ecmp", "ecmp-qp"):
        return
    leaves = switch_capacity(plan, "backend").filter((pl.col("role") == "leaf") & (pl.col("up_ports") > 0))
    if leaves.is_empty():
        return
    per_pair = plan.spec.workload.flows_per_pair if plan.spec.workload else 1
    endpoints = (
        plan.ports.filter((pl.col("network") == "backend") & (pl.col("direction") == "down"))
        .group_by("device_id")
        .len()
    )
    worst = (
        leaves.join(endpoints, on="device_id")
        .with_columns(flows=pl.col("len") * per_pair)
        .sort("flows", "name")
        .row(0, named=True)
    )
    flows, uplinks = int(worst["flows"]), int(worst["up_ports"])
    idle = (1 - 1 / uplinks) ** flows
    if idle > 0.05:
        yield Hit(
            "backend leaves",
            f"{flows} flows hash onto {uplinks} uplinks of {worst['name']}: about {idle:.0%} of the uplinks stay idle while "
            "others carry several flows",
        )


def _nic(plan: Plan) -> Nic | None:
    server = resolve_server(plan.spec, plan.catalog)
    return plan.catalog.nics.get(server.backend.nic)
