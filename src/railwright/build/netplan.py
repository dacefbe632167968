"""``netplan.yaml`` of a server: MTU, addresses, bonds, and for every rail a routing table of its own; written and read back."""

import re
from dataclasses import replace

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
    """Take MTU and addresses from netplan, which wins over ``host.conf``: it is what the host runs."""
    try:
        network = (YAML(typ="safe", pure=True).load(text) or {}).get("network", {})
        ethernets = dict(network.get("ethernets") or {})
        for bond in (network.get("bonds") or {}).values():
            first = next(iter(bond.get("interfaces", ())), None)
            if first in ethernets and bond.get("addresses"):
                ethernets[first] = {**ethernets[first], "addresses": bond["addresses"]}
    except (YAMLError, AttributeError) as error:
        raise InputError(f"not a netplan file: {error}", file=path) from None
    found = {m[1]: n for n, line in enumerate(text.splitlines(), 1) if (m := re.fullmatch(r" {4}(\S+):", line))}
    for name, entry in ethernets.items():
        port = ports.get(name, HostPort(name=name))
        addresses = tuple(entry.get("addresses", ()))
        ports[name] = replace(port, mtu=entry.get("mtu", port.mtu), addresses=addresses or port.addresses)
        for key in ("mtu", "addresses"):
            if key in entry and name in found:
                below = enumerate(text.splitlines()[found[name] :], found[name] + 1)
                own = next((n for n, line in below if f"{key}:" in line), found[name])
                lines[f"nic/{name}/{key}"] = Place(path, own)
