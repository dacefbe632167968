"""What changes between two sets of configurations, and in which order to roll it out without losing paths.

Facts are compared, not lines: the two sides may have another order, other profile names, even another operating system. A
device that changes is drained first; no two devices that stand in for each other are touched in one step, and what forwards
most is touched last among its peers. The way back is the same order, reversed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from railwright.build.contract import Reading, project, statements
from railwright.build.hosts import HostReading, host_statements
from railwright.build.readings import Readings

_DRAINED = ("port", "bgp", "dscp", "priority", "queue", "watchdog", "loopbacks", "balancing")
_LAYER = {"server": 0, "leaf": 1, "border": 2, "spine": 3, "core": 4}


@dataclass(frozen=True)
class Change:
    """One fact of one device: ``before`` or ``after`` is None where only the other side has it."""

    device: str
    key: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Step:
    """Devices that may change at the same time; ``drain`` says that traffic is led around them first."""

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

    def as_dict(self) -> dict[str, Any]:
        """Return plain data: ``added, removed, changed, rollout, rollback``."""
        steps = [asdict(step) for step in self.rollout]
        return {
            "added": list(self.added),
            "removed": list(self.removed),
            "changed": [asdict(change) for change in self.changes],
            "rollout": steps,
            "rollback": steps[::-1],
        }


def difference(before: Readings, after: Readings, roles: Mapping[str, str] | None = None) -> Difference:
    """Return what differs and how to roll it out; ``roles`` is the role per device (leaf, spine …), guessed from peers if absent.

    New devices come up first (nothing depends on them), then changed ones from the servers upwards with one device of a layer
    at a time, at last removed ones go.
    """
    old, new = _facts(before), _facts(after)
    changes = [
        Change(device, key, old[device].get(key), new[device].get(key))
        for device in sorted(old.keys() & new.keys())
        for key in sorted(old[device].keys() | new[device].keys())
        if old[device].get(key) != new[device].get(key)
    ]
    added, removed = sorted(new.keys() - old.keys()), sorted(old.keys() - new.keys())
    known = dict(roles or {}) or _roles(after)
    touched = list(dict.fromkeys(change.device for change in changes))
    steps = [Step(tuple(added), "new", False)] if added else []
    steps += _steps(touched, known, {c.device for c in changes if c.key.split("/")[0] in _DRAINED})
    steps += [Step((device,), "removed", True) for device in removed]
    return Difference(tuple(added), tuple(removed), tuple(changes), tuple(steps))


def _facts(readings: Readings) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for reading in readings.all():
        found[reading.view.name] = _of(reading)
    return found


def _of(reading: Reading | HostReading) -> dict[str, str]:
    if isinstance(reading, HostReading):
        return dict(host_statements(reading.view))
    return dict(statements(project(reading.view)))


def _roles(readings: Readings) -> dict[str, str]:
    """Return a layer per device from who is next to whom: servers, switches beside servers, and those above."""
    servers = {reading.view.name for reading in readings.servers}
    beside = {
        reading.view.name: {p.peer.partition(":")[0] for p in reading.view.ports} for reading in readings.switches
    }
    roles = dict.fromkeys(servers, "server")
    for name, peers in beside.items():
        roles[name] = "leaf" if peers & servers else "spine"
    return roles


def _steps(devices: Iterable[str], roles: Mapping[str, str], drained: set[str]) -> list[Step]:
    """Servers of a step change together; switches one by one, from the edge upwards."""
    ordered = sorted(devices, key=lambda d: (_LAYER.get(roles.get(d, "leaf"), 1), d))
    servers = [d for d in ordered if roles.get(d) == "server"]
    steps = [Step(tuple(servers), "server", bool(drained & set(servers)))] if servers else []
    return steps + [Step((d,), roles.get(d, "leaf"), d in drained) for d in ordered if roles.get(d) != "server"]
