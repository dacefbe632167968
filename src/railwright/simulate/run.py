"""One collective on a plan with one engine: the function behind ``railwright simulate``.

The three engines get the same network, placement and traffic; the analytic one needs only the closed form. What differs
between them is what they can see: single links (flow), queues and packets (packet).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import polars as pl

from railwright.design.plan import Plan
from railwright.errors import InputError, nearest
from railwright.simulate.analytic import Library, simulate_analytic
from railwright.simulate.flow.engine import FlowOptions, simulate_flows
from railwright.simulate.goodput import goodput_share
from railwright.simulate.host_limits import limit_hosts
from railwright.simulate.library import bounced_gbps, cross_rail_of, queue_pairs_of, taken
from railwright.simulate.network import Network
from railwright.simulate.packet.on_plan import PacketExtras, Pinned, simulate_plan_packets
from railwright.simulate.path_file import read_paths
from railwright.simulate.plan_goodput import plan_goodput, plan_paths
from railwright.simulate.plan_network import network_from_plan, placement_of
from railwright.simulate.results import EngineResult, SimulationResult
from railwright.workload.collectives import bus_factor, collective_name, collective_traffic
from railwright.workload.nccl.choose import NO_VARIABLES
from railwright.workload.nccl.environment import Environment

Engine = Literal["analytic", "flow", "packet"]
ENGINES: tuple[Engine, ...] = ("analytic", "flow", "packet")
BOTTLENECKS = 5
"""How many of the most used links a result names."""

HIT = 1.02
"""An endpoint is hit by a failure when one of its flows ends this many times as late."""

NAMED_HIT = 8
"""How many of the endpoints that are hit a result names."""

PATHS = ("ecmp", "spray", "adaptive", "flowlet", "rail")


def simulate_collective(
    plan: Plan,
    collective: str,
    size_bytes: float,
    ranks: int | list[int] | None = None,
    engine: str = "analytic",
    *,
    algorithm: str | None = None,
    paths: str | None = None,
    fail: Sequence[str] = (),
    seed: int | None = None,
    iterations: int = 1,
    background: Sequence[str] = (),
    sample_us: float = 0.0,
    reroute_us: float = 0.0,
    environment: Environment = NO_VARIABLES,
) -> SimulationResult:
    """Run ``collective`` with nccl-tests' ``size_bytes`` over the backend of ``plan``.

    ``ranks`` is a count from GPU 0 or a list of global GPU ids (default: all). ``paths`` is one of ``PATHS`` (default: the
    plan's load balancing) or a file (see `path_file`). ``fail`` lists failures (see `failures`); traffic leaves a path that
    breaks during the run ``reroute_us`` later. ``seed`` (default: the spec's) sets hashes and random marks. With the packet
    engine only: ``iterations`` one after another, whose mean is the time and whose spread is the jitter; ``background`` load
    (see `workload.background`); ``sample_us`` between two looks at all queues. ``environment``: the job's NCCL variables, of
    which count those of algorithm, protocol, channels, adapters of a ring (NCCL_CROSS_NIC), PXN, queue pairs (engine flow) and
    GPUDirect RDMA. Raises InputError that names what is wrong.
    """
    if engine not in ENGINES:
        raise InputError(
            f"engine {engine!r} is unknown{nearest(engine, ENGINES)}; choose one of {', '.join(ENGINES)}", key="engine"
        )
    path_file = _path_file(paths)
    if engine != "packet" and (iterations != 1 or background or sample_us):
        raise InputError("iterations, background load and series of queues need engine packet", key="engine")
    name = collective_name(collective)
    placement = placement_of(plan, ranks)
    runs = taken(plan, name, size_bytes, placement, environment, algorithm)
    chosen, bounced = runs.algorithm, bounced_gbps(plan, placement, environment)
    way = paths if paths and not path_file else plan_paths(plan)
    used_seed = plan.spec.seed if seed is None else seed
    pairs = queue_pairs_of(plan, environment, None if path_file else paths) if engine == "flow" else 1
    hit: dict[str, Any] | None = None
    library = Library(runs.channels, environment.cross_nic, bounced)
    if engine == "analytic":
        if path_file:
            raise InputError("the analytic engine knows no single path; use engine flow or packet", key="paths")
        if fail:
            raise InputError(
                "the analytic engine knows no single link; simulate failures with engine flow or packet", key="fail"
            )
        result, _ = simulate_analytic(plan, name, size_bytes, placement, chosen, library)
        bottleneck: tuple[dict[str, Any], ...] = ()
    else:
        network = network_from_plan(plan, exact_lengths=engine == "packet")
        if bounced is not None:
            network = limit_hosts(network, placement.gpu, bounced)
        traffic = collective_traffic(
            name,
            size_bytes,
            placement,
            algorithm=chosen,
            channels=runs.channels,
            cross_rail=cross_rail_of(plan, environment),
            cross_nic=environment.cross_nic,
        )
        expected, _ = (
            simulate_analytic(plan, name, size_bytes, placement, chosen, library) if background else (None, None)
        )
        result = run_engine(
            plan,
            network,
            traffic,
            engine,
            paths=way,
            seed=used_seed,
            fail=fail,
            reroute_us=reroute_us,
            queue_pairs=pairs,
            pinned=read_paths(path_file, network, traffic) if path_file else None,
            packet=PacketExtras(iterations, tuple(background), expected.finish_us if expected else 0.0, sample_us),
        )
        bottleneck = bottlenecks(network, result)
        if fail and engine == "flow" and not path_file:
            whole = run_engine(plan, network, traffic, engine, paths=way, seed=used_seed, queue_pairs=pairs)
            hit = who_is_hit(network, whole.flows, result.flows)
    time_us = result.finish_us / iterations
    algbw = size_bytes / time_us / 1e3 if time_us else 0.0
    return SimulationResult(
        setting={
            "collective": name,
            "algorithm": chosen,
            "protocol": runs.protocol,
            "channels": runs.channels,
            "cross_nic": environment.cross_nic if chosen in ("ring", "ring-flat") else None,
            "queue_pairs": None if engine == "analytic" else pairs,
            "size_bytes": size_bytes,
            "ranks": placement.ranks,
            "engine": engine,
            "paths": None if engine == "analytic" else str(path_file or way),
            "fail": list(fail),
            "reroute_us": reroute_us,
            "without_failures": hit,
            "iterations": iterations,
            "background": list(background),
            "seed": used_seed,
            "variables": dict(environment.variables),
            "remarks": list(environment.remarks),
        },
        time_us=time_us,
        algbw_gbytes_s=algbw,
        busbw_gbytes_s=algbw * bus_factor(name, placement.ranks),
        engine=result,
        bottleneck=bottleneck,
    )


def _path_file(paths: str | None) -> Path | None:
    """Return the file that ``paths`` names, None for a path mode; raises InputError for neither."""
    if paths is None or paths in PATHS:
        return None
    file = Path(paths)
    if file.suffix or file.exists():
        return file
    raise InputError(
        f"path mode {paths!r} is unknown{nearest(paths, PATHS)}; choose one of {', '.join(PATHS)}, or name a CSV file",
        key="paths",
    )


def run_engine(
    plan: Plan,
    network: Network,
    traffic: pl.DataFrame,
    engine: str,
    *,
    paths: str,
    seed: int,
    fail: Sequence[str] = (),
    reroute_us: float = 0.0,
    queue_pairs: int = 1,
    pinned: Pinned | None = None,
    packet: PacketExtras = PacketExtras(),
) -> EngineResult:
    """Run ``traffic`` over ``network`` with the flow or the packet engine and the settings of ``plan``'s transport.

    ``pinned`` are paths as of `routing.route`; ``queue_pairs`` of a connection: flow engine only; ``packet`` is what only that
    engine can do.
    """
    if engine == "flow":
        options = FlowOptions(
            goodput=goodput_share(plan.spec.backend.transport),
            calibration=plan_goodput(plan, paths),
            paths=paths,
            queue_pairs=queue_pairs,
            fail=tuple(fail),
            reroute_us=reroute_us,
        )
        return simulate_flows(network, traffic, options, seed, pinned=pinned)
    return simulate_plan_packets(
        plan, network, traffic, paths, seed, fail=fail, pinned=pinned, packet=packet, reroute_us=reroute_us
    )


def who_is_hit(network: Network, whole: pl.DataFrame, broken: pl.DataFrame) -> dict[str, Any]:
    """Return ``{"time_us", "slowdown", "endpoints", "hit", "names"}``: the run without failures against the one with them.

    ``hit`` counts the ``endpoints`` that send and of which some flow ends more than `HIT` times as late, or never; ``names``
    are those whose flows are late the most, at most `NAMED_HIT`. ``slowdown`` is None when not all ends.
    """
    late = (
        whole.select("op_id", "src", before="finish_us")
        .join(broken.select("op_id", "finish_us"), on="op_id", how="left")
        .with_columns(ratio=(pl.col("finish_us") / pl.col("before")).fill_null(float("inf")))
        .group_by("src")
        .agg(pl.col("ratio").max())
        .sort("ratio", "src", descending=[True, False])
    )
    hit = late.filter(pl.col("ratio") > HIT)
    before, after = _end_us(whole), _end_us(broken)
    return {
        "time_us": before,
        "slowdown": after / before if before and after else None,
        "endpoints": late.height,
        "hit": hit.height,
        "names": network.node_name.gather(hit["src"].head(NAMED_HIT)).to_list(),
    }


def _end_us(flows: pl.DataFrame) -> float | None:
    """Return when the last of ``flows`` ends; None when not all do."""
    ends = flows["finish_us"].drop_nulls().to_numpy()
    return float(ends.max()) if ends.size and ends.size == flows.height else None


def bottlenecks(network: Network, result: EngineResult, most: int = BOTTLENECKS) -> tuple[dict[str, Any], ...]:
    """Return the directions of links that held the run up: ``{"from", "to", "link_id", "util", "bytes", "pace"}``, worst first.

    ``pace`` is the share of the time for which the link set the rate of flows; the flow engine knows it and is ordered by it.
    Where it is None the most used links come first.
    """
    ends = pl.DataFrame(
        {
            "link_id": network.link_id.repeat(2),
            "forward": [True, False] * len(network.link_id),
            "from": network.node_name.gather(network.link_src),
            "to": network.node_name.gather(network.link_dst),
        }
    )
    none = pl.DataFrame(schema={"link_id": pl.UInt32, "forward": pl.Boolean, "pace": pl.Float64})
    pace = result.details.get("pace", none)
    used = result.links_used.filter(pl.col("bytes") > 0).join(pace, on=["link_id", "forward"], how="left")
    top = used.sort(
        ["pace", "util", "bytes", "link_id", "forward"], descending=[True, True, True, False, True], nulls_last=True
    )
    named = top.head(most).join(ends, on=["link_id", "forward"], how="left", maintain_order="left")
    return tuple(named.select("from", "to", "link_id", "util", "bytes", "pace").iter_rows(named=True))
