"""The human quantities of a spec as pydantic types: text in, a float in the base unit out."""

from collections.abc import Callable
from typing import Annotated

from pydantic import BeforeValidator, Field

from railwright import units


def _positive(parse: Callable[[object], float]) -> tuple[BeforeValidator, object]:
    return BeforeValidator(parse), Field(gt=0)


def _not_negative(parse: Callable[[object], float]) -> tuple[BeforeValidator, object]:
    return BeforeValidator(parse), Field(ge=0)


Gbps = Annotated[float, *_positive(units.parse_gbps)]
Bytes = Annotated[float, *_positive(units.parse_bytes)]
BytesPerSecond = Annotated[float, *_positive(units.parse_bytes_per_s)]
Metres = Annotated[float, *_not_negative(units.parse_m)]
Microseconds = Annotated[float, *_not_negative(units.parse_us)]
Watts = Annotated[float, *_positive(units.parse_w)]
PerSecond = Annotated[float, *_positive(units.parse_per_s)]
Usd = Annotated[float, *_not_negative(units.parse_usd)]
UsdPerKwh = Annotated[float, *_not_negative(units.parse_usd_per_kwh)]
Ratio = Annotated[float, *_positive(units.parse_ratio)]
Fraction = Annotated[float, BeforeValidator(units.parse_fraction), Field(ge=0, le=1)]
Kilograms = Annotated[float, *_positive(units.parse_kg)]
