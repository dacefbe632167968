"""What the flow engine is told beyond network and traffic."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from railwright.errors import InputError
from railwright.simulate.goodput import Goodput

BYTES_PER_US = 125.0
"""Bytes per microsecond in 1 Gb/s."""


@dataclass(frozen=True)
class FlowOptions:
    """One run of the flow engine.

    ``goodput`` is the share of a fabric link's rate that payload gets (`goodput.goodput_share`), ``scale_up_goodput`` that of a
    scale-up link. ``calibration`` (`goodput.calibrated`) takes off what congestion control leaves unused (None: nothing),
    and with ``acknowledged`` the acknowledgements of every packet, as the packet engine sends them. ``paths``: see
    `paths.MODES`. ``queue_pairs``: flows that each send is split into, each with its own hash. ``overhead_us`` and
    ``scale_up_overhead_us`` are added to the path's latency of a message that crosses the fabric, or stays inside.
    ``fail``: see `failures`; traffic leaves a path that breaks during the run ``reroute_us`` later. ``weights``,
    ``priorities`` (0 first, strict) and ``caps_gbps`` are per traffic class.
    ``fold``: compute alike operations once. ``audit_every``: compare the rates of every so many instants with a full
    computation (0: never); the counter ``audit`` is the largest relative difference.
    """

    goodput: float = 1.0
    scale_up_goodput: float = 1.0
    calibration: Goodput | None = None
    acknowledged: bool = False
    paths: str = "ecmp"
    queue_pairs: int = 1
    overhead_us: float = 0.0
    scale_up_overhead_us: float = 0.0
    fail: tuple[str, ...] = ()
    reroute_us: float = 0.0
    weights: Mapping[str, float] = field(default_factory=dict)
    priorities: Mapping[str, int] = field(default_factory=dict)
    caps_gbps: Mapping[str, float] = field(default_factory=dict)
    scale_up: bool = True
    fold: bool = True
    audit_every: int = 0

    def __post_init__(self) -> None:
        for name in ("goodput", "scale_up_goodput"):
            if not 0 < getattr(self, name) <= 1:
                raise InputError(f"{getattr(self, name)} is not a share; it must be above 0 and at most 1", key=name)
        if not 1 <= self.queue_pairs <= 1024:
            raise InputError(f"{self.queue_pairs} is out of range; it must be from 1 to 1024", key="queue_pairs")
        for name in ("overhead_us", "scale_up_overhead_us", "reroute_us"):
            if not 0 <= getattr(self, name) < np.inf:
                raise InputError(f"{getattr(self, name)} is out of range; it must be 0 or more", key=name)
        for name in ("weights", "caps_gbps"):
            for key, value in getattr(self, name).items():
                if not 0 < value < np.inf:
                    raise InputError(f"{value} is out of range; it must be above 0", key=f"{name}.{key}")
        for key, value in self.priorities.items():
            if not 0 <= value <= 7:
                raise InputError(f"{value} is out of range; it must be from 0 to 7", key=f"priorities.{key}")
