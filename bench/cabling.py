"""Speed and memory of cabling, and how they grow with the number of links.

Run with ``python -m bench.cabling``. Every size runs in a process of its own; the time is that of ``cable_plan`` (media, routes,
cables, ends, modules, bill of materials) after the design, the memory the peak of the whole process. The exponent is the slope
of log(time) over log(links) between the sizes of SCALING, after the fixed cost of reading the catalog. No link may be left
without a cable and its reason.
"""

import json
import math
import resource
import subprocess
import sys
import time
from typing import Any

import polars as pl

from railwright.catalog.load import load_catalog
from railwright.design.cabling import cable_plan
from railwright.design.design import design_plan
from railwright.spec.cluster import ClusterSpec

SIZES = (4096, 16384, 65536, 100_000)
SCALING = (16384, 65536, 100_000)
TARGETS = {100_000: (60.0, 8.0)}
"""Most seconds (design and cabling) and GiB by size."""
MOST_EXPONENT = 1.2


def measure(gpus: int) -> dict[str, Any]:
    """Design and cable ``gpus`` GPUs in this process; return seconds, peak memory and rows."""
    spec = ClusterSpec.model_validate({"name": "bench", "cluster": {"gpus": gpus, "server": "hgx-h100"}})
    catalog = load_catalog()
    start = time.perf_counter()
    plan = design_plan(spec, catalog)
    designed = time.perf_counter()
    cabled = cable_plan(plan)
    end = time.perf_counter()
    cables = cabled.table("cables")
    return {
        "gpus": gpus,
        "design_s": round(designed - start, 3),
        "cable_s": round(end - designed, 3),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 3),
        "links": len(cabled.links),
        "cables": len(cables),
        "modules": len(cabled.table("modules")),
        "links_without_cable": cabled.links["cable_id"].null_count(),
        "cables_without_part": len(cables.filter(pl.col("part").is_null())),
        "cables_unexplained": len(cables.filter(pl.col("reason").fill_null("") == "")),
    }


def exponent(rows: list[dict[str, Any]]) -> float:
    """Return the least-squares slope of log(cable_s) over log(links) for the sizes of SCALING."""
    points = [(math.log(row["links"]), math.log(row["cable_s"])) for row in rows if row["gpus"] in SCALING]
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
            [sys.executable, "-m", "bench.cabling", str(gpus)], capture_output=True, text=True, check=True
        )
        rows.append(json.loads(made.stdout))
    missed = []
    for row in rows:
        seconds, gib = TARGETS.get(row["gpus"], (math.inf, math.inf))
        if row["design_s"] + row["cable_s"] > seconds or row["peak_gib"] > gib:
            missed.append(f"{row['gpus']} GPUs: {row['design_s'] + row['cable_s']:.1f} s, {row['peak_gib']} GiB")
        if row["links_without_cable"] or row["cables_without_part"] or row["cables_unexplained"]:
            missed.append(f"{row['gpus']} GPUs: links without cable, part or reason")
    slope = round(exponent(rows), 3)
    if slope > MOST_EXPONENT:
        missed.append(f"exponent {slope}")
    print(json.dumps({"rows": rows, "exponent": slope, "missed": missed}, indent=1))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
