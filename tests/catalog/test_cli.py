"""``railwright catalog`` as a user calls it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from railwright.catalog.load import KINDS
from railwright.cli.catalog import catalog_app
from railwright.errors import InputError

RUN = CliRunner()


def test_list_names_every_kind_and_key() -> None:
    result = RUN.invoke(catalog_app, ["list"])
    assert result.exit_code == 0
    assert all(kind in result.output for kind in KINDS)
    assert "qm9700" in result.output


def test_list_of_one_kind_as_json() -> None:
    entries = json.loads(RUN.invoke(catalog_app, ["list", "gpus", "--json"]).output)["entries"]
    assert {entry["kind"] for entry in entries} == {"gpus"}
    assert {"h100", "mi355x", "gb300"} <= {entry["key"] for entry in entries}


def test_show_marks_what_is_unverified_and_names_the_source() -> None:
    data = json.loads(RUN.invoke(catalog_app, ["show", "sn5600", "--json"]).output)
    fields = {field["field"]: field for field in data["fields"]}
    assert fields["buffer_bytes"]["value"] == 158229504
    assert fields["buffer_bytes"]["unit"] == "B"
    assert "sonic-buildimage" in fields["buffer_bytes"]["source"]
    assert not fields["buffer_bytes"]["unverified"]
    assert fields["latency_ns"]["unverified"]
    assert "unverified" in RUN.invoke(catalog_app, ["show", "sn5600"]).output


def test_show_prints_templates_as_they_are_written() -> None:
    assert "[s{sub}]" in RUN.invoke(catalog_app, ["show", "sn5600"]).output


def test_an_unknown_key_is_the_users_error() -> None:
    result = RUN.invoke(catalog_app, ["show", "dgx-h10"])
    assert isinstance(result.exception, InputError)
    assert "did you mean 'dgx-h100'?" in str(result.exception)


def test_an_unknown_kind_is_the_users_error() -> None:
    result = RUN.invoke(catalog_app, ["list", "switch"])
    assert isinstance(result.exception, InputError)
    assert "did you mean 'switches'?" in str(result.exception)


@pytest.mark.parametrize("command", [["list", "switches"], ["show", "qm9700"]])
def test_doubts_about_a_users_file_are_told(tmp_path: Path, command: list[str]) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("switches:\n  qm9700:\n    capacity_gbps: 51200\n")
    result = RUN.invoke(catalog_app, [*command, "--catalog", str(file)])
    assert result.exit_code == 0
    assert "RW911" in result.stderr
