"""``railwright build``: configuration for every box of a plan."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railwright.cli.options import Directory, Json, PlanOrSpec, Quiet, Verbose

if TYPE_CHECKING:
    from railwright.build.render import Build


def build(
    source: PlanOrSpec,
    output: Directory,
    nos: Annotated[
        list[str] | None,
        typer.Option(
            "--nos", metavar="NOS", help="sonic, nvue, eos or frr; again for several. Default: the platform's."
        ),
    ] = None,
    platform: Annotated[
        str | None, typer.Option("--platform", metavar="KEY", help="Re-target the Ethernet fabrics to this switch.")
    ] = None,
    convention: Annotated[
        str | None,
        typer.Option(
            "--convention", metavar="NAME", help="DSCPs, priorities and thresholds of a vendor (docs/qos.md)."
        ),
    ] = None,
    guids: Annotated[
        Path | None, typer.Option("--guids", metavar="FILE", help="Output of ibnetdiscover: the GUIDs of the nodes.")
    ] = None,
    acceptance: Annotated[
        bool, typer.Option("--acceptance", help="Add the commissioning tests and their limits.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write the configuration of every box of a plan: switches, servers, subnet managers, services."""
    from railwright.build.opensm import guids_from
    from railwright.build.render import render_plan
    from railwright.cli.folders import check_folder
    from railwright.cli.inputs import open_plan
    from railwright.cli.output import Steps, print_json

    start = perf_counter()
    steps = Steps(quiet=quiet or as_json)
    check_folder(output, ("*",), "build.json")
    plan = open_plan(source)
    known = guids_from(guids.read_text(encoding="utf-8")) if guids is not None else None
    with steps.step("render", f"render {len(plan.devices):,} devices"):
        made = render_plan(plan, tuple(nos or ()), platform, convention, known)
        if acceptance:
            from railwright.build.acceptance import acceptance_files

            made = made.with_files(acceptance_files(plan))
    with steps.step("write", f"write {len(made.files):,} files to {output}"):
        write_build(made, output)
    if as_json:
        print_json({**made.manifest(), "elapsed_s": round(perf_counter() - start, 3)})
    else:
        _print(made, output, verbose=verbose)


def write_build(made: "Build", output: Path) -> None:
    """Write all files of ``made`` as the folder ``output``; an older build there is replaced as a whole."""
    from railwright.build.render import MANIFEST, check_paths
    from railwright.cli.folders import new_folder
    from railwright.cli.output import as_json

    check_paths(made.files)
    with new_folder(output, ("*",), MANIFEST) as folder:
        for parent in {(folder / path).parent for path in made.files}:
            parent.mkdir(parents=True, exist_ok=True)
        for path, text in made.files.items():
            target = folder / path
            target.write_text(text, encoding="utf-8")
            if text.startswith("#!"):
                target.chmod(0o755)
        (folder / MANIFEST).write_text(as_json(made.manifest()) + "\n", encoding="utf-8")


def _print(made: "Build", output: Path, *, verbose: bool) -> None:
    from railwright.cli.output import print_table

    counts: dict[str, int] = {}
    for system in made.systems.values():
        counts[system] = counts.get(system, 0) + 1
    rows: list[tuple[Any, ...]] = [(system, count) for system, count in sorted(counts.items())]
    print_table(("operating system", "switches"), rows)
    typer.echo(f"\n{len(made.files):,} files in {output}; check them any time: railwright check --configs {output}")
    if made.skipped:
        typer.echo(f"{len(made.skipped):,} boxes have none" + ("" if verbose else " (-v says why)"))
        if verbose:
            print_table(("box", "why"), sorted(made.skipped.items()))
