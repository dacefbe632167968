"""Cumulus Linux NVUE: ``startup.yaml`` and the same as ``nv set`` commands, written and read back.

Keys follow the NVUE object model of Cumulus Linux 5.6 to 5.14, held against the *NVUE reference* of NVIDIA's documentation (later
releases say ``state enabled`` for ``enable on``, which is read too). Headroom is not written: NVIDIA advises to give the cable
length and let the switch size its buffers. The watchdog's detection time is polling interval times robustness; its action
and restoration cannot be set.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from railwright.build.contract import (
    GATEWAY_MAC,
    NOT_MAPPED,
    SEGMENT_MAC,
    Bgp,
    DeviceView,
    Leak,
    Marking,
    Neighbor,
    Port,
    Qos,
    Queue,
    Vlan,
    Watchdog,
)
from railwright.build.nvue_reader import FILE, GLOBAL, read
from railwright.build.path_modes import rendered_mode
from railwright.build.route_filters import filters_of, leak_name

__all__ = ["COMMANDS", "FILE", "object_model", "read", "render"]

COMMANDS = "nv-set.txt"
LOSSLESS_POOL_PERCENT = 90
"""Share of the buffer for lossless traffic, as NVIDIA's network configurator nc-v6 sets it (10 / 90)."""

HASH_FIELDS = ("destination-ip", "destination-port", "ip-protocol", "source-ip", "source-port")
"""What ECMP hashes over (NVUE reference, System Forwarding). As soon as one is set, those that are not are off."""

_POLL_MS = 100
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = {"on", "off", "yes", "no", "y", "n", "true", "false", "null"}

Tree = dict[str, Any]


def render(view: DeviceView) -> dict[str, str]:
    """Return ``startup.yaml`` and ``nv-set.txt`` for a view."""
    tree = object_model(view)
    commands = [" ".join(("nv set", *path)) for path in _leaves(tree)]
    yaml = ["- set:", *_yaml(tree, 4)]
    return {FILE: "\n".join([*yaml, ""]), COMMANDS: "\n".join([*commands, "nv config apply", ""])}


def object_model(view: DeviceView) -> Tree:
    """Return the NVUE tree of a view; ports with the same settings share one entry of the QoS profiles."""
    interfaces: Tree = {}
    if view.loopbacks:
        interfaces["lo"] = {"ip": {"address": {a: {} for a in view.loopbacks}}, "type": "loopback"}
    profiles = _pfc_profiles(view)
    for port in view.ports:
        if port.split > 1:
            parent = re.sub(r"s\d+$", "", port.name)
            lanes = {"lanes-per-port": len(port.lanes)} if port.lanes else {}
            interfaces[parent] = {"link": {"breakout": {f"{port.split}x": lanes}}, "type": "swp"}
        interfaces[port.name] = _interface(port, view, profiles)
        if port.bond is not None:
            bond = interfaces.setdefault(f"bond{port.bond}", _bond(port))
            bond["bond"]["member"][port.name] = {}
    interfaces |= {f"vlan{vlan.vid}": _svi(vlan) for vlan in view.vlans if vlan.gateways or vlan.vrf != "default"}
    tree: Tree = {"interface": interfaces}
    if view.qos is not None:
        tree["qos"] = _qos(view, view.qos, profiles)
    if view.bgp is not None:
        tree |= _bgp(view.bgp)
        policy = _policy(view.bgp)
        if policy:
            tree["router"]["policy"] = policy
    tree["system"] = {"hostname": view.name}
    mode = rendered_mode("nvue", view.balancing)
    if mode is not None:
        tree["system"]["forwarding"] = {"ecmp-hash": dict.fromkeys(HASH_FIELDS, "on")}
    if mode == "adaptive":
        tree.setdefault("router", {})["adaptive-routing"] = {"enable": "on"}
    if view.vlans or view.vrfs:
        _layer2(view, tree)
    return tree


def _bond(port: Port) -> Tree:
    """Return a dual-homed bond: an EVPN Ethernet segment whose number both switches share."""
    found: Tree = {"bond": {"member": {}}, "link": {"mtu": port.mtu}, "type": "bond"}
    segment = {"df-preference": 50000, "enable": "on", "local-id": port.bond, "mac-address": SEGMENT_MAC}
    found["evpn"] = {"multihoming": {"segment": segment}}
    if port.vlan is not None:
        found["bridge"] = {"domain": {"br_default": {"access": port.vlan}}}
    return found


def _svi(vlan: Vlan) -> Tree:
    ip: Tree = {"address": {gateway: {} for gateway in vlan.gateways}} if vlan.gateways else {}
    if vlan.vrf != "default":
        ip["vrf"] = vlan.vrf
    return {"ip": ip, "link": {"mac-address": GATEWAY_MAC}, "type": "svi", "vlan": vlan.vid}


def _layer2(view: DeviceView, tree: Tree) -> None:
    """Add bridge, VXLAN and EVPN to ``tree``."""
    if view.vlans:
        vlans: Tree = {str(v.vid): {"vni": {str(v.vni): {}}} if v.vni is not None else {} for v in view.vlans}
        tree["bridge"] = {"domain": {"br_default": {"vlan": vlans}}}
    source = next((a.partition("/")[0] for a in view.loopbacks if ":" not in a), None)
    tree["nve"] = {"vxlan": {"enable": "on"} | ({"source": {"address": source}} if source else {})}
    tree["evpn"] = {"enable": "on", "multihoming": {"enable": "on"}}
    for vrf in view.vrfs:
        own = tree.setdefault("vrf", {}).setdefault(vrf.name, {})
        own["evpn"] = {"enable": "on", "vni": {str(vrf.vni): {}}}
        if view.bgp is not None:
            family = {
                "enable": "on",
                "redistribute": {"connected": {"enable": "on"}},
                "route-export": {"to-evpn": {"enable": "on"}},
            }
            bgp = own.setdefault("router", {}).setdefault("bgp", {"enable": "on"})
            bgp |= {"autonomous-system": view.bgp.asn, "router-id": view.bgp.router_id}
            bgp.setdefault("address-family", {})["ipv4-unicast"] = family | bgp.get("address-family", {}).get(
                "ipv4-unicast", {}
            )


def _interface(port: Port, view: DeviceView, profiles: Mapping[tuple[Any, ...], str]) -> Tree:
    link: Tree = {"fec": port.fec, "mtu": port.mtu, "speed": f"{port.speed_gbps:g}G", "state": {"up": {}}}
    found: Tree = {"link": link, "type": "swp"}
    if port.peer:
        found["description"] = port.peer
    qos: Tree = {}
    if port.marking:
        qos["congestion-control"] = {"profile": _ecn_name(port)}
    if port.pfc:
        qos["pfc"] = {"profile": profiles[_pfc_key(port)]}
    if port.watchdog:
        qos["pfc-watchdog"] = {"state": "enable"}
    if not port.trust_dscp:
        qos["mapping"] = {"profile": "untrusted"}
    if qos:
        found["qos"] = qos
    if port.vlan is not None and port.bond is None:
        found["bridge"] = {"domain": {"br_default": {"access": port.vlan}}}
    ip: Tree = {}
    if port.addresses:
        ip["address"] = {a: {} for a in port.addresses}
    if port.vrf != "default":
        ip["vrf"] = port.vrf
    if ip:
        found["ip"] = ip
    unnumbered = {n.peer for n in view.bgp.neighbors} if view.bgp else set()
    if rendered_mode("nvue", view.balancing) == "adaptive" and port.name in unnumbered:
        found["router"] = {"adaptive-routing": {"enable": "on"}}
    return found


def _ecn_name(port: Port) -> str:
    marks = "-".join(f"q{m.queue}-{m.kmin_bytes}-{m.kmax_bytes}-{m.probability_percent}" for m in port.marking)
    return f"ecn-{port.speed_gbps:g}g-{marks}"


def _pfc_key(port: Port) -> tuple[Any, ...]:
    return port.pfc, port.cable_m


def _pfc_profiles(view: DeviceView) -> dict[tuple[Any, ...], str]:
    keys = dict.fromkeys(_pfc_key(p) for p in view.ports if p.pfc)
    return {
        (pfc, length): f"pfc-{'-'.join(map(str, pfc))}-{'default' if length is None else f'{length}m'}"
        for pfc, length in keys
    }


def _qos(view: DeviceView, qos: Qos, profiles: Mapping[tuple[Any, ...], str]) -> Tree:
    found: Tree = {}
    mapped = {str(d): {"switch-priority": p} for d, p in enumerate(qos.dscp_to_priority) if p != NOT_MAPPED}
    found["mapping"] = {GLOBAL: {"dscp": mapped, "trust": "l3"}}
    if not all(p.trust_dscp for p in view.ports):
        found["mapping"]["untrusted"] = {"port-default-sp": 0, "trust": "port"}
    queues = {str(p): {"traffic-class": q} for p, q in enumerate(qos.priority_to_queue) if q != NOT_MAPPED}
    found["egress-queue-mapping"] = {GLOBAL: {"switch-priority": queues}}
    found["egress-scheduler"] = {GLOBAL: {"traffic-class": {str(q.queue): _scheduler(q) for q in qos.queues}}}
    markings = {_ecn_name(p): p.marking for p in view.ports if p.marking}
    if markings:
        found["congestion-control"] = {
            name: {"traffic-class": {str(m.queue): _congestion(m) for m in marking}}
            for name, marking in markings.items()
        }
    if profiles:
        found["pfc"] = {name: _pfc(*key) for key, name in profiles.items()}
        lossless = {str(p) for port in view.ports for p in port.pfc}
        found["traffic-pool"] = {
            "default-lossless": _pool(sorted(lossless), LOSSLESS_POOL_PERCENT),
            "default-lossy": _pool(sorted({str(p) for p in range(8)} - lossless), 100 - LOSSLESS_POOL_PERCENT),
        }
    if qos.watchdog is not None and any(p.watchdog for p in view.ports):
        found["pfc-watchdog"] = _watchdog(qos.watchdog)
    return found


def _scheduler(queue: Queue) -> Tree:
    return {"mode": "strict"} if queue.weight is None else {"bw-percent": queue.weight, "mode": queue.scheduler}


def _congestion(marking: Marking) -> Tree:
    return {
        "ecn": "enable" if marking.enabled else "disable",
        "max-threshold": marking.kmax_bytes,
        "min-threshold": marking.kmin_bytes,
        "probability": marking.probability_percent,
        "red": "disable",
    }


def _pfc(priorities: tuple[int, ...], length: int | None) -> Tree:
    found: Tree = {"rx": "enable", "switch-priority": {str(p): {} for p in priorities}, "tx": "enable"}
    return ({"cable-length": length} if length is not None else {}) | found


def _pool(priorities: list[str], percent: int) -> Tree:
    return {"memory-percent": percent, "switch-priority": {p: {} for p in priorities}}


def _watchdog(watchdog: Watchdog) -> Tree:
    whole = watchdog.detection_ms % _POLL_MS == 0
    poll = _POLL_MS if whole else watchdog.detection_ms
    return {"polling-interval": poll, "robustness": watchdog.detection_ms // poll}


def _policy(bgp: Bgp) -> Tree:
    """Return prefix lists and route maps (NVUE reference, Router Policy)."""
    lists: Tree = {}
    maps: Tree = {}
    for name, prefixes, community in filters_of(bgp):
        rules: Tree = {}
        for number, prefix in enumerate(prefixes, start=1):
            network, _, longest = prefix.partition(" le ")
            rules[str(number * 10)] = {
                "action": "permit",
                "match": {network: {"max-prefix-len": int(longest)} if longest else {}},
            }
        lists[name] = {"rule": rules or {"10": {"action": "deny", "match": {"any": {}}}}, "type": "ipv4"}
        rule: Tree = {"action": {"permit": {}}, "match": {"ip-prefix-list": name, "type": "ipv4"}}
        maps[name] = {"rule": {"10": rule | ({"set": {"community": {community: {}}}} if community else {})}}
    return {"prefix-list": lists, "route-map": maps} if maps else {}


def _session(neighbor: Neighbor, bgp: Bgp) -> Tree:
    entry: Tree = {
        "remote-as": "external" if neighbor.remote_as is None else neighbor.remote_as,
        "type": "unnumbered" if neighbor.unnumbered else "numbered",
    }
    own: Tree = {}
    if neighbor.policy:
        own["policy"] = {
            "inbound": {"route-map": f"{neighbor.policy}-IN"},
            "outbound": {"route-map": f"{neighbor.policy}-OUT"},
        }
    if neighbor.maximum_prefixes is not None:
        own["prefix-limits"] = {"inbound": {"maximum": neighbor.maximum_prefixes}}
    families: Tree = {"ipv4-unicast": own} if own else {}
    if bgp.evpn and neighbor.vrf == "default" and not neighbor.policy:
        families["l2vpn-evpn"] = {"enable": "on"}
    if families:
        entry["address-family"] = families
    return ({"bfd": {"enable": "on"}} if neighbor.bfd else {}) | entry


def _leaked(leak: Leak) -> Tree:
    found: Tree = {"enable": "on", "list": {source: {} for source in leak.sources}}
    return {"route-import": {"from-vrf": found | ({"route-map": leak_name(leak)} if leak.accept else {})}}


def _bgp(bgp: Bgp) -> Tree:
    vrfs: Tree = {}
    leaks = {leak.vrf: leak for leak in bgp.leaks}
    for name in dict.fromkeys(["default", *(n.vrf for n in bgp.neighbors), *leaks]):
        neighbors: Tree = {n.peer: _session(n, bgp) for n in bgp.neighbors if n.vrf == name}
        families: Tree = {
            family: {
                "enable": "on",
                "multipaths": {"ebgp": bgp.maximum_paths},
                "redistribute": {"connected": {"enable": "on"}},
            }
            for family in ("ipv4-unicast", "ipv6-unicast")
        }
        if name in leaks:
            families["ipv4-unicast"] |= _leaked(leaks[name])
        if bgp.aggregates and name == "default":
            families["ipv4-unicast"]["aggregate-route"] = {aggregate: {} for aggregate in bgp.aggregates}
        if bgp.evpn and name == "default":
            families["l2vpn-evpn"] = {"enable": "on"}
        own: Tree = {
            "address-family": families,
            "enable": "on",
            "path-selection": {"multipath": {"aspath-ignore": "on" if bgp.relaxed else "off"}},
        }
        vrfs[name] = {"router": {"bgp": own | ({"neighbor": neighbors} if neighbors else {})}}
    head = {"autonomous-system": bgp.asn, "enable": "on", "router-id": bgp.router_id}
    return {"router": {"bgp": head}, "vrf": vrfs}


def _natural(key: str) -> list[tuple[bool, int, str]]:
    """Sort ``swp2`` before ``swp10``."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", key) if part]


def _leaves(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key in sorted(tree, key=_natural):
        value = tree[key]
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key) if isinstance(value, Mapping) else (*path, key, str(value))


def _yaml(tree: Mapping[str, Any], indent: int) -> Iterator[str]:
    pad = " " * indent
    for key in sorted(tree, key=_natural):
        value = tree[key]
        if isinstance(value, Mapping) and value:
            yield f"{pad}{_scalar(key)}:"
            yield from _yaml(value, indent + 2)
        else:
            yield (
                f"{pad}{_scalar(key)}: {{}}" if isinstance(value, Mapping) else f"{pad}{_scalar(key)}: {_scalar(value)}"
            )


def _scalar(value: object) -> str:
    if isinstance(value, int):
        return str(value)
    text = str(value)
    return text if _PLAIN.fullmatch(text) and text.lower() not in _WORDS else "'" + text.replace("'", "''") + "'"
