"""Rules on isolation and on the edge: who is in whose network, and which routes cross a border.

Without a plan a server's ports vote: those on switches with the same VLANs and VRFs belong to the same one. A session counts as
one to the outside when nobody read holds the address of its other end and its AS is not a private one of RFC 6996.
"""

from collections.abc import Iterator, Mapping

import polars as pl

from railwright.build.contract import CARRIES, EVERYTHING, DeviceView, Leak, Neighbor
from railwright.build.partitions import DEFAULT_KEY, EVERYBODY, Partition, full_members
from railwright.build.readings import Readings
from railwright.check.config_frames import Frames
from railwright.check.config_rules import Mistake, rare

_PRIVATE_ASNS = (range(64_512, 65_535), range(4_200_000_000, 4_294_967_295))


def port_membership(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """Ports of a server in another VLAN or VRF than its other ports on switches alike."""
    servers = {reading.view.name for reading in readings.servers}
    rows = []
    bridging = [reading.view for reading in readings.switches if "vlan" in CARRIES[reading.view.nos]["port"]]
    for view in bridging:
        vrf_of = {vlan.vid: vlan.vrf for vlan in view.vlans}
        alike = repr((sorted(vrf_of), sorted(vrf.name for vrf in view.vrfs)))
        for port in view.ports:
            server = port.peer.partition(":")[0]
            if server in servers:
                vrf = port.vrf if port.vlan is None else vrf_of.get(port.vlan, "default")
                vlan = "" if port.vlan is None else f"VLAN {port.vlan} of "
                field = "vrf" if port.vlan is None else "vlan"
                rows.append((view.name, port.name, server, alike, f"{vlan}VRF {vrf}", field))
    names = ("device", "port", "server", "alike", "value", "field")
    values = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
    for row in rare(values, ["server", "alike"], "value").iter_rows(named=True):
        message = f"{row['server']} is in {row['value']} here, on most switches in {row['usual']}"
        yield Mistake("RW037", row["device"], row["port"], f"port/{row['port']}/{row['field']}", message)


def leaks(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """VRFs that take routes of others without a filter, and routes between two VRFs that are both not the default one."""
    for view in (reading.view for reading in readings.switches):
        for leak in view.bgp.leaks if view.bgp is not None else ():
            said = _leak_mistake(leak)
            if said:
                yield Mistake("RW038", view.name, f"VRF {leak.vrf}", f"leak/{leak.vrf}", said)


def _leak_mistake(leak: Leak) -> str:
    sources = ", ".join(leak.sources)
    foreign = [source for source in leak.sources if "default" not in (source, leak.vrf)]
    if foreign:
        return f"takes routes of {', '.join(foreign)}: the two can reach each other"
    return f"takes all routes of {sources} without a filter" if not leak.accept or EVERYTHING in leak.accept else ""


def edge_sessions(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """Sessions to the outside without filter or limit, or with one that lets everything through."""
    views = [reading.view for reading in readings.switches]
    held = {address.partition("/")[0] for view in views for port in view.ports for address in port.addresses}
    for view in views:
        for neighbor in view.bgp.neighbors if view.bgp is not None else ():
            if not neighbor.unnumbered and neighbor.peer not in held and not _is_private(neighbor.remote_as):
                yield from _edge_mistakes(view, neighbor)


def _edge_mistakes(view: DeviceView, neighbor: Neighbor) -> Iterator[Mistake]:
    key = f"bgp/neighbor/{neighbor.vrf}/{neighbor.peer}"
    item = f"session {neighbor.peer}"
    policy = next((p for p in view.bgp.policies if p.name == neighbor.policy), None) if view.bgp is not None else None
    if policy is None:
        yield Mistake("RW039", view.name, item, f"{key}/policy", "leads outside and has no filter")
        return
    if EVERYTHING in policy.accept:
        yield Mistake("RW039", view.name, item, f"policy/{policy.name}/accept", "takes every route from outside")
    if EVERYTHING in policy.announce:
        message = "announces every route: traffic between two providers would cross the site"
        yield Mistake("RW039", view.name, item, f"policy/{policy.name}/announce", message)
    if neighbor.maximum_prefixes is None:
        yield Mistake("RW039", view.name, item, f"{key}/maximum_prefixes", "leads outside and has no limit of routes")


def _is_private(asn: int | None) -> bool:
    return asn is not None and any(asn in numbers for numbers in _PRIVATE_ASNS)


def partition_mistakes(
    path: str, partitions: list[Partition], wanted: list[Partition] | None, owners: Mapping[int, str]
) -> Iterator[Mistake]:
    """Yield what is wrong with the partitions of one fabric, and how they differ from ``wanted``.

    ``owners`` are the servers of GUIDs, as far as they are known; ``path`` is the file as findings show it.
    """
    fabric = path.rpartition("/")[0]
    others = [partition for partition in partitions if partition.key != DEFAULT_KEY]
    for partition in partitions:
        for member in partition.members:
            everybody = isinstance(member.who, str) and member.who in EVERYBODY and member.membership != "limited"
            if everybody and others:
                message = (
                    "is open: every port is a full member, so that tenants reach each other"
                    if partition.key == DEFAULT_KEY
                    else "has every port as a full member"
                )
                yield Mistake("RW040", fabric, f"partition {partition.name}", f"{path}:{member.line}", message)
    for guid, held in full_members(partitions).items():
        if len(held) > 1:
            names = ", ".join(partition.name for partition, _ in held)
            item = f"GUID 0x{guid:016x}"
            yield Mistake(
                "RW040", owners.get(guid, fabric), item, f"{path}:{held[-1][1].line}", f"is a full member of {names}"
            )
    if wanted is not None:
        yield from _against_plan(path, partitions, wanted, owners)


def _against_plan(
    path: str, partitions: list[Partition], wanted: list[Partition], owners: Mapping[int, str]
) -> Iterator[Mistake]:
    """Yield GUIDs that are in other partitions than planned; silent for GUIDs that the plan does not know."""
    fabric = path.rpartition("/")[0]
    here, there = full_members(partitions), full_members(wanted)
    for guid in sorted(set(here) | set(there)):
        if guid not in owners:
            continue
        found = {p.key: (p, m) for p, m in here.get(guid, [])}
        planned = {p.key: p for p, _ in there.get(guid, [])}
        item = f"GUID 0x{guid:016x}"
        for key in found.keys() - planned.keys():
            partition, member = found[key]
            asked = ", ".join(p.name for p in planned.values()) or "none"
            message = f"is a full member of {partition.name}, the plan says {asked}"
            yield Mistake("RW040", owners.get(guid, fabric), item, f"{path}:{member.line}", message)
        for key in planned.keys() - found.keys():
            line = next((p.line for p in partitions if p.key == key), 0)
            message = f"is no full member of {planned[key].name}, as the plan says"
            yield Mistake("RW040", owners.get(guid, fabric), item, f"{path}:{line}", message)
