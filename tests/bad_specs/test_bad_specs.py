"""Each file here is a mistake that people make; ``expected.csv`` has the line, the key and what the error has to say.

The verb is ``run``, because it is the one that would write most.
"""

import csv
import json
from pathlib import Path

import pytest

from railwright.cli.main import call
from railwright.errors import InputError
from railwright.spec.load import load_spec

HERE = Path(__file__).parent
EXPECTED = list(csv.DictReader((HERE / "expected.csv").read_text(encoding="utf-8").splitlines()))


def test_every_bad_spec_is_in_the_table():
    assert sorted(row["file"] for row in EXPECTED) == sorted(path.stem for path in HERE.glob("*.yaml"))
    assert len(EXPECTED) >= 20


@pytest.mark.parametrize("row", EXPECTED, ids=lambda row: row["file"])
def test_a_bad_spec_gives_one_error_that_says_where_and_what_would_be_right(row):
    with pytest.raises(InputError) as caught:
        load_spec(HERE / f"{row['file']}.yaml")
    (error,) = caught.value.flat()
    assert (error.line, error.key or "") == (int(row["line"]), row["key"])
    assert row["message"] in error.message


@pytest.mark.parametrize("row", EXPECTED, ids=lambda row: row["file"])
def test_the_command_exits_with_2_names_the_place_and_writes_nothing(row, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    spec = HERE / f"{row['file']}.yaml"
    before = sorted(path.name for path in HERE.iterdir())
    assert call(["run", str(spec), "-o", "out/deep"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"{spec}:{row['line']}:" in err
    assert row["key"] in err
    assert row["message"] in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []
    assert sorted(path.name for path in HERE.iterdir()) == before


@pytest.mark.parametrize("row", EXPECTED[:5], ids=lambda row: row["file"])
def test_with_json_the_error_is_json_on_stderr(row, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert call(["plan", str(HERE / f"{row['file']}.yaml"), "-o", "out", "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    error = json.loads(err)["error"]
    assert list(error) == ["exit_code", "kind", "message", "errors"]
    assert (error["exit_code"], error["kind"]) == (2, "input")
    assert [(single["line"], single["key"]) for single in error["errors"]] == [(int(row["line"]), row["key"])]
