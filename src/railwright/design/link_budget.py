"""Does enough light arrive? The four checks of an optical channel, over arrays of channels.

The loss of a channel is that of its fibre, mated pairs and splices, each at its limit. Check A holds it against the channel
loss that the interface allows. Check B does the same from the other side: the least power of the worst transmitter, less loss
and penalty, against the sensitivity of the receiver; both depend on the transmitter's closure (TDECQ), their difference does
not. Check C is the length that the bandwidth of multimode fibre allows. Check D keeps the strongest transmitter from
overloading the receiver.

Sources: IEEE 802.3 clauses 121, 124, 151 and 167 for the method; values are those of the catalog, with their sources. All
values are limits, so a real channel is better; ageing, dirt and bends are not in here, which is what the margin is for.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from railwright.catalog.fibres import Fibre
from railwright.catalog.load import Catalog
from railwright.catalog.optics import Pmd

Decibels = NDArray[np.float64]

WAVELENGTH_NM = {"smf": 1310, "mmf": 850}
"""Wavelength at which the attenuation limit of a fibre class is taken; it is the largest of those in use."""
MODULE_PAIRS = 2
"""Mated pairs of a channel without patch panels: one at each module."""


@dataclass(frozen=True)
class Budget:
    """The budget of channels, arrays of one shape (0-dimensional for one channel). Margins are negative where a check fails.

    ``loss_db`` and ``limit_db`` make ``margin_db`` (check A). ``power_margin_db`` (B), ``bandwidth_margin_m`` (C) and
    ``overload_margin_db`` (D) are NaN where the catalog does not have the values or the check does not apply.
    """

    loss_db: Decibels
    limit_db: float
    margin_db: Decibels
    power_margin_db: Decibels
    bandwidth_margin_m: NDArray[np.float64]
    overload_margin_db: Decibels

    @property
    def least_margin_db(self) -> Decibels:
        """The smaller of the margins of checks A and B."""
        return np.fmin(self.margin_db, self.power_margin_db)


def mated_pairs(patch_panels: int) -> int:
    """Return the mated pairs of a channel: two panels make four, as NVIDIA's structured cabling rules count them."""
    return MODULE_PAIRS + patch_panels


def channel_loss(
    length_m: ArrayLike,
    attenuation_db_per_km: float,
    pairs: ArrayLike,
    pair_loss_db: float,
    splices: ArrayLike = 0,
    splice_loss_db: float = 0.1,
    other_db: ArrayLike = 0.0,
) -> Decibels:
    """Return the loss in dB of channels: fibre by length (m), mated pairs, splices and ``other_db``."""
    fibre = np.asarray(length_m, dtype=np.float64) * (attenuation_db_per_km / 1000)
    return (
        fibre
        + np.asarray(pairs) * pair_loss_db
        + np.asarray(splices) * splice_loss_db
        + np.asarray(other_db, dtype=np.float64)
    )


def attenuation_db_per_km(fibre: Fibre) -> float:
    """Return the attenuation limit of ``fibre`` at the wavelength in use."""
    limits = fibre.attenuation_db_per_km
    return limits.get(WAVELENGTH_NM[fibre.kind], max(limits.values()))


def power_budget_db(transmitter: Pmd, receiver: Pmd) -> float | None:
    """Return least transmitted OMA minus sensitivity for the closure at which that is least; None when a value is unknown.

    An interface of which only one sensitivity is known (100GBASE-SR4) gives None: that value is a stressed one, at a closure
    that nobody states, and would be held against an unstressed transmitter.
    Both are of the form ``max(floor, base + closure)``, so the least difference lies at an end or at a bend of one of them.
    """
    if receiver.sensitivity_base_db is None or transmitter.oma_base_dbm is None:
        return None
    closures = [0.0]
    highest = [pmd.tdecq_max_db for pmd in (transmitter, receiver) if pmd.tdecq_max_db is not None]
    if highest:
        top = min(highest)
        bends = []
        if transmitter.oma_floor_dbm is not None and transmitter.oma_base_dbm is not None:
            bends.append(transmitter.oma_floor_dbm - transmitter.oma_base_dbm)
        if receiver.sensitivity_floor_dbm is not None and receiver.sensitivity_base_db is not None:
            bends.append(receiver.sensitivity_floor_dbm + receiver.sensitivity_base_db)
        closures = [0.0, top, *(bend for bend in bends if 0 < bend < top)]
    differences = []
    for closure in closures:
        oma, sensitivity = transmitter.oma_min_dbm(closure), receiver.sensitivity_dbm(closure)
        if oma is None or sensitivity is None:
            return None
        differences.append(oma - sensitivity)
    return min(differences)


def check_channel(
    catalog: Catalog,
    pmds: tuple[str, str],
    fibre: str,
    length_m: ArrayLike,
    pair_loss_db: float,
    pairs: ArrayLike,
    splices: ArrayLike = 0,
    least_loss_db: ArrayLike = 0.0,
) -> Budget:
    """Return the budget of channels between ports of the interfaces ``pmds`` over ``fibre``; the worse direction counts.

    ``length_m``, ``pairs``, ``splices`` and ``least_loss_db`` (what is lost for sure, for check D) broadcast. An interface
    without a limit for this fibre class gives a limit of NaN, and so a margin of NaN.
    """
    a, b = (catalog.pmds[key] for key in pmds)
    kind = catalog.fibres[fibre]
    length = np.asarray(length_m, dtype=np.float64)
    splice_db = catalog.connectors["fusion-splice"].loss_db
    loss = channel_loss(length, attenuation_db_per_km(kind), pairs, pair_loss_db, splices, splice_db)
    limit = min(_limit(pmd, kind, catalog) for pmd in (a, b))
    penalty = max(pmd.penalty_db or 0.0 for pmd in (a, b))
    budgets = [power_budget_db(a, b), power_budget_db(b, a)]
    known = [value for value in budgets if value is not None]
    budget = min(known) if len(known) == len(budgets) else np.nan
    reach = min(pmd.reach_m.get(fibre, 0.0) for pmd in (a, b)) if kind.kind == "mmf" else np.nan
    return Budget(
        loss_db=loss,
        limit_db=limit,
        margin_db=limit - loss,
        power_margin_db=budget - penalty - loss,
        bandwidth_margin_m=reach - length,
        overload_margin_db=_overload_margin(a, b) + np.asarray(least_loss_db, dtype=np.float64) + np.zeros_like(loss),
    )


def _limit(pmd: Pmd, fibre: Fibre, catalog: Catalog) -> float:
    """Return the channel loss that ``pmd`` allows on ``fibre``; on a class it does not list, that of the same kind."""
    own = pmd.channel_loss_db.get(fibre.key)
    if own is not None:
        return own
    alike = [loss for key, loss in pmd.channel_loss_db.items() if catalog.fibres[key].kind == fibre.kind]
    return min(alike, default=np.nan)


def _overload_margin(a: Pmd, b: Pmd) -> float:
    """Return how far the strongest transmitter stays below the receiver's maximum without any loss; NaN when unknown."""
    margins = [
        receiver.rx_average_max_dbm - transmitter.tx_average_max_dbm
        for transmitter, receiver in ((a, b), (b, a))
        if receiver.rx_average_max_dbm is not None and transmitter.tx_average_max_dbm is not None
    ]
    return min(margins, default=np.nan)
