"""Which cages of which switches boxes take, when boxes of several kinds and rates share leaves.

Leaves stand in units (a pair, or one leaf alone); a box takes the same cages on every leaf of its unit. Kinds come one after
the other and start on a fresh cage, so that every cage has one breakout. Counting is per unit and kind, never per port.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]
SIDES = 2


@dataclass(frozen=True)
class Seats:
    """Where boxes stand: unit and first port (slot) of each; arrays of one element per box."""

    unit: Index
    slot: Index

    @property
    def count(self) -> int:
        """Boxes that found a place."""
        return len(self.unit)


@dataclass
class CageBook:
    """Free cages of ``units`` units of ``width`` leaves: from cage ``start`` (0-based) up to, not including, ``end``.

    ``open_ended`` opens another unit whenever the last one is full; ``even`` deals each kind evenly over the units instead of
    filling one after the other. Both sides of a box share the leaf where ``width`` is 1.
    """

    start: int
    end: int
    units: int = 0
    width: int = SIDES
    open_ended: bool = False
    even: bool = False
    _next: list[int] = field(init=False)
    _gbps: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self._next = [self.start] * self.units
        self._gbps = [0.0] * self.units

    def reserve_last(self, cages: int) -> int:
        """Take the last ``cages`` cages of every unit and return the first of them (0-based); may run below ``start``."""
        self.end -= cages
        return self.end

    def take(self, boxes: int, ports: int, per_cage: int, gbps: float, *, together: bool = False) -> Seats:
        """Seat up to ``boxes`` boxes with ``ports`` ports of ``gbps`` on each side, ``per_cage`` of which share a cage.

        ``together`` fills one unit after the other even where the book deals evenly. The result has fewer boxes when there is
        no room for all.
        """
        even = self.even and not together
        on_leaf = ports * SIDES // self.width
        unit: list[Index] = []
        slot: list[Index] = []
        left, at = boxes, 0
        while left:
            if at == self.units:
                if not self.open_ended or (self.end - self.start) * per_cage < on_leaf:
                    break
                self.units += 1
                self._next.append(self.start)
                self._gbps.append(0.0)
            wanted = -(-left // (self.units - at)) if even else left
            taken = min(wanted, max(0, self.end - self._next[at]) * per_cage // on_leaf)
            if taken:
                unit.append(np.full(taken, at))
                slot.append(self._next[at] * per_cage + np.arange(taken) * on_leaf)
                self._next[at] += -(-taken * on_leaf // per_cage)
                self._gbps[at] += taken * on_leaf * gbps
                left -= taken
            at += 1
        return Seats(_joined(unit), _joined(slot))

    def fullest(self) -> int:
        """Return the first cage (0-based) that no box of any unit has."""
        return max(self._next, default=self.start)

    def leaf_gbps(self) -> list[float]:
        """Return for every unit what the boxes on one of its leaves can send together."""
        return list(self._gbps)


def _joined(parts: list[Index]) -> Index:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
