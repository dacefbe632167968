"""``railwright catalog list|show``: what the catalog knows, each fact with its unit, its source and its doubts."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from railwright.catalog.describe import facts_of
from railwright.catalog.load import KINDS, Catalog, load_catalog
from railwright.catalog.model import Entry, Record
from railwright.catalog.validate import catalog_findings
from railwright.errors import InputError, nearest

catalog_app = typer.Typer(
    no_args_is_help=True, help="List and show the devices, adapters and parts that a plan can name."
)

_UserFile = Annotated[Path | None, typer.Option("--catalog", metavar="FILE", help="A catalog file of your own to add.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@catalog_app.command("list")
def list_entries(
    kind: Annotated[str | None, typer.Argument(help=f"One kind only: {', '.join(KINDS)}.")] = None,
    user_file: _UserFile = None,
    as_json: _Json = False,
) -> None:
    """List the entries: key, name, vendor and how many of their fields are unverified."""
    catalog = _load(user_file)
    kinds = [kind] if kind else list(KINDS)
    entries = {name: list(catalog.kind(name).values()) for name in kinds}
    if as_json:
        _print_json({"entries": [_summary(name, entry) for name in kinds for entry in entries[name]]})
        return
    for name in kinds:
        table = Table("key", "name", "vendor", "unverified", title=name, title_justify="left", box=None)
        for entry in entries[name]:
            table.add_row(entry.key, escape(entry.name), escape(_vendor(entry)), str(len(entry.unverified) or ""))
        Console().print(table)


@catalog_app.command("show")
def show_entry(
    key: Annotated[str, typer.Argument(help="The key of an entry: sn5600, or switches.sn5600.")],
    user_file: _UserFile = None,
    as_json: _Json = False,
) -> None:
    """Show an entry: every field with its value, unit and source, marked where nobody has verified it."""
    kind, entry = _find(_load(user_file), key)
    facts = facts_of(entry)
    if as_json:
        fields = [fact.as_dict() for fact in facts]
        _print_json({**_summary(kind, entry), "notes": entry.notes, "fields": fields})
        return
    sources = list(dict.fromkeys(fact.source for fact in facts))
    table = Table("field", "value", "unit", "source", "", box=None)
    for fact in facts:
        source = str(sources.index(fact.source) + 1)
        table.add_row(fact.field, escape(_text(fact.value)), fact.unit, source, "unverified" if fact.unverified else "")
    console = Console(highlight=False)
    vendor = f" ({escape(_vendor(entry))})" if _vendor(entry) else ""
    console.print(f"[bold]{escape(entry.name)}[/bold]{vendor}, {kind}")
    console.print(table)
    if entry.notes:
        console.print(f"\n{escape(entry.notes)}")
    console.print("\nSources")
    for number, text in enumerate(sources, start=1):
        console.print(f"{number:>3}  {escape(text)}")


def _load(user_file: Path | None) -> Catalog:
    catalog = load_catalog(user_file)
    for finding in catalog_findings(catalog, only_user=True):
        typer.echo(f"{finding.severity.value}: {finding.code} {finding.subject}: {finding.message}", err=True)
    return catalog


def _find(catalog: Catalog, key: str) -> tuple[str, Record]:
    named, _, rest = key.partition(".")
    if named in KINDS and rest in catalog.kind(named):
        return named, catalog.kind(named)[rest]
    for kind in KINDS:
        if key in catalog.kind(kind):
            return kind, catalog.kind(kind)[key]
    every = [known for kind in KINDS for known in catalog.kind(kind)]
    raise InputError(
        f"the catalog has no entry {key!r}{nearest(key.lower(), every)}; `railwright catalog list` shows all"
    )


def _summary(kind: str, entry: Record) -> dict[str, Any]:
    return {
        "kind": kind,
        "key": entry.key,
        "name": entry.name,
        "vendor": _vendor(entry) or None,
        "unverified": list(entry.unverified),
    }


def _vendor(entry: Record) -> str:
    return entry.vendor if isinstance(entry, Entry) else ""


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name} {_text(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _print_json(data: dict[str, Any]) -> None:
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
