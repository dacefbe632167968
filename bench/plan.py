"""Speed and memory of planning, and how they grow with the number of GPUs.

Run with ``python -m bench.plan``. Every size runs in a process of its own, so that its memory is its own; the time is that
of ``design_plan`` with all networks, placement and addresses (no cabling), the memory the peak of the whole process. The
exponent is the slope of log(time) over log(GPUs) between the sizes of SCALING.
"""

import json
import math
import resource
import subprocess
import sys
import time
from itertools import pairwise
from typing import Any

from railwright.catalog.load import load_catalog
from railwright.design.design import design_plan
from railwright.design.summary import summarise
from railwright.spec.cluster import ClusterSpec

SIZES = (1024, 4096, 16384, 65536, 100_000)
SCALING = (1024, 4096, 16384, 65536)
TARGETS = {4096: (2.0, None), 100_000: (20.0, 4.0)}
"""Most seconds and GiB by size."""


def measure(gpus: int) -> dict[str, Any]:
    """Plan ``gpus`` GPUs in this process; return seconds, peak memory and rows."""
    spec = ClusterSpec.model_validate({"name": "bench", "cluster": {"gpus": gpus, "server": "hgx-h100"}})
    catalog = load_catalog()
    steps: list[tuple[str, float]] = []
    start = time.perf_counter()
    plan = design_plan(spec, catalog, lambda step: steps.append((step, time.perf_counter())))
    end = time.perf_counter()
    marks = [*steps, ("", end)]
    summary_start = time.perf_counter()
    networks = summarise(plan)["networks"]
    return {
        "gpus": gpus,
        "plan_s": round(end - start, 3),
        "steps_s": {step: round(after - at, 3) for (step, at), (_, after) in pairwise(marks)},
        "summary_s": round(time.perf_counter() - summary_start, 3),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 3),
        "devices": len(plan.devices),
        "links": {name: network["links"] for name, network in networks.items()},
        "addresses": len(plan.addresses),
    }


def exponent(rows: list[dict[str, Any]]) -> float:
    """Return the least-squares slope of log(plan_s) over log(gpus) for the sizes of SCALING."""
    points = [(math.log(row["gpus"]), math.log(row["plan_s"])) for row in rows if row["gpus"] in SCALING]
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def main() -> int:
    """Measure every size and print one JSON document; exit code 1 when a target is missed."""
    if len(sys.argv) > 1:
        print(json.dumps(measure(int(sys.argv[1]))))
        return 0
    rows: list[dict[str, Any]] = []
    for gpus in SIZES:
        made = subprocess.run(
            [sys.executable, "-m", "bench.plan", str(gpus)], capture_output=True, text=True, check=True
        )
        rows.append(json.loads(made.stdout))
    missed = [
        f"{row['gpus']} GPUs: {row['plan_s']} s, {row['peak_gib']} GiB"
        for row in rows
        for seconds, gib in (TARGETS.get(row["gpus"], (None, None)),)
        if (seconds is not None and row["plan_s"] > seconds) or (gib is not None and row["peak_gib"] > gib)
    ]
    print(json.dumps({"rows": rows, "exponent": round(exponent(rows), 3), "missed": missed}, indent=1))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
