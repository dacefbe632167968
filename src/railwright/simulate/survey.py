"""The standard runs of a plan: every collective over message sizes, one look at single links, and who talks to whom.

This is what ``railwright run`` simulates and the report shows. The flow engine runs on clusters up to ``FLOW_RANKS`` ranks for
collectives of few flows, and up to ``PAIR_RANKS`` for the all-to-all, whose flows grow with the square.
"""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from railwright.design.context import resolve_server
from railwright.design.plan import Plan
from railwright.errors import InputError
from railwright.simulate.library import taken
from railwright.simulate.matrix import TrafficMatrix, traffic_matrix
from railwright.simulate.plan_network import placement_of
from railwright.simulate.results import SimulationResult
from railwright.simulate.run import simulate_collective
from railwright.workload.collectives import collective_traffic

SIZES = tuple(float(2**power) for power in range(13, 34))
"""8 KiB to 8 GiB."""
FLOW_SIZE = float(2**30)
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "all-to-all")
FLOW_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
FLOW_RANKS = 16_384
PAIR_RANKS = 1024


@dataclass(frozen=True)
class Survey:
    """``runs`` has ``collective, algorithm, engine, size_bytes, time_us, algbw_GBps, busbw_GBps, bottleneck``.

    ``utilisation`` has ``collective, tier, direction, mean_util, max_util``. ``matrix`` is bytes by sender (row) and receiver,
    ``shares`` the part of all bytes by kind of path. ``results`` are the flow engine's runs, in full.
    """

    runs: pl.DataFrame
    utilisation: pl.DataFrame
    matrix: list[list[float]]
    matrix_labels: list[str]
    matrix_unit: str
    shares: dict[str, float]
    nic_gbytes_s_per_server: float
    engines: tuple[str, ...]
    notes: tuple[str, ...]
    results: tuple[SimulationResult, ...]


def survey(plan: Plan, *, seed: int | None = None, progress: Callable[[str], None] = lambda _: None) -> Survey:
    """Run the standard simulations of ``plan``; ``progress`` is told what runs next."""
    server = resolve_server(plan.spec, plan.catalog)
    placement = placement_of(plan)
    rows, results, notes = [], [], []
    for collective in COLLECTIVES:
        progress(f"{collective}, analytic")
        rows += [_row(simulate_collective(plan, collective, size, seed=seed)) for size in SIZES]
    for collective in FLOW_COLLECTIVES:
        limit = PAIR_RANKS if collective == "all-to-all" else FLOW_RANKS
        if placement.ranks > limit:
            notes.append(
                f"The {collective} of {placement.ranks:,} ranks is analytic only: the flow engine runs it up to {limit:,} here."
            )
            continue
        progress(f"{collective}, flow")
        result = simulate_collective(plan, collective, FLOW_SIZE, engine="flow", seed=seed)
        results.append(result)
        rows.append(_row(result))
    matrix = _who_to_whom(plan)
    return Survey(
        runs=pl.DataFrame(rows),
        utilisation=_utilisation(plan, results),
        matrix=matrix.cells.tolist(),
        matrix_labels=matrix.labels,
        matrix_unit=matrix.unit,
        shares=matrix.shares,
        nic_gbytes_s_per_server=server.backend.count * server.backend.ports * server.backend.gbps / 8,
        engines=("analytic", "flow") if results else ("analytic",),
        notes=tuple(notes),
        results=tuple(results),
    )


def _row(result: SimulationResult) -> dict[str, object]:
    summary = result.as_dict()
    busiest = summary["bottleneck"][0] if summary["bottleneck"] else None
    return {
        **{key: summary["setting"][key] for key in ("collective", "algorithm", "engine", "size_bytes")},
        **{key: summary[key] for key in ("time_us", "algbw_GBps", "busbw_GBps")},
        "bottleneck": f"{busiest['from']} to {busiest['to']} ({busiest['util']:.0%})"
        if busiest
        else "; ".join(result.engine.why),
    }


def _utilisation(plan: Plan, results: list[SimulationResult]) -> pl.DataFrame:
    schema = {
        "collective": pl.String,
        "tier": pl.String,
        "direction": pl.String,
        "mean_util": pl.Float64,
        "max_util": pl.Float64,
    }
    tiers = plan.links.select("link_id", tier=pl.col("tier").cast(pl.String).str.replace("_", " to "))
    frames = [
        result.engine.links_used.join(tiers, on="link_id", how="left")
        .with_columns(
            tier=pl.col("tier").fill_null("NVLink"),
            direction=pl.when("forward").then(pl.lit("up")).otherwise(pl.lit("down")),
            collective=pl.lit(result.setting["collective"]),
        )
        .group_by("collective", "tier", "direction", maintain_order=True)
        .agg(mean_util=pl.col("util").mean(), max_util=pl.col("util").max())
        for result in results
    ]
    return pl.concat(frames) if frames else pl.DataFrame(schema=schema)


def _who_to_whom(plan: Plan) -> TrafficMatrix:
    """Return the bytes between GPUs of one all-reduce and one all-to-all of the same size.

    The all-to-all is that of the first ``PAIR_RANKS``.
    """
    everywhere = placement_of(plan)
    few = everywhere if everywhere.ranks <= PAIR_RANKS else placement_of(plan, PAIR_RANKS)
    if everywhere.ranks < 2:
        raise InputError("one GPU has nobody to talk to; a cluster needs at least 2", key="cluster.gpus")
    jobs = []
    for name, placement in (("all-reduce", everywhere), ("all-to-all", few)):
        runs = taken(plan, name, FLOW_SIZE, placement)
        jobs.append(collective_traffic(name, FLOW_SIZE, placement, algorithm=runs.algorithm, channels=runs.channels))
    return traffic_matrix(pl.concat(jobs), everywhere)
