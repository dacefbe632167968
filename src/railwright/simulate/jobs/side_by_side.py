"""Jobs side by side on one fabric: where each runs, how long it takes alone and with the others, and who is in whose way.

The traffic of all jobs is one table; "alone" is the same rows of one job by themselves, with the same operation ids, so that
hashed paths are the same in both runs and the slowdown is what sharing costs. A job that ends early leaves the rest in peace:
``repeat`` keeps a short one busy for longer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field, model_validator

from railwright.design.context import resolve_server
from railwright.design.plan import Plan
from railwright.documents import read_document
from railwright.errors import InputError, nearest
from railwright.simulate.jobs.files import read_ranks, read_topology
from railwright.simulate.jobs.nodelist import compress, expand
from railwright.simulate.jobs.place import NoRoomError, check_names, groups_of, place
from railwright.simulate.library import Taken, cross_rail_of, queue_pairs_of, taken
from railwright.simulate.network import SCALE_UP, Network
from railwright.simulate.plan_goodput import plan_paths
from railwright.simulate.plan_network import network_from_plan, placement_of
from railwright.simulate.results import EngineResult
from railwright.simulate.run import PATHS, run_engine
from railwright.spec.quantities import Bytes, Count, CountOrZero, Microseconds, Name
from railwright.validation import validate
from railwright.workload.collectives import bus_factor, collective_name, collective_traffic
from railwright.workload.placement import Placement
from railwright.workload.repeat import repeated
from railwright.workload.traffic import merge

ENGINES = ("flow", "packet")
_HIT_BY = 0.01
"""A job is in another's way when it puts this share of that job's bytes on a link that both use."""


class JobSpec(BaseModel):
    """One job of a jobs file; exactly one of ``gpus``, ``nodes`` and ``rank_file`` says how many GPUs, or where."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    gpus: Count | None = None
    policy: Literal["packed", "rail-aware", "spread", "random"] = "packed"
    nodes: str | None = None
    rank_file: str | None = None
    collective: str = "all-reduce"
    size: Bytes = float(2**30)
    algorithm: str | None = None
    start: Microseconds = 0.0
    repeat: Count = Field(1, le=1000)

    @model_validator(mode="after")
    def _one_way(self) -> "JobSpec":
        if sum(value is not None for value in (self.gpus, self.nodes, self.rank_file)) != 1:
            raise ValueError("a job has exactly one of gpus, nodes and rank_file")
        return self


class JobsFile(BaseModel):
    """A jobs file: jobs in the order in which they are placed; ``busy`` and ``topology`` as for ``place``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    jobs: tuple[JobSpec, ...] = Field(min_length=1)
    busy: str = ""
    topology: str | None = None
    seed: CountOrZero | None = None


@dataclass(frozen=True)
class Job:
    """A job with its place: ``servers`` are names, ``policy`` None where the user said which nodes."""

    spec: JobSpec
    policy: str | None
    servers: tuple[str, ...]
    placement: Placement


@dataclass(frozen=True)
class JobResult:
    """What became of a job; ``hit_by`` maps a job in its way to the share of the busiest common link that it takes."""

    job: Job
    collective: str
    algorithm: str
    alone_us: float
    shared_us: float
    alone_busbw_gbytes_s: float
    shared_busbw_gbytes_s: float
    hit_by: Mapping[str, float]

    @property
    def slowdown(self) -> float:
        """Time with the others over time alone."""
        return self.shared_us / self.alone_us

    def as_dict(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {
            "name": self.job.spec.name,
            "nodelist": compress(self.job.servers),
            "policy": self.job.policy,
            "ranks": self.job.placement.ranks,
            "collective": self.collective,
            "algorithm": self.algorithm,
            "size_bytes": self.job.spec.size,
            "repeat": self.job.spec.repeat,
            "time_alone_us": self.alone_us,
            "time_shared_us": self.shared_us,
            "slowdown": self.slowdown,
            "busbw_alone_GBps": self.alone_busbw_gbytes_s,
            "busbw_shared_GBps": self.shared_busbw_gbytes_s,
            "hit_by": dict(self.hit_by),
        }


@dataclass(frozen=True)
class JobsResult:
    """All jobs, the run of all together, and the links that several jobs use: from, to, util, jobs; the busiest first."""

    jobs: tuple[JobResult, ...]
    together: EngineResult
    shared_links: pl.DataFrame
    setting: Mapping[str, Any]


def read_jobs(path: Path, plan: Plan, seed: int | None = None) -> list[Job]:
    """Return the jobs of the file ``path`` with their places on ``plan``; raises InputErrors with the lines.

    Files that it names are relative to its folder. Jobs without nodes of their own get theirs after those that have some, in
    the order of the file.
    """
    document = read_document(path, what="a jobs file")
    file = validate(JobsFile, document)
    names = [spec.name for spec in file.jobs]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise document.error(("jobs", number, "name"), f"there are two jobs {name!r}")
    topology = read_topology(path.parent / file.topology) if file.topology else None
    number = file.seed if file.seed is not None else plan.spec.seed if seed is None else seed
    groups = groups_of(plan, topology)
    owners = dict.fromkeys(expand(file.busy, key="busy"), "busy")
    check_names(groups, list(owners), "busy")
    placed: dict[str, Job] = {}
    for fixed in (True, False):
        for index, spec in enumerate(file.jobs):
            if (spec.gpus is None) != fixed:
                continue
            try:
                job = (
                    _named(plan, spec, path.parent, groups)
                    if fixed
                    else _free(plan, spec, groups, owners, number + index)
                )
            except InputError as error:
                if error.file is not None:
                    raise
                key = "policy" if spec.gpus else "nodes" if spec.nodes else "rank_file"
                raise document.error(("jobs", index, key), error.message) from None
            meeting = [name for name in job.servers if name in owners and owners[name] != spec.name]
            if meeting and fixed:
                raise document.error(
                    ("jobs", index), f"{meeting[0]} is {_whose(owners[meeting[0]])} already; jobs do not share servers"
                )
            owners |= dict.fromkeys(job.servers, spec.name)
            placed[spec.name] = job
    return [placed[name] for name in names]


def _whose(owner: str) -> str:
    return "busy" if owner == "busy" else f"given to job {owner!r}"


def _named(plan: Plan, spec: JobSpec, folder: Path, groups: pl.DataFrame) -> Job:
    """Return the job on the nodes that the user names."""
    per_server = resolve_server(plan.spec, plan.catalog).gpus
    index = dict(zip(groups["name"], groups["server"].to_list(), strict=True))
    if spec.nodes is not None:
        names = expand(spec.nodes, key="nodes")
        check_names(groups, names, "nodes")
        gpus = (np.array([index[name] for name in names])[:, None] * per_server + np.arange(per_server)).ravel()
        return Job(spec, None, tuple(names), placement_of(plan, gpus.tolist()))
    places = read_ranks(folder / str(spec.rank_file))
    check_names(groups, [rank.host for rank in places], "rank_file")
    ids, next_free = [], dict.fromkeys(index, 0)
    for rank in places:
        gpu = next_free[rank.host] if rank.gpu is None else rank.gpu
        next_free[rank.host] = gpu + 1
        if gpu >= per_server:
            raise InputError(f"{rank.host} has GPUs 0 to {per_server - 1}, not {gpu}", key="rank_file")
        ids.append(index[rank.host] * per_server + gpu)
    return Job(spec, None, tuple(dict.fromkeys(rank.host for rank in places)), placement_of(plan, ids))


def _free(plan: Plan, spec: JobSpec, groups: pl.DataFrame, owners: Mapping[str, str], seed: int) -> Job:
    per_server = resolve_server(plan.spec, plan.catalog).gpus
    wanted = int(spec.gpus or 0)
    try:
        found = place(groups, -(-wanted // per_server), policy=spec.policy, busy=tuple(owners), seed=seed)
    except NoRoomError as error:
        raise NoRoomError(f"job {spec.name!r}: {error}") from None
    gpus = (np.array(found.servers)[:, None] * per_server + np.arange(per_server)).ravel()[:wanted]
    return Job(spec, spec.policy, found.names, placement_of(plan, gpus.tolist()))


def simulate_jobs(
    plan: Plan,
    jobs: Sequence[Job],
    engine: str = "flow",
    *,
    paths: str | None = None,
    fail: Sequence[str] = (),
    seed: int | None = None,
) -> JobsResult:
    """Run ``jobs`` together and each alone on the backend of ``plan``.

    ``engine`` is ``flow`` or ``packet``; ``paths``, ``fail`` and ``seed`` as for `run.simulate_collective`. Raises InputError.
    """
    for value, allowed, key in ((engine, ENGINES, "engine"), (paths, (*PATHS, None), "paths")):
        if value not in allowed:
            known = [word for word in allowed if word]
            raise InputError(
                f"{key} {value!r} is unknown{nearest(str(value), known)}; choose one of {', '.join(known)}", key=key
            )
    way = paths or plan_paths(plan)
    number = plan.spec.seed if seed is None else seed
    network = network_from_plan(plan)
    names = [collective_name(job.spec.collective) for job in jobs]
    chosen = [
        taken(plan, name, job.spec.size, job.placement, algorithm=job.spec.algorithm)
        for job, name in zip(jobs, names, strict=True)
    ]
    crossing, pairs = cross_rail_of(plan), queue_pairs_of(plan, paths=paths) if engine == "flow" else 1
    tables = [_traffic(job, name, runs, crossing) for job, name, runs in zip(jobs, names, chosen, strict=True)]
    traffic = merge(tables)

    def run(rows: pl.DataFrame) -> EngineResult:
        return run_engine(
            plan, network, rows, engine, paths=way, seed=number, fail=tuple(fail), queue_pairs=pairs
        ).finished()

    together = run(traffic)
    ends = dict(together.flows.group_by("job").agg(pl.col("finish_us").max()).iter_rows())
    alone = [run(traffic.filter(pl.col("job") == job.spec.name)) for job in jobs]
    links = _links_by_job(network, jobs, alone)
    results = []
    for job, name, runs, single in zip(jobs, names, chosen, alone, strict=True):
        times = [float(end) - job.spec.start for end in (single.finish_us, ends[job.spec.name])]
        size = job.spec.size * job.spec.repeat * bus_factor(name, job.placement.ranks) / 1e3
        results.append(
            JobResult(
                job, name, runs.algorithm, times[0], times[1], size / times[0], size / times[1], _hit_by(links, job)
            )
        )
    return JobsResult(
        jobs=tuple(results),
        together=together,
        shared_links=_shared(links, together),
        setting={"engine": engine, "paths": way, "fail": list(fail), "seed": number},
    )


def _traffic(job: Job, collective: str, runs: Taken, cross_rail: str) -> pl.DataFrame:
    table = collective_traffic(
        collective,
        job.spec.size,
        job.placement,
        algorithm=runs.algorithm,
        channels=runs.channels,
        cross_rail=cross_rail,
        job=job.spec.name,
    ).with_columns(start_us=pl.col("start_us") + job.spec.start)
    return repeated(table, job.spec.repeat)


def _links_by_job(network: Network, jobs: Sequence[Job], alone: Sequence[EngineResult]) -> pl.DataFrame:
    """Return one row per job and direction of a link that it uses: link_id, forward, from, to, job, bytes."""
    inside = (network.node_kind[network.link_src] == SCALE_UP) | (network.node_kind[network.link_dst] == SCALE_UP)
    ends = pl.DataFrame(
        {
            "link_id": network.link_id.repeat(2),
            "forward": np.arange(network.link_src.size) % 2 == 0,
            "from": network.node_name.gather(network.link_src),
            "to": network.node_name.gather(network.link_dst),
            "inside": inside,
        }
    )
    used = [
        result.links_used.filter(pl.col("bytes") > 0).select(
            "link_id", "forward", "bytes", pl.lit(job.spec.name).alias("job")
        )
        for job, result in zip(jobs, alone, strict=True)
    ]
    return pl.concat(used).join(ends, on=["link_id", "forward"], how="left").filter(~pl.col("inside")).drop("inside")


def _hit_by(links: pl.DataFrame, job: Job) -> dict[str, float]:
    """Return the other jobs by their share of the bytes on the link where they meet this one most."""
    mine = links.filter(pl.col("job") == job.spec.name).select("link_id", "forward", own="bytes")
    total = links.group_by("link_id", "forward").agg(total=pl.col("bytes").sum())
    met = (
        links.filter(pl.col("job") != job.spec.name)
        .join(mine, on=["link_id", "forward"])
        .join(total, on=["link_id", "forward"])
        .filter(pl.col("bytes") >= _HIT_BY * pl.col("own"))
        .group_by("job")
        .agg((pl.col("bytes") / pl.col("total")).max().alias("share"))
        .sort(["share", "job"], descending=[True, False])
    )
    return {str(name): float(share) for name, share in met.iter_rows()}


def _shared(links: pl.DataFrame, together: EngineResult) -> pl.DataFrame:
    """Return the links that several jobs use: from, to, util (of the run together), jobs; the busiest first."""
    several = (
        links.sort("job")
        .group_by("link_id", "forward")
        .agg(pl.col("from").first(), pl.col("to").first(), pl.col("job").alias("jobs"))
        .filter(pl.col("jobs").list.len() > 1)
    )
    used = together.links_used.select("link_id", "forward", "util")
    return (
        several.join(used, on=["link_id", "forward"], how="left")
        .sort(["util", "link_id", "forward"], descending=[True, False, True])
        .select("from", "to", "util", "jobs")
    )
