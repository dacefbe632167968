"""Where the time of one small message goes, for every kind of path of a plan.

One row per kind of path: adapters and host buses, switches, serialisation of one packet at every store, propagation, and the
mean wait behind other packets at half load. NCCL's own step times (its tuning constants for a network hop) stand beside: they
include the kernels and proxies that a wire measurement does not see.
"""

from dataclasses import dataclass

import polars as pl

from railwright.catalog.model import Switch
from railwright.design.context import resolve_server
from railwright.design.plan import Plan
from railwright.simulate.goodput import MTU_BYTES, OVERHEAD_BYTES
from railwright.simulate.plan_network import ASSUMED_LENGTH_M, NS_PER_M, SCALE_UP_HOP_NS, UNKNOWN_SWITCH_NS

ADAPTERS_US = 1.0
"""Both adapters and both host buses of a small RDMA write: what perftest's ib_write_lat shows back to back on adapters of this
generation, about 0.9 to 1.1 us. From memory, unverified."""

NCCL_STEP_US = {"LL": 2.7, "Simple": 14.0}
"""One network step of a ring by protocol (NCCL 2.30 tuning constants, hw_latency NET ring)."""

HALF_LOAD_WAITS = 0.5
"""Mean wait in serialisation times of an M/D/1 queue at a load of one half: load / (2 (1 - load))."""


@dataclass(frozen=True, slots=True)
class PathKind:
    """Switches and cables that a path crosses: one list of tiers up, the same down."""

    name: str
    tiers: tuple[str, ...]
    roles: tuple[str, ...]


PATH_KINDS = (
    PathKind("same leaf", ("host", "host"), ("leaf",)),
    PathKind("over a spine", ("host", "leaf_spine", "leaf_spine", "host"), ("leaf", "spine", "leaf")),
    PathKind(
        "over a core",
        ("host", "leaf_spine", "spine_core", "spine_core", "leaf_spine", "host"),
        ("leaf", "spine", "core", "spine", "leaf"),
    ),
)


def latency_budget(plan: Plan) -> pl.DataFrame:
    """Return one row per kind of path that the backend has.

    Columns: ``path, switches, adapters_us, switching_us, serialisation_us, propagation_us, queueing_us, wire_us`` (the sum),
    ``nccl_ll_us, nccl_simple_us`` (None inside a scale-up domain).
    """
    server = resolve_server(plan.spec, plan.catalog)
    present = set(plan.devices.filter(pl.col("network") == "backend")["role"].cast(pl.String))
    rows = []
    if server.scale_up_gpus > 1:
        rows.append(_row("NVLink or xGMI", 0, 0.0, SCALE_UP_HOP_NS / 1e3, 0.0, 0.0, 0.0, nccl=False))
    for kind in PATH_KINDS:
        if not set(kind.roles) <= present:
            continue
        hop_us = [_latency_ns(plan, role) / 1e3 for role in kind.roles]
        packet_bits = (MTU_BYTES + OVERHEAD_BYTES[plan.spec.backend.transport]) * 8
        one_us = packet_bits / (server.backend.gbps * 1e3)
        stores = 1 + sum(not _cuts_through(plan, role) for role in kind.roles)
        metres = sum(ASSUMED_LENGTH_M[tier] for tier in kind.tiers)
        rows.append(
            _row(
                kind.name,
                len(kind.roles),
                ADAPTERS_US,
                sum(hop_us),
                stores * one_us,
                metres * NS_PER_M / 1e3,
                HALF_LOAD_WAITS * one_us * len(kind.roles),
                nccl=True,
            )
        )
    return pl.DataFrame(rows)


def step_us(plan: Plan, kind: str = "same leaf") -> float:
    """Return what the engines count for the first bit on an idle path of ``kind``: switches and propagation, in us.

    Adapters and host buses are left out, as in the flow and packet engines: the budget shows them. 0 for a kind of path that
    the plan does not have.
    """
    row = latency_budget(plan).filter(pl.col("path") == kind)
    return 0.0 if row.is_empty() else float(row["switching_us"][0] + row["propagation_us"][0])


def _row(
    path: str,
    switches: int,
    adapters_us: float,
    switching_us: float,
    serialisation_us: float,
    propagation_us: float,
    queueing_us: float,
    *,
    nccl: bool,
) -> dict[str, object]:
    return {
        "path": path,
        "switches": switches,
        "adapters_us": adapters_us,
        "switching_us": switching_us,
        "serialisation_us": serialisation_us,
        "propagation_us": propagation_us,
        "queueing_us": queueing_us,
        "wire_us": adapters_us + switching_us + serialisation_us + propagation_us + queueing_us,
        "nccl_ll_us": NCCL_STEP_US["LL"] if nccl else None,
        "nccl_simple_us": NCCL_STEP_US["Simple"] if nccl else None,
    }


def _platform(plan: Plan, role: str) -> Switch:
    models = plan.devices.filter((pl.col("network") == "backend") & (pl.col("role") == role))["model"]
    return plan.catalog.switches[models[0]]


def _latency_ns(plan: Plan, role: str) -> float:
    return _platform(plan, role).latency_ns or UNKNOWN_SWITCH_NS


def _cuts_through(plan: Plan, role: str) -> bool:
    return _platform(plan, role).features.cut_through is not False
