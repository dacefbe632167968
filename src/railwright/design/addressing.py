"""Addresses and AS numbers of a finished plan, as tables from tables.

Every value follows from the number of a box, a link or a port, never from how many there are, so that a plan that grows keeps
what it has (ids never change and new ones come after):

- loopback: pool + 1 + device id; AS number: first + device id, shared by the spines (cores) of one pod, plane and rail through
  the lowest of them (RFC 7938: one number per leaf, one per tier of a group);
- numbered links: a /31 per link id; otherwise links between switches have no address (RFC 5549, IPv6 link-local);
- GPU ports of an Ethernet backend: a /31 per leaf port inside the leaf's block inside the block of plane and rail, so that one
  route covers a rail;
- frontend: a subnet per leaf pair and tenant with the same gateway on both leaves; routed hosts have loopbacks instead;
- storage: a subnet per leaf; over InfiniBand one IPoIB subnet; out of band: a subnet per access switch;
- services: one anycast address on every load balancer, or one per site.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright import tables
from railwright.catalog.load import Catalog
from railwright.design.pools import Pool, power_of_two, prefix_of, written
from railwright.errors import InputError
from railwright.spec.addressing import LAST_PRIVATE_ASN
from railwright.spec.cluster import ClusterSpec, Isolation

Index = NDArray[np.int64]

SWITCH_ROLES = ("leaf", "spine", "core", "border", "oob", "tor")
SHARED_ASN_ROLES = ("spine", "core")
ROUTED_BOXES = ("firewall", "load_balancer")
FIRST_HOST = 4
"""Hosts of a subnet start here: 0 is the network, 1 the gateway, 2 and 3 are the leaves' own."""
VLANS = {"backend": 100, "frontend": 200, "storage": 300, "management": 400}
"""VLAN of a network where it has any, plus the number of the tenant (0: none)."""
MANAGEMENT_VRF = "mgmt"


@dataclass(frozen=True)
class _Plan:
    """Spec and tables. ``edges`` has one row per link with both ends: ``link_id, network, tier`` and for the lower end
    ``box, box_role, box_port``, for the upper ``leaf, leaf_role, leaf_network, leaf_port, ordinal``; ``tenant`` is the
    number of the tenant of a server (0: none). ``ordinal`` counts the leaf's ports by cage and lane."""

    spec: ClusterSpec
    devices: pl.DataFrame
    edges: pl.DataFrame
    ports_per_leaf: Mapping[str, int]

    def pool(self, name: str) -> Pool:
        return Pool(f"addressing.{name}", IPv4Network(getattr(self.spec.addressing, name)))


def assign_addresses(
    spec: ClusterSpec, catalog: Catalog, built: Mapping[str, pl.DataFrame]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the devices with ``asn`` and ``loopback``, and the table ``addresses``.

    ``built`` has ``devices``, ``ports`` and ``links``. Raises InputError when a pool is too small.
    """
    devices = _with_loopbacks(spec, catalog, built["devices"])
    plan = _prepare(spec, catalog, devices, built["ports"], built["links"])
    parts = [
        _loopback_rows(plan),
        _numbered_links(plan),
        _backend_ports(plan),
        _frontend_hosts(plan),
        _storage_ports(plan),
        _ipoib(plan),
        _out_of_band(plan),
        _in_band(plan),
        _services(plan),
    ]
    found = [tables.conform("addresses", part) for part in parts if len(part)]
    return tables.conform("devices", devices), pl.concat(found) if found else tables.empty("addresses")


def _with_loopbacks(spec: ClusterSpec, catalog: Catalog, devices: pl.DataFrame) -> pl.DataFrame:
    ethernet = [
        model
        for model in devices["model"].unique(maintain_order=True)
        if model in catalog.switches and catalog.switches[model].protocol == "ethernet"
    ]
    routed = pl.col("role").is_in(ROUTED_BOXES) | (pl.col("role").is_in(SWITCH_ROLES) & pl.col("model").is_in(ethernet))
    if spec.frontend.enabled and spec.frontend.attach == "routed":
        routed = routed | (pl.col("role") == "server")
    number = pl.col("device_id").cast(pl.Int64)
    group = ["network", "site", "role", "plane", "rail", "pod"]
    owner = pl.when(pl.col("role").is_in(SHARED_ASN_ROLES)).then(number.min().over(group)).otherwise(number)
    last = _largest(devices["device_id"])
    if spec.addressing.first_asn + last > LAST_PRIVATE_ASN:
        raise InputError(
            f"{spec.addressing.first_asn} leaves too few numbers up to {LAST_PRIVATE_ASN} for {last + 1} boxes; start lower",
            key="addressing.first_asn",
        )
    pool = Pool("addressing.loopbacks", IPv4Network(spec.addressing.loopbacks))
    loopback = written(pool.at(devices["device_id"].to_numpy().astype(np.int64) + 1, "loopbacks"), 32)
    return devices.with_columns(
        asn=pl.when(routed).then(spec.addressing.first_asn + owner),
        loopback=pl.when(routed).then(loopback),
    )


def _prepare(
    spec: ClusterSpec, catalog: Catalog, devices: pl.DataFrame, ports: pl.DataFrame, links: pl.DataFrame
) -> _Plan:
    models = [model for model in devices["model"].unique(maintain_order=True) if model in catalog.switches]
    fabric = {m: [g for g in catalog.switches[m].cages if g.purpose == "fabric"] for m in models}
    shapes = pl.DataFrame(
        {
            "model": models,
            "cages": [sum(group.count for group in fabric[m]) for m in models],
            "cage_lanes": [max((group.lanes for group in fabric[m]), default=1) for m in models],
        },
        schema={"model": pl.String, "cages": pl.Int64, "cage_lanes": pl.Int64},
    )
    boxes = devices.select("device_id", "role", "network", "model", tenant=_tenant_of(spec, devices))
    ends = ports.select("port_id", "device_id", "cage", "lane_first", "lanes").join(
        boxes, on="device_id", maintain_order="left"
    )
    lower = ends.select(a_port="port_id", box="device_id", box_role="role", tenant="tenant")
    upper = ends.join(shapes, on="model", how="left", maintain_order="left").select(
        "cage",
        "lane_first",
        "cages",
        "cage_lanes",
        b_port="port_id",
        leaf="device_id",
        leaf_role="role",
        leaf_network="network",
        split=pl.col("cage_lanes") // pl.col("lanes").cast(pl.Int64),
    )
    edges = (
        links.select("link_id", "a_port", "b_port", "network", "tier")
        .join(lower, on="a_port", maintain_order="left")
        .join(upper, on="b_port", maintain_order="left")
    )
    sizes = _leaf_sizes(edges, ports)
    edges = edges.join(sizes.select("leaf_network", most="split"), on="leaf_network", how="left", maintain_order="left")
    ordinal = (pl.col("cage").cast(pl.Int64) - 1) * pl.col("most") + pl.col("lane_first").cast(pl.Int64) * pl.col(
        "most"
    ) // pl.col("cage_lanes")
    return _Plan(
        spec=spec,
        devices=devices,
        edges=edges.with_columns(ordinal=ordinal),
        ports_per_leaf={network: split * cages for network, split, cages in sizes.iter_rows()},
    )


def _leaf_sizes(edges: pl.DataFrame, ports: pl.DataFrame) -> pl.DataFrame:
    """Return per network the most ports that a cage of a leaf is split into and the cages of a leaf that can face boxes.

    Those are the cages below the first uplink; all of them where boxes stand above it too.
    """
    first_up = (
        ports.filter(pl.col("direction") == "up")
        .group_by(pl.col("device_id").alias("leaf"))
        .agg(below=pl.col("cage").min().cast(pl.Int64) - 1)
    )
    leaves = (
        edges.filter(pl.col("tier").is_in(["host", "service", "oob"]) & pl.col("cages").is_not_null())
        .group_by("leaf", "leaf_network", maintain_order=True)
        .agg(pl.col("split").max(), pl.col("cages").max(), last=pl.col("cage").max().cast(pl.Int64))
        .join(first_up, on="leaf", how="left", maintain_order="left")
    )
    facing = pl.when(pl.col("below") >= pl.col("last")).then("below").otherwise(pl.max_horizontal("cages", "last"))
    return leaves.group_by("leaf_network", maintain_order=True).agg(split=pl.col("split").max(), cages=facing.max())


def _tenant_of(spec: ClusterSpec, devices: pl.DataFrame) -> pl.Series:
    """Return the number of each device's tenant: servers belong to tenants in order, from 1; 0 is nobody's."""
    bounds = np.cumsum([tenant.servers for tenant in spec.tenants])
    is_server = (devices["role"] == "server").to_numpy()
    nth = np.cumsum(is_server) - 1
    number = np.searchsorted(bounds, nth, side="right") + 1
    return pl.Series("tenant", np.where(is_server & (number <= len(spec.tenants)), number, 0))


def _vrf(spec: ClusterSpec, network: str, tenant: pl.Expr) -> pl.Expr:
    """Return the VRF (or InfiniBand partition): the tenant's own, the network's own, or ``default``."""
    isolation: Isolation = getattr(spec, network).isolation
    own = network if isolation in ("vrf", "partition") else "default"
    names = {
        number: entry.name if entry.isolation in ("vrf", "partition", "physical") else own
        for number, entry in enumerate(spec.tenants, start=1)
    }
    return tenant.replace_strict(names, default=own, return_dtype=pl.String) if names else pl.lit(own)


def _loopback_rows(plan: _Plan) -> pl.DataFrame:
    routed = plan.devices.filter(pl.col("loopback").is_not_null())
    tenant = _tenant_of(plan.spec, plan.devices).filter(plan.devices["loopback"].is_not_null())
    network = pl.col("network").cast(pl.String).fill_null("frontend")
    server = pl.col("role") == "server"
    return routed.with_columns(tenant=tenant).select(
        "device_id",
        network.alias("network"),
        pl.lit("loopback").alias("kind"),
        pl.when(server).then(_vrf(plan.spec, "frontend", pl.col("tenant"))).otherwise(pl.lit("default")).alias("vrf"),
        pl.col("loopback").alias("address"),
    )


def _numbered_links(plan: _Plan) -> pl.DataFrame:
    """Return a /31 for every link whose network is numbered, toward the outside, and to firewalls and load balancers."""
    spec = plan.spec
    numbered = [name for name in ("backend", "frontend") if getattr(spec, name).underlay == "numbered"]
    ethernet = pl.col("leaf").is_in(plan.devices.filter(pl.col("asn").is_not_null())["device_id"].implode())
    between = pl.col("tier").is_in(["leaf_spine", "spine_core", "peer"]) & ethernet
    routed_host = (pl.col("tier") == "host") & (pl.col("box_role") == "server") & (pl.col("network") == "frontend")
    if spec.frontend.attach == "routed":
        between = between | routed_host
    toward_boxes = (pl.col("tier") == "service") & pl.col("box_role").is_in(ROUTED_BOXES)
    chosen = plan.edges.filter(
        (pl.col("network").cast(pl.String).is_in(numbered) & between) | (pl.col("tier") == "border") | toward_boxes
    )
    first = plan.pool("links").at(2 * chosen["link_id"].to_numpy().astype(np.int64) + 1, "links") - 1
    return pl.concat(
        _rows(
            chosen.select(device_id=device, port_id=port, network="network", vrf=pl.lit("default")),
            "p2p",
            first + offset,
            31,
        )
        for device, port, offset in (("box", "a_port", 0), ("leaf", "b_port", 1))
    )


def _backend_ports(plan: _Plan) -> pl.DataFrame:
    """Return a /31 per port of an Ethernet backend leaf: even on the leaf (the gateway), odd on the host."""
    hosts = plan.edges.filter((pl.col("leaf_network") == "backend") & pl.col("tier").is_in(["host", "service"]))
    hosts = hosts.filter(~pl.col("box_role").is_in(ROUTED_BOXES))
    if plan.spec.backend.transport == "infiniband" or not len(hosts):
        return tables.empty("addresses")
    leaves = _ranked(plan.devices, "backend", ("leaf",), ["plane", "rail"])
    planes = _largest(leaves["plane"].fill_null(1))
    rails = _largest(leaves["rail"].fill_null(1))
    size = power_of_two(2 * plan.ports_per_leaf["backend"])
    pool = plan.pool("backend")
    block = pool.block(0, planes * rails).size
    block_of = (
        (pl.col("plane").fill_null(1).cast(pl.Int64) - 1) * rails + pl.col("rail").fill_null(1).cast(pl.Int64) - 1
    )
    based = leaves.select(leaf="device_id", block=block_of, rank="rank")
    hosts = hosts.join(based, on="leaf", maintain_order="left")
    Pool(pool.key, pool.block(0, planes * rails).network).holds(
        (_largest(based["rank"]) + 1) * size,
        f"leaves of one plane and rail with {plan.ports_per_leaf['backend']} ports each (of {planes * rails} such parts)",
    )
    offset = hosts["block"] * block + hosts["rank"] * size + 2 * hosts["ordinal"]
    first = pool.base + offset.to_numpy()
    kept = hosts.with_columns(vrf=_vrf(plan.spec, "backend", pl.col("tenant")), vlan=_vlan(plan, "backend"))
    return pl.concat(
        [
            _rows(kept.select("network", "vrf", "vlan", device_id="box", port_id="a_port"), "host", first + 1, 31),
            _rows(kept.select("network", "vrf", "vlan", device_id="leaf", port_id="b_port"), "gateway", first, 31),
        ]
    )


def _vlan(plan: _Plan, network: str) -> pl.Expr:
    """Return the VLAN of a tenant where a network keeps tenants apart by VLAN, else none."""
    by_vlan = getattr(plan.spec, network).isolation == "vlan" or any(t.isolation == "vlan" for t in plan.spec.tenants)
    return (VLANS[network] + pl.col("tenant")) if by_vlan else pl.lit(None, dtype=pl.Int64)


def _frontend_hosts(plan: _Plan) -> pl.DataFrame:
    """Return one address per bond in the subnet of its leaf pair, and the gateway on every leaf of the pair."""
    hosts = plan.edges.filter(
        (pl.col("leaf_network") == "frontend")
        & (pl.col("network") == "frontend")
        & pl.col("tier").is_in(["host", "service"])
        & ~pl.col("box_role").is_in(ROUTED_BOXES)
    )
    if plan.spec.frontend.attach == "routed":
        hosts = hosts.filter(pl.col("box_role") != "server")
    return _subnets(plan, hosts, "frontend", "frontend", ("leaf", "border", "spine"), bonded=True)


def _storage_ports(plan: _Plan) -> pl.DataFrame:
    """Return one address per storage port in the subnet of its leaf; servers on a shared frontend have one per bond."""
    own = plan.edges.filter((pl.col("network") == "storage") & pl.col("tier").is_in(["host", "service"]))
    fabric = "storage" if len(own.filter(pl.col("leaf_network") == "storage")) else "frontend"
    here = own.filter(pl.col("leaf_network") == fabric)
    if plan.spec.storage.transport == "infiniband" or not len(here):
        return tables.empty("addresses")
    parts = [_subnets(plan, here, "storage", fabric, ("leaf", "border", "spine"), bonded=False)]
    if fabric == "frontend" and plan.spec.frontend.attach != "routed":
        servers = plan.edges.filter(
            (pl.col("network") == "frontend") & (pl.col("tier") == "host") & (pl.col("box_role") == "server")
        )
        parts.append(_subnets(plan, servers, "storage", fabric, ("leaf", "border", "spine"), bonded=True))
    return pl.concat(part for part in parts if len(part))


def _ipoib(plan: _Plan) -> pl.DataFrame:
    """Return the IPoIB addresses of an InfiniBand storage fabric: one subnet, by port id."""
    hosts = plan.edges.filter((pl.col("network") == "storage") & pl.col("tier").is_in(["host", "service"]))
    if plan.spec.storage.transport != "infiniband" or not len(hosts):
        return tables.empty("addresses")
    pool = plan.pool("storage")
    address = pool.at(hosts["a_port"].to_numpy().astype(np.int64) + 2, "IPoIB ports (numbered by port)") - 1
    rows = hosts.select(
        device_id="box", port_id="a_port", network="network", vrf=_vrf(plan.spec, "storage", pl.col("tenant"))
    )
    return _rows(rows, "host", address, pool.network.prefixlen)


def _subnets(
    plan: _Plan, hosts: pl.DataFrame, network: str, fabric: str, roles: tuple[str, ...], *, bonded: bool
) -> pl.DataFrame:
    """Return host and gateway rows of subnets per leaf and tenant.

    ``bonded`` boxes have one address, on their first port: that on the leaf with the lowest id, which names the subnet.
    """
    if not len(hosts):
        return tables.empty("addresses")
    spec, pool = plan.spec, plan.pool(network)
    blocks = spec.addressing.tenant_blocks
    if len(spec.tenants) >= power_of_two(blocks):
        raise InputError(
            f"{blocks} blocks are one for everybody and {power_of_two(blocks) - 1} for tenants; there are {len(spec.tenants)} "
            "tenants",
            key="addressing.tenant_blocks",
        )
    ranks = _ranked(plan.devices, fabric, roles, []).select(leaf="device_id", rank="rank")
    hosts = hosts.join(ranks, on="leaf", maintain_order="left").sort("box", "leaf", "ordinal", maintain_order=True)
    if bonded:
        hosts = hosts.with_columns(rank=pl.col("rank").first().over("box"))
    size = power_of_two(plan.ports_per_leaf[fabric] + FIRST_HOST + 1)
    part = pool.block(0, blocks)
    part.holds((_largest(hosts["rank"]) + 1) * size, f"subnets of {size} for every leaf in each of {blocks} blocks")
    subnet = pool.base + pl.col("tenant") * part.size + pl.col("rank") * size
    vrf = _vrf(spec, network, pl.col("tenant"))
    vlan = VLANS[network] + pl.col("tenant")
    hosts = hosts.select("box", "a_port", "leaf", "ordinal", subnet=subnet, vrf=vrf, vlan=vlan, network=pl.lit(network))
    first = hosts.unique("box", keep="first", maintain_order=True) if bonded else hosts
    gateways = hosts.unique(["leaf", "subnet"], keep="first", maintain_order=True)
    prefix = prefix_of(size)
    return pl.concat(
        [
            _rows(
                first.select("network", "vrf", "vlan", device_id="box", port_id="a_port"),
                "host",
                (first["subnet"] + FIRST_HOST + first["ordinal"]).to_numpy(),
                prefix,
            ),
            _rows(
                gateways.select("network", "vrf", "vlan", device_id="leaf"),
                "gateway",
                (gateways["subnet"] + 1).to_numpy(),
                prefix,
            ),
        ]
    )


def _out_of_band(plan: _Plan) -> pl.DataFrame:
    return _access(plan, plan.edges.filter(pl.col("tier") == "oob"), "out_of_band", "oob", "management")


def _in_band(plan: _Plan) -> pl.DataFrame:
    hosts = plan.edges.filter((pl.col("network") == "management") & (pl.col("tier") == "host"))
    return _access(plan, hosts, "in_band", "tor", "host")


def _access(plan: _Plan, hosts: pl.DataFrame, pool_name: str, role: str, kind: str) -> pl.DataFrame:
    """Return a subnet per access switch of ``role``: its hosts and its gateway."""
    if not len(hosts):
        return tables.empty("addresses")
    ranks = _ranked(plan.devices, "management", (role,), []).select(leaf="device_id", rank="rank")
    hosts = hosts.join(ranks, on="leaf", maintain_order="left")
    size = power_of_two(plan.ports_per_leaf["management"] + FIRST_HOST + 1)
    pool = plan.pool(pool_name)
    pool.holds((_largest(hosts["rank"]) + 1) * size, f"subnets of {size} for every access switch")
    subnet = pool.base + hosts["rank"].to_numpy() * size
    rows = hosts.select(device_id="box", port_id="a_port", network="network", vrf=pl.lit(MANAGEMENT_VRF))
    gateways = hosts.with_columns(subnet=pl.Series(subnet)).unique("leaf", keep="first", maintain_order=True)
    prefix = prefix_of(size)
    return pl.concat(
        [
            _rows(rows, kind, subnet + FIRST_HOST + hosts["ordinal"].to_numpy(), prefix),
            _rows(
                gateways.select(device_id="leaf", network="network", vrf=pl.lit(MANAGEMENT_VRF)),
                "gateway",
                (gateways["subnet"] + 1).to_numpy(),
                prefix,
            ),
        ]
    )


def _services(plan: _Plan) -> pl.DataFrame:
    """Return the service address on every load balancer: the same everywhere with anycast, else one per site."""
    balancers = plan.devices.filter(pl.col("role") == "load_balancer")
    if not len(balancers):
        return tables.empty("addresses")
    sites = [site.name for site in plan.spec.sites]
    number = np.array([0 if plan.spec.frontend.anycast else sites.index(site) for site in balancers["site"]])
    address = plan.pool("services").at(number + 1, "service addresses")
    rows = balancers.select("device_id", "network", vrf=_vrf(plan.spec, "frontend", pl.lit(0)))
    return _rows(rows, "vip", address, 32)


def _ranked(devices: pl.DataFrame, network: str, roles: tuple[str, ...], within: list[str]) -> pl.DataFrame:
    """Return the switches of a network with ``rank``: how many of their group (``within``) have a lower id."""
    chosen = devices.filter((pl.col("network") == network) & pl.col("role").is_in(roles)).sort("device_id")
    position = pl.int_range(pl.len(), dtype=pl.Int64)
    return chosen.with_columns(rank=position.over(within) if within else position)


def _largest(numbers: pl.Series) -> int:
    """Return the largest of ``numbers``, 0 when there is none."""
    return int(numbers.to_numpy().max(initial=0))


def _rows(rows: pl.DataFrame, kind: str, address: Index, prefix: int) -> pl.DataFrame:
    return tables.conform("addresses", rows.with_columns(kind=pl.lit(kind), address=written(address, prefix)))
