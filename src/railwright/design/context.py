"""What every step of the design needs: the spec, the catalog, the server as resolved, the wiring under construction and
the choices made so far. One context per design; only ``wiring`` and ``decisions`` grow.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.catalog.load import Catalog
from railwright.catalog.model import NicGroup, Protocol, Server
from railwright.design.wiring import Decisions, Ids, Wiring
from railwright.errors import InputError
from railwright.spec.cluster import ClusterSpec, NetworkName

NETWORKS: tuple[NetworkName, ...] = ("backend", "frontend", "storage", "management")


def _fresh_decisions() -> dict[NetworkName, Decisions]:
    return {name: Decisions() for name in NETWORKS}


@dataclass(frozen=True)
class Context:
    """The inputs of one design.

    ``server`` is the catalog's server with the spec's overrides. ``servers`` and ``gpus`` are the sizes to build,
    ``reserved_servers`` (>= ``servers``) the size that switches must later grow to without moving a cable
    (``growth.gpus``). ``server_ids`` (uint32) are the device ids of the servers in order; ``server_site`` (int64) is the
    index of each one's site in ``spec.sites``. Server ``i`` has the global GPU ids ``i * server.gpus`` and up.
    """

    spec: ClusterSpec
    catalog: Catalog
    server: Server
    servers: int
    reserved_servers: int
    server_ids: Ids
    server_site: NDArray[np.int64]
    wiring: Wiring
    decisions: Mapping[NetworkName, Decisions] = field(default_factory=_fresh_decisions)

    @property
    def gpus(self) -> int:
        """GPUs to build."""
        return self.servers * self.server.gpus

    def site_names(self, site: NDArray[np.int64]) -> pl.Series:
        """Return the name of each site index."""
        return pl.Series("site", [entry.name for entry in self.spec.sites], dtype=pl.String).gather(site)


def resolve_server(spec: ClusterSpec, catalog: Catalog) -> Server:
    """Return the catalog's server with the ``cluster.*_per_server`` and ``nic_gbps`` keys of the spec applied.

    The backend ports are the logical ones of the spec's transport: an adapter of 800G that offers Ethernet at 400G shows two
    ports. Raises InputError when the adapter cannot run the transport.
    """
    wanted = spec.cluster
    server = catalog.server(wanted.server, where="cluster.server")
    gpus = wanted.gpus_per_server or server.gpus
    whole_domain = server.scale_up_gpus == server.gpus
    return server.model_copy(
        update={
            "gpus": gpus,
            "scale_up_gpus": gpus if whole_domain else server.scale_up_gpus,
            "backend": _backend_ports(spec, catalog, server),
        }
    )


def _backend_ports(spec: ClusterSpec, catalog: Catalog, server: Server) -> NicGroup:
    wanted = spec.cluster
    group = server.backend
    gbps = wanted.nic_gbps or group.gbps
    ports, per_cage = group.ports, group.ports_per_cage
    nic = catalog.nic(group.nic, where=f"servers.{server.key}.backend.nic")
    protocol: Protocol = "infiniband" if spec.backend.transport == "infiniband" else "ethernet"
    _, rate = nic.logical_ports(protocol)
    if not rate:
        raise InputError(
            f"the adapters of {server.key} ({nic.name}) run {' and '.join(sorted(nic.port_gbps))} only, not {protocol}",
            key="backend.transport",
        )
    if wanted.nic_gbps is None and rate < gbps:
        split = round(gbps / rate)
        gbps, ports, per_cage = rate, ports * split, per_cage * split
    return group.model_copy(
        update={
            "count": wanted.nics_per_server or group.count,
            "ports": ports,
            "gbps": gbps,
            "ports_per_cage": per_cage,
        }
    )


def count_servers(spec: ClusterSpec, server: Server) -> tuple[int, int]:
    """Return the servers to build and the servers to reserve ports for; raises InputError when GPUs do not fill servers."""
    cluster = spec.cluster
    servers = cluster.servers or _whole_servers(cluster.gpus or 0, server, "cluster.gpus")
    reserved = servers
    if spec.growth is not None:
        reserved = _whole_servers(spec.growth.gpus, server, "growth.gpus")
        if reserved < servers:
            raise InputError(
                f"{spec.growth.gpus} is less than the {servers * server.gpus} GPUs of the cluster; "
                "it is the total to reserve room for",
                key="growth.gpus",
            )
    return servers, reserved


def start_context(spec: ClusterSpec, catalog: Catalog) -> Context:
    """Return a context whose wiring has the servers and nothing else.

    Servers stand in equal blocks at the sites that carry the backend, counted over the size that is reserved.
    """
    server = resolve_server(spec, catalog)
    servers, reserved = count_servers(spec, server)
    wiring = Wiring()
    site = _server_sites(spec, servers, reserved)
    context = Context(
        spec=spec,
        catalog=catalog,
        server=server,
        servers=servers,
        reserved_servers=reserved,
        server_ids=np.arange(servers, dtype=np.uint32),
        server_site=site,
        wiring=wiring,
    )
    wiring.add_devices(
        numbered("server-{}", servers, width=4),
        role="server",
        network=None,
        site=context.site_names(site),
        model=server.key,
        power_w=server.power_max_w,
    )
    return context


def numbered(pattern: str, count: int, *, first: int = 1, width: int = 1) -> pl.Series:
    """Return ``count`` names: ``{}`` of ``pattern`` replaced by numbers from ``first``, zero-padded to ``width`` digits."""
    number = pl.int_range(first, first + count, eager=True).cast(pl.String).str.zfill(width)
    return pl.select(pl.format(pattern, number)).to_series().alias("name")


def _whole_servers(gpus: int, server: Server, key: str) -> int:
    servers, rest = divmod(gpus, server.gpus)
    if rest:
        right = f"{(servers + 1) * server.gpus}"
        if servers:
            right = f"{servers * server.gpus} or {right}"
        raise InputError(
            f"{gpus} GPUs do not fill whole servers of {server.gpus} ({server.key}); write {right}", key=key
        )
    return servers


def _server_sites(spec: ClusterSpec, servers: int, reserved: int) -> NDArray[np.int64]:
    carrying = np.array([index for index, site in enumerate(spec.sites) if site.backend], dtype=np.int64)
    if not len(carrying):
        raise InputError("no site carries the backend; set backend: true at one", key="sites")
    return carrying[np.arange(servers) * len(carrying) // reserved]
