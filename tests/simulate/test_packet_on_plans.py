"""Packet runs on a plan: iterations and their spread, load beside them, and what a result tells of a path."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from railwright.catalog.load import load_catalog
from railwright.cli.main import call
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.simulate.run import simulate_collective
from railwright.spec.load import load_spec
from railwright.workload.background import KINDS

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = ("all-reduce", 2.0**20, 16, "packet")


@cache
def plan() -> Plan:
    return design_plan(load_spec(EXAMPLES / "rail-only-128.yaml"), load_catalog())


def test_iterations_are_told_one_by_one_and_sum_up_to_the_run() -> None:
    result = simulate_collective(plan(), *SMALL, iterations=5, background=("requests:40%",), seed=2)
    told = result.as_dict()
    each = np.array(told["iterations"]["each_us"])
    assert told["iterations"]["count"] == 5
    assert each.sum() == pytest.approx(result.engine.finish_us)
    assert told["time_us"] == pytest.approx(each.mean())
    assert told["jitter_us"] == pytest.approx(each.std())
    assert told["jitter_us"] > 0
    assert told["iterations"]["time_us"]["p50"] == pytest.approx(np.sort(each)[2])
    assert told["iterations"]["time_us"]["p99"] == pytest.approx(each.max())


def test_iterations_of_an_undisturbed_network_have_no_jitter() -> None:
    each = simulate_collective(plan(), *SMALL, iterations=3, seed=2).as_dict()["iterations"]["each_us"]
    assert max(each) - min(each) < 0.05 * min(each)


def test_every_kind_of_load_is_a_job_of_its_own_and_its_flows_arrive(tmp_path: Path, capsys) -> None:
    spec = str(EXAMPLES / "rail-only-128.yaml")
    loads = [part for kind in KINDS for part in ("--background", f"{kind}:{1 if kind == 'management' else 60}%")]
    command = ["simulate", spec, "--engine", "packet", "--size", "4MiB", "--ranks", "16", *loads, "--iterations", "8"]
    assert call([*command, "--seed", "5", "--series", "10us", "-o", str(tmp_path / "out"), "--json"]) in (0, 1)
    told = json.loads(capsys.readouterr().out)
    assert told["setting"]["seed"] == 5
    seen = {row["job"] for row in told["by_class"]}
    assert {f"background:{kind}" for kind in KINDS} <= seen
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"budget.csv", "carried.csv", "queues.csv"}


def test_a_budget_of_the_fabric_and_of_the_scale_up_network() -> None:
    told = simulate_collective(plan(), *SMALL, seed=2).as_dict()["latency_budget"]
    mean = {row["over"]: row for row in told if row["of"] == "all"}
    assert set(mean) == {"scale-up", "fabric"}
    assert mean["fabric"]["switching_us"] == pytest.approx(0.6)  # one leaf of the catalog's SN5600
    parts = [value for key, value in mean["fabric"].items() if key.endswith("_us") and key != "fct_us"]
    assert sum(parts) == pytest.approx(mean["fabric"]["fct_us"])
    assert mean["fabric"]["propagation_us"] > 2 * 2 * 4.9e-3  # two cables of more than 2 m


@pytest.mark.parametrize("engine", ["flow", "packet"])
def test_a_link_that_dies_is_left_after_the_rerouting_delay(engine, tmp_path: Path, capsys) -> None:
    """One uplink of two dies at 50 us, the flow over it goes on over the other one: that much later is the end."""
    net = """\
nodes:
  - {name: a, kind: host}
  - {name: b, kind: host}
  - {name: l1, kind: switch}
  - {name: l2, kind: switch}
  - {name: s1, kind: switch}
  - {name: s2, kind: switch}
links:
  - {a: a, b: l1, gbps: 100, delay_us: 0}
  - {a: b, b: l2, gbps: 100, delay_us: 0}
  - {a: l1, b: s1, gbps: 100, delay_us: 0}
  - {a: l1, b: s2, gbps: 100, delay_us: 0}
  - {a: l2, b: s1, gbps: 100, delay_us: 0}
  - {a: l2, b: s2, gbps: 100, delay_us: 0}
"""
    (tmp_path / "net.yaml").write_text(net)
    (tmp_path / "flows.csv").write_text("flow_id,src,dst,bytes,start_us,class,path\n1,a,b,4000000,0,,l1;s1;l2\n")
    (tmp_path / "options.yaml").write_text("congestion_control: none\nclasses: {data: {rto_us: 20, retry_limit: 0}}\n")
    files = {"--network": "net.yaml", "--flows": "flows.csv"} | (
        {"--options": "options.yaml"} if engine == "packet" else {}
    )
    named = [part for option, name in files.items() for part in (option, str(tmp_path / name))]
    ends = []
    for delay in ("100us", "400us"):
        call(["simulate", *named, "--engine", engine, "--fail", "link:l1--s1@50us", "--reroute", delay, "--json"])
        ends.append(json.loads(capsys.readouterr().out)["time_us"])
    alone = 4e6 * 8 / 100e3
    assert ends[0] > alone + 90
    assert ends[1] - ends[0] == pytest.approx(300, abs=25)  # a retransmission timeout more or less
