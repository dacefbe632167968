"""Names and addresses for the services of the management network: DNS zones, DHCP for dnsmasq, and zero-touch provisioning.

The domain is ``<cluster>.internal`` (reserved for private use by ICANN). Every box has its own name at its best address
(loopback, frontend, management, in this order) and one per addressed port. MAC addresses are not in a plan: fill the column
``mac`` of ``dhcp/reservations.csv``, then ``dhcp/hosts.sh`` makes dnsmasq's list from it.
"""

import ipaddress
import json
from collections.abc import Mapping

import polars as pl

from railwright.build import names
from railwright.design.plan import Plan

BASE = "http://ztp"
SERVERS = ("head", "service")
"""Roles of the boxes that may run these services; the first one is named in the zone and in the options."""

_RANK = {"loopback": 0, "host": 1, "management": 2}
_ZTP_FILE = {"sonic": "config_db.json", "nvue": "startup.yaml", "eos": "startup-config"}


def data_files(plan: Plan, held: pl.DataFrame, systems: Mapping[str, str]) -> dict[str, str]:
    """Return the files of ``services/``: ``held`` are the addresses with ``device, role``, ``systems`` the switches' NOS."""
    domain = f"{names.checked(plan.spec.name.lower(), names.DEVICE, 'part of a domain')}.internal"
    named = held.join(plan.ports.select("port_id", port="name"), on="port_id", how="left", maintain_order="left")
    records = named.filter(pl.col("kind").is_in([*_RANK, "vip"])).with_columns(
        ip=pl.col("address").str.split("/").list.first(),
        port=pl.col("port").str.to_lowercase().str.replace_all(r"[^a-z0-9-]", "-"),
    )
    listed = _labels(records, _server(records))
    return {
        "dns/zone.db": _zone(domain, listed),
        **_reverse(domain, listed),
        "dns/hosts": "".join(f"{ip} {label}.{domain} {label}\n" for label, ip in listed),
        **_dhcp(plan, records, systems, domain),
        **_ztp(systems),
    }


def _server(records: pl.DataFrame) -> str:
    """Return the management (or any) address of the box that is named as the server of names, addresses and files."""
    able = records.filter(pl.col("role").cast(pl.String).is_in(SERVERS)).sort("device_id", maintain_order=True)
    pool = able if len(able) else records
    managed = pool.filter(pl.col("kind") == "management")
    return str((managed if len(managed) else pool)["ip"][0])


def _labels(records: pl.DataFrame, server: str) -> list[tuple[str, str]]:
    """Return (label, address): ports, boxes by their best address, virtual addresses, the server's names; labels are unique."""
    ports = records.filter(pl.col("port").is_not_null()).select(pl.concat_str("device", pl.lit("-"), "port"), "ip")
    best = (
        records.filter(pl.col("kind") != "vip")
        .with_columns(rank=pl.col("kind").cast(pl.String).replace_strict(_RANK))
        .with_columns(rank=pl.when(pl.col("network") == "frontend").then(pl.col("rank")).otherwise(pl.col("rank") + 3))
        .sort("device_id", "rank", maintain_order=True)
        .unique("device", keep="first", maintain_order=True)
        .select("device", "ip")
    )
    vips = sorted(set(records.filter(pl.col("kind") == "vip")["ip"]))
    found = [*best.iter_rows(), *ports.iter_rows(), *((f"vip{n}", ip) for n, ip in enumerate(vips, start=1))]
    found += [("ns1", server), ("ztp", server)]
    return list(dict(reversed(found)).items())[::-1]


def _zone(domain: str, listed: list[tuple[str, str]]) -> str:
    lines = [f"$ORIGIN {domain}.", *_HEAD.format(domain=domain).splitlines()]
    lines += [f"{label} IN {'AAAA' if ':' in ip else 'A'} {ip}" for label, ip in listed]
    return "\n".join([*lines, ""])


def _reverse(domain: str, listed: list[tuple[str, str]]) -> dict[str, str]:
    """Return a reverse zone per first octet; the first label of an address is its name."""
    zones: dict[str, dict[str, str]] = {}
    for label, ip in listed:
        pointer = ipaddress.ip_address(ip).reverse_pointer
        zone = pointer.split(".", 3)[-1] if ":" not in ip else "ip6.arpa"
        zones.setdefault(zone, {}).setdefault(f"{pointer}.", label)
    return {
        f"dns/{zone}.db": "\n".join(
            [f"$ORIGIN {zone}.", *_HEAD.format(domain=domain).splitlines()]
            + [f"{pointer} IN PTR {label}.{domain}." for pointer, label in own.items()]
            + [""]
        )
        for zone, own in zones.items()
    }


_HEAD = """$TTL 300
@ IN SOA ns1.{domain}. hostmaster.{domain}. ( 1 3600 600 604800 300 )
@ IN NS ns1.{domain}."""


def _dhcp(plan: Plan, records: pl.DataFrame, systems: Mapping[str, str], domain: str) -> dict[str, str]:
    managed = records.filter((pl.col("kind") == "management") & ~pl.col("ip").str.contains(":"))
    gateways = plan.addresses.filter((pl.col("network") == "management") & (pl.col("kind") == "gateway"))["address"]
    routers = {ipaddress.ip_interface(a).network: a.partition("/")[0] for a in gateways}
    nets = sorted({ipaddress.ip_interface(address).network for address in managed["address"]})
    lines = ["# dnsmasq serves the management network: fixed addresses only, from dhcp/hosts.sh.", f"domain={domain}"]
    lines += ["dhcp-authoritative", "dhcp-hostsfile=/etc/railwright/dhcp-hosts"]
    for number, net in enumerate(nets):
        lines.append(f"dhcp-range=set:net{number},{net.network_address},static,{net.netmask},12h")
        if net in routers:
            lines.append(f"dhcp-option=tag:net{number},option:router,{routers[net]}")
    used = set(systems.values())
    if "sonic" in used:
        lines += [
            "dhcp-vendorclass=set:sonic,SONiC-ZTP",
            f"dhcp-option=tag:sonic,option:bootfile-name,{BASE}/sonic.json",
        ]
    if "nvue" in used:
        lines += ["dhcp-vendorclass=set:cumulus,cumulus-linux", f"dhcp-option=tag:cumulus,239,{BASE}/cumulus.sh"]
    lines += [
        f"dhcp-option=tag:{name},option:bootfile-name,{BASE}/{name}/{_ZTP_FILE['eos']}"
        for name, nos in sorted(systems.items())
        if nos == "eos"
    ]
    rows = managed.select("device", "port", "ip").iter_rows()
    return {
        "dhcp/dnsmasq.conf": "\n".join([*lines, ""]),
        "dhcp/reservations.csv": "".join(
            ["device,port,mac,address\n", *(f"{d},{p or ''},,{ip}\n" for d, p, ip in rows)]
        ),
        "dhcp/hosts.sh": _HOSTS,
    }


def _ztp(systems: Mapping[str, str]) -> dict[str, str]:
    fetched = {name: nos for name, nos in sorted(systems.items()) if nos in _ZTP_FILE}
    devices = {name: {"os": nos, "url": f"{BASE}/{name}/{_ZTP_FILE[nos]}"} for name, nos in fetched.items()}
    found = {"ztp/devices.json": json.dumps(devices, indent=2) + "\n"}
    used = set(systems.values())
    if "sonic" in used:
        by_name = {"source": {"prefix": f"{BASE}/", "identifier": "hostname", "suffix": f"/{_ZTP_FILE['sonic']}"}}
        steps = {
            "01-configdb-json": {"dynamic-url": by_name},
            "02-routing": {"plugin": {"url": {"source": f"{BASE}/sonic-frr.sh", "destination": "/var/run/ztp/frr.sh"}}},
        }
        found |= {"ztp/sonic.json": json.dumps({"ztp": steps}, indent=2) + "\n", "ztp/sonic-frr.sh": _SONIC_FRR}
    if "nvue" in used:
        found["ztp/cumulus.sh"] = _CUMULUS
    return found


_HOSTS = """#!/bin/sh
# Prints dnsmasq's dhcp-hostsfile from reservations.csv; rows without a MAC address are counted on standard error.
# Use: sh hosts.sh >/etc/railwright/dhcp-hosts
set -eu
cd "$(dirname "$0")"
awk -F, 'NR > 1 {
    if (length($3) == 17 && $3 ~ /^([0-9A-Fa-f][0-9A-Fa-f]:)+[0-9A-Fa-f][0-9A-Fa-f]$/)
        printf "%s,set:%s,%s,%s,infinite\\n", tolower($3), $1, $4, $1
    else missing++
}
END { if (missing) printf "%d rows without a MAC address\\n", missing >"/dev/stderr" }' reservations.csv
"""

_SONIC_FRR = """#!/bin/sh
# Zero-touch provisioning of SONiC: the routing configuration of this switch, by its host name.
set -eu
curl -fsS -o /etc/sonic/frr/frr.conf "http://ztp/$(hostname)/frr.conf"
systemctl restart bgp
"""

_CUMULUS = """#!/bin/bash
# CUMULUS-AUTOPROVISIONING
# The whole configuration of this switch, by its host name.
set -eu
curl -fsS -o /tmp/startup.yaml "http://ztp/$(hostname)/startup.yaml"
nv config replace /tmp/startup.yaml
nv config apply -y
nv config save
exit 0
"""
