"""The backend: picks shape and switches, wires every fabric and records what was chosen and why."""

from railwright.catalog.model import Nic, Switch
from railwright.design.context import Context
from railwright.design.sizing import Shape
from railwright.design.topology.attachment import Attachment
from railwright.design.topology.auto import choose_attachment
from railwright.design.topology.ports import Platforms, choose_platforms
from railwright.design.topology.shape import design_shape
from railwright.design.topology.subnet import add_subnet_managers
from railwright.design.topology.wire import wire
from railwright.errors import InputError
from railwright.units import format_gbps


def design_backend(context: Context) -> None:
    """Add the backend to ``context.wiring``; raises InputError for what cannot be built."""
    backend = context.spec.backend
    attachment = choose_attachment(context)
    platforms = choose_platforms(backend, context.catalog, attachment.gbps)
    shape = design_shape(context, attachment, platforms, _tiers(context, attachment))
    fabric = wire(context, attachment, platforms, shape)
    _record(context, attachment, platforms, shape)
    add_subnet_managers(fabric)


def _tiers(context: Context, attachment: Attachment) -> int | None:
    tiers = context.spec.backend.tiers
    if attachment.topology == "rail-only":
        return tiers or 1
    if tiers == 1:
        raise InputError(f"{attachment.topology} has spines; one tier is topology: rail-only", key="backend.tiers")
    return tiers


def _record(context: Context, attachment: Attachment, platforms: Platforms, shape: Shape) -> None:
    backend, decisions = context.spec.backend, context.decisions["backend"]
    decisions.facts.update(
        {
            "transport": backend.transport,
            "rails": attachment.rails,
            "fabrics": attachment.fabrics,
            "units": shape.units,
            "servers_per_unit": shape.servers_per_unit,
            "pods": shape.pods,
            "port_gbps": attachment.gbps,
            "uplink_gbps": platforms.uplink_gbps,
            "leaf_switch": platforms.leaf.key,
        }
    )
    if shape.spines:
        decisions.facts["spine_switch"] = platforms.spine.key
        up = shape.leaf_up * platforms.uplink_gbps
        decisions.choose(
            "leaf_oversubscription",
            round(shape.leaf_down * attachment.gbps / up, 4),
            f"{format_gbps(shape.leaf_down * attachment.gbps)} down, {format_gbps(up)} up on a full leaf",
        )
    if shape.cores:
        decisions.facts["core_switch"] = platforms.core.key
        decisions.choose(
            "spine_oversubscription",
            round(shape.spine_down / shape.spine_up, 4),
            f"{shape.spine_down} ports down, {shape.spine_up} up on a full spine",
        )
    if backend.switch is None and backend.leaf_switch is None:
        decisions.choose(
            "switch", platforms.leaf.key, f"the default for {backend.transport} at {format_gbps(attachment.gbps)}"
        )
    nic = context.catalog.nic(context.server.backend.nic)
    if backend.load_balancing is None:
        decisions.choose("load_balancing", *_balancing(context, platforms.leaf, nic, spines=bool(shape.spines)))
    else:
        decisions.choose("load_balancing", backend.load_balancing, "asked for")
    credits_only = backend.transport == "infiniband"
    decisions.choose(
        "congestion",
        backend.congestion or ("credits" if credits_only else "dcqcn+pfc"),
        "asked for"
        if backend.congestion
        else "InfiniBand is lossless by credits"
        if credits_only
        else "ECN slows senders first, PFC is the last resort",
    )


def _balancing(context: Context, switch: Switch, nic: Nic, *, spines: bool) -> tuple[str, str]:
    """Return the best load balancing that switch and NIC both are known to do, and why."""
    features = switch.features
    if not spines:
        return "ecmp", "there is one path only"
    if context.spec.backend.transport == "infiniband":
        if features.adaptive_routing:
            return "adaptive", f"{switch.key} routes adaptively"
        return "ecmp", f"adaptive routing of {switch.key} is not known"
    if nic.out_of_order_receive:
        if features.adaptive_routing:
            return "adaptive", f"{switch.key} routes adaptively and {nic.key} takes packets out of order"
        if features.packet_spray:
            return "spray", f"{switch.key} sprays packets and {nic.key} takes them out of order"
    if features.flowlet:
        return "flowlet", f"{switch.key} moves flowlets; {nic.key} is not known to take packets out of order"
    return "ecmp-qp", f"no spraying that {switch.key} and {nic.key} both are known to do: several queue pairs per peer"
