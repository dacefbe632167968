"""The network as the engines see it: nodes and directed links in flat arrays, whatever it was made from.

A cable ``k`` gives the directed links ``2k`` (from ``a`` to ``b``) and ``2k + 1`` (back). An endpoint (a GPU with its NIC
ports, or a host) is a node of kind ``HOST``; the switch inside a server (NVSwitch) is a node of kind ``SCALE_UP`` and its
links carry only traffic between GPUs of that server.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

HOST = 0
SWITCH = 1
SCALE_UP = 2


@dataclass(frozen=True)
class Network:
    """Arrays of ``n`` nodes and ``m`` cables (``2m`` directed links).

    ``node_name`` (String series, n); ``node_kind`` (uint8, n: HOST, SWITCH, SCALE_UP); ``node_buffer_bytes`` (float64, n;
    0 = unknown); ``node_latency_ns`` (float64, n: port-to-port latency of a switch); ``link_src`` and ``link_dst`` (int32,
    2m); ``link_gbps`` (float64, 2m); ``link_delay_ns`` (float64, 2m: propagation); ``link_id`` (uint32, m: `links.link_id`
    of the plan, or the row number of a user's file).

    Endpoints of traffic tables are node numbers: hosts come first, so that endpoint ``e`` is node ``e``.
    """

    node_name: pl.Series
    node_kind: NDArray[np.uint8]
    node_buffer_bytes: NDArray[np.float64]
    node_latency_ns: NDArray[np.float64]
    link_src: NDArray[np.int32]
    link_dst: NDArray[np.int32]
    link_gbps: NDArray[np.float64]
    link_delay_ns: NDArray[np.float64]
    link_id: NDArray[np.uint32]

    @property
    def hosts(self) -> int:
        """How many endpoints there are (nodes ``0 … hosts - 1``)."""
        return int(np.count_nonzero(self.node_kind == HOST))
