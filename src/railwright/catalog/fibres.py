"""The passive plant: fibre, connectors and splices, polarity of parallel cords, and cords and trunks as parts."""

from typing import Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from railwright.catalog.model import Entry, Record

FibreKind = Literal["smf", "mmf"]
ConnectorFamily = Literal["mpo-12", "mpo-16", "mpo-24", "lc-duplex", "splice"]


class Fibre(Record):
    """A fibre class.

    ``attenuation_db_per_km`` is the limit by wavelength in nm; ``modal_bandwidth_mhz_km`` likewise, for multimode.
    ``plant_reach_m`` is the longest structured plant by the kind of cord (``straight``, ``splitter``, ``duplex``).
    """

    kind: FibreKind
    attenuation_db_per_km: dict[PositiveInt, PositiveFloat]
    attenuation_typical_db_per_km: PositiveFloat | None = None
    modal_bandwidth_mhz_km: dict[PositiveInt, PositiveFloat] = Field(default_factory=dict)
    latency_ns_per_m: PositiveFloat
    plant_reach_m: dict[Literal["straight", "splitter", "duplex"], PositiveFloat] = Field(default_factory=dict)


class Connector(Record):
    """A mated pair of connectors, or a splice. ``loss_db`` is the limit per pair that a budget uses.

    ``mates`` are the families it can be plugged to; ``polishes`` the end faces it is made with (APC never mates UPC).
    """

    family: ConnectorFamily
    grade: Literal["low-loss", "standard"] | None = None
    fibres: PositiveInt
    loss_db: PositiveFloat
    loss_typical_db: PositiveFloat | None = None
    return_loss_db: dict[FibreKind, PositiveFloat] = Field(default_factory=dict)
    polishes: tuple[Literal["apc", "upc"], ...] = ()
    mates: tuple[ConnectorFamily, ...] = ()


class Polarity(Record):
    """How a cord or trunk maps the positions of its two ends.

    ``flips`` counts reversals of the whole row: parallel optics send on 1-4 and receive on 9-12, so the number of flips over
    a whole channel must be odd.
    """

    mapping: str
    flips: NonNegativeInt
    parallel_optics: bool


class FibreCable(Entry):
    """A cord, splitter or trunk without electronics.

    ``tails`` is the number of far ends (2 for a 1:2 splitter, whose tails have ``fibres / 2`` each in use). ``gender`` is
    that of the MPO ends: modules are male, so cords are female. ``reach_m`` is the longest channel the part is sold for.
    """

    fibre: str
    fibres: PositiveInt
    connector: str
    far_connector: str
    polish: Literal["apc", "upc"]
    gender: Literal["male", "female", "none"]
    polarity: str
    tails: PositiveInt = 1
    trunk: bool = False
    lengths_m: tuple[PositiveFloat, ...] = ()
    reach_m: PositiveFloat | None = None
    bend_radius_mm: NonNegativeFloat | None = None
    order_numbers: dict[str, str] = Field(default_factory=dict)
