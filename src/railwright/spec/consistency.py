"""Combinations inside one spec that no cluster can have, found without the catalog.

A design that is merely bad (oversubscribed, a single firewall, an odd number of spines) is not here: it plans, and
``railwright check`` says what is wrong with it.
"""

from collections.abc import Iterator
from typing import Literal

from railwright.documents import KeyPath
from railwright.spec.cluster import ClusterSpec, NetworkName
from railwright.units import format_bytes, format_us

Problem = tuple[KeyPath, str]


def contradictions(spec: ClusterSpec) -> Iterator[Problem]:
    """Yield the key path and the message of every contradiction in ``spec``."""
    yield from _transports(spec)
    yield from _marking(spec)
    yield from _pausing(spec)
    yield from _isolation(spec)
    yield from _tiers(spec)
    yield from _converged(spec)
    yield from _same_names(spec)
    yield from _sites(spec)
    yield from _demand(spec)


def _same_names(spec: ClusterSpec) -> Iterator[Problem]:
    for key, entries in (("sites", spec.sites), ("tenants", spec.tenants)):
        names = [entry.name for entry in entries]
        for position, name in enumerate(names):
            if name in names[:position]:
                yield (key, position, "name"), f"two {key} have the same name, {name!r}; give each its own"


def network_protocol(spec: ClusterSpec, network: NetworkName) -> Literal["ethernet", "infiniband"]:
    """Return what the switches of ``network`` have to speak."""
    transports = {"backend": spec.backend.transport, "storage": spec.storage.transport}
    return "infiniband" if transports.get(network) == "infiniband" else "ethernet"


def _transports(spec: ClusterSpec) -> Iterator[Problem]:
    backend = spec.backend
    if backend.transport == "infiniband":
        if backend.congestion not in (None, "credits"):
            yield (
                ("backend", "congestion"),
                f"{backend.congestion!r} is an Ethernet mechanism; InfiniBand is lossless by credits: write credits",
            )
        if backend.load_balancing not in (None, "ecmp", "adaptive"):
            yield (
                ("backend", "load_balancing"),
                f"{backend.load_balancing!r} is an Ethernet mechanism; InfiniBand has ecmp (static) and adaptive",
            )
        if backend.subnet_managers == 0:
            yield ("backend", "subnet_managers"), "InfiniBand does not come up without a subnet manager; at least 1"
    else:
        if backend.congestion == "credits":
            yield (
                ("backend", "congestion"),
                "'credits' is InfiniBand; RoCEv2 has dcqcn+pfc, ecn-only, pfc-only, lossy+spray",
            )
        if backend.subnet_managers:
            yield (
                ("backend", "subnet_managers"),
                "subnet managers belong to InfiniBand; RoCEv2 has none: leave this key out",
            )


def _marking(spec: ClusterSpec) -> Iterator[Problem]:
    backend = spec.backend
    if backend.ecn is None:
        return
    if backend.transport == "infiniband" or backend.congestion == "pfc-only":
        what = "InfiniBand" if backend.transport == "infiniband" else "'pfc-only'"
        yield ("backend", "ecn"), f"{what} marks no packets; leave this key out, or take dcqcn+pfc over RoCEv2"
    if backend.ecn.kmax < backend.ecn.kmin:
        yield (
            ("backend", "ecn", "kmax"),
            f"{format_bytes(backend.ecn.kmax)} is below kmin {format_bytes(backend.ecn.kmin)}; at least kmin",
        )
    if backend.ecn.pmax == 0:
        yield ("backend", "ecn", "pmax"), "0 marks nothing up to kmax; above 0, at most 100%"


def _pausing(spec: ClusterSpec) -> Iterator[Problem]:
    backend = spec.backend
    profile = "credits" if backend.transport == "infiniband" else backend.congestion or "dcqcn+pfc"
    for key, given, does in (
        ("pfc", backend.pfc, ("dcqcn+pfc", "pfc-only")),
        ("dcqcn", backend.dcqcn, ("dcqcn+pfc", "ecn-only")),
    ):
        if given is not None and profile not in does:
            yield ("backend", key), f"{profile!r} has none; leave this key out, or take {' or '.join(does)} over RoCEv2"


def _isolation(spec: ClusterSpec) -> Iterator[Problem]:
    networks: tuple[NetworkName, ...] = ("backend", "frontend", "storage", "management")
    for network in networks:
        isolation = getattr(spec, network).isolation
        if network_protocol(spec, network) == "ethernet" and isolation == "partition":
            yield (
                (network, "isolation"),
                "'partition' is InfiniBand and this network is Ethernet; vrf, vlan or physical",
            )
        if network == "backend" and network_protocol(spec, network) == "infiniband" and isolation in ("vrf", "vlan"):
            yield (
                (network, "isolation"),
                f"{isolation!r} is Ethernet and this network is InfiniBand; partition or physical",
            )


def _tiers(spec: ClusterSpec) -> Iterator[Problem]:
    backend = spec.backend
    if backend.topology == "multi-plane" and backend.planes == 1:
        yield ("backend", "planes"), "multi-plane needs at least 2 planes"
    if backend.tiers == 1 and backend.counts.spines:
        yield ("backend", "counts", "spines"), f"one tier has no spines, {backend.counts.spines} are asked for"
    if backend.tiers in (2, 3) and backend.counts.spines == 0:
        yield ("backend", "counts", "spines"), f"{backend.tiers} tiers need spines, 0 are asked for"
    if backend.tiers in (1, 2) and backend.counts.cores:
        yield ("backend", "counts", "cores"), f"cores need 3 tiers, this backend has {backend.tiers}"


def _converged(spec: ClusterSpec) -> Iterator[Problem]:
    for position, network in enumerate(spec.converge):
        if network != "backend" and not getattr(spec, network).enabled:
            yield ("converge", position), f"{network!r} is not planned (enabled: false), it cannot share a fabric"
    protocols = {network: network_protocol(spec, network) for network in spec.converge}
    if len(set(protocols.values())) > 1:
        each = ", ".join(f"{network} {protocol}" for network, protocol in protocols.items())
        yield ("converge",), f"these networks cannot share switches: {each}"


def _sites(spec: ClusterSpec) -> Iterator[Problem]:
    if spec.sites[0].distance:
        yield ("sites", 0, "distance"), "the first site is where distances start; leave this key out"
    if not any(site.backend for site in spec.sites):
        yield ("sites",), "no site has GPU servers; set backend: true at one"
    shares = [site.share for site in spec.sites]
    given = sum(share for share in shares if share is not None)
    if given > 1 + 1e-9:
        yield ("sites",), f"the shares add up to {given:.4g}, more than the whole (1)"
    elif None not in shares and given < 1 - 1e-9:
        yield ("sites",), f"the shares add up to {given:.4g}; give the rest to a site or leave one share out"


def _demand(spec: ClusterSpec) -> Iterator[Problem]:
    demand = spec.demand
    for key, network in (
        ("requests", "frontend"),
        ("ingest", "frontend"),
        ("dataset_read", "storage"),
        ("checkpoint", "storage"),
    ):
        if getattr(demand, key) is not None and not getattr(spec, network).enabled:
            yield ("demand", key), f"needs the {network} network, which is not planned (enabled: false)"
    if demand.checkpoint_time > demand.checkpoint_interval:
        yield (
            ("demand", "checkpoint_time"),
            f"{format_us(demand.checkpoint_time)} is longer than the {format_us(demand.checkpoint_interval)} "
            "from one checkpoint to the next",
        )
