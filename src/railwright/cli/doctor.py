"""``railwright doctor``: what this machine has and lacks, what each thing is for, and the command that installs it.

The list is data (``data/doctor.yaml``). Only what every command needs decides the exit code: 3 when some of it is missing.
"""

import os
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import BaseModel, ConfigDict, TypeAdapter

from railwright.cli.options import Json
from railwright.cli.output import print_json, print_table
from railwright.documents import parse_document

# Debian keeps daemons where an ordinary user's PATH does not look.
_PLACES = os.pathsep.join(("/usr/sbin", "/sbin", "/usr/lib/frr", "/usr/local/sbin"))


class Need(BaseModel):
    """Something that a machine may have: a Python module, a program, the Python itself or a right."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["python", "module", "program", "root"]
    probe: str
    what: str
    install: str
    needed: bool = False


def doctor(
    as_json: Json = False,
    validation: Annotated[
        Path | None,
        typer.Option(
            "--validation", metavar="FILE", help="Compare the models with measurements and each other (minutes)."
        ),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(
            "--calibration",
            metavar="FILE",
            help="Measure goodput with the packet engine and write the constants (minutes).",
        ),
    ] = None,
) -> None:
    """Say what this machine lacks, and how to install it."""
    if validation is not None:
        _validate(validation, as_json=as_json)
        return
    if calibration is not None:
        _calibrate(calibration, as_json=as_json)
        return
    rows = [_row(name, need) for name, need in _needs().items()]
    lacking = [row for row in rows if row["needed"] and not row["present"]]
    if as_json:
        print_json({"ready": not lacking, "items": rows})
    else:
        print_table(
            ("", "item", "version", "for", "install with"),
            ((_mark(row), row["name"], row["version"] or "", row["what"], row["install"] or "") for row in rows),
        )
        typer.echo("\nready" if not lacking else f"\nnot ready: {', '.join(row['name'] for row in lacking)} missing")
    if lacking:
        raise typer.Exit(3)


def _validate(file: Path, *, as_json: bool) -> None:
    """Write the validation page; exit code 1 when a bar is missed."""
    from railwright.cli.folders import write_file
    from railwright.cli.output import console
    from railwright.simulate.validation_page import validation_page

    progress = console(sys.stderr)
    page = validation_page(lambda what: None if as_json else progress.print(f"[dim]{what}[/dim]"))
    write_file(file, page.text, force=True)
    if as_json:
        print_json({"path": str(file), "missed": list(page.missed)})
    else:
        typer.echo(f"{file} written; {'; '.join(page.missed) if page.missed else 'all bars met'}")
    if page.missed:
        raise typer.Exit(1)


def _calibrate(file: Path, *, as_json: bool) -> None:
    """Write the goodput constants from fresh runs of the packet engine."""
    from railwright.cli.folders import write_file
    from railwright.cli.output import console
    from railwright.simulate.calibration import calibrate, calibration_text

    progress = console(sys.stderr)
    made = calibrate(lambda what: None if as_json else progress.print(f"[dim]{what}[/dim]"))
    write_file(file, calibration_text(made), force=True)
    if as_json:
        print_json({"path": str(file), "rows": len(made.rows)})
    else:
        typer.echo(f"{file} written: {len(made.rows)} rows")


def _needs() -> dict[str, Need]:
    text = files("railwright.cli").joinpath("data/doctor.yaml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, Need]).validate_python(parse_document(text, "doctor.yaml").data)


def _row(name: str, need: Need) -> dict[str, Any]:
    present, found = _PROBES[need.kind](need.probe)
    return {
        "name": name,
        "present": present,
        "needed": need.needed,
        "version": found,
        "what": need.what,
        "install": None if present else need.install,
    }


def _python(least: str) -> tuple[bool, str | None]:
    found = sys.version_info[:3]
    return found >= tuple(int(part) for part in least.split(".")), ".".join(map(str, found))


def _module(name: str) -> tuple[bool, str | None]:
    try:
        if find_spec(name) is None:
            return False, None
    except ModuleNotFoundError:
        return False, None
    try:
        return True, version(name.split(".")[0])
    except PackageNotFoundError:
        return True, None


def _program(name: str) -> tuple[bool, str | None]:
    where = shutil.which(name) or shutil.which(name, path=_PLACES)
    return where is not None, None


def _root(_: str) -> tuple[bool, str | None]:
    return os.geteuid() == 0, None


_PROBES = {"python": _python, "module": _module, "program": _program, "root": _root}


def _mark(row: dict[str, Any]) -> str:
    if row["present"]:
        return "ok"
    return "MISSING" if row["needed"] else "-"
