"""In-network reduction (SHARP-like): an aggregation tree over the switches, as a network and a traffic table.

Every switch of the tree gets an aggregation engine: an endpoint joined to it by a link as fast as all its ports together.
An all-reduce goes up piece by piece (an engine sends a piece on when the pieces of all its inputs are there) and the
result comes down the same tree. ``buffers`` pieces are under way per tree at once: the aggregation contexts of a switch.

Known errors: an engine's own switch is crossed twice (its latency stands for the reduction), switches of the tree forward
store-and-forward, and the result comes down as one copy per port, not as multicast inside the switch.
"""

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.errors import InputError
from railwright.simulate.network import HOST, SWITCH, Network
from railwright.tables import conform

MOST_ROWS = 5_000_000


@dataclass(frozen=True)
class AggregationTree:
    """``parent``: switch number (of the network without engines) → its parent, the root → itself; ``leaf_of``: per host."""

    root: int
    parent: dict[int, int]
    leaf_of: dict[int, int]


def _neighbours(network: Network) -> dict[int, list[int]]:
    both = (network.node_kind[network.link_src] == SWITCH) & (network.node_kind[network.link_dst] == SWITCH)
    pairs = np.unique(np.column_stack([network.link_src[both], network.link_dst[both]]), axis=0)
    found: dict[int, list[int]] = {}
    for a, b in pairs.tolist():
        found.setdefault(a, []).append(b)
    return found


def _tree_from(root: int, near: dict[int, list[int]]) -> tuple[dict[int, int], dict[int, int]]:
    parent, depth, queue = {root: root}, {root: 0}, [root]
    for node in queue:
        for other in near.get(node, []):
            if other not in parent:
                parent[other], depth[other] = node, depth[node] + 1
                queue.append(other)
    return parent, depth


def aggregation_tree(network: Network, hosts: NDArray[np.integer]) -> AggregationTree:
    """Return the flattest tree over the switches of ``hosts`` (the lowest number among equal roots); raises InputError."""
    leaf_of: dict[int, int] = {}
    for host in np.asarray(hosts).tolist():
        leaves = network.link_dst[(network.link_src == host) & (network.node_kind[network.link_dst] == SWITCH)]
        if network.node_kind[host] != HOST or not leaves.size:
            raise InputError(f"node {network.node_name[host]} is not a host below a switch", key="hosts")
        leaf_of[host] = int(leaves.min())
    near = _neighbours(network)
    leaves = sorted(set(leaf_of.values()))
    best: tuple[int, int] | None = None
    distance = [_tree_from(leaf, near)[1] for leaf in leaves]
    for root in range(network.node_kind.size):
        if network.node_kind[root] == SWITCH and all(root in depth for depth in distance):
            worst = max(depth[root] for depth in distance)
            best = min(best, (worst, root)) if best else (worst, root)
    if best is None:
        raise InputError("no switch is joined to the switches of all hosts: there is no tree", key="hosts")
    everywhere, _ = _tree_from(best[1], near)
    parent = {}
    for leaf in leaves:
        node = leaf
        while node not in parent:
            parent[node] = everywhere[node]
            node = everywhere[node]
    return AggregationTree(best[1], parent, leaf_of)


def reduce_in_network(
    network: Network, hosts: NDArray[np.integer], size_bytes: float, *, piece_bytes: float = 16384.0, buffers: int = 16
) -> tuple[Network, pl.DataFrame]:
    """Return (network with engines, traffic) of an all-reduce of ``size_bytes`` per host. Raises InputError.

    Hosts keep their numbers; the engines are the endpoints behind them, switches move up by their count.
    """
    if not size_bytes > 0 or not piece_bytes > 0 or buffers < 1:
        raise InputError("size_bytes, piece_bytes and buffers of a reduction must be positive")
    tree = aggregation_tree(network, hosts)
    switches = sorted(tree.parent)
    first = network.hosts
    engine = {switch: first + i for i, switch in enumerate(switches)}
    up = [(host, engine[leaf]) for host, leaf in tree.leaf_of.items()]
    up += [(engine[switch], engine[above]) for switch, above in tree.parent.items() if above != switch]
    edges = [*up, *((b, a) for a, b in up)]
    inputs: dict[int, list[int]] = {}
    for row, (_, target) in enumerate(up):
        inputs.setdefault(target, []).append(row)
    came_down = {target: len(up) + row for row, (target, _) in enumerate(up)}
    root = engine[tree.root]
    after = [inputs.get(source, []) for source, _ in up]
    after += [inputs[root] if source == root else [came_down[source]] for source, _ in edges[len(up) :]]
    pieces = max(1, int(np.ceil(size_bytes / piece_bytes)))
    if pieces * len(edges) > MOST_ROWS:
        raise InputError(
            f"{pieces:,} pieces over {len(edges):,} edges are too many operations; give larger pieces or less data",
            key="piece_bytes",
        )
    first_op = np.arange(pieces) * len(edges)
    waits = [first_op[:, None] + np.asarray(rows, np.int64) for rows in after]
    columns = [pl.Series(of.astype(np.uint32)).arr.to_list() if of.shape[1] else None for of in waits]
    for row in range(len(tree.leaf_of)):  # a host has `buffers` pieces under way: the next one waits for a result
        done = (first_op + len(up) + row - buffers * len(edges)).tolist()
        columns[row] = pl.Series([[op] if op >= 0 else [] for op in done], dtype=pl.List(pl.UInt32))
    traffic = pl.concat(
        pl.DataFrame(
            {
                "op_id": first_op + row,
                "src": np.full(pieces, source),
                "dst": np.full(pieces, target),
                "after": pl.Series([[]] * pieces, dtype=pl.List(pl.UInt32)) if columns[row] is None else columns[row],
            }
        )
        for row, (source, target) in enumerate(edges)
    ).with_columns(
        kind=pl.lit("send"),
        job=pl.lit("in-network"),
        direction=pl.lit("east_west"),
        bytes=pl.lit(size_bytes / pieces),
        repeat=pl.lit(1),
        duration_us=pl.lit(0.0),
        start_us=pl.lit(0.0),
        **{"class": pl.lit("data")},
    )
    return _with_engines(network, switches), conform("traffic", traffic)


def _with_engines(network: Network, switches: list[int]) -> Network:
    first, count = network.hosts, len(switches)
    shift = np.arange(network.node_kind.size) + count * (np.arange(network.node_kind.size) >= first)

    def insert(values: NDArray[np.generic], fill: float) -> NDArray[np.generic]:
        return np.insert(values, np.full(count, first), np.asarray(fill, values.dtype))

    engines = np.arange(first, first + count)
    boxes = shift[np.asarray(switches)]
    ports = np.bincount(network.link_src, network.link_gbps, network.node_kind.size)[switches]
    names = network.node_name.to_list()
    ids = int(network.link_id.max()) + 1 + np.arange(count)
    return replace(
        network,
        node_name=pl.Series([*names[:first], *(f"{names[s]}:reduce" for s in switches), *names[first:]]),
        node_kind=insert(network.node_kind, HOST).astype(np.uint8),
        node_buffer_bytes=insert(network.node_buffer_bytes, 0.0).astype(np.float64),
        node_latency_ns=insert(network.node_latency_ns, 0.0).astype(np.float64),
        link_src=np.concatenate([shift[network.link_src], np.column_stack([engines, boxes]).ravel()]).astype(np.int32),
        link_dst=np.concatenate([shift[network.link_dst], np.column_stack([boxes, engines]).ravel()]).astype(np.int32),
        link_gbps=np.concatenate([network.link_gbps, np.repeat(ports, 2)]),
        link_delay_ns=np.concatenate([network.link_delay_ns, np.zeros(2 * count)]),
        link_id=np.concatenate([network.link_id, ids]).astype(np.uint32),
    )
