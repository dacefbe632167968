"""What the catalog says of the parts in a table: name, vendor, order numbers and the doubts that go along to every document."""

from collections.abc import Iterable, Sequence

import polars as pl

from railwright.catalog.load import Catalog
from railwright.catalog.model import Entry

CABLE_KINDS = ("cables", "fibre_cables")
MODULE_KINDS = ("optics",)
DEVICE_KINDS = ("servers", "switches", "boxes")


def described(catalog: Catalog, keys: Iterable[str | None], kinds: Sequence[str]) -> pl.DataFrame:
    """Return ``part, name, vendor, order_numbers, unverified`` of every distinct key; the first of ``kinds`` that has it.

    ``unverified`` lists the fields that nobody has checked, joined by commas; empty when there are none. A key that the
    catalog lacks keeps its own spelling as name.
    """
    rows = []
    for key in sorted({key for key in keys if key is not None}):
        entry = find_entry(catalog, key, kinds)
        orders: dict[str, str] = getattr(entry, "order_numbers", {}) if entry is not None else {}
        rows.append(
            {
                "part": key,
                "name": key if entry is None else entry.name,
                "vendor": None if entry is None else entry.vendor,
                "order_numbers": ", ".join(orders) or None,
                "unverified": "not in the catalog" if entry is None else ", ".join(entry.unverified),
            }
        )
    schema = dict.fromkeys(("part", "name", "vendor", "order_numbers", "unverified"), pl.String)
    return pl.DataFrame(rows, schema=schema)


def find_entry(catalog: Catalog, key: str, kinds: Sequence[str]) -> Entry | None:
    """Return the entry called ``key`` of the first of ``kinds`` that has one."""
    for kind in kinds:
        entries = catalog.kind(kind)
        if key in entries:
            entry: Entry = entries[key]
            return entry
    return None
