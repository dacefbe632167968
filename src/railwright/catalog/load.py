"""Reads the catalog: the packaged files ``data/KIND.yaml`` and, on top, one file of the user's own.

A packaged file is parsed entry by entry, when an entry is first asked for: a plan needs five entries, not five hundred. The
user's file has one mapping per kind (``switches:``, ``servers:`` …). A new key adds an entry; a known key changes the fields
that it gives and leaves the others, and what it gives counts as the user's own fact: sourced to the file, not unverified.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from railwright.catalog.model import Gpu, Nic, Record, Server, Switch
from railwright.documents import Document, KeyPath, Place, dotted, parse_document, read_document
from railwright.errors import InputError, InputErrors, nearest
from railwright.validation import sort_errors, validate

E = TypeVar("E", bound=Record)

_KEY = re.compile(r"^[a-z0-9][a-z0-9.+-]*$")
_BLOCK = re.compile(r"^(?=[a-z0-9])", re.MULTILINE)


class Entries(Mapping[str, E]):
    """The entries of one kind by key. ``blocks`` holds the text of those that nobody has asked for yet."""

    def __init__(
        self, model: type[E], blocks: Mapping[str, str], file: str, ready: Mapping[str, E] | None = None
    ) -> None:
        self._model = model
        self._blocks = blocks
        self._file = file
        self._ready = dict(ready or {})

    def __getitem__(self, key: str) -> E:
        if key not in self._ready:
            document = parse_document(self._blocks[key], self._file)
            self._ready[key] = _validated(self._model, key, document.data[key], document, (key,))
        return self._ready[key]

    def __iter__(self) -> Iterator[str]:
        yield from self._blocks
        yield from (key for key in self._ready if key not in self._blocks)

    def __len__(self) -> int:
        return len(self._blocks.keys() | self._ready.keys())

    def fields_of(self, key: str) -> dict[str, Any]:
        """Return the fields of ``key`` as they are written, for a user's entry to change."""
        data = parse_document(self._blocks[key], self._file).data[key]
        return dict(data) if isinstance(data, dict) else {}

    def over(self, entries: Mapping[str, E]) -> "Entries[E]":
        """Return these entries with ``entries`` added or in their place."""
        return Entries(self._model, self._blocks, self._file, {**self._ready, **entries})


KINDS: Mapping[str, type[Record]] = {"gpus": Gpu, "nics": Nic, "servers": Server, "switches": Switch}


@dataclass(frozen=True)
class Catalog:
    """All that is known to exist, by kind and key.

    ``user_keys`` lists the ``(kind, key)`` pairs that the user's file adds or changes.
    """

    entries: Mapping[str, Entries[Any]]
    user_file: Path | None = None
    user_keys: tuple[tuple[str, str], ...] = ()

    @property
    def gpus(self) -> Entries[Gpu]:
        """Accelerators by key."""
        return self.entries["gpus"]

    @property
    def nics(self) -> Entries[Nic]:
        """Network adapters by key."""
        return self.entries["nics"]

    @property
    def servers(self) -> Entries[Server]:
        """Servers and compute trays by key."""
        return self.entries["servers"]

    @property
    def switches(self) -> Entries[Switch]:
        """Switch platforms by key."""
        return self.entries["switches"]

    def gpu(self, key: str, where: str | None = None) -> Gpu:
        """Return a GPU; ``where`` is the key in the user's file that names it. Raises InputError with the nearest spelling."""
        return _lookup(self.gpus, key, "gpus", where)

    def nic(self, key: str, where: str | None = None) -> Nic:
        """Return a network adapter, like :meth:`gpu`."""
        return _lookup(self.nics, key, "nics", where)

    def server(self, key: str, where: str | None = None) -> Server:
        """Return a server, like :meth:`gpu`."""
        return _lookup(self.servers, key, "servers", where)

    def switch(self, key: str, where: str | None = None) -> Switch:
        """Return a switch, like :meth:`gpu`."""
        return _lookup(self.switches, key, "switches", where)

    def kind(self, name: str) -> Entries[Any]:
        """Return the entries of the kind called ``name``; raises InputError with the nearest spelling."""
        if name not in self.entries:
            raise InputError(f"the catalog has no kind {name!r}{nearest(name, KINDS)}; kinds: {', '.join(KINDS)}")
        return self.entries[name]


def load_catalog(user_file: Path | None = None) -> Catalog:
    """Return the packaged catalog, extended and changed by ``user_file``; raises InputError(s) with file, line and key."""
    packaged = {kind: _packaged(kind) for kind in KINDS}
    if user_file is None:
        return Catalog(packaged)
    document = read_document(user_file, what="a catalog file")
    merged, keys = _merge(packaged, document)
    return Catalog(merged, user_file, keys)


@cache
def _packaged(kind: str) -> Entries[Any]:
    file = f"{kind}.yaml"
    text = files("railwright.catalog").joinpath("data", file).read_text(encoding="utf-8")
    blocks = [block for block in _BLOCK.split(text) if not block.startswith("#")]
    return Entries(KINDS[kind], {block[: block.index(":")]: block for block in blocks if block.strip()}, file)


def _lookup(entries: Entries[E], key: str, kind: str, where: str | None) -> E:
    if key in entries:
        return entries[key]
    raise InputError(
        f"the catalog has no {key!r} among its {kind}{nearest(key.lower(), entries)}; "
        f"`railwright catalog list {kind}` shows all",
        key=where,
    )


def _merge(
    packaged: Mapping[str, Entries[Any]], document: Document
) -> tuple[dict[str, Entries[Any]], tuple[tuple[str, str], ...]]:
    """Return the entries of every kind with those of the user's file, and the keys that the file gives."""
    errors: list[InputError] = []
    merged = dict(packaged)
    keys: list[tuple[str, str]] = []
    for kind, given in document.data.items():
        if kind not in KINDS:
            message = f"no such kind of entry{nearest(kind, KINDS)}; kinds: {', '.join(KINDS)}"
            errors.append(document.error((kind,), message, at_key=True))
            continue
        if not isinstance(given, dict):
            errors.append(document.error((kind,), "needs one mapping of entries by key"))
            continue
        ready: dict[str, Record] = {}
        for key, data in given.items():
            try:
                ready[key] = _user_entry(packaged[kind], kind, key, data, document)
            except InputErrors as error:
                errors.extend(error.errors)
            except InputError as error:
                errors.append(error)
            keys.append((kind, key))
        merged[kind] = packaged[kind].over(ready)
    if errors:
        raise InputErrors(sort_errors(errors))
    return merged, tuple(keys)


def _user_entry(packaged: Entries[Any], kind: str, key: str, data: object, document: Document) -> Record:
    path: KeyPath = (kind, key)
    if not _KEY.match(key):
        raise document.error(path, "a key has lower-case letters, digits, '.', '+' and '-' only", at_key=True)
    if not isinstance(data, dict):
        raise document.error(path, "needs the fields of the entry, one per line")
    origin = f"user file {Path(document.file).name}"
    own_sources = data.get("sources", {})
    if not isinstance(own_sources, dict):
        raise document.error((*path, "sources"), "needs a mapping from field (or '*') to source")
    if key not in packaged:
        return _validated(KINDS[kind], key, {**data, "sources": {"*": origin, **own_sources}}, document, path)
    known = packaged.fields_of(key)
    changed = data.keys() - {"sources", "unverified"}
    unverified = [mark for mark in known.get("unverified", []) if mark not in changed]
    sources = {**known["sources"], **dict.fromkeys(sorted(changed), origin), **own_sources}
    combined = {**known, **data, "sources": sources, "unverified": [*unverified, *data.get("unverified", [])]}
    return _validated(KINDS[kind], key, combined, document, path)


def _validated(model: type[E], key: str, data: object, document: Document, path: KeyPath) -> E:
    """Return ``data``, which stands at ``path`` of ``document``, as an entry; raises InputErrors that point at its fields."""
    if not isinstance(data, dict):
        raise document.error(path, "needs the fields of the entry, one per line")
    if "key" in data:
        raise document.error((*path, "key"), "is the name above; leave this line out", at_key=True)
    part = Document(
        document.file, {**data, "key": key}, _below(document.keys, path), _below(document.values, path), comments=()
    )
    try:
        return validate(model, part)
    except InputErrors as error:
        raise InputErrors(_inside(problem, path) for problem in error.errors) from None


def _below(places: Mapping[KeyPath, Place], path: KeyPath) -> dict[KeyPath, Place]:
    depth = len(path)
    return {place[depth:]: where for place, where in places.items() if place[:depth] == path}


def _inside(error: InputError, path: KeyPath) -> InputError:
    """Return ``error`` with its key as seen from the whole file."""
    key = f"{dotted(path)}.{error.key}" if error.key else dotted(path)
    return InputError(error.message, file=error.file, line=error.line, column=error.column, key=key)
