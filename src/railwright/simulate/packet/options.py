"""What the packet engine is told beyond network and traffic: transport, queues, thresholds, congestion control, paths.

Every value has its unit in its name and a default with a source; unknown keys and impossible values are errors. A traffic
class (`QosClass`) is a queue with its thresholds and the behaviour of the flows that use it. Three presets are functions:
`rocev2`, `infiniband` and `reference` (the ns-3 RDMA lineage, to the nanosecond).
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from railwright.errors import InputError, InputErrors, nearest

PATHS = {
    "ecmp": 0,
    "polarised": 1,
    "rail": 2,
    "spray": 3,
    "spray-round-robin": 4,
    "adaptive": 5,
    "flowlet": 6,
    "multipath": 7,
}
"""Path modes and their numbers in the native engine. ``spray``: each packet by chance; ``adaptive``: to the shortest queue
(DLB, InfiniBand adaptive routing); ``flowlet``: a new path after a gap; ``multipath``: the sender rotates over paths."""

REORDERING = ("spray", "spray-round-robin", "adaptive", "multipath")
"""Path modes in which packets of a flow overtake each other, so that a gap is no sign of a loss."""

LEAST_GBPS = 1e-3
MOST_US = 1e12
MOST_BYTES = 1e15
"""Beyond these a rate, a time in picoseconds or a sum of bytes does not fit the engine's integers."""

CONGESTION_CONTROLS = ("none", "dcqcn", "hpcc", "dctcp", "cubic", "ibcc")


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class QosClass(_Model):
    """A queue of every port, and what the flows in it do.

    Thresholds: a lossless queue pauses its sender when its bytes beyond the reserve reach ``alpha`` times the free pool
    (or ``xoff_bytes``, when given); it resumes ``xon_offset_bytes`` below. Marking is linear from ``kmin_bytes`` to
    ``kmax_bytes`` (0: none); the default is SONiC's (1 MB, 2 MB, 5 %). ``rto_us`` 0 means no retransmission timeout;
    the default is the usual InfiniBand exponent 14 (4.096 us x 2^14). ``reorder_packets`` -1: a gap is never taken for a
    loss, only the timeout is (needed when packets are sprayed).
    """

    name: str
    lossless: bool = True
    strict: bool = False
    weight: int = Field(1, ge=1, le=255)
    alpha: float = Field(0.125, gt=0, le=64)
    xoff_bytes: float = Field(0.0, ge=0, le=MOST_BYTES)
    xon_offset_bytes: float = Field(3072.0, ge=0, le=MOST_BYTES)
    reserve_bytes: float = Field(4096.0, ge=0, le=MOST_BYTES)
    kmin_bytes: float = Field(0.0, ge=0, le=MOST_BYTES)
    kmax_bytes: float = Field(0.0, ge=0, le=MOST_BYTES)
    pmax: float = Field(0.0, ge=0, le=1)
    congestion_control: Literal["none", "dcqcn", "hpcc", "dctcp", "cubic", "ibcc"] = "none"
    selective_repeat: bool = False
    reorder_packets: int = Field(0, ge=-1)
    rto_us: float = Field(4.096 * 2**14, ge=0, le=MOST_US)
    rto_min_us: float = Field(0.0, ge=0, le=MOST_US)
    retry_limit: int = Field(7, ge=0, le=255)
    window_bytes: float = Field(0.0, ge=0, le=MOST_BYTES)
    queue_pairs: int = Field(1, ge=1, le=1024)

    @model_validator(mode="after")
    def _thresholds_rise(self) -> "QosClass":
        if self.kmax_bytes and self.kmin_bytes > self.kmax_bytes:
            raise ValueError(f"kmin_bytes {self.kmin_bytes:g} is above kmax_bytes {self.kmax_bytes:g}")
        if self.congestion_control == "cubic" and not self.selective_repeat:
            raise ValueError("cubic is TCP: it needs selective_repeat: true")
        if self.congestion_control == "hpcc" and self.selective_repeat:
            raise ValueError("hpcc works with go-back-N only: set selective_repeat: false")
        return self


class Dcqcn(_Model):
    """DCQCN at the sender: ``standard`` as in Zhu et al. (SIGCOMM 2015), else as the ns-3 lineage does it.

    Defaults are that paper's: timers 55 us, byte counter 10 MB, five stages of fast recovery, additive increase 40 Mb/s on
    40 Gb/s, here as a share of the line rate; hyper increase ten times that (not in the paper). ``decrease_interval_us`` is
    the least time between two cuts (NVIDIA's rate_reduce_monitor_period, 4 us).
    """

    standard: bool = True
    g: float = Field(1 / 256, gt=0, lt=1)
    alpha_timer_us: float = Field(55.0, gt=0, le=MOST_US)
    decrease_interval_us: float = Field(4.0, gt=0, le=MOST_US)
    increase_timer_us: float = Field(55.0, gt=0, le=MOST_US)
    byte_counter_bytes: float = Field(10e6, gt=0, le=MOST_BYTES)
    fast_recovery: int = Field(5, ge=0)
    additive_share: float = Field(1e-3, ge=0, le=1)
    hyper_share: float = Field(1e-2, ge=0, le=1)
    minimum_gbps: float = Field(0.1, gt=0)
    clamp_target: bool = False


class Hpcc(_Model):
    """HPCC (Li et al. 2019): utilisation aimed at, additive step, and whether every acknowledgement counts."""

    eta: float = Field(0.95, gt=0, le=1)
    max_stage: int = Field(5, ge=0)
    additive_gbps: float = Field(0.04, ge=0)
    minimum_gbps: float = Field(0.1, gt=0)
    fast_react: bool = True
    base_rtt_us: float = Field(0.0, ge=0, le=MOST_US)


class Dctcp(_Model):
    """DCTCP as a rate control (Alizadeh et al. 2010)."""

    g: float = Field(1 / 16, gt=0, lt=1)
    additive_gbps: float = Field(0.6, ge=0)
    minimum_gbps: float = Field(0.1, gt=0)


class Cubic(_Model):
    """TCP CUBIC (RFC 9438)."""

    beta: float = Field(0.7, gt=0, lt=1)
    c: float = Field(0.4, gt=0)
    initial_packets: float = Field(10.0, ge=1)


class Ibcc(_Model):
    """InfiniBand congestion control (IBTA annex A10): table index up per BECN, down by one per timer.

    The standard leaves the table to the manager; ours is geometric: rate = line rate / ``table_base``^index. Timer 150 units
    of 1.024 us; all values unverified against a product's defaults.
    """

    increase: int = Field(1, ge=1, le=127)
    limit: int = Field(127, ge=1, le=1024)
    timer_us: float = Field(153.6, gt=0, le=MOST_US)
    table_base: float = Field(1.05, gt=1, le=2)


class Change(_Model):
    """Something that happens to the network: a cable (number ``subject``) or a node goes down or comes back.

    ``storm-on``: the NIC of host ``subject`` pauses its switch for ever, until ``storm-off``.
    """

    time_us: float = Field(ge=0, le=MOST_US)
    kind: Literal["link-down", "link-up", "node-down", "node-up", "storm-on", "storm-off"]
    subject: int = Field(ge=0)


class LinkLoss(_Model):
    """A bad cable: the share of packets corrupted (per direction) and the mean number lost in a row."""

    cable: int = Field(ge=0)
    probability: float = Field(gt=0, lt=1)
    burst_packets: float = Field(1.0, ge=1)


_DATA = QosClass(name="data", kmin_bytes=1e6, kmax_bytes=2e6, pmax=0.05, congestion_control="dcqcn")
_CNP = QosClass(name="cnp", strict=True, lossless=False, alpha=1.0, rto_us=0.0)
_BEST_EFFORT = QosClass(
    name="best_effort",
    lossless=False,
    alpha=1.0,
    congestion_control="cubic",
    selective_repeat=True,
    reorder_packets=3,
    rto_us=200_000.0,
    rto_min_us=5_000.0,
    retry_limit=0,
)


class PacketOptions(_Model):
    """One run of the packet engine.

    ``mtu_bytes`` is the payload of a full packet, ``header_bytes`` what the wire carries beyond it (RoCEv2: preamble and
    gap 20, Ethernet and FCS 18, IPv4 20, UDP 8, BTH 12, ICRC 4). ``traffic_classes`` maps the ``class`` of a traffic row
    to a queue; other rows go by direction: ``east_west`` and ``storage`` to the first class, the rest to the last.
    ``headroom_bytes`` null: the exact worst case of each link (see `packet_headroom`).
    ``finish`` tells whether a flow ends when its last byte arrives or when the sender knows. ``latency_budget`` keeps where the
    time of every flow went (72 bytes each); every ``sample_us`` queues and links are looked at (0: never), at half that pace
    each time that ``sample_limit`` rows are full.
    """

    transport: Literal["rocev2", "infiniband"] = "rocev2"
    mtu_bytes: int = Field(4096, ge=64, le=9216)
    header_bytes: int = Field(82, ge=1, le=256)
    ack_bytes: int = Field(86, ge=1, le=512)
    cnp_bytes: int = Field(98, ge=1, le=512)
    pause_frame_bytes: int = Field(84, ge=1, le=512)
    round_to_ns: bool = False
    forwarding: Literal["store-and-forward", "cut-through"] = "cut-through"
    paths: str = "ecmp"
    flowlet_gap_us: float = Field(10.0, gt=0, le=MOST_US)
    flowlet_paths: int = Field(16, ge=1, le=64)
    scale_up: bool = True
    classes: tuple[QosClass, ...] = (_DATA, _CNP, _BEST_EFFORT)
    traffic_classes: Mapping[str, str] = Field(default_factory=dict)
    notify_class: str = "cnp"
    ack_class: str | None = None
    ack_every: int = Field(1, ge=1, le=1024)
    notify_on_ack: bool = False
    notify_interval_us: float = Field(50.0, ge=0, le=MOST_US)
    mark_acks: bool = False
    ignore_duplicates: bool = False
    nack_interval_us: float = Field(500.0, ge=0, le=MOST_US)
    finish: Literal["received", "acknowledged"] = "received"
    buffer_bytes: float = Field(64e6, gt=0, le=MOST_BYTES)
    headroom_bytes: float | None = Field(None, ge=0, le=MOST_BYTES)
    credit_bytes: float = Field(131072.0, gt=0, le=MOST_BYTES)
    pause_quanta: int = Field(65535, ge=0, le=65535)
    pause_response_ns: float = Field(0.0, ge=0)
    watchdog_detect_us: float = Field(0.0, ge=0, le=MOST_US)
    watchdog_restore_us: float = Field(0.0, ge=0, le=MOST_US)
    changes: tuple[Change, ...] = ()
    reroute_us: float = Field(0.0, ge=0, le=MOST_US)
    losses: tuple[LinkLoss, ...] = ()
    latency_budget: bool = False
    sample_us: float = Field(0.0, ge=0, le=MOST_US)
    sample_limit: int = Field(1_000_000, ge=1000)
    time_limit_us: float = Field(0.0, ge=0, le=MOST_US)
    dcqcn: Dcqcn = Dcqcn()
    hpcc: Hpcc = Hpcc()
    dctcp: Dctcp = Dctcp()
    cubic: Cubic = Cubic()
    ibcc: Ibcc = Ibcc()

    @model_validator(mode="after")
    def _fits_together(self) -> "PacketOptions":
        if not 1 <= len(self.classes) <= 7:
            raise ValueError(f"{len(self.classes)} classes: a port has one to seven queues for traffic")
        names = [item.name for item in self.classes]
        if len(set(names)) < len(names):
            raise ValueError(f"two classes have the same name: {', '.join(names)}")
        asked = [self.notify_class, *([self.ack_class] if self.ack_class else []), *self.traffic_classes.values()]
        for name in asked:
            if name not in names:
                raise ValueError(f"there is no class {name!r}{nearest(name, names)}; classes are {', '.join(names)}")
        if self.paths not in PATHS:
            raise ValueError(
                f"path mode {self.paths!r} is unknown{nearest(self.paths, PATHS)}; choose one of {', '.join(PATHS)}"
            )
        if self.paths in REORDERING:
            for item in self.classes:
                if item.lossless and not (item.selective_repeat and item.reorder_packets != 0):
                    raise ValueError(
                        f"paths {self.paths!r} reorders packets, but class {item.name!r} takes every gap for a loss;"
                        " set selective_repeat: true and reorder_packets: -1"
                    )
        if self.transport == "infiniband" and self.credit_bytes < 2 * (self.mtu_bytes + self.header_bytes):
            raise ValueError(f"credit_bytes {self.credit_bytes:g} holds less than two packets")
        return self

    def index_of(self, name: str) -> int:
        """Return the number of class ``name``."""
        return [item.name for item in self.classes].index(name)


_SPRAY = {"selective_repeat": True, "reorder_packets": -1}


def _queue(name: str, **values: object) -> QosClass:
    try:
        return QosClass.model_validate({"name": name, **values})
    except ValidationError as error:
        told = "; ".join(item["msg"].removeprefix("Value error, ") for item in error.errors())
        raise InputError(told, key=f"classes.{name}") from None


def _spread(item: QosClass, paths: str) -> QosClass:
    return item.model_copy(update=_SPRAY) if paths in REORDERING and item.lossless else item


def rocev2(*, paths: str = "ecmp", congestion_control: str = "dcqcn", **changed: object) -> PacketOptions:
    """Return options of a RoCEv2 fabric: PFC, ECN, DCQCN, notifications in a strict class, TCP in a lossy one.

    ``changed`` overrides fields of `PacketOptions`; raises InputError.
    """
    data = _queue(**{**_DATA.model_dump(), "congestion_control": congestion_control})
    classes = tuple(_spread(item, paths) for item in (data, _CNP, _BEST_EFFORT))
    return parse_options({"paths": paths, "classes": classes, **changed})


def infiniband(*, paths: str = "adaptive", congestion_control: str = "none", **changed: object) -> PacketOptions:
    """Return options of an InfiniBand fabric: credits per virtual lane, no pause, no drop, adaptive routing.

    Wire bytes: LRH 8, BTH 12, ICRC 4, VCRC 2 beside the payload; AETH 4 in an acknowledgement (IBTA architecture,
    volume 1). ``changed`` overrides fields of `PacketOptions`; raises InputError.
    """
    marking = {"kmin_bytes": 5e5, "kmax_bytes": 1e6, "pmax": 0.05}
    data = _queue("data", congestion_control=congestion_control, **marking)
    classes = tuple(_spread(item, paths) for item in (data, QosClass(name="management", strict=True)))
    frame = {
        "header_bytes": 26,
        "ack_bytes": 30,
        "cnp_bytes": 46,
        "notify_class": "management",
        "notify_interval_us": 0.0,
    }
    return parse_options({"transport": "infiniband", "paths": paths, "classes": classes, **frame, **changed})


def reference(
    gbps: float, *, congestion_control: str = "none", buffer_mib: float = 32.0, **changed: object
) -> PacketOptions:
    """Return the profile of the ns-3 RDMA lineage on links of ``gbps``, so that its published cases come out the same.

    Frame sizes, rounding to nanoseconds per frame, notification on every acknowledgement, acknowledgements in the data
    class (marked like data), pause without quanta, no retransmission timeout, one round robin, HPCC's default thresholds
    and DCQCN values scaled to the link rate.
    """
    scale = gbps / 25.0
    marking = {"kmin_bytes": 100e3 * scale, "kmax_bytes": 400e3 * scale, "pmax": 0.2}
    data = _queue("data", congestion_control=congestion_control, rto_us=0.0, **marking)
    return parse_options(
        {
            "mtu_bytes": 1000,
            "header_bytes": 78 if congestion_control == "hpcc" else 36,
            "ack_bytes": 76 if congestion_control == "hpcc" else 48,
            "pause_frame_bytes": 31,
            "round_to_ns": True,
            "forwarding": "store-and-forward",
            "classes": (data,),
            "notify_class": "data",
            "notify_on_ack": True,
            "mark_acks": True,
            "ignore_duplicates": True,
            "finish": "acknowledged",
            "buffer_bytes": buffer_mib * 2**20,
            "pause_quanta": 0,
            "dcqcn": Dcqcn(
                standard=False,
                alpha_timer_us=1.0,
                decrease_interval_us=4.0,
                increase_timer_us=300.0,
                fast_recovery=1,
                additive_share=0.005 / 25,
                hyper_share=0.05 / 25,
                minimum_gbps=1.0,
            ),
            **changed,
        }
    )


def parse_options(values: Mapping[str, object]) -> PacketOptions:
    """Return `PacketOptions` of a mapping (a YAML file, say); raises InputError that names every wrong key."""
    try:
        return PacketOptions.model_validate(dict(values))
    except ValidationError as error:
        problems = []
        for item in error.errors():
            key = ".".join(str(part) for part in item["loc"]) or None
            message = item["msg"].removeprefix("Value error, ")
            if item["type"] == "extra_forbidden":
                known = PacketOptions.model_fields if len(item["loc"]) == 1 else QosClass.model_fields
                message = f"unknown key{nearest(str(item['loc'][-1]), known)}"
            elif item["loc"]:
                message = f"{message} (found {item['input']!r})"
            problems.append(InputError(message, key=key))
        raise (problems[0] if len(problems) == 1 else InputErrors(problems)) from None
