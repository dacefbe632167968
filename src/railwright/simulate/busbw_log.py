"""A log of nccl-tests held against the plan: the verdicts of `workload.nccl.verdict` with the fabric in the expectation.

Ranks are put where the log says they ran when it names servers of the plan and their devices, else on the first servers.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.design.context import resolve_server
from railwright.design.plan import Plan
from railwright.errors import InputError
from railwright.simulate.busbw import Fabric, forecast
from railwright.simulate.groups import server_groups
from railwright.simulate.plan_network import placement_of
from railwright.simulate.scopes import Scope
from railwright.workload.nccl.choose import NO_VARIABLES
from railwright.workload.nccl.environment import Environment
from railwright.workload.nccl.log import Log, Run
from railwright.workload.nccl.shape import JobShape, shape_of_server
from railwright.workload.nccl.verdict import Verdict, judge, without_fabric


def compare(
    fabric: Fabric,
    log: Log,
    environment: Environment = NO_VARIABLES,
    *,
    collective: str | None = None,
    ranks: int | None = None,
) -> tuple[Verdict, ...]:
    """Return one verdict per run of ``log``, against what ``fabric`` should give.

    ``ranks`` says how many were meant to take part (default: as many as the log shows); ``collective`` which test it was when
    the log does not say. Raises InputError for more ranks than the plan has GPUs.
    """
    plan = fabric.plan
    server = resolve_server(plan.spec, plan.catalog)
    hosts = max((run.hosts for run in log.runs), default=1)
    gpus = plan.devices.filter(pl.col("role") == "server").height * server.gpus
    if ranks is not None and not 1 <= ranks <= gpus:
        raise InputError(f"{ranks} ranks; the plan has {gpus} GPUs", key="ranks")
    domain = min(server.scale_up_gpus, gpus)
    one = shape_of_server(
        server,
        plan.catalog.gpu(server.gpu),
        gpus=domain,
        transport=plan.spec.backend.transport,
        sharp=plan.spec.backend.in_network_reduction,
    )
    spans = max(1, domain // server.gpus)
    nodes = -(-ranks // domain) if ranks else max(1, -(-hosts // spans))
    notes: dict[int, str] = {}
    found = judge(log, one.at(nodes), environment, collective=collective, forecast=partial(_with_fabric, fabric, notes))
    return tuple(_noted(verdict, notes, ranks, gpus, server.gpu) for verdict in found)


def _noted(verdict: Verdict, notes: dict[int, str], ranks: int | None, gpus: int, gpu: str) -> Verdict:
    remarks = list(verdict.remarks)
    if verdict.run.first_line in notes:
        remarks.append(notes[verdict.run.first_line])
    devices = " ".join(verdict.run.ranks["name"].unique().sort()).lower().replace(" ", "")
    if devices and gpu.lower() not in devices:
        named = ", ".join(verdict.run.ranks["name"].unique().sort())
        remarks.append(f"the log's GPUs are {named}, the plan's {gpu.upper()}: the expectation is that of the plan")
    if ranks is None and verdict.shape.nodes == 1 and verdict.run.size and gpus > verdict.run.size:
        remarks.append("all ranks shared NVLink: this run says nothing of the network (--ranks N tells what was meant)")
    return replace(verdict, remarks=tuple(remarks))


def _with_fabric(
    fabric: Fabric,
    notes: dict[int, str],
    run: Run,
    collective: str,
    sizes: NDArray[np.float64],
    shape: JobShape,
    environment: Environment,
) -> pl.DataFrame:
    if shape.nodes < 2:
        return without_fabric(run, collective, sizes, shape, environment)
    gpus, note = _gpus_of(fabric.plan, run, shape)
    if note:
        notes[run.first_line] = note
    if gpus is None:
        return without_fabric(run, collective, sizes, shape, environment)
    scope = Scope(f"line {run.first_line}", "", placement_of(fabric.plan, gpus), shape)
    if scope.placement.domains != shape.nodes or not scope.placement.balanced:
        notes[run.first_line] = (
            "the ranks are spread unevenly over the servers; the fabric is left out of the expectation"
        )
        return without_fabric(run, collective, sizes, shape, environment)
    return forecast(fabric, scope, collective, sizes, environment)


def _gpus_of(plan: Plan, run: Run, shape: JobShape) -> tuple[list[int] | None, str | None]:
    """Return the global GPU ids of the ranks, and what had to be assumed; None when the plan is smaller than the job."""
    server = resolve_server(plan.spec, plan.catalog)
    groups = server_groups(plan)
    ranks = run.ranks.sort("rank").unique("rank", keep="first", maintain_order=True)
    placed = ranks.with_columns(pl.col("host").str.to_lowercase().str.split(".").list.first()).join(
        groups.select(pl.col("name").str.to_lowercase().alias("host"), pl.col("server").cast(pl.Int64)),
        on="host",
        how="left",
        maintain_order="left",
    )
    if placed.height == shape.ranks and not placed["server"].null_count():
        ids = placed["server"].to_numpy() * server.gpus + placed["device"].to_numpy() % server.gpus
        if np.unique(ids).size == ids.size:
            return ids.tolist(), None
    domains = groups["domain"].unique().sort().to_list()
    if len(domains) < shape.nodes:
        return None, f"the plan has {len(domains)} servers, the log {shape.nodes}: the fabric is left out"
    first = np.asarray(domains[: shape.nodes]) * server.scale_up_gpus
    per_domain = np.arange(shape.gpus_per_node)
    ids = (first[:, None] + per_domain).ravel()
    return ids.tolist(), f"the log's hosts are not in the plan; the first {shape.nodes} servers are taken for them"
