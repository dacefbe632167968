"""The one QoS contract: which traffic is which class, and what every hop must do with it.

The packet engine simulates this contract, ``build`` renders it for every operating system and ``check`` compares it with
what switches and hosts say. A contract comes from a profile (``backend.congestion``) or a vendor's convention, both data in
``catalog/data/qos_profiles.yaml``. ``qos_table`` spreads it over the ports of a plan (see ``design/qos_table.py``).

ECN thresholds of kind ``rate-rtt`` are ours: Kmin = port rate x base round trip, Kmax = 4 x Kmin (the ratio of HPCC's and
DCQCN's published settings), Pmax as in SONiC's default. No vendor publishes a formula; their absolute defaults are in
``threshold_defaults``.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from railwright.catalog.qos import profile_file
from railwright.errors import InputError, nearest
from railwright.spec.cluster import NetworkName

Profile = Literal["dcqcn+pfc", "ecn-only", "pfc-only", "lossy+spray", "credits"]
Purpose = Literal["roce", "cnp", "storage", "best-effort", "control"]
Dscp = Annotated[int, Field(ge=0, le=63)]
Priority = Annotated[int, Field(ge=0, le=7)]

DEFAULT_RTT_US = 8.0
"""Base round trip across two tiers used where a plan does not give one: 3 switches, 2 adapters, 100 m of fibre."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Ecn(_Model):
    """When a queue marks: never below ``kmin``, with rising probability up to ``pmax`` at ``kmax``, always above.

    ``kmin`` and ``kmax`` are multiples of rate x round trip (``rate-rtt``), bytes, or shares of the queue (``fill``).
    """

    kind: Literal["rate-rtt", "bytes", "fill"]
    kmin: Annotated[float, Field(gt=0)]
    kmax: Annotated[float, Field(gt=0)]
    pmax: Annotated[float, Field(gt=0, le=1)]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.kmax < self.kmin:
            raise ValueError(f"kmax {self.kmax:g} is below kmin {self.kmin:g}: marking could never rise to pmax")
        if self.kind == "fill" and self.kmax > 1:
            raise ValueError(f"a fill share of {self.kmax:g} can never be reached")
        return self

    def threshold_bytes(self, gbps: float, rtt_us: float) -> tuple[int, int] | None:
        """Return (Kmin, Kmax) in whole bytes for a port of ``gbps``; None for shares of a queue whose size is unknown."""
        if self.kind == "fill":
            return None
        unit = gbps * rtt_us * 1e3 / 8 if self.kind == "rate-rtt" else 1.0
        return round(self.kmin * unit), round(self.kmax * unit)


class TrafficClass(_Model):
    """One class. ``networks`` is where its loss and marking rules hold (empty: everywhere); elsewhere it is a plain queue.

    ``priority`` is the switch's internal priority, the PFC priority and the priority group; on InfiniBand the service
    level. ``queue`` is the egress queue; on InfiniBand the virtual lane. ``weight`` is the share in percent of a ``dwrr``
    queue.
    """

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
    purpose: Purpose
    dscp: tuple[Dscp, ...]
    priority: Priority
    queue: Priority
    lossless: bool = False
    networks: tuple[NetworkName, ...] = ()
    ecn: Ecn | None = None
    scheduler: Literal["strict", "dwrr"]
    weight: Annotated[int, Field(ge=1, le=100)] | None = None

    @model_validator(mode="after")
    def _weighted(self) -> Self:
        if (self.weight is None) == (self.scheduler == "dwrr"):
            raise ValueError("a dwrr class needs a weight, a strict one has none")
        return self

    def holds_on(self, network: str) -> bool:
        """Say whether the class is lossless and marked on ``network``."""
        return not self.networks or network in self.networks

    @property
    def traffic_class_byte(self) -> int:
        """The IP traffic class that a sender sets: the first DSCP and ECT(0), 106 for DSCP 26; 0 without a DSCP."""
        return (self.dscp[0] << 2 | 2) if self.dscp else 0


class Watchdog(_Model):
    """PFC watchdog: a queue paused for ``detection_ms`` is drained by ``action`` until ``restoration_ms`` without pause."""

    detection_ms: Annotated[int, Field(ge=100, le=5000)] = 200
    restoration_ms: Annotated[int, Field(ge=100, le=60000)] = 2000
    action: Literal["drop", "forward", "alert"] = "drop"


class QosContract(_Model):
    """What every hop must agree on. DSCPs that no class names belong to the one best-effort class without DSCPs."""

    profile: Profile
    transport: Literal["rocev2", "infiniband"]
    convention: str | None = None
    classes: Annotated[tuple[TrafficClass, ...], Field(min_length=1)]
    dcqcn: bool
    switch_mtu_bytes: Annotated[int, Field(ge=1500, le=9416)] = 9216
    host_mtu_bytes: Annotated[int, Field(ge=1500, le=9216)] = 9000
    rtt_us: Annotated[float, Field(gt=0)] = DEFAULT_RTT_US
    watchdog: Watchdog | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for what in ("name", "priority", "queue"):
            values = [getattr(c, what) for c in self.classes]
            twice = next((v for v in values if values.count(v) > 1), None)
            if twice is not None:
                raise ValueError(f"two classes have the same {what} {twice!r}")
        named = [d for c in self.classes for d in c.dscp]
        twice = next((d for d in named if named.count(d) > 1), None)
        if twice is not None:
            raise ValueError(f"DSCP {twice} belongs to two classes")
        if sum(1 for c in self.classes if c.purpose == "best-effort" and not c.dscp) != 1:
            raise ValueError("one class of purpose best-effort without DSCPs takes all other traffic")
        weights = sum(c.weight or 0 for c in self.classes)
        if weights > 100:
            raise ValueError(f"the weights of the dwrr classes add up to {weights} percent")
        if self.host_mtu_bytes > self.switch_mtu_bytes:
            raise ValueError(f"hosts send {self.host_mtu_bytes} bytes, switches take {self.switch_mtu_bytes}")
        return self

    def by_name(self, name: str) -> TrafficClass:
        """Return the class called ``name``; KeyError when there is none."""
        return {c.name: c for c in self.classes}[name]

    def of_purpose(self, purpose: Purpose) -> tuple[TrafficClass, ...]:
        """Return the classes of a purpose, in order."""
        return tuple(c for c in self.classes if c.purpose == purpose)

    @property
    def default_class(self) -> TrafficClass:
        """The class of all DSCPs that no other class names."""
        return next(c for c in self.classes if c.purpose == "best-effort" and not c.dscp)

    def class_of(self, dscp: int) -> TrafficClass:
        """Return the class that carries ``dscp``."""
        return next((c for c in self.classes if dscp in c.dscp), self.default_class)

    def dscp_to_priority(self) -> dict[int, int]:
        """Return the priority of each of the 64 DSCPs."""
        return {dscp: self.class_of(dscp).priority for dscp in range(64)}

    def pfc_priorities(self, network: str) -> tuple[int, ...]:
        """Return the priorities that PFC protects on ``network``."""
        return tuple(sorted(c.priority for c in self.classes if c.lossless and c.holds_on(network)))


def profile_contract(profile: str, **changes: Any) -> QosContract:
    """Return the contract of a profile; ``changes`` are fields of :class:`QosContract` to replace."""
    return _contract(_profile(profile), profile, None, changes)


def convention_contract(convention: str, profile: str = "dcqcn+pfc", **changes: Any) -> QosContract:
    """Return the contract of ``profile`` with the DSCPs, priorities and thresholds of a vendor's convention."""
    known = profile_file()["conventions"]
    if convention not in known:
        raise InputError(
            f"no convention {convention!r}{nearest(convention, known)}; known: {', '.join(known)}", key="convention"
        )
    return _contract(_merged(_profile(profile), known[convention]), profile, convention, changes)


def conventions() -> dict[str, str]:
    """Return the known conventions: key → title."""
    return {key: str(entry["title"]) for key, entry in profile_file()["conventions"].items()}


def threshold_defaults(gbps: float, rtt_us: float = DEFAULT_RTT_US) -> pl.DataFrame:
    """Return our ECN thresholds for a port of ``gbps`` beside the vendors' absolute defaults.

    Columns: ``convention, kmin_bytes, kmax_bytes, pmax, source``; the first row (``railwright``) is derived, by us.
    """
    ours = profile_contract("dcqcn+pfc").by_name("roce").ecn
    rows: list[dict[str, object]] = []
    if ours is not None:
        kmin, kmax = ours.threshold_bytes(gbps, rtt_us) or (None, None)
        source = f"ours: {ours.kmin:g} and {ours.kmax:g} times {gbps:g} Gb/s x {rtt_us:g} us"
        rows.append(
            {"convention": "railwright", "kmin_bytes": kmin, "kmax_bytes": kmax, "pmax": ours.pmax, "source": source}
        )
    for key, entry in profile_file()["conventions"].items():
        ecn = convention_contract(key).by_name("roce").ecn
        if ecn is not None and ecn.kind == "bytes":
            rows.append(
                {
                    "convention": key,
                    "kmin_bytes": int(ecn.kmin),
                    "kmax_bytes": int(ecn.kmax),
                    "pmax": ecn.pmax,
                    "source": str(entry["source"]),
                }
            )
    return pl.DataFrame(rows)


def _profile(profile: str) -> Mapping[str, Any]:
    known = profile_file()["profiles"]
    if profile not in known:
        raise InputError(
            f"no QoS profile {profile!r}{nearest(profile, known)}; known: {', '.join(known)}", key="backend.congestion"
        )
    entry = known[profile]
    base = entry.get("base")
    return _merged(_profile(str(base)), entry) if base else entry


def _merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with the keys of ``change``; classes are changed field by field and new ones added."""
    classes = {name: dict(fields) for name, fields in base["classes"].items()}
    for name, fields in change.get("classes", {}).items():
        classes[name] = {**classes.get(name, {}), **fields}
    return {**base, **change, "classes": classes}


def _contract(
    entry: Mapping[str, Any], profile: str, convention: str | None, changes: Mapping[str, Any]
) -> QosContract:
    classes = [{"name": name, **fields} for name, fields in entry["classes"].items()]
    lossless = any(c.get("lossless") for c in classes) and entry["transport"] == "rocev2"
    fields: dict[str, Any] = {
        "profile": profile,
        "convention": convention,
        "transport": entry["transport"],
        "dcqcn": entry["dcqcn"],
        "classes": classes,
        "watchdog": Watchdog() if lossless else None,
        **changes,
    }
    try:
        return QosContract.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(first["msg"].removeprefix("Value error, "), key=".".join(map(str, first["loc"]))) from None
