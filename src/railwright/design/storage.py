"""The storage network: a leaf-spine fabric of its own at every site with GPU servers, or appliances on a shared fabric.

Servers and appliances hang on leaf pairs of their own kind, dual-homed; storage frontends (the nodes that serve storage to
the frontend) stand with the appliances. Over InfiniBand the same shape is built of InfiniBand switches.
"""

from dataclasses import replace

import polars as pl

from railwright.catalog.model import Protocol
from railwright.design.attach import Bench, Boxes, add_boxes, connect_boxes, connect_servers, per_leaf
from railwright.design.context import Context
from railwright.design.converged import storage_on_backend
from railwright.design.entrance import site_key
from railwright.design.leaf_groups import box_group, close_group, close_insisted, host_group, seat
from railwright.design.peer_links import connect_managers
from railwright.design.server_ports import (
    ServerPorts,
    Switching,
    choose_switching,
    choose_uplink,
    port_rate,
    storage_ports,
)
from railwright.design.sites import most_servers, site_prefix, site_servers
from railwright.design.storage_boxes import appliance_boxes, storage_host
from railwright.design.topology.pairs import build_pairs, size_tiers
from railwright.design.wiring import Ids
from railwright.errors import InputError
from railwright.units import format_gbps

HOSTS, STORES = "storage-leaf", "storage-appliance-leaf"
SUBNET_MANAGERS = 2


def design_storage(context: Context) -> None:
    """Add the storage network to ``context.wiring``; raises InputError for what cannot be built.

    The frontend must be there already: appliances that share its fabric were added with it.
    """
    spec, decisions = context.spec, context.decisions["storage"]
    host = storage_host(context)
    if host is None:
        decisions.choose("enabled", False, "asked for")
        return
    if host == "backend":
        storage_on_backend(context)
        return
    if host == "frontend":
        asked = "storage" in spec.converge
        decisions.choose(
            "topology",
            "on the frontend",
            "asked for (converge)" if asked else f"{context.server.key} has no ports for a storage fabric of its own",
        )
        decisions.facts["transport"] = spec.storage.transport
        return
    found = storage_ports(context.server, spec.storage)
    if found is None:
        raise InputError(
            f"{context.server.key} has no storage ports and there is no frontend to share; turn frontend on or storage off",
            key="storage.enabled",
        )
    ports, why = found
    decisions.choose("ports_per_server", ports.count, why)
    appliances = appliance_boxes(context, "storage")
    switching = _switching(context, ports, sum(boxes.count for boxes in appliances.values()))
    for site in range(len(spec.sites)):
        if len(site_servers(context, site)[0]):
            _build(context, site, ports, switching, appliances.get(site))


def _switching(context: Context, ports: ServerPorts, appliances: int) -> Switching:
    section, decisions = context.spec.storage, context.decisions["storage"]
    protocol: Protocol = "infiniband" if section.transport == "infiniband" else "ethernet"
    group = context.server.storage
    if group is not None and not context.catalog.nic(group.nic).logical_ports(protocol)[0]:
        raise InputError(
            f"the storage adapters of {context.server.key} ({group.nic}) do not run {protocol}", key="storage.transport"
        )
    lower = group.lower_gbps if group is not None else ()
    switching = choose_switching(
        context.catalog,
        section,
        "storage",
        protocol,
        (ports.gbps, *lower),
        section.appliance_gbps if appliances else None,
    )
    decisions.choose("leaf_switch", switching.leaf.key, switching.why)
    switching = choose_uplink(
        switching, section, "storage", decisions, most_servers(context), per_leaf(ports), section.oversubscription
    )
    sent = appliances * section.appliance_ports * section.appliance_gbps
    taken = context.servers * ports.count * switching.gbps
    decisions.choose(
        "oversubscription",
        section.oversubscription,
        f"the appliances' ports send at most {format_gbps(sent)}, those of the servers could take {format_gbps(taken)}: a burst "
        "to few servers meets no bottleneck; where all servers read at once, the appliances are the limit",
    )
    decisions.facts.update(
        {
            "topology": "leaf-spine",
            "transport": section.transport,
            "spine_switch": switching.spine.key,
            "port_gbps": switching.gbps,
        }
    )
    return switching


def _build(context: Context, site: int, ports: ServerPorts, switching: Switching, appliances: Boxes | None) -> None:
    section, uplink = context.spec.storage, switching.uplink_gbps
    name, prefix, ratio = context.spec.sites[site].name, site_prefix(context, site), section.oversubscription
    servers, reserved = site_servers(context, site)
    hosts = host_group(
        switching,
        section.counts,
        "storage",
        word=HOSTS,
        boxes=len(servers),
        reserved=reserved,
        ports=per_leaf(ports),
        width=2,
        ratio=ratio,
    )
    insisted = section.counts.leaves is not None
    gbps = section.appliance_gbps if appliances else switching.gbps
    stores = box_group(switching, section.counts, word=STORES, gbps=gbps, ratio=ratio)
    book = hosts.book if insisted else stores.book
    gateways = _gateways(context, name)
    door = Boxes("", "storage", "generic-storage-gateway", len(gateways), 2, port_rate(switching.leaf, gbps), "storage")
    managers = _subnet_managers(context, switching)
    kinds = [kind for kind in (appliances, door, managers) if kind is not None and kind.count]
    seats = [
        seat(
            [book],
            kind.count,
            kind.ports,
            switching.leaf,
            kind.gbps,
            "storage.leaf_switch",
            together=kind is managers,
        )
        for kind in kinds
    ]
    groups = tuple(
        group
        for group in (
            close_insisted(hosts, switching.gbps, uplink) if insisted else hosts.group,
            close_group(stores, uplink, ratio),
        )
        if group.leaves
    )
    given = 0 if section.counts.leaf_up_ports == 0 else section.counts.spines
    tiers = size_tiers(groups, switching.spine, uplink, "storage", given)
    fabric = build_pairs(
        context,
        groups,
        switching.spine,
        tiers,
        network="storage",
        site=name,
        prefix=prefix,
        uplink_gbps=uplink,
    )
    connect_servers(
        context,
        ports,
        switching.gbps,
        context.server_ids[servers],
        hosts.homes,
        fabric.leaves[0],
        switching.leaf,
        "storage",
    )
    bench = Bench(fabric.leaves[0 if insisted else -1], switching.leaf, hosts.homes.width if insisted else 2)
    for kind, seated in zip(kinds, seats, strict=True):
        if kind is door:
            named = replace(kind, port_name="ib{}" if section.transport == "infiniband" else "eth{}")
            connect_boxes(context, named, gateways, seated, [bench], first_port=2)
        else:
            boxes = add_boxes(context, kind, name, prefix)
            connect_boxes(context, kind, boxes, seated, [bench])
            if kind is managers:
                connect_managers(context, boxes)
    for group, up in zip(groups, fabric.tiers.ups, strict=True):
        context.decisions["storage"].choose(
            site_key(context, group.word, site),
            group.leaves,
            f"{up} x {format_gbps(uplink)} up on each, to {tiers.spines} spines",
        )
    context.decisions["storage"].choose(
        site_key(context, "spines", site),
        fabric.spines.size,
        "asked for"
        if given is not None
        else f"the smallest count >= 2 that divides the {tiers.ups[0]} uplinks of a leaf",
    )


def _subnet_managers(context: Context, switching: Switching) -> Boxes | None:
    """Return the subnet managers of an InfiniBand fabric, at half the servers' rate where a port splits in two for them."""
    section, leaf = context.spec.storage, switching.leaf
    if section.transport != "infiniband":
        return None
    count = SUBNET_MANAGERS if section.subnet_managers is None else section.subnet_managers
    half = switching.gbps / 2
    gbps = half if leaf.ports_at(half) == 2 * leaf.ports_at(switching.gbps) else switching.gbps
    context.decisions["storage"].choose(
        "subnet_managers", count, "one active, one standby" if section.subnet_managers is None else "asked for"
    )
    return Boxes("storage-subnet-manager", "appliance", "subnet-manager", count, 2, gbps, "storage", "mlx5_{}")


def _gateways(context: Context, site: str) -> Ids:
    """Return the device ids of the storage frontends at a site."""
    devices = context.wiring.finish()["devices"]
    chosen = devices.filter(
        (pl.col("role") == "storage") & (pl.col("network") == "frontend") & (pl.col("site") == site)
    )
    return chosen["device_id"].to_numpy()
