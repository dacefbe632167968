"""What a spec says about things in the catalog: that they exist, fit the network they are for and fit the cluster's size."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from railwright.catalog.load import KINDS, Catalog
from railwright.catalog.model import NicGroup, Server, Switch
from railwright.documents import Document, dotted
from railwright.errors import InputError, nearest
from railwright.spec.cluster import ClusterSpec, NetworkName
from railwright.spec.consistency import Problem, network_protocol
from railwright.units import write_gbps

_SWITCH_KEYS: Mapping[NetworkName, tuple[str, ...]] = {
    "backend": ("switch", "leaf_switch", "spine_switch", "core_switch"),
    "frontend": ("leaf_switch", "spine_switch"),
    "storage": ("leaf_switch", "spine_switch"),
    "management": ("oob_switch", "aggregation_switch"),
}
_OOB_GBPS = 1.0


def check_references(spec: ClusterSpec, catalog: Catalog, document: Document | None = None) -> list[InputError]:
    """Return an error for everything in ``spec`` that does not fit ``catalog``; ``document`` gives them their lines."""
    problems = [*_switches(spec, catalog), *_prices(spec, catalog), *_parts(spec, catalog)]
    key = spec.cluster.server
    if key in catalog.servers:
        server = catalog.servers[key]
        problems += [*_rates(spec, catalog, server), *_sizes(spec, server)]
    else:
        problems.append((("cluster", "server"), _unknown(key, catalog, "servers")))
    return [
        document.error(path, message) if document else InputError(message, key=dotted(path))
        for path, message in problems
    ]


def _unknown(key: str, catalog: Catalog, kind: str) -> str:
    return f"the catalog has no {key!r} among its {kind}{nearest(key, catalog.kind(kind))}; see: railwright catalog list {kind}"


def _switches(spec: ClusterSpec, catalog: Catalog) -> Iterator[Problem]:
    for network, keys in _SWITCH_KEYS.items():
        protocol = network_protocol(spec, network)
        for name in keys:
            key = getattr(getattr(spec, network), name)
            if key is None:
                continue
            if key not in catalog.switches:
                yield (network, name), _unknown(key, catalog, "switches")
            elif catalog.switches[key].protocol != protocol:
                fitting = [other for other in catalog.switches if catalog.switches[other].protocol == protocol]
                yield (
                    (network, name),
                    f"{key!r} is an {_name(catalog.switches[key].protocol)} switch and the {network} network is "
                    f"{_name(protocol)}; one of {', '.join(fitting)}",
                )


def _name(protocol: str) -> str:
    return "InfiniBand" if protocol == "infiniband" else "Ethernet"


def _prices(spec: ClusterSpec, catalog: Catalog) -> Iterator[Problem]:
    known = [key for kind in KINDS for key in catalog.kind(kind)]
    for key in spec.economics.prices:
        if key not in known:
            yield (
                ("economics", "prices", key),
                f"the catalog has no {key!r}{nearest(key, known)}; see: railwright catalog list",
            )


def _parts(spec: ClusterSpec, catalog: Catalog) -> Iterator[Problem]:
    """Yield the parts of ``cabling`` that do not exist."""
    for position, part in enumerate(spec.cabling.parts):
        for name, key in (("a", part.a), ("b", part.b)):
            if key is not None and key not in catalog.optics:
                yield ("cabling", "parts", position, name), _unknown(key, catalog, "optics")
        cable = part.cable
        known = catalog.cables if part.a is None else catalog.fibre_cables
        if cable in catalog.fibre_cables and cable not in known:
            yield (
                ("cabling", "parts", position, "cable"),
                f"{cable!r} is a fibre cord; name the modules at its ends too (a: and b:), or a cable with fixed ends",
            )
        elif cable is not None and cable not in known:
            yield (
                ("cabling", "parts", position, "cable"),
                _unknown(cable, catalog, "cables" if part.a is None else "fibre_cables"),
            )
    if spec.cabling.trunk_polarity not in catalog.polarities:
        yield ("cabling", "trunk_polarity"), _unknown(spec.cabling.trunk_polarity, catalog, "polarities")


def _rates(spec: ClusterSpec, catalog: Catalog, server: Server) -> Iterator[Problem]:
    """Yield ports of servers that meet a switch which does not have their rate, or that do not speak the protocol."""
    backend = spec.backend
    leaf_key = "leaf_switch" if backend.leaf_switch else "switch"
    leaf = backend.leaf_switch or backend.switch
    nic_rates = _backend_rates(spec, catalog, server.backend)
    uplink_rates = [backend.uplink_gbps] if backend.uplink_gbps else nic_rates
    yield from _spoken(spec, catalog, "backend", server)
    yield from _offered(catalog, ("backend", leaf_key), leaf, nic_rates, "the NICs")
    yield from _offered(catalog, ("backend", "spine_switch"), backend.spine_switch, uplink_rates, "the uplinks")
    yield from _offered(catalog, ("backend", "core_switch"), backend.core_switch, uplink_rates, "the uplinks")
    if backend.uplink_gbps:
        yield from _offered(catalog, ("backend", "uplink_gbps"), leaf, uplink_rates, "the uplinks")
    frontend, storage, oob = spec.frontend.leaf_switch, spec.storage.leaf_switch, spec.management.oob_switch
    yield from _offered(catalog, ("frontend", "leaf_switch"), frontend, _group_rates(server.frontend), "the servers")
    if server.storage is not None:
        yield from _spoken(spec, catalog, "storage", server)
        yield from _offered(catalog, ("storage", "leaf_switch"), storage, _group_rates(server.storage), "the servers")
    yield from _offered(catalog, ("management", "oob_switch"), oob, [_OOB_GBPS], "BMCs and PDUs")


def _spoken(
    spec: ClusterSpec, catalog: Catalog, network: Literal["backend", "storage"], server: Server
) -> Iterator[Problem]:
    """Yield a problem when the NICs of ``server`` for ``network`` do not speak its protocol."""
    group: NicGroup | None = getattr(server, network)
    nic = catalog.nics.get(group.nic) if group else None
    protocol = network_protocol(spec, network)
    if nic is not None and protocol not in nic.port_gbps:
        speaks = " and ".join(_name(other) for other in nic.port_gbps)
        yield (network, "transport"), f"{nic.name} in {server.key!r} speaks {speaks}, not {_name(protocol)}"


def _group_rates(group: NicGroup) -> list[float]:
    return [group.gbps, *group.lower_gbps]


def _backend_rates(spec: ClusterSpec, catalog: Catalog, group: NicGroup) -> list[float]:
    """Return the rates at which a backend NIC port may come: as it is, as Ethernet shows it, or split over planes."""
    whole = spec.cluster.nic_gbps
    nic = catalog.nics.get(group.nic)
    logical = nic.logical_ports(network_protocol(spec, "backend"))[1] if nic else 0.0
    rates = [whole, whole / group.ports] if whole else [*_group_rates(group), logical]
    planes = spec.backend.planes or (2 if spec.backend.topology == "multi-plane" else 1)
    return [rate for rate in (*rates, *(rate / planes for rate in rates)) if rate]


def _offered(
    catalog: Catalog, path: tuple[str, str], key: str | None, rates: Iterable[float], what: str
) -> Iterator[Problem]:
    """Yield a problem when the switch ``key`` has none of ``rates``; one that does not exist is reported elsewhere."""
    if key is None or key not in catalog.switches:
        return
    offers = _switch_rates(catalog.switches[key])
    wanted = sorted(set(rates), reverse=True)
    if not offers & set(wanted):
        yield (
            path,
            f"{key!r} has no port for {what} ({' or '.join(map(write_gbps, wanted))}); "
            f"it offers {', '.join(map(write_gbps, sorted(offers)))}",
        )


def _switch_rates(switch: Switch) -> set[float]:
    return {
        float(mode.split("x")[1]) for cages in switch.cages if cages.purpose != "management" for mode in cages.breakouts
    }


def _sizes(spec: ClusterSpec, server: Server) -> Iterator[Problem]:
    """Yield parts that are larger than the whole, and wholes that do not come out."""
    cluster = spec.cluster
    per_server = cluster.gpus_per_server or server.gpus
    for path, gpus in (
        (("cluster", "gpus"), cluster.gpus),
        (("growth", "gpus"), spec.growth.gpus if spec.growth else None),
    ):
        if gpus is not None and gpus % per_server:
            whole = gpus // per_server * per_server
            better = f"{whole} or {whole + per_server}" if whole else f"{per_server}"
            yield path, f"{gpus} GPUs do not fill whole servers of {per_server} ({server.key}); write {better}"
    gpus = cluster.gpus or (cluster.servers or 0) * per_server
    servers = gpus // per_server
    if spec.growth and spec.growth.gpus < gpus:
        yield (
            ("growth", "gpus"),
            f"{spec.growth.gpus} is less than the {gpus} GPUs to start with; it is the total to reserve for",
        )
    wanted = sum(tenant.servers for tenant in spec.tenants)
    if wanted > servers:
        yield ("tenants",), f"the tenants have {wanted} servers together, the cluster has {servers}"
    yield from _parallelism(spec, gpus)
    height = server.rack.ru if server.rack else server.ru
    for position, site in enumerate(spec.sites):
        if site.backend and height > site.racks.height_ru:
            yield (
                ("sites", position, "racks", "height_ru"),
                f"{server.key!r} is {height} RU high, a rack of {site.racks.height_ru} RU cannot hold one",
            )


def _parallelism(spec: ClusterSpec, gpus: int) -> Iterator[Problem]:
    workload = spec.workload
    if workload is None:
        return
    parts = {
        name: getattr(workload, name)
        for name in ("tensor_parallel", "pipeline_parallel", "data_parallel")
        if getattr(workload, name) is not None
    }
    product = math.prod(parts.values())
    shown = " x ".join(f"{name} {value}" for name, value in parts.items())
    if len(parts) == 3 and product != gpus:
        yield ("workload",), f"{shown} = {product} GPUs, the cluster has {gpus}"
    elif gpus % product:
        yield ("workload",), f"{shown} = {product}, which does not divide the {gpus} GPUs of the cluster"
    elif workload.expert_parallel and gpus % workload.expert_parallel:
        yield (
            ("workload", "expert_parallel"),
            f"{workload.expert_parallel} does not divide the {gpus} GPUs of the cluster",
        )
