"""Speed of the flow engine, and its ratio to SimGrid on the same flows, links and paths.

Run with ``python -m bench.flow [name …]``. Every case runs in a process of its own, so that its memory is its own. Collectives
are timed from the plan on (traffic, paths, engine and result tables; the design of the plan is not counted), concurrent flows
as the native engine's CPU time, like SimGrid's. SimGrid is compared with when it is installed (Debian: ``apt-get install
libsimgrid-dev``; 3.32 there); both must agree on the simulated end to one part in 10^6. Exactness: the largest relative
difference of any rate from a full computation, measured at every tenth event in a run of its own.
"""

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from railwright.catalog.load import load_catalog
from railwright.design.design import design_plan
from railwright.simulate.flow.engine import FlowOptions, simulate_flows
from railwright.simulate.network import HOST, SWITCH, Network
from railwright.simulate.routing import flow_entropy, route
from railwright.simulate.run import simulate_collective
from railwright.spec.cluster import ClusterSpec
from railwright.tables import conform

SEED = 1


@dataclass(frozen=True)
class Collective:
    """A collective of 1 GiB on a rail-optimized fabric of ``gpus`` B200 GPUs, to be done in ``target_s`` CPU seconds."""

    name: str
    gpus: int
    target_s: float
    algorithm: str | None = None
    paths: str | None = None


@dataclass(frozen=True)
class Concurrent:
    """Flows that all start at once on 128 hosts below ``leaves`` leaves with ``spines`` spines (none: one switch).

    ``target`` is in thousands of flows per CPU second; ``simgrid`` False leaves out what takes it minutes.
    """

    leaves: int
    spines: int
    traffic: str
    target: float
    simgrid: bool = True


COLLECTIVES = {
    "all-reduce-1024": Collective("all-reduce", 1024, 0.2),
    "all-reduce-16384": Collective("all-reduce", 16384, 2.0),
    "all-to-all-1024": Collective("all-to-all", 1024, 5.0),
    "all-to-all-1024-ecmp": Collective("all-to-all", 1024, 5.0, paths="ecmp"),
    "all-reduce-100000-hierarchical": Collective("all-reduce", 100_000, 20.0, algorithm="hierarchical"),
}
CONCURRENT = {
    "2036-random-star": Concurrent(1, 0, "random", 60.0),
    "2036-random-leaf-spine": Concurrent(16, 8, "random", 60.0),
    "2036-random-2:1": Concurrent(16, 4, "random", 60.0),
    "128-all-to-all-star": Concurrent(1, 0, "all-to-all", 80.0),
    "128-all-to-all-leaf-spine": Concurrent(16, 8, "all-to-all", 80.0),
    "128-all-to-all-unequal": Concurrent(16, 8, "all-to-all-unequal", 0.0, simgrid=False),
}
RATIO = 50.0
"""Times SimGrid's rate that both kinds of concurrent flows are to reach."""


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def run_collective(case: Collective) -> dict[str, float | str]:
    """Run one collective in this process and return its figures."""
    spec = {
        "name": "bench",
        "cluster": {"gpus": case.gpus, "server": "hgx-b200"},
        "backend": {"topology": "rail-optimized"},
    }
    plan = design_plan(ClusterSpec.model_validate(spec), load_catalog())
    began, cpu = time.perf_counter(), _cpu_s()
    result = simulate_collective(
        plan, case.name, 2.0**30, engine="flow", algorithm=case.algorithm, paths=case.paths, seed=SEED
    )
    cpu, wall = _cpu_s() - cpu, time.perf_counter() - began
    counters = result.engine.counters
    return {
        "algorithm": str(result.setting["algorithm"]),
        "flows": result.engine.flows.height,
        "sends": counters["repetitions"] or 0.0,
        "computed": (counters["repetitions"] or 0.0) - (counters["skipped"] or 0.0),
        "time_us": result.time_us,
        "cpu_s": cpu,
        "wall_s": wall,
        "target_s": case.target_s,
        "peak_mb": _peak_mb(),
    }


def fabric(leaves: int, spines: int) -> Network:
    """Return 128 hosts of 400G below ``leaves`` leaves, each with one 400G cable to every spine; nothing takes time to cross."""
    host, leaf = np.arange(128), 128 + np.arange(leaves)
    a = np.concatenate([host, np.repeat(leaf, spines)])
    b = np.concatenate([128 + host * leaves // 128, np.tile(128 + leaves + np.arange(spines), leaves)])
    nodes = 128 + leaves + spines
    return Network(
        node_name=pl.Series([f"n{i}" for i in range(nodes)]),
        node_kind=np.where(np.arange(nodes) < 128, HOST, SWITCH).astype(np.uint8),
        node_buffer_bytes=np.zeros(nodes),
        node_latency_ns=np.zeros(nodes),
        link_src=np.column_stack([a, b]).ravel().astype(np.int32),
        link_dst=np.column_stack([b, a]).ravel().astype(np.int32),
        link_gbps=np.full(2 * a.size, 400.0),
        link_delay_ns=np.zeros(2 * a.size),
        link_id=np.arange(a.size, dtype=np.uint32),
    )


def concurrent_flows(case: Concurrent) -> tuple[Network, pl.DataFrame]:
    """Return network and traffic of ``case``."""
    rng = np.random.default_rng(SEED)
    if case.traffic == "random":
        src = rng.integers(0, 128, 2036)
        dst = (src + rng.integers(1, 128, src.size)) % 128
        load = rng.uniform(1e5, 1e7, src.size)
    else:
        src, dst = (side[~np.eye(128, dtype=bool).ravel()] for side in np.divmod(np.arange(128 * 128), 128))
        load = np.full(src.size, 1e6) if case.traffic == "all-to-all" else rng.uniform(1e5, 1e7, src.size)
    rows = pl.DataFrame({"op_id": np.arange(src.size), "src": src, "dst": dst, "bytes": load}).with_columns(
        kind=pl.lit("send"), start_us=pl.lit(0.0), repeat=pl.lit(1), job=pl.lit("bench"), **{"class": pl.lit("data")}
    )
    return fabric(case.leaves, case.spines), conform("traffic", rows)


def run_concurrent(case: Concurrent) -> dict[str, float | None]:
    """Run concurrent flows in this process, and SimGrid on the same when it is there; return the figures."""
    network, traffic = concurrent_flows(case)
    src, dst = traffic["src"].to_numpy().astype(np.int32), traffic["dst"].to_numpy().astype(np.int32)
    # One path per pair, as SimGrid has it.
    entropy = flow_entropy(pl.Series(src.astype(np.int64) * 128 + dst), SEED)
    paths = route(network, src, dst, entropy=entropy, seed=SEED)
    options = FlowOptions(fold=False)
    runs = [simulate_flows(network, traffic, options, SEED, pinned=paths) for _ in range(3)]
    engine_s = min(run.counters["engine_cpu_s"] or 0.0 for run in runs)
    audited = simulate_flows(network, traffic, replace(options, audit_every=10), SEED, pinned=paths)
    peer = simgrid(network, traffic, paths) if case.simgrid else None
    if peer is not None:
        assert abs(peer[0] / runs[0].finish_us - 1) < 1e-6, "SimGrid comes to another end"
    return {
        "flows": traffic.height,
        "cpu_s": engine_s,
        "kflows_per_cpu_s": traffic.height / engine_s / 1e3,
        "target": case.target,
        "simgrid_kflows_per_cpu_s": traffic.height / peer[1] / 1e3 if peer else None,
        "ratio": peer[1] / engine_s if peer else None,
        "largest_error": audited.counters["audit"],
        "peak_mb": _peak_mb(),
    }


def simgrid(
    network: Network, traffic: pl.DataFrame, paths: tuple[np.ndarray, np.ndarray]
) -> tuple[float, float] | None:
    """Return (simulated end in us, CPU seconds) of SimGrid, or None when it is not installed."""
    compiler = shutil.which("g++")
    if compiler is None or not Path("/usr/include/simgrid/s4u.hpp").exists():
        return None
    offset, link = paths
    lines = [f"{network.hosts} {network.link_gbps.size} {traffic.height}"]
    lines += [f"{gbps * 125e6:.17g}" for gbps in network.link_gbps]
    for i, (src, dst, amount) in enumerate(traffic.select("src", "dst", "bytes").iter_rows()):
        hops = link[offset[i] : offset[i + 1]].tolist()
        lines.append(" ".join(map(str, (src, dst, repr(amount), len(hops), *hops))))
    model = ["network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0"]
    with tempfile.TemporaryDirectory() as directory:
        program, file = Path(directory) / "simgrid", Path(directory) / "flows.txt"
        source = Path(__file__).with_name("flow_simgrid.cpp")
        subprocess.run([compiler, "-O2", "-std=c++17", source, "-o", program, "-lsimgrid"], check=True)
        file.write_text("\n".join(lines))
        done = subprocess.run(
            [program, file, *(f"--cfg={key}" for key in model), "--log=root.thres:error"],
            check=True,
            capture_output=True,
            text=True,
        )
    end_us, cpu_s = done.stdout.split()
    return float(end_us), float(cpu_s)


def main(arguments: list[str]) -> int:
    """Print the tables of the named cases, or of all; return 1 when a target is missed."""
    if arguments[:1] == ["--child"]:
        name = arguments[1]
        print(
            json.dumps(run_collective(COLLECTIVES[name]) if name in COLLECTIVES else run_concurrent(CONCURRENT[name]))
        )
        return 0
    missed = []
    names = arguments or [*COLLECTIVES, *CONCURRENT]
    for name in names:
        child = subprocess.run(
            [sys.executable, "-m", "bench.flow", "--child", name], capture_output=True, text=True, check=True
        )
        row = json.loads(child.stdout)
        if name in COLLECTIVES:
            print(
                f"{name:<32}{row['algorithm']:<14}{row['flows']:>9,} rows {row['sends']:>13,.0f} sends, "
                f"{row['computed']:>9,.0f} computed: {row['cpu_s']:.2f} CPU s, {row['wall_s']:.2f} s "
                f"(target {row['target_s']:g}), {row['peak_mb']:,.0f} MB",
                flush=True,
            )
            slow = row["cpu_s"] > row["target_s"]
        else:
            ratio = (
                f"{row['ratio']:.0f} x SimGrid's {row['simgrid_kflows_per_cpu_s']:.1f}"
                if row["ratio"]
                else "no SimGrid"
            )
            print(
                f"{name:<32}{row['flows']:>9,} flows: {row['kflows_per_cpu_s']:,.0f} k flows per CPU s "
                f"(target {row['target']:g}), {ratio}, rates exact to {row['largest_error']:.0e}, {row['peak_mb']:,.0f} MB",
                flush=True,
            )
            slow = row["kflows_per_cpu_s"] < row["target"] or (row["ratio"] is not None and row["ratio"] < RATIO)
        if slow:
            missed.append(name)
    print(f"missed: {', '.join(missed) or 'none'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
