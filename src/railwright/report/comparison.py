"""The three comparison tables of the report, filled with the values of one plan.

Frontend against backend, the four networks, and InfiniBand against RoCEv2 with the side that the plan took. Each table is
plain data: a list of columns and rows of text.
"""

from dataclasses import dataclass

import polars as pl

from railwright.check.views import switch_capacity
from railwright.design.context import resolve_server
from railwright.design.plan import Plan
from railwright.units import counted, format_data, format_gbps, format_ratio

FIBRE_US_PER_KM = 4.9
"""One-way delay of single-mode fibre (ITU-T G.652, group index 1.468)."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A table of text: ``columns`` has the aspect first, ``chosen`` is the column that this plan took, if any."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    chosen: str | None = None


def compare_networks(plan: Plan) -> tuple[Comparison, ...]:
    """Return the three tables for ``plan``."""
    return (frontend_and_backend(plan), four_networks(plan), infiniband_and_rocev2(plan))


def frontend_and_backend(plan: Plan) -> Comparison:
    """Return what the two networks are for and how this plan builds each."""
    spec, server = plan.spec, resolve_server(plan.spec, plan.catalog)
    servers = len(plan.devices.filter(pl.col("role") == "server"))
    gpus = servers * server.gpus
    nic = format_gbps(server.backend.gbps * server.backend.ports)
    target_us = spec.backend.latency_target_ns / 1000
    distance_km = max(site.distance for site in spec.sites) / 1000
    sites = len(spec.sites)
    return Comparison(
        "Frontend and backend of this plan",
        ("Aspect", "Frontend", "Backend"),
        (
            ("Primary traffic", _frontend_traffic(plan), f"east-west: collectives and point-to-point of {gpus:,} GPUs"),
            (
                "Endpoints",
                _frontend_endpoints(plan),
                f"{gpus:,} GPUs with {server.backend.count} x {nic} NICs per server ({counted(servers, 'server', 'servers')})",
            ),
            ("Transport", "TCP/IP over Ethernet", _transport_name(plan)),
            ("Loss tolerance", "routine: TCP retransmits", _loss_tolerance(plan)),
            (
                "Latency target",
                "milliseconds, as people feel them",
                f"below {target_us:g} us from port to port; the tail counts",
            ),
            (
                "Oversubscription",
                f"{_oversubscription(plan, 'frontend')} (target {format_ratio(spec.frontend.oversubscription)})",
                f"{_oversubscription(plan, 'backend')} (target 1:1)",
            ),
            ("Failure goal", _frontend_failure(plan), _backend_failure(plan)),
            (
                "Stretch over sites",
                f"{sites} sites, {distance_km:g} km"
                if sites > 1
                else "possible: anycast and load balancers hide distance",
                f"no: 1 km of fibre adds {2 * FIBRE_US_PER_KM:.1f} us per round trip, "
                f"{2 * FIBRE_US_PER_KM / target_us:.0f} times the port-to-port target",
            ),
            (
                "Cost of getting it wrong",
                "slow or lost sessions",
                f"{gpus:,} idle GPUs: every percent of exposed communication idles {gpus / 100:,.0f} of them",
            ),
        ),
    )


def four_networks(plan: Plan) -> Comparison:
    """Return function, traffic, requirement and size of each of the four networks."""
    demand = plan.spec.demand
    storage_traffic = [
        f"dataset reads of {format_data(demand.dataset_read)}/s" if demand.dataset_read else "dataset reads",
        f"checkpoints of {format_data(demand.checkpoint)}" if demand.checkpoint else "checkpoints and model files",
    ]
    texts = {
        "backend": (
            "GPU to GPU between servers",
            "gradients, activations, experts' tokens",
            "full bandwidth and a short tail",
        ),
        "frontend": (
            "users and services to the cluster",
            _frontend_traffic(plan),
            "availability, security, connectivity",
        ),
        "storage": (
            "servers to datasets and checkpoints",
            ", ".join(storage_traffic),
            "throughput and dependable access",
        ),
        "management": (
            "operators to every box",
            "configuration, telemetry, consoles",
            "isolation; works when the rest fails",
        ),
    }
    rows = []
    for network, (function, traffic, requirement) in texts.items():
        rows.append(
            (network.capitalize(), function, traffic, requirement, _built_as(plan, network), _isolation(plan, network))
        )
    return Comparison(
        "The four networks",
        ("Network", "Function", "Typical traffic", "Key requirement", "In this plan", "Isolation"),
        tuple(rows),
    )


def infiniband_and_rocev2(plan: Plan) -> Comparison:
    """Return the two transports side by side; ``chosen`` is the plan's."""
    balancing = plan.spec.backend.load_balancing or plan.facts.get("backend", {}).get("load_balancing") or "ECMP"
    return Comparison(
        "InfiniBand and Ethernet with RoCEv2",
        ("Aspect", "InfiniBand", "RoCEv2"),
        (
            (
                "Foundation",
                "a fabric of its own, lossless by link credits",
                "routed Ethernet, lossless where configured",
            ),
            ("RDMA support", "native transport", "RDMA in UDP/IP (port 4791)"),
            (
                "Congestion handling",
                "credits per virtual lane; FECN/BECN; adaptive routing",
                f"ECN with DCQCN first, PFC as the last resort; here {plan.spec.backend.congestion or 'dcqcn+pfc'}, {balancing}",
            ),
            (
                "Ecosystem",
                "switches, adapters and subnet manager of few vendors",
                "several switch and NIC vendors, open NOS",
            ),
            ("Focus", "dedicated HPC and AI fabrics", "AI fabrics run with Ethernet tools and skills"),
            (
                "Engineering priorities",
                "subnet manager and its standby, routing engine, partitions, in-network reduction",
                "headroom and thresholds, marking, hashing or spray, interoperability",
            ),
        ),
        chosen="InfiniBand" if plan.spec.backend.transport == "infiniband" else "RoCEv2",
    )


def _frontend_traffic(plan: Plan) -> str:
    demand = plan.spec.demand
    parts = ["north-south: users, APIs, inference, ingest"]
    if demand.requests:
        parts.append(
            f"{demand.requests:,.0f} requests/s of {format_data(demand.request_bytes + demand.response_bytes)}"
        )
    return ", ".join(parts)


def _frontend_endpoints(plan: Plan) -> str:
    counts = (
        plan.named_links()
        .filter((pl.col("network") == "frontend") & (pl.col("tier").is_in(["host", "service"])))
        .group_by("a_role")
        .agg(count=pl.col("a_device_id").n_unique())
        .sort("a_role")
    )
    return ", ".join(f"{count:,} {role.replace('_', ' ')}" for role, count in counts.iter_rows()) or "none"


def _transport_name(plan: Plan) -> str:
    return "RDMA over InfiniBand" if plan.spec.backend.transport == "infiniband" else "RDMA over Ethernet (RoCEv2)"


def _loss_tolerance(plan: Plan) -> str:
    if plan.spec.backend.transport == "infiniband":
        return "none: credits prevent loss"
    if plan.spec.backend.congestion == "lossy+spray":
        return "small: the NIC repairs loss selectively"
    return "effectively none: a loss stalls the queue pair"


def _oversubscription(plan: Plan, network: str) -> str:
    leaves = switch_capacity(plan, network).filter((pl.col("role") == "leaf") & (pl.col("up_gbps") > 0))
    if leaves.is_empty():
        return "no uplinks" if network == "frontend" else "1:1, no tier above the leaves"
    ratio = leaves.select((pl.col("down_gbps") / pl.col("up_gbps")).max()).item()
    return format_ratio(float(ratio))


def _frontend_failure(plan: Plan) -> str:
    detection = "BFD" if plan.spec.frontend.bfd else "BGP timers"
    return f"sessions survive: two leaves per server, {detection}"


def _backend_failure(plan: Plan) -> str:
    return "the job's completion time survives: a leaf failure costs at most one rail of a server"


def _built_as(plan: Plan, network: str) -> str:
    if network in plan.spec.converge and network != plan.spec.converge[0]:
        return f"on the {plan.spec.converge[0]} fabric"
    switches = plan.devices.filter(
        (pl.col("network") == network) & pl.col("role").is_in(["leaf", "spine", "core", "border", "tor", "oob"])
    )
    links = plan.links.filter(pl.col("network") == network)
    if switches.is_empty():
        return "not built"
    counts = switches.group_by("role", maintain_order=True).len().iter_rows()
    return ", ".join(f"{count:,} {role}" for role, count in counts) + f"; {counted(len(links), 'link', 'links')}"


def _isolation(plan: Plan, network: str) -> str:
    isolation = {
        "backend": plan.spec.backend.isolation,
        "frontend": plan.spec.frontend.isolation,
        "storage": plan.spec.storage.isolation,
        "management": plan.spec.management.isolation,
    }[network]
    return {"vrf": "VRF (VXLAN)", "vlan": "VLAN", "partition": "InfiniBand partition"}.get(isolation, isolation)
