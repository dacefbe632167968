"""Trees: NCCL's double binary tree over domains with a chain inside each, chains for broadcast, and their pipelined rows.

The two trees are those of Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
2009: a rank that is inside one tree is a leaf of the other, so that together they load every port evenly.
"""

import numpy as np
from numpy.typing import NDArray

from railwright.workload.placement import Placement
from railwright.workload.traffic import NONE, Ids, Traffic


def binary_tree(nodes: int) -> NDArray[np.int64]:
    """Return the parent of each node in the first tree (root 0 has `NONE`): each strips its lowest set bit, then sets the next.

    A node whose parent would lie beyond the last one hangs on the node without its lowest bit.
    """
    node = np.arange(nodes)
    low = node & -node
    parent = (node ^ low) | (low << 1)
    parent = np.where(parent >= nodes, node ^ low, parent)
    parent[0] = NONE
    return parent


def second_tree(nodes: int) -> NDArray[np.int64]:
    """Return the parent of each node in the second tree: the first one mirrored (even count) or shifted by one (odd)."""
    first = binary_tree(nodes)
    node = np.arange(nodes)
    if nodes % 2 == 0:
        mirrored = first[nodes - 1 - node]
        return np.where(mirrored == NONE, NONE, nodes - 1 - mirrored)
    shifted = first[(node - 1) % nodes]
    return np.where(shifted == NONE, NONE, (shifted + 1) % nodes)


def rail_trees(placement: Placement, channels: int) -> NDArray[np.int64]:
    """Return the parent of each rank (2 * channels, n) in every channel's two trees.

    Channel ``c`` joins the ranks of column ``c mod G`` of all domains by a tree on one rail; the other ranks of a domain form
    a chain that ends at that rank, over NVLink.
    """
    grid = placement.grid()
    domains, width = grid.shape
    parent = np.full((2 * channels, placement.ranks), NONE, np.int64)
    for channel in range(channels):
        order = np.roll(grid, -(channel % width), axis=1)
        for which, tree in enumerate((binary_tree(domains), second_tree(domains))):
            row = parent[2 * channel + which]
            row[order[:, 1:]] = order[:, :-1]
            row[order[:, 0]] = np.where(tree == NONE, NONE, order[tree, 0])
    return parent


def chains(rings: NDArray[np.integer], root: int) -> NDArray[np.int64]:
    """Return the parent of each rank (rings, n) when each ring is cut open so that it starts at rank ``root``."""
    parent = np.empty(rings.shape, np.int64)
    which = np.arange(rings.shape[0])[:, None]
    parent[which, np.roll(rings, -1, axis=1)] = rings
    parent[:, root] = NONE
    return parent


def column_trees(grid: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the parent of each rank (2 * width, n): two trees per column of ``grid`` (domains, width), no chain inside."""
    domains, width = grid.shape
    parent = np.full((2 * width, grid.size), NONE, np.int64)
    for which, tree in enumerate((binary_tree(domains), second_tree(domains))):
        above = np.where(tree[:, None] == NONE, NONE, grid[tree])
        parent[2 * np.arange(width)[None, :] + which, grid] = above
    return parent


def tree_rows(
    traffic: Traffic,
    parent: NDArray[np.int64],
    gpus: NDArray[np.integer],
    bytes_each: float,
    pieces: int,
    *,
    up: bool,
    down: bool,
    after: Ids | None = None,
) -> Ids:
    """Append the rows of trees (T, n): towards the root (``up``: reduce), away from it (``down``: broadcast), or both.

    ``parent`` is `NONE` at a root and for ranks outside the tree. Each edge and direction is one row of ``pieces`` sends in a
    pipeline group per tree; piece ``k`` leaves a rank when piece ``k`` of all its children (up) or of its parent (down) is
    there, and turns round at the root. ``gpus[i]`` is the endpoint of rank ``i``; ``after`` (n, k) is what each rank's own
    data waits for. Returns op ids (T, n, m) of the rows that bring the last direction's data to each rank.
    """
    trees, ranks = parent.shape
    tree, rank = np.nonzero(parent != NONE)
    above = parent[tree, rank]
    edges = rank.size
    group = traffic.groups(trees)[tree]
    key, above_key = tree * ranks + rank, tree * ranks + above
    children = _children(above_key, trees * ranks)
    own = np.full((ranks, 1), NONE, np.int64) if after is None else after
    arrivals = np.full((trees * ranks, max(1, children.shape[1])), NONE, np.int64)
    if up:
        first = traffic.next_id
        arrivals = np.where(children == NONE, NONE, children + first)
        waits = np.concatenate([arrivals[key], own[rank]], axis=1)
        traffic.send(gpus[rank], gpus[above], bytes_each, after=waits, repeat=pieces, group=group)
    if down:
        incoming = np.full(trees * ranks, NONE, np.int64)
        incoming[key] = traffic.next_id + np.arange(edges)
        from_root = incoming[above_key] == NONE
        turned = np.where(from_root[:, None], np.concatenate([arrivals[above_key], own[above]], axis=1), NONE)
        waits = np.concatenate([turned, incoming[above_key][:, None]], axis=1)
        traffic.send(gpus[above], gpus[rank], bytes_each, after=waits, repeat=pieces, group=group)
        arrivals = np.where((incoming == NONE)[:, None], arrivals, NONE)
        arrivals[key, 0] = incoming[key]
    return arrivals.reshape(trees, ranks, -1)


def _children(above_key: Ids, nodes: int) -> Ids:
    """Return (nodes, k): the edges that end at each node of the trees, padded with `NONE`."""
    order = np.argsort(above_key, kind="stable")
    counts = np.bincount(above_key, minlength=nodes)
    position = np.arange(order.size) - np.repeat(np.cumsum(counts) - counts, counts)
    children = np.full((nodes, int(counts.max(initial=1))), NONE, np.int64)
    children[above_key[order], position] = order
    return children
