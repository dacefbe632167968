"""Load beside the collectives: requests, storage reads, checkpoints, backups, ingest and management sessions, as traffic rows.

Every kind has its sizes, its direction and its way of arriving. Open-loop kinds arrive as a Poisson process: they do not wait
for each other, whatever the network does. All kinds run between clients and *gateways*, the endpoints that stand for storage
and border ports; ``share`` is the mean rate offered, as a share of the gateways' rate. One seed gives the same rows; kinds
draw from streams of their own, so that adding one does not change the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.errors import InputError, nearest
from railwright.tables import conform
from railwright.units import parse_fraction
from railwright.workload.traffic import merge

JOB = "background:"
"""Before the kind, the name of a background job."""
ENDPOINTS_PER_GATEWAY = 16
"""Where nobody names the gateways, every so many-th endpoint is one."""
MOST_FLOWS = 5_000_000
_MIB = float(2**20)


@dataclass(frozen=True)
class Sizes:
    """A distribution of message sizes: ``share`` of messages (rising to 1) of at most ``up_to_bytes``, linear in between."""

    up_to_bytes: tuple[float, ...]
    share: tuple[float, ...]

    @property
    def mean_bytes(self) -> float:
        """The mean size."""
        size, share = np.asarray(self.up_to_bytes), np.asarray(self.share)
        return float((np.diff(share) * (size[1:] + size[:-1]) / 2).sum() + share[0] * size[0])

    def draw(self, count: int, chance: np.random.Generator) -> NDArray[np.float64]:
        """Return ``count`` sizes in whole bytes, at least 1."""
        drawn = np.interp(chance.random(count), self.share, self.up_to_bytes)
        return np.maximum(np.rint(drawn), 1.0)


def fixed(size_bytes: float) -> Sizes:
    """Return the distribution of messages that all have the same size."""
    return Sizes((size_bytes, size_bytes), (0.0, 1.0))


WEB_SEARCH = Sizes(
    (0.0, 1e4, 2e4, 3e4, 5e4, 8e4, 2e5, 1e6, 2e6, 5e6, 1e7, 3e7),
    (0.0, 0.15, 0.20, 0.30, 0.40, 0.53, 0.60, 0.70, 0.80, 0.90, 0.97, 1.0),
)
"""Web search (Alizadeh et al., DCTCP, SIGCOMM 2010) as HPCC's traffic generator tabulates it."""


@dataclass(frozen=True)
class Kind:
    """One kind of background: ``between`` whom, ``direction`` and ``traffic_class`` of its rows, how it ``arrives``.

    ``poisson``: open loop; ``burst``: all sources at once, once in the run; ``stream``: every source sends one message after
    another, back to back, through the run.
    """

    sizes: Sizes
    direction: Literal["north_south", "storage", "management", "east_west"]
    traffic_class: str
    between: Literal["to-gateway", "from-gateway"]
    arrives: Literal["poisson", "burst", "stream"]
    source: str


KINDS: dict[str, Kind] = {
    "requests": Kind(
        WEB_SEARCH,
        "north_south",
        "best-effort",
        "from-gateway",
        "poisson",
        "Alizadeh et al. 2010; HPCC's traffic generator",
    ),
    "storage-reads": Kind(
        fixed(_MIB), "storage", "storage", "from-gateway", "poisson", "1 MiB bulk reads, Lustre's usual RPC size"
    ),
    "checkpoint": Kind(fixed(_MIB), "storage", "storage", "to-gateway", "burst", "all ranks write at once, 1 MiB RPCs"),
    "backup": Kind(
        fixed(8 * _MIB), "north_south", "best-effort", "to-gateway", "stream", "8 MiB parts, default of the AWS CLI"
    ),
    "ingest": Kind(
        fixed(8 * _MIB), "north_south", "best-effort", "from-gateway", "poisson", "8 MiB parts, default of the AWS CLI"
    ),
    "management": Kind(
        Sizes((100.0, 1500.0, 10_000.0), (0.0, 0.8, 1.0)),
        "management",
        "best-effort",
        "from-gateway",
        "poisson",
        "sessions and polls of up to 10 kB; ours, unverified",
    ),
}


@dataclass(frozen=True)
class Load:
    """A kind (a key of `KINDS`) and the share of the rate that it offers."""

    kind: str
    share: float


def parse_load(text: str) -> Load:
    """Return the load of ``KIND:SHARE`` (``storage-reads:20%``, ``requests:0.1``); raises InputError."""
    name, colon, share = text.partition(":")
    if name not in KINDS:
        raise InputError(
            f"{name!r} is no kind of background load{nearest(name, KINDS)}; kinds are {', '.join(KINDS)}",
            key="background",
        )
    try:
        value = parse_fraction(share) if colon else 0.0
    except ValueError as error:
        raise InputError(f"{text!r}: {error}", key="background") from None
    if not 0 < value <= 1:
        raise InputError(f"{text!r}: write KIND:SHARE with a share above 0% and up to 100%", key="background")
    return Load(name, value)


def gateways_of(groups: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the endpoints that stand for storage and border where nobody names them: the first of every 16 of a group."""
    order = np.argsort(groups, kind="stable")
    first = np.searchsorted(groups[order], groups[order])
    return np.sort(order[(np.arange(groups.size) - first) % ENDPOINTS_PER_GATEWAY == 0])


def background_traffic(
    loads: Sequence[str | Load],
    edge_gbps: NDArray[np.float64],
    *,
    until_us: float,
    seed: int = 0,
    gateways: NDArray[np.integer] | None = None,
    groups: NDArray[np.integer] | None = None,
) -> pl.DataFrame:
    """Return the rows (table ``traffic``) of ``loads`` that start before ``until_us``, every kind a job of its own.

    ``edge_gbps`` is the rate of every endpoint. Endpoints talk inside their group only (``groups``, default: one for all).
    Raises InputError for what is no load, for clients without a gateway in their group, and for more than ``MOST_FLOWS`` rows.
    """
    group = np.zeros(edge_gbps.size, np.int64) if groups is None else np.asarray(groups, np.int64)
    sides = _Sides.of(group, gateways_of(group) if gateways is None else np.asarray(gateways, np.int64))
    known = [load if isinstance(load, Load) else parse_load(load) for load in loads]
    streams = np.random.SeedSequence(seed).spawn(len(KINDS))
    stream = dict(zip(KINDS, streams, strict=True))
    return merge([_rows(load, edge_gbps, sides, until_us, np.random.default_rng(stream[load.kind])) for load in known])


@dataclass(frozen=True)
class _Sides:
    """Clients, and for each the gateways of its group: ``gateways[first : first + count]``."""

    clients: NDArray[np.int64]
    gateways: NDArray[np.int64]
    first: NDArray[np.int64]
    count: NDArray[np.int64]

    @staticmethod
    def of(group: NDArray[np.int64], gateways: NDArray[np.int64]) -> "_Sides":
        ordered = gateways[np.argsort(group[gateways], kind="stable")]
        clients = np.setdiff1d(np.arange(group.size), gateways)
        first = np.searchsorted(group[ordered], group[clients])
        count = np.searchsorted(group[ordered], group[clients], side="right") - first
        if not clients.size or not count.all():
            raise InputError("background load needs clients, and a gateway that each of them reaches", key="background")
        return _Sides(clients, ordered, first, count)


def _rows(
    load: Load, edge_gbps: NDArray[np.float64], sides: _Sides, until_us: float, chance: np.random.Generator
) -> pl.DataFrame:
    kind = KINDS[load.kind]
    bound = edge_gbps[sides.gateways]
    total_bytes = load.share * float(bound.sum()) * 1e3 / 8 * until_us
    mean_flows = total_bytes / kind.sizes.mean_bytes
    if mean_flows > MOST_FLOWS:
        raise InputError(
            f"{load.kind} at {load.share:.0%} for {until_us:g} us is {mean_flows:,.0f} flows; {MOST_FLOWS:,} are allowed",
            key="background",
        )
    repeat: NDArray[np.int64] | int = 1
    if kind.arrives == "stream":
        count = max(1, min(round(mean_flows), sides.clients.size))
        start = chance.random(count) * min(until_us, kind.sizes.mean_bytes * 8 / (float(bound.mean()) * 1e3))
        repeat = np.maximum(1, np.rint(np.full(count, mean_flows / count))).astype(np.int64)
    elif kind.arrives == "burst":
        count = max(1, round(mean_flows))
        start = np.full(count, chance.random() * until_us / 2)
    else:
        count = int(chance.poisson(mean_flows))
        start = np.sort(chance.random(count)) * until_us
    src, dst = _ends(kind, count, sides, chance)
    frame = pl.DataFrame(
        {
            "op_id": np.arange(count, dtype=np.uint32),
            "src": src.astype(np.uint32),
            "dst": dst.astype(np.uint32),
            "bytes": kind.sizes.draw(count, chance),
            "start_us": start,
        }
    ).with_columns(
        pl.Series("repeat", np.broadcast_to(repeat, count).astype(np.uint32)),
        job=pl.lit(f"{JOB}{load.kind}"),
        direction=pl.lit(kind.direction),
        kind=pl.lit("send"),
        duration_us=pl.lit(0.0),
        after=pl.lit([], pl.List(pl.UInt32)),
        **{"class": pl.lit(kind.traffic_class)},
    )
    return conform("traffic", frame)


def _ends(
    kind: Kind, count: int, sides: _Sides, chance: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return sources and destinations; everyone in turn for bursts and streams, at random for arrivals."""
    if kind.arrives == "poisson":
        which, turn = chance.integers(sides.clients.size, size=count), chance.integers(2**31, size=count)
    else:
        turn, which = np.divmod(np.arange(count), sides.clients.size)
        turn = turn + which
    client = sides.clients[which]
    gateway = sides.gateways[sides.first[which] + turn % sides.count[which]]
    return (gateway, client) if kind.between == "from-gateway" else (client, gateway)
