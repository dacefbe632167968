"""How the servers hang on the leaves: what the topologies differ in. Everything above the leaves is one folded Clos."""

from dataclasses import dataclass
from typing import Literal

from railwright.catalog.model import NicGroup, Server
from railwright.design.wiring import Decisions
from railwright.errors import InputError
from railwright.spec.cluster import Backend
from railwright.units import format_gbps


@dataclass(frozen=True)
class Attachment:
    """Servers of ``rails`` NICs, each with ``ports`` ports of ``gbps`` in every one of ``planes`` planes.

    ``leaf_takes`` is ``rail`` when leaf r of a unit takes NIC r of each of its servers, ``server`` when a leaf takes all
    NICs of its servers. ``separate_rails`` makes every rail a fabric of its own; ``rail_planes`` calls these planes.
    """

    topology: str
    rails: int
    gbps: float
    planes: int = 1
    ports: int = 1
    leaf_takes: Literal["rail", "server"] = "rail"
    separate_rails: bool = False
    rail_planes: bool = False

    @property
    def rail_fabrics(self) -> int:
        """Fabrics per plane."""
        return self.rails if self.separate_rails else 1

    @property
    def fabrics(self) -> int:
        """Fabrics that no link joins."""
        return self.planes * self.rail_fabrics

    @property
    def leaves_per_unit(self) -> int:
        """Leaves of one unit in one fabric."""
        return self.rails if self.leaf_takes == "rail" and not self.separate_rails else 1

    @property
    def leaf_ports_per_server(self) -> int:
        """Ports that a server takes on one leaf of its unit."""
        return self.ports if self.leaf_takes == "rail" else self.ports * self.rails


def rail_only(backend: Backend, server: Server, decisions: Decisions) -> Attachment:
    """Return one leaf per rail; rails meet only inside a server. With ``tiers: 2`` each rail is a leaf-spine fabric."""
    decisions.choose(
        "topology",
        "rail-only",
        "leaf k takes NIC k of every server: each same-rank exchange is one switch hop; traffic between rails stays on the "
        "scale-up network",
    )
    return _split(backend, server.backend, decisions, backend.planes or 1, "rail-only", separate_rails=True)


def rail_optimized(backend: Backend, server: Server, decisions: Decisions) -> Attachment:
    """Return rail groups of one leaf per rail under common spines."""
    decisions.choose(
        "topology",
        "rail-optimized",
        f"units of {server.backend.count} rail leaves under common spines: same-rank traffic of a unit is one hop, all other "
        "traffic takes a spine, and the fabric grows by adding units",
    )
    return _split(backend, server.backend, decisions, backend.planes or 1, "rail-optimized")


def leaf_spine(backend: Backend, server: Server, decisions: Decisions) -> Attachment:
    """Return ToR leaves that take all NICs of a few servers."""
    nics = server.backend.count
    decisions.choose(
        "topology",
        "leaf-spine",
        f"a leaf takes all {nics} NICs of its servers: short cables and any-to-any placement, but a leaf failure cuts its "
        f"servers off{' in one plane' if (backend.planes or 1) > 1 else ''} and same-rank traffic crosses a spine",
    )
    return _split(backend, server.backend, decisions, backend.planes or 1, "leaf-spine", leaf_takes="server")


def multi_plane(backend: Backend, server: Server, decisions: Decisions) -> Attachment:
    """Return rail groups in several planes: ports of a NIC split over them, or (one-port NICs) a plane for each rail."""
    group = server.backend
    planes = backend.planes or (group.ports if group.ports > 1 else group.count)
    if planes < 2:
        raise InputError(
            f"{server.key} has one backend port; it cannot be split over planes (write planes: 2 to break it out, or take "
            "leaf-spine)",
            key="backend.topology",
        )
    if planes == group.count and group.ports == 1:
        decisions.choose(
            "topology",
            "multi-plane",
            f"each of the {planes} rails is a plane with leaves and spines of its own: two tiers reach as far as {planes} "
            "such fabrics; traffic between rails stays on the scale-up network",
        )
        decisions.choose("planes", planes, "one per rail: the NICs have one port each")
        return Attachment("multi-plane", rails=group.count, gbps=group.gbps, separate_rails=True, rail_planes=True)
    decisions.choose(
        "topology",
        "multi-plane",
        f"the ports of each NIC are split over {planes} planes: a leaf failure costs 1/{planes} of one rail, and narrower "
        "ports give each switch a larger radix, so that fewer tiers are needed",
    )
    return _split(backend, group, decisions, planes, "multi-plane")


def _split(
    backend: Backend,
    group: NicGroup,
    decisions: Decisions,
    planes: int,
    topology: str,
    *,
    leaf_takes: Literal["rail", "server"] = "rail",
    separate_rails: bool = False,
) -> Attachment:
    ports, gbps = group.ports, group.gbps
    if ports % planes == 0:
        per_plane = ports // planes
        how = f"{format_gbps(gbps)} ports" if per_plane == 1 else f"{per_plane} ports of {format_gbps(gbps)}"
        why = f"each plane takes {how} of every NIC" if planes > 1 else "not asked for"
    elif planes % ports == 0:
        per_plane = 1
        gbps = gbps * ports / planes
        why = f"each NIC runs as {planes} ports of {format_gbps(gbps)}, one per plane; the adapter must be able to"
    else:
        raise InputError(
            f"{planes} planes cannot share the {ports} ports of a NIC evenly; write {ports} or a multiple of it",
            key="backend.planes",
        )
    decisions.choose("planes", planes, why)
    return Attachment(
        topology,
        rails=group.count,
        gbps=gbps,
        planes=planes,
        ports=per_plane,
        leaf_takes=leaf_takes,
        separate_rails=separate_rails,
    )
