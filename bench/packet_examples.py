"""The packet engine on the examples: collectives x path modes x transports, as the table of docs/packet.md.

``python -m bench.packet_examples [128|1024 …] [--out FILE.jsonl]``. Every row is one ``railwright simulate --engine packet`` in
a process of its own, and CPU time and memory are what the operating system says of that process; rows that the file has
already are not run again. The InfiniBand plans are the same specs with ``transport: infiniband`` and switches of 64 x 400G
for it. ``all-to-all, PXN off`` sends across rails over the spines (``cross_rail: network``). A run that takes longer than
an hour is stopped and the row says so.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from itertools import product
from pathlib import Path

import polars as pl

EXAMPLES = {"128": "rail-only-128.yaml", "1024": "rail-optimized-1024.yaml"}
PXN_OFF = "all-to-all, PXN off"
COLLECTIVES = {"128": ("all-reduce", "all-to-all"), "1024": ("all-reduce", "all-to-all", PXN_OFF)}
TRANSPORTS = ("rocev2", "infiniband")
PATHS = ("ecmp", "spray", "adaptive", "rail")
SIZE = "64MiB"
LONGEST_S = 3600
_RAILWRIGHT = (sys.executable, "-m", "railwright")
_ROOT = Path(__file__).resolve().parent.parent


def plan_of(example: str, transport: str, folder: Path, *, pxn: bool) -> Path:
    """Write the plan of an example for ``transport`` into ``folder`` and return its path."""
    text = (_ROOT / "examples" / EXAMPLES[example]).read_text(encoding="utf-8")
    if transport == "infiniband":
        text = text.replace("transport: rocev2", "transport: infiniband").replace("switch: sn5400", "switch: qm9700")
    if not pxn:
        text = text.replace("workload:\n", "workload:\n  cross_rail: network\n")
    name = f"{example}-{transport}{'' if pxn else '-no-pxn'}"
    spec, plan = folder / f"{name}.yaml", folder / name
    if not plan.exists():
        spec.write_text(text, encoding="utf-8")
        subprocess.run([*_RAILWRIGHT, "plan", str(spec), "-o", str(plan), "-q"], check=True, capture_output=True)
    return plan


def run(plan: Path, collective: str, paths: str, folder: Path) -> dict[str, object]:
    """Run the command and return its result with the CPU seconds and memory of its process."""
    out, told = folder / "result", folder / "stderr"
    command = [*_RAILWRIGHT, "simulate", str(plan), "--engine", "packet", "--collective", collective, "--size", SIZE]
    with told.open("w") as errors:
        child = subprocess.Popen(
            [*command, "--paths", paths, "-o", str(out), "-q"], stdout=subprocess.DEVNULL, stderr=errors
        )
        stop = threading.Timer(LONGEST_S, child.kill)
        stop.start()
        _, status, used = os.wait4(child.pid, 0)
        stop.cancel()
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return {"error": f"did not end within {LONGEST_S} s"}
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        return {"error": told.read_text().strip()}
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    keys = ("time_us", "busbw_GBps", "pfc", "ecn", "drops", "engine", "diagnosis", "why")
    return {
        **{key: result[key] for key in keys},
        "algorithm": result["setting"]["algorithm"],
        "network_fct_us": network_fct(pl.read_parquet(out / "flows.parquet")),
        "process_cpu_s": used.ru_utime + used.ru_stime,
        "max_rss_mb": used.ru_maxrss / 1e3,
    }


def network_fct(flows: pl.DataFrame) -> dict[str, float | None]:
    """Return p50 and p99.9 of the completion times (us) of flows that leave their server of eight GPUs."""
    times = flows.filter(pl.col("src") // 8 != pl.col("dst") // 8)["fct_us"].drop_nulls()
    return {"p50": times.quantile(0.5, "nearest"), "p999": times.quantile(0.999, "nearest")}


def table(rows: list[dict]) -> str:
    """Return the rows as Markdown."""
    lines = [
        "| GPUs | collective | transport | paths | time us | busbw GB/s | fct p50 / p99.9 us | ECN marks | pauses | drops"
        " | M hops | CPU s | MB |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        head = f"| {row['gpus']} | {row['collective']} | {row['transport']} | {row['paths']} "
        if row.get("error") or row["time_us"] is None:
            why = row.get("error") or row["diagnosis"]["message"]
            lines.append(head + f"| {why.splitlines()[0][:90]} | | | | | | | | |")
            continue
        fct = row["network_fct_us"]
        lines.append(
            head + f"| {row['time_us']:,.0f} | {row['busbw_GBps']:.1f} | {fct['p50']:,.0f} / {fct['p999']:,.0f}"
            f" | {row['ecn']['marks']:,} | {row['pfc']['pause_frames']:,} | {row['drops']:,}"
            f" | {row['engine']['data_packet_hops'] / 1e6:.1f} | {row['process_cpu_s']:.0f} | {row['max_rss_mb']:,.0f} |"
        )
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Run what is not in the file yet and print the table."""
    out = Path(arguments[arguments.index("--out") + 1]) if "--out" in arguments else None
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out and out.exists() else []
    known = {(row["gpus"], row["collective"], row["transport"], row["paths"]) for row in rows}
    wanted = [name for name in arguments if name in EXAMPLES] or list(EXAMPLES)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for gpus in wanted:
            for collective, transport, paths in product(COLLECTIVES[gpus], TRANSPORTS, PATHS):
                if (gpus, collective, transport, paths) in known:
                    continue
                plan = plan_of(gpus, transport, folder, pxn=collective != PXN_OFF)
                row = {"gpus": gpus, "collective": collective, "transport": transport, "paths": paths}
                row |= run(plan, collective.partition(",")[0], paths, folder)
                rows.append(row)
                if out:
                    with out.open("a", encoding="utf-8") as stream:
                        stream.write(json.dumps(row) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
