"""Prices and energy: the user's data, with a date and a source. A price that nobody gave is unknown, never 0."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from railwright.spec.quantities import Fraction, Number, Usd, UsdPerKwh


def parse_date(value: object) -> object:
    """Return a date as text; YAML reads a bare year as a number."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not _is_date(text):
        raise ValueError(f"{value!r} is not a date; write for example 2025-03-01, 2025-03 or 2025")
    return text


def _is_date(text: str) -> bool:
    parts = text.split("-")
    if [len(part) for part in parts] not in ([4], [4, 2], [4, 2, 2]) or not all(part.isdecimal() for part in parts):
        return False
    month, day = ([int(part) for part in parts[1:]] + [1, 1])[:2]
    return 1 <= month <= 12 and 1 <= day <= 31


class Price(BaseModel):
    """What one piece costs, when and according to whom."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    usd: Usd = Field(description="US dollars for one piece.")
    date: Annotated[str, BeforeValidator(parse_date)] = Field(
        description="When the price was seen: a day, a month or a year."
    )
    source: str = Field(min_length=2, description="Who says so.")


class Economics(BaseModel):
    """Prices by catalog key, energy and lifetime."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prices: dict[str, Price] = Field(default_factory=dict, description="What a piece costs, by catalog key.")
    energy: UsdPerKwh = Field(0.0806, description="Price of energy.")
    pue: Number = Field(1.3, ge=1, description="Power of the hall over power of the equipment.")
    lifetime_years: Number = Field(4.0, gt=0, description="Years over which the cost is spread.")
    spares: Fraction = Field(0.02, description="Spare pieces to buy.")
