"""A server's interfaces as its network manager sees them: ports, bonds, addresses, and the routing table of every rail."""

from collections.abc import Sequence
from dataclasses import dataclass

from railwright.build.host_model import HostPort

FIRST_TABLE = 101
FIRST_METRIC = 100


@dataclass(frozen=True, slots=True)
class Interface:
    """A port or a bond of ``members``; ``bond`` is the bond that a port belongs to.

    ``table`` is the routing table of a rail or storage port, whose replies leave where requests came in; other gateways are
    default routes with ``metric``.
    """

    name: str
    mtu: int | None
    members: tuple[str, ...] = ()
    bond: str = ""
    addresses: tuple[str, ...] = ()
    gateway: str = ""
    table: int | None = None
    metric: int | None = None

    @property
    def source(self) -> str:
        """The first address without its prefix length."""
        return self.addresses[0].partition("/")[0] if self.addresses else ""

    @property
    def everywhere(self) -> str:
        """The default prefix of the gateway's family."""
        return "::/0" if ":" in self.gateway else "0.0.0.0/0"


def interfaces(ports: Sequence[HostPort]) -> list[Interface]:
    """Return the interfaces of Ethernet ``ports`` in order, bonds last; a bond has the addresses of its first member."""
    shown = [port for port in ports if port.network != "infiniband"]
    bonds: dict[str, list[HostPort]] = {}
    found = []
    for index, port in enumerate(shown):
        if port.bond:
            bonds.setdefault(port.bond, []).append(port)
            found.append(Interface(port.name, port.mtu, bond=port.bond))
        else:
            found.append(_addressed(port.name, port, (), index))
    for index, (name, members) in enumerate(bonds.items(), start=len(shown)):
        owner = next((port for port in members if port.addresses), members[0])
        found.append(_addressed(name, owner, tuple(port.name for port in members), index))
    return found


def _addressed(name: str, owner: HostPort, members: tuple[str, ...], index: int) -> Interface:
    gateway = owner.gateway if owner.addresses else ""
    own_table = bool(gateway) and owner.network in ("backend", "storage")
    return Interface(
        name,
        owner.mtu,
        members,
        addresses=owner.addresses,
        gateway=gateway,
        table=FIRST_TABLE + index if own_table else None,
        metric=FIRST_METRIC + index if gateway and not own_table else None,
    )
