"""Every example plans, is checked and simulates as it stands; the figures are those that its comments promise."""

import json
from pathlib import Path

import pytest

from railwright.cli.main import call

EXAMPLES = Path(__file__).parents[2] / "examples"
# Leaves, spines, backend links, worst oversubscription, codes of findings that are errors.
PROMISED = {
    "rail-only-128": (8, 0, 128, 1.0, set()),
    "rail-optimized-1024": (32, 32, 2048, 1.0, set()),
    "h100-superpod-4su": (32, 16, 2044, 1.0, set()),
    "b200-4096-rocev2": (64, 32, 8192, 1.0, set()),
    "leaf-spine-64x400": (8, 4, 768, 1.0, set()),
    "leaf-spine-64x400-oversubscribed": (8, 2, 640, 2.0, {"RW101"}),
    "multi-plane-2048": (64, 32, 8192, 1.0, set()),
    "dual-site-frontend": (8, 0, 256, 1.0, set()),
}


def test_every_example_is_in_the_table():
    assert set(PROMISED) == {path.stem for path in EXAMPLES.glob("*.yaml")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("plans")


@pytest.mark.parametrize("name", PROMISED)
def test_an_example_is_what_it_says(name, folder: Path, capsys):
    leaves, spines, links, ratio, errors = PROMISED[name]
    plan = str(folder / name)
    assert call(["plan", str(EXAMPLES / f"{name}.yaml"), "-o", plan, "--json"]) == 0
    backend = json.loads(capsys.readouterr().out)["networks"]["backend"]
    assert (backend["switches"]["leaf"], backend["switches"]["spine"]) == (leaves, spines)
    assert (backend["links"], backend["oversubscription"]) == (links, ratio)
    assert call(["check", plan, "--json"]) == (1 if errors else 0)
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert {item["code"] for item in findings if item["severity"] == "error" and item["ignored"] is None} == errors
    for collective in ("all-reduce", "all-gather", "all-to-all"):
        assert call(["simulate", plan, "--collective", collective, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["busbw_GBps"] > 0


def test_gpu_k_of_the_smallest_fabric_hangs_on_rail_k(folder: Path, capsys):
    plan = folder / "rail-only-128-again"
    assert call(["plan", str(EXAMPLES / "rail-only-128.yaml"), "-o", str(plan), "-q"]) == 0
    for gpu in range(8):
        capsys.readouterr()
        assert call(["explain", f"server-0016:mlx5_{gpu}", "--plan", str(plan), "--json"]) == 0
        (link,) = json.loads(capsys.readouterr().out)["fields"]["connects"]
        assert f" - rail{gpu + 1}-leaf1:" in link


def test_the_main_job_runs_on_the_infiniband_design_with_reductions_in_the_switches(tmp_path: Path, capsys):
    spec = str(EXAMPLES / "h100-superpod-4su.yaml")
    assert call(["run", spec, "-o", str(tmp_path / "out"), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {run["collective"] for run in data["simulate"]["runs"]} >= {"all-reduce", "all-gather", "all-to-all"}
    assert (tmp_path / "out" / "report.html").is_file()
