"""What commands print: results to stdout as tables or as JSON, progress and errors to stderr.

JSON keeps the order in which its keys were made, so that the same input gives the same bytes. Tables are cut to a terminal
and are not cut when they go into a file or a pipe.
"""

import json
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, TextIO

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from railwright.errors import InputError

_WIDTH_OF_FILES = 200


def console(stream: TextIO | None = None) -> Console:
    """Return a console on ``stream`` (stdout by default)."""
    target = stream or sys.stdout
    return Console(file=target, highlight=False, width=None if target.isatty() else _WIDTH_OF_FILES)


def print_json(data: Mapping[str, Any]) -> None:
    """Print ``data`` as the only thing on stdout."""
    sys.stdout.write(as_json(data) + "\n")


def as_json(data: Mapping[str, Any]) -> str:
    """Return ``data`` as JSON; an unknown number (NaN) must be None before it comes here."""
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "item"):  # a NumPy scalar
        return value.item()
    raise TypeError(f"{type(value).__name__} is not plain data")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Print a table; numbers stand to the right, None is a dash."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    listed = [list(row) for row in rows]
    for index, column in enumerate(columns):
        numeric = all(row[index] is None or isinstance(row[index], int | float) for row in listed)
        table.add_column(column, justify="right" if numeric and listed else "left", header_style="dim")
    for row in listed:
        table.add_row(*(escape(_cell(value)) for value in row))
    console().print(table)


_MOST_ITEMS = 12


def print_pairs(title: str, pairs: Mapping[str, object]) -> None:
    """Print fields below each other; long lists are cut and say so. What is None is not printed."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column()
    for key, value in pairs.items():
        if isinstance(value, list):
            more = f"\n… and {len(value) - _MOST_ITEMS:,} more" if len(value) > _MOST_ITEMS else ""
            table.add_row(key, escape("\n".join(map(_cell, value[:_MOST_ITEMS])) + more))
        elif value is not None:
            table.add_row(key, escape(_cell(value)))
    out = console()
    out.print(f"[bold]{escape(title)}[/bold]")
    out.print(table)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"
    if isinstance(value, Mapping):
        return "; ".join(f"{key} {_cell(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


_COLOURS = {"error": "bold red", "warning": "yellow", "info": "cyan", "waived": "dim"}


def print_paragraphs(paragraphs: Iterable[tuple[tuple[str, str], str, str]]) -> None:
    """Print ``((kind, title), text, hint)`` one below the other; the kind has the colour of its severity."""
    out = console()
    for (kind, title), text, hint in paragraphs:
        out.print(f"[{_COLOURS[kind]}]{kind}[/] [bold]{escape(title)}[/bold]")
        out.print(Padding(escape(text), (0, 0, 0, 2), expand=False))
        out.print(Padding(f"[dim]{escape(hint)}[/dim]", (0, 0, 1, 2), expand=False))


class Steps:
    """Tells on stderr what is being done and, afterwards, how long it took; silent when ``quiet``."""

    def __init__(self, *, quiet: bool) -> None:
        self.seconds: dict[str, float] = {}
        self._quiet = quiet
        self._console = console(sys.stderr)

    @contextmanager
    def step(self, name: str, what: str) -> Iterator[Callable[[str], None]]:
        """Time the block as ``name``; ``what`` is shown while it runs, with what the block tells the function it is given."""
        start = perf_counter()
        if self._quiet:
            yield _say_nothing
        else:
            with self._console.status(f"{escape(what)} …") as status:
                yield lambda detail: status.update(f"{escape(what)}: {escape(detail)} …")
        self.seconds[name] = round(perf_counter() - start, 3)
        if not self._quiet:
            self._console.print(f"{name:<10}{self.seconds[name]:>9.2f} s   [dim]{escape(what)}[/dim]")


def _say_nothing(detail: str) -> None:
    """Take what a step tells when nobody wants to hear it."""


def print_error(error: Exception, exit_code: int, kind: str, json_wanted: bool) -> None:
    """Print ``error`` to stderr: as JSON, or as text with the line of the file that it is about."""
    singles = error.flat() if isinstance(error, InputError) else []
    if json_wanted:
        listed = [single.as_dict() for single in singles]
        fields = {"exit_code": exit_code, "kind": kind, "message": str(error) or type(error).__name__, "errors": listed}
        sys.stderr.write(as_json({"error": fields}) + "\n")
        return
    if kind == "defect":
        traceback.print_exception(error)
        sys.stderr.write("This is a defect in railwright, not in your input; please report it with the lines above.\n")
        return
    out = console(sys.stderr)
    if not singles:
        _print_message(out, error)
    for single in singles:
        _print_message(out, single)
        _print_line(out, single)


def _print_message(out: Console, error: Exception) -> None:
    out.print(f"[bold red]error[/bold red]: {escape(str(error))}", soft_wrap=True)


def _print_line(out: Console, error: InputError) -> None:
    """Print the line that an error is about, with a mark below its column."""
    if error.file is None or error.line is None:
        return
    try:
        line = Path(error.file).read_text(encoding="utf-8").splitlines()[error.line - 1]
    except (OSError, UnicodeDecodeError, IndexError):
        return
    number = f"{error.line:>6} "
    out.print(f"[dim]{number}| {escape(line)}[/dim]", soft_wrap=True)
    if error.column is not None:
        out.print(f"{' ' * len(number)}| {' ' * (error.column - 1)}[red]^[/red]", soft_wrap=True)
