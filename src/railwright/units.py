"""Quantities as people write them, in decimal units: ``400G``, ``2 m``, ``1 GiB``, ``10 kW``, ``$0.09/kWh``, ``3:1``.

``parse_*`` takes the text (or a plain number, already in the base unit) and returns a float in the base unit that its name
tells; the arithmetic is exact and rounded once. ``write_*`` is the inverse: the shortest text that parses back to the very
same float. ``format_*`` is for reading only. 1 Gb/s is 1e9 bit/s; GB is 1e9 bytes and GiB is 2**30 bytes.
"""

import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial

_NUMBER = re.compile(r"^\s*([+-]?(?:\d[\d_]{0,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,3})?)\s*(.*?)\s*$")

_LARGEST = Fraction(10**99)

_Units = Mapping[str, Fraction]
_SI = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}

# Spellings that are read but not offered in a message.
_UNNAMED = {
    "",
    "K",
    "KB",
    "KB/s",
    "P",
    *(f"{p}{u}" for p in _SI for u in ("bit/s", "bps")),
    "Kb/s",
    "Pb/s",
    "b/s",
    "µs",
}

# The units in the order in which a reader expects them in an error message; factor 1 is the base unit.
_RATE_GBPS: _Units = {
    **{f"{p}{u}": Fraction(f, 10**9) for p, f in _SI.items() for u in ("b/s", "bit/s", "bps")},
    **{p: Fraction(f, 10**9) for p, f in _SI.items() if p},
    "GbE": Fraction(1),
}
_BYTES: _Units = {f"{p}B": Fraction(f) for p, f in {**_SI, **_BINARY}.items()}
_BYTES_PER_S: _Units = {f"{p}B/s": Fraction(f) for p, f in {**_SI, **_BINARY}.items()}
_LENGTH_M: _Units = {"m": Fraction(1), "cm": Fraction(1, 100), "mm": Fraction(1, 1000), "km": Fraction(1000)}
_TIME_US: _Units = {
    "ns": Fraction(1, 1000),
    "us": Fraction(1),
    "µs": Fraction(1),
    "ms": Fraction(10**3),
    "s": Fraction(10**6),
    "min": Fraction(60 * 10**6),
    "h": Fraction(3600 * 10**6),
    "d": Fraction(86400 * 10**6),
}
_POWER_W: _Units = {"W": Fraction(1), "kW": Fraction(1000), "MW": Fraction(10**6)}
_RATE_PER_S: _Units = {
    "/s": Fraction(1),
    "k/s": Fraction(1000),
    "M/s": Fraction(10**6),
    "/min": Fraction(1, 60),
    "/h": Fraction(1, 3600),
}
_MASS_KG: _Units = {"kg": Fraction(1), "t": Fraction(1000)}
_USD: _Units = {"k": Fraction(1000), "M": Fraction(10**6), "USD": Fraction(1)}
_USD_PER_KWH: _Units = {"/kWh": Fraction(1), "USD/kWh": Fraction(1), "c/kWh": Fraction(1, 100)}
_SHARE: _Units = {"%": Fraction(1, 100)}


def _exact(value: object, units: _Units, what: str, example: str) -> Fraction:
    """Return ``value`` in the base unit (factor 1 of ``units``); a bare number is already in it.

    Raises ValueError with the value, an example and the units known.
    """
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        match = _NUMBER.match(value if isinstance(value, str) else repr(value))
        if match and (match[2] == "" or match[2] in units):
            exact = Fraction(match[1].replace("_", "")) * units.get(match[2], 1)
            if abs(exact) > _LARGEST:
                raise ValueError(f"{_shown(value)} is too large for {what}")
            return exact
    known = ", ".join(unit for unit in units if unit not in _UNNAMED)
    raise ValueError(
        f"{_shown(value)} is not {what}; write for example {example}" + (f" (units: {known})" if known else "")
    )


def _parse(value: object, units: _Units, what: str, example: str) -> float:
    return float(_exact(value, units, what, example))


def _shown(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


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
parse_number: Callable[[object], float] = partial(_parse, units={}, what="a number", example="1.5")
parse_fraction: Callable[[object], float] = partial(_parse, units=_SHARE, what="a share", example="2%")


def parse_usd(value: object) -> float:
    """Return US dollars from ``$1,200``, ``1200`` or ``1.2k``; raises ValueError."""
    text = value.replace(",", "").strip().removeprefix("$") if isinstance(value, str) else value
    return _parse(text, _USD, "a price", "$1200")


def parse_usd_per_kwh(value: object) -> float:
    """Return US dollars per kilowatt-hour from ``$0.09/kWh``; raises ValueError."""
    text = value.strip().removeprefix("$") if isinstance(value, str) else value
    return _parse(text, _USD_PER_KWH, "an energy price", "$0.09/kWh")


def parse_ratio(value: object) -> float:
    """Return an oversubscription ratio from ``3:1``, ``3`` or ``1.5``; raises ValueError."""
    over, colon, under = value.partition(":") if isinstance(value, str) else (value, "", "")
    if not colon:
        return _parse(over, {}, "a ratio", "3:1")
    try:
        return float(_exact(over, {}, "a ratio", "3:1") / _exact(under, {}, "a ratio", "3:1"))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise ValueError(f"{_shown(value)} is not a ratio; write for example 3:1") from None


def parse_count(value: object) -> int:
    """Return a whole number from ``1024``, ``1_024`` or ``1,024``; raises ValueError."""
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+|[+-]?\d[\d_]{0,30}", value.strip()):
        return int(value.replace(",", "").replace("_", ""))
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value != int(value):
        raise ValueError(f"{_shown(value)} is not a whole number")
    return int(value)


def _write(value: float, units: _Units, parse: Callable[[object], float], form: str) -> str:
    """Return the shortest text for ``value`` that ``parse`` reads back as the same float; larger units win ties.

    ``form`` has ``{n}`` and ``{u}``. Units below 1 of themselves are not used (no ``0.4T``) except for the base unit.
    """
    texts = []
    for unit, factor in sorted(units.items(), key=lambda item: -item[1]):
        if factor == 1 or abs(value) >= factor:
            number = float(Fraction(value) / factor)
            texts += [form.format(n=_digits(text), u=unit) for text in (f"{number:.12g}", repr(number))]
    exact = [text for text in texts if parse(text) == value]
    return min(exact, key=len)


def _digits(text: str) -> str:
    return text.removesuffix(".0").replace("e+", "e")


_WRITE_GBPS: _Units = {unit: _RATE_GBPS[unit] for unit in ("k", "M", "G", "T")}
_WRITE_PER_S: _Units = {unit: _RATE_PER_S[unit] for unit in ("/s", "k/s", "M/s")}
_WRITE_TIME: _Units = {unit: factor for unit, factor in _TIME_US.items() if unit not in ("ns", "µs")}

write_gbps: Callable[[float], str] = partial(_write, units=_WRITE_GBPS, parse=parse_gbps, form="{n}{u}")
write_bytes: Callable[[float], str] = partial(
    _write, units={u: f for u, f in _BYTES.items() if u != "KB"}, parse=parse_bytes, form="{n} {u}"
)
write_bytes_per_s: Callable[[float], str] = partial(
    _write, units={u: f for u, f in _BYTES_PER_S.items() if u != "KB/s"}, parse=parse_bytes_per_s, form="{n} {u}"
)
write_m: Callable[[float], str] = partial(
    _write, units={"m": Fraction(1), "km": Fraction(1000)}, parse=parse_m, form="{n} {u}"
)
write_us: Callable[[float], str] = partial(_write, units=_WRITE_TIME, parse=parse_us, form="{n} {u}")
write_w: Callable[[float], str] = partial(_write, units=_POWER_W, parse=parse_w, form="{n} {u}")
write_per_s: Callable[[float], str] = partial(_write, units=_WRITE_PER_S, parse=parse_per_s, form="{n}{u}")
write_kg: Callable[[float], str] = partial(_write, units={"kg": Fraction(1)}, parse=parse_kg, form="{n} {u}")
write_usd: Callable[[float], str] = partial(_write, units={"": Fraction(1)}, parse=parse_usd, form="${n}")
write_usd_per_kwh: Callable[[float], str] = partial(
    _write, units={"/kWh": Fraction(1)}, parse=parse_usd_per_kwh, form="${n}{u}"
)
write_ratio: Callable[[float], str] = partial(_write, units={"": Fraction(1)}, parse=parse_ratio, form="{n}:1")


def write_fraction(value: float) -> str:
    """Return a share as ``2%``, or as a plain number where no percentage is exactly the same float."""
    text = _digits(f"{float(Fraction(value) * 100):.12g}") + "%"
    return text if parse_fraction(text) == value else repr(value)


def _format(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    factor, unit = next((step for step in steps if abs(value) >= step[0]), steps[-1])
    number = value / factor
    return f"{number:,.0f} {unit}" if abs(number) >= 9999.5 else f"{number:.4g} {unit}"


def format_bytes(value: float) -> str:
    """Return bytes as people read message sizes, in binary units: ``1 GiB``."""
    return _format(value, ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1, "B")))


def format_data(value: float) -> str:
    """Return bytes as people read data sets and checkpoints, in decimal units: ``1 TB``, ``40 GB``."""
    return _format(value, ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")))


def format_gbps(value: float) -> str:
    """Return a rate given in Gb/s: ``400 Gb/s``, ``51.2 Tb/s``."""
    return _format(value, ((1e3, "Tb/s"), (1, "Gb/s"), (1e-3, "Mb/s")))


def format_us(value: float) -> str:
    """Return a time given in microseconds: ``1.5 ms``."""
    return _format(value, ((1e6, "s"), (1e3, "ms"), (1, "us"), (1e-3, "ns")))


def format_w(value: float) -> str:
    """Return a power given in watts: ``1.2 MW``."""
    return _format(value, ((1e6, "MW"), (1e3, "kW"), (1, "W")))


def counted(number: int, one: str, many: str) -> str:
    """Return a number with its words: ``1 rack is``, ``1,200 racks are``."""
    return f"{number:,} {one if number == 1 else many}"


def format_usd(value: float) -> str:
    """Return US dollars with thousands separators: ``$1,234,567``."""
    return f"${value:,.0f}"


def format_ratio(value: float) -> str:
    """Return an oversubscription ratio: ``3:1``."""
    return f"{value:.4g}:1"
