"""An entry as rows for people: every field with its value, unit, source and the mark of what nobody has verified."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import BaseModel

from railwright.catalog.model import Record

# The unit stands at the end of a field's name; longer endings first.
_UNITS = (
    ("_usd_per_kwh", "$/kWh"),
    ("_db_per_km", "dB/km"),
    ("_tbytes_s", "TB/s"),
    ("_gbytes_s", "GB/s"),
    ("_mhz_km", "MHz·km"),
    ("_ns_per_m", "ns/m"),
    ("_tflops", "TFLOPS"),
    ("_gbaud", "GBd"),
    ("_bytes", "B"),
    ("_gbps", "Gb/s"),
    ("_dbm", "dBm"),
    ("_usd", "$"),
    ("_usd_low", "$"),
    ("_usd_high", "$"),
    ("_gb", "GB"),
    ("_db", "dB"),
    ("_kg", "kg"),
    ("_mm", "mm"),
    ("_nm", "nm"),
    ("_ns", "ns"),
    ("_ma", "mA"),
    ("_km", "km"),
    ("_w", "W"),
    ("_m", "m"),
    ("_c", "°C"),
    ("_v", "V"),
)
_NOT_FACTS = frozenset({"key", "name", "vendor", "notes", "sources", "unverified"})


@dataclass(frozen=True, slots=True)
class Fact:
    """One field of an entry. ``value`` is plain data; ``unit`` is empty for counts and names."""

    field: str
    value: Any
    unit: str
    source: str
    unverified: bool

    def as_dict(self) -> dict[str, Any]:
        """Return the fact as plain data with stable keys."""
        return asdict(self)


def facts_of(entry: Record) -> list[Fact]:
    """Return the fields of ``entry`` that have a value, in the order of its schema; lists of parts become one fact a part.

    Name, vendor and notes are not facts: they are in every entry.
    """
    return [
        Fact(name, _plain(value), unit_of(name), entry.source_of(field), field in entry.unverified)
        for field in type(entry).model_fields
        if field not in _NOT_FACTS
        for name, value in _parts(field, getattr(entry, field))
    ]


def unit_of(field: str) -> str:
    """Return the unit that the name of a field ends with, or an empty string."""
    if field == "ru":
        return "RU"
    return next((unit for ending, unit in _UNITS if f"_{field}".endswith(ending)), "")


def _parts(field: str, value: Any) -> Iterator[tuple[str, Any]]:
    if value is None or value in ("", (), {}):
        return
    if isinstance(value, tuple) and isinstance(value[0], BaseModel):
        for number, part in enumerate(value):
            yield f"{field}[{number}]", part
    else:
        yield field, value


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
