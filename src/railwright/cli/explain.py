"""``railwright explain ID``: one word in, what is known about it out.

An ID is tried as a rule code (``RW101``), a key of the spec (``backend.topology``), a key of the catalog (``sn5600``) and,
with ``--plan``, as a part of that plan: the name of a device, ``DEVICE:PORT``, or ``device:3``, ``port:17``, ``link:4``,
``cable:9`` by id; ``C000009`` is how the papers call that cable.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railwright.cli.options import Json
from railwright.errors import InputError, nearest

if TYPE_CHECKING:
    from railwright.design.plan import Plan

_CABLE_IN_PAPERS = re.compile(r"C(\d{6,})")
_Explained = tuple[str, dict[str, Any]]

# Table -> its id column, for `link:4` and the like.
_BY_ID = {
    "device": ("devices", "device_id"),
    "port": ("ports", "port_id"),
    "link": ("links", "link_id"),
    "cable": ("cables", "cable_id"),
    "rack": ("racks", "rack_id"),
}


def explain(
    what: Annotated[
        str, typer.Argument(metavar="ID", help="RW101, backend.topology, sn5600, or with --plan a part of it.")
    ],
    folder: Annotated[
        Path | None, typer.Option("--plan", metavar="PLAN", help="Folder of a plan or of a run, or a spec, to look in.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Explain a rule, a key of the spec, a catalog entry, or a part of a plan."""
    from railwright.cli.output import print_json, print_pairs

    kind, fields = _find(what, folder)
    if as_json:
        print_json({"id": what, "kind": kind, "fields": fields})
    else:
        print_pairs(f"{what} ({kind})", fields)


def _find(what: str, folder: Path | None) -> _Explained:
    known: list[str] = []
    for look in (_rule, _spec_key, _catalog_entry):
        found = look(what, known)
        if found is not None:
            return found
    if folder is not None:
        from railwright.cli.inputs import open_plan

        plan = open_plan(folder)
        part = next(_plan_parts(plan, what), None)
        if part is not None:
            return part
        known += plan.devices["name"].to_list()
    hint = "" if folder is not None else "; for a device, port, link or cable add --plan PLAN"
    raise InputError(f"nothing is known as {what!r}{nearest(what, known)}{hint}", key="ID")


def _rule(what: str, known: list[str]) -> _Explained | None:
    from railwright.check.configs import config_rule_texts
    from railwright.check.engine import rule_texts

    rules = rule_texts() | config_rule_texts()
    known += rules
    rule = rules.get(what.upper())
    return None if rule is None else ("rule", rule.model_dump(mode="json"))


def _spec_key(what: str, known: list[str]) -> _Explained | None:
    from railwright.spec.reference import spec_keys

    keys = {key.path.replace("[]", ""): key for key in spec_keys()}
    known += keys
    key = keys.get(what)
    if key is None:
        return None
    below = [path for path in keys if path.startswith(f"{what}.") and "." not in path[len(what) + 1 :]]
    values = {"value": key.kind, "default": "chosen by the design" if key.default == "" else key.default}
    return "key of the spec", {"meaning": key.description, **({"keys": below} if key.section else values)}


def _catalog_entry(what: str, known: list[str]) -> _Explained | None:
    from railwright.catalog.describe import facts_of
    from railwright.catalog.load import KINDS, load_catalog

    catalog = load_catalog()
    for kind in KINDS:
        entries = catalog.kind(kind)
        known += entries
        if what in entries:
            entry = entries[what]
            facts = {fact.field: fact.value for fact in facts_of(entry)}
            described = {
                "name": entry.name,
                "vendor": entry.vendor,
                **facts,
                "unverified": list(entry.unverified) or None,
            }
            return f"{kind} of the catalog; with sources: railwright catalog show {what}", described
    return None


def _plan_parts(plan: "Plan", what: str) -> Iterator[_Explained]:
    """Yield the row of the plan that ``what`` names, with what it is connected to."""
    import polars as pl

    in_papers = _CABLE_IN_PAPERS.fullmatch(what)
    kind, _, number = (f"cable:{int(in_papers[1])}" if in_papers else what).partition(":")
    if kind in _BY_ID and number.isdecimal():
        table, column = _BY_ID[kind]
        for row in plan.table(table).filter(pl.col(column) == int(number)).iter_rows(named=True):
            yield f"{kind} of the plan", {**row, **_connections(plan, kind, int(number))}
    for row in plan.devices.filter(pl.col("name") == kind).iter_rows(named=True):
        if not number:
            yield "device of the plan", {**row, **_connections(plan, "device", row["device_id"])}
            continue
        ports = plan.ports.filter((pl.col("device_id") == row["device_id"]) & (pl.col("name") == number))
        for port in ports.iter_rows(named=True):
            yield "port of the plan", {**port, **_connections(plan, "port", port["port_id"])}


def _connections(plan: "Plan", kind: str, number: int) -> dict[str, Any]:
    """Return the links at a device, port or cable as ``DEVICE:PORT - DEVICE:PORT``, and its addresses."""
    import polars as pl

    named = plan.named_links()
    at = {
        "device": (pl.col("a_device_id") == number) | (pl.col("b_device_id") == number),
        "port": (pl.col("a_port") == number) | (pl.col("b_port") == number),
        "link": pl.col("link_id") == number,
        "cable": pl.col("cable_id") == number,
    }.get(kind)
    if at is None:
        return {}
    if kind == "cable":
        from railwright.design.explain_cable import explain_cable

        return {"why": explain_cable(plan, number)}
    ends = [pl.concat_str(pl.col(f"{side}_device"), pl.lit(":"), pl.col(f"{side}_port_name")) for side in ("a", "b")]
    links = named.filter(at).select(pl.concat_str(*ends, separator=" - ")).to_series().to_list()
    found: dict[str, Any] = {"connects": links}
    if kind in ("device", "port"):
        found["addresses"] = plan.table("addresses").filter(pl.col(f"{kind}_id") == number)["address"].to_list()
    return found
