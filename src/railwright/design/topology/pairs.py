"""Leaf-spine fabrics whose boxes hang on pairs of leaves: what frontend and storage are made of.

Leaves come in groups of one kind (for GPU servers, for service boxes, for appliances, borders). Every group is wired to the
same spines: the first group fills the spines' ports from the first up, the others from the last down, so that each can grow
without moving the other. Where one spine has not enough ports for all leaves, the first group is cut into pods of spines
joined by cores and the other groups share a pod of their own, pod 1.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.catalog.model import Switch
from railwright.design.context import Context, numbered
from railwright.design.sizing import ceil_div, split_cages, uplinks_needed, upper_switches
from railwright.design.topology.wire import spread
from railwright.design.wiring import Ends, Ids, cage_group
from railwright.errors import InputError
from railwright.spec.cluster import NetworkName

Index = NDArray[np.int64]
LEAST_SPINES = 2


@dataclass(frozen=True)
class LeafGroup:
    """Leaves of one kind.

    ``leaves`` are built, ``reserved`` (>= ``leaves``) is the number to grow to. ``up`` uplinks are needed by each, ``up_room``
    fit from cage ``first_up_cage`` (from 1) on.
    """

    word: str
    role: str
    platform: Switch
    leaves: int
    reserved: int
    up: int
    up_room: int
    first_up_cage: int


@dataclass(frozen=True)
class Tiers:
    """What stands above the leaves. ``spines`` is per pod; there is one pod (``pod_leaves`` 0) and no core with two tiers.

    ``pods`` counts the pods of the first group that are built. ``ups`` has the uplinks of a leaf of each group.
    """

    spines: int
    ups: tuple[int, ...]
    pods: int = 1
    pod_leaves: int = 0
    spine_down: int = 0
    spine_up: int = 0
    cores_per_group: int = 0

    @property
    def cores(self) -> int:
        """Core switches in all groups."""
        return self.spines * self.cores_per_group


@dataclass(frozen=True)
class PairFabric:
    """What was built: ``leaves`` has the device ids of each group, ``spines`` the shape [pods, spines of a pod].

    ``free_down`` is the range of down ports of a spine of the first pod that no leaf has, now or when the cluster has grown.
    """

    tiers: Tiers
    leaves: tuple[Ids, ...]
    spines: Ids
    cores: Ids
    free_down: tuple[int, int]

    @property
    def no_leaves(self) -> Ids:
        """An empty array, for a group that was not built."""
        return np.empty(0, dtype=np.uint32)

    def free_spine_cages(self, per_cage: int) -> tuple[int, int]:
        """Return the free cages of a spine of the first pod, 0-based, as start and end."""
        first, end = self.free_down
        return ceil_div(first, per_cage), max(end, first) // per_cage


def size_tiers(
    groups: tuple[LeafGroup, ...], spine: Switch, uplink_gbps: float, network: NetworkName, given: int | None = None
) -> Tiers:
    """Return the smallest tiers above ``groups``; ``given`` spines are taken as they are.

    Spines are the smallest count, at least two, that divides the uplinks of a leaf of the first group and has ports for all
    leaves; the uplinks of the other groups are rounded to a multiple of it. Raises InputError when three tiers are too few.
    """
    radix = spine.ports_at(uplink_gbps)
    if given is not None:
        return Tiers(given, tuple(_rounded(group, given) or group.up if given else 0 for group in groups))
    first = groups[0]
    for count in _divisors(first.up):
        ups = tuple(_rounded(group, count) for group in groups)
        if all(ups) and sum(g.reserved * up // count for g, up in zip(groups, ups, strict=True)) <= radix:
            return Tiers(count, ups)
    return _three_tiers(groups, spine, uplink_gbps, network)


def build_pairs(
    context: Context,
    groups: tuple[LeafGroup, ...],
    spine: Switch,
    tiers: Tiers,
    *,
    network: NetworkName,
    site: str,
    prefix: str,
    uplink_gbps: float,
) -> PairFabric:
    """Add leaves, spines and cores of one site with their links to ``context.wiring``.

    Leaves are called ``prefix + word``, the others ``prefix + network``.
    """
    wiring = context.wiring
    three = tiers.cores > 0
    leaves = []
    for order, group in enumerate(groups):
        pod = (
            np.arange(group.leaves) // tiers.pod_leaves + 2 if order == 0 and three else np.ones(group.leaves, np.int64)
        )
        leaves.append(
            wiring.add_devices(
                numbered(f"{prefix}{group.word}{{}}", group.leaves),
                role=group.role,
                network=network,
                site=site,
                model=group.platform.key,
                pod=pod if three else None,
                power_w=switch_power(group.platform),
            )
        )
    pods = 1 + tiers.pods if three else 1
    spines = _add_spines(context, spine, tiers.spines, pods, network, site, f"{prefix}{network}-")
    cores = wiring.add_devices(
        numbered(f"{prefix}{network}-core{{}}", tiers.cores),
        role="core",
        network=network,
        site=site,
        model=spine.key,
        power_w=switch_power(spine),
    )
    fabric = PairFabric(tiers, tuple(leaves), spines, cores, _free_down(groups, tiers, spine.ports_at(uplink_gbps)))
    if tiers.spines:
        _wire_spines(context, groups, spine, fabric, network, uplink_gbps)
    if three:
        _wire_cores(context, spine, fabric, network, uplink_gbps)
    return fabric


def switch_power(platform: Switch) -> float | None:
    """Return the largest draw that is known of a switch."""
    return platform.power_max_w or platform.power_typical_w


def _divisors(uplinks: int) -> list[int]:
    return [count for count in range(min(LEAST_SPINES, uplinks), uplinks + 1) if uplinks % count == 0]


def _rounded(group: LeafGroup, spines: int) -> int:
    """Return the uplinks of a leaf as a multiple of ``spines``: rounded up where there is room, else down (0: no room)."""
    return min(ceil_div(group.up, spines), group.up_room // spines) * spines


def _three_tiers(groups: tuple[LeafGroup, ...], spine: Switch, uplink_gbps: float, network: NetworkName) -> Tiers:
    first, radix = groups[0], spine.ports_at(uplink_gbps)
    cage, _ = cage_group(spine, uplink_gbps, "fabric")
    per_cage = cage.ports_at(uplink_gbps)
    down = split_cages(cage.count, per_cage, uplink_gbps, per_cage, uplink_gbps, 1.0).down
    count = first.up
    pod_leaves = down // 2 * 2
    ups = tuple(_rounded(group, count) for group in groups)
    special = sum(g.reserved * up // count for g, up in zip(groups[1:], ups[1:], strict=True))
    pods = ceil_div(first.reserved, pod_leaves)
    spine_up = uplinks_needed(down, uplink_gbps, uplink_gbps, 1.0)
    per_group = upper_switches(pods + 1, spine_up, radix)
    if not all(ups) or special > down or per_group is None:
        raise InputError(
            f"{sum(group.reserved for group in groups)} leaves are more than three tiers of {spine.key} with {radix} ports of "
            f"{uplink_gbps:g}G reach; take a larger {network}.spine_switch, a lower uplink_gbps or more oversubscription",
            key=f"{network}.spine_switch",
        )
    return Tiers(
        spines=count,
        ups=ups,
        pods=ceil_div(first.leaves, pod_leaves),
        pod_leaves=pod_leaves,
        spine_down=down,
        spine_up=spine_up,
        cores_per_group=per_group,
    )


def _add_spines(
    context: Context, platform: Switch, per_pod: int, pods: int, network: NetworkName, site: str, prefix: str
) -> Ids:
    """Add the spines; the result has the shape [pods, spines of a pod]."""
    pod, number = (axis.ravel() for axis in np.indices((pods, per_pod)))
    names = (
        numbered(f"{prefix}spine{{}}", per_pod)
        if pods == 1
        else pl.select(
            pl.format(f"{prefix}pod{{}}-spine{{}}", pl.Series("pod", pod + 1), pl.Series("number", number + 1))
        ).to_series()
    )
    return context.wiring.add_devices(
        names,
        role="spine",
        network=network,
        site=site,
        model=platform.key,
        pod=pod + 1 if pods > 1 else None,
        power_w=switch_power(platform),
    ).reshape(pods, per_pod)


def _wire_spines(
    context: Context,
    groups: tuple[LeafGroup, ...],
    platform: Switch,
    fabric: PairFabric,
    network: NetworkName,
    uplink_gbps: float,
) -> None:
    tiers, radix = fabric.tiers, platform.ports_at(uplink_gbps)
    room = tiers.spine_down or radix
    taken = 0
    crowded = sum(g.reserved * ceil_div(up, tiers.spines) for g, up in zip(groups, tiers.ups, strict=True)) > room
    for order, (group, up, leaves) in enumerate(zip(groups, tiers.ups, fabric.leaves, strict=True)):
        if not len(leaves) or not up:
            continue
        number = np.arange(group.leaves)
        in_pods = order == 0 and tiers.pod_leaves > 0
        pod = number // tiers.pod_leaves + 1 if in_pods else np.zeros_like(number)
        row, uplink, above, slot = spread(number % tiers.pod_leaves if in_pods else number, up, tiers.spines)
        used = ceil_div(group.reserved * up, tiers.spines)
        if order > 0 or crowded:
            slot = taken + slot if crowded and not tiers.pod_leaves else room - 1 - taken - slot
            taken += used
        context.wiring.connect(
            Ends(
                device=leaves[row],
                slot=uplink,
                direction="up",
                platform=group.platform,
                first_cage=group.first_up_cage,
            ),
            Ends(device=fabric.spines[pod[row], above], slot=slot, direction="down", platform=platform),
            network=network,
            tier="leaf_spine",
            speed_gbps=uplink_gbps,
        )


def _free_down(groups: tuple[LeafGroup, ...], tiers: Tiers, radix: int) -> tuple[int, int]:
    """Return the first and the end of the down ports of a spine of the first pod that no leaf has."""
    room = tiers.spine_down or radix
    used = [ceil_div(g.reserved * up, max(1, tiers.spines)) for g, up in zip(groups, tiers.ups, strict=True)]
    from_below = 0 if tiers.pod_leaves else used[0] if used else 0
    if sum(used) > room and not tiers.pod_leaves:
        return sum(used), sum(used)
    return from_below, room - sum(used[1:])


def _wire_cores(
    context: Context, platform: Switch, fabric: PairFabric, network: NetworkName, uplink_gbps: float
) -> None:
    tiers = fabric.tiers
    pods = len(fabric.spines)
    pod, spine = (axis.ravel() for axis in np.indices((pods, tiers.spines)))
    row, uplink, above, slot = spread(pod, tiers.spine_up, tiers.cores_per_group)
    cage, _ = cage_group(platform, uplink_gbps, "fabric")
    context.wiring.connect(
        Ends(
            device=fabric.spines.ravel()[row],
            slot=uplink,
            direction="up",
            platform=platform,
            first_cage=ceil_div(tiers.spine_down, cage.ports_at(uplink_gbps)) + 1,
        ),
        Ends(
            device=fabric.cores[spine[row] * tiers.cores_per_group + above],
            slot=slot,
            direction="down",
            platform=platform,
        ),
        network=network,
        tier="spine_core",
        speed_gbps=uplink_gbps,
    )
