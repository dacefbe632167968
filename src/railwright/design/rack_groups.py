"""Which access switch serves which rack: whole racks in order, as many as the ports of one switch hold.

A rack for which the last switch has too few ports left takes the nearest switch before it that has enough, so that small racks
fill what large ones left. A rack's switch follows from the racks before it alone: racks added later move nothing.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from railwright.design.sizing import ceil_div

Index = NDArray[np.int64]
LOOK_BACK = 3
"""Switches, counted from the last one, whose free ports a rack may take: cords stay within a few racks' reach."""


@dataclass(frozen=True)
class RackGroups:
    """For every endpoint its switch (from 0) and port (slot); for every switch the rack where it stands (index of rack)."""

    switch: Index
    slot: Index
    standing: Index

    @property
    def switches(self) -> int:
        """How many switches there are."""
        return len(self.standing)


def group_racks(rack: Index, racks: int, ports: int, insisted: int | None = None) -> RackGroups:
    """Return the switches for endpoints that stand in ``rack`` (index of each one's rack, ascending).

    A switch takes whole racks until its ``ports`` are used up; a rack with more endpoints than that has switches of its own.
    ``insisted`` switches share the endpoints evenly, whatever their ports.
    """
    if insisted is not None:
        each = max(1, ceil_div(len(rack), insisted))
        switch, slot = np.divmod(np.arange(len(rack)), each)
        first = np.minimum(np.arange(insisted) * each, max(0, len(rack) - 1))
        return RackGroups(switch, slot, rack[first] if len(rack) else np.zeros(insisted, dtype=np.int64))
    count = np.bincount(rack, minlength=racks)
    first_switch, before, standing = _fill(count.tolist(), ports)
    nth = np.arange(len(rack)) - (np.cumsum(count) - count)[rack]
    position = before[rack] + nth
    return RackGroups(first_switch[rack] + position // ports, position % ports, standing)


def _fill(counts: list[int], ports: int) -> tuple[Index, Index, Index]:
    """Return per rack its first switch and the ports used there before it, and per switch its rack. A loop over racks."""
    first: list[int] = []
    before: list[int] = []
    standing: list[int] = []
    used: list[int] = []
    for number, count in enumerate(counts):
        near = range(len(used) - 1, max(-1, len(used) - 1 - LOOK_BACK), -1)
        switch = next((nth for nth in near if used[nth] + count <= ports), None)
        if switch is None:
            switch = len(used)
            opened = ceil_div(count, ports)
            standing += [number] * opened
            used += [0 if opened == 1 else ports] * opened
        first.append(switch)
        before.append(used[switch] % ports if switch < len(used) else 0)
        if count <= ports and switch < len(used):
            used[switch] += count
    return np.array(first, dtype=np.int64), np.array(before, dtype=np.int64), np.array(standing, dtype=np.int64)
