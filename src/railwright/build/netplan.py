"""``netplan.yaml`` of a server: MTU, addresses, bonds, and for every rail a routing table of its own; written and read back."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from railwright.build.contract import Place
from railwright.build.host_model import HostPort, HostView
from railwright.build.interfaces import Interface, interfaces
from railwright.errors import InputError

FILE = "netplan.yaml"


def netplan(view: HostView) -> str:
    """Return netplan's file."""
    shown = interfaces(view.ports)
    ports, bonds = [i for i in shown if not i.members], [i for i in shown if i.members]
    lines = ["network:", "  version: 2", "  renderer: networkd"]
    lines += ["  ethernets:"] if ports else []
    for port in ports:
        lines += [f"    {port.name}:", f"      mtu: {port.mtu}" if port.mtu else "      optional: true"]
        lines += ["      accept-ra: false", *_addressing(port)]
    lines += ["  bonds:"] if bonds else []
    for bond in bonds:
        lines += [f"    {bond.name}:", f"      interfaces: [{', '.join(bond.members)}]"]
        lines += [f"      mtu: {bond.mtu}"] if bond.mtu else []
        lines += [
            "      parameters:",
            "        mode: 802.3ad",
            "        lacp-rate: fast",
            "        mii-monitor-interval: 100",
            "        transmit-hash-policy: layer3+4",
            "      accept-ra: false",
            *_addressing(bond),
        ]
    return "\n".join([*lines, ""])


def _addressing(interface: Interface) -> list[str]:
    """Return addresses and routes; a rail's default route is in a table of its own."""
    if not interface.addresses:
        return []
    lines = ["      addresses:", *(f"        - {address}" for address in interface.addresses)]
    if interface.table is not None:
        lines += [
            "      routes:",
            f"        - to: {interface.everywhere}",
            f"          via: {interface.gateway}",
            f"          table: {interface.table}",
            "      routing-policy:",
            f"        - from: {interface.source}",
            f"          table: {interface.table}",
        ]
    elif interface.gateway:
        lines += ["      routes:", "        - to: default", f"          via: {interface.gateway}"]
        lines.append(f"          metric: {interface.metric}")
    return lines


def read_netplan(path: str, text: str, ports: dict[str, HostPort], lines: dict[str, Place]) -> None:
    """Take MTU, addresses and gateway from netplan, which wins over ``host.conf``: it is what the host runs."""
    try:
        network = (YAML(typ="safe", pure=True).load(text) or {}).get("network", {})
        ethernets = dict(network.get("ethernets") or {})
        owners: dict[str, str] = {}
        for bond_name, bond in (network.get("bonds") or {}).items():
            first = next(iter(bond.get("interfaces", ())), None)
            if isinstance(first, str) and first in ethernets and bond.get("addresses"):
                owners[first] = bond_name
                shared = {key: bond[key] for key in ("addresses", "routes", "routing-policy") if key in bond}
                ethernets[first] = {**ethernets[first], **shared}
    except (YAMLError, AttributeError) as error:
        raise InputError(f"not a netplan file: {error}", file=path) from None
    found = {m[1]: n for n, line in enumerate(text.splitlines(), 1) if (m := re.fullmatch(r" {4}(\S+):", line))}
    for name, entry in ethernets.items():
        port = ports.get(name, HostPort(name=name))
        addresses = tuple(entry.get("addresses", ()))
        ports[name] = replace(
            port,
            mtu=entry.get("mtu", port.mtu),
            addresses=addresses or port.addresses,
            gateway=_gateway(entry) if addresses else port.gateway,
        )
        for fact, key in (("mtu", "mtu"), ("addresses", "addresses"), ("gateway", "routes")):
            start = found.get(name if fact == "mtu" else owners.get(name, name))
            if key in entry and start is not None:
                below = enumerate(text.splitlines()[start:], start + 1)
                own = next((n for n, line in below if f"{key}:" in line), start)
                lines[f"nic/{name}/{fact}"] = Place(path, own)


def _gateway(entry: Mapping[str, Any]) -> str:
    """Return the gateway of an interface; one in a table that no rule leads to is as good as none."""
    ruled = {rule.get("table") for rule in entry.get("routing-policy") or ()}
    routes = [route for route in entry.get("routes") or () if "table" not in route or route["table"] in ruled]
    return str(next((route["via"] for route in routes if "via" in route), ""))
