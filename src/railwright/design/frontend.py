"""The frontend: at every site a leaf-spine fabric of leaf pairs with the GPU servers, and its entrance to the outside.

Servers fill leaf pairs in order. A border pair carries what stands at the entrance (design/entrance.py) and then the CPU
nodes; boxes that find no room there get pairs of their own. Numbers that follow from the demand are the closed forms of
design/demand.py.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from railwright.catalog.model import Switch
from railwright.design.attach import Bench, Boxes, add_boxes, connect_boxes, connect_servers, per_leaf
from railwright.design.border import (
    Border,
    connect_external,
    connect_sites,
    plan_border,
    spine_ports_kept,
    stand_border,
)
from railwright.design.cages import CageBook, Seats
from railwright.design.context import Context
from railwright.design.converged import frontend_on_backend
from railwright.design.entrance import EntrancePlan, plan_entrances, site_key
from railwright.design.leaf_groups import Sized, box_group, close_group, close_insisted, host_group, seat, with_boxes
from railwright.design.peer_links import connect_leaf_pairs, set_apart
from railwright.design.server_ports import (
    ServerPorts,
    Switching,
    choose_switching,
    choose_uplink,
    converged_host,
    frontend_ports,
)
from railwright.design.sites import most_servers, site_prefix, site_servers
from railwright.design.storage_boxes import appliance_boxes
from railwright.design.topology.pairs import LeafGroup, PairFabric, Tiers, build_pairs, size_tiers
from railwright.units import format_gbps

Index = NDArray[np.int64]

ATTACH_WHY = {
    "routed": "each server routes over links to two leaves: ECMP and BFD reach into the host, no bond, no peer link",
    "lacp": "one bond to one leaf: port channel without a second leaf, which is a single point of failure",
    "evpn-multihoming": "one LACP bond over two leaves that share an Ethernet segment (EVPN): both forward, no peer link",
}
HOSTS, OTHERS, STORES, BORDER = "frontend-leaf", "frontend-service-leaf", "frontend-storage-leaf", "border"


@dataclass(frozen=True)
class SiteFrontend:
    """What was built at a site."""

    site: int
    switching: Switching
    fabric: PairFabric
    border: Border


@dataclass(frozen=True)
class _Plan:
    """What all sites have in common. ``switching.leaf`` lacks the cages of peer links, ``whole_leaf`` has them."""

    context: Context
    ports: ServerPorts
    switching: Switching
    ratio: float
    entrances: list[EntrancePlan]
    appliances: dict[int, Boxes]
    whole_leaf: Switch


def design_frontend(context: Context) -> tuple[SiteFrontend, ...]:
    """Add the frontend of every site to ``context.wiring``; raises InputError for what cannot be built.

    Appliances stand here too when storage shares the fabric. Nothing is returned when the frontend is off or hangs on the
    backend.
    """
    section, decisions = context.spec.frontend, context.decisions["frontend"]
    if not section.enabled:
        decisions.choose("enabled", False, "asked for")
        return ()
    if converged_host(context, "frontend") == "backend":
        frontend_on_backend(context)
        return ()
    ports, why = frontend_ports(context.server, section)
    decisions.choose("ports_per_server", ports.count, why)
    appliances = appliance_boxes(context, "frontend")
    rates = (ports.gbps, *context.server.frontend.lower_gbps)
    storage_gbps = context.spec.storage.appliance_gbps if appliances else None
    switching = choose_switching(context.catalog, section, "frontend", "ethernet", rates, storage_gbps)
    ratio = (
        min(section.oversubscription, context.spec.storage.oversubscription) if appliances else section.oversubscription
    )
    on_leaf = ports.count if section.attach == "lacp" else per_leaf(ports)
    switching = choose_uplink(switching, section, "frontend", decisions, most_servers(context), on_leaf, ratio)
    whole_leaf = switching.leaf
    switching = replace(switching, leaf=set_apart(whole_leaf, switching.uplink_gbps, section.peer_links))
    _record(context, switching, ratio, shared=bool(appliances))
    facing = switching.spine if section.border_leaves == 0 else switching.leaf
    entrances = plan_entrances(context, switching.leaf, facing)
    plan = _Plan(context, ports, switching, ratio, entrances, appliances, whole_leaf)
    built = [_build(plan, site) for site in range(len(context.spec.sites))]
    connect_sites(context, plan.entrances, [None if site is None else site.border for site in built])
    return tuple(site for site in built if site is not None)


def _build(plan: _Plan, site: int) -> SiteFrontend | None:
    context, switching, entrance = plan.context, plan.switching, plan.entrances[site]
    section, uplink = context.spec.frontend, switching.uplink_gbps
    far_links = sum(other.site_links for other in plan.entrances[1:]) if site == 0 else 0
    hosts = _hosts(plan, site)
    insisted = section.counts.leaves is not None and hosts.group.leaves > 0
    others = box_group(switching, section.counts, word=OTHERS, gbps=switching.gbps, ratio=plan.ratio)
    stores = box_group(switching, section.counts, word=STORES, gbps=switching.gbps, ratio=plan.ratio)
    planned = plan_border(context, entrance, switching, far_links)
    books = [] if planned is None else [planned.book]
    books.append(hosts.book if insisted else others.book)
    doors, nodes = ([kind for kind in kinds if kind.count] for kinds in (entrance.doors, entrance.nodes))
    seats = [_seat(switching, books, kind) for kind in doors]
    before_nodes = books[0].leaf_gbps()
    seats += [_seat(switching, books, kind) for kind in nodes]
    border_group = planned.group if planned is not None else None
    if border_group is not None:
        node_gbps = [after - before for after, before in zip(books[0].leaf_gbps(), before_nodes, strict=True)]
        border_group = with_boxes(border_group, max(node_gbps, default=0.0), uplink, plan.ratio)
    appliances = plan.appliances.get(site)
    store_book = hosts.book if insisted else stores.book
    store_seats = _seat(switching, [store_book], appliances) if appliances else []
    groups = tuple(
        group
        for group in (
            close_insisted(hosts, switching.gbps, uplink) if insisted else hosts.group,
            close_group(others, uplink, plan.ratio),
            close_group(stores, uplink, plan.ratio),
            *([] if border_group is None else [border_group]),
        )
        if group.leaves
    )
    if not groups:
        return None
    kept = 0 if planned is not None else spine_ports_kept(context, entrance, switching, far_links)
    tiers = _tiers(context, site, groups, switching, kept)
    fabric = build_pairs(
        context,
        groups,
        switching.spine,
        tiers,
        network="frontend",
        site=context.spec.sites[site].name,
        prefix=site_prefix(context, site),
        uplink_gbps=uplink,
    )
    for ids in fabric.leaves:
        connect_leaf_pairs(context, plan.whole_leaf, ids, uplink, section.peer_links)
    leaves = {group.word: ids for group, ids in zip(groups, fabric.leaves, strict=True)}
    border = stand_border(planned, entrance, fabric, leaves.get(BORDER), switching, far_links)
    host_bench = Bench(leaves.get(HOSTS, fabric.no_leaves), switching.leaf, hosts.homes.width)
    _connect_servers(plan, site, hosts, host_bench)
    connect_external(context, entrance, border, context.spec.sites[site].name, site_prefix(context, site))
    benches = [] if planned is None else [border.bench]
    benches.append(host_bench if insisted else Bench(leaves.get(OTHERS, fabric.no_leaves), switching.leaf))
    for kind, seated in zip([*doors, *nodes], seats, strict=True):
        _stand(context, site, kind, seated, benches)
    if appliances:
        bench = host_bench if insisted else Bench(leaves[STORES], switching.leaf)
        _stand(context, site, appliances, store_seats, [bench])
    _record_site(context, site, switching, groups, fabric)
    return SiteFrontend(site, switching, fabric, border)


def _hosts(plan: _Plan, site: int) -> Sized:
    section = plan.context.spec.frontend
    servers, reserved = site_servers(plan.context, site)
    one_leaf = section.attach == "lacp"
    return host_group(
        plan.switching,
        section.counts,
        "frontend",
        word=HOSTS,
        boxes=len(servers),
        reserved=reserved,
        ports=plan.ports.count if one_leaf else per_leaf(plan.ports),
        width=1 if one_leaf else 2,
        ratio=plan.ratio,
    )


def _tiers(context: Context, site: int, groups: tuple[LeafGroup, ...], switching: Switching, kept: int) -> Tiers:
    counts = context.spec.frontend.counts
    given = 0 if counts.leaf_up_ports == 0 else counts.spines
    tiers = size_tiers(groups, switching.spine, switching.uplink_gbps, "frontend", given, kept)
    pods = tiers.pods
    context.decisions["frontend"].choose(
        site_key(context, "spines", site),
        tiers.spines * pods,
        "asked for"
        if given is not None
        else f"the smallest count >= 2 that divides the {tiers.ups[0]} uplinks of a leaf and has a port for every uplink"
        if not tiers.cores
        else f"{tiers.spines} in each of {pods} pods: one spine has too few ports for all leaves",
    )
    if tiers.cores:
        context.decisions["frontend"].choose(
            site_key(context, "cores", site), tiers.cores, f"{tiers.cores_per_group} in each of {tiers.spines} groups"
        )
    return tiers


def _seat(switching: Switching, books: list[CageBook], kind: Boxes) -> list[Seats]:
    return seat(books, kind.count, kind.ports, switching.leaf, kind.gbps, "frontend.leaf_switch")


def _stand(context: Context, site: int, kind: Boxes, seats: list[Seats], benches: list[Bench]) -> None:
    ids = add_boxes(context, kind, context.spec.sites[site].name, site_prefix(context, site))
    connect_boxes(context, kind, ids, seats, benches)


def _connect_servers(plan: _Plan, site: int, hosts: Sized, bench: Bench) -> None:
    servers, _ = site_servers(plan.context, site)
    if len(servers):
        connect_servers(
            plan.context,
            plan.ports,
            plan.switching.gbps,
            plan.context.server_ids[servers],
            hosts.homes,
            bench.leaves,
            bench.platform,
            "frontend",
            one_leaf=plan.context.spec.frontend.attach == "lacp",
        )


def _record(context: Context, switching: Switching, ratio: float, *, shared: bool) -> None:
    section, decisions = context.spec.frontend, context.decisions["frontend"]
    decisions.choose("attach", section.attach, ATTACH_WHY[section.attach])
    decisions.choose("leaf_switch", switching.leaf.key, switching.why)
    if section.peer_links:
        decisions.choose(
            "peer_links",
            section.peer_links,
            f"asked for: {format_gbps(switching.uplink_gbps)} each between the leaves of a pair, a way out without spines",
        )
    decisions.facts.update(
        {
            "topology": "leaf-spine",
            "transport": "tcp",
            "spine_switch": switching.spine.key,
            "port_gbps": switching.gbps,
        }
    )
    decisions.choose(
        "oversubscription",
        ratio,
        "the stricter of frontend and storage, which share the fabric"
        if shared
        else "asked for: user demand grows in requests, not in bandwidth per GPU",
    )
    decisions.choose(
        "bfd",
        section.bfd,
        "a silent failure is noticed in milliseconds, not by BGP timers" if section.bfd else "asked for",
    )


def _record_site(
    context: Context, site: int, switching: Switching, groups: tuple[LeafGroup, ...], fabric: PairFabric
) -> None:
    for group, up in zip(groups, fabric.tiers.ups, strict=True):
        context.decisions["frontend"].choose(
            site_key(context, group.word, site),
            group.leaves,
            f"{up} x {format_gbps(switching.uplink_gbps)} up on each, to {fabric.tiers.spines} spines",
        )
