"""The flow engine's Python face: a network, a traffic table and options in, flows and used links out.

The engine (`native/flow`) gives every flow its weighted max-min fair share of the links it crosses and moves from one start
or end to the next; it knows no packets, queues or pauses. A flow takes ``bytes / rate`` plus the latency of its path. Alike
operations are computed once (folding) and steady repetition is skipped, both without changing the result; rates are exact to
one part in 10^9 (the tests compare them with a full computation). What it misses: the time that congestion control needs to
find the fair rate (``idle_us`` of the runs in ``data/goodput.json``: milliseconds for DCQCN on an incast of long flows), and
what flows lose to each other in shared buffers.

Source of the model: max-min fairness by progressive filling (Bertsekas and Gallager, Data Networks, 1992, 6.5.2).
"""

import time
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright import _native
from railwright.errors import InputError, RailwrightError
from railwright.simulate.failures import Failure, describe, parse_failures
from railwright.simulate.flow.columns import WHOLE, Operations, operations
from railwright.simulate.flow.options import BYTES_PER_US, FlowOptions
from railwright.simulate.flow.problem import Run, prepare
from railwright.simulate.goodput import goodput_file
from railwright.simulate.network import Network
from railwright.simulate.paths import Paths, narrowest_gbps
from railwright.simulate.results import EngineResult
from railwright.tables import conform
from railwright.units import counted

__all__ = ["BYTES_PER_US", "FlowOptions", "simulate_flows"]


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
    run = prepare(network, traffic, ops, failures, options, seed, pinned)
    engine_cpu = time.process_time()
    raw = _native.flow_run(run.arrays, options.fold, options.audit_every)
    engine_cpu = time.process_time() - engine_cpu
    if np.isnan(raw["finish"]).any():
        raise _unfinished(network, traffic, ops, run, raw)
    finish_us = float(raw["finish"].max(initial=0.0))
    bytes_ = _per_link(run.paths, raw["link_bytes"])
    limited = _per_link(run.paths, raw["link_limited_bytes"])
    pace = limited / np.maximum(run.line * finish_us, 1e-300)
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
        why=(*_broken(network, failures), *_explain(network, ops, run, pace, raw), *_goodput(options)),
        steps=_steps(traffic, raw),
        details={"pace": _pace(network, pace)},
    )


def _per_link(paths: Paths, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``values`` of joined links dealt out equally to those that they stand for."""
    counts = np.bincount(paths.stands_for, minlength=values.size)
    return (values / np.maximum(counts, 1))[paths.stands_for]


def _flows(traffic: pl.DataFrame, ops: Operations, run: Run, raw: dict[str, Any]) -> pl.DataFrame:
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


def _links(network: Network, run: Run, bytes_: NDArray[np.float64], finish_us: float) -> pl.DataFrame:
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


def _pace(network: Network, pace: NDArray[np.float64]) -> pl.DataFrame:
    """Return the share of the time for which each direction of a link set the rate of flows, where it is above 1 %."""
    rows = np.flatnonzero(pace > 0.01)
    return pl.DataFrame({"link_id": network.link_id[rows // 2], "forward": rows % 2 == 0, "pace": pace[rows]})


def _steps(traffic: pl.DataFrame, raw: dict[str, Any]) -> pl.DataFrame:
    frame = traffic.select("job").with_columns(start_us=pl.Series(raw["start"]), finish_us=pl.Series(raw["finish"]))
    jobs = frame.group_by("job", maintain_order=True).agg(pl.col("start_us").min(), pl.col("finish_us").max())
    return conform("steps", jobs.with_columns(step=pl.lit(0)))


def _broken(network: Network, failures: list[Failure]) -> list[str]:
    """Return one sentence per failure: what it takes out or slows down, when, and which endpoints it cuts off."""
    said = []
    for row in describe(failures, network).iter_rows(named=True):
        what = [counted(row[name], name.removesuffix("s"), name) for name in ("nodes", "cables") if row[name]]
        state = f"at {row['share']:.0%} of the rate" if row["share"] else "out"
        when = f" from {row['at_us']:,.0f} us on" if row["at_us"] else ""
        lost = counted(row["endpoints"], "endpoint loses its", "endpoints lose their")
        cut = f"; {lost} last link" if row["endpoints"] else ""
        said.append(f"{row['text']}: {' and '.join(what)} {state}{when}{cut}")
    return said


def _goodput(options: FlowOptions) -> list[str]:
    """Return one sentence on the goodput constants and the runs that made them, when there are any."""
    if options.calibration is None:
        return []
    made = goodput_file()
    runs = f"packet engine {made.engine_version}, seed {made.seed}, {made.made_by}"
    return [options.calibration.sentence(runs, acknowledged=options.acknowledged)]


def _explain(
    network: Network,
    ops: Operations,
    run: Run,
    pace: NDArray[np.float64],
    raw: dict[str, Any],
) -> list[str]:
    said = []
    if pace.size and pace.max() > 0:
        worst = int(np.argmax(pace))
        alike = int(np.count_nonzero(pace >= pace[worst] * (1 - 1e-6)))
        ends = f"{network.node_name[int(network.link_src[worst])]} → {network.node_name[int(network.link_dst[worst])]}"
        others = f" (and {alike - 1:,} others as long)" if alike > 1 else ""
        said.append(f"{ends}{others} set the pace of its flows for {pace[worst]:.0%} of the time")
    relayed = int(np.count_nonzero(run.paths.relayed))
    if relayed:
        said.append(f"{relayed:,} flows take another GPU's adapter: their own leads nowhere")
    if raw["operations"] < ops.count:
        said.append(f"{ops.count:,} operations behave in {raw['operations']:,} ways, each computed once")
    if raw["skipped"]:
        said.append(f"{raw['skipped']:,} of {raw['repetitions']:,} repetitions were steady and skipped")
    return said


def _unfinished(
    network: Network, traffic: pl.DataFrame, ops: Operations, run: Run, raw: dict[str, Any]
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
