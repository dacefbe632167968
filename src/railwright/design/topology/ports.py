"""Which switches carry the backend and how their ports split between down and up."""

from dataclasses import dataclass

from railwright.catalog.load import Catalog
from railwright.catalog.model import Protocol, Switch
from railwright.design.sizing import PortSplit, split_cages, uplinks_needed
from railwright.design.wiring import cage_group, cages_needed
from railwright.errors import InputError
from railwright.spec.cluster import Backend

DEFAULT_SWITCHES: dict[Protocol, tuple[str, ...]] = {
    "ethernet": ("sn5600", "generic-64x800"),
    "infiniband": ("qm9700", "q3400-ra"),
}
"""What is taken, in this order, when the spec names no switch: the first that offers the rates."""


@dataclass(frozen=True)
class Platforms:
    """The switch of each tier, the rate of its server ports and the rate between switches."""

    leaf: Switch
    spine: Switch
    core: Switch
    port_gbps: float
    uplink_gbps: float

    @property
    def spine_ports(self) -> int:
        """Radix of a spine."""
        return self.spine.ports_at(self.uplink_gbps)

    @property
    def core_ports(self) -> int:
        """Radix of a core."""
        return self.core.ports_at(self.uplink_gbps)


def choose_platforms(backend: Backend, catalog: Catalog, port_gbps: float) -> Platforms:
    """Return the platforms of the spec, or the default ones; raises InputError for a wrong protocol or rate."""
    protocol: Protocol = "infiniband" if backend.transport == "infiniband" else "ethernet"
    uplink_gbps = backend.uplink_gbps or port_gbps
    default = (
        backend.switch
        or backend.leaf_switch
        or backend.spine_switch
        or _default_switch(catalog, protocol, port_gbps, uplink_gbps)
    )

    def platform(given: str | None, key: str, rates: set[float]) -> Switch:
        where = f"backend.{key}" if given is not None else "backend.switch"
        switch = catalog.switch(given or default, where=where)
        if switch.protocol != protocol:
            raise InputError(
                f"{switch.key} is an {switch.protocol} switch and transport {backend.transport} needs {protocol}",
                key=where,
            )
        for rate in sorted(rates):
            try:
                cage_group(switch, rate, "fabric")
            except InputError as error:
                raise InputError(error.message, key=where) from None
        return switch

    return Platforms(
        leaf=platform(backend.leaf_switch, "leaf_switch", {port_gbps, uplink_gbps}),
        spine=platform(backend.spine_switch, "spine_switch", {uplink_gbps}),
        core=platform(backend.core_switch, "core_switch", {uplink_gbps}),
        port_gbps=port_gbps,
        uplink_gbps=uplink_gbps,
    )


def leaf_split(platform: Switch, down_gbps: float, up_gbps: float, ratio: float) -> PortSplit:
    """Return the most ports down that the ports up allow at oversubscription ``ratio``."""
    down_group, _ = cage_group(platform, down_gbps, "fabric")
    up_group, _ = cage_group(platform, up_gbps, "fabric")
    down_per_cage, up_per_cage = down_group.ports_at(down_gbps), up_group.ports_at(up_gbps)
    if down_group is up_group:
        return split_cages(down_group.count, down_per_cage, down_gbps, up_per_cage, up_gbps, ratio)
    down = min(down_group.count * down_per_cage, int(up_group.count * up_per_cage * up_gbps * ratio / down_gbps + 1e-9))
    return PortSplit(down, uplinks_needed(down, down_gbps, up_gbps, ratio))


def uplinks_left(platform: Switch, down_ports: int, down_gbps: float, up_gbps: float) -> int:
    """Return how many uplinks fit beside ``down_ports`` ports (0 when these fill the switch)."""
    group, _ = cage_group(platform, up_gbps, "fabric")
    return max(0, group.count - first_uplink_cage(platform, down_ports, down_gbps, up_gbps) + 1) * group.ports_at(
        up_gbps
    )


def downlinks_left(platform: Switch, up_ports: int, down_gbps: float, up_gbps: float) -> int:
    """Return how many ports of ``down_gbps`` fit beside ``up_ports`` uplinks."""
    return uplinks_left(platform, up_ports, up_gbps, down_gbps)


def first_uplink_cage(platform: Switch, down_ports: int, down_gbps: float, up_gbps: float) -> int:
    """Return the first cage (from 1, within its group) that is free for uplinks after ``down_ports`` ports."""
    if cage_group(platform, down_gbps, "fabric")[0] is cage_group(platform, up_gbps, "fabric")[0]:
        return cages_needed(platform, down_gbps, down_ports) + 1
    return 1


def _default_switch(catalog: Catalog, protocol: Protocol, *rates: float) -> str:
    offered = [key for key in DEFAULT_SWITCHES[protocol] if all(catalog.switch(key).ports_at(rate) for rate in rates)]
    if not offered:
        wanted = " and ".join(f"{rate:g}G" for rate in sorted(set(rates)))
        raise InputError(f"no default {protocol} switch offers {wanted}; name one", key="backend.switch")
    return offered[0]
