"""Small networks, traffic tables and native problems for the flow tests, as functions."""

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
import pytest

from railwright.simulate.network import HOST, SCALE_UP, SWITCH, Network
from railwright.tables import conform

Build = Callable[..., Network]
Sends = Callable[..., pl.DataFrame]


def make_network(
    kinds: Sequence[int],
    cables: Sequence[tuple[int, int]],
    *,
    gbps: float | Sequence[float] = 400.0,
    delay_ns: float | Sequence[float] = 0.0,
    latency_ns: float = 0.0,
) -> Network:
    kind = np.asarray(kinds, np.uint8)
    ends = np.asarray([end for a, b in cables for end in ((a, b), (b, a))], np.int32).reshape(-1, 2)
    return Network(
        node_name=pl.Series([f"{'hsx'[k]}{i}" for i, k in enumerate(kinds)]),
        node_kind=kind,
        node_buffer_bytes=np.zeros(kind.size),
        node_latency_ns=np.where(kind == SWITCH, latency_ns, 0.0),
        link_src=np.ascontiguousarray(ends[:, 0]),
        link_dst=np.ascontiguousarray(ends[:, 1]),
        link_gbps=np.repeat(np.broadcast_to(np.asarray(gbps, float), len(cables)), 2),
        link_delay_ns=np.repeat(np.broadcast_to(np.asarray(delay_ns, float), len(cables)), 2),
        link_id=np.arange(len(cables), dtype=np.uint32),
    )


@pytest.fixture
def star() -> Build:
    """One switch with ``hosts`` hosts of 400G: 50,000 bytes per microsecond."""
    return lambda hosts, **options: make_network(
        [HOST] * hosts + [SWITCH], [(h, hosts) for h in range(hosts)], **options
    )


@pytest.fixture
def leaf_spine() -> Build:
    """Leaves with hosts, every leaf with one cable to every spine."""

    def build(leaves: int, per_leaf: int, spines: int, **options: float) -> Network:
        hosts = leaves * per_leaf
        cables = [(h, hosts + h // per_leaf) for h in range(hosts)]
        cables += [(hosts + leaf, hosts + leaves + s) for leaf in range(leaves) for s in range(spines)]
        return make_network([HOST] * hosts + [SWITCH] * (leaves + spines), cables, **options)

    return build


@pytest.fixture
def rail_only() -> Build:
    """Servers of ``gpus`` GPUs joined by a scale-up switch; the leaf of rail ``r`` joins GPU ``r`` of all servers."""

    def build(servers: int, gpus: int, *, inner_gbps: float = 3600.0, **options: float) -> Network:
        hosts = servers * gpus
        cables = [(g, hosts + g % gpus) for g in range(hosts)]
        cables += [(g, hosts + gpus + g // gpus) for g in range(hosts)]
        rates = [400.0] * hosts + [inner_gbps] * hosts
        return make_network([HOST] * hosts + [SWITCH] * gpus + [SCALE_UP] * servers, cables, gbps=rates, **options)

    return build


@pytest.fixture
def sends() -> Sends:
    """A traffic table of (src, dst, bytes[, start_us]) rows."""

    def build(*rows: tuple[float, ...], **columns: object) -> pl.DataFrame:
        full = [row if len(row) == 4 else (*row, 0.0) for row in rows]
        frame = (
            pl.DataFrame(
                {
                    "op_id": range(len(full)),
                    "src": [int(row[0]) for row in full],
                    "dst": [int(row[1]) for row in full],
                    "bytes": [float(row[2]) for row in full],
                    "start_us": [float(row[3]) for row in full],
                }
            )
            .with_columns(
                job=pl.lit("test"),
                kind=pl.lit("send"),
                direction=pl.lit("east_west"),
                duration_us=pl.lit(0.0),
                repeat=pl.lit(1),
                after=pl.lit([], dtype=pl.List(pl.UInt32)),
            )
            .with_columns(pl.lit("data").alias("class"))
        )
        given = {
            name: pl.Series(value) if isinstance(value, list) else pl.lit(value) for name, value in columns.items()
        }
        return conform("traffic", frame.with_columns(**given))

    return build
