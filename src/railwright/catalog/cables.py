"""Cables with fixed ends: passive copper (DAC), linear copper (ACC), retimed copper (AEC), active optical (AOC), and Cat6.

A cable has one head and one or more tails; the head's lanes go to the tails in order and in equal parts, which is the lane
map of every splitter and twin-port cable on sale.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveFloat, PositiveInt

from railwright.catalog.model import Entry, Protocol, Record, Several
from railwright.catalog.optics import BuyerChecks


class CableEnd(BaseModel):
    """The plugs of one side: ``count`` of them, each with ``lanes``; ``form_factors`` are those the part is sold with."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    form_factors: Several[str]
    count: PositiveInt = 1
    lanes: PositiveInt
    power_w: NonNegativeFloat | None = None


class Cable(Entry):
    """A cable assembly. ``gbps`` is the rate of the whole head; ``reach_m`` the longest length the part or its class works at.

    ``lengths_m`` are those on sale, rising; a part whose lengths nobody knows cannot be chosen.

    ``gearbox`` cables may have other lane rates at the tails (``tail_lane_gbps``); all others need the same at both ends.
    ``latency_ns`` is that of the electronics in both plugs, without the wire's.
    """

    medium: Literal["dac", "acc", "aec", "aoc", "cat6"]
    gbps: PositiveFloat
    lane_gbps: PositiveFloat
    tail_lane_gbps: PositiveFloat | None = None
    head: CableEnd
    tails: CableEnd
    lengths_m: tuple[PositiveFloat, ...] = ()
    reach_m: PositiveFloat | None = None
    awg: str | None = None
    gearbox: bool = False
    latency_ns: NonNegativeFloat | None = None
    latency_ns_per_m: PositiveFloat | None = None
    protocols: Several[Protocol]
    coding: str = "any"
    discontinued: bool = False
    order_numbers: dict[str, str] = Field(default_factory=dict)
    buyer_checks: BuyerChecks = ()

    @property
    def ports(self) -> int:
        """How many logical ports the head carries when every tail is one port."""
        return self.tails.count


class Leg(BaseModel):
    """One logical port of a breakout: bit ``n`` of a mask is lane ``n + 1`` of the module's host or media side."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host_lanes: PositiveInt
    media_lanes: PositiveInt


class Breakout(Record):
    """How one cage is split over several ports, or why it cannot be.

    ``host_gbps`` and ``host_lanes`` describe the cage; ``optics`` what is plugged, ``far`` what is at the other ends. ``legs``
    are the lane masks in the order of the sub-ports. ``verdict`` ``defect`` marks a combination that the standard allows and a
    known defect breaks.
    """

    host_gbps: PositiveFloat | None = None
    host_lanes: PositiveInt | None = None
    optics: str
    far: str
    legs: tuple[Leg, ...] = ()
    verdict: Literal["works", "fails", "defect"]
    rule: str


def lane_masks(lanes: int, ports: int) -> list[int]:
    """Return the lane mask of each of ``ports`` equal sub-ports on ``lanes`` lanes: ``lane_masks(8, 2)`` is ``[0x0f, 0xf0]``.

    Raises ValueError when the lanes do not divide. Masks follow from the lanes before a port, never from its number, so
    mixed widths are sums of calls (a defect of some systems: sonic-buildimage issue 29427).
    """
    width, rest = divmod(lanes, ports)
    if rest or not width:
        raise ValueError(f"{lanes} lanes do not divide over {ports} ports")
    return [((1 << width) - 1) << (width * port) for port in range(ports)]
