"""Sockets: what a cage offers to the cable that is plugged into it.

A socket is a kind of cage in one breakout mode: its form factor, its electrical lanes and their rates, and how many logical
ports of which rate it gives. A plan of any size has a few dozen kinds; every port points at its kind (``socket``) and at its
own cage (``cage_id``). Sockets of switches come from the platform's cages, those of servers from their adapters, those of
other boxes are taken in the shape that is usual for their rate, because such a box is bought with the ports it needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.catalog.load import Catalog
from railwright.catalog.model import NicGroup, Protocol, Server
from railwright.design.context import resolve_server
from railwright.design.plan import Plan
from railwright.spec.cluster import ClusterSpec

BOX_FORM_FACTORS: Mapping[Protocol, Mapping[float, str]] = {
    "ethernet": {
        10.0: "sfp-plus",
        25.0: "sfp28",
        40.0: "qsfp28",
        50.0: "qsfp56",
        100.0: "qsfp56",
        200.0: "qsfp112",
        400.0: "qsfp112",
        800.0: "osfp224-rhs",
    },
    "infiniband": {100.0: "qsfp56", 200.0: "osfp-rhs-single", 400.0: "osfp-rhs-single", 800.0: "osfp224-rhs"},
}
"""Cages of boxes without adapters in the catalog, by rate of a port (assumption: the usual one for the rate)."""
FASTEST_USUAL_LANE_GBPS = 100.0
FAST_BOX_FORM_FACTOR = "osfp224-rhs"
"""Lane rate up to which these hold; a box whose link has faster lanes has this cage, since nothing else carries them."""
TWISTED_PAIR_GBPS = 1.0
"""Ports up to this rate are RJ45."""


@dataclass(frozen=True)
class Socket:
    """A kind of cage. ``ports`` logical ports of ``gbps`` on ``port_lanes`` electrical lanes each.

    ``direction`` is that of its ports, so that both sides of a link between switches of one platform are told apart.
    ``device`` is the catalog key that cage rules and coding go by (switch or adapter), ``model`` that of the whole box.
    ``lane_gbps`` are the rates that the lanes can run, ``fixed`` whether the mode fixes them at ``gbps / port_lanes``.
    ``limit_w`` is what a module may draw. ``foreign`` sockets belong to somebody else: no module is bought for them.
    """

    model: str
    device: str
    name: str
    vendor: str
    kind: str
    direction: str
    form_factor: str
    lanes: int
    lane_gbps: tuple[float, ...]
    ports: int
    gbps: float
    port_lanes: int
    fixed: bool
    protocol: Protocol
    limit_w: float | None = None
    linear: bool = False
    foreign: bool = False

    @property
    def is_twisted_pair(self) -> bool:
        """Whether the port is RJ45."""
        return self.form_factor == "rj45"

    @property
    def copper_rates(self) -> tuple[float, ...]:
        """Lane rates in Gb/s at which a port can run over copper."""
        if self.fixed:
            return (self.gbps / self.port_lanes,)
        whole = (rate for rate in self.lane_gbps if self.gbps % rate == 0)
        return tuple(rate for rate in whole if self.gbps / rate <= self.lanes / self.ports)

    @property
    def mode(self) -> str:
        """The breakout mode as ``COUNTxGBPS``."""
        return f"{self.ports}x{self.gbps:g}"

    def __str__(self) -> str:
        return f"{self.name} ({self.form_factor}, {self.mode}G)"


@dataclass(frozen=True)
class Sockets:
    """The sockets of a plan: the ``kinds``, and arrays with one element per row of ``plan.ports``.

    ``socket`` (int64) is the kind, ``cage_id`` (int64) numbers the cages densely, ``first_lane`` (int64) is the electrical lane
    of the cage where the port starts. A cage whose ports run at two rates is one cage of two kinds.
    """

    kinds: tuple[Socket, ...]
    socket: NDArray[np.int64]
    cage_id: NDArray[np.int64]
    first_lane: NDArray[np.int64]


def find_sockets(plan: Plan) -> Sockets:
    """Return the sockets of all ports of ``plan``."""
    ports = plan.ports.join(
        plan.devices.select("device_id", "role", "model"), on="device_id", how="left", maintain_order="left"
    )
    group = _cage_groups(plan.catalog, ports)
    peer_lanes = _peer_lanes(plan)
    described = ports.select(
        pl.col("role").cast(pl.String),
        "model",
        pl.col("network").cast(pl.String),
        pl.col("direction").cast(pl.String),
        "speed_gbps",
        "lanes",
        in_cage=pl.col("cage") > 0,
        group=pl.Series(group),
        fast=pl.col("speed_gbps").gt(pl.Series(peer_lanes) * FASTEST_USUAL_LANE_GBPS)
        & pl.Series((peer_lanes > 0) & (group < 0)),
    )
    columns = described.columns
    unique = described.unique(maintain_order=True).with_row_index("row")
    row = described.join(unique, on=columns, how="left", nulls_equal=True, maintain_order="left")["row"].to_numpy()
    resolve = _Resolver(plan)
    found = [resolve.socket(values) for values in unique.drop("row").iter_rows(named=True)]
    kinds = tuple(dict.fromkeys(found))
    of_row = np.array([kinds.index(kind) for kind in found], dtype=np.int64)
    socket = of_row[row] if len(found) else np.empty(0, dtype=np.int64)
    pitch = np.array([max(1, kind.lanes // kind.ports) for kind in kinds], dtype=np.int64)
    cage_id, nth = _cages(ports, of_platform=group >= 0)
    given = ports["lane_first"].to_numpy().astype(np.int64)
    first_lane = np.where(group >= 0, given, nth * pitch[socket]) if len(kinds) else nth
    return Sockets(kinds, socket, cage_id, first_lane)


def _peer_lanes(plan: Plan) -> NDArray[np.int64]:
    """Return for every port the electrical lanes of the port at the other end of its link; 0 where these are not known."""
    lanes = plan.ports.select("port_id", pl.col("lanes").cast(pl.Int64).fill_null(0))
    pairs = pl.concat([plan.links.select(near=a, port_id=b) for a, b in (("a_port", "b_port"), ("b_port", "a_port"))])
    far = pairs.join(lanes, on="port_id", how="left", maintain_order="left").select(port_id="near", far="lanes")
    found = plan.ports.select("port_id").join(far, on="port_id", how="left", maintain_order="left")["far"]
    return found.fill_null(0).to_numpy()


def _cages(ports: pl.DataFrame, of_platform: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the dense number of every port's cage and the port's ordinal in it. Ports outside of cages have one each.

    A platform numbers its cages through; servers and boxes number them network by network.
    """
    framed = ports.select(
        "device_id",
        "cage",
        "lane_first",
        "nic",
        "port_id",
        row=pl.int_range(pl.len()),
        series=pl.when(pl.Series(of_platform)).then(None).otherwise(pl.col("network").to_physical()),
        alone=pl.when(pl.col("cage") == 0).then("port_id"),
    )
    key = ["device_id", "series", "cage", "alone"]
    ordered = framed.sort(*key, "lane_first", "nic", "port_id", nulls_last=False)
    numbered = ordered.with_columns(cage_id=pl.struct(key).rle_id(), nth=pl.int_range(pl.len()).over(key)).sort("row")
    return numbered["cage_id"].to_numpy().astype(np.int64), numbered["nth"].to_numpy().astype(np.int64)


def _cage_groups(catalog: Catalog, ports: pl.DataFrame) -> NDArray[np.int64]:
    """Return for ports of switches which of the platform's groups of cages they are in, times two, plus one in cages of high
    power; -1 for all other ports. Cages beyond the last count as the first group that has the rate."""
    model, cage = ports["model"].to_numpy(), ports["cage"].to_numpy().astype(np.int64)
    rate = ports["speed_gbps"].to_numpy()
    outer = (ports["direction"] == "host").to_numpy() | (cage == 0)
    group = np.full(len(ports), -1, dtype=np.int64)
    for key in ports["model"].unique(maintain_order=True):
        if key not in catalog.switches:
            continue
        cages = catalog.switches[key].cages
        rows = np.flatnonzero((model == key) & ~outer)
        ends = np.cumsum([entry.count for entry in cages])
        inside = np.searchsorted(ends, cage[rows], side="left")
        for gbps in np.unique(rate[rows[inside == len(cages)]]):
            surplus = (inside == len(cages)) & (rate[rows] == gbps)
            inside[surplus] = next((n for n, entry in enumerate(cages) if entry.ports_at(float(gbps))), 0)
        high = np.zeros(len(rows), dtype=np.int64)
        for number, entry in enumerate(cages):
            if entry.high_power_cages:
                high |= ((inside == number) & np.isin(cage[rows], entry.high_power_cages)).astype(np.int64)
        group[rows] = inside * 2 + high
    return group


class _Resolver:
    """Turns the description of a kind of port into its socket."""

    def __init__(self, plan: Plan) -> None:
        self._catalog = plan.catalog
        self._spec = plan.spec
        self._server = resolve_server(plan.spec, plan.catalog)

    def socket(self, port: Mapping[str, object]) -> Socket:
        """Return the socket of ports with these values (columns of ``find_sockets``)."""
        role, model, network = str(port["role"]), str(port["model"]), str(port["network"])
        gbps, group = float(str(port["speed_gbps"])), int(str(port["group"]))
        if group >= 0:
            return self._switch(model, group, gbps, port["lanes"], str(port["direction"]))
        if gbps <= TWISTED_PAIR_GBPS or not port["in_cage"]:
            return _twisted_pair(model, gbps)
        if role == "server":
            return self._adapter(model, network, gbps)
        return self._box(role, model, network, gbps, fast=bool(port["fast"]))

    def _switch(self, model: str, group: int, gbps: float, lanes: object, direction: str) -> Socket:
        switch = self._catalog.switches[model]
        cages = switch.cages[group // 2]
        ports = max(1, cages.ports_at(gbps))
        used = int(str(lanes)) if lanes is not None else cages.lanes // ports
        limit = cages.high_power_limit_w if group % 2 else cages.module_limit_w
        rates = tuple(
            rate for rate in self._catalog.form_factors[cages.form_factor].lane_gbps if rate <= cages.lane_gbps
        )
        return Socket(
            model=model,
            device=model,
            name=switch.name,
            vendor=switch.vendor,
            kind="switch",
            direction=direction,
            form_factor=cages.form_factor,
            lanes=cages.lanes,
            lane_gbps=rates or (cages.lane_gbps,),
            ports=ports,
            gbps=gbps,
            port_lanes=max(1, used),
            fixed=True,
            protocol=switch.protocol,
            limit_w=limit,
            linear=bool(cages.linear),
        )

    def _adapter(self, model: str, network: str, gbps: float) -> Socket:
        group = server_group(self._server, network)
        nic = self._catalog.nics[group.nic]
        rule = next((r for r in self._catalog.cage_compatibility.values() if group.nic in r.devices), None)
        return Socket(
            model=model,
            device=group.nic,
            name=f"{self._server.name}, {nic.name}",
            vendor=nic.vendor,
            kind="adapter",
            direction="host",
            form_factor=group.form_factor,
            lanes=nic.lanes_per_port * group.ports_per_cage,
            lane_gbps=nic.lane_gbps,
            ports=group.ports_per_cage,
            gbps=gbps,
            port_lanes=nic.lanes_per_port,
            fixed=False,
            protocol=network_protocol(self._spec, network),
            limit_w=rule.module_limit_w if rule else None,
        )

    def _box(self, role: str, model: str, network: str, gbps: float, *, fast: bool) -> Socket:
        protocol = network_protocol(self._spec, network)
        usual = BOX_FORM_FACTORS[protocol]
        form_factor = FAST_BOX_FORM_FACTOR if fast else usual.get(gbps) or usual[max(usual)]
        shape = self._catalog.form_factors[form_factor]
        return Socket(
            model=model,
            device=model,
            name=self._catalog.box(model).name if model in self._catalog.boxes else model,
            vendor="any",
            kind="box",
            direction="host",
            form_factor=form_factor,
            lanes=shape.lanes,
            lane_gbps=shape.lane_gbps,
            ports=1,
            gbps=gbps,
            port_lanes=shape.lanes,
            fixed=False,
            protocol=protocol,
            foreign=role == "external",
        )


def server_group(server: Server, network: str) -> NicGroup:
    """Return the adapters of ``server`` that serve ``network``; what has none of its own rides on the frontend's."""
    if network == "backend":
        return server.backend
    if network == "storage" and server.storage is not None:
        return server.storage
    return server.frontend


def network_protocol(spec: ClusterSpec, network: str) -> Protocol:
    """Return the link layer of ``network``."""
    if network == "backend":
        return "infiniband" if spec.backend.transport == "infiniband" else "ethernet"
    if network == "storage" and "storage" not in spec.converge:
        return "infiniband" if spec.storage.transport == "infiniband" else "ethernet"
    return "ethernet"


def _twisted_pair(model: str, gbps: float) -> Socket:
    return Socket(
        model=model,
        device=model,
        name=f"{model} management port",
        vendor="any",
        kind="management",
        direction="host",
        form_factor="rj45",
        lanes=1,
        lane_gbps=(gbps,),
        ports=1,
        gbps=gbps,
        port_lanes=1,
        fixed=True,
        protocol="ethernet",
    )
