"""The analytic engine: closed forms of the alpha-beta model, aware of NVLink, rails and oversubscription.

A collective is a few phases; a phase moves some bytes through every GPU's scale-up port or NIC in some number of dependent
steps, and takes ``steps * alpha + bytes / rate``. Sources of the byte counts: Thakur, Rabenseifner and Gropp, Optimization of
collective communication operations in MPICH (IJHPCA 2005) for ring, halving-doubling, tree and pairwise; the hierarchical
forms are these, inside the domain and per rail between domains. Alpha is the idle wire time of `latency`.

Wrong when flows collide on hashed paths (it knows no single link), jobs share the fabric, something is down, or the
library's own start-up dominates (``busbw`` forecasts what NCCL shows).
"""

import math
import time
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import polars as pl

from railwright import tables
from railwright.design.context import resolve_server
from railwright.design.plan import Plan
from railwright.errors import InputError, nearest
from railwright.simulate.goodput import goodput_share
from railwright.simulate.latency import step_us
from railwright.simulate.plan_goodput import plan_goodput
from railwright.simulate.plan_network import scale_up_gbps
from railwright.simulate.results import EngineResult
from railwright.units import format_bytes
from railwright.workload.collectives.build import MOST_PIECES, PIECE_BYTES, phase_chunks
from railwright.workload.placement import Placement

Wire = Literal["nvlink", "network"]

WINDOW = 8
"""Sends that a rank of an all-to-all has in flight: the default of `workload.collectives`."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What the closed forms need of a plan, in bytes per us and us.

    ``nic`` and ``nvlink`` are per GPU and direction, payload only; ``cross`` is the share of ``nic`` that is left between
    leaves when all GPUs send there at once (1 on a non-blocking fabric). ``incast`` and ``spread`` are what congestion
    control leaves of a link into an adapter, or between switches, when several senders fill it (`goodput`).
    """

    nic: float
    nvlink: float
    cross: float
    incast: float
    spread: float
    nic_alpha: float
    cross_alpha: float
    nvlink_alpha: float


@dataclass(frozen=True, slots=True)
class Library:
    """What the job's library decides: ``channels`` of rings and trees (None: one per GPU of a domain), NCCL_CROSS_NIC for
    rings, and ``nic_gbps``, an adapter's rate when data bounce through the CPU (None: they do not)."""

    channels: int | None = None
    cross_nic: int = 2
    nic_gbps: float | None = None


@dataclass(frozen=True, slots=True)
class Phase:
    """``bytes`` through each GPU's port on ``wire``: ``moving_us`` at the wire's rate, ``start_up_us`` of latency beside."""

    wire: Wire
    bytes: float
    start_up_us: float
    moving_us: float

    @property
    def time_us(self) -> float:
        """Start-up and movement together."""
        return self.start_up_us + self.moving_us


def rates_of(plan: Plan) -> Rates:
    """Return the rates of ``plan``'s backend."""
    server = resolve_server(plan.spec, plan.catalog)
    gpu = plan.catalog.gpu(server.gpu)
    nic_gbps = server.backend.gbps * server.backend.ports * server.backend.count / server.gpus
    share = goodput_share(plan.spec.backend.transport)
    constants = plan_goodput(plan)
    return Rates(
        nic=nic_gbps * 1e3 / 8 * share,
        nvlink=scale_up_gbps(gpu) * 1e3 / 8,
        cross=_cross_share(plan),
        incast=constants.incast_share,
        spread=constants.spread_share,
        nic_alpha=step_us(plan, "same leaf"),
        cross_alpha=step_us(plan, "over a spine") or step_us(plan, "same leaf"),
        nvlink_alpha=step_us(plan, "NVLink or xGMI"),
    )


def phases_of(
    collective: str,
    size_bytes: float,
    placement: Placement,
    algorithm: str,
    rates: Rates,
    leaves: int,
    library: Library = Library(),
) -> list[Phase]:
    """Return the phases of one collective of ``size_bytes`` (as nccl-tests counts it), one after another.

    ``leaves`` is how many leaves a rail's ranks span. Raises InputError for an algorithm without a closed form.
    """
    n, domains = placement.ranks, placement.domains
    width = n // domains
    channels = library.channels or width
    per_nic = math.ceil(channels / width)
    nic_alpha = rates.nic_alpha if leaves == 1 else rates.cross_alpha
    # Neighbours on a ring share a leaf, but for one edge per leaf.
    crossing_edges = leaves if leaves > 1 else 0
    ring_alpha = rates.nic_alpha + (rates.cross_alpha - rates.nic_alpha) * min(1.0, crossing_edges / domains)

    # Of the levels of a tree, those that span leaves cross.
    levels = math.log2(domains) if domains > 1 else 1.0
    tree_alpha = rates.nic_alpha + (rates.cross_alpha - rates.nic_alpha) * min(1.0, math.log2(leaves) / levels)

    def network(bytes_: float, steps: float, *, crossing: float = 0.0) -> Phase:
        """``crossing`` of the bytes climb above the leaves, where the fabric has ``cross`` of the adapters' rate."""
        slowed = 1.0 + crossing * (1.0 / rates.cross - 1.0)
        return Phase("network", bytes_, steps * nic_alpha, bytes_ / rates.nic * slowed)

    def nvlink(bytes_: float, steps: float) -> Phase:
        return Phase("nvlink", bytes_, steps * rates.nvlink_alpha, bytes_ / rates.nvlink)

    if n == 1:
        return []
    turns = 2 if collective == "all-reduce" else 1
    if collective == "all-to-all":
        outside = size_bytes * (n - width) / n
        inside = size_bytes * (width - 1) / n + (outside * (width - 1) / width if domains > 1 else 0.0)
        above = size_bytes * (1 - 1 / leaves)
        outer = [network(outside / rates.incast, math.ceil((domains - 1) / WINDOW))] if domains > 1 else []
        if leaves > 1:  # all at once: the adapters or the links above the leaves, whichever are slower
            climbing = above / (rates.nic * rates.cross * rates.spread)
            outer = [max(outer[0], Phase("network", above, outer[0].start_up_us, climbing), key=lambda p: p.moving_us)]
        return [max((*outer, nvlink(inside, 1)), key=lambda phase: phase.time_us)] if width > 1 else outer
    if collective == "send-recv":
        return [network(size_bytes, 1)] if domains > 1 else [nvlink(size_bytes, 1)]
    if collective in ("broadcast", "reduce"):
        inside = max(1, channels - per_nic)
        return [_pieces(size_bytes / channels, domains - 1, n - domains, per_nic, inside, rates, ring_alpha)]
    if algorithm in ("ring", "ring-flat"):
        changes_rail = library.cross_nic == 1 and domains > 1 and width > 1
        handed = library.cross_nic == 0 and domains > 1 and width > 1
        alpha = rates.cross_alpha if changes_rail else ring_alpha
        nic = rates.nic * (rates.cross * rates.spread if changes_rail else 1.0)
        chunk = size_bytes / (n * channels)
        return [_ring(turns * (n - 1), chunk, n, domains, channels, replace(rates, nic=nic), alpha, handed=handed)]
    shard = size_bytes / width
    if algorithm == "tree":
        depth = math.ceil(math.log2(domains))
        # Two trees per rail, each with half of the rail's data: a domain sends up once and down twice, in one tree or the other.
        data, inside = size_bytes / channels / 2, 2 * max(1, channels - per_nic)
        return [_pieces(data, 2 * depth, 2 * (width - 1), 4 * per_nic, inside, rates, tree_alpha)]
    scatter = [nvlink(size_bytes * (width - 1) / width, 1)] if width > 1 else []
    if algorithm in ("hierarchical", "nvls"):
        outer_bytes = turns * (domains - 1) / domains * shard
        start_up = turns * (domains - 1) * ring_alpha
        between = [Phase("network", outer_bytes, start_up, outer_bytes / rates.nic)] if domains > 1 else []
    elif algorithm in ("halving-doubling", "pat"):
        # Halving sends its largest parts farthest, PAT its smallest.
        outside = turns * (domains - 1) / domains
        far = turns * (1 - 1 / leaves) if algorithm == "halving-doubling" else (leaves - 1) / domains
        steps = turns * math.ceil(math.log2(domains))
        between = [network(outside * shard, steps, crossing=far / outside)] if domains > 1 else []
    elif algorithm == "nvls-tree":
        depth = math.ceil(math.log2(domains))
        between = [_pieces(shard / 2, turns * depth, 0, 4, 1, rates, tree_alpha)] if domains > 1 else []
    elif algorithm == "collnet":
        between = [network(shard, 2)] if domains > 1 else []
    else:
        raise InputError(
            f"the analytic engine has no closed form for algorithm {algorithm!r}"
            f"{nearest(algorithm, ALGORITHMS)}; it knows {', '.join(ALGORITHMS)}",
            key="algorithm",
        )
    if algorithm in ("nvls", "nvls-tree") and width > 1:
        scatter = [nvlink(size_bytes * (width + 1) / (2 * width), 1)]
    if collective == "all-reduce":
        return [*scatter, *between, *scatter]
    return [*scatter, *between]


ALGORITHMS = ("ring", "ring-flat", "hierarchical", "nvls", "nvls-tree", "tree", "halving-doubling", "pat", "collnet")


def time_of(phases: list[Phase], chunks: int = 1) -> float:
    """Return the time in us of phases that follow each other, with the data cut into ``chunks`` that overlap as in a pipeline.

    The first chunk takes all phases, each further one only those of the busiest wire; each pays the start-up again.
    """
    parts = [(phase.wire, phase.start_up_us + phase.moving_us / chunks) for phase in phases]
    busiest = max(sum(time_us for on, time_us in parts if on == wire) for wire in ("nvlink", "network"))
    return sum(time_us for _, time_us in parts) + (chunks - 1) * busiest


def _ring(
    steps: int, chunk: float, ranks: int, domains: int, channels: int, rates: Rates, nic_alpha: float, *, handed: bool
) -> Phase:
    """Return one of ``channels`` alike rings: ``ranks`` chunks of ``chunk`` bytes that go round a cycle of edges, ``steps`` each.

    A round takes as long as the slowest edge needs for all chunks, or one chunk for its whole trip, whichever is longer: the
    cycle time of an event graph (Baccelli et al., Synchronization and Linearity, 1992). The channels are dealt out to the
    adapters; a GPU's NVLink port carries those that do not leave the domain there (all when there is one domain), but seldom
    at the same moment: a trip finds it free. That is 3 % too fast where the port is busy for 95 % of the time. ``handed``: the
    last rank of a domain hands its data over NVLink to the adapter by which the ring entered (NCCL_CROSS_NIC=0).
    """
    width = ranks // domains
    outer, inner = (domains if domains > 1 else 0), ranks - (domains if domains > 1 and not handed else 0)
    per_nic = math.ceil(channels / width)
    on_nic = chunk * per_nic / rates.nic if outer else 0.0
    sharing = channels if domains == 1 or handed else max(1, channels - per_nic)
    on_nvlink = chunk * sharing / rates.nvlink if inner else 0.0
    trip = outer * (nic_alpha + chunk / rates.nic) + inner * (rates.nvlink_alpha + chunk / rates.nvlink)
    busiest = ranks * max(on_nic, on_nvlink)
    wire: Wire = "network" if on_nic >= on_nvlink else "nvlink"
    carried = steps * chunk * (per_nic if wire == "network" else sharing)
    return Phase(wire, carried, steps / ranks * max(0.0, trip - busiest), steps / ranks * busiest)


def _pieces(
    data: float, outer: int, inner: int, on_nic: float, on_nvlink: float, rates: Rates, nic_alpha: float
) -> Phase:
    """Return ``data`` bytes that travel in pieces along ``outer`` network and ``inner`` NVLink edges, one piece behind the other.

    A piece makes the whole trip, each further one adds the longest edge, where ``on_nic`` or ``on_nvlink`` pieces share a GPU's
    port. On the trip a piece meets half of the others that use an NVLink port: within some 15 % of the flow engine.
    """
    pieces = min(MOST_PIECES, max(1, math.ceil(data / PIECE_BYTES)))
    piece = data / pieces
    network_us = nic_alpha + piece * on_nic / rates.nic if outer else 0.0
    nvlink_us = rates.nvlink_alpha + piece * on_nvlink / rates.nvlink if inner else 0.0
    wire: Wire = "network" if network_us >= nvlink_us else "nvlink"
    longest = max(network_us, nvlink_us)
    crowd = (1 + on_nvlink) / 2 if pieces > 1 else 1.0
    trip = outer * (nic_alpha + piece / rates.nic) + inner * (rates.nvlink_alpha + crowd * piece / rates.nvlink)
    share = on_nic if wire == "network" else on_nvlink
    return Phase(wire, data * share, trip, (pieces - 1) * longest)


def simulate_analytic(
    plan: Plan,
    collective: str,
    size_bytes: float,
    placement: Placement,
    algorithm: str,
    library: Library = Library(),
) -> tuple[EngineResult, list[Phase]]:
    """Return the result and its phases; the tables are empty but for utilisation per link, spread evenly."""
    began, began_cpu = time.perf_counter(), time.process_time()
    rates = rates_of(plan)
    if library.nic_gbps is not None:
        rates = replace(rates, nic=min(rates.nic, library.nic_gbps * 1e3 / 8))
    library = _where_rails_meet(plan, library)
    phases = phases_of(collective, size_bytes, placement, algorithm, rates, _leaves_of(plan, placement), library)
    pipelined = algorithm not in ("ring", "ring-flat") and len(phases) > 1
    width = placement.ranks // placement.domains
    took = time_of(phases, phase_chunks(size_bytes, width, placement.domains) if pipelined else 1)
    slowest = max(phases, key=lambda phase: phase.time_us, default=None)
    why = (
        ()
        if slowest is None
        else (f"{slowest.wire} carries {format_bytes(slowest.bytes)} per GPU in its slowest phase",)
    )
    counters = {"events": None, "cpu_s": time.process_time() - began_cpu, "wall_s": time.perf_counter() - began}
    return EngineResult(took, tables.empty("flows"), tables.empty("links_used"), counters, why), phases


def _where_rails_meet(plan: Plan, library: Library) -> Library:
    """Return ``library`` with what a ring that changes rail does here.

    Where all adapters of a server are on one leaf it is like any other; where rails are not joined the engines hand its data
    over NVLink, as for ``cross_nic`` 0.
    """
    if library.cross_nic != 1:
        return library
    first = plan.named_links().filter((pl.col("network") == "backend") & (pl.col("tier") == "host"))
    one = first.filter(pl.col("a_device_id") == pl.col("a_device_id").min())
    if one["b_device_id"].n_unique() <= one["plane"].n_unique():
        return replace(library, cross_nic=2)
    joined = plan.links.filter((pl.col("network") == "backend") & (pl.col("tier") == "leaf_spine")).height
    return library if joined else replace(library, cross_nic=0)


def _leaves_of(plan: Plan, placement: Placement) -> int:
    """Return over how many leaves the ranks of one rail spread."""
    server = resolve_server(plan.spec, plan.catalog)
    servers = plan.devices.filter(pl.col("role") == "server").sort("device_id")["device_id"]
    used = servers.gather(np.unique(placement.gpu // server.gpus))
    hosts = plan.named_links().filter(
        (pl.col("network") == "backend") & (pl.col("tier") == "host") & pl.col("a_device_id").is_in(used.implode())
    )
    first = hosts.filter(pl.col("a_nic") == pl.col("a_nic").min())
    planes = max(1, first["plane"].n_unique())
    return max(1, first["b_device_id"].n_unique() // planes)


def _cross_share(plan: Plan) -> float:
    """Return what a full leaf has above it per Gb/s below, at most 1; the layer above a spine counts where it is worse."""
    facts = plan.facts.get("backend", {})
    return 1.0 / max(1.0, *(float(facts.get(f"{role}_oversubscription") or 1.0) for role in ("leaf", "spine")))
