"""Time and memory of ``railwright build`` on the 1,024-GPU example: every device, every operating system.

Run with ``python -m bench.build``. Each operating system is rendered in a process of its own; the time is that of rendering
all files from the finished plan and of writing them, the memory the peak of the whole process with planning. The limit holds
for the processor's time, which other work on the machine does not lengthen; ``wall_s`` is beside it.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from railwright.build.render import render_plan
from railwright.cli.build import write_build
from railwright.cli.inputs import design_spec

EXAMPLE = Path(__file__).parent.parent / "examples" / "rail-optimized-1024.yaml"
SYSTEMS: dict[str, str | None] = {"sonic": None, "nvue": None, "eos": "7060x6-64pe", "frr": None}
"""Operating system and the platform to re-target to, where the example's own does not run it."""
LIMIT_S = 15.0


def measure(nos: str) -> dict[str, Any]:
    """Build the example for ``nos`` in this process; return seconds, peak memory and what was written."""
    plan = design_spec(EXAMPLE)
    start, busy = time.perf_counter(), time.process_time()
    made = render_plan(plan, (nos,), SYSTEMS[nos])
    rendered = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        write_build(made, Path(folder) / "configs")
        written, cpu = time.perf_counter(), time.process_time() - busy
    return {
        "nos": nos,
        "cpu_s": round(cpu, 3),
        "wall_s": round(written - start, 3),
        "render_wall_s": round(rendered - start, 3),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 3),
        "files": len(made.files),
        "bytes": sum(map(len, made.files.values())),
    }


def main() -> int:
    """Measure every operating system and print one JSON document; exit code 1 when one takes more than LIMIT_S."""
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
        return 0
    rows: list[dict[str, Any]] = []
    for nos in SYSTEMS:
        made = subprocess.run([sys.executable, "-m", "bench.build", nos], capture_output=True, text=True, check=True)
        rows.append(json.loads(made.stdout))
    missed = [f"{row['nos']}: {row['cpu_s']} s" for row in rows if row["cpu_s"] > LIMIT_S]
    print(json.dumps({"limit_s": LIMIT_S, "rows": rows, "missed": missed}, indent=1))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
