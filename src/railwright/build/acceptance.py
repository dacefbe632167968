"""Commissioning: what is measured before a cluster is handed over, in which order, and within which limits.

Limits come from the plan: rates from its links, expected collective bandwidth from the caller (`simulate.busbw`, which knows
the fabric). The scripts print results as the usual tools do; ``judge`` reads those outputs and says which miss their limit.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from railwright.build import names
from railwright.design.context import resolve_server
from railwright.design.plan import Plan
from railwright.design.qos_table import contracts_for
from railwright.errors import InputError

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
"""The collectives of nccl-tests that are measured on every pod and on the cluster."""
SOAK_HOURS = 24
BER_LIMIT = 1e-12
"""Corrected and uncorrected errors after FEC are judged by the frame loss ratio that IEEE 802.3 asks of RS-FEC links; as a bit
error ratio after correction: below 1e-12."""
PAIR_SHARE = 0.95
"""Share of the line rate that ``ib_write_bw`` must reach between two adapters: RoCEv2 headers and preamble take about 2-4 %."""
COLLECTIVE_SHARE = 0.90
"""Share of the forecast that nccl-tests must reach; the forecast's own median error is 3-8 % (docs/collectives.md)."""


_NCCL_ROW = re.compile(
    r"^\s+(?P<size>\d+)\s+\d+\s+\w+\s+\w+\s+-?\d+"
    r"\s+[\d.]+\s+[\d.]+\s+(?P<busbw>[\d.]+)\s+(?P<wrong>\d+|N/A)"
    r"(?:\s+[\d.]+\s+[\d.]+\s+[\d.]+\s+(?P<wrong_in_place>\d+|N/A))?[ \t]*$",
    re.MULTILINE,
)
_PAIR_ROW = re.compile(r"^\s*\d+\s+\d+\s+[\d.]+\s+([\d.]+)\s+[\d.]+\s*$", re.MULTILINE)
_BER_ROW = re.compile(r"Effective Physical BER\s*:\s*([\d.]+(?:E[-+]?\d+)?)\s*$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class Verdict:
    """One judged measurement; ``limit`` and ``value`` in ``unit``."""

    test: str
    subject: str
    value: float
    limit: float
    unit: str
    passed: bool


def acceptance_files(
    plan: Plan, expected: Sequence[Mapping[str, object]] = (), convention: str | None = None
) -> dict[str, str]:
    """Return the files of ``acceptance/``: limits, the pairs to measure, scripts and host lists per rail, pod and cluster.

    ``expected`` has rows with ``scope, collective, size_bytes, busbw_GBps`` (see ``simulate.busbw.rows``); without them the
    collective tests run and are not judged. ``convention`` is that of the build: pairs are measured in the class of RoCE.
    """
    names.check_plan(plan)
    servers = plan.devices.filter(pl.col("role") == "server").sort("device_id")
    pairs = adapter_pairs(plan)
    rates = plan.links.filter((pl.col("network") == "backend") & (pl.col("tier") == "host"))["speed_gbps"]
    line = float(str(rates.min() or 0))
    limits = {
        "soak": {"hours": SOAK_HOURS, "post_fec_ber_max": BER_LIMIT, "ports": _ports_of_a_server(plan)},
        "ib_write_bw": {"line_gbps": line, "min_gbps": round(line * PAIR_SHARE, 1), "share": PAIR_SHARE},
        "nccl": {
            "share": COLLECTIVE_SHARE,
            "rows": [
                {k: row[k] for k in ("scope", "collective", "size_bytes", "busbw_GBps")}
                | {"min_GBps": round(float(str(row["busbw_GBps"])) * COLLECTIVE_SHARE, 2)}
                for row in expected
            ],
        },
    }
    pods = servers.group_by(pl.col("pod").fill_null(1), maintain_order=True).agg("name")
    files = {
        "acceptance/limits.json": json.dumps(limits, indent=2) + "\n",
        "acceptance/pairs.csv": pairs.write_csv(),
        "acceptance/rails.csv": rail_gpus(plan).write_csv(),
        "acceptance/hosts/cluster.txt": "".join(f"{name}\n" for name in servers["name"]),
        "acceptance/1-soak.sh": _SOAK.format(hours=SOAK_HOURS),
        "acceptance/2-pairs.sh": _PAIRS.format(flags=_class_flags(plan, convention)),
        "acceptance/3-collectives.sh": _COLLECTIVES.replace("GPUS", str(resolve_server(plan.spec, plan.catalog).gpus)),
        "acceptance/README.md": _README.format(
            hours=SOAK_HOURS, line=line, minimum=line * PAIR_SHARE, share=COLLECTIVE_SHARE
        ),
    }
    if len(pods) > 1:
        files |= {f"acceptance/hosts/pod{n}.txt": "".join(f"{name}\n" for name in own) for n, own in pods.iter_rows()}
    return files


def _class_flags(plan: Plan, convention: str | None) -> str:
    """Return what makes ``ib_write_bw`` send in the class of RoCE; nothing on InfiniBand, whose service level is the default."""
    contract = contracts_for(plan, convention)["backend"]
    if contract.transport == "infiniband":
        return ""
    roce = contract.of_purpose("roce")
    return f" --tclass {roce[0].traffic_class_byte}" if roce else ""


def _ports_of_a_server(plan: Plan) -> int:
    """Return the least number of backend ports that a server has."""
    hosts = plan.devices.filter(pl.col("role") == "server").select("device_id")
    held = plan.ports.filter(pl.col("network") == "backend").join(hosts, on="device_id").group_by("device_id").len()
    return int(str(held["len"].min() or 0))


def adapter_pairs(plan: Plan) -> pl.DataFrame:
    """Return which adapters measure each other: on every rail each server with the next one, and with one half-way round.

    Columns ``rail, server, device, peer, peer_device``; the second pairing crosses the spines where there are any.
    """
    ports = plan.ports.filter(pl.col("network") == "backend").join(
        plan.devices.filter(pl.col("role") == "server").select("device_id", server="name"), on="device_id"
    )
    rails = plan.links.filter((pl.col("network") == "backend") & (pl.col("tier") == "host")).select(
        port_id="a_port", rail="rail"
    )
    rows = (
        ports.join(rails, on="port_id")
        .sort("rail", "device_id", "port_id")
        .select(
            pl.col("rail").fill_null(0),
            "server",
            device=pl.col("name"),
            here=pl.int_range(pl.len()).over("rail"),
            count=pl.len().over("rail"),
        )
    )
    steps = pl.concat(
        [
            rows.with_columns(step=pl.lit(1, pl.Int64), there=(pl.col("here") + 1) % pl.col("count")),
            rows.with_columns(
                step=pl.lit(2, pl.Int64), there=(pl.col("here") + pl.col("count") // 2) % pl.col("count")
            ),
        ]
    )
    other = rows.select("rail", there="here", peer="server", peer_device="device")
    return (
        steps.join(other, on=["rail", "there"])
        .filter(pl.col("server") != pl.col("peer"))
        .sort("step", "rail", "here")
        .select("rail", "server", "device", "peer", "peer_device")
        .unique(maintain_order=True)
    )


def rail_gpus(plan: Plan) -> pl.DataFrame:
    """Return ``rail, gpu``: the first GPU of a server on every rail; no row where the plan has no rails or no GPU of its own."""
    rails = plan.links.filter((pl.col("network") == "backend") & (pl.col("tier") == "host")).select("a_port", "rail")
    return (
        rails.join(plan.ports.select("port_id", "gpu"), left_on="a_port", right_on="port_id")
        .drop_nulls(["rail", "gpu"])
        .group_by("rail")
        .agg(pl.col("gpu").min())
        .sort("rail")
    )


def wanted_results(files: Mapping[str, str]) -> list[str]:
    """Return the names of all outputs that the scripts in ``files`` (of :func:`acceptance_files`) write, in order."""
    hosts = files["acceptance/hosts/cluster.txt"].split()
    pairs = pl.read_csv(files["acceptance/pairs.csv"].encode(), infer_schema=False)
    between = pl.format("pair-r{}-{}-{}-{}.txt", "rail", "server", "device", "peer")
    names_of_pairs = pairs.select(between).to_series().to_list() if len(pairs) else []
    scopes = [path.rpartition("/")[2].removesuffix(".txt") for path in files if path.startswith("acceptance/hosts/")]
    rails = (
        [line.partition(",")[0] for line in files["acceptance/rails.csv"].splitlines()[1:]] if len(hosts) > 1 else []
    )
    return [
        *(f"mlxlink-{host}.txt" for host in hosts),
        *names_of_pairs,
        *(
            f"{scope}-{collective}.txt"
            for scope in [*sorted(scopes), *(f"rail{rail}" for rail in rails)]
            for collective in COLLECTIVES
        ),
    ]


def judge(limits: Mapping[str, object], results: Mapping[str, str]) -> Iterator[Verdict]:
    """Yield a verdict per measurement in ``results`` (file name → output of ib_write_bw, nccl-tests or mlxlink).

    A size of nccl-tests for which there is no limit is judged by its wrong values only. See :func:`cut_short` for outputs
    in which less can be read than was asked for.
    """
    for file, text in sorted(results.items()):
        yield from _judged(limits, file, text)


def _judged(limits: Mapping[str, object], file: str, text: str) -> Iterator[Verdict]:
    pair, soak = _section(limits, "ib_write_bw"), _section(limits, "soak")
    for match in _PAIR_ROW.finditer(text):
        rate = float(match[1])
        yield Verdict("ib_write_bw", file, rate, pair["min_gbps"], "Gb/s", rate >= pair["min_gbps"])
    stem, wanted = _wanted_sizes(limits, file)
    for match in _NCCL_ROW.finditer(text):
        size, value = int(match["size"]), float(match["busbw"])
        wrong = sum(int(count) for count in match.group("wrong", "wrong_in_place") if count and count.isdigit())
        if wrong:
            yield Verdict("nccl", f"{stem} {size}", wrong, 0, "wrong values", False)
        if size in wanted:
            yield Verdict("nccl", f"{stem} {size}", value, wanted[size], "GB/s", value >= wanted[size])
    for match in _BER_ROW.finditer(text):
        value = float(match[1])
        yield Verdict("soak", file, value, soak["post_fec_ber_max"], "BER", value <= soak["post_fec_ber_max"])


def cut_short(limits: Mapping[str, object], results: Mapping[str, str]) -> dict[str, str]:
    """Return file → what is not in it, for outputs that end too early or hold nothing: a run that hung or was killed."""
    found = {}
    for file, text in sorted(results.items()):
        missing = _lacks(limits, file, text)
        if missing:
            found[file] = missing
    return found


def _lacks(limits: Mapping[str, object], file: str, text: str) -> str:
    _, wanted = _wanted_sizes(limits, file)
    sizes = {int(match["size"]) for match in _NCCL_ROW.finditer(text)}
    if wanted:
        lacking = sorted(wanted.keys() - sizes)
        return f"{len(lacking)} of {len(wanted)} sizes, from {lacking[0]} bytes" if lacking else ""
    if file.rpartition("/")[2].startswith("mlxlink-"):
        ports, read = int(_section(limits, "soak").get("ports", 1)), len(_BER_ROW.findall(text))
        return f"{ports - read} of {ports} bit error ratios" if read < ports else ""
    return "" if sizes or _PAIR_ROW.search(text) or _BER_ROW.search(text) else "any result"


def _wanted_sizes(limits: Mapping[str, object], file: str) -> tuple[str, dict[int, float]]:
    """Return the name of the run in ``file`` and its least bus bandwidth in GB/s by message size in bytes."""
    stem = file.rpartition("/")[2].partition(".")[0]
    rows = _section(limits, "nccl")["rows"]
    return stem, {int(r["size_bytes"]): r["min_GBps"] for r in rows if f"{r['scope']}-{r['collective']}" == stem}


def _section(limits: Mapping[str, object], name: str) -> Mapping[str, Any]:
    section = limits[name]
    if not isinstance(section, Mapping):
        raise InputError("is not a table", key=name)
    return section


_SOAK = """#!/bin/sh
# Clears the error counters of every adapter, waits {hours} h under load, and stores what mlxlink says then.
# Start 3-collectives.sh beside it: an idle link shows few errors.
set -eu
cd "$(dirname "$0")"
mkdir -p results
clear='for d in /sys/class/infiniband/*; do mlxlink -d "${{d##*/}}" --pc; done'
count='for d in /sys/class/infiniband/*; do mlxlink -d "${{d##*/}}" -c; done'
for host in $(cat hosts/cluster.txt); do ssh "$host" "$clear" </dev/null; done
sleep $(({hours} * 3600))
for host in $(cat hosts/cluster.txt); do ssh "$host" "$count" </dev/null >"results/mlxlink-$host.txt"; done
"""

_PAIRS = """#!/bin/sh
# ib_write_bw between the adapters of pairs.csv, one pair after the other (add pairs in parallel once single ones pass).
set -eu
cd "$(dirname "$0")"
mkdir -p results
tail -n +2 pairs.csv | while IFS=, read -r rail server device peer peer_device; do
    flags="-F --report_gbits -D 10{flags}"
    ssh "$peer" "ib_write_bw -d $peer_device $flags" </dev/null >/dev/null 2>&1 &
    sleep 1
    out="results/pair-r$rail-$server-$device-$peer.txt"
    ssh "$server" "ib_write_bw -d $device $flags $peer" </dev/null >"$out"
    wait
done
"""

_COLLECTIVES = """#!/bin/sh
# nccl-tests on every pod, on the whole cluster and on every rail (one GPU a server); needs mpirun and nccl-tests in $NCCL_TESTS.
set -eu
cd "$(dirname "$0")"
mkdir -p results
gpus=GPUS
for list in hosts/*.txt; do
    scope=$(basename "$list" .txt)
    ranks=$(($(wc -l <"$list") * gpus))
    for test in all_reduce all_gather reduce_scatter alltoall; do
        name=$(echo "$test" | sed 's/alltoall/all-to-all/; s/_/-/g')
        mpirun -np "$ranks" --map-by "ppr:$gpus:node" --hostfile "$list" "${NCCL_TESTS:?}/${test}_perf" -b 1M -e 8G -f 2 -g 1 \\
            >"results/$scope-$name.txt"
    done
done
servers=$(wc -l <hosts/cluster.txt)
[ "$servers" -gt 1 ] || exit 0
tail -n +2 rails.csv | while IFS=, read -r rail gpu; do
    for test in all_reduce all_gather reduce_scatter alltoall; do
        name=$(echo "$test" | sed 's/alltoall/all-to-all/; s/_/-/g')
        mpirun -np "$servers" --map-by ppr:1:node --hostfile hosts/cluster.txt -x CUDA_VISIBLE_DEVICES="$gpu" \\
            "${NCCL_TESTS:?}/${test}_perf" -b 1M -e 8G -f 2 -g 1 </dev/null >"results/rail$rail-$name.txt"
    done
done
"""

_README = """# Acceptance

Run in order, from a node that reaches every server by ssh. Results go to `results/`; judge them with
`railwright verify PLAN --acceptance .`; what was not measured is named too.

1. `1-soak.sh`: {hours} h of traffic, then the error counters. Limit: bit error ratio after FEC below 1e-12 on every port.
2. `2-pairs.sh`: `ib_write_bw` between the pairs of `pairs.csv`. Limit: {minimum:g} of {line:g} Gb/s.
3. `3-collectives.sh`: nccl-tests per pod, on the cluster and per rail. Limit: {share:.0%} of the forecast in `limits.json`.
"""
