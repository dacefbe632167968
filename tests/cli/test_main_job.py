"""``run``, ``simulate`` and ``report``: the main job end to end on a small cluster."""

import csv
import json
from pathlib import Path

import pytest

from railwright.cli.main import call
from railwright.cli.simulate import parse_ranks
from railwright.errors import InputError

ROOT = Path(__file__).parents[2]
NETWORK = str(ROOT / "examples" / "networks" / "two-leaves.yaml")
FLOWS = str(ROOT / "examples" / "networks" / "incast.csv")
SMALL = "name: small\ncluster: {gpus: 32, server: hgx-h100}\nbackend: {topology: rail-only, switch: sn5400}\n"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    file = tmp_path / "cluster.yaml"
    file.write_text(SMALL)
    return file


@pytest.fixture
def folder(spec: Path, tmp_path: Path, capsys) -> Path:
    assert call(["run", str(spec), "-o", str(tmp_path / "out")]) == 0
    return tmp_path / "out"


def test_run_writes_plan_results_findings_and_report(folder: Path, capsys):
    out, err = capsys.readouterr()
    assert f"report:   {folder / 'report.html'}" in out
    assert [line.split()[0] for line in err.splitlines()] == ["plan", "check", "simulate", "write", "report"]
    assert sorted(path.name for path in folder.iterdir()) == ["findings.json", "plan", "report.html", "results"]
    assert json.loads((folder / "findings.json").read_text())["counts"]["error"] == 0
    results = sorted(path.name for path in (folder / "results").iterdir())
    assert "all-reduce-1GiB-flow" in results
    result = json.loads((folder / "results" / "all-reduce-1GiB-flow" / "result.json").read_text())
    assert result["setting"]["collective"] == "all-reduce"
    page = (folder / "report.html").read_text()
    assert "<!doctype html>" in page
    assert ' src="http' not in page


def test_the_folder_of_a_run_can_be_checked_explained_and_run_over(folder: Path, spec: Path, capsys):
    assert call(["check", str(folder)]) == 0
    assert call(["explain", "rail3-leaf1", "--plan", str(folder)]) == 0
    assert call(["run", str(spec), "-o", str(folder), "-q"]) == 0
    (folder / "mine.txt").write_text("keep me")
    assert call(["run", str(spec), "-o", str(folder), "-q"]) == 2
    assert (folder / "mine.txt").read_text() == "keep me"


def test_run_as_json_nests_what_the_single_commands_print(spec: Path, tmp_path: Path, capsys):
    assert call(["run", str(spec), "-o", str(tmp_path / "out"), "--json"]) == 0
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert err == ""
    assert list(data) == ["plan", "check", "simulate", "report", "elapsed_s"]
    assert data["plan"]["networks"]["backend"]["switches"]["leaf"] == 8
    assert data["check"]["counts"]["error"] == 0
    assert data["simulate"]["busbw_GBps"] > 0
    assert data["simulate"]["setting"]["size_bytes"] == 2**30
    assert data["report"]["path"] == str(tmp_path / "out" / "report.html")
    assert set(data["elapsed_s"]) == {"plan", "check", "simulate", "write", "report"}


def test_a_run_that_is_stopped_leaves_nothing(spec: Path, tmp_path: Path, capsys, monkeypatch):
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("railwright.report.html.write_html", stop)
    before = sorted(path.name for path in tmp_path.iterdir())
    assert call(["run", str(spec), "-o", str(tmp_path / "deep" / "out"), "-q"]) == 130
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert capsys.readouterr().err == "stopped; nothing is left half-written\n"


def test_the_same_spec_and_seed_give_the_same_plan_and_findings(spec: Path, tmp_path: Path):
    for name in ("one", "two"):
        assert call(["run", str(spec), "-o", str(tmp_path / name), "-q"]) == 0
    for file in ("plan/plan.yaml", "plan/links.parquet", "plan/devices.parquet", "findings.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_report_writes_one_file_and_does_not_replace_it(spec: Path, tmp_path: Path, capsys):
    page = tmp_path / "page.html"
    assert call(["report", str(spec), "-o", str(page), "-q"]) == 0
    assert page.stat().st_size > 1_000_000
    assert call(["report", str(spec), "-o", str(page), "-q"]) == 2
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize("engine", ["analytic", "flow", "packet"])
def test_simulate_has_the_same_keys_for_every_engine(engine, spec: Path, capsys):
    arguments = ["simulate", str(spec), "--size", "1MiB", "--ranks", "16", "--engine", engine, "--json"]
    assert call(arguments) == 0
    data = json.loads(capsys.readouterr().out)
    promised = [
        "time_us",
        "algbw_GBps",
        "busbw_GBps",
        "jitter_us",
        "fct_us",
        "pfc",
        "ecn",
        "drops",
        "bottleneck",
        "engine",
    ]
    assert [key for key in data if key in promised] == promised
    assert list(data["fct_us"]) == ["p50", "p99", "p999", "max"]
    assert data["engine"]["name"] == engine
    assert data["setting"]["ranks"] == 16
    assert data["busbw_GBps"] == pytest.approx(data["algbw_GBps"] * 2 * 15 / 16)


def test_simulate_of_ones_own_flows_writes_their_completion_times(tmp_path: Path, capsys):
    out = tmp_path / "result"
    assert call(["simulate", "--network", NETWORK, "--flows", FLOWS, "-o", str(out), "-q"]) == 0
    rows = list(csv.DictReader((out / "flows.csv").read_text().splitlines()))
    assert [(row["flow_id"], row["src"], row["dst"]) for row in rows] == [
        ("1", "gpu0", "gpu3"),
        ("2", "gpu1", "gpu3"),
        ("3", "gpu2", "gpu3"),
    ]
    # Three times 4 MB leave over one port of 400 Gb/s: not before 240 us.
    assert max(float(row["finish_us"]) for row in rows) > 240
    assert (out / "result.json").is_file()
    assert "busiest link" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "give a plan (or spec), or --network with --flows"),
        (["SPEC", "--network", NETWORK], "and not both"),
        (["--network", NETWORK], "--network and --flows belong together"),
        (["SPEC", "--size", "1 Gib"], "'1 Gib' is not an amount of data; write for example 1 GiB"),
        (["SPEC", "--collective", "all-reduc"], "did you mean 'all-reduce'?"),
        (["SPEC", "--engine", "flows"], "did you mean 'flow'?"),
        (["SPEC", "--ranks", "64-32"], "'64-32' is not a range"),
        (["--network", NETWORK, "--flows", FLOWS, "--paths", "spry"], "did you mean 'spray'?"),
    ],
)
def test_simulate_refuses_what_makes_no_run(arguments, says, spec: Path, capsys):
    assert call(["simulate", *[str(spec) if part == "SPEC" else part for part in arguments]]) == 2
    assert says in capsys.readouterr().err


def test_ranks_are_a_count_or_a_list():
    assert parse_ranks("128") == 128
    assert parse_ranks("0-3,8,10-11") == [0, 1, 2, 3, 8, 10, 11]
    for text in ("", "a", "1-", "3-1", "0-99999999999", "1,,2"):
        with pytest.raises(InputError, match=r"write a count \(128\) or GPU ids"):
            parse_ranks(text)
