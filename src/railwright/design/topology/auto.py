"""Picks the topology from the size, the radix, the NICs and the traffic, and says why."""

from railwright.catalog.model import Server
from railwright.design.context import Context
from railwright.design.topology.attachment import Attachment, leaf_spine, multi_plane, rail_only, rail_optimized
from railwright.design.topology.ports import choose_platforms
from railwright.spec.cluster import Backend

KINDS = {
    "rail-only": rail_only,
    "rail-optimized": rail_optimized,
    "leaf-spine": leaf_spine,
    "multi-plane": multi_plane,
}


def choose_attachment(context: Context) -> Attachment:
    """Return the attachment of the spec's topology; ``auto`` is resolved first."""
    backend, decisions = context.spec.backend, context.decisions["backend"]
    if backend.topology != "auto":
        return KINDS[backend.topology](backend, context.server, decisions)
    kind, planes, why = _pick(context)
    if planes is not None:
        backend = backend.model_copy(update={"planes": planes})
    attachment = KINDS[kind](backend, context.server, decisions)
    decisions.choose("topology", kind, f"auto: {why}")
    return attachment


def _pick(context: Context) -> tuple[str, int | None, str]:
    """Return the kind, the planes (None: as in the spec) and the reason."""
    backend, server = context.spec.backend, context.server
    nic = server.backend
    planes = backend.planes or nic.ports
    if nic.count == 1:
        return "leaf-spine", None, f"{server.key} has one NIC, so there is only one rail"
    if (backend.tiers or 1) == 1 and not _wants_spines(backend):
        fit = _rail_only_servers(context, planes)
        crossing = _crossing(context, server)
        if crossing is None and context.reserved_servers <= fit:
            return (
                "rail-only",
                planes,
                f"{context.reserved_servers} servers fit the {fit} that one leaf per rail takes, and traffic between rails "
                "has the scale-up network: the fewest switches and one hop",
            )
        if crossing is not None and context.reserved_servers <= fit:
            return "rail-optimized", None, f"one leaf per rail would do, but {crossing}"
    if planes > 1:
        return (
            "multi-plane",
            planes,
            f"the NICs have {planes} ports, and planes keep a leaf failure to a part of one rail"
            if backend.planes is None
            else f"{planes} planes are asked for",
        )
    return "rail-optimized", None, f"{context.reserved_servers} servers exceed what one leaf per rail takes"


def _rail_only_servers(context: Context, planes: int) -> int:
    nic = context.server.backend
    gbps = nic.gbps * nic.ports / planes if planes > nic.ports else nic.gbps
    platforms = choose_platforms(context.spec.backend, context.catalog, gbps)
    return platforms.leaf.ports_at(gbps) // max(1, nic.ports // planes)


def _crossing(context: Context, server: Server) -> str | None:
    """Return why traffic between rails needs the network, or None when it does not."""
    workload = context.spec.workload
    if server.gpus > 1 and server.scale_up_gpus == 1:
        return f"the GPUs of {server.key} have no scale-up network to cross rails on"
    if workload is not None and workload.cross_rail == "network":
        return f"{workload.name} sends between rails through the network"
    return None


def _wants_spines(backend: Backend) -> bool:
    counts = backend.counts
    return bool(counts.spines or counts.cores or counts.leaf_up_ports or backend.pod_units)
