"""What `tune` may turn: thresholds of the queues and DCQCN's parameters, their ranges, and how a value is written in a spec.

A setting is a mapping of parameter → value in base units. All parameters are searched on a logarithmic scale and rounded to
what equipment takes: alpha and g are powers of two (SONiC's ``dynamic_th`` is the exponent), Pmax a whole percent (WRED's drop
probability), bytes and times have three digits. Ranges are ours: two orders of magnitude or so around the published values
(Zhu et al., SIGCOMM 2015; vendors' defaults in ``design.qos.threshold_defaults``).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from railwright.errors import InputError, nearest
from railwright.simulate.packet.options import Dcqcn
from railwright.spec.cluster import Marking
from railwright.spec.congestion import Pausing, RateControl
from railwright.units import format_us, parse_bytes, parse_fraction, parse_number, parse_us, write_bytes, write_fraction

Setting = Mapping[str, float]


def _digits(value: float, count: int = 3) -> float:
    return float(f"{value:.{count - 1}e}")


def _power_of_two(value: float) -> float:
    return 2.0 ** round(math.log2(value))


def _percent(value: float) -> float:
    return max(1, round(value * 100)) / 100


def _whole(value: float) -> float:
    return float(round(_digits(value)))


@dataclass(frozen=True)
class Parameter:
    """One parameter: its ``section`` below ``backend``, its usual range, how it is rounded, read and shown."""

    section: str
    low: float
    high: float
    rounded: Callable[[float], float]
    parse: Callable[[object], float]
    shown: Callable[[float], str]
    meaning: str


def _plain(value: float) -> str:
    return f"{value:g}"


PARAMETERS: dict[str, Parameter] = {
    "alpha": Parameter("pfc", 1 / 64, 8, _power_of_two, parse_number, _plain, "share of the free pool before a pause"),
    "xoff": Parameter("pfc", 20e3, 20e6, _whole, parse_bytes, write_bytes, "fixed pause threshold in place of alpha"),
    "xon_offset": Parameter("pfc", 2e3, 500e3, _whole, parse_bytes, write_bytes, "how far below it sending resumes"),
    "kmin": Parameter("ecn", 10e3, 10e6, _whole, parse_bytes, write_bytes, "queue from which packets are marked"),
    "kmax_ratio": Parameter("ecn", 1, 16, lambda v: _digits(v, 2), parse_number, _plain, "Kmax as a multiple of Kmin"),
    "pmax": Parameter("ecn", 0.01, 1, _percent, parse_fraction, write_fraction, "share of packets marked at Kmax"),
    "g": Parameter("dcqcn", 1 / 1024, 1 / 8, _power_of_two, parse_number, _plain, "weight of a new mark"),
    "additive_increase": Parameter(
        "dcqcn", 1e-4, 2e-2, lambda v: _digits(v, 2), parse_fraction, write_fraction, "Rai, as a share of the line rate"
    ),
    "hyper_increase": Parameter(
        "dcqcn",
        1e-3,
        2e-1,
        lambda v: _digits(v, 2),
        parse_fraction,
        write_fraction,
        "Rhai, as a share of the line rate",
    ),
    "increase_timer": Parameter("dcqcn", 10, 1000, _whole, parse_us, format_us, "time between two increases"),
    "alpha_timer": Parameter("dcqcn", 2, 200, _whole, parse_us, format_us, "time after which the estimate decays"),
    "decrease_interval": Parameter("dcqcn", 1, 100, _whole, parse_us, format_us, "least time between two cuts"),
    "byte_counter": Parameter("dcqcn", 100e3, 100e6, _whole, parse_bytes, write_bytes, "bytes between two increases"),
}
USUAL = (
    "alpha",
    "kmin",
    "kmax_ratio",
    "pmax",
    "g",
    "additive_increase",
    "hyper_increase",
    "increase_timer",
    "alpha_timer",
)
"""The parameters that are varied when none is named, as far as the contract has them."""
_SHARES = ("pmax", "additive_increase", "hyper_increase")


@dataclass(frozen=True)
class Range:
    """The values that a parameter may take."""

    name: str
    low: float
    high: float

    @property
    def parameter(self) -> Parameter:
        """What is turned."""
        return PARAMETERS[self.name]

    def at(self, unit: float, most: float | None = None) -> float:
        """Return the value at ``unit`` (0 … 1) of the range, of which nothing above ``most`` is taken; rounded."""
        high = self.high if most is None else max(1.0, min(self.high, most))
        low = min(self.low, high)
        value = min(max(self.parameter.rounded(low * (high / low) ** unit), self.low), self.high)
        return value if most is None or value <= most else max(1.0, math.floor(most))

    def unit(self, value: float, most: float | None = None) -> float:
        """Return where ``value`` lies in the range, 0 … 1; the inverse of :meth:`at` up to rounding."""
        high = self.high if most is None else max(1.0, min(self.high, most))
        low = min(self.low, high)
        if high <= low:
            return 0.0
        return min(1.0, max(0.0, math.log(value / low) / math.log(high / low)))


def parse_ranges(texts: Sequence[str], available: Sequence[str]) -> tuple[Range, ...]:
    """Return the ranges of ``NAME`` or ``NAME=LOW:HIGH`` (``kmin=50KB:1MB``); none given: the usual ones that are ``available``.

    Raises InputError that names the text and what would be right.
    """
    if not texts:
        return tuple(Range(name, PARAMETERS[name].low, PARAMETERS[name].high) for name in USUAL if name in available)
    found: dict[str, Range] = {}
    for text in texts:
        name, equals, limits = text.partition("=")
        if name not in PARAMETERS:
            raise InputError(
                f"{name!r} is no parameter{nearest(name, PARAMETERS)}; parameters are {', '.join(PARAMETERS)}",
                key="--vary",
            )
        if name not in available:
            raise InputError(f"this contract has no {name}; it has {', '.join(available)}", key="--vary")
        if name in found:
            raise InputError(f"{name} is named twice", key="--vary")
        found[name] = _range(name, limits, text) if equals else Range(name, PARAMETERS[name].low, PARAMETERS[name].high)
    if {"alpha", "xoff"} <= found.keys():
        raise InputError("alpha and xoff are two ways to say when a queue pauses; vary one of them", key="--vary")
    return tuple(found[name] for name in PARAMETERS if name in found)


def _range(name: str, limits: str, text: str) -> Range:
    parameter = PARAMETERS[name]
    try:
        low, high = (parameter.parse(part) for part in limits.split(":"))
    except ValueError as error:
        raise InputError(
            f"{text!r}: {error}; write {name}=LOW:HIGH, for example {name}={parameter.shown(parameter.low)}"
            f":{parameter.shown(parameter.high)}",
            key="--vary",
        ) from None
    most = 1.0 if name in _SHARES else 64.0 if name == "alpha" else 0.5 if name == "g" else 1e12
    least = 1.0 if name == "kmax_ratio" else 0.01 if name == "pmax" else 1e-6
    if not least <= low < high <= most:
        raise InputError(
            f"{text!r}: LOW must be below HIGH, both from {parameter.shown(least)} to {parameter.shown(most)}",
            key="--vary",
        )
    return Range(name, low, high)


@dataclass(frozen=True)
class Sections:
    """The parts below ``backend`` of a spec (or at the top of a network file) that a setting stands for; None: as it is."""

    ecn: Marking | None = None
    pfc: Pausing | None = None
    dcqcn: RateControl | None = None

    def as_dict(self) -> dict[str, dict[str, object]]:
        """Return the sections as they stand in a YAML file."""
        sections = {"ecn": self.ecn, "pfc": self.pfc, "dcqcn": self.dcqcn}
        return {
            key: section.model_dump(mode="json", exclude_none=True)
            for key, section in sections.items()
            if section is not None
        }


def sections_of(setting: Setting, base: Setting, pfc: Pausing | None, dcqcn: RateControl | None) -> Sections:
    """Return what ``setting`` changes; what it leaves open is as in ``base`` (ECN), ``pfc`` and ``dcqcn`` (as they were)."""
    parts = {name: {k: v for k, v in setting.items() if PARAMETERS[k].section == name} for name in ("pfc", "dcqcn")}
    ecn = None
    if any(PARAMETERS[name].section == "ecn" for name in setting):
        full = {**base, **setting}
        kmax = max(round(full["kmin"] * full["kmax_ratio"]), full["kmin"])
        ecn = Marking(kmin=full["kmin"], kmax=kmax, pmax=full["pmax"])
    pausing = None
    if parts["pfc"]:
        kept = pfc.model_dump(exclude_none=True) if pfc else {}
        if "xoff" in setting or "alpha" in setting:
            kept = {key: value for key, value in kept.items() if key == "xon_offset"}
        pausing = Pausing.model_validate({**kept, **parts["pfc"]})
    control = None
    if parts["dcqcn"]:
        control = RateControl.model_validate(
            {**(dcqcn.model_dump(exclude_none=True) if dcqcn else {}), **parts["dcqcn"]}
        )
    return Sections(ecn, pausing, control)


def control_values(options: Dcqcn) -> dict[str, float]:
    """Return DCQCN's options as values of parameters."""
    return {
        "g": options.g,
        "additive_increase": options.additive_share,
        "hyper_increase": options.hyper_share,
        "increase_timer": options.increase_timer_us,
        "alpha_timer": options.alpha_timer_us,
        "decrease_interval": options.decrease_interval_us,
        "byte_counter": options.byte_counter_bytes,
    }
