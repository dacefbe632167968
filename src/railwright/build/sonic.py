"""SONiC: ``config_db.json`` (and ``frr.conf`` in split mode), written and read back.

Table and field names are those of SONiC's YANG models (sonic-buildimage ``src/sonic-yang-models``). Buffers are static:
one ``pg_lossless`` profile per rate and length, as the contract computes them; where no headroom is known the priority
group refers to ``NULL``, which lets the switch's own dynamic buffer model decide.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
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
from railwright.build.places import json_lines
from railwright.build.sonic_tables import Tables, bare, span, tables_of
from railwright.catalog.qos import platforms
from railwright.errors import InputError

FILE = "config_db.json"
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
_WRED_FIELDS = {
    "kmin_bytes": "green_min_threshold",
    "kmax_bytes": "green_max_threshold",
    "enabled": "wred_green_enable",
}
_MARKS = ("ecn_all", "ecn_green", "ecn_green_yellow", "ecn_green_red")

Table = dict[str, dict[str, Any]]


def render(view: DeviceView) -> dict[str, str]:
    """Return ``config_db.json`` and ``frr.conf`` for a view."""
    files = {FILE: json.dumps(config_db(view), indent=4) + "\n"}
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
        "LOOPBACK_INTERFACE": _loopbacks(view),
        "VRF": _vrfs(view),
        **_layer2(view),
        "INTERFACE": _interfaces(view),
        "DEVICE_NEIGHBOR": {
            p.name: dict(zip(("name", "port"), p.peer.split(":", 1), strict=True)) for p in view.ports if p.peer
        },
        "BGP_NEIGHBOR": _numbered(view.bgp),
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


def _vrf(name: str) -> str:
    """Return a VRF's name as SONiC wants it: it must begin with ``Vrf``."""
    return f"Vrf-{name}"


def _plain_vrf(name: str) -> str:
    return name.removeprefix("Vrf-")


def _first_lane(port: Port) -> int:
    return port.lanes[0] if port.lanes else 0


def _loopbacks(view: DeviceView) -> Table:
    if not view.loopbacks:
        return {}
    return {key: {} for key in ("Loopback0", *(f"Loopback0|{a}" for a in view.loopbacks))}


def _vrfs(view: DeviceView) -> Table:
    found: Table = {_vrf(p.vrf): {} for p in view.ports if p.vrf != "default"}
    return found | {_vrf(v.name): {"vni": str(v.vni)} for v in view.vrfs}


def _layer2(view: DeviceView) -> dict[str, Table]:
    """Return bonds, VLANs, their gateways and the VXLAN maps; dual-homed bonds are EVPN Ethernet segments."""
    bonded = {p.name: f"PortChannel{p.bond}" for p in view.ports if p.bond is not None}
    member = {bonded.get(p.name, p.name): p.vlan for p in view.ports if p.vlan is not None}
    mtu = {bonded[p.name]: str(p.mtu) for p in view.ports if p.name in bonded}
    gateways: Table = {}
    for vlan in view.vlans:
        fields = {"vrf_name": _vrf(vlan.vrf)} if vlan.vrf != "default" else {}
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
        fields = {"vrf_name": _vrf(port.vrf)} if port.vrf != "default" else {}
        if port.name in unnumbered:
            fields["ipv6_use_link_local_only"] = "enable"
        found[port.name] = fields
        found |= {f"{port.name}|{address}": {} for address in port.addresses}
    return found


def _numbered(bgp: Bgp | None) -> Table:
    if bgp is None:
        return {}
    return {
        n.peer if n.vrf == "default" else f"{_vrf(n.vrf)}|{n.peer}": {"asn": str(n.remote_as or 0), "name": n.peer}
        for n in bgp.neighbors
        if not n.unnumbered
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
        "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP": {MAP: {str(p): str(p) for p in lossless}},
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
    known = platforms().get(view.model)
    size = {"size": str(known.pool_bytes)} if known is not None and known.pool_bytes else {}
    return {
        "ingress_lossless_pool": {"type": "ingress", "mode": "dynamic"} | size,
        "egress_lossless_pool": {"type": "egress", "mode": "dynamic"} | size,
        "egress_lossy_pool": {"type": "egress", "mode": "dynamic"} | size,
    }


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


def read(name: str, files: Mapping[str, str]) -> Reading:
    """Return what ``config_db.json`` (and ``frr.conf`` beside it) say; ``files`` maps paths to texts.

    Raises InputError with the line when a file is not what it should be.
    """
    path = next((p for p in files if p.endswith(".json")), None)
    if path is None:
        raise InputError(f"{name} has no {FILE}")
    text = files[path]
    try:
        db = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg}", file=path, line=error.lineno, column=error.colno) from None
    if not isinstance(db, dict) or not all(isinstance(table, dict) for table in db.values()):
        raise InputError("needs tables of entries, as SONiC writes them", file=path)
    tables = tables_of(db)
    routing = next(((p, frr.parse(t, "Vrf-")) for p, t in files.items() if p.endswith(frr.FILE)), None)
    lines: dict[tuple[str, ...], int] = {}

    def locate(key: str) -> Place | None:
        if routing is not None and key.startswith("bgp"):
            return Place(routing[0], routing[1].lines[key]) if key in routing[1].lines else None
        if not lines:
            lines.update(json_lines(text))
        return next((Place(path, lines[p]) for p in _paths(tables, key) if p in lines), None)

    wrong = [*_dangling(db), *_unbuffered(tables)]
    index = json_lines(text) if wrong else {}
    problems = [(code, port, message, Place(path, index.get(where, 0))) for code, port, message, where in wrong]
    watchdog = _read_watchdog(db)
    ports = tuple(_read_port(tables, port) for port in sorted(db.get("PORT", {})))
    loopbacks = tuple(sorted(k.split("|", 1)[1] for k in db.get("LOOPBACK_INTERFACE", {}) if "|" in k))
    metadata = db.get("DEVICE_METADATA", {}).get("localhost", {})
    view = DeviceView(
        name=name,
        nos="sonic",
        model=next((k for k, known in platforms().items() if known.sonic_platform == metadata.get("platform")), ""),
        loopbacks=loopbacks,
        qos=_read_qos(db, watchdog),
        ports=ports,
        bgp=frr.bgp_of(routing[1]) if routing is not None else _read_bgp(db),
        vlans=tuple(_read_vlans(db)),
        vrfs=tuple(
            Vrf(_plain_vrf(name), int(entry["vni"]))
            for name, entry in sorted(db.get("VRF", {}).items())
            if "vni" in entry
        ),
    )
    return Reading(view, tuple(files), locate, tuple(problems))


def _paths(tables: Tables, key: str) -> Iterator[tuple[str, ...]]:
    """Yield the JSON paths where the fact ``key`` stands, most exact first."""
    db = tables.db
    parts = key.split("/")
    if parts[0] == "dscp":
        yield from (("DSCP_TO_TC_MAP", m, parts[1]) for m in db.get("DSCP_TO_TC_MAP", {}))
        yield from (("DSCP_TO_TC_MAP", m) for m in db.get("DSCP_TO_TC_MAP", {}))
    elif parts[0] == "priority":
        yield from (("TC_TO_QUEUE_MAP", m, parts[1]) for m in db.get("TC_TO_QUEUE_MAP", {}))
        yield from (("TC_TO_QUEUE_MAP", m) for m in db.get("TC_TO_QUEUE_MAP", {}))
    elif parts[0] == "queue":
        reference = _first_scheduler(db, int(parts[1]))
        yield from ([("SCHEDULER", reference)] if reference else [])
        yield ("SCHEDULER",)
    elif parts[0] == "watchdog":
        field = {"detection_ms": "detection_time", "restoration_ms": "restoration_time"}.get(parts[-1], parts[-1])
        yield from (("PFC_WD", p, field) for p in db.get("PFC_WD", {}) if p != "GLOBAL")
        yield ("PFC_WD",)
    elif parts[0] == "loopbacks":
        yield ("LOOPBACK_INTERFACE",)
    elif parts[0] == "vlan":
        yield from (("VLAN_INTERFACE", f"Vlan{parts[1]}"), ("VLAN", f"Vlan{parts[1]}"), ("VLAN",))
    elif parts[0] == "vrf":
        yield from (("VRF", _vrf(parts[1])), ("VRF",))
    elif parts[0] == "bgp":
        yield from (("BGP_NEIGHBOR",), ("DEVICE_METADATA", "localhost", "bgp_asn"))
    elif parts[0] == "port":
        yield from _port_paths(tables, parts)


def _port_paths(tables: Tables, parts: list[str]) -> Iterator[tuple[str, ...]]:
    db = tables.db
    port = parts[1]
    what = parts[2] if len(parts) > 2 else ""
    if what in ("mtu", "fec", "lanes"):
        yield ("PORT", port, what)
    elif what == "speed_gbps":
        yield ("PORT", port, "speed")
    elif what == "split":
        yield ("BREAKOUT_CFG", _cage_port(db, port), "brkout_mode")
    elif what == "cable_m":
        yield from ((("CABLE_LENGTH", t, port)) for t in db.get("CABLE_LENGTH", {}))
        yield from (("CABLE_LENGTH", t) for t in db.get("CABLE_LENGTH", {}))
    elif what == "pfc":
        yield from (("PORT_QOS_MAP", port, "pfc_enable"), ("PORT_QOS_MAP", port))
    elif what == "trust_dscp":
        yield from (("PORT_QOS_MAP", port, "dscp_to_tc_map"), ("PORT_QOS_MAP", port))
    elif what == "watchdog":
        yield from (("PFC_WD", port), ("PFC_WD",))
    elif what == "marking" and len(parts) > 3:
        queue = tables.entry("QUEUE", port, int(parts[3]))
        profile = db["QUEUE"][queue].get("wred_profile") if queue else None
        if profile:
            entry = db.get("WRED_PROFILE", {}).get(profile, {})
            name = _WRED_FIELDS.get(parts[-1], "green_drop_probability")
            name = "ecn" if parts[-1] == "enabled" and entry.get("ecn") not in _MARKS else name
            yield from (("WRED_PROFILE", profile, name), ("WRED_PROFILE", profile))
        if queue:
            yield ("QUEUE", queue)
    elif what == "headroom" and len(parts) > 3:
        group = tables.entry("BUFFER_PG", port, int(parts[3]))
        if group:
            profile = db["BUFFER_PG"][group].get("profile", "")
            size = parts[-1].removesuffix("_bytes")
            yield from (("BUFFER_PROFILE", profile, size), ("BUFFER_PROFILE", profile), ("BUFFER_PG", group))
    elif what == "addresses":
        yield from ((("INTERFACE", k)) for k in db.get("INTERFACE", {}) if k.startswith(f"{port}|"))
    elif what in ("vlan", "bond"):
        bond = tables.bonds.get(port, port)
        yield from (("VLAN_MEMBER", f"Vlan{tables.vlans.get(bond)}|{bond}"), ("PORTCHANNEL_MEMBER", f"{bond}|{port}"))
    elif what == "vrf":
        yield from (("INTERFACE", port, "vrf_name"), ("INTERFACE", port))
    elif what == "peer":
        yield ("DEVICE_NEIGHBOR", port)
    yield ("PORT", port)


def _first_scheduler(db: Mapping[str, Any], queue: int) -> str | None:
    for key, entry in db.get("QUEUE", {}).items():
        if queue in span(key.rpartition("|")[2]) and entry.get("scheduler"):
            return bare(entry["scheduler"])
    return None


def _used_map(db: Mapping[str, Any], table: str, field: str) -> dict[str, str]:
    """Return the map that most ports refer to, or the only one."""
    counts: dict[str, int] = defaultdict(int)
    for entry in db.get("PORT_QOS_MAP", {}).values():
        if entry.get(field):
            counts[bare(entry[field])] += 1
    maps: dict[str, dict[str, str]] = db.get(table, {})
    used = max(counts, key=lambda name: counts[name], default=next(iter(maps), None))
    return maps.get(used or "", {})


def _read_qos(db: Mapping[str, Any], watchdog: Watchdog | None) -> Qos:
    dscp = _used_map(db, "DSCP_TO_TC_MAP", "dscp_to_tc_map")
    queue = _used_map(db, "TC_TO_QUEUE_MAP", "tc_to_queue_map")
    queues = []
    for number in range(8):
        reference = _first_scheduler(db, number)
        entry = db.get("SCHEDULER", {}).get(reference or "")
        if entry is not None:
            strict = entry.get("type", "").upper() == "STRICT"
            queues.append(
                Queue(
                    number,
                    "strict" if strict else entry.get("type", "").lower(),
                    None if strict else int(entry.get("weight", 0)),
                )
            )
    return Qos(
        tuple(int(dscp.get(str(d), NOT_MAPPED)) for d in range(64)),
        tuple(int(queue.get(str(p), NOT_MAPPED)) for p in range(8)),
        tuple(queues),
        watchdog,
    )


def _read_watchdog(db: Mapping[str, Any]) -> Watchdog | None:
    entry = next((e for k, e in db.get("PFC_WD", {}).items() if k != "GLOBAL"), None)
    if entry is None:
        return None
    return Watchdog(int(entry.get("detection_time", 0)), int(entry.get("restoration_time", 0)), entry.get("action"))


def _cage_port(db: Mapping[str, Any], port: str) -> str:
    """Return the entry of ``BREAKOUT_CFG`` whose cage holds ``port``: its own, or the nearest one below its first lane."""
    if port in db.get("BREAKOUT_CFG", {}):
        return port
    lane = int(port.removeprefix("Ethernet")) if port.removeprefix("Ethernet").isdigit() else 0
    lanes = [
        int(k.removeprefix("Ethernet")) for k in db.get("BREAKOUT_CFG", {}) if k.removeprefix("Ethernet").isdigit()
    ]
    return f"Ethernet{max((n for n in lanes if n <= lane), default=lane)}"


def _read_port(tables: Tables, name: str) -> Port:
    db = tables.db
    entry = db["PORT"][name]
    qos = db.get("PORT_QOS_MAP", {}).get(name, {})
    neighbor = db.get("DEVICE_NEIGHBOR", {}).get(name, {})
    mode = db.get("BREAKOUT_CFG", {}).get(_cage_port(db, name), {}).get("brkout_mode", "1x")
    lengths = [t[name] for t in db.get("CABLE_LENGTH", {}).values() if name in t]
    interface = db.get("INTERFACE", {}).get(name, {})
    pfc = tuple(sorted(int(p) for p in qos.get("pfc_enable", "").split(",") if p.strip().isdigit()))
    return Port(
        name=name,
        peer=f"{neighbor['name']}:{neighbor['port']}" if {"name", "port"} <= neighbor.keys() else "",
        speed_gbps=int(entry.get("speed", 0)) / 1000,
        split=int(mode.split("x")[0]) if mode.split("x")[0].isdigit() else 1,
        lanes=tuple(int(lane) for lane in entry.get("lanes", "").split(",") if lane.strip().isdigit()),
        mtu=int(entry.get("mtu", 0)),
        fec=entry.get("fec", "none"),
        cable_m=int(lengths[0].rstrip("m")) if lengths and lengths[0].rstrip("m").isdigit() else None,
        trust_dscp="dscp_to_tc_map" in qos,
        pfc=pfc,
        watchdog=name in db.get("PFC_WD", {}),
        marking=tuple(_read_markings(tables, name)),
        headroom=tuple(_read_headroom(tables, name)),
        addresses=tables.addresses.get(name, ()),
        vrf=_plain_vrf(interface.get("vrf_name", "default")),
        vlan=tables.vlans.get(tables.bonds.get(name, name)),
        bond=int(tables.bonds[name].removeprefix("PortChannel")) if name in tables.bonds else None,
    )


def _read_vlans(db: Mapping[str, Any]) -> Iterator[Vlan]:
    vnis = {
        e.get("vlan"): int(e["vni"]) for e in db.get("VXLAN_TUNNEL_MAP", {}).values() if str(e.get("vni", "")).isdigit()
    }
    interfaces = db.get("VLAN_INTERFACE", {})
    for name, entry in sorted(db.get("VLAN", {}).items()):
        gateways = tuple(sorted(k.split("|", 1)[1] for k in interfaces if k.startswith(f"{name}|")))
        vrf = _plain_vrf(interfaces.get(name, {}).get("vrf_name", "default"))
        yield Vlan(int(entry.get("vlanid", name.removeprefix("Vlan"))), vnis.get(name), vrf, gateways)


def _read_markings(tables: Tables, port: str) -> Iterator[Marking]:
    db = tables.db
    for queue in range(8):
        key = tables.entry("QUEUE", port, queue)
        profile = db["QUEUE"][key].get("wred_profile") if key else None
        entry = db.get("WRED_PROFILE", {}).get(bare(profile or ""))
        if entry is not None:
            marks = (
                entry.get("ecn", "ecn_none") in _MARKS
                and str(entry.get("wred_green_enable", "false")).lower() == "true"
            )
            yield Marking(
                queue,
                int(entry.get("green_min_threshold", 0)),
                int(entry.get("green_max_threshold", 0)),
                int(entry.get("green_drop_probability", 0)),
                marks,
            )


def _read_headroom(tables: Tables, port: str) -> Iterator[Headroom]:
    db = tables.db
    for group in range(8):
        key = tables.entry("BUFFER_PG", port, group)
        profile = bare(db["BUFFER_PG"][key].get("profile", "")) if key else ""
        entry = db.get("BUFFER_PROFILE", {}).get(profile)
        if entry is not None and "xoff" in entry:
            yield Headroom(group, int(entry["xoff"]), int(entry.get("xon", 0)), int(entry.get("size", 0)))


def _read_bgp(db: Mapping[str, Any]) -> Bgp | None:
    metadata = db.get("DEVICE_METADATA", {}).get("localhost", {})
    if not metadata.get("bgp_asn", "").isdigit():
        return None
    router_id = next((k.split("|", 1)[1].partition("/")[0] for k in db.get("LOOPBACK_INTERFACE", {}) if "|" in k), "")
    neighbors = []
    for key, entry in db.get("BGP_NEIGHBOR", {}).items():
        vrf, _, peer = key.rpartition("|")
        neighbors.append(Neighbor(peer, False, int(entry.get("asn", 0)) or None, False, _plain_vrf(vrf or "default")))
    return Bgp(int(metadata["bgp_asn"]), router_id, 0, tuple(sorted(neighbors, key=lambda n: (n.vrf, n.peer))))


_Problem = tuple[str, str, str, tuple[str, ...]]


def _dangling(db: Mapping[str, Any]) -> Iterator[_Problem]:
    """Yield references to profiles and maps that the file does not define."""
    references = (
        ("BUFFER_PG", "profile", "BUFFER_PROFILE"),
        ("BUFFER_QUEUE", "profile", "BUFFER_PROFILE"),
        ("QUEUE", "wred_profile", "WRED_PROFILE"),
        ("QUEUE", "scheduler", "SCHEDULER"),
        ("PORT_QOS_MAP", "dscp_to_tc_map", "DSCP_TO_TC_MAP"),
        ("PORT_QOS_MAP", "tc_to_queue_map", "TC_TO_QUEUE_MAP"),
        ("PORT_QOS_MAP", "tc_to_pg_map", "TC_TO_PRIORITY_GROUP_MAP"),
    )
    for table, field, target in references:
        known = db.get(target, {})
        for key, entry in db.get(table, {}).items():
            name = bare(str(entry.get(field, "NULL")))
            if name != "NULL" and name not in known:
                message = f"{table} {key} refers to {target} {name}, which is not defined"
                yield "RW021", key.partition("|")[0], message, (table, key, field)


def _unbuffered(tables: Tables) -> Iterator[_Problem]:
    """Yield lossless priorities without a priority group of their own, or in a group whose profile has no xoff.

    A group whose profile is ``NULL`` is left to the switch's dynamic buffer model.
    """
    db = tables.db
    for port, entry in db.get("PORT_QOS_MAP", {}).items():
        for priority in (p for p in entry.get("pfc_enable", "").split(",") if p.isdigit()):
            group = tables.entry("BUFFER_PG", port, int(priority))
            profile = bare(db["BUFFER_PG"][group].get("profile", "")) if group else ""
            where = ("BUFFER_PG", group) if group else ("PORT_QOS_MAP", port, "pfc_enable")
            known = db.get("BUFFER_PROFILE", {}).get(profile, {})
            if group is None or (profile not in ("", "NULL") and known and int(known.get("xoff", 0)) == 0):
                what = "has no BUFFER_PG" if group is None else f"has profile {profile} without xoff"
                yield "RW007", port, f"priority {priority} is lossless and {what}", where
