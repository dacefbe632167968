"""Sizes one group of leaves: how its cages split between boxes and spines, how many leaves the boxes need, who sits where."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from railwright.catalog.model import Switch
from railwright.design.cages import SIDES, CageBook, Seats
from railwright.design.server_ports import Switching, per_cage
from railwright.design.sizing import ceil_div, uplinks_needed
from railwright.design.topology.pairs import LeafGroup
from railwright.design.topology.ports import downlinks_left, leaf_split, uplinks_left
from railwright.design.wiring import cage_group
from railwright.errors import InputError
from railwright.spec.cluster import Counts, NetworkName

Index = NDArray[np.int64]
LEAST_UPLINKS = 2
NO_END = 10_000
"""Cages of leaves whose number the user insists on: more than any switch has; the radix rule reports what does not exist."""


@dataclass(frozen=True)
class Homes:
    """How boxes hang on the leaves of a group: unit and first port (slot) of every box, ``ports`` ports on each side.

    ``width`` leaves make a unit; where it is 1, both sides of a box share a leaf. In a ring (an odd number of leaves that the
    user insists on) unit ``u`` is leaf ``u`` for side 0 and the next leaf for side 1.
    """

    width: int
    leaves: int
    unit: Index
    slot: Index
    ports: int
    ring: bool = False

    def leaf(self, box: Index, side: Index) -> Index:
        """Return the index of the leaf on ``side`` of each box."""
        if self.ring:
            return (self.unit[box] + side) % self.leaves
        return self.unit[box] * self.width + side % self.width

    def port(self, box: Index, side: Index, nth: Index) -> Index:
        """Return the slot of the ``nth`` port of each box on ``side``."""
        return self.slot[box] + nth + (side * self.ports if self.width == 1 else 0)


@dataclass(frozen=True)
class Sized:
    """A group, the cages that boxes may take beside its servers (``book``) and where its servers hang."""

    group: LeafGroup
    book: CageBook
    homes: Homes


def host_group(
    switching: Switching,
    counts: Counts,
    network: NetworkName,
    *,
    word: str,
    boxes: int,
    reserved: int,
    ports: int,
    width: int,
    ratio: float,
) -> Sized:
    """Return the leaves for ``boxes`` servers (``reserved`` to grow to) with ``ports`` ports on each leaf of their unit.

    Leaves are filled in order, so that a server's port does not depend on how many come after it. Raises InputError when a
    server's ports do not fit a leaf.
    """
    leaf, gbps, uplink = switching.leaf, switching.gbps, switching.uplink_gbps
    reserved = max(boxes, reserved)
    if counts.leaves is not None and reserved:
        return _insisted(switching, counts, word, boxes, reserved, ports, width, ratio)
    down, up_room = _split(switching, counts, gbps, ratio)
    per_unit = down // ports
    if not per_unit:
        raise InputError(
            f"a {leaf.key} leaf has {down} ports of {gbps:g}G toward servers and one server needs {ports}",
            key=f"{network}.leaf_switch",
        )
    used = min(per_unit, reserved) * ports * gbps
    up = counts.leaf_up_ports or _up(used, uplink, ratio, up_room)
    box = np.arange(boxes)
    units = ceil_div(boxes, per_unit)
    homes = Homes(width, units * width, box // per_unit, box % per_unit * ports, ports)
    first_up = _first_uplink_cage(leaf, gbps, uplink, up_room)
    group = LeafGroup(word, "leaf", leaf, units * width, ceil_div(reserved, per_unit) * width, up, up_room, first_up)
    return Sized(replace(group, exact=bool(counts.leaf_up_ports)), CageBook(0, 0), homes)


def box_group(switching: Switching, counts: Counts, *, word: str, gbps: float, ratio: float) -> Sized:
    """Return an empty group of leaf pairs for boxes of about ``gbps``; its book opens pairs as boxes come."""
    leaf, uplink = switching.leaf, switching.uplink_gbps
    _, up_room = _split(switching, Counts(leaf_up_ports=counts.leaf_up_ports), gbps, ratio)
    first_up = _first_uplink_cage(leaf, gbps, uplink, up_room)
    end = first_up - 1 if _shared(leaf, gbps, uplink) else cage_group(leaf, gbps, "fabric")[0].count
    none = np.empty(0, dtype=np.int64)
    group = LeafGroup(word, "leaf", leaf, 0, 0, LEAST_UPLINKS, up_room, first_up)
    return Sized(group, CageBook(0, end, open_ended=True), Homes(SIDES, 0, none, none, 1))


def close_group(sized: Sized, uplink_gbps: float, ratio: float) -> LeafGroup:
    """Return a group of boxes with the leaf pairs that its book opened and the uplinks that the busiest leaf needs."""
    group, leaves = sized.group, SIDES * sized.book.units
    up = _up(max(sized.book.leaf_gbps(), default=0.0), uplink_gbps, ratio, group.up_room)
    return replace(group, leaves=leaves, reserved=leaves, up=up)


def with_boxes(group: LeafGroup, gbps: float, uplink_gbps: float, ratio: float) -> LeafGroup:
    """Return ``group`` with uplinks enough, beside what they were sized for, for boxes of ``gbps`` on one leaf."""
    return replace(group, up=max(group.up, _up(gbps, uplink_gbps, ratio, group.up_room)))


def close_insisted(sized: Sized, gbps: float, uplink_gbps: float) -> LeafGroup:
    """Return a group of leaves that the user insists on, its uplinks behind the last cage that boxes took."""
    group = sized.group
    if not _shared(group.platform, gbps, uplink_gbps):
        return group
    return replace(group, first_up_cage=max(group.first_up_cage, sized.book.fullest() + 1))


def seat(
    books: list[CageBook], boxes: int, ports: int, leaf: Switch, gbps: float, key: str, *, together: bool = False
) -> list[Seats]:
    """Seat ``boxes`` in the first book that has room, then in the next; one result per book.

    ``together`` boxes share cages rather than being dealt over all leaves.

    Raises InputError (naming ``key``) when boxes are left over.
    """
    cage = per_cage(leaf, gbps)
    found = []
    left = boxes
    for book in books:
        seats = book.take(left, ports, cage, gbps, together=together)
        left -= seats.count
        found.append(seats)
    if left:
        raise InputError(f"{left} boxes with {ports} ports of {gbps:g}G on a leaf find no room on {leaf.key}", key=key)
    return found


def _insisted(
    switching: Switching, counts: Counts, word: str, boxes: int, reserved: int, ports: int, width: int, ratio: float
) -> Sized:
    """Return as many leaves as the user insists on, servers dealt evenly; ports that no switch has are for `check`."""
    leaf, gbps, uplink = switching.leaf, switching.gbps, switching.uplink_gbps
    leaves = counts.leaves or 1
    ring = width > 1 and leaves > 1 and leaves % 2 == 1
    span = ports * SIDES if width > 1 and (ring or leaves == 1) else ports
    width = 1 if ring or leaves == 1 else width
    units = leaves // width
    per_unit = ceil_div(reserved, units)
    box = np.arange(boxes)
    homes = Homes(width, leaves, box // per_unit, box % per_unit * span, ports, ring)
    taken = per_unit * span
    room = max(1, uplinks_left(leaf, taken, gbps, uplink))
    exact = bool(counts.leaf_up_ports)
    up = counts.leaf_up_ports or _up(taken * gbps, uplink, ratio, room)
    if counts.spines and not exact:
        up = max(1, min(ceil_div(up, counts.spines), room // counts.spines)) * counts.spines
    first_up = _first_uplink_cage(leaf, gbps, uplink, up)
    group = LeafGroup(word, "leaf", leaf, leaves, leaves, up, max(up, room), first_up, exact)
    return Sized(group, CageBook(ceil_div(taken, per_cage(leaf, gbps)), NO_END, units, width, even=True), homes)


def _split(switching: Switching, counts: Counts, gbps: float, ratio: float) -> tuple[int, int]:
    """Return the ports of a full leaf down and up."""
    leaf, uplink = switching.leaf, switching.uplink_gbps
    if counts.leaf_down_ports is not None:
        room = uplinks_left(leaf, counts.leaf_down_ports, gbps, uplink)
        up = counts.leaf_up_ports or min(uplinks_needed(counts.leaf_down_ports, gbps, uplink, ratio), room)
        return counts.leaf_down_ports, max(up, LEAST_UPLINKS)
    if counts.leaf_up_ports:
        return downlinks_left(leaf, counts.leaf_up_ports, gbps, uplink), counts.leaf_up_ports
    split = leaf_split(leaf, gbps, uplink, ratio)
    return split.down, max(split.up, LEAST_UPLINKS)


def _up(down_gbps: float, uplink_gbps: float, ratio: float, room: int) -> int:
    """Return the uplinks that ``down_gbps`` need: at least two and even, so that two spines share them."""
    needed = max(LEAST_UPLINKS, uplinks_needed(1, down_gbps, uplink_gbps, ratio))
    even = needed + needed % 2
    return even if even <= room else max(1, min(needed, room))


def _shared(leaf: Switch, gbps: float, uplink_gbps: float) -> bool:
    """Return whether ports down and up take their cages from one group."""
    return cage_group(leaf, gbps, "fabric")[0] is cage_group(leaf, uplink_gbps, "fabric")[0]


def _first_uplink_cage(leaf: Switch, gbps: float, uplink_gbps: float, uplinks: int) -> int:
    """Return the first of the last cages that hold ``uplinks``, from 1 within their group."""
    if not _shared(leaf, gbps, uplink_gbps):
        return 1
    group, _ = cage_group(leaf, uplink_gbps, "fabric")
    return max(1, group.count - ceil_div(uplinks, group.ports_at(uplink_gbps)) + 1)
