"""``OPTIONS.yaml``: what the packet engine is told, as changes to a profile.

``profile`` (``rocev2``, ``infiniband`` or ``reference``) gives the defaults; ``congestion_control`` is that of the data class;
``classes`` maps names of traffic classes to the fields that differ (a name that the profile lacks is a new class, behind the
others); every other key is a field of `PacketOptions`. ``reference`` needs ``gbps``, the rate of its hosts' links.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from railwright.documents import Document, KeyPath, read_document
from railwright.errors import InputError, nearest
from railwright.simulate.packet.options import (
    CONGESTION_CONTROLS,
    PATHS,
    REORDERING,
    PacketOptions,
    infiniband,
    reference,
    rocev2,
)
from railwright.validation import shown, validate

PROFILES: dict[str, Callable[..., PacketOptions]] = {
    "rocev2": rocev2,
    "infiniband": infiniband,
    "reference": reference,
}
_NESTED = ("dcqcn", "hpcc", "dctcp", "cubic", "ibcc")


def read_options(path: Path, *, profile: str = "rocev2", paths: str | None = None) -> PacketOptions:
    """Return the options of ``path``; ``profile`` is taken when the file names none, ``paths`` goes before the file's.

    Raises InputError (or InputErrors) with the place of every mistake.
    """
    document = read_document(path, what="options of the packet engine (OPTIONS.yaml)")
    given = dict(document.data)
    chosen = _one_of(document, "profile", given.pop("profile", profile), tuple(PROFILES))
    control = given.pop("congestion_control", None)
    if control is not None:
        control = _one_of(document, "congestion_control", control, CONGESTION_CONTROLS)
    way = paths or _one_of(document, "paths", given.get("paths", "ecmp"), tuple(PATHS))
    base = _profile(document, chosen, given.pop("gbps", None), control, way).model_dump()
    return validate(PacketOptions, _merged(document, base, {**given, "paths": way}))


def _one_of(document: Document, key: str, value: object, allowed: tuple[str, ...]) -> str:
    if isinstance(value, str) and value in allowed:
        return value
    hint = nearest(str(value), allowed)
    raise document.error((key,), f"{shown(value)} is not allowed; one of {', '.join(allowed)}{hint}")


def _profile(document: Document, profile: str, gbps: object, control: str | None, paths: str) -> PacketOptions:
    asked: dict[str, Any] = {"paths": paths} | ({} if control is None else {"congestion_control": control})
    if profile == "reference":
        if isinstance(gbps, bool) or not isinstance(gbps, int | float) or not 0 < gbps <= 1e5:
            raise document.error(("gbps",), f"{shown(gbps)}: profile reference needs the rate of its links in Gb/s")
        asked["gbps"] = float(gbps)
    elif gbps is not None:
        raise document.error(("gbps",), "only profile reference has a rate; links have theirs in NET.yaml", at_key=True)
    try:
        return PROFILES[profile](**asked)
    except InputError as error:
        at = "paths" if paths in REORDERING else "congestion_control"
        raise document.error((at,), error.message) from None


def _merged(document: Document, base: Mapping[str, Any], given: dict[str, Any]) -> Document:
    """Return ``document`` with the data of ``base`` and ``given``; classes are a list, with the places of their names."""
    merged = {**base, **given}
    for key in _NESTED:
        if isinstance(given.get(key), dict):
            merged[key] = {**base[key], **given[key]}
    changes = given.get("classes", {})
    if not isinstance(changes, dict):
        raise document.error(("classes",), f"{shown(changes)} is not a mapping of class names to fields")
    names = [item["name"] for item in base["classes"]]
    names += [name for name in changes if name not in names]
    known = {item["name"]: item for item in base["classes"]}
    classes = []
    for name in names:
        fields = changes.get(name, {})
        if not isinstance(fields, dict):
            raise document.error(("classes", name), f"{shown(fields)} is not a mapping; it needs 'key: value' lines")
        if "name" in fields:
            raise document.error(("classes", name, "name"), "the key of the class is its name", at_key=True)
        classes.append({"name": name, **known.get(name, {}), **fields})
    merged["classes"] = classes

    def moved(path: KeyPath) -> KeyPath:
        if len(path) > 1 and path[0] == "classes":
            return ("classes", names.index(str(path[1])), *path[2:])
        return path

    return replace(
        document,
        data=merged,
        keys={moved(path): place for path, place in document.keys.items()},
        values={moved(path): place for path, place in document.values.items()},
    )
