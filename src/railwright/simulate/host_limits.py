"""Hosts that are slower than their network: the NIC becomes a small switch, joined to its host by a link of the PCIe rate.

What the host cannot take waits in the NIC's buffer, and in a lossless class the NIC pauses its leaf: the slow receiver of
the field. Node and link numbers stay; the NICs and their inner cables are appended.
"""

from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.errors import InputError
from railwright.simulate.network import HOST, SCALE_UP, SWITCH, Network


def limit_hosts(
    network: Network,
    hosts: NDArray[np.integer],
    gbps: float,
    *,
    nic_buffer_bytes: float = 2e6,
    delay_ns: float = 300.0,
) -> Network:
    """Return ``network`` with ``hosts`` behind a NIC that reaches them at ``gbps`` (both ways, all ports together).

    ``delay_ns`` is one way over PCIe (a typical value, unverified: measured round trips are 500-900 ns). Links to a
    scale-up switch stay at the host. Raises InputError for a node that is not a host or a rate that is not positive.
    """
    chosen = np.unique(np.asarray(hosts, np.int64))
    count = network.node_kind.size
    wrong = chosen[(chosen < 0) | (chosen >= count)]
    if wrong.size or (network.node_kind[chosen] != HOST).any():
        bad = wrong[0] if wrong.size else chosen[network.node_kind[chosen] != HOST][0]
        raise InputError(f"node {bad} is not a host", key="hosts")
    if not gbps > 0:
        raise InputError(f"a host limit of {gbps:g} Gb/s; it must be more than 0", key="gbps")
    nic_of = np.arange(count)
    nic_of[chosen] = count + np.arange(chosen.size)
    outside = (network.node_kind[network.link_src] != SCALE_UP) & (network.node_kind[network.link_dst] != SCALE_UP)
    nic = nic_of[chosen]
    added = 2 * chosen.size
    ids = (int(network.link_id.max()) + 1 if network.link_id.size else 0) + np.arange(chosen.size)
    names = network.node_name.gather(chosen) + ":nic"
    return replace(
        network,
        node_name=pl.concat([network.node_name, names.alias(network.node_name.name)]),
        node_kind=np.concatenate([network.node_kind, np.full(chosen.size, SWITCH, np.uint8)]),
        node_buffer_bytes=np.concatenate([network.node_buffer_bytes, np.full(chosen.size, nic_buffer_bytes)]),
        node_latency_ns=np.concatenate([network.node_latency_ns, np.zeros(chosen.size)]),
        link_src=np.concatenate(
            [np.where(outside, nic_of[network.link_src], network.link_src), np.column_stack([chosen, nic]).ravel()]
        ).astype(np.int32),
        link_dst=np.concatenate(
            [np.where(outside, nic_of[network.link_dst], network.link_dst), np.column_stack([nic, chosen]).ravel()]
        ).astype(np.int32),
        link_gbps=np.concatenate([network.link_gbps, np.full(added, float(gbps))]),
        link_delay_ns=np.concatenate([network.link_delay_ns, np.full(added, delay_ns)]),
        link_id=np.concatenate([network.link_id, ids]).astype(np.uint32),
    )


Pinned = tuple[NDArray[np.int64], NDArray[np.int32]]


def limit_by_host(
    network: Network, gbps: NDArray[np.float64], traffic: pl.DataFrame, pinned: Pinned | None
) -> tuple[Network, Pinned | None]:
    """Return ``network`` with every host behind a NIC of its rate in ``gbps`` (hosts; 0: no limit), and ``pinned`` over them.

    ``pinned`` are the paths of the rows of ``traffic`` in ``network`` (as of `routing.route`; an empty one stays empty).
    """
    inner = np.full(gbps.size, -1, np.int64)  # of each host, the link to its NIC
    limited = network
    for rate in np.unique(gbps[gbps > 0]):
        hosts = np.flatnonzero(gbps == rate)
        inner[hosts] = limited.link_gbps.size + 2 * np.arange(hosts.size)
        limited = limit_hosts(limited, hosts, float(rate))
    if pinned is None or (inner < 0).all():
        return limited, pinned
    offsets, links = pinned
    used = np.diff(offsets) > 0
    first = np.where(used, inner[traffic["src"].to_numpy()], -1)
    last = np.where(used, inner[traffic["dst"].to_numpy()], -1)
    path = [
        part
        for row in range(used.size)
        for part in (
            first[row : row + 1][first[row : row + 1] >= 0],
            links[offsets[row] : offsets[row + 1]],
            last[row : row + 1][last[row : row + 1] >= 0] + 1,
        )
    ]
    lengths = np.diff(offsets) + (first >= 0) + (last >= 0)
    return limited, (np.concatenate([[0], np.cumsum(lengths)]), np.concatenate(path).astype(np.int32))
