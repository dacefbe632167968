"""Reads EOS: a running or startup configuration back into a view, with the line of every fact."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from railwright.build.contract import (
    EVERYTHING,
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
from railwright.build.route_filters import Filters, foreign_targets, policy_name

FILE = "startup-config"
RIBD = "routing runs in the ribd model, which has no sessions over interfaces and no EVPN: multi-agent is needed"
_PROFILE_FIELDS = ("trust_dscp", "pfc", "watchdog", "marking")


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
    filters: Filters = field(default_factory=Filters)
    used: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    limits: dict[str, int] = field(default_factory=dict)
    aggregates: list[str] = field(default_factory=list)
    leaked: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))
    targets: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    pausing: set[str] = field(default_factory=set)


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
    view = DeviceView(
        name=name,
        nos="eos",
        loopbacks=tuple(sorted(reader.loopbacks)),
        qos=qos,
        ports=tuple(_with_profile(reader, reader.ports[p]) for p in sorted(reader.ports)),
        bgp=_read_bgp(reader),
        vlans=tuple(reader.vlans[vid] for vid in sorted(reader.vlans)),
        vrfs=tuple(Vrf(vrf, vni) for vrf, vni in sorted(reader.vrfs.items())),
        balancing=reader.balancing,
    )

    def locate(key: str) -> Place | None:
        return Place(path, found) if (found := _find(reader, key)) else None

    shut = [port for port in view.ports if port.peer and f"port/{port.name}/shut" in reader.lines]
    problems: list[tuple[str, str, str, Place]] = [
        ("RW042", p.name, f"is shut and has a cable to {p.peer}", Place(path, reader.lines[f"port/{p.name}/shut"]))
        for p in shut
    ]
    if "ribd" in reader.lines and view.bgp is not None and _needs_agents(view.bgp):
        problems.append(("RW025", "bgp", RIBD, Place(path, reader.lines["ribd"])))
    return Reading(view, (path,), locate, tuple(problems))


def _needs_agents(bgp: Bgp) -> bool:
    """Say whether the routing uses what only the multi-agent model has: EVPN, sessions over interfaces, leaks between VRFs."""
    return bgp.evpn or bool(bgp.leaks) or any(n.unnumbered for n in bgp.neighbors)


def _read_bgp(reader: _Reader) -> Bgp | None:
    if reader.asn is None:
        return None
    neighbors = []
    policies = {}
    for (vrf, peer), (unnumbered, remote, group) in sorted(reader.sessions.items()):
        used = {**reader.used.get(group, {}), **reader.used.get(peer, {})}
        taken, given = used.get("in", ""), used.get("out", "")
        policy = policy_name(taken, given)
        if policy:
            policies[policy] = reader.filters.policy(policy, taken, given)
        bfd = group in reader.bfd_groups or (vrf, peer) in reader.bfd_peers
        limit = reader.limits.get(peer, reader.limits.get(group))
        neighbors.append(Neighbor(peer, unnumbered, remote, bfd, vrf, policy, limit))
    return Bgp(
        reader.asn,
        reader.router_id,
        reader.paths,
        tuple(neighbors),
        reader.evpn,
        tuple(policies[name] for name in sorted(policies)),
        tuple(sorted(reader.aggregates)),
        tuple(_read_leaks(reader)),
    )


def _read_leaks(reader: _Reader) -> Iterator[Leak]:
    """Yield what VRFs take from each other: leaks by name, and imports of the route target of another VRF's VNI."""
    found = {vrf: list(leaks) for vrf, leaks in reader.leaked.items()}
    for vrf, foreign in foreign_targets(reader.targets, reader.vrfs):
        found.setdefault(vrf, []).extend((source, "") for source in foreign)
    for vrf, leaks in sorted(found.items()):
        if leaks:
            allowed = {
                prefix for _, used in leaks for prefix in (reader.filters.prefixes(used) if used else (EVERYTHING,))
            }
            sources = tuple(sorted({source for source, _ in leaks}))
            yield Leak(vrf, sources, () if EVERYTHING in allowed else tuple(sorted(allowed)))


def _find(reader: _Reader, key: str) -> int | None:
    if key in reader.lines:
        return reader.lines[key]
    if key.startswith("policy/"):
        return reader.filters.line_of(key)
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
    elif head[:2] == ["ip", "prefix-list"]:
        rest = words[2:] if words[0] == "seq" else words
        reader.filters.list_line(head[2], rest, number)
    elif head[0] == "route-map":
        reader.filters.clause_line(head[1], words, number)
    elif head[:2] == ["router", "general"]:
        inner = context[1].split()
        if inner[0] == "vrf" and words[:2] == ["leak", "routes"]:
            source = words[words.index("source-vrf") + 1]
            used = words[words.index("subscribe-policy") + 1] if "subscribe-policy" in words else ""
            reader.leaked[inner[1]].append((source, used))
            reader.lines[f"leak/{inner[1]}"] = number
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
        case ["service", "routing", "protocols", "model", "ribd"]:
            reader.lines["ribd"] = number
        case ["ip", "hardware", "fib", "load-balance", "distribution", "dynamic", *_]:
            reader.balancing = "flowlet"
            reader.lines["balancing"] = number
        case ["vlan", vids]:
            for vid in (int(v) for part in vids.split(",") for v in _span(part)):
                reader.vlans.setdefault(vid, Vlan(vid))
                reader.lines[f"vlan/{vid}"] = number
        case ["ip", "prefix-list", name]:
            reader.filters.lists.setdefault(name, [])
            reader.filters.lines[name] = number
        case ["ip", "prefix-list", name, "seq", _, *rest]:
            reader.filters.list_line(name, rest, number)
        case ["route-map", name, kind, _]:
            reader.filters.map_line(name, kind == "permit", number)
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
        case ["shutdown"]:
            reader.lines[f"{key}/shut"] = number
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
        case ["priority-flow-control", "on"] | ["priority-flow-control", "mode", "on"]:
            reader.pausing.add(key)
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
        case ["bgp", "listen", "range", prefix, "peer-group", group, "peer-filter", _] if prefix.endswith("/32"):
            peer = prefix.removesuffix("/32")
            reader.sessions[vrf, peer] = (False, None, group)
            reader.lines[f"bgp/neighbor/{vrf}/{peer}"] = number
        case ["neighbor", peer, "route-map", name, ("in" | "out") as way]:
            reader.used[peer][way] = name
            reader.lines[f"bgp/neighbor/{vrf}/{peer}/policy"] = number
        case ["neighbor", peer, "maximum-routes", most, *_]:
            if int(most):
                reader.limits[peer] = int(most)
                reader.lines[f"bgp/neighbor/{vrf}/{peer}/maximum_prefixes"] = number
        case ["aggregate-address", prefix, *_]:
            reader.aggregates.append(prefix)
            reader.lines[f"aggregate/{prefix}"] = number
        case ["route-target", "import", *_, target] if vrf != "default":
            reader.targets[vrf].add(target.rpartition(":")[2])
            if target.rpartition(":")[2] != str(reader.vrfs.get(vrf, "")):
                reader.lines[f"leak/{vrf}"] = number
        case ["neighbor", peer, "remote-as", remote_as]:
            reader.sessions[vrf, peer] = (False, int(remote_as) if remote_as.isdigit() else None, "")
            reader.lines[f"bgp/neighbor/{vrf}/{peer}"] = number
        case ["neighbor", peer, "bfd", *_]:
            reader.bfd_groups.add(peer)
            reader.bfd_peers.add((vrf, peer))
            reader.lines[f"bgp/neighbor/{vrf}/{peer}/bfd"] = number


def _with_profile(reader: _Reader, port: Port) -> Port:
    """Return the port with what its profile says; priorities are lossless only where flow control is switched on."""
    name = reader.profile_of.get(port.name, "")
    profile = reader.profiles.get(name)
    if port.bond is not None:
        port = replace(port, vlan=reader.bond_vlan.get(port.bond))
    if not reader.pausing & {f"port/{port.name}", f"profile/{name}"}:
        port, profile = replace(port, pfc=()), profile and replace(profile, pfc=())
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
