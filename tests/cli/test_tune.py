"""``railwright tune``: its keys, its folder, and wrong input as errors that name it."""

import json
from pathlib import Path

import pytest
from tests.simulate.tune.conftest import write_incast

from railwright.cli.main import call

KEYS = {
    "best",
    "contract",
    "front",
    "sensitivity",
    "confirmed",
    "tried",
    "parameters",
    "objectives",
    "snippet",
    "scenario",
    "seed",
    "budget",
    "runs",
    "notes",
    "version",
    "elapsed_s",
    "written",
}
VARY = ("--vary", "kmin=10KB:40KB", "--vary", "increase_timer=10us:200us", "--budget", "16", "--jobs", "1")


@pytest.fixture
def own(tmp_path: Path) -> list[str]:
    net, flows, options = write_incast(tmp_path, 200_000)
    return ["--network", str(net), "--flows", str(flows), "--options", str(options)]


def test_json_has_its_keys_and_the_folder_the_result(own, tmp_path, capfd):
    out = tmp_path / "out"
    arguments = ["tune", *own, *VARY, "-o", str(out), "--seed", "5", "--json"]
    assert call(arguments) == 0
    result = json.loads(capfd.readouterr().out)
    assert result.keys() == KEYS
    assert result["seed"] == result["scenario"]["seed"] == 5
    assert json.loads((out / "tune.json").read_text()) == result
    assert (out / "tuned.yaml").read_text() == result["snippet"]
    kept = (out / "runs.jsonl").read_text()
    assert call(arguments) == 0
    again = json.loads(capfd.readouterr().out)
    assert again["runs"]["reused"] == again["runs"]["total"] == len(kept.splitlines())
    assert (out / "runs.jsonl").read_text() == kept
    changing = {"runs", "elapsed_s"}
    assert {k: v for k, v in again.items() if k not in changing} == {
        k: v for k, v in result.items() if k not in changing
    }


def test_the_lines_found_are_options_that_simulate_reads(own, tmp_path, capfd):
    out = tmp_path / "out"
    assert call(["tune", *own, *VARY, "-o", str(out), "--objective", "pause", "--seed", "0", "--json"]) == 0
    best = json.loads(capfd.readouterr().out)["best"]
    own[-1] = str(out / "tuned.yaml")
    assert call(["simulate", *own, "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["time_us"] == pytest.approx(best["figures"]["time_us"], rel=1e-12)
    assert told["ecn"]["marks"] == best["figures"]["ecn_marks"]


@pytest.mark.parametrize(
    ("arguments", "key", "said"),
    [
        (["--vary", "kmn"], "--vary", "did you mean"),
        (["--vary", "kmin=1MB:1KB"], "--vary", "LOW must be below HIGH"),
        (["--vary", "kmin=lots:more"], "--vary", "kmin=LOW:HIGH"),
        (["--vary", "kmin=10KB"], "--vary", "kmin=LOW:HIGH"),
        (["--vary", "pmax=50%:200%"], "--vary", "100%"),
        (["--vary", "alpha", "--vary", "xoff"], "--vary", "vary one of them"),
        (["--vary", "kmin", "--vary", "kmin=1KB:2KB"], "--vary", "named twice"),
        (["--objective", "latency"], "--objective", "objectives are"),
        (["--objective", "pause:-1"], "--objective", "weight above 0"),
        (["--budget", "5"], "--budget", "at least"),
        (["--collective", "all-reduce"], "--flows", "different traffic"),
        (["--ranks", "8"], "--ranks", "belongs to a collective"),
        (["--paths", "ecpm"], "--paths", "ecmp"),
    ],
)
def test_wrong_input_is_named(own, tmp_path, capfd, arguments, key, said):
    out = tmp_path / "out"
    assert call(["tune", *own, *arguments, "-o", str(out), "--json"]) == 2
    error = json.loads(capfd.readouterr().err)["error"]
    assert error["errors"][0]["key"] == key
    assert said in error["message"]
    assert not out.exists()


def test_a_plan_or_a_network_and_not_both(own, capfd):
    assert call(["tune", "--json"]) == 2
    assert call(["tune", "examples/rail-only-128.yaml", *own, "--json"]) == 2
    assert call(["tune", *own[:2], "--json"]) == 2
    assert "--network needs --flows" in capfd.readouterr().err


def test_a_folder_of_something_else_is_left_alone(own, tmp_path, capfd):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("words")
    assert call(["tune", *own, *VARY, "-o", str(tmp_path / "mine"), "--json"]) == 2
    assert "thesis.txt" in capfd.readouterr().err
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
