"""``railwright run``: the main job. One spec becomes a folder with plan, results, findings and report.

::

    DIR/plan/           the plan, as ``railwright plan`` writes it
    DIR/results/<id>/   one folder per simulation, as ``railwright simulate -o`` writes it
    DIR/results/runs.csv  all runs in one table: collective, engine, size, time, bandwidths
    DIR/findings.json   as ``railwright check --json`` prints it
    DIR/report.html     the report
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railwright.cli.options import Directory, Json, Quiet, Seed, Verbose

if TYPE_CHECKING:
    from railwright.design.plan import Plan
    from railwright.simulate.results import SimulationResult
    from railwright.simulate.survey import Survey

_HEADLINE = "all-reduce"
_PLAN_PROOF = "plan/plan.yaml"


def run(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The spec, a YAML file.")],
    output: Directory,
    seed: Seed = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Plan, check, simulate and report: one spec in, one folder out."""
    from railwright.cli.check import findings_as_dict
    from railwright.cli.folders import RUN_ENTRIES, check_folder, new_folder
    from railwright.cli.inputs import design_spec
    from railwright.cli.output import Steps, print_json
    from railwright.cli.output import as_json as to_json

    steps = Steps(quiet=quiet or as_json)
    check_folder(output, RUN_ENTRIES, _PLAN_PROOF)
    with steps.step("plan", f"design the networks of {spec}") as say:
        plan = design_spec(spec, seed, say)

    from railwright.check.engine import check_plan
    from railwright.design.summary import summarise
    from railwright.report.content import collect
    from railwright.report.html import write_html
    from railwright.simulate.survey import survey

    with steps.step("check", "check the rules"):
        findings = check_plan(plan)
    with steps.step("simulate", "simulate collectives") as say:
        runs = survey(plan, seed=seed, progress=say)
    with new_folder(output, RUN_ENTRIES, _PLAN_PROOF) as folder:
        with steps.step("write", "write plan, results and findings"):
            plan.save(folder / "plan")
            _save_results(runs, folder / "results")
            text = to_json(findings_as_dict(findings)) + "\n"
            (folder / "findings.json").write_text(text, encoding="utf-8")
        with steps.step("report", "draw the report"):
            write_html(collect(plan, findings, runs), folder / "report.html")
    parts = {
        "plan": summarise(plan),
        "check": findings_as_dict(findings),
        "simulate": _simulations(plan, runs),
        "report": {"path": str(output / "report.html")},
        "elapsed_s": steps.seconds,
    }
    if as_json:
        print_json(parts)
    else:
        _print(parts, verbose=verbose)


def _result_id(result: "SimulationResult") -> str:
    """Return the name of a result's folder: ``all-reduce-1GiB-flow``."""
    from railwright.units import format_bytes

    setting = result.setting
    return f"{setting['collective']}-{format_bytes(setting['size_bytes']).replace(' ', '')}-{setting['engine']}"


def _save_results(runs: "Survey", folder: Path) -> None:
    folder.mkdir()
    runs.runs.write_csv(folder / "runs.csv")
    for result in runs.results:
        result.save(folder / _result_id(result))


def _simulations(plan: "Plan", runs: "Survey") -> dict[str, Any]:
    """Return the keys of ``simulate --json`` for the headline run, then all ``runs`` and the ``results`` by id."""
    from railwright.simulate.run import simulate_collective
    from railwright.simulate.survey import FLOW_SIZE

    full = {_result_id(result): result for result in runs.results}
    headline = next((result for result in full.values() if result.setting["collective"] == _HEADLINE), None)
    shown = headline or simulate_collective(plan, _HEADLINE, FLOW_SIZE)
    return {
        **shown.as_dict(),
        "runs": runs.runs.to_dicts(),
        "results": {name: result.as_dict() for name, result in full.items()},
        "notes": list(runs.notes),
    }


def _print(parts: dict[str, Any], *, verbose: bool) -> None:
    from railwright.cli.output import print_table
    from railwright.cli.plan import print_summary
    from railwright.units import format_bytes, format_us

    print_summary(parts["plan"], verbose=verbose)
    simulate = parts["simulate"]
    rows = [run for run in simulate["runs"] if verbose or run["size_bytes"] == simulate["setting"]["size_bytes"]]
    columns = ("collective", "engine", "size", "time", "busbw GB/s", "bottleneck")
    typer.echo("")
    print_table(
        columns,
        [
            (
                run["collective"],
                run["engine"],
                format_bytes(run["size_bytes"]),
                format_us(run["time_us"]),
                round(run["busbw_GBps"], 1),
                run["bottleneck"],
            )
            for run in rows
        ],
    )
    counts = parts["check"]["counts"]
    typer.echo("\nfindings: " + ", ".join(f"{count} {severity}" for severity, count in counts.items()))
    seconds = sum(parts["elapsed_s"].values())
    typer.echo(f"report:   {parts['report']['path']} ({seconds:.1f} s in all)")
