"""Which ports of a GPU server a network takes, and the switches that suit them.

Adapters are numbered through a server (`ports.nic`): backend first, then frontend, then storage; a storage port that sits on
a frontend adapter has that adapter's number. Ports are dealt adapter by adapter, so that two leaves meet two adapters where
there are two.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from railwright.catalog.load import Catalog
from railwright.catalog.model import NicGroup, Protocol, Server, Switch
from railwright.design.cages import SIDES
from railwright.design.context import Context
from railwright.design.sizing import ceil_div
from railwright.design.topology.ports import leaf_split
from railwright.design.wiring import Decisions, Ends, Ids, cage_group
from railwright.errors import InputError
from railwright.spec.cluster import Frontend, NetworkName, Storage

Index = NDArray[np.int64]

DEFAULT_SWITCHES: dict[Protocol, tuple[tuple[float, str], ...]] = {
    "ethernet": ((100.0, "sn4600c"), (200.0, "sn5400"), (800.0, "sn5600")),
    "infiniband": ((400.0, "qm9700"), (800.0, "q3400-ra")),
}
"""Highest port rate and switch: the first whose rate suffices and that offers all rates is taken when the spec names none."""
SPECIAL_PAIRS = 2
"""Leaf pairs beside those of the servers that a choice of uplinks allows for (borders, services or appliances)."""
PORT_NAMES: dict[Protocol, str] = {"ethernet": "eth{}", "infiniband": "ib{}"}


@dataclass(frozen=True)
class ServerPorts:
    """Ports in use on every server: port ``q`` is port ``q // adapters`` of adapter ``q % adapters``.

    ``per_adapter`` ports of an adapter belong to the purpose. ``first_nic`` and ``first_cage`` say where its adapters start,
    ``name`` and ``name_from`` how its ports are called.
    """

    count: int
    gbps: float
    adapters: int
    per_adapter: int
    first_nic: int
    first_cage: int
    ports_per_cage: int
    name: str
    name_from: int

    def side(self, port: Index) -> Index:
        """Return the leaf of a pair (0 or 1) of each port: both leaves get an equal part, from two adapters if there are two."""
        adapter, nth = port % self.adapters, port // self.adapters
        return (adapter + nth) % 2

    def ends(self, servers: Ids, port: Index) -> Ends:
        """Return the server side of links: ``servers`` are device ids, ``port`` the port of each."""
        adapter, nth = port % self.adapters, port // self.adapters
        return Ends(
            device=servers,
            slot=adapter * self.per_adapter + nth,
            direction="host",
            first_cage=self.first_cage,
            ports_per_cage=self.ports_per_cage,
            name=self.name,
            name_from=self.name_from,
            nic=self.first_nic + adapter,
        )


def frontend_ports(server: Server, section: Frontend) -> tuple[ServerPorts, str]:
    """Return the frontend ports of ``server`` and why these; raises InputError when the spec asks for more than there are."""
    group = server.frontend
    count = _wanted(server, group, section.ports_per_server, "frontend")
    ports = ServerPorts(
        count=count,
        gbps=group.gbps,
        adapters=group.count,
        per_adapter=group.ports,
        first_nic=server.backend.count,
        first_cage=_cages(server.backend) + 1,
        ports_per_cage=group.ports_per_cage,
        name=PORT_NAMES["ethernet"],
        name_from=0,
    )
    return ports, _reason(group, section.ports_per_server)


def storage_ports(server: Server, section: Storage) -> tuple[ServerPorts, str] | None:
    """Return the ports of ``server`` for a storage fabric of its own and why these; None when it has no such ports."""
    group = server.storage
    if group is None:
        return None
    shared = group.shared_with
    protocol: Protocol = "infiniband" if section.transport == "infiniband" else "ethernet"
    first_nic = server.backend.count + (0 if shared == "frontend" else server.frontend.count)
    frontend_end = _cages(server.backend) + _cages(server.frontend)
    ports = ServerPorts(
        count=_wanted(server, group, section.ports_per_server, "storage"),
        gbps=group.gbps,
        adapters=group.count,
        per_adapter=group.ports,
        first_nic=0 if shared == "backend" else first_nic,
        first_cage=frontend_end + 1,
        ports_per_cage=group.ports_per_cage,
        name=PORT_NAMES[protocol],
        name_from=server.frontend.count * server.frontend.ports if protocol == "ethernet" else server.backend.count,
    )
    on = f"on the {shared} adapters" if shared else "on adapters of their own"
    return ports, f"{_reason(group, section.ports_per_server)}, {on}"


@dataclass(frozen=True)
class Switching:
    """The switches of a network and its rates: ``gbps`` toward servers, ``uplink_gbps`` between switches."""

    leaf: Switch
    spine: Switch
    gbps: float
    uplink_gbps: float
    why: str


def choose_switching(
    catalog: Catalog,
    section: Frontend | Storage,
    network: NetworkName,
    protocol: Protocol,
    rates: tuple[float, ...],
    other_gbps: float | None = None,
) -> Switching:
    """Return the switches for server ports that run at any of ``rates`` (the fastest first) beside boxes of ``other_gbps``.

    Their uplink rate is still open (see :func:`choose_uplink`).

    Raises InputError that names the rates on offer when no switch, or not the one that the spec names, suits.
    """
    if section.leaf_switch is not None:
        leaf, why = catalog.switch(section.leaf_switch, where=f"{network}.leaf_switch"), "asked for"
    else:
        leaf, why = _default(catalog, network, protocol, rates[0], other_gbps)
    spine = catalog.switch(section.spine_switch, where=f"{network}.spine_switch") if section.spine_switch else leaf
    for switch, tier in ((leaf, "leaf_switch"), (spine, "spine_switch")):
        if switch.protocol != protocol:
            raise InputError(
                f"{switch.key} is an {switch.protocol} switch and this network is {protocol}", key=f"{network}.{tier}"
            )
    gbps = next((rate for rate in rates if leaf.ports_at(rate)), None)
    if gbps is None:
        raise InputError(_offers(leaf, rates[0]), key=f"{network}.leaf_switch")
    if other_gbps is not None and not leaf.ports_at(other_gbps):
        raise InputError(_offers(leaf, other_gbps), key=f"{network}.leaf_switch")
    if gbps != rates[0]:
        why += f"; the servers' {rates[0]:g}G ports run at {gbps:g}G on it"
    return Switching(leaf, spine, gbps, 0.0, why)


def choose_uplink(
    switching: Switching,
    section: Frontend | Storage,
    network: NetworkName,
    decisions: Decisions,
    servers: int,
    ports: int,
    ratio: float,
) -> Switching:
    """Return ``switching`` with its rate between switches: the fastest with which two tiers hold all leaves of a site.

    ``servers`` have ``ports`` ports on each leaf of their pair. A rate below that of the servers is never taken; when no rate
    saves a tier, the fastest is. Raises InputError when the switches do not offer what the spec wants.
    """
    leaf, spine = switching.leaf, switching.spine
    if section.uplink_gbps is not None:
        for switch in (leaf, spine):
            if not switch.ports_at(section.uplink_gbps):
                raise InputError(_offers(switch, section.uplink_gbps), key=f"{network}.uplink_gbps")
        decisions.choose("uplink_gbps", section.uplink_gbps, "asked for")
        return replace(switching, uplink_gbps=section.uplink_gbps)
    common = [rate for rate in reversed(offered(leaf)) if spine.ports_at(rate)]
    if not common:
        raise InputError(_offers(spine, offered(leaf)[-1]), key=f"{network}.spine_switch")

    def holds(rate: float) -> bool:
        pairs = ceil_div(servers, max(1, leaf_split(leaf, switching.gbps, rate, ratio).down // ports))
        return SIDES * (pairs + SPECIAL_PAIRS) <= spine.ports_at(rate)

    uplink = next((rate for rate in common if rate >= switching.gbps and holds(rate)), common[0])
    decisions.choose(
        "uplink_gbps",
        uplink,
        f"the fastest that both switches offer{'' if holds(uplink) else '; no slower one saves the third tier'}"
        if uplink == common[0]
        else f"at {common[0]:g}G a spine has too few ports for the leaves; this rate saves a third tier",
    )
    return replace(switching, uplink_gbps=uplink)


def offered(switch: Switch) -> list[float]:
    """Return the rates that the fabric cages of ``switch`` offer, ascending."""
    modes = {mode for group in switch.cages if group.purpose == "fabric" for mode in group.breakouts}
    return sorted({float(mode.split("x")[1]) for mode in modes})


def port_rate(switch: Switch, wanted_gbps: float) -> float:
    """Return the fastest rate of ``switch`` up to ``wanted_gbps``, or its slowest."""
    rates = offered(switch)
    return max((rate for rate in rates if rate <= wanted_gbps), default=rates[0])


def ports_for(switch: Switch, throughput_gbps: float) -> tuple[float, int]:
    """Return rate and number of ports that carry ``throughput_gbps``: one port where a rate suffices, else several."""
    rates = offered(switch)
    rate = next((rate for rate in rates if rate >= throughput_gbps), rates[-1])
    return rate, max(1, ceil_div(int(np.ceil(throughput_gbps)), int(rate)))


def per_cage(switch: Switch, gbps: float) -> int:
    """Return how many ports of ``gbps`` one cage gives."""
    return cage_group(switch, gbps, "fabric")[0].ports_at(gbps)


def converged_host(context: Context, network: NetworkName) -> NetworkName:
    """Return the network whose switches carry ``network``: itself, or the first of its ``converge`` group."""
    group = context.spec.converge
    order: tuple[NetworkName, ...] = ("backend", "frontend", "storage", "management")
    return next(name for name in order if name in group) if network in group else network


def _wanted(server: Server, group: NicGroup, wanted: int | None, network: NetworkName) -> int:
    there = group.count * group.ports
    if wanted is not None and wanted > there:
        raise InputError(f"{server.key} has {there} {network} ports, not {wanted}", key=f"{network}.ports_per_server")
    return wanted or there


def _reason(group: NicGroup, wanted: int | None) -> str:
    of = f"{group.count} x {group.nic} with {group.ports} x {group.gbps:g}G"
    return f"asked for, of {of}" if wanted is not None else f"all of {of}"


def _cages(group: NicGroup) -> int:
    return ceil_div(group.count * group.ports, group.ports_per_cage)


def _default(
    catalog: Catalog, network: NetworkName, protocol: Protocol, gbps: float, other_gbps: float | None
) -> tuple[Switch, str]:
    wanted = max(gbps, other_gbps or 0.0)
    rates = {gbps, other_gbps or gbps}
    for highest, key in DEFAULT_SWITCHES[protocol]:
        switch = catalog.switch(key)
        if wanted <= highest and all(switch.ports_at(rate) for rate in rates):
            return switch, f"the default for {' and '.join(f'{rate:g}G' for rate in sorted(rates))}"
    shown = " and ".join(f"{rate:g}G" for rate in sorted(rates))
    raise InputError(f"no default {protocol} switch offers {shown}; name one", key=f"{network}.leaf_switch")


def _offers(switch: Switch, gbps: float) -> str:
    rates = ", ".join(f"{rate:g}G" for rate in offered(switch))
    return f"{switch.key} has no port of {gbps:g}G; it offers {rates}"
