"""When lossless queues pause and how senders react to marks, where a spec says more than ``backend.congestion``.

The words are the field's: alpha of the dynamic threshold, xoff and xon of PFC, and DCQCN's parameters as in Zhu et al.
(SIGCOMM 2015). What is left out is the platform's (PFC) or that paper's (DCQCN). A network file of one's own
(``simulate --network``) has the same sections.
"""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from railwright.spec.quantities import Bytes, Count, Fraction, Microseconds, Number


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Pausing(_Model):
    """PFC thresholds of the lossless queues, the same on every switch.

    Simulation and `check` obey them; the configurations that `build` writes keep the platform's own.
    """

    alpha: Number | None = Field(
        None, gt=0, le=64, description="Share of the free pool that one queue may take; left out, the platform's."
    )
    xoff: Bytes | None = Field(None, description="Queue that pauses its sender, in place of `alpha`.")
    xon_offset: Bytes | None = Field(None, description="How far below the pause threshold sending resumes.")

    @model_validator(mode="after")
    def _one_threshold(self) -> Self:
        if self.alpha is not None and self.xoff is not None:
            raise ValueError("alpha is a moving threshold and xoff a fixed one; keep one of the two")
        return self


class RateControl(_Model):
    """DCQCN at the senders; what is left out is as in Zhu et al. (SIGCOMM 2015). Only the simulation obeys it."""

    g: Number | None = Field(None, gt=0, lt=1, description="Weight of a new mark in the estimate; the paper has 1/256.")
    additive_increase: Fraction | None = Field(
        None, description="Step of additive increase, as a share of the line rate."
    )
    hyper_increase: Fraction | None = Field(None, description="Step of hyper increase, as a share of the line rate.")
    increase_timer: Microseconds | None = Field(None, gt=0, description="Time between two increases.")
    alpha_timer: Microseconds | None = Field(
        None, gt=0, description="Time after which the estimate decays without marks."
    )
    decrease_interval: Microseconds | None = Field(None, gt=0, description="Least time between two cuts.")
    byte_counter: Bytes | None = Field(None, description="Bytes between two increases.")
    fast_recovery: Count | None = Field(
        None, description="Increases half-way back to the old rate before additive ones."
    )
