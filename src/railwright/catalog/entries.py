"""The entries of one kind, parsed and validated when they are first asked for: a plan needs five of five hundred."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from railwright.catalog.model import Record
from railwright.documents import Document, KeyPath, Place, dotted, parse_document
from railwright.errors import InputError, InputErrors
from railwright.validation import validate

E = TypeVar("E", bound=Record)

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
            self._ready[key] = validated(self._model, key, document.data[key], document, (key,))
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


def entries_in(model: type[E], text: str, file: str) -> Entries[E]:
    """Return the entries in the ``text`` of a packaged file: one block per key that stands at the start of a line."""
    blocks = [block for block in _BLOCK.split(text) if block[:1] not in ("", "#", "\n")]
    return Entries(model, {block[: block.index(":")]: block for block in blocks}, file)


def validated(model: type[E], key: str, data: object, document: Document, path: KeyPath) -> E:
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
