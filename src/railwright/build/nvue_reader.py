"""Reads NVUE: ``startup.yaml`` or ``nv set`` commands back into a view, with the line of every fact."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError

from railwright.build.block_yaml import read_block
from railwright.build.contract import (
    NOT_MAPPED,
    Bgp,
    DeviceView,
    Leak,
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
from railwright.build.places import yaml_lines
from railwright.build.route_filters import Filters, foreign_targets, policy_name
from railwright.errors import InputError

FILE = "startup.yaml"
GLOBAL = "default-global"
_RANGE = re.compile(r"(.*?)(\d+)-(\d+)")
_RELAXED = ("path-selection", "multipath", "aspath-ignore")
"""On where a configuration does not say (Cumulus Linux user guide, BGP, ECMP)."""
_ON = {"on", "enable", "enabled", "true", "up"}

Tree = dict[str, Any]


def read(name: str, files: Mapping[str, str]) -> Reading:
    """Return what ``startup.yaml`` says, or a file of ``nv set`` commands where there is none.

    Raises InputError with the line when the file is not what it should be.
    """
    path = next((p for p in files if p.endswith((".yaml", ".yml"))), None)
    lines: dict[tuple[str, ...], int] = {}
    if path is not None:
        tree, lines = _parse_yaml(path, files[path])
    else:
        path = next(iter(files))
        tree, lines = _parse_commands(files[path])
    text = files[path]
    from_yaml = not lines
    interfaces = _expanded(_at(tree, "interface"))

    def locate(key: str) -> Place | None:
        if not lines:
            lines.update(
                {p[1:] if p[:1] == ("set",) else p: n for p, n in yaml_lines(text).items()} if from_yaml else {}
            )
        for wanted in _paths(tree, interfaces, key):
            found = next((n for p, n in lines.items() if _covers(p, wanted)), None)
            if found is not None:
                return Place(path, found)
        return None

    qos = _read_qos(tree)
    bonds = {port: b for b, entry in interfaces.items() for key in _at(entry, "bond", "member") for port in _names(key)}
    ports = tuple(
        _read_port(tree, port, entry, interfaces, bonds)
        for port, entry in sorted(interfaces.items())
        if _word(entry, "type") != "loopback"
        and port != "lo"
        and "breakout" not in _at(entry, "link")
        and port != "eth0"
        and _word(entry, "type") not in ("bond", "svi")
    )
    lo = _at(interfaces, "lo", "ip", "address")
    view = DeviceView(
        name=name,
        nos="nvue",
        loopbacks=tuple(sorted(lo)),
        qos=qos,
        ports=ports,
        bgp=_read_bgp(tree),
        balancing=_read_balancing(tree),
        vlans=tuple(_read_vlans(tree, interfaces)),
        vrfs=tuple(
            Vrf(name, int(vni))
            for name in sorted(_at(tree, "vrf"))
            for vni in _at(tree, "vrf", name, "evpn", "vni")
            if vni.isdigit()
        ),
    )
    shut = [port for port in ports if port.peer and "down" in _word(interfaces[port.name], "link", "state")]
    places = {p.name: locate(f"port/{p.name}/shut") or Place(path, 0) for p in shut}
    return Reading(
        view,
        (path,),
        locate,
        tuple(("RW042", p.name, f"is shut and has a cable to {p.peer}", places[p.name]) for p in shut),
    )


def _parse_yaml(path: str, text: str) -> tuple[Tree, dict[tuple[str, ...], int]]:
    """Return the settings and their lines; the lines are left to :func:`yaml_lines` when only the full parser knows the file."""
    quick = read_block(text)
    lines: dict[tuple[str, ...], int] = {}
    parts: Any
    if quick is not None:
        parts, lines = quick
        lines = {p[1:] if p[0] == "set" else p: number for p, number in lines.items() if p != ("set",)}
    else:
        try:
            data = YAML(typ="safe", pure=True).load(text)
        except MarkedYAMLError as error:
            mark = error.problem_mark
            raise InputError(f"not YAML: {error.problem}", file=path, line=mark.line + 1 if mark else None) from None
        parts = data if isinstance(data, list) else [data]
    found: Tree = {}
    for part in parts:
        if isinstance(part, dict):
            found |= part.get("set", part if "header" not in part else {})
    if not found:
        raise InputError("has no 'set' with NVUE settings", file=path)
    return _texts(found), lines


def _texts(tree: Mapping[Any, Any]) -> Tree:
    return {str(k): _texts(v) if isinstance(v, Mapping) else v for k, v in tree.items()}


def _parse_commands(text: str) -> tuple[Tree, dict[tuple[str, ...], int]]:
    tree: Tree = {}
    lines: dict[tuple[str, ...], int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if words[:2] != ["nv", "set"]:
            continue
        node = tree
        for depth, word in enumerate(words[2:], start=1):
            lines.setdefault(tuple(words[2 : 2 + depth]), number)
            node = node.setdefault(word, {})
    return tree, lines


def _at(tree: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    node: Any = tree
    for key in path:
        node = node.get(key, {}) if isinstance(node, Mapping) else {}
    return node if isinstance(node, Mapping) else {}


def _word(tree: Mapping[str, Any], *path: str) -> str:
    """Return a value as text; ``nv set`` commands leave it as the only key of a mapping."""
    value = _at(tree, *path[:-1]).get(path[-1], "")
    if isinstance(value, Mapping):
        value = next(iter(value), "")
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def _number(tree: Mapping[str, Any], *path: str, default: int = 0) -> int:
    word = _word(tree, *path)
    return int(word) if word.lstrip("-").isdigit() else default


def _is_on(tree: Mapping[str, Any], *path: str) -> bool:
    """Say whether a switch is on; from Cumulus 5.15 on ``enable on`` is called ``state enabled``."""
    word = _word(tree, *path)
    if not word and path[-1] == "enable":
        word = _word(tree, *path[:-1], "state")
    return word.lower() in _ON


def _names(key: str) -> list[str]:
    """Return the names of a key such as ``swp1-3,swp5s0-1``."""
    found = []
    for part in key.split(","):
        match = _RANGE.fullmatch(part)
        found += [f"{match[1]}{n}" for n in range(int(match[2]), int(match[3]) + 1)] if match else [part]
    return found


def _expanded(tree: Mapping[str, Any]) -> Tree:
    """Return a mapping with every name of its range keys on its own; settings of several keys add up."""
    found: Tree = {}
    for key, value in tree.items():
        for name in _names(key):
            found[name] = _joined(found.get(name, {}), value)
    return found


def _joined(a: Mapping[str, Any], b: Mapping[str, Any]) -> Tree:
    both = dict(a)
    for key, value in b.items():
        own = both.get(key)
        both[key] = _joined(own, value) if isinstance(own, Mapping) and isinstance(value, Mapping) else value
    return both


def _covers(path: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return len(path) == len(wanted) and all(
        p == w or (i in (1, 4) and w in _names(p)) for i, (p, w) in enumerate(zip(path, wanted, strict=True))
    )


def _paths(tree: Mapping[str, Any], interfaces: Mapping[str, Any], key: str) -> Iterator[tuple[str, ...]]:
    """Yield the NVUE paths where the fact ``key`` stands, most exact first."""
    parts = key.split("/")
    if len(parts) == 1 and parts[0] in ("dscp", "priority", "queue", "vlan", "vrf"):
        yield ({"vlan": "bridge", "vrf": "vrf"}.get(parts[0], "qos"),)
    elif parts[0] == "dscp":
        yield from (("qos", "mapping", GLOBAL, "dscp", parts[1]), ("qos", "mapping"))
    elif parts[0] == "priority":
        yield from (
            ("qos", "egress-queue-mapping", GLOBAL, "switch-priority", parts[1]),
            ("qos", "egress-queue-mapping"),
        )
    elif parts[0] == "queue":
        yield from (("qos", "egress-scheduler", GLOBAL, "traffic-class", parts[1]), ("qos", "egress-scheduler"))
    elif parts[0] == "watchdog":
        yield ("qos", "pfc-watchdog")
    elif parts[0] == "vlan":
        yield from (("interface", f"vlan{parts[1]}"), ("bridge", "domain", "br_default", "vlan", parts[1]), ("bridge",))
    elif parts[0] == "vrf":
        yield from (("vrf", parts[1], "evpn"), ("vrf", parts[1]), ("vrf",))
    elif parts[0] == "loopbacks":
        yield ("interface", "lo")
    elif parts[0] == "balancing":
        yield from (("router", "adaptive-routing"), ("system", "forwarding"), ("router",))
    elif parts[0] == "policy":
        map_name = f"{parts[1]}-{'IN' if parts[-1] in ('accept', 'tag_accepted') else 'OUT'}"
        yield from (("router", "policy", kind, map_name) for kind in _kinds(parts[-1]))
        yield ("router", "policy")
    elif parts[0] == "aggregate":
        family = ("vrf", "default", "router", "bgp", "address-family", "ipv4-unicast")
        yield from ((*family, "aggregate-route", "/".join(parts[1:])), (*family, "aggregate-route"), family)
    elif parts[0] == "leak":
        family = ("vrf", parts[1], "router", "bgp", "address-family", "ipv4-unicast")
        evpn = (*family[:4], "route-import", "from-evpn")
        yield from ((*family, "route-import", "from-vrf", "list"), (*family, "route-import"), evpn, ("vrf", parts[1]))
    elif parts == ["bgp", "multipath_relax"]:
        yield from (("vrf", "default", "router", "bgp", *_RELAXED), ("vrf", "default", "router", "bgp"))
    elif parts[0] == "bgp":
        if parts[1:2] == ["neighbor"]:
            own = ("vrf", parts[2], "router", "bgp", "neighbor")
            peer = (*own, "/".join(parts[3:-1]))
            if parts[-1] in ("policy", "maximum_prefixes"):
                field = "policy" if parts[-1] == "policy" else "prefix-limits"
                yield (*peer, "address-family", "ipv4-unicast", field)
            yield from (peer, (*own, "/".join(parts[3:])), own)
        yield ("router", "bgp")
    elif parts[0] == "port" and len(parts) > 1:
        port, what = parts[1], parts[2] if len(parts) > 2 else ""
        base = ("interface", port)
        profile = {k: _word(interfaces.get(port, {}), "qos", k, "profile") for k in ("pfc", "congestion-control")}
        if what in ("mtu", "fec"):
            yield (*base, "link", what)
        elif what == "shut":
            yield (*base, "link", "state", "down")
            yield (*base, "link", "state")
        elif what == "speed_gbps":
            yield (*base, "link", "speed")
        elif what == "split":
            yield ("interface", re.sub(r"s\d+$", "", port), "link", "breakout")
        elif what == "cable_m":
            yield from (("qos", "pfc", profile["pfc"], "cable-length"), ("qos", "pfc", profile["pfc"]))
        elif what == "pfc":
            yield from (("qos", "pfc", profile["pfc"], "switch-priority"), (*base, "qos", "pfc"), (*base, "qos"))
        elif what == "marking":
            field = {"kmin_bytes": "min-threshold", "kmax_bytes": "max-threshold", "enabled": "ecn"}.get(
                parts[-1], "probability"
            )
            own = (
                "qos",
                "congestion-control",
                profile["congestion-control"],
                "traffic-class",
                parts[3] if len(parts) > 3 else "",
            )
            yield from ((*own, field), own, (*base, "qos", "congestion-control"), (*base, "qos"))
        elif what == "watchdog":
            yield from ((*base, "qos", "pfc-watchdog"), (*base, "qos"))
        elif what == "peer":
            yield (*base, "description")
        elif what in ("vlan", "bond"):
            holder = next((b for b, e in interfaces.items() if port in _at(e, "bond", "member")), port)
            yield from (("interface", holder, "bridge"), ("interface", holder))
        elif what in ("addresses", "vrf"):
            yield (*base, "ip")
        yield base


def _kinds(field: str) -> tuple[str, ...]:
    return ("route-map", "prefix-list") if field.startswith("tag") else ("prefix-list", "route-map")


def _read_qos(tree: Mapping[str, Any]) -> Qos | None:
    qos = _at(tree, "qos")
    if not qos:
        return None
    dscp = [NOT_MAPPED] * 64
    for key in _at(qos, "mapping", GLOBAL, "dscp"):
        priority = _number(qos, "mapping", GLOBAL, "dscp", key, "switch-priority", default=NOT_MAPPED)
        for one in _names(key):
            if one.isdigit() and int(one) < 64:
                dscp[int(one)] = priority
    queues = [NOT_MAPPED] * 8
    for key in _at(qos, "egress-queue-mapping", GLOBAL, "switch-priority"):
        for one in _names(key):
            queues[int(one)] = _number(qos, "egress-queue-mapping", GLOBAL, "switch-priority", key, "traffic-class")
    scheduled = []
    for key in _at(qos, "egress-scheduler", GLOBAL, "traffic-class"):
        mode = _word(qos, "egress-scheduler", GLOBAL, "traffic-class", key, "mode")
        weight = _number(qos, "egress-scheduler", GLOBAL, "traffic-class", key, "bw-percent")
        scheduled += [Queue(int(one), mode, None if mode == "strict" else weight) for one in _names(key)]
    watchdog = None
    if "pfc-watchdog" in qos:
        poll = _number(qos, "pfc-watchdog", "polling-interval", default=100)
        watchdog = Watchdog(poll * _number(qos, "pfc-watchdog", "robustness", default=3), None, None)
    return Qos(tuple(dscp), tuple(queues), tuple(sorted(scheduled, key=lambda q: q.queue)), watchdog)


def _read_port(
    tree: Mapping[str, Any],
    name: str,
    entry: Mapping[str, Any],
    interfaces: Mapping[str, Any],
    bonds: Mapping[str, str],
) -> Port:
    qos = _at(tree, "qos")
    pfc_name, ecn_name = (_word(entry, "qos", kind, "profile") for kind in ("pfc", "congestion-control"))
    pfc = _at(qos, "pfc", pfc_name) if pfc_name else {}
    classes = _at(qos, "congestion-control", ecn_name, "traffic-class") if ecn_name else {}
    parent = _at(interfaces, re.sub(r"s\d+$", "", name), "link", "breakout") if re.search(r"s\d+$", name) else {}
    mode = next(iter(parent), "1x")
    speed = re.fullmatch(r"(\d+(?:\.\d+)?)G", _word(entry, "link", "speed"))
    mapping = _word(entry, "qos", "mapping", "profile") or GLOBAL
    bond = bonds.get(name, "")
    sends = _word(pfc, "tx").lower() in _ON and _word(pfc, "rx").lower() in _ON
    return Port(
        name=name,
        peer=_word(entry, "description") if ":" in _word(entry, "description") else "",
        speed_gbps=float(speed[1]) if speed else 0,
        split=int(mode.rstrip("x")) if mode.rstrip("x").isdigit() else 1,
        mtu=_number(entry, "link", "mtu"),
        fec=_word(entry, "link", "fec") or "none",
        cable_m=_number(pfc, "cable-length", default=-1) if "cable-length" in pfc else None,
        trust_dscp=_word(qos, "mapping", mapping, "trust") in ("l3", "both"),
        pfc=tuple(sorted(int(p) for key in _at(pfc, "switch-priority") for p in _names(key))) if sends else (),
        watchdog=_is_on(entry, "qos", "pfc-watchdog", "state"),
        marking=tuple(
            Marking(
                int(one),
                _number(classes, key, "min-threshold"),
                _number(classes, key, "max-threshold"),
                _number(classes, key, "probability"),
                _is_on(classes, key, "ecn"),
            )
            for key in sorted(classes)
            for one in _names(key)
        ),
        addresses=tuple(sorted(_at(entry, "ip", "address"))),
        vrf=_word(entry, "ip", "vrf") or "default",
        vlan=_access(interfaces.get(bond, entry)),
        bond=int(bond.removeprefix("bond")) if bond.removeprefix("bond").isdigit() else None,
    )


def _access(entry: Mapping[str, Any]) -> int | None:
    vid = next((_number(domain, "access") for domain in _at(entry, "bridge", "domain").values()), 0)
    return vid or None


def _read_vlans(tree: Mapping[str, Any], interfaces: Mapping[str, Any]) -> Iterator[Vlan]:
    for domain in _at(tree, "bridge", "domain").values():
        for key, entry in sorted(_expanded(_at(domain, "vlan")).items(), key=lambda item: int(item[0])):
            svi = _at(interfaces, f"vlan{key}", "ip")
            vni = next((int(v) for v in _at(entry, "vni") if v.isdigit()), None)
            yield Vlan(int(key), vni, _word(svi, "vrf") or "default", tuple(sorted(_at(svi, "address"))))


def _read_balancing(tree: Mapping[str, Any]) -> str | None:
    """Return ``adaptive`` or ``ecmp``; None where neither is said."""
    if _is_on(tree, "router", "adaptive-routing", "enable"):
        return "adaptive"
    return "ecmp" if _at(tree, "system", "forwarding", "ecmp-hash") else None


def _read_filters(tree: Mapping[str, Any]) -> Filters:
    """Return the prefix lists and route maps."""
    filters = Filters()
    policy = _at(tree, "router", "policy")
    for name in _at(policy, "prefix-list"):
        for rule in _at(policy, "prefix-list", name, "rule").values():
            for network, limits in _at(rule, "match").items():
                longest = _word(limits, "max-prefix-len") if isinstance(limits, Mapping) else ""
                filters.list_line(name, [_word(rule, "action"), network, *(["le", longest] if longest else [])], 0)
    for name in _at(policy, "route-map"):
        for rule in _at(policy, "route-map", name, "rule").values():
            filters.map_line(name, _word(rule, "action") == "permit", 0)
            listed = _word(rule, "match", "ip-prefix-list")
            if listed:
                filters.matches(name, listed)
            community = _word(rule, "set", "community")
            if community:
                filters.tags[name] = community
    return filters


def _read_leaks(tree: Mapping[str, Any], filters: Filters) -> Iterator[Leak]:
    bgp = {vrf: _at(tree, "vrf", vrf, "router", "bgp") for vrf in sorted(_at(tree, "vrf"))}
    targets = {
        vrf: [target.rpartition(":")[2] for target in _at(own, "route-import", "from-evpn", "route-target")]
        for vrf, own in bgp.items()
    }
    vnis = {vrf: int(vni) for vrf in bgp for vni in _at(tree, "vrf", vrf, "evpn", "vni") if vni.isdigit()}
    foreign = dict(foreign_targets(targets, vnis))
    for vrf, own in bgp.items():
        imported = _at(own, "address-family", "ipv4-unicast", "route-import", "from-vrf")
        sources = tuple(sorted({*_expanded(_at(imported, "list")), *foreign.get(vrf, ())}))
        if sources:
            used = _word(imported, "route-map")
            yield Leak(vrf, sources, filters.prefixes(used) if used and vrf not in foreign else ())


def _read_bgp(tree: Mapping[str, Any]) -> Bgp | None:
    head = _at(tree, "router", "bgp")
    asn = _number(head, "autonomous-system")
    if not asn:
        return None
    neighbors = []
    policies = {}
    filters = _read_filters(tree)
    paths = 0
    for vrf in _at(tree, "vrf"):
        own = _at(tree, "vrf", vrf, "router", "bgp")
        paths = paths or _number(own, "address-family", "ipv4-unicast", "multipaths", "ebgp")
        for peer, entry in _expanded(_at(own, "neighbor")).items():
            remote = _word(entry, "remote-as")
            family = _at(entry, "address-family", "ipv4-unicast")
            taken, given = (
                _word(family, "policy", way, "route-map") or _word(family, "policy", way, "prefix-list")
                for way in ("inbound", "outbound")
            )
            policy = policy_name(taken, given)
            if policy:
                policies[policy] = filters.policy(policy, taken, given)
            limit = _number(family, "prefix-limits", "inbound", "maximum", default=-1)
            neighbors.append(
                Neighbor(
                    peer,
                    _word(entry, "type") == "unnumbered",
                    asn if remote == "internal" else int(remote) if remote.isdigit() else None,
                    _is_on(entry, "bfd", "enable"),
                    vrf,
                    policy,
                    limit if limit >= 0 else None,
                )
            )
    evpn = _is_on(tree, "vrf", "default", "router", "bgp", "address-family", "l2vpn-evpn", "enable")
    aggregates = _at(tree, "vrf", "default", "router", "bgp", "address-family", "ipv4-unicast", "aggregate-route")
    return Bgp(
        asn,
        _word(head, "router-id"),
        paths,
        tuple(sorted(neighbors, key=lambda n: (n.vrf, n.peer))),
        evpn,
        tuple(policies[name] for name in sorted(policies)),
        tuple(sorted(aggregates)),
        tuple(_read_leaks(tree, filters)),
        relaxed=all(_word(_at(tree, "vrf", vrf, "router", "bgp"), *_RELAXED) in ("", *_ON) for vrf in _at(tree, "vrf")),
    )
