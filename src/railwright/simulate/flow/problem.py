"""From network, operations and options to the arrays of the native flow engine: paths, capacities, and what happens later."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.errors import InputError
from railwright.simulate.failures import Condition, Failure, condition, times_us
from railwright.simulate.flow.capacity import shares_left
from railwright.simulate.flow.columns import Operations
from railwright.simulate.flow.options import BYTES_PER_US, FlowOptions
from railwright.simulate.flow.windows import windows
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
from railwright.simulate.routing import flow_entropy, no_path


@dataclass(frozen=True)
class Run:
    """What goes into the native engine, and what is needed to read its answer.

    ``flow_op`` is the operation of each flow; ``capacity`` (joined links summed) and ``line`` (each link) are bytes per us.
    """

    arrays: dict[str, NDArray[Any]]
    paths: Paths
    flow_op: NDArray[np.int64]
    capacity: NDArray[np.float64]
    line: NDArray[np.float64]
    hops: NDArray[np.int64]


def prepare(
    network: Network,
    traffic: pl.DataFrame,
    ops: Operations,
    failures: list[Failure],
    options: FlowOptions,
    seed: int,
    pinned: tuple[NDArray[np.int64], NDArray[np.int32]] | None,
) -> Run:
    """Return ``traffic`` (its arrays: ``ops``) on ``network`` as the native engine wants it; raises InputError for lost pairs."""
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
    if options.calibration:
        whole = ops.bytes[flow_op] / pairs * ops.repeat[flow_op]
        usable *= shares_left(network, paths, src, whole, options.calibration, acknowledged=options.acknowledged)
    line = state.gbps * usable
    capacity = _joined(paths, line)
    changes, reroutes, extra = _later(network, failures, later, options, paths, paths_in, usable)
    all_paths = [paths, *extra]
    offsets = np.concatenate([[0], *(np.diff(found.offset) for found in all_paths)]).cumsum()
    counts = np.bincount(flow_op, minlength=ops.count)
    labels = traffic["class"].cast(pl.String)
    latency = _latency(network, options, paths)
    lag, handover = _windows(network, ops, paths, flow_op, capacity, latency)
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
        "op_handover": handover,
        "op_priority": _by_class(labels, options.priorities, 0.0).astype(np.uint8),
        "op_repeat": ops.repeat,
        "flow_offset": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "flow_path": everyone.astype(np.int32),
        "flow_bytes": ops.bytes[flow_op] / pairs,
        "flow_latency": latency + np.where(ops.sends, ops.duration_us, 0.0)[flow_op],
        "wait_offset": ops.wait_offset,
        "wait_op": ops.wait_op,
        "wait_lag": lag,
        **changes,
        **reroutes,
    }
    return Run(arrays, paths, flow_op, capacity, line, np.diff(paths.offset))


def _usable(network: Network, options: FlowOptions) -> NDArray[np.float64]:
    """Return the payload bytes per us of each Gb/s of every directed link."""
    inside: NDArray[np.bool_] = network.node_kind == SCALE_UP
    inner = inside[network.link_src] | inside[network.link_dst]
    return np.where(inner, options.scale_up_goodput, options.goodput) * BYTES_PER_US


def _latency(network: Network, options: FlowOptions, paths: Paths) -> NDArray[np.float64]:
    overhead = np.where(crosses_network(network, paths), options.overhead_us, options.scale_up_overhead_us)
    return latencies_us(network, paths) + np.where(np.diff(paths.offset) > 0, overhead, 0.0)


def _windows(
    network: Network,
    ops: Operations,
    paths: Paths,
    flow_op: NDArray[np.int64],
    capacity: NDArray[np.float64],
    latency: NDArray[np.float64],
) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
    """Return lags and hand-over times of `flow/windows` for the rows of ``ops``; of a row's flows the slowest counts."""
    rate = np.maximum(narrowest_gbps(paths, capacity), 1e-100)
    alone, delay, wire = np.zeros(ops.count), np.zeros(ops.count), np.zeros(ops.count, np.int64)
    np.maximum.at(alone, flow_op, ops.bytes[flow_op] / rate)
    np.maximum.at(delay, flow_op, latency)
    np.maximum.at(wire, flow_op, crosses_network(network, paths).astype(np.int64))
    return windows(ops, wire, alone * ops.repeat, delay)


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
