"""FRR: ``frr.conf`` of a routed box, written and read back. SONiC in split mode has the same file beside its own."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from railwright.build.contract import Bgp, DeviceView, Leak, Neighbor, Place, Port, Reading, Vrf
from railwright.build.frr_mistakes import session_problems
from railwright.build.route_filters import Filters, filters_of, foreign_targets, leak_name, policy_name
from railwright.build.withheld import CONNECTED, MANAGEMENT, withheld

FILE = "frr.conf"
DAEMONS = "daemons"

BFD_MS = 100
"""BFD interval towards each neighbour, detected after three: an outage of about 0.3 s, safe on a switch's CPU."""

_LOOPBACK = ("lo", "Loopback0")


def render(view: DeviceView) -> dict[str, str]:
    """Return the files of a box that runs FRR on plain Linux."""
    return {
        FILE: frr_conf(view),
        DAEMONS: 'zebra=yes\nbgpd=yes\nbfdd=yes\nvtysh_enable=yes\nzebra_options="-A 127.0.0.1"\n',
    }


def frr_conf(view: DeviceView, loopback: str = "lo", *, addresses: bool = True, vrf_prefix: str = "") -> str:
    """Return ``frr.conf``; ``addresses`` false leaves them to the operating system's own configuration.

    ``vrf_prefix`` stands before the name of every VRF but the default one.
    """
    lines = [
        "frr defaults datacenter",
        f"hostname {view.name}",
        "log syslog informational",
        "service integrated-vtysh-config",
    ]
    if view.loopbacks and addresses:
        lines += ["!", f"interface {loopback}", *(f" {_ip(a)} address {a}" for a in view.loopbacks), "exit"]
    for port in view.ports:
        own = [f" description {port.peer}"] if port.peer else []
        own += [f" {_ip(a)} address {a}" for a in port.addresses if addresses]
        if own or addresses:
            vrf = f" vrf {vrf_prefix}{port.vrf}" if port.vrf != "default" else ""
            lines += ["!", f"interface {port.name}{vrf}", *own, "exit"]
    for owned in view.vrfs:
        lines += ["!", f"vrf {vrf_prefix}{owned.name}", f" vni {owned.vni}", "exit-vrf"]
    if view.bgp is not None:
        lines += _filters(view.bgp)
        lines += _bgp(view.bgp, [vrf.name for vrf in view.vrfs], vrf_prefix)
    return "\n".join([*lines, "!", "end", ""])


def _ip(address: str) -> str:
    return "ipv6" if ":" in address else "ip"


def _filters(bgp: Bgp) -> list[str]:
    """Return the prefix lists and route maps of a box."""
    lines = []
    for name, prefixes, community in filters_of(bgp):
        lines.append("!")
        lines += [f"ip prefix-list {name} seq {n * 10} permit {p}" for n, p in enumerate(prefixes, start=1)]
        if not prefixes:
            lines.append(f"ip prefix-list {name} seq 10 deny any")
        lines += [f"route-map {name} permit 10", f" match ip address prefix-list {name}"]
        lines += [f" set community {community} additive"] if community else []
        lines.append("exit")
    if bgp.withheld:
        lines.append("!")
        lines += [
            f"ip prefix-list {MANAGEMENT} seq {n * 10} permit {net}{'' if net.endswith('/32') else ' le 32'}"
            for n, net in enumerate(bgp.withheld, start=1)
        ]
        lines += [f"route-map {CONNECTED} deny 10", f" match ip address prefix-list {MANAGEMENT}", "exit"]
        lines += [f"route-map {CONNECTED} permit 20", "exit"]
    return lines


def _policed(neighbor: Neighbor) -> list[str]:
    lines = []
    if neighbor.policy:
        lines += [
            f"  neighbor {neighbor.peer} route-map {neighbor.policy}-{way.upper()} {way}" for way in ("in", "out")
        ]
    if neighbor.maximum_prefixes is not None:
        lines.append(f"  neighbor {neighbor.peer} maximum-prefix {neighbor.maximum_prefixes}")
    return lines


def _leaked(bgp: Bgp, vrf: str, vrf_prefix: str) -> list[str]:
    lines = []
    for leak in (leak for leak in bgp.leaks if leak.vrf == vrf):
        if leak.accept:
            lines.append(f"  import vrf route-map {leak_name(leak)}")
        lines += [f"  import vrf {source if source == 'default' else vrf_prefix + source}" for source in leak.sources]
    return lines


def _bgp(bgp: Bgp, routed: Sequence[str], vrf_prefix: str) -> list[str]:
    lines = ["!", "bfd", " profile fabric", "  detect-multiplier 3", f"  receive-interval {BFD_MS}"]
    lines += [f"  transmit-interval {BFD_MS}", " exit", "exit"]
    vrfs = dict.fromkeys(["default", *routed, *(n.vrf for n in bgp.neighbors), *(leak.vrf for leak in bgp.leaks)])
    for vrf in vrfs:
        own = [n for n in bgp.neighbors if n.vrf == vrf]
        lines += ["!", f"router bgp {bgp.asn}" + (f" vrf {vrf_prefix}{vrf}" if vrf != "default" else "")]
        lines += [f" bgp router-id {bgp.router_id}", " no bgp default ipv4-unicast"]
        lines += [" bgp bestpath as-path multipath-relax"] if bgp.relaxed else []
        for n in own:
            remote = "external" if n.remote_as is None else str(n.remote_as)
            lines.append(f" neighbor {n.peer} {'interface ' if n.unnumbered else ''}remote-as {remote}")
            if n.bfd:
                lines.append(f" neighbor {n.peer} bfd profile fabric")
        for family in ("ipv4", "ipv6"):
            filtered = f" route-map {CONNECTED}" if bgp.withheld and (vrf, family) == ("default", "ipv4") else ""
            lines += [f" address-family {family} unicast", f"  redistribute connected{filtered}"]
            for n in own if family == "ipv4" else [n for n in own if not n.policy]:
                lines += [f"  neighbor {n.peer} activate", *(_policed(n) if family == "ipv4" else [])]
            if family == "ipv4":
                lines += [f"  aggregate-address {a}" for a in bgp.aggregates if vrf == "default"]
                lines += _leaked(bgp, vrf, vrf_prefix)
            lines += [f"  maximum-paths {bgp.maximum_paths}", " exit-address-family"]
        if bgp.evpn and vrf == "default":
            fabric = [n for n in own if not n.policy]
            lines += [" address-family l2vpn evpn", *(f"  neighbor {n.peer} activate" for n in fabric)]
            lines += ["  advertise-all-vni", " exit-address-family"]
        elif bgp.evpn and vrf in routed:
            lines += [" address-family l2vpn evpn", "  advertise ipv4 unicast", "  advertise ipv6 unicast"]
            lines.append(" exit-address-family")
        lines.append("exit")
    return lines


@dataclass
class _Peer:
    unnumbered: bool
    remote_as: int | None = None
    bfd: bool = False
    group: str | None = None
    line: int = 0
    taken: str | None = None
    given: str | None = None
    limit: int | None = None


@dataclass
class _State:
    ports: dict[str, Port] = field(default_factory=dict)
    loopbacks: list[str] = field(default_factory=list)
    asn: int | None = None
    router_id: str = ""
    paths: int = 1
    peers: dict[tuple[str, str], _Peer] = field(default_factory=dict)
    groups: dict[tuple[str, str], _Peer] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    hostname: str = ""
    vrfs: dict[str, int] = field(default_factory=dict)
    evpn: bool = False
    filters: Filters = field(default_factory=Filters)
    aggregates: list[str] = field(default_factory=list)
    leaked: dict[str, list[str]] = field(default_factory=dict)
    leak_maps: dict[str, str] = field(default_factory=dict)
    targets: dict[str, list[str]] = field(default_factory=dict)
    family: str = "ipv4"
    connected: str | None = None
    strict: dict[str, int] = field(default_factory=dict)


def read(name: str, files: Mapping[str, str]) -> Reading:
    """Return what ``frr.conf`` says; peer groups are resolved. Keys of ``files`` are paths to show in findings."""
    path, text = next(iter(files.items()))
    state = parse(text)
    view = DeviceView(
        name=name,
        nos="frr",
        loopbacks=tuple(sorted(state.loopbacks)),
        ports=tuple(sorted(state.ports.values(), key=lambda p: p.name)),
        bgp=bgp_of(state),
        vrfs=vrfs_of(state),
    )
    return Reading(
        view,
        (path,),
        lambda key: Place(path, line) if (line := line_of(state, key)) else None,
        tuple(session_problems(path, text)),
    )


def parse(text: str, vrf_prefix: str = "") -> _State:
    """Return the statements of an ``frr.conf`` that the contract knows, with their lines; see ``frr_conf`` for the prefix."""
    state = _State()
    context = ""
    subject, vrf = "", "default"
    for number, raw in enumerate(text.splitlines(), start=1):
        words = raw.split()
        if not words or words[0].startswith(("!", "#")):
            continue
        if not raw.startswith(" "):
            context, subject, vrf = words[0], words[1] if len(words) > 1 else "", "default"
            if context == "interface":
                vrf = words[3].removeprefix(vrf_prefix) if words[2:3] == ["vrf"] else "default"
                if subject not in _LOOPBACK:
                    state.ports[subject] = Port(name=subject, vrf=vrf)
                    state.lines[f"port/{subject}"] = number
            elif context == "router" and subject == "bgp":
                vrf = words[4].removeprefix(vrf_prefix) if words[3:4] == ["vrf"] else "default"
                state.family = "ipv4"
                state.strict[vrf] = number
                state.asn = int(words[2])
                state.lines.setdefault("bgp/asn", number)
                state.lines.setdefault("bgp", number)
            elif context == "hostname":
                state.hostname = subject
            elif context == "ip" and words[1:2] == ["prefix-list"]:
                rest = words[5:] if words[3] == "seq" else words[3:]
                state.filters.list_line(words[2], rest, number)
            elif context == "route-map":
                state.filters.map_line(subject, words[2:3] == ["permit"], number)
            continue
        if context == "interface":
            _interface_line(state, subject, words, number)
        elif context == "vrf" and words[0] == "vni":
            name = subject.removeprefix(vrf_prefix)
            state.vrfs[name] = int(words[1])
            state.lines[f"vrf/{name}"] = number
        elif context == "route-map":
            state.filters.clause_line(subject, words, number)
        elif context == "router":
            _bgp_line(state, vrf, words, number, vrf_prefix)
    return state


def line_of(state: _State, key: str) -> int | None:
    """Return the line of a fact of ``build.contract.statements``."""
    if key == "bgp/multipath_relax" and state.strict:
        return min(state.strict.values())
    return state.lines.get(key) or state.filters.line_of(key)


def bgp_of(state: _State) -> Bgp | None:
    """Return the underlay of a parsed ``frr.conf``; None when it has no ``router bgp``."""
    if state.asn is None:
        return None
    neighbors = []
    policies = {}
    for (vrf, peer), found in sorted(state.peers.items()):
        group = state.groups.get((vrf, found.group or ""), _Peer(False))
        remote = found.remote_as if found.remote_as is not None else group.remote_as
        taken, given = found.taken or group.taken or "", found.given or group.given or ""
        policy = policy_name(taken, given)
        limit = found.limit if found.limit is not None else group.limit
        neighbors.append(Neighbor(peer, found.unnumbered, remote, found.bfd or group.bfd, vrf, policy, limit))
        if policy:
            policies[policy] = state.filters.policy(policy, taken, given)
    leaked = {vrf: set(sources) for vrf, sources in state.leaked.items()}
    for vrf, foreign in foreign_targets(state.targets, state.vrfs):
        leaked.setdefault(vrf, set()).update(foreign)
    leaks = tuple(
        Leak(
            vrf, tuple(sorted(sources)), state.filters.prefixes(state.leak_maps[vrf]) if vrf in state.leak_maps else ()
        )
        for vrf, sources in sorted(leaked.items())
    )
    return Bgp(
        state.asn,
        state.router_id,
        state.paths,
        tuple(neighbors),
        state.evpn,
        tuple(policies[name] for name in sorted(policies)),
        tuple(sorted(state.aggregates)),
        leaks,
        _withheld(state),
        not state.strict,
    )


def _withheld(state: _State) -> tuple[str, ...]:
    """Return what the default VRF withholds of its connected routes: nothing without a route map, all if none are announced."""
    if not state.connected:
        return ("0.0.0.0/0",) if state.connected is None else ()
    return withheld(state.filters.clauses.get(state.connected, ()), state.filters.entries)


def vrfs_of(state: _State) -> tuple[Vrf, ...]:
    """Return the VRFs that have a VNI."""
    return tuple(Vrf(name, vni) for name, vni in sorted(state.vrfs.items()))


def _interface_line(state: _State, subject: str, words: list[str], number: int) -> None:
    if words[0] in ("ip", "ipv6") and words[1:2] == ["address"]:
        if subject in _LOOPBACK:
            state.loopbacks.append(words[2])
            state.lines["loopbacks"] = number
        else:
            port = state.ports[subject]
            state.ports[subject] = replace(port, addresses=tuple(sorted((*port.addresses, words[2]))))
            state.lines[f"port/{subject}/addresses"] = number
    elif words[0] == "description" and subject in state.ports:
        if re.fullmatch(r"\S+:\S+", " ".join(words[1:])):
            state.ports[subject] = replace(state.ports[subject], peer=words[1])
        state.lines[f"port/{subject}/peer"] = number


def _bgp_line(state: _State, vrf: str, words: list[str], number: int, vrf_prefix: str) -> None:
    if words[:2] == ["import", "vrf"]:
        if words[2] == "route-map":
            state.leak_maps[vrf] = words[3]
        else:
            source = words[2] if words[2] == "default" else words[2].removeprefix(vrf_prefix)
            state.leaked.setdefault(vrf, []).append(source)
        state.lines[f"leak/{vrf}"] = number
    elif words[:2] in (["route-target", "import"], ["route-target", "both"]) and vrf != "default":
        state.targets.setdefault(vrf, []).extend(word.rpartition(":")[2] for word in words[2:])
        state.lines.setdefault(f"leak/{vrf}", number)
    elif words[:4] == ["bgp", "bestpath", "as-path", "multipath-relax"]:
        state.strict.pop(vrf, None)
        state.lines.setdefault("bgp/multipath_relax", number)
    elif words[0] == "address-family":
        state.family = words[1]
    elif words[:2] == ["redistribute", "connected"]:
        if vrf == "default" and state.family == "ipv4":
            state.connected = words[words.index("route-map") + 1] if "route-map" in words else ""
            state.lines["bgp/withheld"] = number
    elif words[0] == "aggregate-address":
        state.aggregates.append(words[1])
        state.lines[f"aggregate/{words[1]}"] = number
    elif words == ["advertise-all-vni"]:
        state.evpn = True
        state.lines["bgp/evpn"] = number
    elif words[:2] == ["bgp", "router-id"]:
        state.router_id = words[2]
        state.lines.setdefault("bgp/router_id", number)
    elif words[0] == "maximum-paths":
        state.paths = int(words[1])
        state.lines.setdefault("bgp/maximum_paths", number)
    elif words[0] == "neighbor" and len(words) > 2:
        _neighbor_line(state, vrf, words[1], words[2:], number)


def _neighbor_line(state: _State, vrf: str, peer: str, words: list[str], number: int) -> None:
    key = (vrf, peer)
    if words == ["peer-group"]:
        state.groups[key] = _Peer(False, line=number)
        return
    interface = words[0] == "interface"
    if interface:
        words = words[1:]
    if key in state.groups:
        found = state.groups[key]
    elif interface or words[:1] in (["remote-as"], ["peer-group"]):
        found = state.peers.setdefault(key, _Peer(interface, line=number))
        found.unnumbered = found.unnumbered or interface
    elif key in state.peers:
        found = state.peers[key]
    else:
        return
    own = f"bgp/neighbor/{vrf}/{peer}"
    state.lines.setdefault(own, number)
    if words[:1] == ["remote-as"]:
        found.remote_as = state.asn if words[1] == "internal" else int(words[1]) if words[1].isdigit() else None
        state.lines[f"{own}/remote_as"] = number
    elif words[:1] == ["peer-group"]:
        found.group = words[1]
    elif words[:1] == ["bfd"]:
        found.bfd = True
        state.lines[f"{own}/bfd"] = number
    elif words[:1] in (["route-map"], ["prefix-list"]) and len(words) > 2:
        if words[2] == "in":
            found.taken = words[1]
        else:
            found.given = words[1]
        state.lines[f"{own}/policy"] = number
    elif words[:1] == ["maximum-prefix"]:
        found.limit = int(words[1])
        state.lines[f"{own}/maximum_prefixes"] = number
