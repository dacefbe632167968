"""Verbs that make plans: ``init`` writes a spec, ``plan`` designs one, ``extend`` lets a plan grow."""

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from railwright.cli.options import Directory, Json, MaybeDirectory, Quiet, Seed, Verbose
from railwright.units import counted, format_ratio, format_usd, format_w, parse_count

_Gpus = Annotated[int, typer.Option("--gpus", parser=parse_count, metavar="N", help="GPUs in total.")]


def init(
    gpus: _Gpus = 128,
    gpu: Annotated[str, typer.Option("--gpu", metavar="KEY", help="GPU or server, a key of the catalog.")] = "h100",
    transport: Annotated[str, typer.Option("--transport", metavar="T", help="rocev2 or infiniband.")] = "rocev2",
    topology: Annotated[
        str,
        typer.Option("--topology", metavar="T", help="auto, rail-only, rail-optimized, leaf-spine or multi-plane."),
    ] = "auto",
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="File to write.")] = Path(
        "cluster.yaml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    as_json: Json = False,
) -> None:
    """Write a commented spec that plans without edits."""
    from railwright.cli.folders import write_file
    from railwright.cli.inputs import check_backend
    from railwright.cli.output import print_json
    from railwright.spec.init import initial_spec

    text = initial_spec(gpus, gpu, transport, topology)
    check_backend(text)
    write_file(output, text, force=force)
    if as_json:
        print_json({"path": str(output)})
    else:
        typer.echo(f"{output} written. Next: railwright run {output} -o out")


def plan(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The spec, a YAML file.")],
    output: MaybeDirectory = None,
    shorten: Annotated[
        bool, typer.Option("--shorten", help="Search places for switches and racks that need less fibre.")
    ] = False,
    seed: Seed = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Design the networks of a spec. Without -o nothing is written."""
    from railwright.cli.folders import PLAN_ENTRIES, check_folder
    from railwright.cli.inputs import design_spec
    from railwright.cli.output import Steps, print_json
    from railwright.design.summary import summarise

    start = perf_counter()
    steps = Steps(quiet=quiet or as_json)
    if output is not None:
        check_folder(output, PLAN_ENTRIES, "plan.yaml")
    with steps.step("plan", f"design the networks of {spec}") as say:
        made = design_spec(spec, seed, say, shorten=shorten)
    if output is not None:
        with steps.step("write", f"write {output}"):
            made.save(output)
    summary = {**summarise(made), "elapsed_s": round(perf_counter() - start, 3)}
    if as_json:
        print_json(summary)
    else:
        print_summary(summary, verbose=verbose)


def extend(
    folder: Annotated[Path, typer.Argument(metavar="PLAN", help="Folder of a plan or of a run.")],
    gpus: _Gpus,
    output: Directory,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Let a plan grow to N GPUs: existing ids, addresses and cables stay, what has to move is listed."""
    from railwright.cli.folders import PLAN_ENTRIES, check_folder
    from railwright.cli.inputs import open_plan
    from railwright.cli.output import Steps, print_json, print_table
    from railwright.design.cabling import cable_plan
    from railwright.design.extend import extend_plan
    from railwright.design.summary import summarise

    steps = Steps(quiet=quiet or as_json)
    check_folder(output, PLAN_ENTRIES, "plan.yaml")
    before = open_plan(folder)
    with steps.step("extend", f"grow to {gpus} GPUs") as say:
        grown, changes = extend_plan(before, gpus, say)
        after = cable_plan(grown, say)
    with steps.step("write", f"write {output}"):
        after.save(output)
    if as_json:
        print_json({**changes, "plan": summarise(after)})
        return
    print_summary(summarise(after), verbose=verbose)
    added = changes["added"]
    rows = [(kind, name, count) for kind in ("devices", "links") for name, count in added[kind].items()]
    print_table(("added", "what", "count"), rows)
    removed = changes["removed"]
    typer.echo(
        f"\n{len(changes['moved'])} cables move, {len(removed['devices'])} devices and {removed['links']} links go"
    )
    if changes["moved"]:
        columns = ("network", "port", "from", "to", "reason")
        shown = changes["moved"] if verbose else changes["moved"][:10]
        print_table(columns, [[move[column] for column in columns] for move in shown])
        if len(shown) < len(changes["moved"]):
            typer.echo(f"… and {len(changes['moved']) - len(shown)} more (-v lists all)")


def print_summary(summary: dict[str, Any], *, verbose: bool = False) -> None:
    """Print the networks and totals of a plan; with ``verbose`` what the design chose and why."""
    from railwright.cli.output import print_table

    cluster, totals = summary["cluster"], summary["totals"]
    print_table(
        ("network", "topology", "endpoints", "switches", "links", "cables", "oversubscription"),
        (
            (
                name,
                network["topology"],
                network["endpoints"],
                " + ".join(f"{count:,} {role}" for role, count in network["switches"].items() if count) or "-",
                network["links"],
                network["cables"],
                format_ratio(network["oversubscription"]),
            )
            for name, network in summary["networks"].items()
        ),
        title=f"{cluster['name']}: {cluster['gpus']:,} GPUs in {counted(cluster['servers'], 'server', 'servers')}",
    )
    power = format_w(totals["power_w"])
    unknown = (
        f" and {counted(totals['power_unknown'], 'box', 'boxes')} of unknown draw" if totals["power_unknown"] else ""
    )
    price = format_usd(totals["known_price_usd"])
    unpriced = f" and {counted(totals['unpriced'], 'piece', 'pieces')} without a price" if totals["unpriced"] else ""
    typer.echo(f"\n{counted(totals['rack_count'], 'rack', 'racks')}; {power}{unknown}; {price}{unpriced}")
    typer.echo(
        f"the hall at full draw: {format_w(totals['hall_power_w'])} with cooling, {totals['kwh_per_year']:,.0f} kWh and "
        f"{format_usd(totals['energy_usd_per_year'])} a year"
    )
    if verbose:
        print_table(
            ("network", "choice", "value", "why"),
            [[reason[key] for key in ("network", "what", "value", "why")] for reason in summary["reasons"]],
        )
