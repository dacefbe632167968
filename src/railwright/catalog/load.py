"""Reads the catalog: the packaged files ``data/KIND.yaml`` and, on top, one file of the user's own.

The user's file has one mapping per kind (``switches:``, ``servers:`` …). A new key adds an entry; a known key changes the
fields that it gives and leaves the others, and what it gives counts as the user's own fact: sourced to the file, not
unverified.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from railwright.catalog.boxes import Box
from railwright.catalog.cables import Breakout, Cable
from railwright.catalog.ddm import Ddm
from railwright.catalog.entries import E, Entries, entries_in, validated
from railwright.catalog.fibres import Connector, Fibre, FibreCable, Polarity
from railwright.catalog.form_factors import CageRule, FormFactor
from railwright.catalog.model import Gpu, Nic, Record, Server, Switch
from railwright.catalog.optics import InteropPair, Optic, Pmd
from railwright.catalog.prices import Price
from railwright.documents import Document, KeyPath, read_document
from railwright.errors import InputError, InputErrors, nearest
from railwright.validation import sort_errors

_KEY = re.compile(r"^[a-z0-9][a-z0-9.+-]*$")

KINDS: Mapping[str, type[Record]] = {
    "gpus": Gpu,
    "nics": Nic,
    "servers": Server,
    "switches": Switch,
    "boxes": Box,
    "form_factors": FormFactor,
    "cage_compatibility": CageRule,
    "pmds": Pmd,
    "optics": Optic,
    "interop": InteropPair,
    "cables": Cable,
    "breakouts": Breakout,
    "fibres": Fibre,
    "connectors": Connector,
    "polarities": Polarity,
    "fibre_cables": FibreCable,
    "prices": Price,
    "ddm": Ddm,
}


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

    @property
    def boxes(self) -> Entries[Box]:
        """Firewalls, CPU nodes, storage appliances, PDUs … by key."""
        return self.entries["boxes"]

    @property
    def form_factors(self) -> Entries[FormFactor]:
        """Module shapes by key."""
        return self.entries["form_factors"]

    @property
    def cage_compatibility(self) -> Entries[CageRule]:
        """What the cages of certain devices take, by key."""
        return self.entries["cage_compatibility"]

    @property
    def pmds(self) -> Entries[Pmd]:
        """Optical interfaces by key."""
        return self.entries["pmds"]

    @property
    def optics(self) -> Entries[Optic]:
        """Pluggable modules by key."""
        return self.entries["optics"]

    @property
    def interop(self) -> Entries[InteropPair]:
        """Pairs of different PMDs that work, by key."""
        return self.entries["interop"]

    @property
    def cables(self) -> Entries[Cable]:
        """Cables with fixed ends by key."""
        return self.entries["cables"]

    @property
    def breakouts(self) -> Entries[Breakout]:
        """Breakouts and their lane maps by key."""
        return self.entries["breakouts"]

    @property
    def fibres(self) -> Entries[Fibre]:
        """Fibre classes by key."""
        return self.entries["fibres"]

    @property
    def connectors(self) -> Entries[Connector]:
        """Connectors and splices by key."""
        return self.entries["connectors"]

    @property
    def polarities(self) -> Entries[Polarity]:
        """Polarities of cords by key."""
        return self.entries["polarities"]

    @property
    def fibre_cables(self) -> Entries[FibreCable]:
        """Cords, splitters and trunks by key."""
        return self.entries["fibre_cables"]

    @property
    def prices(self) -> Entries[Price]:
        """Prices as found, by key."""
        return self.entries["prices"]

    @property
    def ddm(self) -> Entries[Ddm]:
        """Diagnostics thresholds by key."""
        return self.entries["ddm"]

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

    def box(self, key: str, where: str | None = None) -> Box:
        """Return a box, like :meth:`gpu`."""
        return _lookup(self.boxes, key, "boxes", where)

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
    return entries_in(KINDS[kind], text, file)


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
        return validated(KINDS[kind], key, {**data, "sources": {"*": origin, **own_sources}}, document, path)
    known = packaged.fields_of(key)
    changed = data.keys() - {"sources", "unverified"}
    combined = {
        **known,
        **data,
        "sources": {**known["sources"], **dict.fromkeys(sorted(changed), origin), **own_sources},
    }
    marks = data.get("unverified", [])
    if isinstance(marks, list):
        combined["unverified"] = [*(mark for mark in known.get("unverified", []) if mark not in changed), *marks]
    return validated(KINDS[kind], key, combined, document, path)
