"""Configurations as tables, so that rules are joins: switch ports, adapter ports, the cables between them, and sample paths.

``ports``: one row per switch port read. ``nics``: one row per adapter port. ``cables``: one row per cable whose two ends are
both read and agree on each other, from the neighbour that a port names (or from a plan's links).
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from railwright.build.contract import MTU_LIMIT, NOT_MAPPED, DeviceView, Port
from railwright.build.hosts import HostPort, HostView
from railwright.build.readings import Readings

_PORT_SCHEMA = pl.Schema(
    {
        "device": pl.String,
        "port": pl.String,
        "nos": pl.String,
        "model": pl.String,
        "peer_device": pl.String,
        "peer_port": pl.String,
        "speed_gbps": pl.Float64,
        "split": pl.Int64,
        "lanes": pl.UInt8,
        "mtu": pl.Int64,
        "mtu_full": pl.Boolean,
        "fec": pl.String,
        "cable_m": pl.Int64,
        "trust": pl.Boolean,
        "pfc": pl.String,
        "watchdog": pl.Boolean,
    }
)
_NIC_SCHEMA = pl.Schema(
    {
        "device": pl.String,
        "port": pl.String,
        "rdma": pl.String,
        "network": pl.String,
        "peer_device": pl.String,
        "peer_port": pl.String,
        "mtu": pl.Int64,
        "trust": pl.String,
        "pfc": pl.String,
        "traffic_class": pl.Int64,
        "cnp_dscp": pl.Int64,
        "dcqcn": pl.String,
        "pause": pl.String,
        "gid": pl.Int64,
    }
)


@dataclass(frozen=True)
class Frames:
    """``ports`` and ``nics`` as read; ``queues`` (``device, port, queue, enabled, kmin, kmax, percent, speed_gbps``),
    ``headroom`` (``device, port, priority, xoff_bytes``), ``dscp`` (``device, dscp, priority``), ``maps`` (``device, priority,
    queue``), ``schedulers`` (``device, queue, scheduler, weight``).
    """

    ports: pl.DataFrame
    nics: pl.DataFrame
    queues: pl.DataFrame
    headroom: pl.DataFrame
    dscp: pl.DataFrame
    maps: pl.DataFrame
    schedulers: pl.DataFrame

    def cables(self) -> pl.DataFrame:
        """Return switch-to-switch cables: the columns of ``ports`` for one end and the same with ``_b`` for the other."""
        mine = self.ports.filter(pl.col("peer_device") != "")
        both = mine.join(
            self.ports,
            left_on=["peer_device", "peer_port"],
            right_on=["device", "port"],
            suffix="_b",
            coalesce=False,
        )
        once = pl.concat_str("device", pl.lit("\t"), "port") < pl.concat_str("device_b", pl.lit("\t"), "port_b")
        return both.filter(once).sort("device", "port")

    def uplinks(self) -> pl.DataFrame:
        """Return server-to-switch cables: the columns of ``nics`` and, with ``_b``, those of the switch's port.

        The two find each other by the switch that the adapter names, or by the adapter that the switch names.
        """
        by_nic = self.nics.filter(pl.col("peer_device") != "").join(
            self.ports, left_on=["peer_device", "peer_port"], right_on=["device", "port"], suffix="_b", coalesce=False
        )
        found = [by_nic]
        for label in ("rdma", "port"):
            found.append(
                self.nics.join(
                    self.ports,
                    left_on=["device", label],
                    right_on=["peer_device", "peer_port"],
                    suffix="_b",
                    coalesce=False,
                ).select(by_nic.columns)
            )
        return pl.concat(found).unique(["device", "port"], keep="first", maintain_order=True)


def frames(readings: Readings) -> Frames:
    """Return the tables of what was read."""
    switches = [reading.view for reading in readings.switches]
    servers = [reading.view for reading in readings.servers]
    queues = [
        (v.name, p.name, m.queue, m.enabled, m.kmin_bytes, m.kmax_bytes, m.probability_percent, p.speed_gbps)
        for v in switches
        for p in v.ports
        for m in p.marking
    ]
    headroom = [(v.name, p.name, h.priority, h.xoff_bytes) for v in switches for p in v.ports for h in p.headroom]
    qos = [(v.name, v.qos) for v in switches if v.qos is not None]
    dscp = [(n, d, p) for n, q in qos for d, p in enumerate(q.dscp_to_priority) if p != NOT_MAPPED]
    maps = [(n, p, k) for n, q in qos for p, k in enumerate(q.priority_to_queue) if k != NOT_MAPPED]
    schedulers = [(n, s.queue, s.scheduler, s.weight) for n, q in qos for s in q.queues]
    return Frames(
        ports=pl.DataFrame([_port(v, p) for v in switches for p in v.ports], schema=_PORT_SCHEMA, orient="row"),
        nics=pl.DataFrame([_nic(v, p) for v in servers for p in v.ports], schema=_NIC_SCHEMA, orient="row"),
        queues=_frame(queues, "device port queue enabled kmin kmax percent speed_gbps", {"enabled": pl.Boolean}),
        headroom=_frame(headroom, "device port priority xoff_bytes", {}),
        dscp=_frame(dscp, "device dscp priority", {}),
        maps=_frame(maps, "device priority queue", {}),
        schedulers=_frame(schedulers, "device queue scheduler weight", {"scheduler": pl.String}),
    )


def paths_through(pairs: pl.DataFrame, servers: Iterable[str]) -> dict[str, str]:
    """Return for every device a real path from a server to it, as ``server > leaf > spine``.

    ``pairs`` has ``a`` and ``b``: devices that share a cable.
    """
    around: dict[str, list[str]] = {}
    for a, b in pl.concat([pairs.select("a", "b"), pairs.select(a="b", b="a")]).unique().sort("a", "b").iter_rows():
        around.setdefault(a, []).append(b)
    starts = sorted(servers) or sorted(around)[:1]
    paths = {name: name for name in starts}
    hosts = set(starts)
    waiting = deque(starts)
    while waiting:
        here = waiting.popleft()
        for there in around.get(here, ()):
            if there not in paths:
                paths[there] = f"{paths[here]} > {there}"
                if there not in hosts:
                    waiting.append(there)
    return paths


def _frame(rows: Sequence[tuple[object, ...]], names: str, types: dict[str, type[pl.DataType]]) -> pl.DataFrame:
    kinds: dict[str, type[pl.DataType]] = {"device": pl.String, "port": pl.String, "speed_gbps": pl.Float64, **types}
    return pl.DataFrame(rows, schema={name: kinds.get(name, pl.Int64) for name in names.split()}, orient="row")


def _port(view: DeviceView, port: Port) -> tuple[object, ...]:
    device, _, name = port.peer.partition(":")
    return (
        view.name,
        port.name,
        view.nos,
        view.model,
        device,
        name,
        port.speed_gbps,
        port.split,
        len(port.lanes) or None,
        port.mtu,
        port.mtu == MTU_LIMIT[view.nos],
        port.fec,
        port.cable_m,
        port.trust_dscp,
        ",".join(map(str, port.pfc)),
        port.watchdog,
    )


def _nic(view: HostView, port: HostPort) -> tuple[object, ...]:
    device, _, name = port.peer.partition(":")
    lists = [None if value is None else ",".join(map(str, value)) for value in (port.pfc, port.dcqcn)]
    return (
        view.name,
        port.name,
        port.rdma,
        port.network,
        device,
        name,
        port.mtu,
        port.trust,
        lists[0],
        port.traffic_class,
        port.cnp_dscp,
        lists[1],
        port.pause,
        port.gid,
    )
