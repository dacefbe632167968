"""Leaf-spine fabrics whose boxes hang on pairs of leaves: what frontend and storage are made of.

Leaves come in groups of one kind (for GPU servers, for service boxes, for appliances, borders). Every group is wired to the
same spines: the first group fills the spines' ports from the first up, the others from the last down, so that each can grow
without moving the other. Where one spine has not enough ports for all leaves, the first group is cut into pods of spines
joined by cores, and the other groups fill pods of their own, which come first.
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
    fit from cage ``first_up_cage`` (from 1) on. ``exact`` uplinks are the user's own and stay as they are.
    """

    word: str
    role: str
    platform: Switch
    leaves: int
    reserved: int
    up: int
    up_room: int
    first_up_cage: int
    exact: bool = False


@dataclass(frozen=True)
class Tiers:
    """What stands above the leaves. ``spines`` is per pod; there is one pod (``pod_leaves`` 0) and no core with two tiers.

    ``pods`` are built in all, the first ``special_pods`` of them for the groups after the first, whose leaves may take
    ``special_room`` of the ``spine_down`` ports of a spine. ``ups`` has the uplinks of a leaf of each group.
    """

    spines: int
    ups: tuple[int, ...]
    pods: int = 1
    special_pods: int = 0
    pod_leaves: int = 0
    special_room: int = 0
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
    groups: tuple[LeafGroup, ...],
    spine: Switch,
    uplink_gbps: float,
    network: NetworkName,
    given: int | None = None,
    kept: int = 0,
) -> Tiers:
    """Return the smallest tiers above ``groups``; ``given`` spines are taken as they are.

    Spines are the smallest count, at least two, that divides the uplinks of a leaf of the first group and has ports for all
    leaves (only when none does, another count and more uplinks); the uplinks of the other groups are rounded to a multiple.
    ``kept`` ports of a spine (of the first pod) stay free. Raises InputError when three tiers are too few.
    """
    radix = spine.ports_at(uplink_gbps)
    if given is not None:
        return Tiers(given, tuple(_rounded(group, given) or group.up if given else 0 for group in groups))
    for count in _candidates(groups):
        ups = tuple(_rounded(group, count) for group in groups)
        if all(ups) and sum(g.reserved * up // count for g, up in zip(groups, ups, strict=True)) <= radix - kept:
            return Tiers(count, ups)
    return _three_tiers(groups, spine, uplink_gbps, network, kept)


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
    places = [_places(groups, tiers, order) for order in range(len(groups))]
    leaves = tuple(
        wiring.add_devices(
            numbered(f"{prefix}{group.word}{{}}", group.leaves),
            role=group.role,
            network=network,
            site=site,
            model=group.platform.key,
            pod=pod + 1 if tiers.cores else None,
            power_w=switch_power(group.platform),
        )
        for group, (pod, _) in zip(groups, places, strict=True)
    )
    spines = _add_spines(context, spine, tiers.spines, tiers.pods, network, site, f"{prefix}{network}-")
    cores = wiring.add_devices(
        numbered(f"{prefix}{network}-core{{}}", tiers.cores),
        role="core",
        network=network,
        site=site,
        model=spine.key,
        power_w=switch_power(spine),
    )
    end = _end_of_down(groups, tiers, spine.ports_at(uplink_gbps))
    fabric = PairFabric(tiers, leaves, spines, cores, _free_down(groups, tiers, end))
    for order, (group, up) in enumerate(zip(groups, tiers.ups, strict=True)):
        if group.leaves and up:
            _wire_leaves(context, group, order, places[order], spine, fabric, end, network, uplink_gbps)
    if tiers.cores:
        _wire_cores(context, spine, fabric, network, uplink_gbps)
    return fabric


def switch_power(platform: Switch) -> float | None:
    """Return the largest draw that is known of a switch."""
    return platform.power_max_w or platform.power_typical_w


def _candidates(groups: tuple[LeafGroup, ...], *, largest_first: bool = False) -> list[int]:
    """Return the numbers of spines to try: those that divide the uplinks of the first group, then all others."""
    up, most = groups[0].up, max(group.up_room for group in groups)
    dividing = [count for count in range(min(LEAST_SPINES, up), up + 1) if up % count == 0]
    others = [count for count in range(LEAST_SPINES, most + 1) if up % count]
    return [*reversed(dividing), *reversed(others)] if largest_first else [*dividing, *others]


def _rounded(group: LeafGroup, spines: int) -> int:
    """Return the uplinks of a leaf as a multiple of ``spines``: rounded up where there is room, else down (0: no room)."""
    if group.exact:
        return group.up
    return min(ceil_div(group.up, spines), group.up_room // spines) * spines


def _three_tiers(
    groups: tuple[LeafGroup, ...], spine: Switch, uplink_gbps: float, network: NetworkName, kept: int
) -> Tiers:
    first, radix = groups[0], spine.ports_at(uplink_gbps)
    cage, _ = cage_group(spine, uplink_gbps, "fabric")
    per_cage = cage.ports_at(uplink_gbps)
    down = split_cages(cage.count, per_cage, uplink_gbps, per_cage, uplink_gbps, 1.0).down
    spine_up = uplinks_needed(down, uplink_gbps, uplink_gbps, 1.0)
    for count in _candidates(groups, largest_first=True):
        ups = tuple(_rounded(group, count) for group in groups)
        pod_leaves = down // (ups[0] // count) // 2 * 2 if all(ups) else 0
        others, room = _ports_of_others(groups, ups, count), max(1, down - kept)
        if not pod_leaves or max(others, default=0) > room:
            continue
        special, _ = _pack(others, room)
        special_pods = int(special.max(initial=0 if kept else -1)) + 1
        per_group = upper_switches(special_pods + ceil_div(first.reserved, pod_leaves), spine_up, radix)
        if per_group is not None:
            return Tiers(
                spines=count,
                ups=ups,
                pods=special_pods + ceil_div(first.leaves, pod_leaves),
                special_pods=special_pods,
                pod_leaves=pod_leaves,
                special_room=room,
                spine_down=down,
                spine_up=spine_up,
                cores_per_group=per_group,
            )
    raise InputError(
        f"{sum(group.reserved for group in groups)} leaves are more than three tiers of {spine.key} with {radix} ports of "
        f"{uplink_gbps:g}G reach; take a larger {network}.spine_switch, a lower uplink_gbps or more oversubscription",
        key=f"{network}.spine_switch",
    )


def _ports_of_others(groups: tuple[LeafGroup, ...], ups: tuple[int, ...], spines: int) -> list[int]:
    """Return for every leaf of the groups after the first how many ports it takes on a spine."""
    pairs = zip(groups[1:], ups[1:], strict=True)
    return [ceil_div(up, max(1, spines)) for group, up in pairs for _ in range(group.reserved)]


def _pack(ports: list[int], room: int) -> tuple[Index, Index]:
    """Return pod and first spine port of leaves that take ``ports`` ports of each spine, ``room`` of which a spine has.

    A loop over the leaves beside those of the servers: tens, not thousands.
    """
    pods, starts = [], []
    pod, start = 0, 0
    for wanted in ports:
        if start + wanted > room:
            pod, start = pod + 1, 0
        pods.append(pod)
        starts.append(start)
        start += wanted
    return np.array(pods, dtype=np.int64), np.array(starts, dtype=np.int64)


def _places(groups: tuple[LeafGroup, ...], tiers: Tiers, order: int) -> tuple[Index, Index]:
    """Return for the leaves of a group their pod (from 0) and the first port that they take on each of its spines.

    The first group counts from a spine's first port up, the others from its last one down.
    """
    group, up = groups[order], tiers.ups[order]
    number = np.arange(group.leaves)
    if order == 0:
        pod, position = np.divmod(number, tiers.pod_leaves) if tiers.pod_leaves else (np.zeros_like(number), number)
        return pod + tiers.special_pods, position * ceil_div(up, max(1, tiers.spines))
    others = _ports_of_others(groups, tiers.ups, tiers.spines)
    pod, start = _pack(others, tiers.special_room if tiers.pod_leaves else sum(others))
    skip = sum(other.reserved for other in groups[1:order])
    return pod[skip : skip + group.leaves], start[skip : skip + group.leaves]


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


def _wire_leaves(
    context: Context,
    group: LeafGroup,
    order: int,
    places: tuple[Index, Index],
    platform: Switch,
    fabric: PairFabric,
    end: int,
    network: NetworkName,
    uplink_gbps: float,
) -> None:
    """Connect the leaves of a group: equal bundles of neighbouring ports to every spine, or dealt where they do not divide."""
    tiers, (pod, start) = fabric.tiers, places
    up, spines = tiers.ups[order], tiers.spines
    leaf, uplink = (axis.ravel() for axis in np.indices((group.leaves, up)))
    if up % spines == 0:
        above, nth = np.divmod(uplink, up // spines)
    else:
        nth, above = uplink // spines, (leaf * up + uplink) % spines
    slot = start[leaf] + nth
    if order > 0:
        slot = end - 1 - slot
    context.wiring.connect(
        Ends(
            device=fabric.leaves[order][leaf],
            slot=uplink,
            direction="up",
            platform=group.platform,
            first_cage=group.first_up_cage,
        ),
        Ends(device=fabric.spines[pod[leaf], above], slot=slot, direction="down", platform=platform),
        network=network,
        tier="leaf_spine",
        speed_gbps=uplink_gbps,
    )


def _end_of_down(groups: tuple[LeafGroup, ...], tiers: Tiers, radix: int) -> int:
    """Return the ports of a spine toward leaves.

    Spines whose number the user insists on may be too few: then the ports go on past the last one, for `check` to report.
    """
    if tiers.spine_down:
        return tiers.spine_down
    return max(radix, _below(groups, tiers) + sum(_ports_of_others(groups, tiers.ups, tiers.spines)))


def _below(groups: tuple[LeafGroup, ...], tiers: Tiers) -> int:
    """Return the ports of a spine that the first group takes, now or when the cluster has grown (two tiers)."""
    return groups[0].reserved * ceil_div(tiers.ups[0], max(1, tiers.spines))


def _free_down(groups: tuple[LeafGroup, ...], tiers: Tiers, end: int) -> tuple[int, int]:
    """Return the first and the end of the down ports of a spine of the first pod that no leaf has."""
    others = _ports_of_others(groups, tiers.ups, tiers.spines)
    if not tiers.pod_leaves:
        return _below(groups, tiers), end - sum(others)
    pod, start = _pack(others, tiers.special_room)
    return 0, end - int((start + np.array(others, dtype=np.int64))[pod == 0].max(initial=0))


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
