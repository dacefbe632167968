"""What things cost, as found: each with its date, its source and how far to trust it. Prices are the user's to replace."""

from typing import Literal

from pydantic import PositiveFloat

from railwright.catalog.model import Record

# From the best to the least: the order in which a cost picks among several prices of one thing.
QUALITIES = ("official", "list", "quote", "paper", "derived", "estimate", "claim")


class Price(Record):
    """A price. ``items`` are what it is for, as ``kind.key`` (``servers.dgx-h100``) or a class of things (``links.400``).

    ``usd`` is the value to use, ``usd_low`` and ``usd_high`` the range seen. ``per`` is the unit that it buys. ``date`` is a
    year, a month or a day, as precise as the source gives it. ``default`` prices are used when the user gives none; the
    others are shown.
    """

    items: tuple[str, ...]
    usd: PositiveFloat
    usd_low: PositiveFloat | None = None
    usd_high: PositiveFloat | None = None
    per: Literal["unit", "link", "rack", "kwh", "endpoint", "design", "year"]
    date: str | None = None
    quality: Literal["official", "list", "quote", "paper", "derived", "estimate", "claim"]
    default: bool = False
