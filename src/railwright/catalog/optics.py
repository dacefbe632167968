"""Optical interfaces (PMDs) and the modules that carry them.

A PMD is one optical port: its lanes, wavelengths, fibres and power levels. A module carries ``legs`` ports of one PMD behind
one electrical face, so a twin-port 2xDR4 module is two legs of 400G-DR4.

Transmitters and receivers are specified against each other: the worst transmitter has an outer modulation amplitude (OMA) of
``max(floor, base + TDECQ)`` and the receiver must work at ``max(floor, SECQ - base)`` when tested with the same closure, so
that the difference, the channel loss and its penalty, does not depend on the closure.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PositiveFloat, PositiveInt

from railwright.catalog.fibres import FibreKind
from railwright.catalog.model import Entry, Protocol, Record, Several

Fec = Literal["rs544", "rs544+inner", "rs528", "none"]
BuyerCheck = Literal["device-model", "form-factor", "coding", "protocol", "fibre", "connector", "distance"]


def _unique(value: tuple[BuyerCheck, ...]) -> tuple[BuyerCheck, ...]:
    if len(set(value)) != len(value):
        raise ValueError("names a check twice")
    return value


BuyerChecks = Annotated[tuple[BuyerCheck, ...], AfterValidator(_unique)]


class Pmd(Record):
    """An optical interface. Power levels are per lane and absent where nobody knows them.

    ``wavelength_plan`` is equal for interfaces that share their wavelengths; ``wavelengths_nm`` says them. ``fibres`` are those
    in use per port. ``reach_m`` and ``channel_loss_db`` are by fibre class. ``penalty_db`` is the fixed part of the budget
    that is not channel loss. ``oma_base_dbm`` and ``oma_floor_dbm`` give the least transmitted OMA, ``sensitivity_base_db``
    and ``sensitivity_floor_dbm`` the receiver's sensitivity (see the module's text). ``splits`` are fibre breakouts as
    ``COUNTxGBPS``; wavelength-multiplexed interfaces have none. ``linear`` marks interfaces without a DSP in the module.
    """

    standard: str
    gbps: PositiveFloat
    lanes: PositiveInt
    lane_gbps: PositiveFloat
    modulation: Literal["nrz", "pam4"]
    lane_gbaud: PositiveFloat
    wavelength_plan: str
    wavelengths_nm: str
    fibre_kind: FibreKind
    fibres: PositiveInt
    connectors: Several[str]
    polish: Literal["apc", "upc"]
    reach_m: dict[str, PositiveFloat]
    channel_loss_db: dict[str, PositiveFloat]
    penalty_db: Annotated[float, Field(ge=0)] | None = None
    tx_average_min_dbm: float | None = None
    tx_average_max_dbm: float | None = None
    tx_oma_max_dbm: float | None = None
    oma_floor_dbm: float | None = None
    oma_base_dbm: float | None = None
    tdecq_max_db: float | None = None
    rx_average_min_dbm: float | None = None
    rx_average_max_dbm: float | None = None
    sensitivity_floor_dbm: float | None = None
    sensitivity_base_db: float | None = None
    rx_stressed_oma_dbm: float | None = None
    rx_damage_dbm: float | None = None
    fec: Fec
    linear: bool = False
    splits: tuple[str, ...] = ()

    def oma_min_dbm(self, tdecq_db: float) -> float | None:
        """Return the least OMA of a transmitter with ``tdecq_db`` of closure, or None when the limits are not known."""
        if self.oma_floor_dbm is None or self.oma_base_dbm is None:
            return self.oma_floor_dbm
        return max(self.oma_floor_dbm, self.oma_base_dbm + tdecq_db)

    def sensitivity_dbm(self, secq_db: float) -> float | None:
        """Return the OMA at which a receiver must work with a signal of ``secq_db`` closure, or None when not known."""
        if self.sensitivity_floor_dbm is None or self.sensitivity_base_db is None:
            return self.sensitivity_floor_dbm
        return max(self.sensitivity_floor_dbm, secq_db - self.sensitivity_base_db)


class Optic(Entry):
    """A pluggable module: ``legs`` ports of one PMD in a form factor.

    ``host_lanes`` times ``host_lane_gbps`` is the electrical side; where its lane rate differs from the optical one the module
    has a gearbox. ``lower_gbps`` are the rates per leg that it also runs, at ``power_lower_w``. ``reach_m`` is the part's own,
    by fibre class, and may be shorter than the PMD's. ``coding`` is the vendor whose hosts accept it. ``order_numbers`` maps an
    ordering code to what it orders. ``buyer_checks`` is what to settle with the seller before ordering.
    """

    form_factor: str
    pmd: str
    legs: PositiveInt = 1
    gbps: PositiveFloat
    host_lanes: PositiveInt
    host_lane_gbps: PositiveFloat
    lower_gbps: tuple[PositiveFloat, ...] = ()
    reach_m: dict[str, PositiveFloat] = Field(default_factory=dict)
    connector: str
    connectors: PositiveInt = 1
    polish: Literal["apc", "upc"]
    gender: Literal["male", "female", "none"] = "male"
    protocols: Several[Protocol]
    power_typical_w: PositiveFloat | None = None
    power_max_w: PositiveFloat | None = None
    power_lower_w: PositiveFloat | None = None
    coding: str = "any"
    order_numbers: dict[str, str] = Field(default_factory=dict)
    buyer_checks: BuyerChecks = ()


class InteropPair(Record):
    """Two different PMDs that light up against each other. ``condition`` says when (empty: always).

    ``harness``: their connectors differ and the cord between them has to convert. ``reach_m``, by fibre class, caps the link
    where that is less than both parts.
    """

    pmds: tuple[str, str]
    condition: str = ""
    harness: bool = False
    reach_m: dict[str, PositiveFloat] = Field(default_factory=dict)
