"""The first spec of a user: the template ``data/init.yaml`` filled in so that it plans without edits.

The template explains every section. Whole servers are rounded up, the server is the first in the catalog that has the GPU
and whose NICs speak the transport, racks bear, in whole kilowatts, what a factory-built rack draws.
"""

from importlib.resources import files
from string import Template
from typing import get_args

from railwright.catalog.load import Catalog, load_catalog
from railwright.catalog.model import NicGroup, Server
from railwright.errors import InputError, nearest
from railwright.spec.cluster import Backend, Transport
from railwright.units import write_bytes, write_bytes_per_s, write_gbps, write_w

_TOPOLOGIES: tuple[str, ...] = get_args(Backend.model_fields["topology"].annotation)
_TRANSPORTS: tuple[str, ...] = get_args(Transport)
_PROTOCOL = {"rocev2": "ethernet", "infiniband": "infiniband"}
_USUAL_SWITCH = {"rocev2": "sn5600", "infiniband": "qm9700"}
_RACK_W = 44000.0

# What the commented-out figures of `demand` start from, per GPU: a guess to overwrite, not a sizing rule.
_READ_PER_GPU = 0.5e9
_CHECKPOINT_PER_GPU = 1e9


class _Template(Template):
    delimiter = "@"


def initial_spec(
    gpus: int, gpu: str, transport: str = "rocev2", topology: str = "auto", catalog: Catalog | None = None
) -> str:
    """Return the text of a commented spec of at least ``gpus`` GPUs of the catalog key ``gpu`` (or of a server's key).

    Raises InputError for a size below 1, an unknown GPU, transport or topology, and a GPU whose servers do not speak the
    transport.
    """
    known = catalog or load_catalog()
    _one_of("transport", transport, _TRANSPORTS)
    _one_of("topology", topology, _TOPOLOGIES)
    if not 1 <= gpus < 2**31:
        raise InputError(f"{gpus} GPUs are no cluster; at least 1", key="gpus")
    server = _server(known, gpu.lower(), transport)
    servers = -(-gpus // server.gpus)
    whole = servers * server.gpus
    infiniband_storage = transport == "infiniband" and _speaks(known, server.storage, transport)
    trays = server.rack.servers if server.rack else 1
    drawn = -(-trays * server.power_max_w // 1000) * 1000
    rack_power = max(_RACK_W, drawn, server.rack.power_w if server.rack else 0.0)
    return _Template(files("railwright.spec").joinpath("data/init.yaml").read_text(encoding="utf-8")).substitute(
        name=f"{server.gpu}-{whole}",
        gpus=whole,
        rounded="" if whole == gpus else f"  # {gpus} asked for, in whole servers of {server.gpus}",
        server=server.key,
        nic_gbps=write_gbps(server.backend.gbps),
        nics=server.backend.count,
        topology=topology,
        why=f"  # or {', '.join(other for other in _TOPOLOGIES if other != topology)}",
        transport=transport,
        switch=_switch_line(known, server, servers, transport),
        storage_transport="infiniband" if infiniband_storage else "rocev2",
        storage_isolation="partition" if infiniband_storage else "vrf",
        converge="# converge: [frontend, storage]" if server.storage else "converge: [frontend, storage]",
        rack_power=write_w(rack_power),
        some_servers=max(1, servers // 4),
        dataset_read=write_bytes_per_s(whole * _READ_PER_GPU),
        checkpoint=write_bytes(whole * _CHECKPOINT_PER_GPU),
        tensor_parallel=server.gpus,
        growth=2 * whole,
    )


def _one_of(key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(f"{value!r} is not allowed; one of {', '.join(allowed)}{nearest(value, allowed)}", key=key)


def _server(catalog: Catalog, gpu: str, transport: str) -> Server:
    """Return the first server with ``gpu`` (or of that key) whose backend NICs speak ``transport``."""
    if gpu in catalog.servers:
        candidates = [catalog.servers[gpu]]
    else:
        catalog.gpu(gpu, where="gpu")
        candidates = [server for server in catalog.servers.values() if server.gpu == gpu]
    if not candidates:
        raise InputError(
            f"the catalog has no server with {gpu!r}; add one in a file of your own (catalog: mine.yaml)", key="gpu"
        )
    fitting = next((server for server in candidates if _speaks(catalog, server.backend, transport)), None)
    if fitting is None:
        servers = ", ".join(server.key for server in candidates)
        other = next(name for name in _TRANSPORTS if name != transport)
        raise InputError(f"the NICs of {servers} do not speak {transport}; write {other}", key="transport")
    return fitting


def _switch_line(catalog: Catalog, server: Server, servers: int, transport: str) -> str:
    """Return the ``switch`` key: a comment, or set where three tiers of the usual switch (k³/4 ports) are too small."""
    usual = catalog.switches[_USUAL_SWITCH[transport]]
    ports = servers * server.backend.count
    gbps = catalog.nics[server.backend.nic].logical_ports(usual.protocol)[1]
    reach = usual.ports_at(gbps) ** 3 // 4
    larger = [
        switch
        for switch in catalog.switches.values()
        if switch.protocol == usual.protocol and switch.ports_at(gbps) ** 3 // 4 >= ports
    ]
    if not reach or ports <= reach or not larger:
        return (
            f"# switch: {usual.key}        # of all tiers (or leaf_switch, spine_switch, core_switch); left out, chosen"
        )
    chosen = min(larger, key=lambda switch: switch.ports_at(gbps))
    return f"switch: {chosen.key}         # {usual.ports_at(gbps)}-port switches end at {reach:,} ports in three tiers"


def _speaks(catalog: Catalog, group: NicGroup | None, transport: str) -> bool:
    return group is not None and _PROTOCOL[transport] in catalog.nics[group.nic].port_gbps
