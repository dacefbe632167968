"""How links become cables: the plant, what is preferred, and parts that the user insists on.

Left out, every part is chosen: the cheapest in price and energy that fits both ends, reaches and lights up. Parts that the
user names are taken as they are, even where they cannot work: ``railwright check`` says why.
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from railwright.spec.quantities import CatalogKey, CountOrZero

Medium = Literal["dac", "acc", "aec", "aoc", "mmf", "smf", "cat6"]
Fec = Literal["rs544", "rs528", "fc", "none"]


def _different(value: tuple[Medium, ...]) -> tuple[Medium, ...]:
    if len(set(value)) != len(value):
        raise ValueError("names a medium twice")
    return value


Mediums = Annotated[tuple[Medium, ...], AfterValidator(_different)]


class Part(BaseModel):
    """Parts for the links of a network and tier: modules at both ends and the cord between them, or one cable alone."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    network: Literal["backend", "frontend", "storage", "management"] | None = Field(
        None, description="Network of the links; left out, all."
    )
    tier: Literal["host", "leaf_spine", "spine_core", "border", "service", "peer", "oob", "uplink"] | None = Field(
        None, description="Tier of the links; left out, all."
    )
    a: CatalogKey | None = Field(None, description="Module at the lower end (server before leaf, leaf before spine).")
    b: CatalogKey | None = Field(None, description="Module at the upper end.")
    cable: CatalogKey | None = Field(None, description="Cord between the modules, or a cable with fixed ends.")
    fec_a: Fec | None = Field(None, description="Error correction set at the lower end; left out, what the link needs.")
    fec_b: Fec | None = Field(None, description="Error correction set at the upper end.")
    autoneg: bool | None = Field(None, description="Auto-negotiation set at both ends; left out, on copper only.")
    linear: bool = Field(False, description="Both ends are qualified for linear (LPO) modules.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.a is None) != (self.b is None):
            raise ValueError("name the modules of both ends, a and b, or neither")
        said = (self.a, self.cable, self.fec_a, self.fec_b, self.autoneg)
        if all(value is None for value in said) and not self.linear:
            raise ValueError("says nothing; give a and b, cable, fec_a, fec_b, autoneg or linear")
        return self


class Cabling(BaseModel):
    """The cable plant and the choice of parts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    patch_panels: Literal[0, 1, 2] = Field(0, description="Patch panels in a fibre channel; each adds a mated pair.")
    multimode: Literal["om3", "om4"] = Field("om4", description="Class of the multimode plant.")
    connectors: Literal["low-loss", "standard"] = Field("low-loss", description="Grade of connectors.")
    trunk_polarity: CatalogKey = Field("type-b", description="Polarity of the trunks between panels.")
    splices: CountOrZero = Field(0, description="Fusion splices in a fibre channel.")
    prefer: Mediums = Field((), description="Media to take first where they are feasible, in this order.")
    forbid: Mediums = Field((), description="Media not to use.")
    equal_twin_lengths: bool = Field(
        False, description="Give the fibres of one twin-port module the length of the longer one."
    )
    parts: tuple[Part, ...] = Field((), description="Parts that are taken as given; the first that matches counts.")
