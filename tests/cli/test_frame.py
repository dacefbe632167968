"""The frame of the command line: exit codes, errors, JSON, speed of the help page."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

import railwright
from railwright.cli import main
from railwright.cli.main import COMMANDS, call, run
from railwright.errors import InputError, InputErrors, MissingError


@pytest.fixture
def verb(monkeypatch):
    """Put a verb ``try`` in place that runs the given function."""

    def put(function):
        module = type(sys)("railwright.cli._try")
        module.try_ = function
        monkeypatch.setitem(sys.modules, "railwright.cli._try", module)
        monkeypatch.setitem(COMMANDS, "try", ("_try", "try_", "Tests", "Try."))

    return put


def test_the_version_is_the_packages(capsys):
    assert call(["--version"]) == 0
    assert capsys.readouterr().out == f"railwright {railwright.__version__}\n"


def test_the_help_page_names_every_verb_without_importing_anything_heavy():
    heavy = ("polars", "pydantic", "numpy", "ruamel.yaml", "plotly", "duckdb", "jinja2")
    probe = f"""
import sys
from railwright.cli.main import call
call(["--help"])
sys.stderr.write(" ".join(name for name in {heavy} if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    assert all(f" {name} " in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_verb_has_the_first_line_of_its_help_in_the_table(name, capsys):
    module, attribute, _, line = COMMANDS[name]
    verb = getattr(import_module(f"railwright.cli.{module}"), attribute)
    help_text = verb.info.help if isinstance(verb, typer.Typer) else verb.__doc__
    assert " ".join(help_text.split("\n\n")[0].split()) == line
    assert call([name, "--help"]) == 0
    assert "Usage: railwright" in capsys.readouterr().out


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "catalog"])
def test_every_verb_prints_json(name, capsys):
    call([name, "--help"])
    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (InputError("m", file="f.yaml", line=3, key="a.b"), 2, "input"),
        (MissingError("opensm is not installed; sudo apt-get install opensm"), 3, "missing"),
    ],
)
def test_errors_become_exit_codes_and_one_message(verb, capsys, error, code, kind):
    def fail(as_json: bool = typer.Option(False, "--json")) -> None:
        raise error

    verb(fail)
    assert call(["try"]) == code
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"error: {error}\n")
    assert call(["try", "--json"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    shown = json.loads(err)["error"]
    assert (shown["exit_code"], shown["kind"], shown["message"]) == (code, kind, str(error))


def test_an_error_shows_the_line_it_is_about_and_marks_the_column(verb, capsys, tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text("a: 1\nb: [x]\n")

    def fail() -> None:
        raise InputErrors([InputError("no", file=file, line=2, column=4, key="b"), InputError("other", key="c")])

    verb(fail)
    assert call(["try"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"error: {file}:2:4: b: no",
        "     2 | b: [x]",
        "       |    ^",
        "error: c: other",
    ]


def test_a_defect_is_code_70_with_its_trace(verb, capsys):
    def fail() -> None:
        raise ZeroDivisionError("oops")

    verb(fail)
    assert call(["try"]) == 70
    err = capsys.readouterr().err
    assert "ZeroDivisionError: oops" in err
    assert "defect in railwright, not in your input" in err


def test_stopping_by_hand_is_code_130_with_one_line(verb, capsys):
    def stop() -> None:
        raise KeyboardInterrupt

    verb(stop)
    assert call(["try"]) == 130
    assert capsys.readouterr().err == "stopped; nothing is left half-written\n"


def test_the_exit_code_of_a_verb_is_that_of_the_process(verb):
    def no() -> None:
        raise typer.Exit(1)

    verb(no)
    with pytest.raises(SystemExit) as caught:
        run(["try"])
    assert caught.value.code == 1


def test_a_file_that_may_not_be_written_is_the_users_input(verb, capsys):
    def fail() -> None:
        raise PermissionError(13, "Permission denied", "/etc/x")

    verb(fail)
    assert call(["try"]) == 2
    assert capsys.readouterr().err == "error: /etc/x: Permission denied\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["pln"], "there is no command 'pln' (did you mean 'plan'?)"),
        (["plan"], "Missing argument"),
        (["init", "--gpus", "many"], "'many' is not a whole number (see: railwright init --help)"),
        (["init", "--gpu"], "requires an argument"),
        (["plan", "x.yaml", "--sed", "3"], "No such option: --sed"),
    ],
)
def test_wrong_usage_is_code_2_and_says_what_is_right(arguments, says, capsys):
    assert call(arguments) == 2
    assert says in capsys.readouterr().err


def test_wrong_usage_with_json_is_json(capsys):
    assert call(["pln", "--json"]) == 2
    assert json.loads(capsys.readouterr().err)["error"]["exit_code"] == 2


def test_no_arguments_show_the_help_page(capsys):
    assert call([]) == 2
    out, err = capsys.readouterr()
    assert "Usage: railwright" in out + err
    assert "error" not in err


def test_a_closed_pipe_is_no_defect():
    command = f"{sys.executable} -m railwright catalog list | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=60)
    assert "Traceback" not in done.stderr


def test_every_verb_has_its_section_on_the_page_about_the_command_line():
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    headings = " ".join(line for line in page.splitlines() if line.startswith("### `"))
    assert [name for name in COMMANDS if f"`{name}" not in headings] == []


def test_main_knows_only_modules_that_exist():
    assert all(import_module(f"railwright.cli.{module}") for module, *_ in main.COMMANDS.values())
