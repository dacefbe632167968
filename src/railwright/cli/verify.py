"""``railwright verify``: what was built and measured against the plan."""

from pathlib import Path
from typing import Annotated

import typer

from railwright.cli.options import Json, PlanOrSpec, Verbose


def verify(
    source: PlanOrSpec,
    acceptance: Annotated[
        Path,
        typer.Option(
            "--acceptance", metavar="DIR", help="Results of the tests that build --acceptance wrote, or their folder."
        ),
    ],
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Judge what the commissioning tests measured by the limits of the plan.

    Exit code 1 when a measurement misses its limit or an output is cut short; a test without a result is a warning.
    -v prints every measurement.
    """
    from dataclasses import asdict

    from railwright.check.acceptance import check_acceptance, read_results
    from railwright.cli.build import acceptance_of
    from railwright.cli.check import findings_as_dict, print_findings
    from railwright.cli.inputs import open_plan
    from railwright.cli.output import print_json, print_table

    results = read_results(acceptance)
    found = check_acceptance(acceptance_of(open_plan(source)), results)
    passed = sum(verdict.passed for verdict in found.verdicts)
    shown = findings_as_dict(found.findings)
    if as_json:
        counts = {"passed": passed, "failed": len(found.verdicts) - passed}
        counts |= {"missing": len(found.missing), "cut_short": len(found.cut_short)}
        print_json({**shown, "acceptance": {**counts, "verdicts": [asdict(verdict) for verdict in found.verdicts]}})
    else:
        if verbose:
            rows = [
                (v.test, v.subject, f"{v.value:g}", f"{v.limit:g}", v.unit, "ok" if v.passed else "fails")
                for v in found.verdicts
            ]
            print_table(("test", "subject", "measured", "limit", "unit", ""), rows)
        print_findings(found.findings)
        typer.echo(
            f"{passed:,} of {len(found.verdicts):,} measurements pass, {len(found.missing):,} tests have no result, "
            f"{len(found.cut_short):,} outputs are cut short"
        )
    if shown["counts"]["error"]:
        raise typer.Exit(1)
