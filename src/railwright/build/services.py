"""The service entrance: packet filters of the firewalls with state synchronisation, and who gets which other file (load
balancers, names and addresses, resilient hashing).

Zones are address sets, so that rules read as the plan's networks: ``services`` (virtual addresses), ``frontend``, ``fabric``
(backend and storage), ``management``, and everything else is outside. The default is to drop. Certificates and passwords are
the user's; no file holds a secret.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from railwright.build import frr, names
from railwright.build.border import box_policy
from railwright.build.contract import Bgp, DeviceView, Neighbor, Port
from railwright.build.services_balancers import HTTP, HTTPS, haproxy, keepalived
from railwright.build.services_data import data_files
from railwright.build.services_resilience import resilient_hashing
from railwright.build.withheld import management_pools
from railwright.design.plan import Plan

SYNC_PORT = 3780
_FORWARDING = (
    "net.ipv4.ip_forward = 1",
    "net.ipv6.conf.all.forwarding = 1",
    "net.ipv4.fib_multipath_hash_policy = 1",
    "",
)
_BINDING = ("net.ipv4.ip_nonlocal_bind = 1", "net.ipv4.fib_multipath_hash_policy = 1", "")
SYSCTL = "90-railwright.conf"


@dataclass(frozen=True, slots=True)
class Partner:
    """The firewall that holds a copy of the connections: per channel our port, our address and its address."""

    name: str
    channels: tuple[tuple[str, str, str], ...]


def service_files(plan: Plan, systems: Mapping[str, str]) -> dict[str, str]:
    """Return the files of firewalls, load balancers and ``services/``; ``systems`` is the operating system per switch."""
    found: dict[str, str] = {}
    held = plan.addresses.join(plan.devices.select("device_id", "role", "site", device="name"), on="device_id")
    zones = _zones(held)
    firewalls = _named(plan, "firewall")
    for name in firewalls:
        found |= {f"{name}/{file}": text for file, text in firewall(plan, name, zones, partner_of(plan, name)).items()}
    balancers = _named(plan, "load_balancer")
    for name in balancers:
        found |= {f"{name}/{file}": text for file, text in load_balancer(plan, name, held).items()}
    found |= resilient_hashing(plan, systems)
    if not held.is_empty():
        found |= {f"services/{file}": text for file, text in data_files(plan, held, systems).items()}
    return found


def firewall(plan: Plan, name: str, zones: Mapping[str, list[str]], partner: Partner | None) -> dict[str, str]:
    """Return packet filter, state synchronisation and routing of one firewall."""
    view = routed_view(plan, name)
    neighbours = sorted(n.peer for n in view.bgp.neighbors) if view.bgp is not None else []
    partners = [channel[2] for channel in partner.channels] if partner is not None else []
    files = {
        "nftables.conf": _nftables({**zones, "neighbours": neighbours, "partner": partners}),
        "conntrackd.conf": _conntrackd(partner),
        SYSCTL: "\n".join(_FORWARDING),
    }
    return files | (frr.render(view) if view.bgp is not None else {})


def load_balancer(plan: Plan, name: str, held: pl.DataFrame) -> dict[str, str]:
    """Return the files of one load balancer: HAProxy, keepalived that moves the virtual address, FRR that announces it.

    With anycast every balancer holds the address as long as it is healthy; otherwise those with the same address elect one
    over the routed network (their links to the borders share no segment, so VRRP runs in unicast).
    """
    vips = held.filter(pl.col("kind") == "vip")
    own = sorted(set(vips.filter(pl.col("device") == name)["address"]))
    nodes = held.filter((pl.col("kind") == "host") & (pl.col("role") == "service") & (pl.col("network") == "frontend"))
    site = plan.devices.filter(pl.col("name") == name)["site"][0]
    rows = nodes.select("device", "address", pl.col("site") == site).sort("device").iter_rows()
    files = {"haproxy.cfg": haproxy(rows, own), SYSCTL: "\n".join(_BINDING)}
    view = routed_view(plan, name)
    if view.bgp is not None:
        files |= frr.render(view)
    loopbacks = held.filter(pl.col("kind") == "loopback").select("device", "address")
    group = vips.filter(pl.col("address").is_in(own))["device"].unique(maintain_order=True).to_list() or [name]
    addresses = dict(loopbacks.filter(pl.col("device").is_in(group)).sort("device").iter_rows())
    peers = [addresses[other].partition("/")[0] for other in group if other != name and other in addresses]
    if plan.spec.frontend.anycast or name not in addresses:
        peers = []
    ports = _ports(plan, name)
    files["keepalived.conf"] = keepalived(
        group.index(name) if name in group else 0,
        names.checked(ports["name"][0] if len(ports) else "eth0", names.PORT, "the name of a port"),
        own,
        addresses.get(name, "").partition("/")[0],
        peers,
    )
    return files


def partner_of(plan: Plan, name: str) -> Partner | None:
    """Return who holds a copy of this firewall's connections: the other of its pair; None for the odd one out of a site.

    The pair's links share no segment: each channel runs over one port of both, routed by the border that they meet at.
    """
    site = plan.devices.filter(pl.col("name") == name)["site"][0]
    own = plan.devices.filter((pl.col("role") == "firewall") & pl.col("site").eq_missing(pl.lit(site)))[
        "name"
    ].to_list()
    place = own.index(name) ^ 1
    if place >= len(own):
        return None
    here, there = (
        [
            (port, address.partition("/")[0])
            for port, address in _ports(plan, which).select("name", "address").iter_rows()
            if address
        ]
        for which in (name, own[place])
    )
    for port, _ in here:
        names.checked(port, names.PORT, "the name of a port")
    return Partner(own[place], tuple((port, mine, its) for (port, mine), (_, its) in zip(here, there, strict=False)))


def _named(plan: Plan, role: str) -> list[str]:
    found = plan.devices.filter(pl.col("role") == role)["name"].to_list()
    names.check_all(found, names.DEVICE, "the name of a device")
    return found


def _ports(plan: Plan, name: str) -> pl.DataFrame:
    device = plan.devices.filter(pl.col("name") == name)["device_id"].implode()
    ports = plan.ports.filter(pl.col("device_id").is_in(device) & (pl.col("network").cast(pl.String) != "management"))
    held = plan.addresses.filter(pl.col("port_id").is_not_null()).select("port_id", "address")
    return ports.sort("port_id").join(held, on="port_id", how="left", maintain_order="left")


def routed_view(plan: Plan, name: str) -> DeviceView:
    """Return the FRR view of a box that speaks BGP over numbered links to its neighbours.

    Virtual addresses are not in it: keepalived puts them on the loopback while the box is healthy, and FRR announces what is
    there.
    """
    row = plan.devices.filter(pl.col("name") == name).row(0, named=True)
    ports = _ports(plan, name)
    owned = plan.addresses.filter(
        (pl.col("device_id") == row["device_id"]) & pl.col("port_id").is_null() & (pl.col("kind") != "vip")
    )
    far = pl.concat(
        plan.links.select(port_id=here, other=there) for here, there in (("a_port", "b_port"), ("b_port", "a_port"))
    )
    peers = (
        ports.join(far, on="port_id")
        .join(plan.addresses.filter(pl.col("kind") == "p2p").select(other="port_id", peer="address"), on="other")
        .join(plan.ports.select(other="port_id", peer_device="device_id"), on="other")
        .join(plan.devices.select("asn", peer_device="device_id"), on="peer_device")
    )
    neighbors = [
        Neighbor(address.partition("/")[0], False, asn, True)
        for address, asn in peers.select("peer", "asn").iter_rows()
        if asn is not None
    ]
    router_id = next((a.partition("/")[0] for a in owned["address"] if ":" not in a), "")
    router_id = router_id or next((a.partition("/")[0] for a in ports["address"].drop_nulls() if ":" not in a), "")
    return DeviceView(
        name=name,
        nos="frr",
        role=str(row["role"]),
        loopbacks=tuple(sorted(set(owned["address"]))),
        ports=tuple(
            Port(name=names.checked(port, names.PORT, "the name of a port"), addresses=(address,) if address else ())
            for port, address in ports.select("name", "address").iter_rows()
        ),
        bgp=box_policy(plan, name, Bgp(row["asn"], router_id, 16, tuple(neighbors), withheld=management_pools(plan)))
        if row["asn"] is not None and neighbors
        else None,
    )


def _zones(held: pl.DataFrame) -> dict[str, list[str]]:
    """Return the zones as collapsed prefixes."""
    own = held.filter(pl.col("kind").is_in(["host", "gateway"]))
    return {
        "services": _prefixes(held.filter(pl.col("kind") == "vip")["address"]),
        "frontend": _prefixes(own.filter(pl.col("network") == "frontend")["address"]),
        "fabric": _prefixes(own.filter(pl.col("network").is_in(["backend", "storage"]))["address"]),
        "management": _prefixes(held.filter(pl.col("network") == "management")["address"]),
    }


def _prefixes(addresses: Iterable[str]) -> list[str]:
    networks = {ipaddress.ip_interface(address).network for address in addresses}
    v4 = ipaddress.collapse_addresses(sorted(n for n in networks if isinstance(n, ipaddress.IPv4Network)))
    return [str(network) for network in v4]


def _nftables(zones: Mapping[str, list[str]]) -> str:
    lines = [
        "#!/usr/sbin/nft -f",
        "# Made from the plan: zones are its networks. The default is to drop.",
        "flush ruleset",
        "",
    ]
    lines.append("table inet railwright {")
    for zone, prefixes in zones.items():
        elements = f"        elements = {{ {', '.join(prefixes)} }}" if prefixes else ""
        lines += [f"    set {zone} {{", "        type ipv4_addr; flags interval;", *filter(None, [elements]), "    }"]
    lines += [
        "    chain input {",
        "        type filter hook input priority filter; policy drop;",
        "        iif lo accept",
        "        ct state established,related accept",
        "        ct state invalid drop",
        "        meta l4proto { icmp, ipv6-icmp } limit rate 100/second accept",
        '        ip saddr @neighbours tcp dport 179 accept comment "BGP"',
        '        ip saddr @neighbours udp dport { 3784, 3785, 4784 } accept comment "BFD"',
        f'        ip saddr @partner udp dport {SYNC_PORT} accept comment "connections of the partner"',
        "        ip saddr @management tcp dport 22 accept",
        "    }",
        "    chain forward {",
        "        type filter hook forward priority filter; policy drop;",
        "        ct state established,related accept",
        "        ct state invalid drop",
        '        ip saddr @management drop comment "management is isolated, both ways"',
        "        ip daddr @management drop",
        '        ip daddr @fabric drop comment "nobody outside talks to GPUs or storage"',
        "        ip saddr @fabric drop",
        f"        ip daddr @services tcp dport {{ {HTTP}, {HTTPS} }} ct state new accept",
        '        ip saddr @frontend ip daddr != @frontend ct state new accept comment "servers reach out"',
        "        meta l4proto { icmp, ipv6-icmp } limit rate 100/second accept",
        '        limit rate 5/second log prefix "railwright drop "',
        "    }",
        "}",
        "",
    ]
    return "\n".join(lines)


def _conntrackd(partner: Partner | None) -> str:
    """Return state synchronisation with the partner: a connection survives when its firewall is lost.

    The external cache is off, so that both are active and a reply may take the other one.
    """
    if partner is None or not partner.channels:
        return "# This firewall has no partner: its connections end with it. Firewalls are paired, add one.\n"
    lines = [f"# Partner: {partner.name}", "Sync {", "    Mode FTFW {", "        DisableExternalCache yes", "    }"]
    for index, (port, mine, its) in enumerate(partner.channels[:2]):
        lines += [
            f"    UDP{' Default' if index == 0 else ''} {{",
            f"        IPv4_address {mine}",
            f"        IPv4_Destination_Address {its}",
            f"        Port {SYNC_PORT}",
            f"        Interface {port}",
            "        Checksum on",
            "    }",
        ]
    lines += ["}", "General {", "    HashSize 32768", "    HashLimit 1048576", "    Syslog on"]
    lines += [
        "    LockFile /var/lock/conntrackd.lock",
        "    UNIX {",
        "        Path /var/run/conntrackd.ctl",
        "    }",
        "}",
        "",
    ]
    return "\n".join(lines)
