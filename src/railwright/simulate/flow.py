"""The flow engine's Python face: a network, a traffic table and options in, flows and used links out.

The engine (`native/flow`) gives every flow its weighted max-min fair share of the links it crosses and moves from one start
or end to the next; it knows no packets, queues or pauses. A flow takes ``bytes / rate`` plus the latency of its path. Alike
operations are computed once (folding) and steady repetition is skipped, both without changing the result; rates are exact to
one part in 10^9 (the tests compare them with a full computation). What it misses: the time that congestion control needs to
find the fair rate, and what flows lose to each other in shared buffers.

Source of the model: max-min fairness by progressive filling (Bertsekas and Gallager, Data Networks, 1992, 6.5.2).
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright import _native
from railwright.errors import InputError, RailwrightError
from railwright.simulate.failures import Condition, Failure, condition, describe, parse_failures, times_us
from railwright.simulate.flow_columns import WHOLE, Operations, operations
from railwright.simulate.network import SCALE_UP, Network
from railwright.simulate.paths import (
    SPREAD,
    Paths,
    crosses_network,
    find_paths,
    latencies_us,
    narrowest_gbps,
    queue_pair_entropy,
)
from railwright.simulate.results import EngineResult
from railwright.simulate.routing import flow_entropy, no_path
from railwright.tables import conform

BYTES_PER_US = 125.0
"""Bytes per microsecond in 1 Gb/s."""


@dataclass(frozen=True)
class FlowOptions:
    """One run of the flow engine.

    ``goodput`` is the share of a fabric link's rate that payload gets (`goodput.goodput_share`, times what congestion control
    leaves), ``scale_up_goodput`` that of a scale-up link. ``paths``: see `paths.MODES`. ``queue_pairs``: flows that each
    send is split into, each with its own hash. ``overhead_us`` and ``scale_up_overhead_us`` are added to the path's latency
    of a message that crosses the fabric, or stays inside. ``fail``: see `failures`; traffic leaves a path that breaks during
    the run ``reroute_us`` later. ``weights``, ``priorities`` (0 first, strict) and ``caps_gbps`` are per traffic class.
    ``fold``: compute alike operations once. ``audit_every``: compare the rates of every so many instants with a full
    computation (0: never); the counter ``audit`` is the largest relative difference.
    """

    goodput: float = 1.0
    scale_up_goodput: float = 1.0
    paths: str = "ecmp"
    queue_pairs: int = 1
    overhead_us: float = 0.0
    scale_up_overhead_us: float = 0.0
    fail: tuple[str, ...] = ()
    reroute_us: float = 0.0
    weights: Mapping[str, float] = field(default_factory=dict)
    priorities: Mapping[str, int] = field(default_factory=dict)
    caps_gbps: Mapping[str, float] = field(default_factory=dict)
    scale_up: bool = True
    fold: bool = True
    audit_every: int = 0

    def __post_init__(self) -> None:
        for name in ("goodput", "scale_up_goodput"):
            if not 0 < getattr(self, name) <= 1:
                raise InputError(f"{getattr(self, name)} is not a share; it must be above 0 and at most 1", key=name)
        if not 1 <= self.queue_pairs <= 1024:
            raise InputError(f"{self.queue_pairs} is out of range; it must be from 1 to 1024", key="queue_pairs")
        for name in ("overhead_us", "scale_up_overhead_us", "reroute_us"):
            if not 0 <= getattr(self, name) < np.inf:
                raise InputError(f"{getattr(self, name)} is out of range; it must be 0 or more", key=name)
        for name in ("weights", "caps_gbps"):
            for key, value in getattr(self, name).items():
                if not 0 < value < np.inf:
                    raise InputError(f"{value} is out of range; it must be above 0", key=f"{name}.{key}")
        for key, value in self.priorities.items():
            if not 0 <= value <= 7:
                raise InputError(f"{value} is out of range; it must be from 0 to 7", key=f"priorities.{key}")


def simulate_flows(
    network: Network,
    traffic: pl.DataFrame,
    options: FlowOptions = FlowOptions(),
    seed: int = 0,
    *,
    pinned: tuple[NDArray[np.int64], NDArray[np.int32]] | None = None,
) -> EngineResult:
    """Run ``traffic`` over ``network``; ``pinned`` gives paths as of `routing.route` (an empty one: the options' path mode).

    Interruptible; releases the interpreter lock. Raises InputError for what does not fit the network (unknown endpoint, pair
    without a path, waits in a circle) and RailwrightError when failures during the run leave operations without a way.
    """
    began, began_cpu = time.perf_counter(), time.process_time()
    ops = operations(traffic, network)
    failures = parse_failures(options.fail, network, seed)
    run = _prepare(network, traffic, ops, failures, options, seed, pinned)
    engine_cpu = time.process_time()
    raw = _native.flow_run(run.arrays, options.fold, options.audit_every)
    engine_cpu = time.process_time() - engine_cpu
    if np.isnan(raw["finish"]).any():
        raise _unfinished(network, traffic, ops, run, raw)
    finish_us = float(raw["finish"].max(initial=0.0))
    bytes_ = _per_link(run.paths, raw["link_bytes"])
    held_back = _per_link(run.paths, raw["link_limited_bytes"])
    counters = {
        "events": 2.0 * (raw["repetitions"] - raw["skipped"]),
        **{name: float(raw[name]) for name in ("instants", "repetitions", "skipped", "operations", "updates", "audit")},
        "engine_cpu_s": engine_cpu,
        "cpu_s": time.process_time() - began_cpu,
        "wall_s": time.perf_counter() - began,
    }
    return EngineResult(
        finish_us=finish_us,
        flows=_flows(traffic, ops, run, raw),
        links_used=_links(network, run, bytes_, finish_us),
        counters=counters,
        why=(*_broken(network, failures), *_explain(network, ops, run, held_back, finish_us, raw)),
        steps=_steps(traffic, raw),
    )


@dataclass(frozen=True)
class _Run:
    """What goes into the native engine, and what is needed to read its answer.

    ``flow_op`` is the operation of each flow; ``capacity`` (joined links summed) and ``line`` (each link) are bytes per us.
    """

    arrays: dict[str, NDArray[Any]]
    paths: Paths
    flow_op: NDArray[np.int64]
    capacity: NDArray[np.float64]
    line: NDArray[np.float64]
    hops: NDArray[np.int64]


def _prepare(
    network: Network,
    traffic: pl.DataFrame,
    ops: Operations,
    failures: list[Failure],
    options: FlowOptions,
    seed: int,
    pinned: tuple[NDArray[np.int64], NDArray[np.int32]] | None,
) -> _Run:
    state = condition(network, failures)
    pairs = options.queue_pairs if options.paths not in SPREAD else 1
    flow_op = np.repeat(np.flatnonzero(ops.sends), pairs)
    numbers = np.tile(np.arange(pairs), int(ops.sends.sum()))
    entropy = flow_entropy(traffic["op_id"], seed)[flow_op]
    for number in range(1, pairs):
        entropy[numbers == number] = queue_pair_entropy(entropy[numbers == number], number)
    src, dst = ops.src[flow_op], ops.dst[flow_op]
    later = times_us(failures)

    def paths_in(now: Condition, rows: NDArray[np.int64], *, join_alike: bool = False) -> Paths:
        return find_paths(
            network,
            src[rows],
            dst[rows],
            options.paths,
            entropy=entropy[rows],
            seed=seed,
            scale_up=options.scale_up,
            state=now,
            join_alike=join_alike,
        )

    everyone = np.arange(flow_op.size)
    paths = paths_in(state, everyone, join_alike=not later and pinned is None)
    if pinned is not None:
        paths = _pin(paths, pinned, flow_op)
    lost = np.flatnonzero(~paths.reached & (src != dst))
    if lost.size:
        raise InputError(no_path(network, src, dst, lost))
    usable = _usable(network, options)
    line = state.gbps * usable
    capacity = _joined(paths, line)
    changes, reroutes, extra = _later(network, failures, later, options, paths, paths_in, usable)
    all_paths = [paths, *extra]
    offsets = np.concatenate([[0], *(np.diff(found.offset) for found in all_paths)]).cumsum()
    counts = np.bincount(flow_op, minlength=ops.count)
    labels = traffic["class"].cast(pl.String)
    arrays: dict[str, NDArray[Any]] = {
        "capacity": capacity,
        "path_offset": offsets.astype(np.int64),
        "path_link": np.concatenate([found.link for found in all_paths]).astype(np.int32),
        "path_share": np.concatenate([found.share for found in all_paths]),
        "op_kind": np.where(ops.sends, 0, 1).astype(np.uint8),
        "op_duration": np.where(ops.sends, 0.0, ops.duration_us),
        "op_start": ops.start_us,
        "op_weight": _by_class(labels, options.weights, 1.0),
        "op_cap": _by_class(labels, options.caps_gbps, np.inf) * BYTES_PER_US,
        "op_priority": _by_class(labels, options.priorities, 0.0).astype(np.uint8),
        "op_repeat": ops.repeat,
        "flow_offset": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "flow_path": everyone.astype(np.int32),
        "flow_bytes": ops.bytes[flow_op] / pairs,
        "flow_latency": _latency(network, options, paths) + np.where(ops.sends, ops.duration_us, 0.0)[flow_op],
        "wait_offset": ops.wait_offset,
        "wait_op": ops.wait_op,
        "wait_lag": ops.wait_lag,
        **changes,
        **reroutes,
    }
    return _Run(arrays, paths, flow_op, capacity, line, np.diff(paths.offset))


def _usable(network: Network, options: FlowOptions) -> NDArray[np.float64]:
    """Return the payload bytes per us of each Gb/s of every directed link."""
    inside: NDArray[np.bool_] = network.node_kind == SCALE_UP
    inner = inside[network.link_src] | inside[network.link_dst]
    return np.where(inner, options.scale_up_goodput, options.goodput) * BYTES_PER_US


def _latency(network: Network, options: FlowOptions, paths: Paths) -> NDArray[np.float64]:
    overhead = np.where(crosses_network(network, paths), options.overhead_us, options.scale_up_overhead_us)
    return latencies_us(network, paths) + np.where(np.diff(paths.offset) > 0, overhead, 0.0)


def _by_class(labels: pl.Series, values: Mapping[str, float], default: float) -> NDArray[np.float64]:
    if not values:
        return np.full(len(labels), default)
    found = {key: float(value) for key, value in values.items()}
    return labels.replace_strict(found, default=default, return_dtype=pl.Float64).to_numpy()


def _pin(paths: Paths, pinned: tuple[NDArray[np.int64], NDArray[np.int32]], flow_op: NDArray[np.int64]) -> Paths:
    """Return ``paths`` with those of the operations that have a path of their own replaced."""
    offset, link = pinned
    own = np.diff(offset)[flow_op]
    fixed = own > 0
    counts = np.where(fixed, own, np.diff(paths.offset))
    starts = np.concatenate([[0], np.cumsum(counts)])
    from_own = np.repeat(fixed, counts)
    inside = np.arange(starts[-1]) - np.repeat(starts[:-1], counts)
    base = np.repeat(np.where(fixed, offset[:-1][flow_op], paths.offset[:-1]), counts) + inside
    links, shares = np.empty(base.size, np.int32), np.ones(base.size)
    links[from_own] = link[base[from_own]]
    links[~from_own], shares[~from_own] = paths.link[base[~from_own]], paths.share[base[~from_own]]
    return Paths(starts, links, shares, paths.reached | fixed, paths.relayed & ~fixed, paths.stands_for)


def _joined(paths: Paths, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``values`` per link, those of joined links summed at the link that stands for them."""
    if np.array_equal(paths.stands_for, np.arange(values.size)):
        return values
    return np.bincount(paths.stands_for, weights=values, minlength=values.size).astype(np.float64)


def _per_link(paths: Paths, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``values`` of joined links dealt out equally to those that they stand for."""
    counts = np.bincount(paths.stands_for, minlength=values.size)
    return (values / np.maximum(counts, 1))[paths.stands_for]


def _later(
    network: Network,
    failures: list[Failure],
    times: list[float],
    options: FlowOptions,
    paths: Paths,
    paths_in: Any,
    usable: NDArray[np.float64],
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]], list[Paths]]:
    """Return what happens during the run: capacities, and new paths for the flows whose path breaks."""
    before, current, serial = condition(network, failures), paths, paths.offset.size - 1
    links, reroutes, extra = [], [], []
    holder = np.repeat(np.arange(serial), np.diff(paths.offset))
    crossing = current.link
    for at in times:
        after = condition(network, failures, at)
        moved = np.flatnonzero(after.gbps != before.gbps)
        links.append((np.full(moved.size, at), moved.astype(np.int32), (after.gbps * usable)[moved]))
        out = (after.gbps == 0) & (before.gbps > 0)
        rows = np.unique(holder[out[crossing]])
        if rows.size:
            fresh = paths_in(after, rows)
            number = np.where(fresh.reached, serial + np.arange(rows.size), -1)
            time_us = np.full(rows.size, at + options.reroute_us)
            reroutes.append(
                (time_us, rows.astype(np.uint32), number.astype(np.int32), _latency(network, options, fresh))
            )
            extra.append(fresh)
            serial += rows.size
            stays = ~np.isin(holder, rows)
            holder = np.concatenate([holder[stays], np.repeat(rows, np.diff(fresh.offset))])
            crossing = np.concatenate([crossing[stays], fresh.link])
        before = after
    change = _stack(links, (np.float64, np.int32, np.float64))
    turn = _stack(reroutes, (np.float64, np.uint32, np.int32, np.float64))
    names = ("link_change_time", "link_change_link", "link_change_capacity")
    turn_names = ("reroute_time", "reroute_flow", "reroute_path", "reroute_latency")
    return dict(zip(names, change, strict=True)), dict(zip(turn_names, turn, strict=True)), extra


def _stack(rows: Sequence[tuple[NDArray[Any], ...]], dtypes: tuple[type, ...]) -> list[NDArray[Any]]:
    return [np.concatenate([np.zeros(0, kind), *(row[i] for row in rows)]) for i, kind in enumerate(dtypes)]


def _flows(traffic: pl.DataFrame, ops: Operations, run: _Run, raw: dict[str, Any]) -> pl.DataFrame:
    first = np.searchsorted(run.flow_op, np.flatnonzero(ops.sends))
    rate = narrowest_gbps(run.paths, run.capacity)
    alone = run.arrays["flow_bytes"] / rate + run.arrays["flow_latency"]
    slowest = np.zeros(ops.count)
    np.maximum.at(slowest, run.flow_op, alone)
    frame = traffic.select("op_id", "job", "class", "src", "dst").with_columns(
        bytes=pl.Series(ops.bytes * ops.repeat),
        start_us=pl.Series(raw["start"]),
        finish_us=pl.Series(raw["finish"]),
        fct_us=pl.Series(raw["finish"] - raw["start"]),
        ideal_us=pl.Series(slowest * ops.repeat),
    )
    sends = frame if ops.sends.all() else frame.filter(pl.Series(ops.sends))
    return conform("flows", sends.with_columns(hops=pl.Series(run.hops[first].astype(np.uint16))))


def _links(network: Network, run: _Run, bytes_: NDArray[np.float64], finish_us: float) -> pl.DataFrame:
    line = network.link_gbps * BYTES_PER_US
    return conform(
        "links_used",
        pl.DataFrame(
            {
                "link_id": np.repeat(network.link_id, 2),
                "forward": np.arange(line.size) % 2 == 0,
                "bytes": bytes_,
                "util": bytes_ / (line * finish_us) if finish_us > 0 else np.zeros(line.size),
            }
        ),
    )


def _steps(traffic: pl.DataFrame, raw: dict[str, Any]) -> pl.DataFrame:
    frame = traffic.select("job").with_columns(start_us=pl.Series(raw["start"]), finish_us=pl.Series(raw["finish"]))
    jobs = frame.group_by("job", maintain_order=True).agg(pl.col("start_us").min(), pl.col("finish_us").max())
    return conform("steps", jobs.with_columns(step=pl.lit(0)))


def _broken(network: Network, failures: list[Failure]) -> list[str]:
    """Return one sentence per failure: what it takes out or slows down, when, and which endpoints it cuts off."""
    said = []
    for row in describe(failures, network).iter_rows(named=True):
        what = [f"{row[name]:,} {name}" for name in ("nodes", "cables") if row[name]]
        state = f"at {row['share']:.0%} of the rate" if row["share"] else "out"
        when = f" from {row['at_us']:,.0f} us on" if row["at_us"] else ""
        cut = f"; {row['endpoints']:,} endpoints lose their last link" if row["endpoints"] else ""
        said.append(f"{row['text']}: {' and '.join(what)} {state}{when}{cut}")
    return said


def _explain(
    network: Network,
    ops: Operations,
    run: _Run,
    held_back: NDArray[np.float64],
    finish_us: float,
    raw: dict[str, Any],
) -> list[str]:
    said = []
    limiting = held_back / np.maximum(run.line * finish_us, 1e-300)
    if limiting.size and limiting.max() > 0:
        worst = int(np.argmax(limiting))
        alike = int(np.count_nonzero(limiting >= limiting[worst] * (1 - 1e-6)))
        ends = f"{network.node_name[int(network.link_src[worst])]} → {network.node_name[int(network.link_dst[worst])]}"
        others = f" (and {alike - 1:,} others as long)" if alike > 1 else ""
        said.append(f"{ends}{others} set the pace of its flows for {limiting[worst]:.0%} of the time")
    relayed = int(np.count_nonzero(run.paths.relayed))
    if relayed:
        said.append(f"{relayed:,} flows take another GPU's adapter: their own leads nowhere")
    if raw["operations"] < ops.count:
        said.append(f"{ops.count:,} operations behave in {raw['operations']:,} ways, each computed once")
    if raw["skipped"]:
        said.append(f"{raw['skipped']:,} of {raw['repetitions']:,} repetitions were steady and skipped")
    return said


def _unfinished(
    network: Network, traffic: pl.DataFrame, ops: Operations, run: _Run, raw: dict[str, Any]
) -> RailwrightError:
    """Return the error that says why operations did not finish: no way left, no capacity, or waits in a circle."""
    left = np.isnan(raw["finish"])
    begun = np.flatnonzero(left & ~np.isnan(raw["start"]) & ops.sends)
    if begun.size:
        op = int(begun[0])
        ends = f"{network.node_name[int(ops.src[op])]} → {network.node_name[int(ops.dst[op])]}"
        return RailwrightError(
            f"{begun.size:,} operations never finish: what failed leaves them no way, the first is operation "
            f"{traffic['op_id'][op]} ({ends})"
        )
    circle = [str(traffic["op_id"][op]) for op in _circle(ops, left)]
    return InputError(
        f"{int(left.sum()):,} operations wait for each other in a circle: {' → '.join(circle)}", key="traffic.after"
    )


def _circle(ops: Operations, left: NDArray[np.bool_]) -> list[int]:
    """Return operations (at most ten) that wait for each other in a circle, each for the next."""
    row = np.repeat(np.arange(ops.count), np.diff(ops.wait_offset))
    blocking = left[row] & left[ops.wait_op] & (ops.wait_lag <= 0) & ((ops.wait_lag == WHOLE) | (ops.repeat[row] > 0))
    waits_for = np.full(ops.count, -1)
    waits_for[row[blocking]] = ops.wait_op[blocking]
    seen: list[int] = []
    at = int(np.flatnonzero(left & (waits_for >= 0))[0])
    while at not in seen:
        seen.append(at)
        at = int(waits_for[at])
    circle = [*seen[seen.index(at) :], at]
    return circle if len(circle) <= 10 else [*circle[:9], circle[-1]]
