"""What a server must be told: the data that renderers write and readers fill."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostPort:
    """One adapter port. ``rdma`` is its RDMA device, ``traffic_class`` the IP traffic class byte that RoCE is sent with.

    ``dscp`` maps the classes' DSCPs to priorities, ``dcqcn`` lists the priorities with DCQCN on (reaction and notification
    point). ``bond`` is the LACP bond that the port belongs to; addresses and gateway of a bond stand at its first port. None
    means: not said.
    """

    name: str
    rdma: str = ""
    network: str = ""
    peer: str = ""
    gpu: int | None = None
    rail: int | None = None
    plane: int | None = None
    speed_gbps: float = 0
    mtu: int | None = None
    trust: str | None = None
    pfc: tuple[int, ...] | None = None
    dscp: tuple[tuple[int, int], ...] = ()
    traffic_class: int | None = None
    cnp_dscp: int | None = None
    dcqcn: tuple[int, ...] | None = None
    pause: str | None = None
    gid: int | None = None
    addresses: tuple[str, ...] = ()
    gateway: str = ""
    bond: str = ""


@dataclass(frozen=True, slots=True)
class HostView:
    """A server's adapters and the environment of its collectives."""

    name: str
    ports: tuple[HostPort, ...] = ()
    nccl: tuple[tuple[str, str], ...] = ()
