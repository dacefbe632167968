"""Reads SONiC: ``config_db.json`` and ``frr.conf`` back into a view, with the line of every fact."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from railwright.build import frr
from railwright.build.contract import (
    NOT_MAPPED,
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
from railwright.build.frr_mistakes import session_problems
from railwright.build.places import json_lines
from railwright.build.sonic_mistakes import own_problems
from railwright.build.sonic_paths import FILE as PATHS
from railwright.build.sonic_paths import mode_paths, read_mode
from railwright.build.sonic_tables import POOLS, Tables, bare, plain_vrf, span, tables_of, vrf_name
from railwright.catalog.qos import platforms
from railwright.errors import InputError

FILE = "config_db.json"
ROUTING = ("bgp", "policy/", "aggregate/", "leak/")
"""Facts that stand in ``frr.conf``."""
UNFILTERED = "connected routes are announced without a filter and the management port is in the default VRF"
_NUMBERED = {
    "dscp": "DSCP_TO_TC_MAP",
    "priority": "TC_TO_QUEUE_MAP",
    "queue": "SCHEDULER",
    "vlan": "VLAN",
    "vrf": "VRF",
    "port": "PORT",
}
"""The table of facts that have a name or number of their own, for one that the files do not mention."""
_WRED_FIELDS = {
    "kmin_bytes": "green_min_threshold",
    "kmax_bytes": "green_max_threshold",
    "enabled": "wred_green_enable",
}
_MARKS = ("ecn_all", "ecn_green", "ecn_green_yellow", "ecn_green_red")


def read(name: str, files: Mapping[str, str]) -> Reading:
    """Return what ``config_db.json`` (and ``frr.conf`` and ``path-mode.json`` beside it) say; ``files`` maps paths to texts.

    Raises InputError with the line when a file is not what it should be.
    """
    extra = next((p for p in files if p.endswith(PATHS)), None)
    path = next((p for p in files if p.endswith(".json") and p != extra), None)
    if path is None:
        raise InputError(f"{name} has no {FILE}")
    text = files[path]
    db = _parse(path, text)
    newer = _parse(extra, files[extra]) if extra is not None else {}
    tables = tables_of(db)
    routing = next(((p, frr.parse(t, "Vrf-")) for p, t in files.items() if p.endswith(frr.FILE)), None)
    lines: dict[tuple[str, ...], int] = {}

    def locate(key: str) -> Place | None:
        if routing is not None and key.startswith(ROUTING):
            line = frr.line_of(routing[1], key)
            return Place(routing[0], line) if line else None
        if key == "balancing" and extra is not None:
            held = json_lines(files[extra])
            return next((Place(extra, held[p]) for p in mode_paths() if p in held), Place(extra, 0))
        if not lines:
            lines.update(json_lines(text))
        return next((Place(path, lines[p]) for p in _paths(tables, key) if p in lines), None)

    wrong = [*own_problems(tables)]
    index = json_lines(text) if wrong else {}
    problems = [(code, port, message, Place(path, index.get(where, 0))) for code, port, message, where in wrong]
    watchdog = _read_watchdog(db)
    managed = db.get("MGMT_VRF_CONFIG", {}).get("vrf_global", {}).get("mgmtVrfEnabled") == "true"
    if routing is not None and routing[1].connected == "" and not managed:
        place = Place(routing[0], frr.line_of(routing[1], "bgp/withheld") or 0)
        problems.append(("RW043", "bgp", UNFILTERED, place))
    problems += [p for file, t in files.items() if file.endswith(frr.FILE) for p in session_problems(file, t)]
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
        balancing=read_mode(db, newer),
        vlans=tuple(_read_vlans(db)),
        vrfs=tuple(
            Vrf(plain_vrf(name), int(entry["vni"]))
            for name, entry in sorted(db.get("VRF", {}).items())
            if "vni" in entry
        ),
        pools=tuple(
            (name, int(entry["size"]))
            for name, entry in sorted(db.get("BUFFER_POOL", {}).items())
            if name in POOLS and str(entry.get("size", "")).isdigit()
        ),
    )
    return Reading(view, tuple(files), locate, tuple(problems))


def _parse(path: str, text: str) -> dict[str, Any]:
    try:
        db = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg}", file=path, line=error.lineno, column=error.colno) from None
    if not isinstance(db, dict) or not all(isinstance(table, dict) for table in db.values()):
        raise InputError("needs tables of entries, as SONiC writes them", file=path)
    return db


def _paths(tables: Tables, key: str) -> Iterator[tuple[str, ...]]:
    """Yield the JSON paths where the fact ``key`` stands, most exact first."""
    db = tables.db
    parts = key.split("/")
    if parts[0] in _NUMBERED and len(parts) == 1:
        yield (_NUMBERED[parts[0]],)
    elif parts[0] == "dscp":
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
    elif parts[0] == "balancing":
        yield from mode_paths()
    elif parts[0] == "pool":
        yield from (("BUFFER_POOL", parts[1], "size"), ("BUFFER_POOL", parts[1]), ("BUFFER_POOL",))
    elif parts[0] == "loopbacks":
        yield ("LOOPBACK_INTERFACE",)
    elif parts[0] == "vlan":
        yield from (("VLAN_INTERFACE", f"Vlan{parts[1]}"), ("VLAN", f"Vlan{parts[1]}"), ("VLAN",))
    elif parts[0] == "vrf":
        yield from (("VRF", vrf_name(parts[1])), ("VRF",))
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
        if port in db.get("PFC_WD", {}):
            yield from (("PORT_QOS_MAP", port, "pfcwd_sw_enable"), ("PORT_QOS_MAP", port))
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


def _priorities(text: str) -> tuple[int, ...]:
    return tuple(sorted(int(p) for p in text.split(",") if p.strip().isdigit()))


def _read_port(tables: Tables, name: str) -> Port:
    db = tables.db
    entry = db["PORT"][name]
    qos = db.get("PORT_QOS_MAP", {}).get(name, {})
    neighbor = db.get("DEVICE_NEIGHBOR", {}).get(name, {})
    mode = db.get("BREAKOUT_CFG", {}).get(_cage_port(db, name), {}).get("brkout_mode", "1x")
    lengths = [t[name] for t in db.get("CABLE_LENGTH", {}).values() if name in t]
    interface = db.get("INTERFACE", {}).get(name, {})
    pfc, watched = (_priorities(qos.get(field, "")) for field in ("pfc_enable", "pfcwd_sw_enable"))
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
        watchdog=name in db.get("PFC_WD", {}) and set(pfc) <= set(watched),
        marking=tuple(_read_markings(tables, name)),
        headroom=tuple(_read_headroom(tables, name)),
        addresses=tables.addresses.get(name, ()),
        vrf=plain_vrf(interface.get("vrf_name", "default")),
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
        vrf = plain_vrf(interfaces.get(name, {}).get("vrf_name", "default"))
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
        neighbors.append(Neighbor(peer, False, int(entry.get("asn", 0)) or None, False, plain_vrf(vrf or "default")))
    return Bgp(int(metadata["bgp_asn"]), router_id, 0, tuple(sorted(neighbors, key=lambda n: (n.vrf, n.peer))))
