"""``railwright build``: configuration for every box of a plan."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railwright.cli.options import Directory, Json, PlanOrSpec, Quiet, Verbose

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from railwright.build.readings import Readings
    from railwright.build.render import Build
    from railwright.design.plan import Plan

_SHOWN = 40


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
    network_manager: Annotated[
        bool, typer.Option("--network-manager", help="Servers use NetworkManager (keyfiles) instead of netplan.")
    ] = False,
    acceptance: Annotated[
        bool, typer.Option("--acceptance", help="Add the commissioning tests and their limits.")
    ] = False,
    documents: Annotated[
        bool, typer.Option("--documents", help="Add cable schedule, bill of materials, elevations and install sheets.")
    ] = False,
    export: Annotated[
        list[str] | None,
        typer.Option(
            "--export", metavar="TOOL", help="Add files for netbox, containerlab, topo or dot; again for several."
        ),
    ] = None,
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
    papers = _papers(documents, export or [])
    plan = open_plan(source)
    known = guids_from(guids.read_text(encoding="utf-8")) if guids is not None else None
    with steps.step("render", f"render {len(plan.devices):,} devices"):
        made = render_plan(plan, tuple(nos or ()), platform, convention, known, network_manager=network_manager)
        if acceptance:
            made = made.with_files(acceptance_of(plan, convention))
    with steps.step("write", f"write {len(made.files):,} files to {output}"):
        manifest = write_build(made, output, lambda folder: papers(plan, folder))
    if as_json:
        print_json({**manifest, "elapsed_s": round(perf_counter() - start, 3)})
    else:
        _print(made, output, len(manifest["files"]), verbose=verbose)


def diff(
    before: Annotated[Path, typer.Argument(metavar="A", help="A plan, a spec, or a folder of configurations.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="What it becomes.")],
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Say what changes between two plans or two sets of configurations, and in which order to roll it out and back."""
    from railwright.build.difference import difference
    from railwright.cli.output import print_json, print_table

    found = difference(_configurations(before), _configurations(after))
    if as_json:
        print_json(found.as_dict())
        return
    rows = [(c.device, c.key, c.before, c.after) for c in found.changes]
    print_table(("device", "fact", "before", "after"), rows if verbose else rows[:_SHOWN])
    if len(rows) > _SHOWN and not verbose:
        typer.echo(f"… and {len(rows) - _SHOWN:,} more (-v lists all)")
    for number, step in enumerate(found.rollout, start=1):
        typer.echo(
            f"{number:>4}. {'drain, then change' if step.drain else 'change'}: {', '.join(step.devices)} ({step.layer})"
        )
    typer.echo(f"{len(found.added)} added, {len(found.removed)} removed, {len(rows)} facts changed")


def _configurations(path: Path) -> "Readings":
    """Return what a folder of configurations says, or what a plan's would say."""
    from railwright.build.readings import read_configs, read_files
    from railwright.build.render import render_plan
    from railwright.cli.inputs import open_plan

    if path.is_dir() and not any((path / name).exists() for name in ("plan.yaml", "plan")):
        return read_configs(path)
    return read_files(render_plan(open_plan(path)).files)


def acceptance_of(plan: "Plan", convention: str | None = None) -> dict[str, str]:
    """Return the commissioning tests of ``plan`` with the collective bandwidth that its fabric should give."""
    from railwright.build.acceptance import COLLECTIVES, acceptance_files, rail_gpus
    from railwright.simulate.busbw import open_fabric, rows
    from railwright.simulate.scopes import scope_of

    fabric = open_fabric(plan)
    sizes = [2.0**20 * 4**n for n in range(7)] + [8.0 * 2**30]
    servers = plan.devices.filter(plan.devices["role"] == "server")
    pods = servers["pod"].drop_nulls().unique().sort().to_list()
    names = {"cluster": "cluster"} | ({f"pod:{pod}": f"pod{pod}" for pod in pods} if len(pods) > 1 else {})
    if len(servers) > 1:
        names |= {f"rail:{rail}": f"rail{rail}" for rail in rail_gpus(plan)["rail"]}
    expected: list[dict[str, Any]] = []
    for asked, name in names.items():
        scope = scope_of(plan, asked)
        for collective in COLLECTIVES:
            table = rows(fabric, scope, collective, sizes)
            expected += [{**row, "scope": name, "collective": collective} for row in table.to_dicts()]
    return acceptance_files(plan, expected, convention)


def _papers(documents: bool, exports: list[str]) -> "Callable[[Plan, Path], list[Path]]":
    """Return what writes the papers and exports that were asked for; raises InputError for a tool that there is not."""
    from railwright.build.exports import check_export, write_export

    for kind in exports:
        check_export(kind)

    def write(plan: "Plan", folder: Path) -> list[Path]:
        files: list[Path] = []
        if documents:
            from railwright.build.documents import write_documents

            files += write_documents(plan, folder / "documents")
        for kind in dict.fromkeys(exports):
            files += write_export(plan, kind, folder / "exports" / kind)
        return files

    return write


def write_build(made: "Build", output: Path, more: "Callable[[Path], list[Path]] | None" = None) -> dict[str, Any]:
    """Write all files of ``made`` as the folder ``output`` and return the manifest; an older build is replaced as a whole.

    ``more`` writes further files into the folder that it is given, and returns them.
    """
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
            elif path.endswith(".nmconnection"):
                target.chmod(0o600)  # NetworkManager takes no other
        others = [file.relative_to(folder).as_posix() for file in more(folder)] if more is not None else []
        manifest = made.manifest()
        manifest["files"] = sorted([*manifest["files"], *others])
        (folder / MANIFEST).write_text(as_json(manifest) + "\n", encoding="utf-8")
    return manifest


def _grouped(reasons: "Mapping[str, str]") -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for box, why in reasons.items():
        found.setdefault(why, []).append(box)
    return found


def _print(made: "Build", output: Path, files: int, *, verbose: bool) -> None:
    from railwright.cli.output import print_table

    counts: dict[str, int] = {}
    for system in made.systems.values():
        counts[system] = counts.get(system, 0) + 1
    rows: list[tuple[Any, ...]] = [(system, count) for system, count in sorted(counts.items())]
    print_table(("operating system", "switches"), rows)
    typer.echo(f"\n{files:,} files in {output}; check them any time: railwright check --configs {output}")
    for why, boxes in _grouped(made.shortfalls).items():
        typer.echo(f"{len(boxes):,} switches fall short of the plan's path mode: {why}")
    if made.skipped:
        typer.echo(f"{len(made.skipped):,} boxes have none" + ("" if verbose else " (-v says why)"))
        if verbose:
            print_table(("box", "why"), sorted(made.skipped.items()))
