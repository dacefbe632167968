"""The ``railwright`` command: the table of verbs, each loaded only when it is called, and what becomes of its errors.

Exit codes: 0 fine, 1 the answer is "no", 2 the user's input is wrong, 3 something is missing on the machine, 130 stopped
by the user; 70 is a defect of railwright itself, the only case that shows a stack trace. With ``--json`` an error is one JSON
object on stderr: ``{"error": {"exit_code", "kind", "message", "errors": [{"file", "line", "column", "key", "message"}]}}``.
"""

import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import railwright
from railwright.errors import InputError, RailwrightError, nearest

DEFECT = 70
STOPPED = 130

_MAIN, _STEP, _LOOK = "The main job", "Step by step", "Look up"

# Verb -> module in railwright.cli, name in the module, panel of the help page, one line of help.
COMMANDS: dict[str, tuple[str, str, str, str]] = {
    "init": ("plan", "init", _MAIN, "Write a commented spec that plans without edits."),
    "run": ("run", "run", _MAIN, "Plan, check, simulate and report: one spec in, one folder out."),
    "plan": ("plan", "plan", _STEP, "Design the networks of a spec. Without -o nothing is written."),
    "check": ("check", "check", _STEP, "Say which rules a plan or its configurations break, why, and how to mend it."),
    "simulate": (
        "simulate",
        "simulate",
        _STEP,
        "Simulate a collective on a plan, or your own flows on your own network.",
    ),
    "tune": ("tune", "tune", _STEP, "Search the PFC, ECN and DCQCN settings that carry given traffic best."),
    "report": ("report", "report", _STEP, "Write the report of a plan: one HTML file that works offline."),
    "build": (
        "build",
        "build",
        _STEP,
        "Write the configuration of every box of a plan: switches, servers, subnet managers, services.",
    ),
    "verify": ("verify", "verify", _STEP, "Judge what the commissioning tests measured by the limits of the plan."),
    "busbw": (
        "busbw",
        "busbw",
        _STEP,
        "Print what nccl-tests should print on a plan; with --compare say what a real log shows.",
    ),
    "place": ("place", "place", _STEP, "Say which servers a job should get, as a Slurm node list, and why."),
    "jobs": ("jobs", "jobs", _STEP, "Run several jobs side by side: how much each slows the others."),
    "diff": (
        "build",
        "diff",
        _STEP,
        "Say what changes between two plans or two sets of configurations, and in which order to roll it out and back.",
    ),
    "extend": (
        "plan",
        "extend",
        _STEP,
        "Let a plan grow to N GPUs: existing ids, addresses and cables stay, what has to move is listed.",
    ),
    "explain": (
        "explain",
        "explain",
        _LOOK,
        "Explain a rule, a key of the spec, a catalog entry, or a part of a plan.",
    ),
    "catalog": ("catalog", "catalog_app", _LOOK, "List and show the devices, adapters and parts that a plan can name."),
    "doctor": ("doctor", "doctor", _LOOK, "Say what this machine lacks, and how to install it."),
}


class _Lazy(TyperCommand):
    """A verb of which only the name and the help line are known until it is called."""

    def __init__(self, name: str) -> None:
        self.module, self.attribute, panel, line = COMMANDS[name]
        super().__init__(name, help=line, rich_help_panel=panel)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of the real command."""
        return self.load().make_context(info_name, args, parent=parent, **extra)

    def load(self) -> Any:
        """Import the verb's module and return its command."""
        verb = getattr(import_module(f"railwright.cli.{self.module}"), self.attribute)
        if isinstance(verb, typer.Typer):
            return typer.main.get_group(verb)
        alone = typer.Typer(add_completion=False)
        alone.command(self.name)(verb)
        return typer.main.get_command(alone)


class _Verbs(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        """Return the verbs in the order of the help page."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the verb, not yet imported; raises InputError with the nearest spelling for an unknown one."""
        if cmd_name in COMMANDS:
            return _Lazy(cmd_name)
        if ctx.resilient_parsing or cmd_name.startswith("-"):
            return None
        raise InputError(f"there is no command {cmd_name!r}{nearest(cmd_name, COMMANDS)}; railwright --help lists all")


app = typer.Typer(cls=_Verbs, no_args_is_help=True, pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"railwright {railwright.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Design, check, simulate, configure and operate the networks of AI data centers."""


def run(arguments: Sequence[str] | None = None) -> None:
    """Run the command line with ``arguments`` (``sys.argv`` by default) and exit with its code."""
    sys.exit(call(list(sys.argv[1:] if arguments is None else arguments)))


def call(arguments: list[str]) -> int:
    """Run the command line and return its exit code; errors are printed to stderr."""
    signal.signal(signal.SIGTERM, _terminated)
    as_json = "--json" in arguments
    try:
        result = app(arguments, prog_name="railwright", standalone_mode=False)
    except KeyboardInterrupt:
        result = STOPPED
    except Exception as error:
        return _report(error, as_json)
    if result == STOPPED:
        sys.stderr.write("stopped; nothing is left half-written\n")
    return result if isinstance(result, int) else 0


def _report(error: Exception, as_json: bool) -> int:
    """Print ``error`` to stderr and return the exit code."""
    from railwright.cli.output import print_error

    if isinstance(error, RailwrightError):
        kind = {2: "input", 3: "missing"}.get(error.exit_code, "answer")
        print_error(error, error.exit_code, kind, as_json)
        return error.exit_code
    if hasattr(error, "format_message"):  # a usage error of the argument parser
        message = error.format_message().replace("Value error, ", "")
        if message:  # empty when the help was asked for by giving no arguments
            place = getattr(getattr(error, "ctx", None), "command_path", "railwright")
            print_error(RailwrightError(f"{message} (see: {place} --help)"), 2, "usage", as_json)
        return 2
    if isinstance(error, OSError) and error.filename is not None:
        print_error(RailwrightError(f"{error.filename}: {error.strerror}"), 2, "input", as_json)
        return 2
    print_error(error, DEFECT, "defect", as_json)
    return DEFECT


def _terminated(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
