"""Small networks and traffic tables for the packet tests, as functions."""

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
import pytest

from railwright.simulate.network import HOST, SWITCH, Network

Build = Callable[..., Network]
Sends = Callable[..., pl.DataFrame]


def _network(
    hosts: int,
    switches: int,
    cables: Sequence[tuple[int, int]],
    *,
    gbps: float | Sequence[float] = 400.0,
    delay_ns: float | Sequence[float] = 100.0,
    latency_ns: float = 0.0,
    buffer_bytes: float = 0.0,
) -> Network:
    nodes = hosts + switches
    ends = np.asarray([end for a, b in cables for end in ((a, b), (b, a))], np.int32).reshape(-1, 2)
    kind = np.where(np.arange(nodes) < hosts, HOST, SWITCH).astype(np.uint8)
    return Network(
        node_name=pl.Series([f"h{i}" if i < hosts else f"s{i - hosts}" for i in range(nodes)]),
        node_kind=kind,
        node_buffer_bytes=np.where(kind == SWITCH, buffer_bytes, 0.0),
        node_latency_ns=np.where(kind == SWITCH, latency_ns, 0.0),
        link_src=np.ascontiguousarray(ends[:, 0]),
        link_dst=np.ascontiguousarray(ends[:, 1]),
        link_gbps=np.repeat(np.broadcast_to(np.asarray(gbps, float), len(cables)), 2),
        link_delay_ns=np.repeat(np.broadcast_to(np.asarray(delay_ns, float), len(cables)), 2),
        link_id=np.arange(len(cables), dtype=np.uint32),
    )


@pytest.fixture
def network() -> Build:
    """Hosts 0 … n-1, then switches, and the cables between them."""
    return _network


@pytest.fixture
def star() -> Build:
    """One switch with ``hosts`` hosts."""
    return lambda hosts, **options: _network(hosts, 1, [(h, hosts) for h in range(hosts)], **options)


@pytest.fixture
def leaf_spine() -> Build:
    """Leaves with hosts, every leaf with one cable to every spine."""

    def build(leaves: int, per_leaf: int, spines: int, **options: float) -> Network:
        hosts = leaves * per_leaf
        cables = [(h, hosts + h // per_leaf) for h in range(hosts)]
        cables += [(hosts + leaf, hosts + leaves + s) for leaf in range(leaves) for s in range(spines)]
        return _network(hosts, leaves + spines, cables, **options)

    return build


@pytest.fixture
def sends() -> Sends:
    """A traffic table of (src, dst, bytes[, start_us]) rows."""

    def build(*rows: tuple[float, ...], **columns: object) -> pl.DataFrame:
        full = [row if len(row) == 4 else (*row, 0.0) for row in rows]
        frame = pl.DataFrame(
            {
                "op_id": range(len(full)),
                "job": "test",
                "class": "data",
                "direction": "east_west",
                "kind": "send",
                "src": [int(row[0]) for row in full],
                "dst": [int(row[1]) for row in full],
                "bytes": [float(row[2]) for row in full],
                "duration_us": 0.0,
                "repeat": 1,
                "start_us": [float(row[3]) for row in full],
            }
        )
        return frame.with_columns(**{k: pl.Series(v) if isinstance(v, list) else pl.lit(v) for k, v in columns.items()})

    return build
