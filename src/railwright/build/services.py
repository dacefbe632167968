"""The service entrance: packet filters of the firewalls, load balancers with their virtual addresses, and the data for DHCP,
zero-touch provisioning and DNS.

Zones are address sets, so that rules read as the plan's networks: ``services`` (virtual addresses), ``frontend``, ``fabric``
(backend and storage), ``management``, and everything else is outside. The default is to drop. Certificates and passwords are
the user's: HTTPS is passed through unless a certificate is put where ``haproxy.cfg`` says, and no file holds a secret.
"""

import ipaddress
import json
from collections.abc import Iterable, Mapping

import polars as pl

from railwright.build import frr, names
from railwright.build.contract import Bgp, DeviceView, Neighbor, Port
from railwright.design.plan import Plan

HTTP, HTTPS, HEALTH = 80, 443, "/healthz"
VRRP_ID = 51


def service_files(plan: Plan, systems: Mapping[str, str]) -> dict[str, str]:
    """Return the files of firewalls, load balancers and ``services/``; ``systems`` is the operating system per switch."""
    found: dict[str, str] = {}
    held = plan.addresses.join(plan.devices.select("device_id", "role", device="name"), on="device_id")
    zones = _zones(held)
    for number, name in enumerate(_named(plan, "firewall")):
        found |= {f"{name}/{file}": text for file, text in firewall(plan, name, number, zones).items()}
    balancers = _named(plan, "load_balancer")
    for number, name in enumerate(balancers):
        found |= {f"{name}/{file}": text for file, text in load_balancer(plan, name, number, balancers, held).items()}
    if not held.is_empty():
        found |= {f"services/{file}": text for file, text in _data(plan, held, systems).items()}
    return found


def firewall(plan: Plan, name: str, number: int, zones: Mapping[str, list[str]]) -> dict[str, str]:
    """Return packet filter, state synchronisation and routing of one firewall."""
    view = routed_view(plan, name)
    files = {"nftables.conf": _nftables(zones), "conntrackd.conf": _conntrackd(plan, name)}
    if view.bgp is not None:
        files |= frr.render(view)
    files["90-railwright.conf"] = "\n".join(
        ["net.ipv4.ip_forward = 1", "net.ipv6.conf.all.forwarding = 1", "net.ipv4.fib_multipath_hash_policy = 1", ""]
    )
    return files


def load_balancer(plan: Plan, name: str, number: int, pair: list[str], held: pl.DataFrame) -> dict[str, str]:
    """Return HAProxy's file, and keepalived's (or FRR's where the virtual address is anycast) of one load balancer."""
    vips = sorted(set(held.filter((pl.col("kind") == "vip") & (pl.col("device") == name))["address"]))
    nodes = held.filter((pl.col("kind") == "host") & (pl.col("role") == "service") & (pl.col("network") == "frontend"))
    files = {"haproxy.cfg": _haproxy(nodes.select("device", "address").sort("device").iter_rows(), vips)}
    if plan.spec.frontend.anycast:
        view = routed_view(plan, name)
        if view.bgp is not None:
            files |= frr.render(view)
        return files
    ports = _ports(plan, name)
    files["keepalived.conf"] = _keepalived(number, ports["name"][0] if len(ports) else "eth0", vips)
    return files


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
    """Return the FRR view of a box that speaks BGP over numbered links to its neighbours."""
    row = plan.devices.filter(pl.col("name") == name).row(0, named=True)
    ports = _ports(plan, name)
    owned = plan.addresses.filter((pl.col("device_id") == row["device_id"]) & pl.col("port_id").is_null())
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
        bgp=Bgp(row["asn"], router_id, 16, tuple(neighbors)) if row["asn"] is not None and neighbors else None,
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
        '        tcp dport 179 accept comment "BGP, from connected neighbours only"',
        '        udp dport { 3784, 3785, 4784 } accept comment "BFD"',
        '        udp dport 3780 accept comment "conntrackd"',
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


def _conntrackd(plan: Plan, name: str) -> str:
    """Return state synchronisation over the first two ports: a flow survives when its firewall is lost."""
    ports = _ports(plan, name)
    lines = ["Sync {", "    Mode FTFW {", "        DisableExternalCache yes", "    }"]
    for index, port in enumerate(ports["name"][:2]):
        default = " Default" if index == 0 else ""
        lines += [
            f"    Multicast{default} {{",
            f"        IPv4_address 225.0.0.{50 + index}",
            "        Group 3780",
            f"        Interface {names.checked(port, names.PORT, 'the name of a port')}",
            "        Checksum on",
            "    }",
        ]
    lines += ["}", "General {", "    HashSize 32768", "    HashLimit 1048576", "    Syslog on", "    UNIX {"]
    lines += ["        Path /var/run/conntrackd.ctl", "    }", "}", ""]
    return "\n".join(lines)


def _haproxy(nodes: Iterable[tuple[str, str]], vips: list[str]) -> str:
    servers = [
        (names.checked(device, names.DEVICE, "a server's name"), address.partition("/")[0]) for device, address in nodes
    ]
    binds = [address.partition("/")[0] for address in vips] or ["*"]
    lines = [
        "global",
        "    log /dev/log local0",
        "    maxconn 200000",
        "",
        "defaults",
        "    log global",
        "    timeout connect 2s",
        "    timeout client 60s",
        "    timeout server 60s",
        "    option redispatch",
        "",
        "frontend http",
        "    mode http",
        *(f"    bind {bind}:{HTTP} transparent" if bind != "*" else f"    bind *:{HTTP}" for bind in binds),
        "    default_backend services_http",
        "",
        "# HTTPS is passed through. To end TLS here, put certificates into /etc/haproxy/certs and make this",
        f"# 'bind …:{HTTPS} ssl crt /etc/haproxy/certs/' in mode http.",
        "frontend https",
        "    mode tcp",
        *(f"    bind {bind}:{HTTPS} transparent" if bind != "*" else f"    bind *:{HTTPS}" for bind in binds),
        "    default_backend services_https",
        "",
        "backend services_http",
        "    mode http",
        "    balance leastconn",
        f"    option httpchk GET {HEALTH}",
        "    default-server check inter 1s fall 3 rise 2",
        *(f"    server {device} {address}:{HTTP}" for device, address in servers),
        "",
        "backend services_https",
        "    mode tcp",
        "    balance source",
        "    hash-type consistent",
        "    default-server check inter 1s fall 3 rise 2",
        *(f"    server {device} {address}:{HTTPS}" for device, address in servers),
        "",
    ]
    return "\n".join(lines)


def _keepalived(number: int, port: str, vips: list[str]) -> str:
    interface = names.checked(port, names.PORT, "the name of a port")
    lines = [
        "global_defs {",
        "    enable_script_security",
        "    script_user nobody",
        "}",
        "vrrp_script haproxy_alive {",
        '    script "/usr/bin/pgrep -x haproxy"',
        "    interval 1",
        "    fall 2",
        "    rise 2",
        "}",
        "vrrp_instance services {",
        "    state BACKUP",
        "    nopreempt",
        f"    interface {interface}",
        f"    virtual_router_id {VRRP_ID}",
        f"    priority {150 - 10 * number}",
        "    advert_int 1",
        "    virtual_ipaddress {",
        *(f"        {vip}" for vip in vips),
        "    }",
        "    track_script {",
        "        haproxy_alive",
        "    }",
        "}",
        "",
    ]
    return "\n".join(lines)


def _data(plan: Plan, held: pl.DataFrame, systems: Mapping[str, str]) -> dict[str, str]:
    """Return DNS and DHCP data. MAC addresses are not in a plan: the list has a place for them."""
    named = held.join(plan.ports.select("port_id", port="name"), on="port_id", how="left", maintain_order="left")
    records = named.filter(pl.col("kind").is_in(["loopback", "host", "management", "vip"])).with_columns(
        label=pl.when(pl.col("port").is_null())
        .then("device")
        .otherwise(
            pl.concat_str("device", pl.lit("-"), pl.col("port").str.to_lowercase().str.replace_all(r"[^a-z0-9-]", "-"))
        ),
        ip=pl.col("address").str.split("/").list.first(),
    )
    rows = records.select("label", "ip", "kind").unique(maintain_order=True)
    zone = ["$TTL 300", "@ IN SOA ns1 hostmaster ( 1 3600 600 604800 300 )", "@ IN NS ns1"]
    vips = [(f"vip{n}", ip) for n, ip in enumerate(sorted(set(rows.filter(pl.col("kind") == "vip")["ip"])), start=1)]
    listed = [(label, ip) for label, ip, kind in rows.iter_rows() if kind != "vip"] + vips
    zone += [f"{label} IN {'AAAA' if ':' in ip else 'A'} {ip}" for label, ip in listed]
    reservations = records.filter(pl.col("kind") == "management").select("device", "port", "ip")
    lines = ["device,port,mac,address", *(f"{device},{port},,{ip}" for device, port, ip in reservations.iter_rows())]
    fetched = {name: nos for name, nos in sorted(systems.items()) if nos in _ZTP_FILE}
    ztp = {name: {"os": nos, "url": f"http://ztp/{name}/{_ZTP_FILE[nos]}"} for name, nos in fetched.items()}
    return {
        "dns/zone.db": "\n".join([*zone, ""]),
        "dns/hosts": "\n".join([*(f"{ip} {label}" for label, ip in listed), ""]),
        "dhcp/reservations.csv": "\n".join([*lines, ""]),
        "ztp/devices.json": json.dumps(ztp, indent=2) + "\n",
        "ztp/dhcp-options.txt": "\n".join(_ZTP_OPTIONS),
    }


_ZTP_FILE = {"sonic": "config_db.json", "nvue": "startup.yaml", "eos": "startup-config"}
_ZTP_OPTIONS = (
    "# What the DHCP server hands out so that a new switch fetches its file (base: http://ztp/<hostname>/).",
    "sonic  option 67 (bootfile-name)   a ZTP JSON whose configdb-json.url is the device's url in devices.json",
    "nvue   option 239 (cumulus-provision-url)   a script: fetch the url, nv config replace FILE, nv config apply -y",
    "eos    option 67 (bootfile-name)   the device's url itself",
    "",
)
