"""Every key of a spec with its kind, default and meaning, read from the models: the page ``docs/spec.md`` and ``explain``."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from railwright import units
from railwright.spec import economics, quantities
from railwright.spec.cluster import ClusterSpec

_KINDS: dict[Callable[..., Any], str] = {
    units.parse_gbps: "rate: `400G`",
    units.parse_bytes: "data: `1 GiB`",
    units.parse_bytes_per_s: "data rate: `40 GB/s`",
    units.parse_m: "length: `2 m`",
    quantities.parse_time: "time: `30 s`",
    units.parse_w: "power: `10 kW`",
    units.parse_kg: "mass: `24 kg`",
    units.parse_per_s: "events: `2000/s`",
    units.parse_ratio: "ratio: `3:1`",
    units.parse_fraction: "share: `2%`",
    units.parse_usd: "price: `$1200`",
    units.parse_usd_per_kwh: "energy price: `$0.09/kWh`",
    units.parse_count: "whole number",
    units.parse_number: "number",
    quantities.check_name: "name",
    quantities.check_catalog_key: "catalog key",
    quantities.check_rule_code: "rule code",
    economics.parse_date: "date: `2025-03`",
}


@dataclass(frozen=True, slots=True)
class Key:
    """One key. ``path`` is dotted, ``[]`` stands for each entry of a list and ``KEY`` for a key of the user's choice.

    ``default`` is text as it would stand in the file, empty for what may be left to the design, None for a needed key.
    A section has its models' docstring as ``description`` and no default.
    """

    path: str
    kind: str
    default: str | None
    description: str
    section: bool = False


def spec_keys() -> list[Key]:
    """Return every key in the order of the models."""
    return list(_keys(ClusterSpec, ""))


def _keys(model: type[BaseModel], above: str) -> Iterator[Key]:
    for name, field in model.model_fields.items():
        path = f"{above}.{name}" if above else name
        inner, mark = _inner_model(field.annotation)
        if inner is None:
            yield Key(path, _kind(field), _default(model, name), field.description or "")
            continue
        needed = "needed, " if field.is_required() else ""
        shape = {"": "section", "[]": "list of sections", ".KEY": "one section for each catalog key"}[mark]
        yield Key(
            path + mark, needed + shape, None, " ".join((inner.__doc__ or "").replace("``", "`").split()), section=True
        )
        yield from _keys(inner, path + mark)


def _inner_model(kind: Any) -> tuple[type[BaseModel] | None, str]:
    """Return the model that a field holds and how: alone, in a list (``[]``) or by key (``.KEY``)."""
    for member in _members(kind):
        if isinstance(member, type) and issubclass(member, BaseModel):
            return member, ""
        arguments = get_args(member)
        held = arguments[1 if get_origin(member) is dict else 0] if arguments else None
        if isinstance(held, type) and issubclass(held, BaseModel):
            return held, ".KEY" if get_origin(member) is dict else "[]"
    return None, ""


def _members(kind: Any) -> Iterator[Any]:
    if get_origin(kind) in (Union, UnionType):
        for member in get_args(kind):
            yield from _members(member)
    elif kind is not type(None):
        yield kind


def _kind(field: FieldInfo) -> str:
    kind = next(_members(field.annotation))
    metadata = [*field.metadata, *getattr(kind, "__metadata__", ())]
    for part in metadata:
        if isinstance(part, BeforeValidator | AfterValidator) and part.func in _KINDS:
            return _KINDS[part.func]
    if get_origin(kind) is tuple:
        return "list of " + ", ".join(f"`{choice}`" for choice in get_args(get_args(kind)[0]))
    if get_origin(kind) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(kind))
    return {bool: "`true`, `false`", str: "text"}[getattr(kind, "__origin__", kind)]


def _default(model: type[BaseModel], name: str) -> str | None:
    field = model.model_fields[name]
    if field.is_required():
        return None
    value = field.get_default(call_default_factory=True)
    if value is None or value == ():
        return ""
    written = model.model_construct(**{name: value}).model_dump(mode="json", include={name})[name]
    return str(written).lower() if isinstance(written, bool) else str(written)


def reference_tables() -> str:
    """Return the keys as Markdown: one heading and table per section."""
    text = _table("The file", "A whole `cluster.yaml`.", [key for key in spec_keys() if "." not in key.path])
    for section in spec_keys():
        if section.section:
            below = [key for key in spec_keys() if key.path.rpartition(".")[0] == section.path]
            text += _table(f"`{section.path}`", section.description, below)
    return text


def _table(title: str, description: str, keys: list[Key]) -> str:
    rows = "".join(f"| `{key.path}` | {key.kind} | {_shown_default(key)} | {_meaning(key)} |\n" for key in keys)
    return f"\n## {title}\n\n{description}\n\n| key | value | default | meaning |\n|---|---|---|---|\n{rows}"


def _shown_default(key: Key) -> str:
    if key.section:
        return ""
    return "**needed**" if key.default is None else f"`{key.default}`" if key.default else "left out"


def _meaning(key: Key) -> str:
    return key.description.split(". ")[0].rstrip(".") + "." if key.section else key.description


if __name__ == "__main__":
    sys.stdout.write(reference_tables())
