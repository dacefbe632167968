"""PFC thresholds and DCQCN's parameters of a spec or a network file as fields of the packet engine's options."""

from railwright.simulate.packet.options import Dcqcn
from railwright.spec.cluster import Marking
from railwright.spec.congestion import Pausing, RateControl

PAUSING = {"alpha": "alpha", "xoff_bytes": "xoff", "xon_offset_bytes": "xon_offset"}
"""Field of `QosClass` → key of `Pausing`."""

RATE_CONTROL = {
    "g": "g",
    "additive_share": "additive_increase",
    "hyper_share": "hyper_increase",
    "increase_timer_us": "increase_timer",
    "alpha_timer_us": "alpha_timer",
    "decrease_interval_us": "decrease_interval",
    "byte_counter_bytes": "byte_counter",
    "fast_recovery": "fast_recovery",
}
"""Field of `Dcqcn` → key of `RateControl`."""


def pausing_options(given: Pausing | None) -> dict[str, float]:
    """Return the fields of `QosClass` that ``given`` sets."""
    values = {} if given is None else {field: getattr(given, key) for field, key in PAUSING.items()}
    return {field: value for field, value in values.items() if value is not None}


def rate_control_fields(given: RateControl | None) -> dict[str, float]:
    """Return the fields of `Dcqcn` that ``given`` sets."""
    values = {} if given is None else {field: getattr(given, key) for field, key in RATE_CONTROL.items()}
    return {field: value for field, value in values.items() if value is not None}


def rate_control_options(given: RateControl | None, base: Dcqcn = Dcqcn()) -> Dcqcn:
    """Return DCQCN's options; what ``given`` leaves out is as in ``base``, by default the published value."""
    return base.model_copy(update=rate_control_fields(given))


def class_fields(ecn: Marking | None, pfc: Pausing | None) -> dict[str, float]:
    """Return the fields of `QosClass` that ``ecn`` and ``pfc`` set; alpha takes a fixed threshold back."""
    marks = {"kmin_bytes": ecn.kmin, "kmax_bytes": ecn.kmax, "pmax": ecn.pmax} if ecn is not None else {}
    pauses = pausing_options(pfc)
    return {**marks, **({"xoff_bytes": 0.0} if "alpha" in pauses else {}), **pauses}
