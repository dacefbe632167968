"""From a document to a pydantic model, with every mistake as an error at its line that says what would be right.

``validate`` is for any file that people write: specs, catalogs, networks, search spaces. Messages name the value found,
the values allowed and the nearest spelling; an unknown key that belongs to another section says to which.
"""

from collections.abc import Iterator
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from railwright.documents import Document, KeyPath, dotted
from railwright.errors import InputError, InputErrors, nearest

_Model = TypeVar("_Model", bound=BaseModel)

_PLAIN: dict[str, str] = {
    "missing": "this key is needed",
    "string_type": "{value} is not text; put it in quotes",
    "string_too_short": "{value} is too short; at least {min_length} characters",
    "bool_parsing": "{value} is neither true nor false",
    "bool_type": "{value} is neither true nor false",
    "greater_than": "{value} is out of range; it must be more than {gt}",
    "greater_than_equal": "{value} is out of range; it must be at least {ge}",
    "less_than": "{value} is out of range; it must be less than {lt}",
    "less_than_equal": "{value} is out of range; it must be at most {le}",
    "tuple_type": "{value} is not a list; write for example [a, b]",
    "list_type": "{value} is not a list; write for example [a, b]",
    "too_short": "the list is too short; at least {min_length} entries",
    "dict_type": "{value} is not a mapping; it needs 'key: value' lines",
    "model_type": "{value} is not a mapping; it needs 'key: value' lines",
    "model_attributes_type": "{value} is not a mapping; it needs 'key: value' lines",
}


def validate(model: type[_Model], document: Document) -> _Model:
    """Return ``document`` as ``model``; raises InputErrors with one error per mistake, in the order of the file."""
    try:
        return model.model_validate(document.data, context={"from_file": True})
    except ValidationError as error:
        raise InputErrors(sort_errors(_explain(model, document, detail) for detail in error.errors())) from None


def sort_errors(errors: Iterator[InputError] | list[InputError]) -> list[InputError]:
    """Return the errors in the order of their places."""
    return sorted(errors, key=lambda error: (error.line or 0, error.column or 0, error.key or "", error.message))


def shown(value: object) -> str:
    """Return a value as a short text for a message."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return f"a mapping with {len(value)} keys"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _explain(model: type[BaseModel], document: Document, detail: ErrorDetails) -> InputError:
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    path: KeyPath = tuple(part for part in detail["loc"] if part != "[key]")
    if kind == "extra_forbidden":
        return document.error(path, _unknown_key(model, path), at_key=True)
    if kind == "literal_error":
        return document.error(path, _not_allowed(value, _choices(model, path)))
    if kind == "missing":
        return document.error(path, _PLAIN[kind])
    if kind == "value_error":
        return document.error(path, str(context["error"]))
    return document.error(path, _PLAIN.get(kind, "{value}: " + detail["msg"]).format(value=shown(value), **context))


def _unknown_key(model: type[BaseModel], path: KeyPath) -> str:
    *parents, key = path
    here = _fields(_type_at(model, tuple(parents)))
    guess = nearest(str(key), here)
    elsewhere = [place for place in _places(model, str(key)) if place != dotted(path)]
    if not guess and elsewhere:
        guess = f" (did you mean {' or '.join(elsewhere[:3])}?)"
    return f"unknown key {str(key)!r}{guess or '; known here: ' + ', '.join(sorted(here))}"


def _not_allowed(value: object, choices: tuple[Any, ...]) -> str:
    guess = nearest(str(value), [str(choice) for choice in choices])
    return f"{shown(value)} is not allowed; one of {', '.join(map(str, choices))}{guess}"


def _choices(model: type[BaseModel], path: KeyPath) -> tuple[Any, ...]:
    kinds = [kind for kind in _members(_type_at(model, path)) if get_origin(kind) is Literal]
    return tuple(choice for kind in kinds for choice in get_args(kind))


def _members(kind: Any) -> Iterator[Any]:
    """Yield the types that ``kind`` is made of, without ``None`` and annotations."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        for member in get_args(kind):
            yield from _members(member)
    elif hasattr(kind, "__metadata__"):
        yield from _members(get_args(kind)[0])
    elif kind is not type(None):
        yield kind


def _type_at(model: Any, path: KeyPath) -> Any:
    """Return the type that stands at ``path`` below ``model`` (``object`` where that is not known)."""
    kind = model
    for part in path:
        kind = next((_below(member, part) for member in _members(kind)), object)
    return kind


def _below(kind: Any, part: str | int) -> Any:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        found = kind.model_fields.get(str(part))
        return found.annotation if found else object
    arguments = get_args(kind)
    if get_origin(kind) is dict:
        return arguments[1]
    return arguments[0] if arguments else object


def _fields(kind: Any) -> list[str]:
    models = [member for member in _members(kind) if isinstance(member, type) and issubclass(member, BaseModel)]
    return [name for member in models for name in member.model_fields]


def _places(model: type[BaseModel], key: str, above: str = "") -> Iterator[str]:
    """Yield the dotted paths of all keys called ``key`` below ``model``."""
    for name, found in model.model_fields.items():
        path = f"{above}.{name}" if above else name
        if name == key:
            yield path
        for member in _members(found.annotation):
            inner = get_args(member)[-1] if get_origin(member) is dict else (get_args(member) or (member,))[0]
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from _places(inner, key, path if inner is member else f"{path}[]")
