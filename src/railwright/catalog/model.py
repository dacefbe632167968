"""What exists: the shape of a catalog entry of each kind.

Entries are data (``catalog/data/*.yaml``), one mapping per key. Every entry says where its fields come from (``sources``:
field → source, ``"*"`` for all others) and which fields nobody has verified (``unverified``); both are carried to the last
report. A value that nobody knows is absent, never 0.
"""

import re
from typing import Annotated, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

Protocol = Literal["ethernet", "infiniband"]
Item = TypeVar("Item")


def _not_empty(value: tuple[Item, ...]) -> tuple[Item, ...]:
    if not value:
        raise ValueError("the list is empty; it needs at least one entry")
    return value


def _breakout(value: str) -> str:
    if not re.fullmatch(r"[1-9]\d*x[1-9]\d*", value):
        raise ValueError(f"{value!r} is not a breakout mode; write COUNTxGBPS, for example 2x400")
    return value


BreakoutMode = Annotated[str, AfterValidator(_breakout)]
Several = Annotated[tuple[Item, ...], AfterValidator(_not_empty)]


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


class Record(BaseModel):
    """What every entry of the catalog has. ``key`` is filled in from the mapping's key."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str = ""
    name: str
    sources: dict[str, str]
    unverified: tuple[str, ...] = ()
    notes: str = ""

    @model_validator(mode="after")
    def _marks_name_fields(self) -> Self:
        fields = set(type(self).model_fields)
        for mark in (*self.unverified, *self.sources):
            if mark != "*" and mark not in fields:
                raise ValueError(f"{mark!r} in sources or unverified is not a field of this entry")
        if "*" not in self.sources:
            raise ValueError("sources needs a '*' for the fields that have no source of their own")
        return self

    def source_of(self, field: str) -> str:
        """Return where ``field`` comes from."""
        return self.sources.get(field, self.sources["*"])


class Entry(Record):
    """A record of something that one can buy."""

    vendor: str


class Gpu(Entry):
    """An accelerator. Dense (not sparse) peak rates; ``scale_up_gbytes_s`` is the sum of both directions, as vendors print it."""

    hbm_gb: PositiveFloat
    memory_tbytes_s: PositiveFloat
    bf16_tflops: PositiveFloat
    fp8_tflops: PositiveFloat | None = None
    fp4_tflops: PositiveFloat | None = None
    power_w: PositiveFloat
    scale_up_gbytes_s: PositiveFloat
    architecture: Literal["ampere", "hopper", "blackwell", "cdna3", "cdna4", "other"]


PCIE_LANE_GBPS = {3: 8 * 128 / 130, 4: 16 * 128 / 130, 5: 32 * 128 / 130, 6: 64 * 242 / 256}
"""Gb/s per lane and direction after line coding: 128b/130b up to generation 5, 242 of the 256 bytes of a flit in generation 6
(PCI Express base specification 3.0 to 6.0)."""


class Nic(Entry):
    """A network adapter. ``port_gbps`` is the rate of one logical port per protocol.

    ``ethernet_ports`` counts the logical ports of Ethernet mode where there are more than ``ports`` (one 800G InfiniBand port
    that turns into two of 400GbE). ``lane_gbps`` lists the lane rates that the ports can run, the fastest first.
    """

    ports: PositiveInt
    ethernet_ports: PositiveInt | None = None
    port_gbps: dict[Protocol, PositiveFloat]
    form_factor: str
    lanes_per_port: PositiveInt
    lane_gbps: tuple[PositiveFloat, ...]
    pcie_generation: PositiveInt
    pcie_lanes: PositiveInt
    out_of_order_receive: bool | None = None
    power_max_w: PositiveFloat | None = None

    def logical_ports(self, protocol: Protocol) -> tuple[int, float]:
        """Return how many ports the adapter shows to ``protocol`` and their rate in Gb/s; (0, 0.0) when it cannot run it."""
        if protocol not in self.port_gbps:
            return 0, 0.0
        count = self.ethernet_ports if protocol == "ethernet" and self.ethernet_ports else self.ports
        return count, self.port_gbps[protocol]

    def host_gbps(self, generation: int | None = None) -> float | None:
        """Return what the adapter's PCIe slot carries, in a host of ``generation`` (None: its own); None when not known."""
        slot = min(self.pcie_generation, generation or self.pcie_generation)
        return PCIE_LANE_GBPS[slot] * self.pcie_lanes if slot in PCIE_LANE_GBPS else None


class NicGroup(BaseModel):
    """Network ports of one purpose on a server: ``count`` adapters with ``ports`` ports of ``gbps`` each.

    ``nic`` is the adapter's key in the catalog. ``ports_per_cage`` 2 means twin-port cages: two ports in one module.
    ``lower_gbps`` are the other rates that the ports run at when the switch is slower. ``shared_with`` names the purpose whose
    adapters these ports sit on, so that the adapters are not counted twice and share one fate.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    nic: str
    count: PositiveInt
    ports: PositiveInt = 1
    gbps: PositiveFloat
    form_factor: str
    ports_per_cage: PositiveInt = 1
    lower_gbps: tuple[PositiveFloat, ...] = ()
    shared_with: Literal["backend", "frontend", "storage"] | None = None


class FactoryRack(BaseModel):
    """A rack that is sold whole: ``servers`` trays, ``ru`` high, ``power_w`` at most with all that it holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    servers: PositiveInt
    ru: PositiveInt
    power_w: PositiveFloat
    weight_kg: PositiveFloat | None = None


class Server(Entry):
    """A GPU server or compute tray.

    ``scale_up_gpus`` is the size of the NVLink (or xGMI) domain: larger than ``gpus`` when a domain spans trays (NVL72).
    ``rack`` is set for trays that come only as part of a factory-built rack; ``power_max_w`` is then the tray's share of it.
    ``psus_needed`` of the ``psus`` carry the full load.
    """

    gpus: PositiveInt
    gpu: str
    scale_up_gpus: PositiveInt
    backend: NicGroup
    frontend: NicGroup
    storage: NicGroup | None = None
    bmc_ports: PositiveInt = 1
    ru: PositiveInt
    power_typical_w: PositiveFloat | None = None
    power_max_w: PositiveFloat
    weight_kg: PositiveFloat | None = None
    rack: FactoryRack | None = None
    psus: PositiveInt | None = None
    psus_needed: PositiveInt | None = None
    cooling: Literal["air", "liquid"] = "air"
    airflow: Literal["front-to-rear", "rear-to-front"] | None = None
    pcie_generation: PositiveInt = 5


class CageGroup(BaseModel):
    """Cages of one kind on a switch, numbered on from the group before (the first cage of the first group is 1).

    ``form_factor`` says the cage's top too (``osfp-ihs``, ``osfp-rhs``). ``breakouts`` lists the modes as ``COUNTxGBPS``
    (``2x400``). A module may draw ``module_limit_w``, or ``high_power_limit_w`` in the cages ``high_power_cages``. Cages whose
    purpose is ``management`` carry no fabric traffic and do not count toward the ASIC's capacity. ``linear`` says whether they
    are qualified for linear (LPO) modules; None means not known.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    count: PositiveInt
    form_factor: str
    lanes: PositiveInt
    lane_gbps: PositiveFloat
    breakouts: Several[BreakoutMode]
    purpose: Literal["fabric", "uplink", "management"] = "fabric"
    module_limit_w: PositiveFloat | None = None
    high_power_limit_w: PositiveFloat | None = None
    high_power_cages: tuple[PositiveInt, ...] = ()
    linear: bool | None = None

    def ports_at(self, gbps: float) -> int:
        """Return how many ports of ``gbps`` one cage gives (0 when no breakout has that rate)."""
        counts = [int(mode.split("x")[0]) for mode in self.breakouts if float(mode.split("x")[1]) == gbps]
        return max(counts, default=0)

    @property
    def gbps(self) -> float:
        """The most that one cage carries, over its breakout modes, in Gb/s."""
        return max(int(count) * float(rate) for count, _, rate in (mode.partition("x") for mode in self.breakouts))


class Features(BaseModel):
    """What a switch can do; ``None`` means not known."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ecn: bool | None = None
    pfc_classes: int | None = None
    adaptive_routing: bool | None = None
    packet_spray: bool | None = None
    flowlet: bool | None = None
    in_network_reduction: bool | None = None
    cut_through: bool | None = None
    qpn_hash: bool | None = None


class Switch(Entry):
    """A switch platform. ``capacity_gbps`` is the ASIC's one-direction throughput; buffers are what the NOS can use.

    ``nos`` lists the operating systems, the usual one first; ``port_name`` has a template for each (see ``port_names.py``).
    """

    asic: str
    part_number: str | None = None
    protocol: Protocol
    capacity_gbps: PositiveFloat
    cages: Several[CageGroup]
    buffer_bytes: PositiveInt | None = None
    latency_ns: PositiveFloat | None = None
    ru: PositiveInt
    power_typical_w: PositiveFloat | None = None
    power_max_w: PositiveFloat | None = None
    psus: PositiveInt | None = None
    psu_w: PositiveFloat | None = None
    weight_kg: PositiveFloat | None = None
    cooling: Literal["air", "liquid"] = "air"
    airflow: Literal["front-to-rear", "rear-to-front", "either"] | None = None
    features: Features = Features()
    nos: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    port_name: dict[str, str] = Field(default_factory=dict)

    def ports_at(self, gbps: float, *, purpose: str = "fabric") -> int:
        """Return the radix: how many ports of ``gbps`` the platform gives on cages of ``purpose``."""
        return sum(group.count * group.ports_at(gbps) for group in self.cages if group.purpose == purpose)
