"""What changes between two sets of configurations, and in which order to roll it out without losing paths.

Facts are compared, not lines: the two sides may have another order or other profile names. Of a switch that gets another
operating system (fact ``system``) only what both can say is compared, and no port, because ports have other names. A
device that changes how it forwards is drained first; no two switches are touched in one step, and switches further from
the servers come later. Servers change in groups: those behind the same switches together, so that jobs elsewhere go on.
The way back undoes the last step first: what was added is drained before it goes, what was removed comes back without.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from railwright.build.contract import Reading, project, statements
from railwright.build.hosts import HostReading, host_statements
from railwright.build.readings import Readings

_DRAINED = (
    *("port", "bgp", "policy", "aggregate", "leak", "balancing", "loopbacks"),
    *("dscp", "priority", "queue", "watchdog", "nic", "system"),
)
_PEER = "/peer"
_SYSTEM = "system"


@dataclass(frozen=True)
class Change:
    """One fact of one device: ``before`` or ``after`` is None where only the other side has it."""

    device: str
    key: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Step:
    """Devices that may change at the same time; ``drain`` says that traffic or jobs are led around them first.

    ``layer`` is ``new``, ``server``, ``switch1`` (beside servers), ``switch2`` (one further), … or ``removed``.
    """

    devices: tuple[str, ...]
    layer: str
    drain: bool


@dataclass(frozen=True)
class Difference:
    """What :func:`difference` found."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changes: tuple[Change, ...]
    rollout: tuple[Step, ...]

    @property
    def moved(self) -> tuple[Change, ...]:
        """The ports that are to be connected to another peer."""
        return tuple(c for c in self.changes if c.key.endswith(_PEER) and c.before and c.after)

    @property
    def rollback(self) -> tuple[Step, ...]:
        """The steps of the way back, in order."""
        turned = {"new": ("removed", True), "removed": ("new", False)}
        back = []
        for step in self.rollout[::-1]:
            layer, drain = turned.get(step.layer, (step.layer, step.drain))
            back.append(replace(step, layer=layer, drain=drain))
        return tuple(back)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data: ``added, moved, removed, changed, rollout, rollback``."""
        return {
            "added": list(self.added),
            "moved": [asdict(change) for change in self.moved],
            "removed": list(self.removed),
            "changed": [asdict(change) for change in self.changes],
            "rollout": [asdict(step) for step in self.rollout],
            "rollback": [asdict(step) for step in self.rollback],
        }


def difference(before: Readings, after: Readings) -> Difference:
    """Return what differs and how to roll it out.

    New devices come up first (nothing depends on them), then changed ones from the servers upwards, at last removed ones go.
    """
    old, new = _facts(before), _facts(after)
    changes = [
        change for device in sorted(old.keys() & new.keys()) for change in _changes(device, old[device], new[device])
    ]
    added, removed = sorted(new.keys() - old.keys()), sorted(old.keys() - new.keys())
    touched = {change.device for change in changes}
    drained = {change.device for change in changes if change.key.split("/")[0] in _DRAINED}
    steps = [Step(tuple(added), "new", False)] if added else []
    steps += _steps(touched, drained, after)
    steps += [Step((device,), "removed", True) for device in removed]
    return Difference(tuple(added), tuple(removed), tuple(changes), tuple(steps))


def _changes(device: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Change]:
    keys = old.keys() | new.keys()
    if old.get(_SYSTEM) != new.get(_SYSTEM):
        keys = {key for key in old.keys() & new.keys() if not key.startswith("port/")}
    for key in sorted(keys):
        if old.get(key) != new.get(key):
            yield Change(device, key, old.get(key), new.get(key))


def _facts(readings: Readings) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for reading in readings.all():
        found[reading.view.name] = _of(reading)
    return found


def _of(reading: Reading | HostReading) -> dict[str, str]:
    if isinstance(reading, HostReading):
        return dict(host_statements(reading.view))
    return {_SYSTEM: reading.view.nos, **dict(statements(project(reading.view)))}


def _steps(touched: set[str], drained: Collection[str], readings: Readings) -> list[Step]:
    """Return the steps of changed devices: groups of servers first, then switches one by one, away from the servers."""
    beside = _neighbours(readings)
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    servers = {reading.view.name for reading in readings.servers}
    for name in sorted(touched & servers):
        groups[tuple(sorted(beside[name]))].append(name)
    steps = [Step(tuple(own), "server", bool(set(own) & set(drained))) for own in groups.values()]
    hops = _hops(beside, servers)
    far = max(hops.values(), default=0) + 1
    switches = sorted((hops.get(name, far), name) for name in touched - servers)
    return steps + [Step((name,), f"switch{hop}", name in drained) for hop, name in switches]


def _neighbours(readings: Readings) -> dict[str, set[str]]:
    """Return who is next to whom, in both directions; names that no configuration belongs to are left out."""
    known = {reading.view.name for reading in readings.all()}
    beside: dict[str, set[str]] = defaultdict(set)
    for reading in readings.all():
        for port in reading.view.ports:
            peer = port.peer.partition(":")[0]
            if peer in known:
                beside[reading.view.name].add(peer)
                beside[peer].add(reading.view.name)
    return beside


def _hops(beside: Mapping[str, set[str]], servers: Collection[str]) -> dict[str, int]:
    """Return how many links each device is away from the nearest server."""
    hops = dict.fromkeys(sorted(servers), 0)
    front = list(hops)
    while front:
        met = {peer for name in front for peer in beside.get(name, ()) if peer not in hops}
        hops |= dict.fromkeys(sorted(met), hops[front[0]] + 1)
        front = sorted(met)
    return hops
