"""What a piece costs: the user's price, else the catalog's default as found, with date and source; unknown stays unknown."""

from dataclasses import dataclass

from railwright.catalog.load import Catalog
from railwright.catalog.prices import QUALITIES
from railwright.spec.cluster import ClusterSpec

HOURS_PER_YEAR = 8766.0


@dataclass(frozen=True)
class KnownPrice:
    """A price for one piece in US dollars. ``doubtful`` marks what nobody has verified."""

    usd: float
    date: str | None
    source: str
    doubtful: bool = False


def known_price(catalog: Catalog, spec: ClusterSpec, kind: str, key: str) -> KnownPrice | None:
    """Return the price of entry ``key`` of the catalog's ``kind``; None when nobody knows it.

    The user's own price counts first. Of several defaults in the catalog the one of the best quality is taken.
    """
    own = spec.economics.prices.get(key)
    if own is not None:
        return KnownPrice(own.usd, own.date, own.source)
    item = f"{kind}.{key}"
    found = [price for price in catalog.prices.values() if price.default and item in price.items]
    if not found:
        return None
    best = min(found, key=lambda price: QUALITIES.index(price.quality))
    source = f"{best.quality}: {best.source_of('usd')}"
    return KnownPrice(best.usd, best.date, source, doubtful="usd" in best.unverified)


def energy_usd(spec: ClusterSpec, watts: float) -> float:
    """Return what ``watts``, drawn without a break over the lifetime, cost with the cooling of the hall (PUE)."""
    economics = spec.economics
    return watts / 1000 * HOURS_PER_YEAR * economics.lifetime_years * economics.pue * economics.energy
