"""Which servers a job should get: whole servers, as few leaves and pods as the free ones allow, and what each choice costs.

Policies
- ``packed``: the lowest group that holds the job (NVLink domain, scalable unit, pod), the tightest one of those; when none
  does, the largest groups whole and the tightest fit for the rest. Fewest groups first, least fragmentation second.
- ``rail-aware``: the same number of servers from every unit used, so that every leaf of a rail carries the same part of the
  job; as few units as that allows, else packed.
- ``spread``: one server of each unit in turn: what a scheduler does that balances load and knows no network.
- ``random``: drawn with the seed.

Ranks follow the order of the servers, as Slurm sorts a node list. What crosses: of the rings of one rail the edges between
units; of an even all-to-all the share of the bytes between servers of different units.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.design.plan import Plan
from railwright.errors import InputError, RailwrightError, nearest
from railwright.simulate.groups import server_groups
from railwright.simulate.jobs.nodelist import compress

POLICIES = ("packed", "rail-aware", "spread", "random")
_LEVELS = ("pod", "unit", "domain")
_Ids = NDArray[np.int64]


class NoRoomError(RailwrightError):
    """There are not enough free servers."""


@dataclass(frozen=True)
class Placed:
    """Servers for a job, in rank order.

    ``servers`` are row numbers of the groups table (indices of the plan's servers), ``units`` and ``pods`` how many are
    touched, ``ring_crossings`` how many edges of a ring over the servers join two units, ``pair_crossing`` the share of
    all-to-all bytes between servers that does, ``why`` sentences.
    """

    policy: str
    servers: tuple[int, ...]
    names: tuple[str, ...]
    units: int
    pods: int
    domains: int
    ring_crossings: int
    pair_crossing: float
    why: tuple[str, ...]

    @property
    def nodelist(self) -> str:
        """The servers as Slurm writes them."""
        return compress(self.names)


def place(
    groups: pl.DataFrame, servers: int, *, policy: str = "packed", busy: Collection[str] = (), seed: int = 0
) -> Placed:
    """Return ``servers`` of the rows of ``groups`` (columns name, domain, unit, pod; see `groups`) that are not ``busy``.

    Raises InputError for an unknown policy or a busy name that does not exist, NoRoomError when too few are free.
    """
    if policy not in POLICIES:
        raise InputError(
            f"policy {policy!r} is unknown{nearest(policy, POLICIES)}; choose one of {', '.join(POLICIES)}",
            key="policy",
        )
    if servers < 1:
        raise InputError(f"{servers} is not a number of servers; at least 1 is needed", key="servers")
    free = _free(groups, busy)
    if free.size < servers:
        raise NoRoomError(f"{servers} servers are needed; {free.size} of {groups.height} are free")
    levels = [groups[name].to_numpy().astype(np.int64) for name in _LEVELS]
    equal: _Ids | None = None
    if policy == "rail-aware":
        equal = _equal_units(free, levels, servers)
    if equal is not None:
        chosen = equal
    elif policy == "random":
        chosen = np.random.default_rng(seed).permutation(free)[:servers]
        chosen = np.sort(chosen)
    elif policy == "spread":
        chosen = np.sort(_in_turn(free, levels[1])[:servers])
    else:
        chosen = _in_order(_pack(free, levels, servers), levels)
    return _placed(groups, free, chosen, levels, policy, fell_back=policy == "rail-aware" and equal is None)


def groups_of(plan: Plan, topology: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return the groups of ``plan``'s servers, with units and pods from ``topology`` (`jobs.files.read_topology`) if given.

    Raises InputError when the topology names a node that the plan does not have or leaves one out.
    """
    groups = server_groups(plan)
    if topology is None:
        return groups
    unknown = topology.filter(~pl.col("name").is_in(groups["name"].implode()))
    if unknown.height:
        name = unknown["name"][0]
        raise InputError(f"{name!r} is not a server of the plan{nearest(name, groups['name'])}", key="topology")
    joined = groups.drop("unit", "pod", "leaves").join(topology, on="name", how="left", maintain_order="left")
    missing = joined.filter(pl.col("unit").is_null())
    if missing.height:
        raise InputError(f"server {missing['name'][0]!r} of the plan is under no switch", key="topology")
    return joined.select("server", "name", "domain", "unit", "pod", "leaves")


def check_names(groups: pl.DataFrame, names: Sequence[str], key: str) -> None:
    """Raise InputError for a name that is not one of ``groups``."""
    known = set(groups["name"])
    for name in names:
        if name not in known:
            raise InputError(f"{name!r} is not a server of the plan{nearest(name, known)}", key=key)


def _free(groups: pl.DataFrame, busy: Collection[str]) -> _Ids:
    check_names(groups, list(busy), "busy")
    return np.flatnonzero(~groups["name"].is_in(list(busy)).to_numpy())


def _in_order(servers: _Ids, levels: Sequence[_Ids]) -> _Ids:
    return servers[np.lexsort([servers, *(level[servers] for level in reversed(levels))])]


def _in_turn(servers: _Ids, unit: _Ids) -> _Ids:
    """Return the servers, the first of each unit before the second of any."""
    order = servers[np.lexsort([servers, unit[servers]])]
    counts = np.unique(unit[order], return_counts=True)[1]
    turn = np.concatenate([np.arange(count) for count in counts])
    return order[np.lexsort([unit[order], turn])]


def _pack(servers: _Ids, levels: Sequence[_Ids], count: int) -> _Ids:
    """Return ``count`` of ``servers`` from as few groups as can be, coarsest level first."""
    if not levels or count == servers.size:
        return servers[:count]
    keys = levels[0][servers]
    numbers, sizes = np.unique(keys, return_counts=True)
    if sizes.max() == 1:
        return _pack(servers, levels[1:], count)
    fitting = numbers[sizes >= count]
    if fitting.size:
        options = [_pack(servers[keys == number], levels[1:], count) for number in fitting]
        costs = [
            (*(np.unique(level[option]).size for level in levels[1:]), int(sizes[numbers == number][0]), int(number))
            for option, number in zip(options, fitting, strict=True)
        ]
        return options[min(range(len(costs)), key=costs.__getitem__)]
    largest = numbers[int(np.argmax(sizes))]
    whole, rest = servers[keys == largest], servers[keys != largest]
    return np.concatenate([whole, _pack(rest, levels, count - whole.size)])


def _equal_units(servers: _Ids, levels: Sequence[_Ids], count: int) -> _Ids | None:
    """Return ``count`` servers in equal parts from as few units as can be, in as few pods as can be; None if none fit."""
    pod, unit = levels[0][servers], levels[1][servers]
    numbers, first, sizes = np.unique(unit, return_index=True, return_counts=True)
    home = pod[first]
    for units in range(1, min(count, numbers.size) + 1):
        each, rest = divmod(count, units)
        able = np.flatnonzero(sizes >= each)
        if rest or able.size < units:
            continue
        roomy = np.array([np.count_nonzero(home[able] == where) for where in home[able]])
        order = able[np.lexsort([numbers[able], sizes[able], home[able], -np.minimum(roomy, units)])]
        chosen = [_pack(servers[unit == numbers[place]], levels[2:], each) for place in order[:units]]
        return _in_order(np.concatenate(chosen), levels)
    return None


def _placed(
    groups: pl.DataFrame, free: _Ids, chosen: _Ids, levels: Sequence[_Ids], policy: str, *, fell_back: bool
) -> Placed:
    pods, units, domains = (level[chosen] for level in levels)
    parts = np.unique(units, return_counts=True)[1]
    pairs = chosen.size * (chosen.size - 1)
    crossing = 1 - float((parts * (parts - 1)).sum()) / pairs if pairs else 0.0
    ring = int(np.count_nonzero(units != np.roll(units, -1))) if chosen.size > 1 else 0
    return Placed(
        policy=policy,
        servers=tuple(int(server) for server in chosen),
        names=tuple(groups["name"].gather(chosen)),
        units=parts.size,
        pods=int(np.unique(pods).size),
        domains=int(np.unique(domains).size),
        ring_crossings=ring,
        pair_crossing=crossing,
        why=tuple(_why(groups, free, chosen, policy, fell_back=fell_back)),
    )


def _why(groups: pl.DataFrame, free: _Ids, chosen: _Ids, policy: str, *, fell_back: bool) -> list[str]:
    unit, pod = groups["unit"].to_numpy(), groups["pod"].to_numpy()
    used, parts = np.unique(unit[chosen], return_counts=True)
    numbers, sizes = np.unique(unit[free], return_counts=True)
    open_in = dict(zip(numbers.tolist(), sizes.tolist(), strict=True))
    told = [f"{free.size} of {groups.height} servers are free"]
    if fell_back:
        told.append("no number of units gives equal parts: packed instead")
    listed = ", ".join(
        f"{part} of {open_in[number]} free in unit {number}"
        for number, part in list(zip(used.tolist(), parts.tolist(), strict=True))[:8]
    )
    told.append(listed + (f" and {used.size - 8} units more" if used.size > 8 else ""))
    if used.size == 1:
        others = sizes[(sizes >= chosen.size) & (numbers != used[0])]
        told.append("one unit holds the job: nothing on a rail climbs above its leaves")
        if policy in ("packed", "rail-aware") and others.size:
            told.append(f"the tightest fit: {others.size} other units hold it too and stay whole for larger jobs")
    elif policy in ("packed", "rail-aware") and int(sizes.max()) < chosen.size:
        told.append(f"no unit has {chosen.size} free servers (at most {sizes.max()})")
    if np.unique(pod).size > 1:
        pods = np.unique(pod[chosen]).size
        told.append(f"{pods} of {np.unique(pod).size} pods")
    return told
