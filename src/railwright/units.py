"""Quantities as people write them, in decimal units: ``400G``, ``2 m``, ``1 GiB``, ``10 kW``, ``$0.09/kWh``, ``3:1``.

Every parser takes the text (or a plain number, already in the base unit) and returns a float in the base unit that its
name tells. 1 Gb/s is 1e9 bit/s; GB is 1e9 bytes and GiB is 2**30 bytes; the two are never mixed silently.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial

_NUMBER = re.compile(r"^\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*?)\s*$")

_SI = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}

_RATE_GBPS = {
    **{f"{p}{u}": f / 1e9 for p, f in _SI.items() for u in ("b/s", "bit/s", "bps")},
    **{p: f / 1e9 for p, f in _SI.items() if p},
}
_BYTES = {f"{p}B": f for p, f in {**_SI, **_BINARY}.items()}
_BYTES_PER_S = {f"{p}B/s": f for p, f in {**_SI, **_BINARY}.items()}
_LENGTH_M = {"m": 1.0, "cm": 0.01, "mm": 0.001, "km": 1e3}
_TIME_US = {"ns": 1e-3, "us": 1.0, "µs": 1.0, "ms": 1e3, "s": 1e6, "min": 60e6, "h": 3600e6, "d": 86400e6}
_POWER_W = {"W": 1.0, "kW": 1e3, "MW": 1e6}
_RATE_PER_S = {"/s": 1.0, "k/s": 1e3, "M/s": 1e6, "/min": 1 / 60, "/h": 1 / 3600}
_MASS_KG = {"kg": 1.0, "t": 1e3}


def _parse(value: object, units: Mapping[str, float], what: str, example: str) -> float:
    """Return ``value`` in the base unit (factor 1 of ``units``); a bare number is already in it.

    Raises ValueError with the value, the units known and an example.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is not {what}; write for example {example}")
    if isinstance(value, int | float):
        return float(value)
    match = _NUMBER.match(value)
    if match:
        unit = match[2]
        if unit == "":
            return float(match[1].replace("_", ""))
        if unit in units:
            return float(match[1].replace("_", "")) * units[unit]
    known = ", ".join(unit for unit in units if unit)
    raise ValueError(f"{value!r} is not {what}; write for example {example} (units: {known})")


parse_gbps: Callable[[object], float] = partial(_parse, units=_RATE_GBPS, what="a rate", example="400G")
parse_bytes: Callable[[object], float] = partial(_parse, units=_BYTES, what="an amount of data", example="1 GiB")
parse_bytes_per_s: Callable[[object], float] = partial(
    _parse, units=_BYTES_PER_S, what="a data rate in bytes", example="40 GB/s"
)
parse_m: Callable[[object], float] = partial(_parse, units=_LENGTH_M, what="a length", example="2 m")
parse_us: Callable[[object], float] = partial(_parse, units=_TIME_US, what="a time", example="5 us")
parse_w: Callable[[object], float] = partial(_parse, units=_POWER_W, what="a power", example="10 kW")
parse_per_s: Callable[[object], float] = partial(_parse, units=_RATE_PER_S, what="a rate of events", example="2000/s")
parse_kg: Callable[[object], float] = partial(_parse, units=_MASS_KG, what="a mass", example="24 kg")


def parse_usd(value: object) -> float:
    """Return US dollars from ``$1,200``, ``1200`` or ``1.2k``; raises ValueError."""
    text = value.replace(",", "").removeprefix("$") if isinstance(value, str) else value
    return _parse(text, {"k": 1e3, "M": 1e6, "USD": 1.0}, "a price", "$1200")


def parse_usd_per_kwh(value: object) -> float:
    """Return US dollars per kilowatt-hour from ``$0.09/kWh``; raises ValueError."""
    text = value.removeprefix("$") if isinstance(value, str) else value
    return _parse(text, {"/kWh": 1.0, "USD/kWh": 1.0, "c/kWh": 0.01}, "an energy price", "$0.09/kWh")


def parse_ratio(value: object) -> float:
    """Return an oversubscription ratio from ``3:1``, ``3`` or ``1.5``; raises ValueError."""
    if isinstance(value, str) and value.count(":") == 1:
        over, under = (part.strip() for part in value.split(":"))
        try:
            return float(over) / float(under)
        except (ValueError, ZeroDivisionError):
            raise ValueError(f"{value!r} is not a ratio; write for example 3:1") from None
    return _parse(value, {}, "a ratio", "3:1")


def parse_fraction(value: object) -> float:
    """Return a share from ``2%`` or ``0.02``; raises ValueError."""
    return _parse(value, {"%": 0.01}, "a share", "2%")


def _format(value: float, steps: tuple[tuple[float, str], ...], digits: int = 4) -> str:
    for factor, unit in steps:
        if abs(value) >= factor:
            return f"{value / factor:.{digits}g} {unit}"
    factor, unit = steps[-1]
    return f"{value / factor:.{digits}g} {unit}"


def format_bytes(value: float) -> str:
    """Return bytes as people read message sizes, in binary units: ``1 GiB``."""
    return _format(value, ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1, "B")))


def format_gbps(value: float) -> str:
    """Return a rate given in Gb/s: ``400 Gb/s``, ``51.2 Tb/s``."""
    return _format(value, ((1e3, "Tb/s"), (1, "Gb/s"), (1e-3, "Mb/s")))


def format_us(value: float) -> str:
    """Return a time given in microseconds: ``1.5 ms``."""
    return _format(value, ((1e6, "s"), (1e3, "ms"), (1, "us"), (1e-3, "ns")))


def format_w(value: float) -> str:
    """Return a power given in watts: ``1.2 MW``."""
    return _format(value, ((1e6, "MW"), (1e3, "kW"), (1, "W")))


def format_usd(value: float) -> str:
    """Return US dollars with thousands separators: ``$1,234,567``."""
    return f"${value:,.0f}"


def format_ratio(value: float) -> str:
    """Return an oversubscription ratio: ``3:1``."""
    return f"{value:.4g}:1"
