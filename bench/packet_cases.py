"""Networks and traffic of the packet benchmarks: leaf-spine fabrics, all-to-all and permutation."""

import numpy as np
import polars as pl

from railwright.simulate.network import HOST, SWITCH, Network

LINK_GBPS = 400.0
CABLE_DELAY_NS = 100.0
SWITCH_LATENCY_NS = 500.0


def leaf_spine(
    hosts: int, hosts_per_leaf: int, *, gbps: float = LINK_GBPS, delay_ns: float = CABLE_DELAY_NS
) -> Network:
    """Return a full-bisection leaf-spine: as many spines as a leaf has hosts, one cable from every leaf to every spine."""
    leaves, spines = hosts // hosts_per_leaf, hosts_per_leaf
    host, leaf = np.arange(hosts), hosts + np.arange(leaves)
    a = np.concatenate([host, np.repeat(leaf, spines)])
    b = np.concatenate([hosts + host // hosts_per_leaf, np.tile(hosts + leaves + np.arange(spines), leaves)])
    nodes = hosts + leaves + spines
    kind = np.where(np.arange(nodes) < hosts, HOST, SWITCH).astype(np.uint8)
    links = 2 * a.size
    return Network(
        node_name=pl.Series([f"n{i}" for i in range(nodes)]),
        node_kind=kind,
        node_buffer_bytes=np.zeros(nodes),
        node_latency_ns=np.where(kind == SWITCH, SWITCH_LATENCY_NS, 0.0),
        link_src=np.column_stack([a, b]).ravel().astype(np.int32),
        link_dst=np.column_stack([b, a]).ravel().astype(np.int32),
        link_gbps=np.full(links, gbps),
        link_delay_ns=np.full(links, delay_ns),
        link_id=np.arange(a.size, dtype=np.uint32),
    )


def sends(src: np.ndarray, dst: np.ndarray, size_bytes: float) -> pl.DataFrame:
    """Return a traffic table of independent sends that all start at 0."""
    return pl.DataFrame(
        {
            "op_id": np.arange(src.size, dtype=np.uint32),
            "src": src.astype(np.uint32),
            "dst": dst.astype(np.uint32),
        }
    ).with_columns(
        job=pl.lit("bench"),
        kind=pl.lit("send"),
        direction=pl.lit("east_west"),
        bytes=pl.lit(float(size_bytes)),
        duration_us=pl.lit(0.0),
        start_us=pl.lit(0.0),
        repeat=pl.lit(1),
        **{"class": pl.lit("data")},
    )


def all_to_all(hosts: int, size_bytes: float) -> pl.DataFrame:
    """Return one send for every ordered pair, in the rotated order that collectives use (shift 1 first)."""
    shift, src = np.divmod(np.arange(hosts * (hosts - 1)), hosts)
    return sends(src, (src + shift + 1) % hosts, size_bytes)


def permutation(hosts: int, hosts_per_leaf: int, size_bytes: float, seed: int = 1) -> pl.DataFrame:
    """Return one send per host to a host of another leaf, every host receiving one."""
    order = np.random.default_rng(seed).permutation(hosts)
    src = np.arange(hosts)
    dst = np.empty(hosts, np.int64)
    dst[order] = np.roll(order, 1)
    near = np.flatnonzero(dst // hosts_per_leaf == src // hosts_per_leaf)
    for host in near:  # swap with a host that makes both partners far
        far = next(
            int(other)
            for other in src
            if dst[other] // hosts_per_leaf != host // hosts_per_leaf
            and dst[host] // hosts_per_leaf != other // hosts_per_leaf
        )
        dst[[host, far]] = dst[[far, host]]
    return sends(src, dst, size_bytes)
