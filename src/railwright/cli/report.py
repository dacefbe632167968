"""``railwright report``: one HTML file about a plan that works offline."""

from pathlib import Path
from typing import Annotated

import typer

from railwright.cli.options import Json, PlanOrSpec, Quiet, Seed


def report(
    source: PlanOrSpec,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="File to write.")] = Path(
        "report.html"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    seed: Seed = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the report of a plan: one HTML file that works offline."""
    from railwright.check.engine import check_plan
    from railwright.cli.folders import check_file, write_file
    from railwright.cli.inputs import open_plan
    from railwright.cli.output import Steps, print_json
    from railwright.report.content import collect
    from railwright.report.html import render
    from railwright.simulate.survey import survey

    steps = Steps(quiet=quiet or as_json)
    check_file(output, force=force)
    with steps.step("plan", f"open {source}"):
        plan = open_plan(source, seed)
    with steps.step("check", "check the rules"):
        findings = check_plan(plan)
    with steps.step("simulate", "simulate collectives") as say:
        runs = survey(plan, seed=seed, progress=say)
    with steps.step("report", f"write {output}"):
        write_file(output, render(collect(plan, findings, runs)), force=force)
    if as_json:
        print_json({"path": str(output), "elapsed_s": steps.seconds})
    else:
        typer.echo(f"report: {output}")
