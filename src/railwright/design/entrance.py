"""What stands at the entrance of each site, in numbers: borders, external links, firewalls, load balancers and CPU nodes.

Each number is the user's own or a closed form of design/demand.py, recorded with its formula.
"""

from dataclasses import dataclass

from railwright.catalog.model import Switch
from railwright.design import demand as sizing
from railwright.design.attach import Boxes
from railwright.design.context import Context
from railwright.design.server_ports import converged_host, offered, port_rate, ports_for
from railwright.errors import InputError
from railwright.units import format_gbps

EXTERNAL_ROUTERS = 2
BORDER_LEAVES = 2


@dataclass(frozen=True)
class EntrancePlan:
    """The entrance of one site. ``site_links`` lead to the first site (0 there); ``doors`` stand at the borders when there is
    room, ``nodes`` behind them.
    """

    load: sizing.Entrance
    borders: int
    external_links: int
    external_gbps: float
    site_links: int
    site_gbps: float
    doors: tuple[Boxes, ...]
    nodes: tuple[Boxes, ...]


def site_key(context: Context, what: str, site: int) -> str:
    """Return the name of a choice: ``what`` alone with one site, else with the site's name behind it."""
    return what if len(context.spec.sites) == 1 else f"{what}.{context.spec.sites[site].name}"


def plan_entrances(context: Context, switch: Switch, facing: Switch | None = None) -> list[EntrancePlan]:
    """Return the entrance of every site with boxes on ``switch`` and links to the outside on ``facing`` (None: the same).

    Raises InputError when that platform has no port of the external rate.
    """
    facing = facing or switch
    spec = context.spec
    section, decisions = spec.frontend, context.decisions["frontend"]
    shares = sizing.site_shares(spec.sites)
    planned = sizing.planned_shares(shares, anycast=section.anycast)
    if len(shares) > 1:
        decisions.choose(
            "site_shares",
            [round(share, 4) for share in planned],
            "anycast: each site is sized for its share when the largest other site is lost"
            if section.anycast
            else "no anycast: each site is sized for its own share",
        )
    if section.external_gbps not in offered(facing):
        rates = ", ".join(f"{rate:g}G" for rate in offered(facing))
        raise InputError(
            f"{facing.key} has no port of {section.external_gbps:g}G; it offers {rates}", key="frontend.external_gbps"
        )
    heads = _heads(context)
    gateways = _gateways(context, shares)
    nodes = sizing.split_by_share(section.service_nodes, shares) if section.service_nodes is not None else None
    return [
        _plan(
            context,
            switch,
            facing,
            site,
            sizing.entrance(spec.demand, planned[site]),
            heads[site],
            gateways[site],
            None if nodes is None else nodes[site],
        )
        for site in range(len(shares))
    ]


def _plan(
    context: Context,
    switch: Switch,
    facing: Switch,
    site: int,
    load: sizing.Entrance,
    heads: int,
    gateways: int,
    service_nodes: int | None,
) -> EntrancePlan:
    section, demand = context.spec.frontend, context.spec.demand
    borders = _borders(context, site)
    routing = borders or BORDER_LEAVES
    links = section.external_links
    why = "asked for"
    if links is None:
        links = sizing.redundant_links(load.line_gbps, section.external_gbps, routing)
        why = (
            f"max({load.inbound_gbps:.4g} in, {load.outbound_gbps:.4g} out) Gb/s over {section.external_gbps:g} Gb/s links, "
            f"enough when one of {routing} borders is lost (headroom {demand.headroom:g})"
        )
    context.decisions["frontend"].choose(site_key(context, "external_links", site), links, why)
    site_gbps = port_rate(facing, section.inter_site_gbps)
    return EntrancePlan(
        load=load,
        borders=borders,
        external_links=links,
        external_gbps=section.external_gbps,
        site_links=_site_links(context, site, load, site_gbps, routing),
        site_gbps=site_gbps,
        doors=_doors(context, switch, site, load),
        nodes=(
            _nodes(context, switch, "storage-gateway", "generic-storage-gateway", gateways),
            _nodes(
                context, switch, "service", "generic-service-node", _service_nodes(context, site, load, service_nodes)
            ),
            _nodes(context, switch, "head", "generic-head-node", heads),
        ),
    )


def _borders(context: Context, site: int) -> int:
    given = context.spec.frontend.border_leaves
    context.decisions["frontend"].choose(
        site_key(context, "border_leaves", site),
        BORDER_LEAVES if given is None else given,
        "a redundant pair"
        if given is None
        else "asked for; the spines face the outside"
        if given == 0
        else "asked for",
    )
    return BORDER_LEAVES if given is None else given


def _doors(context: Context, switch: Switch, site: int, load: sizing.Entrance) -> tuple[Boxes, Boxes]:
    """Return the firewalls and the load balancers: each keeps its full throughput when one border is lost."""
    section = context.spec.frontend
    kinds = (
        ("firewall", "firewalls", section.firewalls, section.firewall_gbps),
        ("load-balancer", "load_balancers", section.load_balancers, section.load_balancer_gbps),
    )
    found = []
    for word, key, given, throughput in kinds:
        count = sizing.n_plus_one(load.inspected_gbps, throughput) if given is None else given
        why = (
            f"ceil({load.inspected_gbps:.4g} / {throughput:g} Gb/s) + 1, at least two" if given is None else "asked for"
        )
        context.decisions["frontend"].choose(site_key(context, key, site), count, why)
        gbps, ports = ports_for(switch, throughput)
        model = f"generic-{word}"
        found.append(Boxes(word, context.catalog.box(model).role, model, count, 2 * ports, gbps))
    return found[0], found[1]


def _service_nodes(context: Context, site: int, load: sizing.Entrance, given: int | None) -> int:
    demand, key = context.spec.demand, site_key(context, "service_nodes", site)
    decisions = context.decisions["frontend"]
    if given is not None:
        decisions.choose(key, given, "asked for, by share of the site")
        return given
    if not load.requests_per_s:
        decisions.choose(key, 0, "the demand has no requests from the outside")
        return 0
    count = sizing.n_plus_one(load.requests_per_s, demand.requests_per_service_node)
    decisions.choose(
        key,
        count,
        f"ceil({load.requests_per_s:.4g}/s / {demand.requests_per_service_node:.4g}/s) + 1 (headroom {demand.headroom:g})",
    )
    return count


def _site_links(context: Context, site: int, load: sizing.Entrance, gbps: float, borders: int) -> int:
    if site == 0:
        return 0
    given = context.spec.frontend.inter_site_links
    links = sizing.redundant_links(load.line_gbps, gbps, borders) if given is None else given
    context.decisions["frontend"].choose(
        site_key(context, "inter_site_links", site),
        links,
        f"{format_gbps(load.line_gbps)}, the site's load, over {gbps:g}G links to {context.spec.sites[0].name}: each site "
        "can be reached through the other's entrance, with one border lost"
        if given is None
        else "asked for",
    )
    return links


def _heads(context: Context) -> list[int]:
    """Return the head nodes of every site."""
    servers = [int((context.server_site == site).sum()) for site in range(len(context.spec.sites))]
    given = context.spec.frontend.head_nodes
    counts = sizing.split_by_share(given, servers) if given is not None else [sizing.head_nodes(n) for n in servers]
    context.decisions["frontend"].choose(
        "head_nodes",
        sum(counts),
        "asked for, beside the GPU servers"
        if given is not None
        else f"{sizing.HEAD_SET} per started {sizing.SERVERS_PER_HEAD_SET} servers: the published 127-system SuperPOD has "
        f"{sizing.HEAD_SET}; that they do for {sizing.SERVERS_PER_HEAD_SET} is an assumption",
    )
    return counts


def _gateways(context: Context, shares: list[float]) -> list[int]:
    """Return the storage frontends of every site."""
    section, demand = context.spec.frontend, context.spec.demand
    none = [0] * len(shares)
    total, why = section.storage_frontends, "asked for, by share of the site"
    if total is None:
        if not context.spec.storage.enabled:
            total, why = 0, "there is no storage network"
        elif _storage_is_here(context):
            total, why = 0, "the appliances themselves stand on this fabric"
        else:
            gbps = (demand.ingest or 0.0) * 8e-9 * demand.headroom
            servers = [int((context.server_site == site).sum()) / context.servers for site in range(len(shares))]
            here = [sizing.n_plus_one(gbps * part, section.storage_frontend_gbps) if part else 0 for part in servers]
            why = (
                f"ceil({gbps:.4g} Gb/s of ingest / {section.storage_frontend_gbps:g}) + 1, at least two, at each site with a "
                "storage network"
            )
            context.decisions["frontend"].choose("storage_frontends", sum(here), why)
            return here
    context.decisions["frontend"].choose("storage_frontends", total, why)
    return sizing.split_by_share(total, shares) if total else none


def _storage_is_here(context: Context) -> bool:
    return converged_host(context, "storage") == "frontend" or context.server.storage is None


def _nodes(context: Context, switch: Switch, word: str, model: str, count: int) -> Boxes:
    """Return CPU nodes with one port on either leaf, at the nodes' rate or the nearest below that the leaves offer."""
    box = context.catalog.box(model)
    return Boxes(word, box.role, model, count, box.ports or 2, port_rate(switch, box.gbps or 100.0))
