"""``railwright catalog list|show``: what the catalog knows, each fact with its unit, its source and its doubts."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from railwright.catalog.describe import facts_of
from railwright.catalog.load import KINDS, Catalog, load_catalog
from railwright.catalog.model import Entry, Record
from railwright.catalog.validate import catalog_findings
from railwright.cli.options import Json
from railwright.cli.output import console, print_json, print_table
from railwright.errors import InputError, nearest

catalog_app = typer.Typer(
    no_args_is_help=True, help="List and show the devices, adapters and parts that a plan can name."
)

_UserFile = Annotated[Path | None, typer.Option("--catalog", metavar="FILE", help="A catalog file of your own to add.")]


@catalog_app.command("list")
def list_entries(
    kind: Annotated[str | None, typer.Argument(help=f"One kind only: {', '.join(KINDS)}.")] = None,
    user_file: _UserFile = None,
    as_json: Json = False,
) -> None:
    """List the entries: key, name, vendor and how many of their fields are unverified."""
    catalog = _load(user_file)
    kinds = [kind] if kind else list(KINDS)
    entries = {name: list(catalog.kind(name).values()) for name in kinds}
    if as_json:
        print_json({"entries": [_summary(name, entry) for name in kinds for entry in entries[name]]})
        return
    for name in kinds:
        rows = [(entry.key, entry.name, _vendor(entry), len(entry.unverified) or None) for entry in entries[name]]
        print_table(["key", "name", "vendor", "unverified"], rows, title=name)


@catalog_app.command("show")
def show_entry(
    key: Annotated[str, typer.Argument(help="The key of an entry: sn5600, or switches.sn5600.")],
    user_file: _UserFile = None,
    as_json: Json = False,
) -> None:
    """Show an entry: every field with its value, unit and source, marked where nobody has verified it."""
    kind, entry = _find(_load(user_file), key)
    facts = facts_of(entry)
    if as_json:
        fields = [fact.as_dict() for fact in facts]
        print_json({**_summary(kind, entry), "notes": entry.notes, "fields": fields})
        return
    sources = list(dict.fromkeys(fact.source for fact in facts))
    rows = [
        (fact.field, fact.value, fact.unit, sources.index(fact.source) + 1, "unverified" if fact.unverified else "")
        for fact in facts
    ]
    vendor = _vendor(entry)
    print_table(
        ["field", "value", "unit", "source", ""], rows, title=f"{entry.name}{f' ({vendor})' if vendor else ''}, {kind}"
    )
    out = console()
    if entry.notes:
        out.print(f"\n{escape(entry.notes)}")
    out.print("\nSources")
    for number, text in enumerate(sources, start=1):
        out.print(f"{number:>3}  {escape(text)}")


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
