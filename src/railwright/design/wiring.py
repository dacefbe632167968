"""Turns the decisions of a topology into rows: boxes, ports and links, all at once and never one by one.

A topology says which box connects to which by arrays: device ids and, for each end, the *slot*: the ordinal of the port
among those of its direction. From the slot and the platform follow cage, lanes and the operating system's port name, so
that a box keeps its ports when the network grows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright import tables
from railwright.catalog.model import CageGroup, Switch
from railwright.catalog.port_names import port_names
from railwright.errors import InputError

Ids = NDArray[np.uint32]
Slots = NDArray[np.int64]
Direction = Literal["host", "down", "up", "peer"]


@dataclass(frozen=True)
class Ends:
    """One side of many links: arrays of equal length, all on boxes of one platform.

    ``device`` (uint32): device ids. ``slot`` (int64, from 0): port ordinal among the ports of this direction.
    ``platform``: the switch; None for boxes without a platform in the catalog, whose ports are named ``name`` with
    ``{}`` replaced by ``slot + name_from``. ``first_cage`` (from 1) is where this direction starts among the cages of
    ``purpose``. ``gpu`` and ``nic`` (from 0) belong to server ports.
    """

    device: Ids
    slot: Slots
    direction: Direction
    platform: Switch | None = None
    purpose: Literal["fabric", "uplink", "management"] = "fabric"
    first_cage: int = 1
    name: str = "eth{}"
    name_from: int = 0
    ports_per_cage: int = 1
    gpu: NDArray[np.int64] | None = None
    nic: NDArray[np.int64] | None = None


def cage_group(platform: Switch, gbps: float, purpose: str) -> tuple[CageGroup, int]:
    """Return the cages of ``purpose`` that give ports of ``gbps`` and how many cages stand before them.

    Raises InputError that lists the rates of the platform.
    """
    before = 0
    for group in platform.cages:
        if group.purpose == purpose and group.ports_at(gbps):
            return group, before
        before += group.count
    rates = sorted({float(mode.split("x")[1]) for g in platform.cages if g.purpose == purpose for mode in g.breakouts})
    offered = ", ".join(f"{rate:g}G" for rate in rates) or "none"
    raise InputError(f"{platform.key} has no {purpose} port of {gbps:g}G (it offers {offered})", key=platform.key)


def cages_needed(platform: Switch, gbps: float, ports: int, purpose: str = "fabric") -> int:
    """Return how many cages ``ports`` ports of ``gbps`` fill."""
    group, _ = cage_group(platform, gbps, purpose)
    return -(-ports // group.ports_at(gbps))


class Wiring:
    """Collects devices, ports and links and hands out their ids in order of arrival."""

    def __init__(self) -> None:
        self._devices: list[pl.DataFrame] = []
        self._ports: list[pl.DataFrame] = []
        self._links: list[pl.DataFrame] = []
        self._next_device = 0
        self._next_port = 0
        self._next_link = 0

    def add_devices(
        self,
        names: Sequence[str] | pl.Series,
        *,
        role: str,
        network: str | None,
        site: str | pl.Series,
        model: str,
        plane: NDArray[np.int64] | int | None = None,
        rail: NDArray[np.int64] | int | None = None,
        pod: NDArray[np.int64] | int | None = None,
        rack: NDArray[np.uint32] | None = None,
        power_w: float | None = None,
    ) -> Ids:
        """Append one box per name and return their ids.

        ``plane``, ``rail`` and ``pod`` count from 1. ``rack`` (rack ids) is for boxes that must stand in a given rack;
        the placement finds one for all others.
        """
        count = len(names)
        ids = np.arange(self._next_device, self._next_device + count, dtype=np.uint32)
        self._next_device += count
        frame = pl.DataFrame({"device_id": ids, "name": pl.Series(names, dtype=pl.String)}).with_columns(
            pl.lit(role).alias("role"),
            pl.lit(network, dtype=pl.String).alias("network"),
            site.alias("site") if isinstance(site, pl.Series) else pl.lit(site).alias("site"),
            pl.lit(model).alias("model"),
            _column(plane, "plane"),
            _column(rail, "rail"),
            _column(pod, "pod"),
            _column(rack, "rack"),
            pl.lit(power_w, dtype=pl.Float64).alias("power_w"),
        )
        self._devices.append(tables.conform("devices", frame))
        return ids

    def connect(
        self,
        a: Ends,
        b: Ends,
        *,
        network: str,
        tier: str,
        speed_gbps: float,
        plane: NDArray[np.int64] | int | None = None,
        rail: NDArray[np.int64] | int | None = None,
    ) -> Ids:
        """Append one link per pair of ends (``a`` is the lower one) with its two ports; return the link ids."""
        count = len(a.device)
        links = np.arange(self._next_link, self._next_link + count, dtype=np.uint32)
        a_port = np.arange(self._next_port, self._next_port + count, dtype=np.uint32)
        b_port = a_port + np.uint32(count)
        self._next_link += count
        self._next_port += 2 * count
        self._ports.append(_port_rows(a, a_port, network, speed_gbps))
        self._ports.append(_port_rows(b, b_port, network, speed_gbps))
        frame = pl.DataFrame({"link_id": links, "a_port": a_port, "b_port": b_port}).with_columns(
            pl.lit(network).alias("network"),
            pl.lit(tier).alias("tier"),
            _column(plane, "plane"),
            _column(rail, "rail"),
            pl.lit(float(speed_gbps)).alias("speed_gbps"),
        )
        self._links.append(tables.conform("links", frame))
        return links

    def finish(self) -> dict[str, pl.DataFrame]:
        """Return the tables ``devices``, ``ports`` and ``links``."""
        return {
            "devices": _stack("devices", self._devices),
            "ports": _stack("ports", self._ports),
            "links": _stack("links", self._links),
        }


@dataclass
class Decisions:
    """What the design chose, and why: kept in the plan, shown in the report."""

    facts: dict[str, object] = field(default_factory=dict)
    reasons: list[dict[str, str]] = field(default_factory=list)

    def choose(self, what: str, value: object, why: str) -> None:
        """Record a fact of the design together with its reason."""
        self.facts[what] = value
        self.reasons.append({"what": what, "value": _in_words(value), "why": why})


def _in_words(value: object) -> str:
    """Return a value as people write it: ``yes``, ``400``, ``1, 1``."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_in_words, value))
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _column(value: NDArray[np.int64] | NDArray[np.uint32] | int | None, name: str) -> pl.Series | pl.Expr:
    if isinstance(value, np.ndarray):
        return pl.Series(name, value)
    return pl.lit(value, dtype=pl.Int64).alias(name)


def _port_rows(ends: Ends, ids: Ids, network: str, speed_gbps: float) -> pl.DataFrame:
    if ends.platform is None:
        per_cage = ends.ports_per_cage
        cage = ends.first_cage + ends.slot // per_cage
        lane_first = np.zeros_like(ends.slot)
        lanes = None
        names = pl.select(pl.format(ends.name, pl.Series("slot", ends.slot + ends.name_from))).to_series()
    else:
        group, before = cage_group(ends.platform, speed_gbps, ends.purpose)
        per_cage = group.ports_at(speed_gbps)
        lanes = group.lanes // per_cage
        in_group = ends.first_cage + ends.slot // per_cage
        platform, beyond = _with_room(ends.platform, group, int(in_group.max(initial=0)))
        cage = before + in_group + np.where(in_group > group.count, beyond, 0)
        lane_first = (ends.slot % per_cage) * lanes
        names = port_names(platform, cage, lane_first, lanes, per_cage)
    frame = pl.DataFrame(
        {
            "port_id": ids,
            "device_id": ends.device,
            "name": names,
            "cage": cage,
            "lane_first": lane_first,
        }
    ).with_columns(
        pl.lit(network).alias("network"),
        pl.lit(lanes, dtype=pl.Int64).alias("lanes"),
        pl.lit(float(speed_gbps)).alias("speed_gbps"),
        pl.lit(ends.direction).alias("direction"),
        _column(ends.gpu, "gpu"),
        _column(ends.nic, "nic"),
    )
    return tables.conform("ports", frame)


def _with_room(platform: Switch, group: CageGroup, cages: int) -> tuple[Switch, int]:
    """Return ``platform`` with cages enough behind its last one, and how far behind the group the surplus starts.

    Counts that the user insists on may ask for more ports than there are; the plan shows them on cages that do not exist,
    and the radix rule reports these.
    """
    total = sum(other.count for other in platform.cages)
    before = sum(other.count for other in platform.cages[: platform.cages.index(group)])
    surplus = cages - group.count
    if surplus <= 0:
        return platform, 0
    extra = group.model_copy(update={"count": surplus})
    return platform.model_copy(update={"cages": (*platform.cages, extra)}), total - before - group.count


def _stack(name: str, frames: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames, rechunk=True) if frames else tables.empty(name)
