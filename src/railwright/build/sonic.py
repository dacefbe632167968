"""SONiC: ``config_db.json`` (and ``frr.conf`` in split mode), written and read back.

Table and field names are those of SONiC's YANG models (sonic-buildimage ``src/sonic-yang-models``). Buffers are static:
one ``pg_lossless`` profile per rate and length, as the contract computes them; where no headroom is known the priority
group refers to ``NULL``, which lets the switch's own dynamic buffer model decide.
"""

import json
from collections.abc import Mapping
from typing import Any

from railwright.build import frr
from railwright.build.contract import (
    GATEWAY_MAC,
    NOT_MAPPED,
    SEGMENT_MAC,
    Bgp,
    DeviceView,
    Headroom,
    Marking,
    Port,
    Qos,
    Queue,
    Watchdog,
)
from railwright.build.sonic_paths import FILE as PATHS
from railwright.build.sonic_paths import hash_table, newer_tables
from railwright.build.sonic_reader import FILE, read
from railwright.build.sonic_tables import POOLS, vrf_name
from railwright.catalog.qos import platforms

__all__ = ["FILE", "MAP", "PATHS", "config_db", "read", "render"]

MAP = "RAILWRIGHT"
_ROLES = {
    "leaf": "LeafRouter",
    "spine": "SpineRouter",
    "core": "SpineRouter",
    "border": "LeafRouter",
    "tor": "ToRRouter",
}
_LOSSY_PG = 0
_POLL_MS = 100

Table = dict[str, dict[str, Any]]


def render(view: DeviceView) -> dict[str, str]:
    """Return ``config_db.json``, ``frr.conf`` and, where the path mode needs newer tables, ``path-mode.json`` for a view."""
    files = {FILE: json.dumps(config_db(view), indent=4) + "\n"}
    newer = newer_tables(view)
    if newer:
        files[PATHS] = json.dumps(newer, indent=4) + "\n"
    if view.bgp is not None:
        files[frr.FILE] = frr.frr_conf(view, "Loopback0", addresses=False, vrf_prefix="Vrf-")
    return files


def config_db(view: DeviceView) -> dict[str, Table]:
    """Return the tables of ``config_db.json``; empty ones are left out."""
    tables: dict[str, Table] = {
        "DEVICE_METADATA": {"localhost": _metadata(view)},
        "PORT": {p.name: _port(p) for p in view.ports},
        "BREAKOUT_CFG": _breakouts(view),
        "CABLE_LENGTH": {"AZURE": {p.name: f"{p.cable_m}m" for p in view.ports if p.cable_m is not None}},
        "MGMT_VRF_CONFIG": {"vrf_global": {"mgmtVrfEnabled": "true"}},
        "LOOPBACK_INTERFACE": _loopbacks(view),
        "VRF": _vrfs(view),
        **_layer2(view),
        "INTERFACE": _interfaces(view),
        "DEVICE_NEIGHBOR": {
            p.name: dict(zip(("name", "port"), p.peer.split(":", 1), strict=True)) for p in view.ports if p.peer
        },
        "BGP_NEIGHBOR": _numbered(view.bgp),
        "SWITCH_HASH": hash_table(view),
    }
    if view.qos is not None:
        tables |= _qos_tables(view, view.qos)
    return {name: table for name, table in tables.items() if table and table != {"AZURE": {}}}


def _metadata(view: DeviceView) -> dict[str, str]:
    known = platforms().get(view.model)
    found = {"hostname": view.name, "type": _ROLES.get(view.role, "LeafRouter"), "buffer_model": "traditional"}
    if known is not None:
        found |= {"hwsku": known.hwsku, "platform": known.sonic_platform}
    if any(p.pfc and not p.headroom for p in view.ports):
        found["buffer_model"] = "dynamic"
    if view.bgp is not None:
        found |= {"bgp_asn": str(view.bgp.asn), "docker_routing_config_mode": "split"}
    return found


def _port(port: Port) -> dict[str, str]:
    return {
        "lanes": ",".join(map(str, port.lanes)),
        "alias": port.name,
        "index": str(_first_lane(port) // max(len(port.lanes) * port.split, 1) + 1),
        "speed": str(int(port.speed_gbps * 1000)),
        "mtu": str(port.mtu),
        "fec": port.fec,
        "admin_status": "up",
    }


def _breakouts(view: DeviceView) -> Table:
    """Return the mode per cage, under the name of its first port."""
    found: Table = {}
    for port in view.ports:
        first = _first_lane(port)
        cage = first - first % max(len(port.lanes) * port.split, 1)
        found[f"Ethernet{cage}"] = {"brkout_mode": f"{port.split}x{port.speed_gbps:g}G"}
    return found


def _first_lane(port: Port) -> int:
    return port.lanes[0] if port.lanes else 0


def _loopbacks(view: DeviceView) -> Table:
    if not view.loopbacks:
        return {}
    return {key: {} for key in ("Loopback0", *(f"Loopback0|{a}" for a in view.loopbacks))}


def _vrfs(view: DeviceView) -> Table:
    found: Table = {vrf_name(p.vrf): {} for p in view.ports if p.vrf != "default"}
    return found | {vrf_name(v.name): {"vni": str(v.vni)} for v in view.vrfs}


def _layer2(view: DeviceView) -> dict[str, Table]:
    """Return bonds, VLANs, their gateways and the VXLAN maps; dual-homed bonds are EVPN Ethernet segments."""
    bonded = {p.name: f"PortChannel{p.bond}" for p in view.ports if p.bond is not None}
    member = {bonded.get(p.name, p.name): p.vlan for p in view.ports if p.vlan is not None}
    mtu = {bonded[p.name]: str(p.mtu) for p in view.ports if p.name in bonded}
    gateways: Table = {}
    for vlan in view.vlans:
        fields = {"vrf_name": vrf_name(vlan.vrf)} if vlan.vrf != "default" else {}
        gateways[f"Vlan{vlan.vid}"] = fields | ({"static_anycast_gateway": "true"} if vlan.gateways else {})
        gateways |= {f"Vlan{vlan.vid}|{gateway}": {} for gateway in vlan.gateways}
    stretched = {v.vid: v.vni for v in view.vlans if v.vni is not None}
    source = next((a.partition("/")[0] for a in view.loopbacks if ":" not in a), "")
    tunnel = bool(stretched or view.vrfs)
    segment = {"esi": "AUTO", "type": "TYPE_3_MAC_BASED"}
    return {
        "PORTCHANNEL": {
            name: {"admin_status": "up", "mtu": size, "lacp_key": "auto", "system_mac": SEGMENT_MAC}
            for name, size in mtu.items()
        },
        "PORTCHANNEL_MEMBER": {f"{bond}|{port}": {} for port, bond in bonded.items()},
        "EVPN_ETHERNET_SEGMENT": {name: segment | {"ifname": name} for name in mtu},
        "VLAN": {f"Vlan{v.vid}": {"vlanid": str(v.vid)} for v in view.vlans},
        "VLAN_MEMBER": {f"Vlan{vid}|{name}": {"tagging_mode": "untagged"} for name, vid in member.items()},
        "VLAN_INTERFACE": gateways,
        "SAG": {"GLOBAL": {"gateway_mac": GATEWAY_MAC}} if any(v.gateways for v in view.vlans) else {},
        "VXLAN_TUNNEL": {"vtep": {"src_ip": source}} if tunnel else {},
        "VXLAN_EVPN_NVO": {"nvo": {"source_vtep": "vtep"}} if tunnel else {},
        "VXLAN_TUNNEL_MAP": {
            f"vtep|map_{vni}_Vlan{vid}": {"vlan": f"Vlan{vid}", "vni": str(vni)} for vid, vni in stretched.items()
        },
    }


def _interfaces(view: DeviceView) -> Table:
    unnumbered = {n.peer for n in view.bgp.neighbors if n.unnumbered} if view.bgp else set()
    found: Table = {}
    for port in view.ports:
        if port.vlan is not None:
            continue
        fields = {"vrf_name": vrf_name(port.vrf)} if port.vrf != "default" else {}
        if port.name in unnumbered:
            fields["ipv6_use_link_local_only"] = "enable"
        found[port.name] = fields
        found |= {f"{port.name}|{address}": {} for address in port.addresses}
    return found


def _numbered(bgp: Bgp | None) -> Table:
    """Return the numbered sessions whose AS is known: SONiC's model refuses AS 0, and FRR's file carries the others."""
    if bgp is None:
        return {}
    return {
        n.peer if n.vrf == "default" else f"{vrf_name(n.vrf)}|{n.peer}": {"asn": str(n.remote_as), "name": n.peer}
        for n in bgp.neighbors
        if not n.unnumbered and n.remote_as is not None
    }


def _qos_tables(view: DeviceView, qos: Qos) -> dict[str, Table]:
    lossless = sorted({priority for port in view.ports for priority in port.pfc})
    queue_of = {p: q for p, q in enumerate(qos.priority_to_queue) if q != NOT_MAPPED}
    used = sorted(set(queue_of.values()))
    wred = _wred_names(view)
    lossless_queues = {queue_of[p] for p in lossless if p in queue_of}
    return {
        "DSCP_TO_TC_MAP": {MAP: {str(d): str(p) for d, p in enumerate(qos.dscp_to_priority) if p != NOT_MAPPED}},
        "TC_TO_QUEUE_MAP": {MAP: {str(p): str(q) for p, q in queue_of.items()}},
        "TC_TO_PRIORITY_GROUP_MAP": {MAP: {str(p): str(p if p in lossless else _LOSSY_PG) for p in queue_of}},
        "MAP_PFC_PRIORITY_TO_QUEUE": {MAP: {str(p): str(q) for p, q in queue_of.items()}},
        "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP": {MAP: {str(p): str(p) for p in lossless}} if lossless else {},
        "PORT_QOS_MAP": {p.name: _port_qos(p, bool(lossless)) for p in view.ports},
        "SCHEDULER": {f"scheduler.{q.queue}": _scheduler(q) for q in qos.queues},
        "WRED_PROFILE": {name: _wred(m) for (m, _), name in wred.items()},
        "QUEUE": {
            f"{p.name}|{q.queue}": {"scheduler": f"scheduler.{q.queue}"} | _queue_wred(p, q, wred)
            for p in view.ports
            for q in qos.queues
        },
        "BUFFER_POOL": _pools(view),
        "BUFFER_PROFILE": _profiles(view, bool(lossless)),
        "BUFFER_PG": _priority_groups(view),
        "BUFFER_QUEUE": {
            f"{p.name}|{q}": {
                "profile": "egress_lossless_profile" if q in lossless_queues and p.pfc else "egress_lossy_profile"
            }
            for p in view.ports
            for q in used
        },
        "PFC_WD": _watchdog(view, qos.watchdog),
    }


def _port_qos(port: Port, lossless: bool) -> dict[str, str]:
    found = {"tc_to_queue_map": MAP, "tc_to_pg_map": MAP, "pfc_to_queue_map": MAP}
    if port.trust_dscp:
        found["dscp_to_tc_map"] = MAP
    if lossless:
        found["pfc_to_pg_map"] = MAP
    if port.pfc:
        found["pfc_enable"] = ",".join(map(str, port.pfc))
        if port.watchdog:
            found["pfcwd_sw_enable"] = found["pfc_enable"]
    return found


def _scheduler(queue: Queue) -> dict[str, str]:
    return (
        {"type": "STRICT"} if queue.weight is None else {"type": queue.scheduler.upper(), "weight": str(queue.weight)}
    )


def _queue_wred(port: Port, queue: Queue, names: Mapping[tuple[Marking, float], str]) -> dict[str, str]:
    marking = next((m for m in port.marking if m.queue == queue.queue), None)
    return {"wred_profile": names[marking, port.speed_gbps]} if marking is not None else {}


def _wred_names(view: DeviceView) -> dict[tuple[Marking, float], str]:
    """Return a profile name per marking and rate; two markings of one queue and rate get different names."""
    found: dict[tuple[Marking, float], str] = {}
    for port in view.ports:
        for marking in port.marking:
            name = f"ECN_{port.speed_gbps:g}G_Q{marking.queue}"
            if (marking, port.speed_gbps) not in found:
                same = sum(1 for taken in found.values() if taken == name or taken.startswith(f"{name}_"))
                found[marking, port.speed_gbps] = f"{name}_{same + 1}" if same else name
    return found


def _wred(marking: Marking) -> dict[str, str]:
    found = {"ecn": "ecn_all" if marking.enabled else "ecn_none"}
    for color in ("green", "yellow", "red"):
        found |= {
            f"wred_{color}_enable": "true" if marking.enabled else "false",
            f"{color}_min_threshold": str(marking.kmin_bytes),
            f"{color}_max_threshold": str(marking.kmax_bytes),
            f"{color}_drop_probability": str(marking.probability_percent),
        }
    return found


def _pools(view: DeviceView) -> Table:
    size = {name: {"size": str(size_bytes)} for name, size_bytes in view.pools}
    return {name: {"type": name.partition("_")[0], "mode": "dynamic"} | size.get(name, {}) for name in POOLS}


def _lossless_name(port: Port, room: Headroom, several: bool) -> str:
    length = f"{port.cable_m}m" if port.cable_m is not None else "default"
    return f"pg_lossless_{int(port.speed_gbps * 1000)}_{length}{f'_{room.priority}' if several else ''}_profile"


def _profiles(view: DeviceView, lossless: bool) -> Table:
    found: Table = {
        "ingress_lossy_profile": {"pool": "ingress_lossless_pool", "size": "0", "dynamic_th": "3"},
        "egress_lossy_profile": {"pool": "egress_lossy_pool", "size": "0", "dynamic_th": "3"},
    }
    if lossless:
        found["egress_lossless_profile"] = {"pool": "egress_lossless_pool", "size": "0", "dynamic_th": "7"}
    for name, room in _lossless_profiles(view).values():
        found[name] = {
            "pool": "ingress_lossless_pool",
            "size": str(room.size_bytes),
            "xon": str(room.xon_bytes),
            "xoff": str(room.xoff_bytes),
            "dynamic_th": "0",
        }
    return found


def _lossless_profiles(view: DeviceView) -> dict[tuple[str, int], tuple[str, Headroom]]:
    """Return per port and priority its profile's name and sizes; names are unique per size."""
    found: dict[tuple[str, int], tuple[str, Headroom]] = {}
    sizes: dict[str, tuple[int, int, int]] = {}
    for port in view.ports:
        for room in port.headroom:
            size = (room.size_bytes, room.xon_bytes, room.xoff_bytes)
            name = _lossless_name(port, room, several=False)
            if sizes.setdefault(name, size) != size:
                name = _lossless_name(port, room, several=True)
                if sizes.setdefault(name, size) != size:
                    name = f"pg_lossless_{port.name}_{room.priority}_profile"
                    sizes[name] = size
            found[port.name, room.priority] = (name, room)
    return found


def _priority_groups(view: DeviceView) -> Table:
    named = _lossless_profiles(view)
    found: Table = {}
    for port in view.ports:
        found[f"{port.name}|{_LOSSY_PG}"] = {"profile": "ingress_lossy_profile"}
        for priority in port.pfc:
            name, _ = named.get((port.name, priority), ("NULL", None))
            found[f"{port.name}|{priority}"] = {"profile": name}
    return found


def _watchdog(view: DeviceView, watchdog: Watchdog | None) -> Table:
    if watchdog is None or not any(p.watchdog for p in view.ports):
        return {}
    entry = {
        "action": str(watchdog.action or "drop"),
        "detection_time": str(watchdog.detection_ms),
        "restoration_time": str(watchdog.restoration_ms or watchdog.detection_ms),
    }
    return {"GLOBAL": {"POLL_INTERVAL": str(min(_POLL_MS, watchdog.detection_ms))}} | {
        p.name: dict(entry) for p in view.ports if p.watchdog
    }
