"""Speed of the packet engine: data packet-hops per CPU second, recomputed from the flows, CPU from the operating system.

Run with ``python -m bench.packet [name …]``. Every case runs in a process of its own, so that its memory is its own. Data
packet-hops are recounted from ``flows.csv`` and the shortest paths of the leaf-spine, two links inside a leaf and four
between leaves, without a word of the engine; CPU seconds are those of the child process between two ``getrusage`` calls
around the run, preparation of the tables included. Exit code 1 when a bar is missed.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from bench.packet_cases import all_to_all, leaf_spine, permutation

from railwright.simulate.packet.engine import simulate_packets
from railwright.simulate.packet.options import rocev2


@dataclass(frozen=True)
class Case:
    """One row of the table: hosts, hosts per leaf, traffic, packets per acknowledgement, payload, target in M hops/s."""

    hosts: int
    per_leaf: int
    traffic: str
    size_bytes: float
    ack_every: int
    mtu_bytes: int = 4096
    target: float = 0.0
    most_cpu_s: float = float("inf")
    most_mb: float = float("inf")


CASES: dict[str, Case] = {
    "128-all-to-all": Case(128, 8, "all-to-all", 262144, 1, target=2.0),
    "128-permutation": Case(128, 8, "permutation", 32e6, 1, target=2.0),
    "1024-permutation": Case(1024, 32, "permutation", 4e6, 1, target=1.0),
    "2048-permutation": Case(2048, 32, "permutation", 2e6, 1, target=0.8),
    "128-all-to-all-ack16": Case(128, 8, "all-to-all", 262144, 16, target=4.0),
    "128-permutation-ack16": Case(128, 8, "permutation", 32e6, 16, target=4.0),
    "1024-permutation-ack16": Case(1024, 32, "permutation", 4e6, 16, target=1.5),
    "128-all-to-all-1000B": Case(128, 8, "all-to-all", 128_000, 1, mtu_bytes=1000, most_cpu_s=4.0, most_mb=200.0),
}


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def run(name: str) -> dict[str, float]:
    """Run one case in this process and return its figures."""
    case = CASES[name]
    network = leaf_spine(case.hosts, case.per_leaf)
    makers: dict[str, Callable[[], object]] = {
        "all-to-all": lambda: all_to_all(case.hosts, case.size_bytes),
        "permutation": lambda: permutation(case.hosts, case.per_leaf, case.size_bytes),
    }
    traffic = makers[case.traffic]()
    options = rocev2(ack_every=case.ack_every, mtu_bytes=case.mtu_bytes)
    before_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    began, cpu = time.perf_counter(), _cpu_s()
    result = simulate_packets(network, traffic, options, 1)
    cpu, wall = _cpu_s() - cpu, time.perf_counter() - began
    assert result.diagnosis is None, result.diagnosis
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "flows.csv"
        result.flows.write_csv(file)
        flows = pl.read_csv(file)
    packets = np.ceil(flows["bytes"].to_numpy() / case.mtu_bytes)
    leaf = {end: flows[end].to_numpy() // case.per_leaf for end in ("src", "dst")}
    hops = float((packets * np.where(leaf["src"] == leaf["dst"], 2, 4)).sum())
    assert flows["finish_us"].null_count() == 0
    assert hops == result.counters["data_packet_hops"], "the engine miscounts its hops"
    return {
        "hosts": case.hosts,
        "data_packets": float(packets.sum()),
        "data_packet_hops": hops,
        "events": result.counters["events"],
        "cpu_s": cpu,
        "wall_s": wall,
        "mhops_per_cpu_s": hops / cpu / 1e6,
        "all_mhops_per_cpu_s": result.counters["packet_hops"] / cpu / 1e6,
        "target": case.target,
        "max_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "grown_mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before_bytes) / 1e6,
        "pause_frames": result.counters["pause_frames"],
        "ecn_marks": result.counters["ecn_marks"],
        "cnps": result.counters["cnps"],
        "last_us": float(flows["finish_us"].max()),  # type: ignore[arg-type]
    }


def main(arguments: list[str]) -> int:
    """Print the table of the named cases, or of all; return 1 when a bar was missed."""
    if arguments[:1] == ["--child"]:
        print(json.dumps(run(arguments[1])))
        return 0
    titles = (("packets", 10), ("hops", 12), ("CPU s", 8), ("M hops/s", 9), ("+acks", 7), ("target", 7), ("MB", 6))
    print(f"{'case':<24}" + "".join(f"{title:>{width}}" for title, width in (*titles, ("pauses", 8), ("marks", 9))))
    missed = []
    for name in arguments or CASES:
        child = subprocess.run(
            [sys.executable, "-m", "bench.packet", "--child", name], capture_output=True, text=True, check=True
        )
        row = json.loads(child.stdout)
        print(
            f"{name:<24}{row['data_packets']:>10.0f}{row['data_packet_hops']:>12.0f}{row['cpu_s']:>8.2f}"
            f"{row['mhops_per_cpu_s']:>9.2f}{row['all_mhops_per_cpu_s']:>7.2f}{row['target']:>7.1f}{row['max_rss_mb']:>6.0f}"
            f"{row['pause_frames']:>8}{row['ecn_marks']:>9}",
            flush=True,
        )
        case = CASES[name]
        if row["mhops_per_cpu_s"] < case.target or row["cpu_s"] > case.most_cpu_s or row["max_rss_mb"] > case.most_mb:
            missed.append(name)
    if missed:
        print(f"bar missed: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
