"""``railwright verify --acceptance``: exit code and JSON of results judged by the plan."""

import json
from pathlib import Path

import pytest

from railwright.cli.main import call

SPEC = Path(__file__).parents[2] / "examples" / "rail-only-128.yaml"
PERFTEST = " 65536      446870           0.00               {rate}             0.744798\n"


@pytest.mark.parametrize(("rate", "code", "failed"), [("391.2", 0, 0), ("196.4", 1, 1)])
def test_a_slow_pair_makes_the_answer_no(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rate: str, code: int, failed: int
) -> None:
    (tmp_path / "pair-r1-server-0001-mlx5_0-server-0002.txt").write_text(PERFTEST.format(rate=rate))
    assert call(["verify", str(SPEC), "--acceptance", str(tmp_path), "--json"]) == code
    said = json.loads(capsys.readouterr().out)
    assert said["acceptance"]["failed"] == failed
    assert said["counts"]["error"] == failed
    assert {"RW035"} <= {finding["code"] for finding in said["findings"]}


def test_results_that_are_not_there_are_an_input_error(tmp_path: Path) -> None:
    assert call(["verify", str(SPEC), "--acceptance", str(tmp_path / "absent")]) == 2
