"""QoS facts of the field, as data: headroom tables that switch vendors ship, parameters of the open headroom formula, and
the conventions of vendors for DSCP, priorities and thresholds. ``design/headroom.py`` and ``design/qos.py`` use them.
"""

from functools import cache
from importlib.resources import files

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt
from ruamel.yaml import YAML

_DATA = files("railwright.catalog") / "data"

HEADROOM_ROWS = pl.Schema(
    {
        "sku": pl.String,
        "speed_gbps": pl.Float64,
        "cable_m": pl.Float64,
        "size_bytes": pl.UInt64,
        "xon_bytes": pl.UInt64,
        "xoff_bytes": pl.UInt64,
        "threshold": pl.Int64,
        "xon_offset_bytes": pl.UInt64,
        "source": pl.String,
    }
)


class _Fact(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    unverified: tuple[str, ...] = ()


class HeadroomFormula(_Fact):
    """Constants of SONiC's headroom formula for one ASIC family; see ``design.headroom.formula_headroom``."""

    cell_bytes: PositiveInt
    port_mtu_bytes: PositiveInt
    lossless_mtu_bytes: PositiveInt
    small_packet_percent: PositiveInt
    gearbox_bytes: float
    mac_phy_bytes: PositiveFloat
    on_tile_bytes_per_gbps: float
    pipeline_bytes: PositiveInt
    signal_m_per_s: PositiveFloat
    minimum_packet_bytes: PositiveInt
    peer_response_quanta: dict[float, int]


class PlatformQos(_Fact):
    """What is known of a switch platform for QoS; ``formula`` wins over ``tables`` (speed in Gb/s → SKU, -1 = any other)."""

    sonic_platform: str
    hwsku: str
    asic: str
    formula: str | None = None
    tables: dict[float, str] = Field(default_factory=dict)
    pool_bytes: PositiveInt | None = None


@cache
def headroom_rows() -> pl.DataFrame:
    """Return the shipped headroom tables, one row per SKU, port rate and cable length (schema ``HEADROOM_ROWS``)."""
    return pl.read_csv((_DATA / "qos_headroom.csv").read_bytes(), schema=HEADROOM_ROWS).sort(
        "sku", "speed_gbps", "cable_m"
    )


@cache
def _platform_file() -> dict[str, dict[str, object]]:
    loaded: dict[str, dict[str, object]] = YAML(typ="safe", pure=True).load(
        (_DATA / "qos_platforms.yaml").read_text(encoding="utf-8")
    )
    return loaded


@cache
def headroom_formulas() -> dict[str, HeadroomFormula]:
    """Return the formula parameters per ASIC family."""
    return {key: HeadroomFormula.model_validate(entry) for key, entry in _platform_file()["formulas"].items()}


@cache
def platforms() -> dict[str, PlatformQos]:
    """Return what is known per switch platform (catalog key)."""
    return {key: PlatformQos.model_validate(entry) for key, entry in _platform_file()["platforms"].items()}


@cache
def profile_file() -> dict[str, dict[str, dict[str, object]]]:
    """Return ``profiles`` and ``conventions`` as they are written; ``design/qos.py`` gives them their shape."""
    loaded: dict[str, dict[str, dict[str, object]]] = YAML(typ="safe", pure=True).load(
        (_DATA / "qos_profiles.yaml").read_text(encoding="utf-8")
    )
    return loaded
