"""Memory of the packet engine per flow, and how runs side by side use the cores: ``python -m bench.packet_memory``."""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
from bench.packet_cases import leaf_spine, permutation, sends

from railwright.simulate.packet.engine import simulate_packets
from railwright.simulate.packet.options import rocev2

FLOWS = 400_000
ROUNDS = 5
"""Other work on the machine hurts the two threads more than the one: the best of each counts."""


def _grown_bytes(active: bool) -> float:
    """Return bytes per flow that a run adds beyond a small one: all flows open at once, or waiting for their turn."""
    network = leaf_spine(128, 8)
    src = np.arange(FLOWS) % 128
    dst = (src + 1 + np.arange(FLOWS) // 128 % 127) % 128
    traffic = sends(src, dst, 100.0).with_columns(
        start_us=pl.lit(0.0) if active else pl.Series(np.arange(FLOWS) * 0.05)
    )
    simulate_packets(network, traffic.head(1000), rocev2())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    simulate_packets(network, traffic, rocev2())
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / FLOWS


def _side_by_side() -> float:
    """Return how many times faster two runs in two threads are than one after the other, best of several in turn."""
    network, traffic = leaf_spine(128, 8), permutation(128, 8, 16e6)

    def one(seed: int) -> float:
        return simulate_packets(network, traffic, rocev2(), seed).flows["finish_us"].max()  # type: ignore[return-value]

    def wall_s(run: Callable[[], object]) -> float:
        began = time.perf_counter()
        run()
        return time.perf_counter() - began

    with ThreadPoolExecutor(2) as pool:
        rounds = [
            (wall_s(lambda: [one(1), one(2)]), wall_s(lambda: list(pool.map(one, (1, 2))))) for _ in range(ROUNDS)
        ]
    after, beside = (min(times) for times in zip(*rounds, strict=True))
    return after / beside


def main() -> None:
    """Print bytes per flow (columns handed to the engine and those it hands back included) and the gain of two threads."""
    if len(sys.argv) > 1:
        print(json.dumps(_grown_bytes(sys.argv[1] == "active")))
        return
    for kind in ("active", "waiting"):
        child = [sys.executable, "-m", "bench.packet_memory", kind]
        grown = json.loads(subprocess.run(child, capture_output=True, text=True, check=True).stdout)
        print(f"{kind} flows: {grown:.0f} bytes each, columns of the tables included")
    print(f"two runs in two threads: {_side_by_side():.2f} times as fast as one after the other")


if __name__ == "__main__":
    main()
