"""``railwright jobs``: several jobs on one fabric, and what sharing it costs each of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railwright.cli.options import Json, PlanOrSpec, Quiet, Seed

if TYPE_CHECKING:
    from railwright.simulate.jobs.side_by_side import JobsResult

_LINKS = 10


def jobs(
    source: PlanOrSpec,
    file: Annotated[Path, typer.Argument(metavar="JOBS.yaml", help="The jobs (docs/busbw.md has the format).")],
    engine: Annotated[str, typer.Option("--engine", metavar="ENGINE", help="flow or packet.")] = "flow",
    paths: Annotated[
        str | None,
        typer.Option("--paths", metavar="MODE", help="ecmp, spray, adaptive, flowlet or rail. Default: the plan's."),
    ] = None,
    fail: Annotated[
        list[str] | None,
        typer.Option("--fail", metavar="WHAT", help="A failure, for example leaf:rail3-leaf1; again for more."),
    ] = None,
    seed: Seed = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run several jobs side by side: how much each slows the others."""
    from railwright.cli.inputs import open_plan
    from railwright.cli.output import Steps, print_json
    from railwright.simulate.jobs.side_by_side import read_jobs, simulate_jobs

    steps = Steps(quiet=quiet or as_json)
    with steps.step("plan", f"open {source}"):
        plan = open_plan(source, seed)
        placed = read_jobs(file, plan, seed)
    with steps.step("simulate", f"{len(placed)} jobs, {engine}"):
        result = simulate_jobs(plan, placed, engine, paths=paths, fail=tuple(fail or ()), seed=seed)
    if as_json:
        links = result.shared_links.head(_LINKS).to_dicts()
        print_json(
            {"jobs": [job.as_dict() for job in result.jobs], "shared_links": links, "setting": dict(result.setting)}
        )
    else:
        _print(result)


def _print(result: "JobsResult") -> None:
    from railwright.cli.output import print_table
    from railwright.units import format_bytes, format_us

    rows = []
    for job in result.jobs:
        told = job.as_dict()
        rows.append(
            (
                told["name"],
                told["nodelist"],
                told["policy"] or "as given",
                told["ranks"],
                f"{told['collective']} {format_bytes(told['size_bytes'])}",
                told["algorithm"],
                format_us(told["time_alone_us"]),
                format_us(told["time_shared_us"]),
                f"{told['slowdown']:.2f}x",
                ", ".join(f"{name} ({share:.0%})" for name, share in told["hit_by"].items()) or "-",
            )
        )
    columns = (
        "job",
        "servers",
        "policy",
        "ranks",
        "runs",
        "by",
        "alone",
        "together",
        "slowdown",
        "meets (share of a link)",
    )
    print_table(columns, rows)
    typer.echo("")
    if result.shared_links.is_empty():
        typer.echo("no link carries two jobs")
        return
    print_table(
        ("shared link from", "to", "utilisation", "jobs"),
        [
            (row["from"], row["to"], f"{row['util']:.0%}", ", ".join(row["jobs"]))
            for row in result.shared_links.head(_LINKS).iter_rows(named=True)
        ],
    )
