"""The words of a spec as pydantic types: names, keys, counts and human quantities (text in, base unit out, text in JSON)."""

import re
from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, ValidationInfo

from railwright import units


def parse_time(value: object, info: ValidationInfo) -> float:
    """Return microseconds; a number in a file needs its unit, because nobody thinks of 30 as 30 us."""
    from_file = bool(info.context and info.context.get("from_file"))
    if from_file and not isinstance(value, bool) and isinstance(value, int | float) and value != 0:
        raise ValueError(f"{value!r} has no unit; write for example {value} s (units: ns, us, ms, s, min, h, d)")
    return units.parse_us(value)


def check_name(value: str) -> str:
    """Return ``value`` when it is a DNS label; raises ValueError."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", value):
        raise ValueError(
            f"{value!r} is not a name; use lower-case letters, digits and '-' inside, at most 63 (a DNS label)"
        )
    return value


def check_catalog_key(value: str) -> str:
    """Return ``value`` when it can be a key of the catalog; raises ValueError."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9.+-]{0,62}", value):
        better = re.sub(r"[^a-z0-9.+-]+", "-", value.lower()).strip("-")
        raise ValueError(
            f"{value!r} is not a catalog key; keys are lower case with '-', for example {better or 'sn5600'!r}"
        )
    return value


def check_rule_code(value: str) -> str:
    """Return ``value`` when it can be the code of a rule; raises ValueError."""
    if not re.fullmatch(r"RW\d{3}", value):
        raise ValueError(f"{value!r} is not the code of a rule; write for example RW101")
    return value


def _text(write: Callable[[float], str]) -> PlainSerializer:
    return PlainSerializer(write, return_type=str, when_used="json")


Name = Annotated[str, AfterValidator(check_name)]
CatalogKey = Annotated[str, AfterValidator(check_catalog_key)]
RuleCode = Annotated[str, AfterValidator(check_rule_code)]
Count = Annotated[int, BeforeValidator(units.parse_count), Field(gt=0, lt=2**31)]
CountOrZero = Annotated[int, BeforeValidator(units.parse_count), Field(ge=0, lt=2**31)]
Number = Annotated[float, BeforeValidator(units.parse_number)]
Gbps = Annotated[float, BeforeValidator(units.parse_gbps), Field(gt=0), _text(units.write_gbps)]
Bytes = Annotated[float, BeforeValidator(units.parse_bytes), Field(gt=0), _text(units.write_bytes)]
BytesPerSecond = Annotated[float, BeforeValidator(units.parse_bytes_per_s), Field(gt=0), _text(units.write_bytes_per_s)]
Metres = Annotated[float, BeforeValidator(units.parse_m), Field(ge=0), _text(units.write_m)]
Microseconds = Annotated[float, BeforeValidator(parse_time), Field(ge=0), _text(units.write_us)]
Watts = Annotated[float, BeforeValidator(units.parse_w), Field(gt=0), _text(units.write_w)]
PerSecond = Annotated[float, BeforeValidator(units.parse_per_s), Field(gt=0), _text(units.write_per_s)]
Usd = Annotated[float, BeforeValidator(units.parse_usd), Field(ge=0), _text(units.write_usd)]
UsdPerKwh = Annotated[float, BeforeValidator(units.parse_usd_per_kwh), Field(ge=0), _text(units.write_usd_per_kwh)]
Ratio = Annotated[float, BeforeValidator(units.parse_ratio), Field(gt=0), _text(units.write_ratio)]
Fraction = Annotated[float, BeforeValidator(units.parse_fraction), Field(ge=0, le=1), _text(units.write_fraction)]
Kilograms = Annotated[float, BeforeValidator(units.parse_kg), Field(gt=0), _text(units.write_kg)]
