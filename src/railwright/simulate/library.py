"""What the job's library (NCCL or RCCL) does on a plan: the shape it sees, the algorithm and channels it takes, its connections.

The engines get their traffic from here, `busbw` its connections; the model itself is `workload.nccl`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import polars as pl

from railwright.design.context import resolve_server
from railwright.design.plan import Plan
from railwright.errors import InputError
from railwright.workload.collectives import ALGORITHMS
from railwright.workload.nccl.choose import NO_VARIABLES, candidates, choose_many
from railwright.workload.nccl.constants import ARCHITECTURES
from railwright.workload.nccl.environment import Environment
from railwright.workload.nccl.shape import JobShape, shape_of_server
from railwright.workload.placement import Placement

USUAL_QUEUE_PAIRS = 4
"""Queue pairs per connection where the plan balances load by several of them (``ecmp-qp``), as `build` sets them."""

LIBRARY_NAMES: Mapping[str, str] = {"collnet-direct": "collnet", "collnet-chain": "collnet"}
"""Algorithms of the library that run as one of ours."""

CHANNELLED = ("ring", "tree")
"""Algorithms of `collectives` that take a number of channels."""


@dataclass(frozen=True)
class Taken:
    """What runs: ``algorithm`` of `collectives.ALGORITHMS`; ``protocol`` and ``channels`` None where no model knows them."""

    algorithm: str
    protocol: str | None
    channels: int | None


def shape_of_placement(plan: Plan, placement: Placement) -> JobShape | None:
    """Return the shape of a job on ``placement``; None when its domains hold different ranks or no model knows the GPU."""
    server = resolve_server(plan.spec, plan.catalog)
    gpu = plan.catalog.gpu(server.gpu)
    if not placement.balanced or gpu.architecture not in ARCHITECTURES:
        return None
    width = placement.ranks // placement.domains
    backend = plan.spec.backend
    one = shape_of_server(server, gpu, gpus=width, transport=backend.transport, sharp=backend.in_network_reduction)
    return replace(one, nodes=placement.domains)


def taken(
    plan: Plan,
    collective: str,
    size_bytes: float,
    placement: Placement,
    environment: Environment = NO_VARIABLES,
    algorithm: str | None = None,
) -> Taken:
    """Return what runs ``collective``: ``algorithm`` (of `collectives.ALGORITHMS`) if named, else what the library takes.

    Jobs on unlike parts of domains, or on hardware without constants, take rings. Raises InputError when ``environment``
    leaves the library nothing.
    """
    known = ALGORITHMS[collective]
    if "ring" not in known:
        return Taken(algorithm or next(iter(known)), None, None)
    shape = shape_of_placement(plan, placement) if placement.ranks > 1 else None
    if shape is None:
        return Taken(algorithm or ("ring" if placement.balanced else "ring-flat"), None, None)
    if algorithm is None:
        row = choose_many(collective, [size_bytes], shape, environment).row(0, named=True)
        algorithm = LIBRARY_NAMES.get(row["algorithm"], row["algorithm"])
        if algorithm == "collnet" and algorithm not in known:  # the switches add only; what they copy goes as with NVLS
            algorithm = "nvls"
        if algorithm not in known:
            return Taken("ring", None, None)
    elif algorithm in CHANNELLED:
        possible = candidates(collective, [size_bytes], shape, replace(environment, algorithms=None)).filter(
            (pl.col("algorithm") == algorithm) & pl.col("time_us").is_finite()
        )
        if possible.is_empty():
            return Taken(algorithm, None, None)
        row = possible.sort("time_us", maintain_order=True).row(0, named=True)
    else:
        return Taken(algorithm, None, None)
    return Taken(algorithm, row["protocol"], row["channels"] if algorithm in CHANNELLED else None)


def queue_pairs_of(plan: Plan, environment: Environment = NO_VARIABLES, paths: str | None = None) -> int:
    """Return the queue pairs of a connection: what the job's variables say, else what ``plan`` or its workload asks for.

    ``paths`` is a path mode that replaces the plan's load balancing.
    """
    if "NCCL_IB_QPS_PER_CONNECTION" in environment.variables:
        return environment.queue_pairs
    balancing = str(plan.facts["backend"]["load_balancing"])
    planned = USUAL_QUEUE_PAIRS if balancing == "ecmp-qp" and paths is None else 1
    workload = plan.spec.workload
    return max(planned, workload.flows_per_pair if workload is not None else 1)


def cross_rail_of(plan: Plan, environment: Environment = NO_VARIABLES) -> str:
    """Return how point-to-point data reach another rail: ``nvlink`` (PXN) or ``network``; the job's variables come first."""
    if {"NCCL_P2P_PXN_LEVEL", "NCCL_PXN_DISABLE"} & environment.variables.keys():
        return "network" if environment.pxn_level == 0 else "nvlink"
    workload = plan.spec.workload
    return workload.cross_rail if workload is not None else "nvlink"


def bounced_gbps(plan: Plan, placement: Placement, environment: Environment) -> float | None:
    """Return what an adapter moves when data bounce through the CPU (Gb/s per direction), or None when they do not.

    That is without GPUDirect RDMA or over sockets: `JobShape.nic_counted`. Raises InputError where no model knows the shape.
    """
    if environment.gdr and not environment.sockets:
        return None
    shape = shape_of_placement(plan, placement)
    if shape is None:
        raise InputError("variables that switch GPUDirect RDMA off need whole domains and a known GPU", key="env")
    return replace(shape, gdr=False).nic_counted * 8
