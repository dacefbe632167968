"""``railwright check``: the rules that a plan breaks."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railwright.cli.options import Json, Quiet, Seed, Verbose
from railwright.errors import InputError

if TYPE_CHECKING:
    from railwright.findings import Finding


def check(
    source: Annotated[
        Path | None, typer.Argument(metavar="[PLAN|SPEC]", help="Folder of a plan or of a run, or a spec.")
    ] = None,
    configs: Annotated[
        Path | None,
        typer.Option(
            "--configs", metavar="DIR", help="Configurations, a folder per device; alone or against the plan."
        ),
    ] = None,
    seed: Seed = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Say which rules a plan or its configurations break, why, and how to mend it.

    With --configs the configurations are checked: against each other, and against the plan when there is one. Exit code 1
    when a finding is an error. Findings that the spec waives (# railwright: ignore RW101 because …) do not count.
    """
    from railwright.cli.inputs import open_plan
    from railwright.cli.output import print_json

    plan = None if source is None else open_plan(source, seed)
    if configs is not None:
        from railwright.check.configs import check_configs

        findings = check_configs(configs, plan)
    elif plan is not None:
        from railwright.check.engine import check_plan

        findings = check_plan(plan)
    else:
        raise InputError(
            "give a plan or a spec, or --configs with a folder of configurations, or both", key="PLAN|SPEC"
        )
    if as_json:
        print_json(findings_as_dict(findings))
    else:
        print_findings(findings, verbose=verbose)
    if findings_as_dict(findings)["counts"]["error"]:
        raise typer.Exit(1)


def findings_as_dict(findings: Sequence["Finding"]) -> dict[str, Any]:
    """Return the keys of ``check --json``: ``findings`` and ``counts`` by severity."""
    from railwright.findings import count_by_severity

    return {"findings": [finding.as_dict() for finding in findings], "counts": count_by_severity(list(findings))}


def print_findings(findings: Sequence["Finding"], *, verbose: bool = False) -> None:
    """Print findings with their fixes; waived ones only with ``verbose``, with the reason."""
    from railwright.cli.output import print_paragraphs
    from railwright.findings import count_by_severity

    shown = [finding for finding in findings if verbose or finding.ignored is None]
    print_paragraphs(
        (
            ("waived" if finding.ignored is not None else finding.severity.value, f"{finding.code} {finding.subject}"),
            finding.message,
            f"reason: {finding.ignored}" if finding.ignored is not None else f"fix: {finding.fix}",
        )
        for finding in shown
    )
    counts = count_by_severity(list(findings))
    typer.echo(", ".join(f"{count} {severity}" for severity, count in counts.items()))
