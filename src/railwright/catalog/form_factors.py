"""The shapes of pluggable modules and of the cages they go into, and which cage takes which module.

The key of a form factor names the module and the cage that is made for it. An OSFP module with a finned top (``osfp-ihs``)
does not fit a cage with a riding heat sink (``osfp-rhs``), nor the other way round; optically the two are the same.
"""

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

from railwright.catalog.model import Record


class FormFactor(Record):
    """A module shape. ``accepts`` are the other modules that its cage takes (unless a :class:`CageRule` says otherwise).

    ``lane_gbps`` are the electrical lane rates, the fastest first; ``power_max_w`` is the highest power class in use.
    ``top`` is the module's: ``finned`` (integrated heat sink), ``flat`` (the cage's riding heat sink cools it) or ``none``.
    """

    lanes: PositiveInt
    lane_gbps: tuple[PositiveFloat, ...]
    modulation: Literal["nrz", "pam4", "none"]
    power_max_w: PositiveFloat | None = None
    top: Literal["finned", "flat", "none"]
    management: str | None = None
    accepts: tuple[str, ...] = ()


class CageRule(Record):
    """What the cages of certain switches and adapters take, where that is narrower than their form factor.

    ``devices`` are catalog keys of switches and adapters. ``cage`` is their cage's form factor. ``accepts`` are module form
    factors; ``rejects`` gives the reason for modules that one could think of. ``lane_gbps`` are the electrical lane rates.
    """

    devices: tuple[str, ...]
    cage: str
    lanes: PositiveInt
    lane_gbps: tuple[PositiveFloat, ...]
    module_limit_w: PositiveFloat | None = None
    accepts: tuple[str, ...]
    rejects: dict[str, str] = Field(default_factory=dict)
