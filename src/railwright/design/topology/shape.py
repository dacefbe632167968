"""From the size of the cluster and the radix of its switches to the shape of one fabric, with every choice recorded.

Port counts and the numbers of spines and cores are those of the size to grow to, units those that are built now: a fabric
that has been planned with ``growth`` gains units and pods later without moving a cable.
"""

from dataclasses import dataclass, replace

from railwright.design.context import Context
from railwright.design.sizing import Shape, ceil_div, largest_units, split_cages, uplinks_needed, upper_switches
from railwright.design.topology.attachment import Attachment
from railwright.design.topology.ports import Platforms, downlinks_left, leaf_split, uplinks_left
from railwright.design.wiring import cage_group
from railwright.errors import InputError
from railwright.units import format_gbps


@dataclass(frozen=True)
class _Leaf:
    """A leaf of a full unit; ``given`` says that its unit count is the user's own."""

    servers: int
    down: int
    up: int
    units: int
    per_unit: int
    given: bool = False
    scattered: bool = False


def design_shape(context: Context, attachment: Attachment, platforms: Platforms, tiers: int | None) -> Shape:
    """Return the shape of each fabric; ``tiers`` None takes as few as the size needs.

    Raises InputError with the largest size that fits and what to take instead when the cluster is too large.
    """
    if tiers == 1:
        return _one_tier(context, attachment, platforms)
    leaf = _leaf(context, attachment, platforms)
    backend = context.spec.backend
    if not leaf.up or backend.counts.spines == 0:
        context.decisions["backend"].choose(
            "tiers", 1, "no uplinks or no spines are asked for: the leaves are not joined"
        )
        return replace(_leaves_only(context, leaf), pod_units=leaf.units)
    pod_needed = backend.pod_units is not None and backend.pod_units < leaf.units
    if tiers is None:
        fits = leaf.units <= largest_units(leaf.per_unit, platforms.spine_ports)
        tiers = 3 if pod_needed or backend.counts.cores or not (fits or leaf.given) else 2
        why = (
            f"{leaf.units * leaf.per_unit} leaves of a fabric fit the {platforms.spine_ports} ports of a spine"
            if tiers == 2
            else "pods or cores are asked for"
            if fits
            else f"{leaf.units * leaf.per_unit} leaves of a fabric exceed the {platforms.spine_ports} ports of a spine"
        )
        context.decisions["backend"].choose("tiers", tiers, why)
    else:
        context.decisions["backend"].choose("tiers", tiers, "asked for")
    if tiers == 2:
        return _two_tiers(context, attachment, platforms, leaf)
    return _three_tiers(context, attachment, platforms, leaf)


def _one_tier(context: Context, attachment: Attachment, platforms: Platforms) -> Shape:
    backend, decisions = context.spec.backend, context.decisions["backend"]
    per_server = attachment.leaf_ports_per_server
    radix = platforms.leaf.ports_at(attachment.gbps)
    down = backend.counts.leaf_down_ports or radix
    fit = min(backend.servers_per_unit or down, down // per_server)
    leaves = backend.counts.leaves
    if leaves is None and context.reserved_servers > fit:
        raise InputError(
            f"{attachment.topology} without spines ends at {fit * context.server.gpus} GPUs here: one {platforms.leaf.key} "
            f"gives {down} ports of {format_gbps(attachment.gbps)}, and {context.reserved_servers} servers "
            f"({context.reserved_servers * context.server.gpus} GPUs) need {context.reserved_servers * per_server}; take "
            "topology: rail-optimized, or tiers: 2 to keep the rails apart",
            key="backend.topology",
        )
    decisions.choose(
        "tiers", 1, "every rail fits one leaf" if leaves is None else f"{leaves} leaves per rail are asked for"
    )
    return Shape(
        tiers=1,
        units=leaves or 1,
        leaves_per_unit=1,
        servers_per_unit=ceil_div(context.reserved_servers, leaves) if leaves else fit,
        leaf_down=down,
    )


def _leaf(context: Context, attachment: Attachment, platforms: Platforms) -> _Leaf:
    backend, decisions = context.spec.backend, context.decisions["backend"]
    counts, ratio = backend.counts, backend.oversubscription.leaf
    gbps, uplink = attachment.gbps, platforms.uplink_gbps
    per_server, per_unit = attachment.leaf_ports_per_server, attachment.leaves_per_unit
    total = context.reserved_servers
    if counts.leaf_down_ports is not None:
        down = counts.leaf_down_ports
    elif counts.leaf_up_ports is not None:
        down = downlinks_left(platforms.leaf, counts.leaf_up_ports, gbps, uplink)
    else:
        down = leaf_split(platforms.leaf, gbps, uplink, ratio).down
    servers = backend.servers_per_unit or down // per_server
    if not servers:
        raise InputError(
            f"a {platforms.leaf.key} leaf has {down} ports of {format_gbps(gbps)} toward servers and one server needs "
            f"{per_server}; take a larger switch or more oversubscription",
            key="backend.leaf_switch",
        )
    units, scattered = ceil_div(total, servers), False
    if counts.leaves is not None:
        scattered = counts.leaves % per_unit != 0
        units = counts.leaves if scattered else counts.leaves // per_unit
        per_unit = 1 if scattered else per_unit
        ports = total * attachment.rails * attachment.ports
        servers = ceil_div(ports, units) if scattered else ceil_div(total, units)
    elif not backend.full_units:
        servers = ceil_div(total, units)
    used = servers if scattered else servers * per_server
    up = counts.leaf_up_ports
    if up is None:
        up = min(uplinks_needed(used, gbps, uplink, ratio), uplinks_left(platforms.leaf, used, gbps, uplink))
        if not up and units * per_unit > 1:
            raise InputError(
                f"{used} ports toward servers leave no uplink on {platforms.leaf.key}; "
                f"at 1:1 it has {leaf_split(platforms.leaf, gbps, uplink, 1.0).down}",
                key="backend.counts.leaf_down_ports" if counts.leaf_down_ports else "backend.servers_per_unit",
            )
    decisions.choose(
        "leaf_down_ports",
        used,
        f"{used} x {format_gbps(gbps)} down and {up} x {format_gbps(uplink)} up on {platforms.leaf.key}",
    )
    decisions.choose(
        "leaf_up_ports", up, "asked for" if counts.leaf_up_ports is not None else f"oversubscription {ratio:g}:1"
    )
    return _Leaf(servers, used, up, units, per_unit, given=counts.leaves is not None, scattered=scattered)


def _two_tiers(context: Context, attachment: Attachment, platforms: Platforms, leaf: _Leaf) -> Shape:
    spines = context.spec.backend.counts.spines
    leaves = leaf.units * leaf.per_unit
    if spines is None:
        spines = upper_switches(leaves, leaf.up, platforms.spine_ports)
        if spines is None:
            most = largest_units(leaf.per_unit, platforms.spine_ports)
            raise _too_large(
                context, leaf, most, f"tiers: 3, or planes, or a spine of more than {platforms.spine_ports} ports"
            )
        why = f"the smallest count >= {leaves} x {leaf.up} / {platforms.spine_ports} that divides the {leaf.up} uplinks of a leaf"
    else:
        why = "asked for"
    context.decisions["backend"].choose("spines", spines * attachment.fabrics, why)
    return replace(
        _leaves_only(context, leaf),
        tiers=2,
        leaf_up=leaf.up,
        pod_units=leaf.units,
        spines_per_pod=spines,
        spine_down=platforms.spine_ports,
    )


def _three_tiers(context: Context, attachment: Attachment, platforms: Platforms, leaf: _Leaf) -> Shape:
    backend, decisions = context.spec.backend, context.decisions["backend"]
    uplink, ratio = platforms.uplink_gbps, backend.oversubscription.spine
    group, _ = cage_group(platforms.spine, uplink, "fabric")
    per_cage = group.ports_at(uplink)
    spine_down = split_cages(group.count, per_cage, uplink, per_cage, uplink, ratio).down
    most_in_pod = largest_units(leaf.per_unit, spine_down)
    pod_units = min(backend.pod_units or most_in_pod, leaf.units)
    if not pod_units or (backend.pod_units or 0) > most_in_pod:
        raise InputError(
            f"a pod of {backend.pod_units or 1} units has {(backend.pod_units or 1) * leaf.per_unit} leaves and a spine "
            f"{spine_down} ports toward them; at most {most_in_pod} units",
            key="backend.pod_units" if backend.pod_units else "backend.spine_switch",
        )
    pods = ceil_div(leaf.units, pod_units)
    wanted = backend.counts.spines
    spines = (
        upper_switches(pod_units * leaf.per_unit, leaf.up, spine_down) if wanted is None else ceil_div(wanted, pods)
    )
    if spines is None:
        raise _too_large(context, leaf, largest_units(leaf.per_unit, spine_down, pods), "a spine of more ports")
    used = ceil_div(pod_units * leaf.per_unit * leaf.up, spines)
    spine_up = min(uplinks_needed(used, uplink, uplink, ratio), uplinks_left(platforms.spine, used, uplink, uplink))
    cores = backend.counts.cores
    if cores is None:
        per_group = upper_switches(pods, spine_up, platforms.core_ports)
        if per_group is None:
            most = largest_units(leaf.per_unit, spine_down, platforms.core_ports)
            raise _too_large(context, leaf, most, f"planes, or a core of more than {platforms.core_ports} ports")
    else:
        per_group = cores // spines
    uneven = wanted is not None and wanted % pods != 0
    shape = replace(
        _leaves_only(context, leaf),
        tiers=3,
        leaf_up=leaf.up,
        pod_units=pod_units,
        spines_per_pod=spines,
        spine_down=used,
        spine_up=spine_up,
        cores_per_group=per_group,
        spine_total=wanted if uneven else None,
        core_total=cores if cores is not None and (uneven or cores % spines) else None,
    )
    decisions.choose("pod_units", pod_units, f"{pod_units * leaf.per_unit} leaves on the {spine_down} ports of a spine")
    decisions.choose(
        "spines",
        shape.spines * attachment.fabrics,
        f"{spines} per pod: the smallest count >= {pod_units * leaf.per_unit} x {leaf.up} / {spine_down} that divides the "
        f"{leaf.up} uplinks of a leaf"
        if wanted is None
        else "asked for",
    )
    decisions.choose(
        "cores",
        shape.cores * attachment.fabrics,
        f"{per_group} in each of {spines} groups; spine i of every pod meets group i" if cores is None else "asked for",
    )
    return shape


def _leaves_only(context: Context, leaf: _Leaf) -> Shape:
    return Shape(
        tiers=1,
        units=leaf.units if leaf.given else ceil_div(context.servers, leaf.servers),
        leaves_per_unit=leaf.per_unit,
        servers_per_unit=leaf.servers,
        leaf_down=leaf.down,
        scattered=leaf.scattered,
    )


def _too_large(context: Context, leaf: _Leaf, units: int, instead: str) -> InputError:
    most = units * leaf.servers * context.server.gpus
    return InputError(
        f"{context.reserved_servers * context.server.gpus} GPUs exceed the {most} that this many tiers reach with these "
        f"switches; take {instead}",
        key="backend.tiers",
    )
