"""Alarm and warning thresholds of digital diagnostics, as modules report them, and a rule for modules not listed."""

from pydantic import BaseModel, ConfigDict

from railwright.catalog.model import Record


class Limits(BaseModel):
    """Four thresholds of one quantity, rising; absent where the module does not give them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    low_alarm: float | None = None
    low_warn: float | None = None
    high_warn: float | None = None
    high_alarm: float | None = None


class Ddm(Record):
    """Thresholds of one module. ``rx_offset_db`` and ``tx_offset_db`` are relative to the PMD's average power limits.

    The low pair counts from the PMD's minimum, the high pair from its maximum: a rule for modules of any PMD.
    """

    temperature_c: Limits | None = None
    supply_v: Limits | None = None
    rx_dbm: Limits | None = None
    tx_dbm: Limits | None = None
    bias_ma: Limits | None = None
    rx_offset_db: Limits | None = None
    tx_offset_db: Limits | None = None
