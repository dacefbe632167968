"""Prices and energy: the user's data, with a date and a source. A price that nobody gave is unknown, never 0."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from railwright.spec.quantities import Ratio, Usd, UsdPerKwh


class Price(BaseModel):
    """What one piece costs, when and according to whom."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    usd: Usd
    date: Annotated[str, Field(pattern=r"^\d{4}(-\d{2}(-\d{2})?)?$")]
    source: Annotated[str, Field(min_length=2)]


class Economics(BaseModel):
    """Prices by catalog key, energy and lifetime."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prices: dict[str, Price] = Field(default_factory=dict)
    energy: UsdPerKwh = 0.0806
    pue: Ratio = 1.3
    lifetime_years: Annotated[float, Field(gt=0)] = 4.0
    spares: Annotated[float, Field(ge=0, le=1)] = 0.02
