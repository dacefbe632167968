"""Runs that cannot finish, from the command line: each ends with its name, its places and exit code 1."""

import json
from pathlib import Path

import pytest

from railwright.cli.main import call

EXAMPLES = Path(__file__).parents[2] / "examples" / "packet"

STAR = """\
nodes:
  - {name: leaf, kind: switch, buffer_bytes: 2.0e+6}
  - {name: a, kind: host}
  - {name: b, kind: host}
links:
  - {a: a, b: leaf, gbps: 400, delay_us: 0.1}
  - {a: leaf, b: b, gbps: 400, delay_us: 0.1}
"""
FLOWS = "flow_id,src,dst,bytes\n1,a,b,{bytes}\n"


@pytest.fixture
def simulate(tmp_path: Path, capsys):
    def run(
        options: str, *arguments: str, size: int = 4096, net: str = STAR, flows: str | None = None
    ) -> tuple[int, dict]:
        (tmp_path / "net.yaml").write_text(net)
        (tmp_path / "flows.csv").write_text(flows or FLOWS.format(bytes=size))
        (tmp_path / "options.yaml").write_text(options)
        files = {"--network": "net.yaml", "--flows": "flows.csv", "--options": "options.yaml"}
        named = [part for option, name in files.items() for part in (option, str(tmp_path / name))]
        code = call(["simulate", *named, *arguments, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return run


def deadlock(simulate, options: str) -> tuple[int, dict]:
    folder = EXAMPLES / "deadlock"
    return simulate(options, net=(folder / "net.yaml").read_text(), flows=(folder / "flows.csv").read_text())


def test_a_lost_tail_without_a_timeout(simulate) -> None:
    options = "classes: {data: {rto_us: 0}}\nlosses: [{cable: 0, probability: 0.999}]\n"
    code, result = simulate(options)
    assert code == 1
    assert result["diagnosis"]["code"] == "lost-tail"
    assert result["diagnosis"]["places"] == ["operation 1 (a → b)"]
    assert result["time_us"] is None
    assert result["drop_reasons"]["corrupted"] == result["drops"] == 1


def test_a_lost_tail_with_a_timeout_arrives(simulate) -> None:
    options = "classes: {data: {rto_us: 50, retry_limit: 0}}\nlosses: [{cable: 0, probability: 0.5}]\n"
    code, result = simulate(options, "--seed", "3")
    assert code == 0
    assert result["diagnosis"] is None


@pytest.mark.parametrize("timeout", ["rto_us: 0", "rto_us: 67108", "rto_us: 2000, retry_limit: 0"])
def test_a_pause_deadlock_names_the_cycle_of_ports_whatever_the_timeout(simulate, timeout) -> None:
    code, result = deadlock(simulate, f"congestion_control: none\nclasses: {{data: {{{timeout}}}}}\n")
    assert code == 1
    assert result["diagnosis"]["code"] == "pause-deadlock"
    assert sorted(result["diagnosis"]["places"]) == [
        "switch-x → switch-y",
        "switch-y → switch-z",
        "switch-z → switch-x",
    ]


@pytest.mark.parametrize("timeout", ["rto_us: 0", "rto_us: 2000"])
def test_a_credit_deadlock_names_the_cycle_of_ports(simulate, timeout) -> None:
    code, result = deadlock(
        simulate, f"profile: infiniband\ncongestion_control: none\nclasses: {{data: {{{timeout}}}}}\n"
    )
    assert code == 1
    assert result["diagnosis"]["code"] == "credit-deadlock"
    assert len(result["diagnosis"]["places"]) == 3


def test_a_watchdog_ends_a_pause_deadlock(simulate) -> None:
    options = "congestion_control: none\nwatchdog_detect_us: 500\nwatchdog_restore_us: 500\n"
    options += "classes: {data: {rto_us: 2000, retry_limit: 0}}\n"
    code, result = deadlock(simulate, options)
    assert code == 0
    assert result["drop_reasons"]["watchdog"] > 0


@pytest.mark.parametrize("timeout", ["rto_us: 0", "rto_us: 2000"])
def test_a_nic_that_pauses_for_ever_is_named(simulate, timeout) -> None:
    options = "classes: {data: {TIMEOUT}}\nchanges: [{time_us: 1, kind: storm-on, subject: 1}]\n"
    code, result = simulate(options.replace("TIMEOUT", timeout), size=4_000_000)
    assert code == 1
    assert result["diagnosis"]["code"] == "paused-forever"
    assert "leaf → b" in result["diagnosis"]["places"]


def test_a_dead_path_runs_out_of_retries(simulate) -> None:
    code, result = simulate("classes: {data: {rto_us: 100}}\n", "--fail", "link:1@5us", size=4_000_000)
    assert code == 1
    assert result["diagnosis"]["code"] == "retry-exceeded"
    assert result["drop_reasons"]["link_down"] > 0
    assert result["setting"]["fail"] == ["link:1@5us"]


def test_no_path_at_all(simulate) -> None:
    code, result = simulate("{}\n", "--fail", "link:1")
    assert code == 1
    assert result["diagnosis"]["code"] == "unreachable"


@pytest.mark.parametrize(
    "option",
    [
        ["--background", "requests:5%"],
        ["--iterations", "3"],
        ["--ranks", "2"],
        ["--algorithm", "ring"],
        ["--collective", "all-reduce"],
        ["--size", "1GiB"],
    ],
)
def test_what_is_for_collectives_is_refused_and_not_left_out(option, capsys) -> None:
    folder = EXAMPLES / "deadlock"
    files = ["--network", str(folder / "net.yaml"), "--flows", str(folder / "flows.csv")]
    assert call(["simulate", *files, *option]) == 2
    assert f"{option[0]}: is for collectives on a plan" in capsys.readouterr().err
