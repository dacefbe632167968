"""What one box is told to do, in one shape for every operating system: renderers write it, readers give it back, the linter
compares it.

A ``DeviceView`` is plain frozen data, so that "render, read back, equal" is one comparison. ``statements`` flattens a view
into ``key → value`` facts (``port/Ethernet8/mtu → 9216``): comparing plan with running configuration, or two running ones,
is a join over these keys, and a reader finds the line of a key. No operating system carries every fact; ``CARRIES`` says
what each one can express and ``project`` drops the rest.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from railwright.build.path_modes import rendered_mode

EVERYTHING = "0.0.0.0/0 le 32"
"""All IPv4 routes, as a prefix of a policy."""

NOT_MAPPED = -1
"""The priority of a DSCP, or the queue of a priority, that a configuration does not map."""


@dataclass(frozen=True, slots=True)
class Marking:
    """ECN marking of one queue of a port; ``enabled`` false is a profile whose switch is off."""

    queue: int
    kmin_bytes: int
    kmax_bytes: int
    probability_percent: int
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Headroom:
    """PFC buffer of one priority of a port; ``size_bytes`` as in SONiC's buffer profile."""

    priority: int
    xoff_bytes: int
    xon_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Queue:
    """Scheduling of one egress queue; ``weight`` in percent for ``dwrr``, None for ``strict``."""

    queue: int
    scheduler: str
    weight: int | None


@dataclass(frozen=True, slots=True)
class Watchdog:
    """PFC watchdog times of a box; None where the operating system has no such setting."""

    detection_ms: int
    restoration_ms: int | None
    action: str | None


@dataclass(frozen=True, slots=True)
class Qos:
    """Maps and schedulers of a box. ``dscp_to_priority`` has 64 entries, ``priority_to_queue`` 8 (``NOT_MAPPED`` = none)."""

    dscp_to_priority: tuple[int, ...]
    priority_to_queue: tuple[int, ...]
    queues: tuple[Queue, ...]
    watchdog: Watchdog | None


@dataclass(frozen=True, slots=True)
class Port:
    """One port. ``peer`` is ``device:port`` at the other end, ``split`` how many ports share the cage.

    ``cable_m`` is the whole-metre length that headroom is made for (None: not set). ``pfc`` lists the lossless priorities.
    """

    name: str
    peer: str = ""
    speed_gbps: float = 0
    split: int = 1
    lanes: tuple[int, ...] = ()
    mtu: int = 0
    fec: str = "none"
    cable_m: int | None = None
    trust_dscp: bool = False
    pfc: tuple[int, ...] = ()
    watchdog: bool = False
    marking: tuple[Marking, ...] = ()
    headroom: tuple[Headroom, ...] = ()
    addresses: tuple[str, ...] = ()
    vrf: str = "default"
    vlan: int | None = None
    bond: int | None = None


@dataclass(frozen=True, slots=True)
class Vlan:
    """A VLAN of a box: its VNI when it is stretched over the fabric (None: local), its VRF and its anycast gateways."""

    vid: int
    vni: int | None = None
    vrf: str = "default"
    gateways: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Vrf:
    """A VRF of a box and the VNI that carries its routes between boxes."""

    name: str
    vni: int


@dataclass(frozen=True, slots=True)
class Neighbor:
    """A BGP session over a port (``unnumbered``, ``peer`` is the port's name) or to an address.

    ``remote_as`` None means any external AS. ``policy`` names a :class:`Policy` (empty: no filter) and ``maximum_prefixes`` is
    how many routes the other end may send.
    """

    peer: str
    unnumbered: bool
    remote_as: int | None
    bfd: bool
    vrf: str = "default"
    policy: str = ""
    maximum_prefixes: int | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """What a session takes in and gives out: IPv4 prefixes, ``P`` exactly or ``P le N``; none means nothing at all.

    ``tag_accepted`` and ``tag_announced`` are communities put on what passes.
    """

    name: str
    accept: tuple[str, ...]
    announce: tuple[str, ...]
    tag_accepted: str = ""
    tag_announced: str = ""


@dataclass(frozen=True, slots=True)
class Leak:
    """A VRF that takes routes of other VRFs of the box; ``accept`` lists the prefixes (as in :class:`Policy`), none all."""

    vrf: str
    sources: tuple[str, ...]
    accept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bgp:
    """Routing of a box: its AS, router id, sessions, how many equal paths it may use, and whether sessions carry EVPN.

    ``aggregates`` are announced as long as a route inside them exists. ``withheld`` are the IPv4 networks whose connected
    routes the default VRF does not announce (the management networks). ``relaxed``: paths of equal length through different ASes
    count as equal in every VRF, without which a switch uses one uplink where each spine has an AS of its own.
    """

    asn: int
    router_id: str
    maximum_paths: int
    neighbors: tuple[Neighbor, ...]
    evpn: bool = False
    policies: tuple[Policy, ...] = ()
    aggregates: tuple[str, ...] = ()
    leaks: tuple[Leak, ...] = ()
    withheld: tuple[str, ...] = ()
    relaxed: bool = True


@dataclass(frozen=True, slots=True)
class DeviceView:
    """All that is configured on a switch.

    ``model`` and ``role`` describe it and are not part of any configuration. ``balancing`` is how it shares
    traffic over equal paths (``build.path_modes``; None: nothing is said). ``pools`` are name and bytes of its buffer pools.
    """

    name: str
    nos: str
    model: str = ""
    role: str = ""
    loopbacks: tuple[str, ...] = ()
    qos: Qos | None = None
    ports: tuple[Port, ...] = ()
    bgp: Bgp | None = None
    balancing: str | None = None
    vlans: tuple[Vlan, ...] = ()
    vrfs: tuple[Vrf, ...] = ()
    pools: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Place:
    """Where a fact stands: a file and a line from 1 (0: the file as a whole)."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True)
class Reading:
    """A view read from files. ``locate`` gives the place of a key of ``statements``, None when the files do not mention it.

    ``problems`` are what the files themselves get wrong: ``(rule code, port or "", message, place)``.
    """

    view: DeviceView
    files: tuple[str, ...]
    locate: Callable[[str], Place | None]
    problems: tuple[tuple[str, str, str, Place], ...] = ()

    def place(self, key: str) -> Place:
        """Return the place of ``key``, or of the nearest thing above it that the files mention."""
        while key:
            found = self.locate(key)
            if found is not None:
                return found
            key = key.rpartition("/")[0]
        return Place(self.files[0] if self.files else self.view.name, 0)


PORT_FIELDS = (
    "peer",
    "speed_gbps",
    "split",
    "lanes",
    "mtu",
    "fec",
    "cable_m",
    "trust_dscp",
    "pfc",
    "watchdog",
    "marking",
    "headroom",
    "addresses",
    "vrf",
    "vlan",
    "bond",
)

_ROUTED = frozenset({"peer", "addresses", "vrf"})
CARRIES: Mapping[str, Mapping[str, frozenset[str]]] = {
    "sonic": {
        "port": frozenset(PORT_FIELDS),
        "watchdog": frozenset({"detection_ms", "restoration_ms", "action"}),
        "device": frozenset({"qos", "bgp", "withheld", "relaxed", "loopbacks", "balancing", "vlans", "vrfs", "pools"}),
    },
    "nvue": {
        "port": frozenset(PORT_FIELDS) - {"lanes", "headroom"},
        "watchdog": frozenset({"detection_ms"}),
        "device": frozenset({"qos", "bgp", "relaxed", "loopbacks", "balancing", "vlans", "vrfs"}),
    },
    "eos": {
        "port": frozenset(PORT_FIELDS) - {"lanes", "split", "cable_m", "headroom"},
        "watchdog": frozenset({"detection_ms", "restoration_ms", "action"}),
        "device": frozenset({"qos", "bgp", "loopbacks", "balancing", "vlans", "vrfs"}),
    },
    "frr": {
        "port": _ROUTED,
        "watchdog": frozenset(),
        "device": frozenset({"bgp", "withheld", "relaxed", "loopbacks", "vrfs"}),
    },
}
"""Per operating system: the port fields, watchdog fields and device parts that its configuration can express."""

LENGTH_NEEDS_PFC = frozenset({"nvue"})
"""Operating systems that keep the cable length in the PFC profile: a port without PFC has none."""

SEGMENT_MAC = "44:38:39:be:ef:01"
"""System MAC of all Ethernet segments (with the bond's number it makes the segment's identifier) and, in the last byte, of
the anycast gateways; locally administered by convention of Cumulus."""
GATEWAY_MAC = "44:38:39:be:ef:ff"

MTU_LIMIT: Mapping[str, int] = {"sonic": 9216, "nvue": 9216, "eos": 9214, "frr": 9216}
"""The largest port MTU that an operating system takes (EOS counts the IP packet, the others the frame's payload)."""


def project(view: DeviceView) -> DeviceView:
    """Return ``view`` with everything that its operating system cannot express at its default, in canonical order."""
    carries = CARRIES[view.nos]
    blank = Port(name="")
    dropped: dict[str, Any] = {name: getattr(blank, name) for name in PORT_FIELDS if name not in carries["port"]}
    ports = tuple(
        replace(port, **(dropped | {"cable_m": None} if view.nos in LENGTH_NEEDS_PFC and not port.pfc else dropped))
        for port in sorted(view.ports, key=lambda p: p.name)
    )
    device = carries["device"]
    qos = view.qos if "qos" in device else None
    if qos is not None and qos.watchdog is not None:
        kept = {name: getattr(qos.watchdog, name) for name in carries["watchdog"]}
        qos = replace(qos, watchdog=Watchdog(**{"restoration_ms": None, "action": None, **kept}))
    bgp = view.bgp if "bgp" in device else None
    if bgp is not None:
        bgp = replace(
            bgp,
            neighbors=tuple(sorted(bgp.neighbors, key=lambda n: (n.vrf, n.peer))),
            policies=tuple(sorted((_ordered(policy) for policy in bgp.policies), key=lambda policy: policy.name)),
            aggregates=tuple(sorted(bgp.aggregates)),
            relaxed=bgp.relaxed if "relaxed" in device else True,
            withheld=tuple(sorted(bgp.withheld)) if "withheld" in device else (),
            leaks=tuple(
                Leak(leak.vrf, tuple(sorted(leak.sources)), tuple(sorted(leak.accept)))
                for leak in sorted(bgp.leaks, key=lambda leak: leak.vrf)
            ),
        )
    return replace(
        view,
        model="",
        role="",
        qos=qos,
        ports=ports,
        bgp=bgp,
        balancing=rendered_mode(view.nos, view.balancing) if "balancing" in device else None,
        loopbacks=tuple(sorted(view.loopbacks)) if "loopbacks" in device else (),
        vlans=tuple(sorted(view.vlans, key=lambda v: v.vid)) if "vlans" in device else (),
        vrfs=tuple(sorted(view.vrfs, key=lambda v: v.name)) if "vrfs" in device else (),
        pools=tuple(sorted(view.pools)) if "pools" in device else (),
    )


def _ordered(policy: Policy) -> Policy:
    return replace(policy, accept=tuple(sorted(policy.accept)), announce=tuple(sorted(policy.announce)))


def statements(view: DeviceView) -> Iterator[tuple[str, str]]:
    """Yield the facts of a view as ``(key, value)``, keys unique, values as text; absent facts are not yielded."""
    if view.loopbacks:
        yield "loopbacks", ",".join(view.loopbacks)
    if view.balancing is not None:
        yield "balancing", view.balancing
    if view.qos is not None:
        yield from _qos_statements(view.qos)
    for name, size_bytes in view.pools:
        yield f"pool/{name}", str(size_bytes)
    for port in view.ports:
        yield from _port_statements(port)
    for vlan in view.vlans:
        key = f"vlan/{vlan.vid}"
        yield f"{key}/vni", str(vlan.vni or "local")
        yield f"{key}/vrf", vlan.vrf
        if vlan.gateways:
            yield f"{key}/gateways", ",".join(vlan.gateways)
    for vrf in view.vrfs:
        yield f"vrf/{vrf.name}/vni", str(vrf.vni)
    if view.bgp is not None:
        yield "bgp/asn", str(view.bgp.asn)
        yield "bgp/evpn", _flag(view.bgp.evpn)
        yield "bgp/router_id", view.bgp.router_id
        yield "bgp/maximum_paths", str(view.bgp.maximum_paths)
        yield "bgp/multipath_relax", _flag(view.bgp.relaxed)
        if view.bgp.withheld:
            yield "bgp/withheld", ", ".join(view.bgp.withheld)
        for neighbor in view.bgp.neighbors:
            key = f"bgp/neighbor/{neighbor.vrf}/{neighbor.peer}"
            yield f"{key}/remote_as", "external" if neighbor.remote_as is None else str(neighbor.remote_as)
            yield f"{key}/bfd", _flag(neighbor.bfd)
            if neighbor.policy:
                yield f"{key}/policy", neighbor.policy
            if neighbor.maximum_prefixes is not None:
                yield f"{key}/maximum_prefixes", str(neighbor.maximum_prefixes)
        yield from _policy_statements(view.bgp)


def _policy_statements(bgp: Bgp) -> Iterator[tuple[str, str]]:
    for policy in bgp.policies:
        key = f"policy/{policy.name}"
        yield f"{key}/accept", ", ".join(policy.accept) or "nothing"
        yield f"{key}/announce", ", ".join(policy.announce) or "nothing"
        if policy.tag_accepted:
            yield f"{key}/tag_accepted", policy.tag_accepted
        if policy.tag_announced:
            yield f"{key}/tag_announced", policy.tag_announced
    for aggregate in bgp.aggregates:
        yield f"aggregate/{aggregate}", "announced"
    for leak in bgp.leaks:
        yield f"leak/{leak.vrf}", f"{', '.join(leak.sources)}: {', '.join(leak.accept) or EVERYTHING}"


def _qos_statements(qos: Qos) -> Iterator[tuple[str, str]]:
    for dscp, priority in enumerate(qos.dscp_to_priority):
        yield f"dscp/{dscp}", str(priority) if priority != NOT_MAPPED else "unmapped"
    for priority, queue in enumerate(qos.priority_to_queue):
        yield f"priority/{priority}", str(queue) if queue != NOT_MAPPED else "unmapped"
    for entry in qos.queues:
        yield f"queue/{entry.queue}/scheduler", entry.scheduler
        if entry.weight is not None:
            yield f"queue/{entry.queue}/weight", str(entry.weight)
    if qos.watchdog is not None:
        for name in ("detection_ms", "restoration_ms", "action"):
            value = getattr(qos.watchdog, name)
            if value is not None:
                yield f"watchdog/{name}", str(value)


def _port_statements(port: Port) -> Iterator[tuple[str, str]]:
    key = f"port/{port.name}"
    if port.peer:
        yield f"{key}/peer", port.peer
    if port.speed_gbps:
        yield f"{key}/speed_gbps", f"{port.speed_gbps:g}"
        yield f"{key}/split", str(port.split)
        yield f"{key}/fec", port.fec
    if port.mtu:
        yield f"{key}/mtu", str(port.mtu)
    if port.lanes:
        yield f"{key}/lanes", ",".join(map(str, port.lanes))
    if port.cable_m is not None:
        yield f"{key}/cable_m", str(port.cable_m)
    yield f"{key}/trust_dscp", _flag(port.trust_dscp)
    yield f"{key}/pfc", ",".join(map(str, port.pfc)) or "none"
    yield f"{key}/watchdog", _flag(port.watchdog)
    for marking in port.marking:
        own = f"{key}/marking/{marking.queue}"
        yield f"{own}/enabled", _flag(marking.enabled)
        yield f"{own}/kmin_bytes", str(marking.kmin_bytes)
        yield f"{own}/kmax_bytes", str(marking.kmax_bytes)
        yield f"{own}/probability_percent", str(marking.probability_percent)
    for room in port.headroom:
        own = f"{key}/headroom/{room.priority}"
        yield f"{own}/xoff_bytes", str(room.xoff_bytes)
        yield f"{own}/xon_bytes", str(room.xon_bytes)
        yield f"{own}/size_bytes", str(room.size_bytes)
    if port.addresses:
        yield f"{key}/addresses", ",".join(port.addresses)
    yield f"{key}/vrf", port.vrf
    if port.vlan is not None:
        yield f"{key}/vlan", str(port.vlan)
    if port.bond is not None:
        yield f"{key}/bond", str(port.bond)


def _flag(value: bool) -> str:
    return "on" if value else "off"
