"""A YAML file as plain data in which every key and value remembers its line and column.

The reader is strict so that a file means what it seems to mean: YAML 1.2 core schema whatever the file claims (``yes`` and
``3:1`` are text), no tags, no merge keys, no duplicate keys, one document, UTF-8 only. Aliases are allowed up to a total
of ``MOST_ALIASED`` repeated nodes. Anything else is an :class:`~railwright.errors.InputError` at its line.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from railwright.errors import InputError, InputErrors, nearest

KeyPath = tuple[str | int, ...]

MOST_BYTES = 16 * 2**20
MOST_DEPTH = 32
MOST_ALIASED = 10_000

_NULL = re.compile(r"^(~|null|Null|NULL|)$")
_BOOL = re.compile(r"^(true|True|TRUE|false|False|FALSE)$")
_INT = re.compile(r"^[-+]?[0-9]{1,40}$")
_HEX = re.compile(r"^0(x[0-9a-fA-F]{1,32}|o[0-7]{1,40})$")
_FLOAT = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?$")
_HASH = re.compile(r"(?:^|(?<=\s))#", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in a file, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment with its ``#``."""

    place: Place
    text: str


@dataclass(frozen=True)
class Document:
    """The data of a file (a mapping) and the places of its keys and values.

    A key path is a tuple of keys and list positions: ``("sites", 0, "name")``.
    """

    file: Path | str
    data: dict[str, Any]
    keys: Mapping[KeyPath, Place]
    values: Mapping[KeyPath, Place]
    comments: tuple[Comment, ...]

    def error(self, path: KeyPath, message: str, *, at_key: bool = False) -> InputError:
        """Return an error at the value of ``path`` (at its key when ``at_key``), or at its nearest ancestor that is written."""
        known = path
        while known and known not in self.values:
            known, at_key = known[:-1], True
        place = (self.keys if at_key and known in self.keys else self.values)[known]
        return InputError(message, file=self.file, line=place.line, column=place.column, key=dotted(path) or None)

    def path_of(self, key: str | None) -> KeyPath:
        """Return the key path of the dotted ``key``, as far as it is written in the file."""
        paths = {dotted(path): path for path in self.values}
        parts = (key or "").split(".")
        return next((paths[".".join(parts[:n])] for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in paths), ())


def dotted(path: KeyPath) -> str:
    """Return a key path as people write it: ``sites[0].name``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read_document(path: Path, *, what: str = "a YAML file") -> Document:
    """Read and parse ``path``; raises InputError (or InputErrors) when it is not a readable, strict YAML mapping."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"no such file{_nearest_file(path)}", file=path) from None
    except IsADirectoryError:
        raise InputError(f"is a directory; {what} is needed here", file=path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path) from None
    if len(raw) > MOST_BYTES:
        raise InputError(f"is larger than {MOST_BYTES // 2**20} MiB", file=path)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        raise InputError(
            f"byte 0x{raw[error.start]:02x} is not UTF-8; save the file as UTF-8", file=path, line=line, column=column
        ) from None
    return parse_document(text, path)


def parse_document(text: str, file: Path | str) -> Document:
    """Return the document in ``text``; ``file`` is only its name in errors."""
    builder = _Builder(text, file)
    try:
        data = builder.build()
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = {"line": mark.line + 1, "column": mark.column + 1} if mark else {}
        raise InputError(f"is not YAML: {_explain(error)}", file=file, **place) from None
    except ReaderError as error:
        before = text[: error.position]
        raise InputError(
            f"character {text[error.position]!r} is not allowed in YAML",
            file=file,
            line=before.count("\n") + 1,
            column=error.position - before.rfind("\n"),
        ) from None
    except (YAMLError, ValueError, OverflowError) as error:
        raise InputError(f"is not YAML: {error}", file=file) from None
    if builder.errors:
        raise builder.errors[0] if len(builder.errors) == 1 else InputErrors(builder.errors)
    return Document(file, data, builder.keys, builder.values, tuple(builder.comments()))


def _nearest_file(path: Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return ""
    return nearest(path.name, names)


def _explain(error: MarkedYAMLError) -> str:
    problem = error.problem or "not understood"
    if "'\\t'" in problem:
        return "a tab cannot indent; use spaces"
    if "mapping values are not allowed" in problem:
        return "a second ':' on this line, or an indentation that does not fit; quote the text if it holds ': '"
    return f"{problem} {error.context or ''}".strip()


def _scalar(event: ScalarEvent) -> Any:
    """Return the value of a scalar by the YAML 1.2 core schema; quoted and block scalars are text."""
    text: str = event.value
    if not event.implicit[0]:
        return text
    if _NULL.match(text):
        return None
    if _BOOL.match(text):
        return text.lower() == "true"
    if _INT.match(text):
        return int(text)
    if _HEX.match(text):
        return int(text, 0)
    return float(text) if _FLOAT.match(text) else text


@dataclass
class _Builder:
    """Turns the parser's events into data; ``size`` of a value is its number of nodes with aliases written out."""

    text: str
    file: Path | str
    keys: dict[KeyPath, Place] = field(default_factory=dict)
    values: dict[KeyPath, Place] = field(default_factory=dict)
    errors: list[InputError] = field(default_factory=list)
    anchors: dict[str, tuple[Any, int]] = field(default_factory=dict)
    spans: list[tuple[int, int]] = field(default_factory=list)
    aliased: int = 0

    def build(self) -> dict[str, Any]:
        events: Iterator[Event] = iter(YAML(typ="safe", pure=True).parse(self.text))
        next(events)
        if not isinstance(next(events), DocumentStartEvent):
            raise InputError("is empty", file=self.file)
        first = next(events)
        if not isinstance(first, MappingStartEvent):
            raise self._error(first, (), "the file is not a mapping; it needs 'key: value' lines")
        self.values[()] = _place(first)
        data, _ = self._mapping(events, ())
        rest = [event for event in events if isinstance(event, DocumentStartEvent)]
        if rest:
            raise self._error(rest[0], (), "a second YAML document starts here; one file holds one")
        return data

    def comments(self) -> Iterator[Comment]:
        """Yield the comments: from a ``#`` after a space that is not inside a scalar to the end of the line."""
        inside, spans, past = 0, sorted(self.spans), 0
        for match in _HASH.finditer(self.text):
            start = match.start()
            while inside < len(spans) and spans[inside][1] <= start:
                inside += 1
            if start < past or (inside < len(spans) and spans[inside][0] <= start):
                continue
            end = self.text.find("\n", start)
            past = end if end >= 0 else len(self.text)
            line = self.text.count("\n", 0, start) + 1
            yield Comment(Place(line, start - self.text.rfind("\n", 0, start)), self.text[start:past].rstrip())

    def _error(self, event: Event, path: KeyPath, message: str) -> InputError:
        place = _place(event)
        return InputError(message, file=self.file, line=place.line, column=place.column, key=dotted(path) or None)

    def _value(self, event: Event, events: Iterator[Event], path: KeyPath) -> tuple[Any, int]:
        """Return the value that starts with ``event`` and its size."""
        self.values[path] = _place(event)
        if isinstance(event, AliasEvent):
            return self._alias(event, path)
        if not isinstance(event, ScalarEvent | SequenceStartEvent | MappingStartEvent):
            raise self._error(event, path, "a value is missing")
        if event.ctag is not None:
            raise self._error(event, path, f"the tag {event.tag!r} is not allowed; write plain values")
        if len(path) > MOST_DEPTH:
            raise self._error(event, path[:3], f"is nested more than {MOST_DEPTH} levels deep")
        if isinstance(event, ScalarEvent):
            if not _encodes(event.value):
                raise self._error(event, path, "holds an escape that is no character (half of a surrogate pair)")
            self.spans.append((event.start_mark.index, event.end_mark.index))
            value, size = _scalar(event), 1
        elif isinstance(event, SequenceStartEvent):
            value, size = self._sequence(events, path)
        else:
            value, size = self._mapping(events, path)
        if event.anchor:
            self.anchors[event.anchor] = value, size
        return value, size

    def _alias(self, event: AliasEvent, path: KeyPath) -> tuple[Any, int]:
        if event.anchor not in self.anchors:
            raise self._error(
                event, path, f"alias '*{event.anchor}' has no finished anchor '&{event.anchor}' before it"
            )
        value, size = self.anchors[event.anchor]
        self.aliased += size
        if self.aliased > MOST_ALIASED:
            raise self._error(event, path, f"aliases repeat more than {MOST_ALIASED} values; write them out")
        return value, size

    def _sequence(self, events: Iterator[Event], path: KeyPath) -> tuple[list[Any], int]:
        items: list[Any] = []
        total = 1
        for event in events:
            if isinstance(event, SequenceEndEvent):
                break
            item, size = self._value(event, events, (*path, len(items)))
            items.append(item)
            total += size
        return items, total

    def _mapping(self, events: Iterator[Event], path: KeyPath) -> tuple[dict[str, Any], int]:
        items: dict[str, Any] = {}
        lines: dict[str, int] = {}
        total = 1
        for event in events:
            if isinstance(event, MappingEndEvent):
                break
            if not isinstance(event, ScalarEvent) or event.ctag is not None or not _encodes(event.value):
                raise self._error(event, path, "a key must be plain text")
            self.spans.append((event.start_mark.index, event.end_mark.index))
            key = event.value
            here = (*path, key)
            if key == "":
                raise self._error(event, path, "a key is missing before ':'")
            if key == "<<":
                raise self._error(event, here, "merge keys are not part of YAML 1.2; write the keys out")
            if key in lines:
                self.errors.append(self._error(event, here, f"this key is already given in line {lines[key]}"))
            self.keys[here] = _place(event)
            lines.setdefault(key, self.keys[here].line)
            following = next(events)
            value, size = self._value(following, events, here)
            if following.start_mark.index == following.end_mark.index:
                self.values[here] = self.keys[here]
            items[key] = value
            total += size
        return items, total


def _place(event: Event) -> Place:
    return Place(event.start_mark.line + 1, event.start_mark.column + 1)


def _encodes(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


# What stands without quotes: words (but not those that older readers take for something else) and numbers with a unit.
_PLAIN = re.compile(r"(?!(?i:y|n|yes|no|on|off)$)([A-Za-z$][\w$./+-]*( [\w./+-]+)*|[0-9.]+ ?[A-Za-zµ%/]+)", re.ASCII)


def write_yaml(data: Mapping[str, Any], indent: int = 0) -> str:
    """Return plain data (mappings, lists, text, numbers, booleans, nothing) as YAML that :func:`parse_document` reads back."""
    lines = ""
    pad = "  " * indent
    for key, value in data.items():
        lines += f"{pad}{_written(key)}:"
        if isinstance(value, Mapping) and value:
            lines += "\n" + write_yaml(value, indent + 1)
        elif isinstance(value, list) and any(isinstance(item, Mapping) and item for item in value):
            blocks = [write_yaml(i, indent + 2).strip() if isinstance(i, Mapping) and i else _written(i) for i in value]
            lines += "".join(f"\n{pad}  - {block}" for block in blocks) + "\n"
        else:
            lines += f" {_written(value)}\n"
    return lines


def _written(value: Any) -> str:
    """Return a scalar, or a list or mapping of scalars in one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_written(key)}: {_written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) and _is_text(value) else _quoted(value)
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return repr(value)


def _is_text(text: str) -> bool:
    return not any(pattern.match(text) for pattern in (_NULL, _BOOL, _INT, _HEX, _FLOAT))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
