"""The QoS contract spread over a plan: one row per link end and class (table ``qos``), all at once.

Thresholds come from the port's rate and the contract, headroom from platform, rate and cable length
(``design/headroom.py``). Ends at servers and appliances keep their buffers to themselves: they have priority, PFC and MTU
but no thresholds. The out-of-band management network has no contract.
"""

from collections.abc import Mapping

import polars as pl

from railwright import tables
from railwright.design.headroom import ASSUMED_CABLE_M, link_headroom, pool_use
from railwright.design.plan import Plan
from railwright.design.qos import QosContract, convention_contract, profile_contract
from railwright.design.thresholds import marked_before_paused
from railwright.spec.cluster import ClusterSpec

SWITCH_ROLES = ("leaf", "spine", "core", "border", "tor")
NETWORKS = ("backend", "frontend", "storage")

NIC_LATENCY_US = 1.0
"""One pass through an adapter; an assumption of ours (vendors publish about 0.6-1 us, not verified)."""
SWITCH_LATENCY_US = 0.8
FIBRE_US_PER_M = 0.0049


def contracts_for(plan: Plan, convention: str | None = None) -> dict[str, QosContract]:
    """Return the contract of each network that has one (``backend, frontend, storage``).

    All Ethernet networks share one contract, all InfiniBand networks another. The backend's classes are lossless where it
    runs RoCEv2, the storage class where storage runs RoCEv2; networks of one ``converge`` group share their rules.
    """
    spec = plan.spec
    infiniband = {
        network
        for network, transport in (("backend", spec.backend.transport), ("storage", spec.storage.transport))
        if transport == "infiniband"
    }
    changes = {"rtt_us": round_trip_us(plan)}
    found: dict[str, QosContract] = {}
    ethernet = _ethernet(spec, convention, changes)
    for network in NETWORKS:
        found[network] = profile_contract("credits", **changes) if network in infiniband else ethernet
    return found


def round_trip_us(plan: Plan) -> float:
    """Return the unloaded round trip across the backend's longest path, in us.

    Two adapters and 2 t - 1 switches for t tiers, their catalog latency (0.8 us where unknown), the longest cable of the
    backend on every hop (100 m where unknown) at 4.9 ns/m, and one MTU's serialisation per hop.
    """
    tiers = int(plan.facts.get("backend", {}).get("tiers", 2))
    switches = plan.devices.filter((pl.col("network") == "backend") & pl.col("role").is_in(SWITCH_ROLES))
    known = [
        plan.catalog.switches[key].latency_ns
        for key in switches["model"].unique().sort()
        if key in plan.catalog.switches and plan.catalog.switches[key].latency_ns
    ]
    switch_us = max((value for value in known if value), default=SWITCH_LATENCY_US * 1e3) / 1e3
    links = plan.links.filter(pl.col("network") == "backend")
    lengths = links.join(plan.table("cables"), on="cable_id")["length_m"]
    longest = lengths.max()
    length_m = float(longest) if isinstance(longest, float) else ASSUMED_CABLE_M
    slowest = links["speed_gbps"].min()
    gbps = float(slowest) if isinstance(slowest, float) else 400.0
    hops = 2 * tiers - 1
    one_way = 2 * NIC_LATENCY_US + hops * switch_us + (hops + 1) * (length_m * FIBRE_US_PER_M + 9216 * 8 / gbps / 1e3)
    return round(2 * one_way, 2)


def qos_table(plan: Plan, contracts: Mapping[str, QosContract]) -> pl.DataFrame:
    """Return table ``qos``: one row per link end of a network in ``contracts`` and class, in order of port and priority."""
    ends = link_ends(plan)
    parts = []
    for contract in dict.fromkeys(contracts.values()):
        networks = [network for network, own in contracts.items() if own is contract]
        parts.append(_rows(ends.filter(pl.col("network").cast(pl.String).is_in(networks)), contract))
    table = pl.concat(parts) if parts else tables.empty("qos")
    ordered = tables.conform("qos", table).sort("port_id", "priority", maintain_order=True)
    derived = [c.name for own in contracts.values() for c in own.classes if c.ecn and c.ecn.kind == "rate-rtt"]
    return marked_before_paused(plan, ordered, ends, derived)


def headroom_use(plan: Plan, table: pl.DataFrame) -> pl.DataFrame:
    """Return how much of each switch's lossless pool the rows of ``table`` reserve; see ``headroom.pool_use``.

    Columns: those of ``pool_use`` and ``device`` (name).
    """
    lossless = table.filter(pl.col("lossless")).join(plan.ports.select("port_id", "device_id"), on="port_id")
    switches = plan.devices.filter(pl.col("role").is_in(SWITCH_ROLES)).select("device_id", "model", device="name")
    return pool_use(lossless.join(switches, on="device_id").select("device_id", "model", "headroom_bytes")).join(
        switches.select("device_id", "device"), on="device_id", maintain_order="left"
    )


def _ethernet(spec: ClusterSpec, convention: str | None, changes: Mapping[str, object]) -> QosContract:
    roce = spec.backend.transport == "rocev2"
    congestion = spec.backend.congestion if roce else None
    profile = congestion if congestion not in (None, "credits") else "dcqcn+pfc"
    base = convention_contract(convention, profile) if convention else profile_contract(profile)
    carries = {"roce": roce, "storage": spec.storage.enabled and spec.storage.transport == "rocev2"}
    classes = []
    for c in base.classes:
        wanted: dict[str, object] = {}
        if c.networks:
            group = [n for n in NETWORKS if n in spec.converge] if set(c.networks) & set(spec.converge) else []
            wanted["networks"] = tuple(dict.fromkeys([*c.networks, *group]))
        if c.purpose == "roce" and spec.backend.ecn is not None:
            own = spec.backend.ecn
            wanted["ecn"] = {"kind": "bytes", "kmin": own.kmin, "kmax": own.kmax, "pmax": own.pmax}
        if not carries.get(c.purpose, True):
            wanted |= {"lossless": False, "ecn": None}
        classes.append({**c.model_dump(), **wanted})
    fields = base.model_dump()
    if not any(c["lossless"] for c in classes):
        fields["watchdog"] = None
    return QosContract.model_validate({**fields, **changes, "classes": classes})


def link_ends(plan: Plan) -> pl.DataFrame:
    """Return one row per port in use: ``port_id, network, model, host, speed_gbps, lanes, cable_m`` (whole metres, up)."""
    cables = plan.table("cables").select("cable_id", cable_m=pl.col("length_m").ceil())
    links = plan.links.join(cables, on="cable_id", how="left", maintain_order="left")
    ends = pl.concat(links.select("network", "cable_m", port_id=side) for side in ("a_port", "b_port"))
    devices = plan.devices.select("device_id", "model", host=~pl.col("role").is_in(SWITCH_ROLES))
    return (
        ends.join(plan.ports.select("port_id", "device_id", "speed_gbps", "lanes"), on="port_id")
        .join(devices, on="device_id")
        .sort("port_id")
    )


def _rows(ends: pl.DataFrame, contract: QosContract) -> pl.DataFrame:
    ethernet = contract.transport == "rocev2"
    classes = pl.DataFrame(
        [
            {
                "class": c.name,
                "dscp": list(c.dscp),
                "priority": c.priority,
                "queue": c.queue,
                "class_lossless": c.lossless,
                "holds_on": list(c.networks or NETWORKS),
                "scheduler": c.scheduler,
                "weight": c.weight,
                "ecn_kind": c.ecn.kind if c.ecn else None,
                "ecn_kmin": c.ecn.kmin if c.ecn else None,
                "ecn_kmax": c.ecn.kmax if c.ecn else None,
                "ecn_pmax": c.ecn.pmax if c.ecn else None,
            }
            for c in contract.classes
        ],
        schema_overrides={
            "dscp": pl.List(pl.UInt8),
            "weight": pl.UInt8,
            "ecn_kind": pl.String,
            "ecn_kmin": pl.Float64,
            "ecn_kmax": pl.Float64,
            "ecn_pmax": pl.Float64,
        },
    )
    priced = link_headroom(ends)
    rows = priced.join(classes, how="cross").with_columns(
        holds=pl.col("network").cast(pl.String).is_in(pl.col("holds_on")),
    )
    rows = rows.with_columns(lossless=pl.col("class_lossless") & pl.col("holds"))
    reserves = pl.col("lossless") & ~pl.col("host") & pl.lit(ethernet)
    marks = pl.col("ecn_kmin").is_not_null() & pl.col("holds") & ~pl.col("host")
    unit = (
        pl.when(pl.col("ecn_kind") == "rate-rtt")
        .then(pl.col("speed_gbps") * contract.rtt_us * 1e3 / 8)
        .when(pl.col("ecn_kind") == "bytes")
        .then(1.0)
    )
    why = (
        pl.when(pl.col("host"))
        .then(pl.lit("adapter"))
        .when(reserves)
        .then(pl.col("basis"))
        .otherwise(pl.lit("lossless by credits" if not ethernet else "no headroom: not lossless here"))
    )
    ours = (
        pl.when(marks & (pl.col("ecn_kind") == "rate-rtt"))
        .then(pl.lit(f"; ECN ours: rate x {contract.rtt_us:g} us"))
        .otherwise(pl.lit(""))
    )
    return rows.select(
        "port_id",
        "class",
        "dscp",
        "priority",
        "queue",
        "lossless",
        "scheduler",
        "weight",
        *(pl.when(reserves).then(column).alias(column) for column in ("xoff_bytes", "xon_bytes", "headroom_bytes")),
        pl.when(marks).then(pl.col("ecn_kmin") * unit).round().cast(pl.UInt64).alias("kmin_bytes"),
        pl.when(marks).then(pl.col("ecn_kmax") * unit).round().cast(pl.UInt64).alias("kmax_bytes"),
        pl.when(marks).then("ecn_pmax").alias("pmax"),
        pl.when("host")
        .then(contract.host_mtu_bytes)
        .otherwise(contract.switch_mtu_bytes)
        .cast(pl.UInt32)
        .alias("mtu_bytes"),
        pl.concat_str(why, ours).alias("basis"),
    )
