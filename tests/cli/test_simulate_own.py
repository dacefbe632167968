"""``simulate --network --flows --options --series``: one command gives tables and drawings; wrong combinations are errors."""

import json
from pathlib import Path

import pytest

from railwright.cli.main import call

CASE = Path(__file__).parents[2] / "examples" / "packet" / "parking-lot"
OWN = ["simulate", "--network", str(CASE / "net.yaml"), "--flows", str(CASE / "flows.csv")]


def test_one_command_gives_tables_and_drawings(tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["--options", str(CASE / "pfc-alone.yaml"), "--series", "100us"]
    assert call([*OWN, *options, "-o", str(out), "-q"]) == 0
    assert {"flows.csv", "carried.csv", "queues.csv", "carried.svg", "queues.svg", "result.json"} <= {
        file.name for file in out.iterdir()
    }
    assert "near → third" in (out / "carried.svg").read_text(encoding="utf-8")
    assert json.loads((out / "result.json").read_text())["setting"]["options"] == "pfc-alone.yaml"
    assert call([*OWN, *options, "-o", str(out), "-q"]) == 0  # its own folder may be replaced


def test_a_deadlock_is_the_answer_no(capsys: pytest.CaptureFixture[str]) -> None:
    ring = CASE.parent / "deadlock"
    files = [
        "--network",
        str(ring / "net.yaml"),
        "--flows",
        str(ring / "flows.csv"),
        "--options",
        str(ring / "pfc.yaml"),
    ]
    assert call(["simulate", *files, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["diagnosis"]["code"] == "pause-deadlock"
    assert "switch-z → switch-x" in told["diagnosis"]["places"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([*OWN, "--options", str(CASE / "nope.yaml")], "no such file"),
        ([*OWN, "--options", str(CASE / "pfc-alone.yaml"), "--engine", "flow"], "no queues to set"),
        ([*OWN, "--engine", "flow", "--series", "10us", "-o", "nowhere"], "no queues to look at"),
        (["simulate", str(CASE / "net.yaml"), "--options", str(CASE / "pfc-alone.yaml")], "network of your own"),
    ],
)
def test_options_where_they_do_not_belong_are_told(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(arguments) == 2
    assert says in capsys.readouterr().err
