"""Arista EOS: the running configuration, rendered by Arista's own pyavd from its structured model, and read back.

pyavd checks the model against its schema before it renders; it comes with the extra ``eos``. EOS sizes PFC headroom by
itself and has no cable length; an interface's breakout follows from its name and speed.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from railwright.build.contract import (
    GATEWAY_MAC,
    NOT_MAPPED,
    Bgp,
    DeviceView,
    Marking,
    Neighbor,
    Place,
    Port,
    Qos,
    Queue,
    Reading,
    Vlan,
    Vrf,
    Watchdog,
)
from railwright.errors import InputError, MissingError

FILE = "startup-config"
BFD_MS = 100
ANY_AS = "ANY-AS"
_PROFILE_FIELDS = ("trust_dscp", "pfc", "watchdog", "marking")
_ACTIONS = {"drop": "drop", "alert": "notify-only", "forward": "notify-only"}
_FEC = {"rs": "reed_solomon", "fc": "fire_code"}
_WITH_LANES = {
    (400, 4),
    (400, 8),
    (800, 8),
    (200, 4),
    (200, 2),
    (100, 1),
    (100, 2),
    (100, 4),
    (800, 4),
    (400, 2),
    (200, 1),
}

Model = dict[str, Any]


def render(view: DeviceView) -> dict[str, str]:
    """Return ``startup-config``; raises MissingError without pyavd and InputError for what EOS's schema refuses."""
    try:
        from pyavd import get_device_config, validate_structured_config
    except ImportError:
        raise MissingError(
            "EOS configuration is rendered by pyavd, which is not installed: pip install 'railwright[eos]'"
        ) from None
    checked = validate_structured_config(structured_config(view))
    if checked.validated_data is None:
        raise InputError(f"{view.name}: EOS's schema refuses the configuration: {checked.validation_result}")
    return {FILE: get_device_config(checked.validated_data)}


def structured_config(view: DeviceView) -> Model:
    """Return the view in the structured model of pyavd's ``eos_cli_config_gen``."""
    profiles: dict[tuple[Any, ...], str] = {}
    for port in view.ports:
        profiles.setdefault(_profile_key(port), _profile_name(port))
    model: Model = {
        "hostname": view.name,
        "service_routing_protocols_model": "multi-agent",
        "ip_routing": True,
        "ipv6_unicast_routing": True,
        "ip_routing_ipv6_interfaces": True,
        "vrfs": [{"name": vrf, "ip_routing": True} for vrf in sorted(_vrf_names(view))],
        "ethernet_interfaces": [_interface(p, view, profiles[_profile_key(p)]) for p in view.ports],
    }
    if view.loopbacks:
        v4 = [a for a in view.loopbacks if ":" not in a]
        v6 = [a for a in view.loopbacks if ":" in a]
        loopback: Model = {"name": "Loopback0"}
        if v4:
            loopback |= {"ip_address": v4[0], "ip_address_secondaries": v4[1:]}
        if v6:
            loopback["ipv6_addresses"] = v6
        model["loopback_interfaces"] = [loopback]
    if view.qos is not None:
        model |= _qos(view.qos)
        model["qos_profiles"] = [
            _profile(name, port, view.qos) for name, port in {profiles[_profile_key(p)]: p for p in view.ports}.items()
        ]
    if view.bgp is not None:
        model["router_bgp"] = _bgp(view.bgp, view)
        model["peer_filters"] = [
            {"name": ANY_AS, "sequence_numbers": [{"sequence": 10, "match": "as-range 1-4294967295 result accept"}]}
        ]
        model["router_bfd"] = {"interval": BFD_MS, "min_rx": BFD_MS, "multiplier": 3}
    model |= _layer2(view)
    if view.balancing == "dynamic":
        model["ip_hardware"] = {"fib": {"load_balance_distribution": {"dynamic": {"enabled": True}}}}
    return model


def _vrf_names(view: DeviceView) -> set[str]:
    named = {p.vrf for p in view.ports} | {v.name for v in view.vrfs} | {v.vrf for v in view.vlans}
    return named - {"default"}


def _layer2(view: DeviceView) -> Model:
    """Return bonds as Ethernet segments, VLANs with anycast gateways, and the VXLAN interface."""
    if not view.vlans and not view.vrfs and not any(p.bond for p in view.ports):
        return {}
    bonds = {p.bond: p for p in view.ports if p.bond is not None}
    found: Model = {
        "vlans": [{"id": v.vid} for v in view.vlans],
        "port_channel_interfaces": [
            {
                "name": f"Port-Channel{number}",
                "mtu": port.mtu or None,
                "switchport": {"enabled": True, "mode": "access"} | ({"access_vlan": port.vlan} if port.vlan else {}),
                "evpn_ethernet_segment": {
                    "identifier": f"0000:{number // 65536:04x}:{number % 65536:04x}:0000:0001",
                    "route_target": f"00:00:00:{number // 65536 % 256:02x}:{number // 256 % 256:02x}:{number % 256:02x}",
                },
                "lacp_id": f"0000.{number // 65536:04x}.{number % 65536:04x}",
            }
            for number, port in sorted(bonds.items())
        ],
        "vlan_interfaces": [
            {"name": f"Vlan{v.vid}"}
            | ({"vrf": v.vrf} if v.vrf != "default" else {})
            | (
                {"ip_address_virtual": v.gateways[0], "ip_address_virtual_secondaries": list(v.gateways[1:])}
                if v.gateways
                else {}
            )
            for v in view.vlans
            if v.gateways or v.vrf != "default"
        ],
        "ip_virtual_router_mac_address": GATEWAY_MAC,
    }
    vxlan: Model = {
        "source_interface": "Loopback0",
        "udp_port": 4789,
        "vlans": [{"id": v.vid, "vni": v.vni} for v in view.vlans if v.vni is not None],
        "vrfs": [{"name": v.name, "vni": v.vni} for v in view.vrfs],
    }
    if vxlan["vlans"] or vxlan["vrfs"]:
        found["vxlan_interface"] = {"vxlan1": {"vxlan": vxlan}}
    found["port_channel_interfaces"] = [
        {k: v for k, v in p.items() if v is not None} for p in found["port_channel_interfaces"]
    ]
    return found


def _profile_key(port: Port) -> tuple[Any, ...]:
    return port.trust_dscp, port.pfc, port.watchdog, port.marking


def _profile_name(port: Port) -> str:
    parts = [
        "QOS",
        f"{port.speed_gbps:g}G" if port.marking else "",
        "PFC" + "".join(map(str, port.pfc)) if port.pfc else "",
    ]
    parts += [f"Q{m.queue}-{m.kmin_bytes}-{m.kmax_bytes}-{m.probability_percent}" for m in port.marking]
    parts += ["" if port.trust_dscp else "UNTRUSTED", "WD" if port.watchdog else ""]
    return "-".join(part for part in parts if part)


def _interface(port: Port, view: DeviceView, profile: str) -> Model:
    found: Model = {"name": port.name, "switchport": {"enabled": port.vlan is not None or port.bond is not None}}
    if port.bond is not None:
        found["channel_group"] = {"id": port.bond, "mode": "active"}
    elif port.vlan is not None:
        found["switchport"] |= {"mode": "access", "access_vlan": port.vlan}
    if port.mtu:
        found["mtu"] = port.mtu
    if port.peer:
        found["description"] = port.peer
    if port.speed_gbps:
        exact = (int(port.speed_gbps), len(port.lanes)) in _WITH_LANES
        found["speed"] = f"{port.speed_gbps:g}g" + (f"-{len(port.lanes)}" if exact else "")
    if port.fec in _FEC:
        found["error_correction_encoding"] = {"enabled": True, _FEC[port.fec]: True}
    if view.qos is not None:
        found["service_profile"] = profile
    if port.vrf != "default":
        found["vrf"] = port.vrf
    v4 = [a for a in port.addresses if ":" not in a]
    v6 = [a for a in port.addresses if ":" in a]
    if v4:
        found |= {"ip_address": v4[0], "ip_address_secondaries": v4[1:]}
    if v6:
        found["ipv6_addresses"] = v6
    if view.bgp is not None and any(n.unnumbered and n.peer == port.name for n in view.bgp.neighbors):
        found["ipv6_enable"] = True
    return found


def _qos(qos: Qos) -> Model:
    found: Model = {
        "qos": {
            "map": {
                "dscp": [f"{d} to traffic-class {p}" for d, p in enumerate(qos.dscp_to_priority) if p != NOT_MAPPED],
                "traffic_class": [
                    f"{p} to uc-tx-queue {q}" for p, q in enumerate(qos.priority_to_queue) if q != NOT_MAPPED
                ],
            }
        }
    }
    if qos.watchdog is not None:
        found["priority_flow_control"] = {
            "watchdog": {
                "action": _ACTIONS[qos.watchdog.action or "drop"],
                "timeout": f"{qos.watchdog.detection_ms / 1000:g}",
                "recovery_time": f"{(qos.watchdog.restoration_ms or 0) / 1000:g}",
            }
        }
    return found


def _profile(name: str, port: Port, qos: Qos) -> Model:
    markings = {m.queue: m for m in port.marking if m.enabled}
    queues = []
    for queue in qos.queues:
        entry: Model = {"id": queue.queue, "priority": "priority strict" if queue.weight is None else "no priority"}
        if queue.weight is not None:
            entry["bandwidth_percent"] = queue.weight
        marking = markings.get(queue.queue)
        if marking is not None:
            threshold = {"units": "bytes", "min": marking.kmin_bytes, "max": marking.kmax_bytes, "weight": 0}
            threshold["max_probability"] = marking.probability_percent
            entry["random_detect"] = {"ecn": {"count": True, "threshold": threshold}}
        queues.append(entry)
    found: Model = {"name": name, "trust": "dscp" if port.trust_dscp else "disabled", "uc_tx_queues": queues}
    if port.pfc:
        found["priority_flow_control"] = {
            "enabled": True,
            "priorities": [{"priority": p, "no_drop": True} for p in port.pfc],
        } | ({"watchdog": {"enabled": True}} if port.watchdog else {})
    return found


def _group(neighbor: Neighbor) -> str:
    return "FABRIC" if neighbor.bfd else "FABRIC-NO-BFD"


def _bgp(bgp: Bgp, view: DeviceView) -> Model:
    groups = {_group(n): n.bfd for n in bgp.neighbors if n.unnumbered}
    family = {"redistribute": {"connected": {"enabled": True}}}
    model: Model = {
        "as": str(bgp.asn),
        "router_id": bgp.router_id,
        "maximum_paths": {"paths": bgp.maximum_paths, "ecmp": bgp.maximum_paths},
        "bgp_defaults": ["no bgp default ipv4-unicast"],
        "peer_groups": [{"name": name} | ({"bfd": True} if bfd else {}) for name, bfd in sorted(groups.items())],
        "redistribute": {"connected": {"enabled": True}},
        "vrfs": [
            {"name": vrf, "router_id": bgp.router_id} | family | _sessions(bgp, vrf) | _evpn_vrf(bgp, view, vrf)
            for vrf in sorted({n.vrf for n in bgp.neighbors} - {"default"} | {v.name for v in view.vrfs})
        ],
    } | _sessions(bgp, "default")
    activated: Model = {"peer_groups": [{"name": name, "activate": True} for name in sorted(groups)]}
    activated["neighbors"] = [
        {"ip_address": n.peer, "activate": True} for n in bgp.neighbors if not n.unnumbered and n.vrf == "default"
    ]
    over_v6 = {"next_hop": {"address_family_ipv6": {"enabled": True, "originate": True}}}
    model["address_family_ipv4"] = activated | {"peer_groups": [g | over_v6 for g in activated["peer_groups"]]}
    model["address_family_ipv6"] = activated
    if bgp.evpn:
        transit = {"next_hop_unchanged": True} if view.role in ("spine", "core") else {}
        model["address_family_evpn"] = activated | transit
        model["vlans"] = [
            {
                "id": v.vid,
                "rd": f"{bgp.router_id}:{v.vid}",
                "route_targets": {"both": [f"{v.vni}:{v.vni}"]},
                "redistribute_routes": ["learned"],
            }
            for v in view.vlans
            if v.vni is not None
        ]
    return model


def _evpn_vrf(bgp: Bgp, view: DeviceView, name: str) -> Model:
    vni = next((v.vni for v in view.vrfs if v.name == name), None)
    if vni is None or not bgp.evpn:
        return {}
    target = [{"address_family": "evpn", "route_targets": [f"{vni}:{vni}"]}]
    return {"rd": f"{bgp.router_id}:{vni}", "route_targets": {"import": target, "export": target}}


def _sessions(bgp: Bgp, vrf: str) -> Model:
    own = [n for n in bgp.neighbors if n.vrf == vrf]
    remote = {n: {"remote_as": str(n.remote_as)} if n.remote_as else {"peer_filter": ANY_AS} for n in own}
    return {
        "neighbor_interfaces": [{"name": n.peer, "peer_group": _group(n)} | remote[n] for n in own if n.unnumbered],
        "neighbors": [
            {"ip_address": n.peer, "remote_as": str(n.remote_as)} | ({"bfd": True} if n.bfd else {})
            for n in own
            if not n.unnumbered
        ],
    }


@dataclass
class _Reader:
    """What the lines of a running configuration have said so far."""

    ports: dict[str, Port] = field(default_factory=dict)
    profile_of: dict[str, str] = field(default_factory=dict)
    profiles: dict[str, Port] = field(default_factory=dict)
    queues: dict[str, dict[int, Queue]] = field(default_factory=lambda: defaultdict(dict))
    loopbacks: list[str] = field(default_factory=list)
    dscp: list[int] = field(default_factory=lambda: [NOT_MAPPED] * 64)
    queue_of: list[int] = field(default_factory=lambda: [NOT_MAPPED] * 8)
    watchdog: Watchdog | None = None
    asn: int | None = None
    router_id: str = ""
    paths: int = 1
    bfd_groups: set[str] = field(default_factory=set)
    sessions: dict[tuple[str, str], tuple[bool, int | None, str]] = field(default_factory=dict)
    bfd_peers: set[tuple[str, str]] = field(default_factory=set)
    balancing: str | None = None
    lines: dict[str, int] = field(default_factory=dict)
    vlans: dict[int, Vlan] = field(default_factory=dict)
    vrfs: dict[str, int] = field(default_factory=dict)
    bond_vlan: dict[int, int] = field(default_factory=dict)
    evpn: bool = False


def read(name: str, files: Mapping[str, str]) -> Reading:
    """Return what a running or startup configuration of EOS says; unknown lines are left alone."""
    path, text = next(iter(files.items()))
    reader = _Reader()
    context: list[str] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        words = raw.split()
        if not words or words[0] == "!":
            continue
        depth = (len(raw) - len(raw.lstrip())) // 3
        context = [*context[:depth], raw.strip()]
        _line(reader, context, words, number)
    qos = _read_qos(reader)
    neighbors = tuple(
        Neighbor(peer, unnumbered, remote, group in reader.bfd_groups or (vrf, peer) in reader.bfd_peers, vrf)
        for (vrf, peer), (unnumbered, remote, group) in sorted(reader.sessions.items())
    )
    view = DeviceView(
        name=name,
        nos="eos",
        loopbacks=tuple(sorted(reader.loopbacks)),
        qos=qos,
        ports=tuple(_with_profile(reader, reader.ports[p]) for p in sorted(reader.ports)),
        bgp=None if reader.asn is None else Bgp(reader.asn, reader.router_id, reader.paths, neighbors, reader.evpn),
        vlans=tuple(reader.vlans[vid] for vid in sorted(reader.vlans)),
        vrfs=tuple(Vrf(vrf, vni) for vrf, vni in sorted(reader.vrfs.items())),
        balancing=reader.balancing,
    )

    def locate(key: str) -> Place | None:
        return Place(path, found) if (found := _find(reader, key)) else None

    return Reading(view, (path,), locate)


def _find(reader: _Reader, key: str) -> int | None:
    if key in reader.lines:
        return reader.lines[key]
    parts = key.split("/")
    if parts[0] == "port":
        port = next((p for p in reader.ports if key.startswith(f"port/{p}/") or key == f"port/{p}"), None)
        if port is None:
            return None
        rest = key.removeprefix(f"port/{port}").lstrip("/")
        profile = reader.profile_of.get(port)
        own, shared = f"port/{port}", f"profile/{profile}"
        places = (shared, own) if rest.split("/")[0] in _PROFILE_FIELDS else (own, shared)
        tries = [f"{own}/{rest}", f"{shared}/{rest}", f"{shared}/{'/'.join(rest.split('/')[:2])}", *places]
        return next((reader.lines[t] for t in tries if t in reader.lines), None)
    return None


def _line(reader: _Reader, context: list[str], words: list[str], number: int) -> None:
    head = context[0].split()
    if len(context) == 1:
        _global_line(reader, words, number)
    elif head[0] == "interface" and head[1].startswith(("Vlan", "Vxlan", "Port-Channel")):
        _layer2_line(reader, head[1], words, number)
    elif head[0] == "interface":
        _interface_line(reader, head[1], words, number)
    elif head[:2] == ["qos", "profile"]:
        _profile_line(reader, head[2], context, words, number)
    elif head[:2] == ["router", "bgp"]:
        inner = context[1].split()
        if inner == ["address-family", "evpn"]:
            reader.evpn = True
            reader.lines["bgp/evpn"] = number
        elif inner[0] != "vlan":
            _bgp_line(reader, inner[1] if inner[0] == "vrf" else "default", words, number)


def _global_line(reader: _Reader, words: list[str], number: int) -> None:
    match words:
        case ["interface", name] if name.startswith("Ethernet"):
            reader.ports.setdefault(name, Port(name=name, fec="none"))
            reader.lines[f"port/{name}"] = number
        case ["qos", "profile", name]:
            reader.profiles.setdefault(name, Port(name=name))
            reader.lines[f"profile/{name}"] = number
        case ["qos", "map", "dscp", *values, "to", "traffic-class", priority]:
            for value in values:
                reader.dscp[int(value)] = int(priority)
                reader.lines[f"dscp/{value}"] = number
        case ["qos", "map", "traffic-class", *values, "to", ("tx-queue" | "uc-tx-queue"), queue]:
            for value in values:
                if int(value) < 8:
                    reader.queue_of[int(value)] = int(queue)
                    reader.lines[f"priority/{value}"] = number
        case ["priority-flow-control", "pause", "watchdog", *rest]:
            _watchdog_line(reader, rest, number)
        case ["ip", "hardware", "fib", "load-balance", "distribution", "dynamic", *_]:
            reader.balancing = "dynamic"
            reader.lines["balancing"] = number
        case ["vlan", vids]:
            for vid in (int(v) for part in vids.split(",") for v in _span(part)):
                reader.vlans.setdefault(vid, Vlan(vid))
                reader.lines[f"vlan/{vid}"] = number
        case ["router", "bgp", asn]:
            reader.asn = int(asn)
            reader.lines["bgp/asn"] = reader.lines["bgp"] = number


def _span(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _layer2_line(reader: _Reader, name: str, words: list[str], number: int) -> None:
    own = int(re.sub(r"\D", "", name) or 0)
    match words:
        case ["vxlan", "vlan", vid, "vni", vni]:
            reader.vlans[int(vid)] = replace(reader.vlans.get(int(vid), Vlan(int(vid))), vni=int(vni))
            reader.lines[f"vlan/{vid}/vni"] = number
        case ["vxlan", "vrf", vrf, "vni", vni]:
            reader.vrfs[vrf] = int(vni)
            reader.lines[f"vrf/{vrf}"] = number
        case ["switchport", "access", "vlan", vid]:
            reader.bond_vlan[own] = int(vid)
        case ["vrf", vrf] if name.startswith("Vlan"):
            reader.vlans[own] = replace(reader.vlans.get(own, Vlan(own)), vrf=vrf)
            reader.lines[f"vlan/{own}/vrf"] = number
        case ["ip", "address", "virtual", address, *_] if name.startswith("Vlan"):
            vlan = reader.vlans.get(own, Vlan(own))
            reader.vlans[own] = replace(vlan, gateways=tuple(sorted((*vlan.gateways, address))))
            reader.lines[f"vlan/{own}/gateways"] = number


def _watchdog_line(reader: _Reader, rest: list[str], number: int) -> None:
    old = reader.watchdog or Watchdog(0, 0, "drop")
    match rest:
        case ["default", "timeout", seconds]:
            reader.watchdog = replace(old, detection_ms=round(float(seconds) * 1000))
            reader.lines["watchdog/detection_ms"] = number
        case ["default", "recovery-time", seconds, *_]:
            reader.watchdog = replace(old, restoration_ms=round(float(seconds) * 1000))
            reader.lines["watchdog/restoration_ms"] = number
        case ["action", action]:
            reader.watchdog = replace(old, action="alert" if action == "notify-only" else action)
            reader.lines["watchdog/action"] = number
    reader.lines.setdefault("watchdog", number)


def _interface_line(reader: _Reader, name: str, words: list[str], number: int) -> None:
    if name.startswith("Loopback"):
        if words[:2] in (["ip", "address"], ["ipv6", "address"]):
            reader.loopbacks.append(words[2])
            reader.lines["loopbacks"] = number
        return
    port = reader.ports.get(name)
    if port is None:
        return
    key = f"port/{name}"
    match words:
        case ["mtu", value]:
            reader.ports[name] = replace(port, mtu=int(value))
            reader.lines[f"{key}/mtu"] = number
        case ["speed", *_, value] if match_speed := re.fullmatch(r"(\d+(?:\.\d+)?)g.*", value):
            reader.ports[name] = replace(port, speed_gbps=float(match_speed[1]))
            reader.lines[f"{key}/speed_gbps"] = number
        case ["error-correction", "encoding", ("reed-solomon" | "fire-code") as kind]:
            reader.ports[name] = replace(port, fec="rs" if kind == "reed-solomon" else "fc")
            reader.lines[f"{key}/fec"] = number
        case ["description", text] if ":" in text:
            reader.ports[name] = replace(port, peer=text)
            reader.lines[f"{key}/peer"] = number
        case ["switchport", "access", "vlan", vid]:
            reader.ports[name] = replace(port, vlan=int(vid))
            reader.lines[f"{key}/vlan"] = number
        case ["channel-group", bond, "mode", _]:
            reader.ports[name] = replace(port, bond=int(bond))
            reader.lines[f"{key}/bond"] = number
        case ["service-profile", profile]:
            reader.profile_of[name] = profile
        case ["vrf", vrf]:
            reader.ports[name] = replace(port, vrf=vrf)
            reader.lines[f"{key}/vrf"] = number
        case ["ip" | "ipv6", "address", address, *_]:
            reader.ports[name] = replace(port, addresses=tuple(sorted((*port.addresses, address))))
            reader.lines[f"{key}/addresses"] = number
        case _:
            reader.ports[name] = _qos_line(reader, key, port, words, number)


def _profile_line(reader: _Reader, name: str, context: list[str], words: list[str], number: int) -> None:
    key = f"profile/{name}"
    inner = context[1].split()
    if inner[0] in ("tx-queue", "uc-tx-queue"):
        queue = int(inner[1])
        if len(context) == 2:
            reader.lines[f"{key}/queue/{queue}"] = number
        else:
            _queue_line(reader, name, queue, words, number)
        return
    reader.profiles[name] = _qos_line(reader, key, reader.profiles[name], words, number)


def _qos_line(reader: _Reader, key: str, port: Port, words: list[str], number: int) -> Port:
    match words:
        case ["qos", "trust", kind]:
            reader.lines[f"{key}/trust_dscp"] = number
            return replace(port, trust_dscp=kind == "dscp")
        case ["priority-flow-control", "priority", priority, "no-drop"]:
            reader.lines[f"{key}/pfc"] = number
            return replace(port, pfc=tuple(sorted({*port.pfc, int(priority)})))
        case ["priority-flow-control", "pause", "watchdog"]:
            reader.lines[f"{key}/watchdog"] = number
            return replace(port, watchdog=True)
    return port


def _queue_line(reader: _Reader, profile: str, queue: int, words: list[str], number: int) -> None:
    key = f"profile/{profile}/queue/{queue}"
    queues = reader.queues[profile]
    match words:
        case ["priority", "strict"]:
            queues[queue] = Queue(queue, "strict", None)
        case ["bandwidth", "percent", weight]:
            queues[queue] = Queue(queue, "dwrr", int(weight))
        case ["random-detect", "ecn", "minimum-threshold", low, unit, "maximum-threshold", high, _, *rest]:
            scale = {"bytes": 1, "kbytes": 1000, "mbytes": 1_000_000}.get(unit, 1)
            percent = int(rest[rest.index("max-mark-probability") + 1]) if "max-mark-probability" in rest else 100
            port = reader.profiles[profile]
            marking = Marking(queue, int(low) * scale, int(high) * scale, percent)
            reader.profiles[profile] = replace(
                port, marking=tuple(sorted((*port.marking, marking), key=lambda m: m.queue))
            )
            reader.lines[f"profile/{profile}/marking/{queue}"] = number
    reader.lines[f"queue/{queue}"] = reader.lines[key] = number


def _bgp_line(reader: _Reader, vrf: str, words: list[str], number: int) -> None:
    match words:
        case ["router-id", router_id] if vrf == "default":
            reader.router_id = router_id
            reader.lines["bgp/router_id"] = number
        case ["maximum-paths", paths, *_] if vrf == "default":
            reader.paths = int(paths)
            reader.lines["bgp/maximum_paths"] = number
        case ["neighbor", "interface", name, "peer-group", group, *rest]:
            remote = int(rest[1]) if rest[:1] == ["remote-as"] and rest[1].isdigit() else None
            reader.sessions[vrf, name] = (True, remote, group)
            reader.lines[f"bgp/neighbor/{vrf}/{name}"] = number
        case ["neighbor", peer, "remote-as", remote_as]:
            reader.sessions[vrf, peer] = (False, int(remote_as) if remote_as.isdigit() else None, "")
            reader.lines[f"bgp/neighbor/{vrf}/{peer}"] = number
        case ["neighbor", peer, "bfd", *_]:
            reader.bfd_groups.add(peer)
            reader.bfd_peers.add((vrf, peer))
            reader.lines[f"bgp/neighbor/{vrf}/{peer}/bfd"] = number


def _with_profile(reader: _Reader, port: Port) -> Port:
    profile = reader.profiles.get(reader.profile_of.get(port.name, ""))
    if port.bond is not None:
        port = replace(port, vlan=reader.bond_vlan.get(port.bond))
    if profile is None:
        return port
    return replace(
        port,
        trust_dscp=port.trust_dscp or profile.trust_dscp,
        pfc=port.pfc or profile.pfc,
        watchdog=port.watchdog or profile.watchdog,
        marking=port.marking or profile.marking,
    )


def _read_qos(reader: _Reader) -> Qos | None:
    """Return the maps and the schedulers of the profile that most ports use; None where nothing of QoS is configured."""
    used = Counter(reader.profile_of.values())
    profile = max(used, key=lambda p: used[p], default="")
    queues = tuple(sorted(reader.queues.get(profile, {}).values(), key=lambda q: q.queue))
    if not queues and reader.watchdog is None and set(reader.dscp) == {NOT_MAPPED}:
        return None
    return Qos(tuple(reader.dscp), tuple(reader.queue_of), queues, reader.watchdog)
