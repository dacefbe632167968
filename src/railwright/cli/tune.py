"""``railwright tune``: the settings of PFC, ECN and DCQCN that carry given traffic best, found with the packet engine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railwright.cli.options import (
    Json,
    MaybeDirectory,
    MaybePlanOrSpec,
    OwnNetwork,
    OwnOptions,
    Quiet,
    Ranks,
    Seed,
)
from railwright.errors import InputError
from railwright.units import parse_bytes

if TYPE_CHECKING:
    from railwright.simulate.tune.scenario import Scenario

RESULT, SNIPPET = "tune.json", "tuned.yaml"
_ENTRIES = ("scenario.json", "scenario.json.partial", "runs.jsonl", RESULT, SNIPPET)
_SHOWN = (
    ("goodput (Gb/s)", "goodput_gbps"),
    ("time (us)", "time_us"),
    ("slowdown p99.9", "slowdown_p999"),
    ("completion p99.9 (us)", "fct_p999_us"),
    ("link time paused", "pause_share"),
    ("victims", "victims"),
    ("ECN marks", "ecn_marks"),
    ("pause frames", "pause_frames"),
)


def tune(
    source: MaybePlanOrSpec = None,
    collective: Annotated[
        str | None, typer.Option("--collective", metavar="NAME", help="As in simulate. Default: all-to-all.")
    ] = None,
    incast: Annotated[
        int | None, typer.Option("--incast", metavar="N", help="N senders to one GPU at once, each --size.")
    ] = None,
    size: Annotated[
        float,
        typer.Option(
            "--size",
            parser=parse_bytes,
            metavar="SIZE",
            show_default="16MiB",
            help="Message size: of the collective as in nccl-tests, or of each sender.",
        ),
    ] = float(2**24),
    ranks: Ranks = None,
    network: OwnNetwork = None,
    flows: Annotated[
        Path | None,
        typer.Option("--flows", metavar="FLOWS.csv", help="Flows of your own, on the plan's GPUs or on --network."),
    ] = None,
    options: OwnOptions = None,
    background: Annotated[
        list[str] | None,
        typer.Option("--background", metavar="KIND:SHARE", help="Load beside it, as in simulate; again for more."),
    ] = None,
    paths: Annotated[
        str | None,
        typer.Option("--paths", metavar="MODE", help="ecmp, spray, adaptive, flowlet or rail. Default: the plan's."),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="NAME[=LOW:HIGH]",
            help="alpha or xoff, xon_offset, kmin, kmax_ratio, pmax, g, additive_increase, hyper_increase, increase_timer,"
            " alpha_timer, decrease_interval, byte_counter; again for more. Default: nine of them.",
        ),
    ] = None,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            "--objective",
            metavar="NAME[:WEIGHT]",
            help="goodput, p999, pause or victims; again for more. Default: all, alike.",
        ),
    ] = None,
    budget: Annotated[int, typer.Option("--budget", metavar="N", help="Most runs of the packet engine.")] = 64,
    jobs: Annotated[
        int | None, typer.Option("--jobs", metavar="N", min=1, max=1024, help="Runs side by side. Default: all cores.")
    ] = None,
    late_marks: Annotated[
        bool, typer.Option("--late-marks", help="Also try what RW311 forbids; it is flagged and never the best.")
    ] = False,
    output: MaybeDirectory = None,
    seed: Seed = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Search the PFC, ECN and DCQCN settings that carry given traffic best.

    With -o every run is kept as it ends: the same command goes on where it was stopped.
    Exit code 1 when with no setting all flows finish.
    """
    from railwright.cli.folders import check_folder, write_file
    from railwright.cli.output import Steps, print_json
    from railwright.cli.output import as_json as to_json
    from railwright.simulate.tune.parameters import parse_ranges
    from railwright.simulate.tune.run import least_budget
    from railwright.simulate.tune.run import tune as search
    from railwright.simulate.tune.search import parse_objectives
    from railwright.simulate.tune.store import RunStore

    steps = Steps(quiet=quiet or as_json)
    weights = parse_objectives(objective or ())
    _one_kind_of_traffic(source, collective, incast, ranks, network, flows, options)
    if output is not None:
        check_folder(output, _ENTRIES, "scenario.json")
    with steps.step("open", f"{source or network}"):
        scenario = _scenario(
            source, collective, incast, size, ranks, network, flows, options, tuple(background or ()), paths, seed
        )
        ranges = parse_ranges(vary or (), scenario.parameters)
        if ranges and budget < least_budget(len(ranges)):
            raise InputError(
                f"{budget} runs are too few for {len(ranges)} parameters; at least {least_budget(len(ranges))}, or vary"
                " fewer with --vary",
                key="--budget",
            )
    number = int(scenario.setting["seed"])
    store = RunStore(output, scenario.setting)
    with steps.step("tune", f"at most {budget} runs") as tell:
        try:
            result = search(
                scenario,
                ranges,
                weights,
                budget=budget,
                seed=number,
                store=store,
                jobs=jobs,
                late_marks=late_marks,
                tell=tell,
            )
        except KeyboardInterrupt:
            if output is not None:
                typer.echo(f"{store.finished} runs are kept in {output}; the same command goes on", err=True)
            raise
    result = {**result, "elapsed_s": steps.seconds["tune"], "written": None if output is None else str(output)}
    if output is not None:
        write_file(output / RESULT, to_json(result) + "\n", force=True)
        if result["snippet"]:
            write_file(output / SNIPPET, result["snippet"], force=True)
        elif (output / SNIPPET).is_file():
            (output / SNIPPET).unlink()
    if as_json:
        print_json(result)
    else:
        _print(result, output)
    if result["best"] is None:
        raise typer.Exit(1)


def _one_kind_of_traffic(
    source: Path | None,
    collective: str | None,
    incast: int | None,
    ranks: str | None,
    network: Path | None,
    flows: Path | None,
    options: Path | None,
) -> None:
    """Raise InputError for options that exclude each other."""
    if (source is None) == (network is None):
        raise InputError("give a plan (or spec), or --network with --flows, and not both", key="PLAN|SPEC")
    if options is not None and network is None:
        raise InputError("--options belongs to --network; a plan has its own contract", key="--options")
    kinds = {"--collective": collective, "--incast": incast, "--flows": flows}
    given = [name for name, value in kinds.items() if value is not None]
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)} are different traffic; give one", key=given[1])
    if ranks is not None and (incast is not None or flows is not None):
        raise InputError("--ranks belongs to a collective", key="--ranks")


def _scenario(
    source: Path | None,
    collective: str | None,
    incast: int | None,
    size: float,
    ranks: str | None,
    network: Path | None,
    flows: Path | None,
    options: Path | None,
    background: tuple[str, ...],
    paths: str | None,
    seed: int | None,
) -> "Scenario":
    from railwright.cli.inputs import open_plan
    from railwright.cli.simulate import parse_ranks
    from railwright.simulate.tune.scenario import own_scenario, plan_scenario

    if source is None:
        if network is None or flows is None:
            raise InputError("--network needs --flows", key="--network")
        return own_scenario(network, flows, options_file=options, background=background, paths=paths, seed=seed or 0)
    return plan_scenario(
        open_plan(source, seed),
        collective=collective,
        size_bytes=size,
        ranks=None if ranks is None else parse_ranks(ranks),
        incast=incast,
        flows=flows,
        background=background,
        paths=paths,
        seed=seed,
    )


def _print(result: dict[str, Any], output: Path | None) -> None:
    from railwright.cli.output import print_pairs, print_table
    from railwright.simulate.tune.parameters import PARAMETERS

    best, contract = result["best"], result["contract"]
    if best is not None:
        same = best["parameters"] is None
        print_table(
            ("", "contract", "best"),
            [
                ("cost", contract["cost"], best["cost"]),
                *((title, contract["figures"][key], best["figures"][key]) for title, key in _SHOWN),
            ],
            title="No setting is better than the contract" if same else f"Best of {result['runs']['total']} runs",
        )
        if not same:
            typer.echo("")
            effects = {effect["parameter"]: effect for effect in result["sensitivity"]}
            rows = []
            for item in result["parameters"]:
                name, was = item["name"], item["contract"]
                show, value = PARAMETERS[name].shown, best["parameters"].get(name, was)
                effect = effects.get(name, {})
                moved = {None: "not known", True: "yes", False: "no"}[effect.get("sensitive")]
                rows.append(
                    (
                        name,
                        None if was is None else show(was),
                        None if value is None else show(value),
                        effect.get("cost_spread"),
                        moved,
                    )
                )
            print_table(("parameter", "contract", "best", "cost moves by", "sensitive"), rows)
            typer.echo(f"\n{result['snippet']}")
    confirmed = result["confirmed"] or {}
    print_pairs(
        "tune",
        {
            "runs": f"{result['runs']['total']} in {result['elapsed_s']:.1f} s, {result['runs']['reused']} from before",
            "front": f"runs {', '.join(map(str, result['front'][:12]))}{', …' if len(result['front']) > 12 else ''}",
            "cost with other seeds": confirmed.get("cost"),
            "notes": result["notes"] or None,
            "written": None
            if output is None
            else f"{output / RESULT}, {output / SNIPPET}"
            if result["snippet"]
            else str(output / RESULT),
        },
    )
