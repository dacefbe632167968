"""``railwright simulate``: one collective on a plan, or flows of the user's own on a network of the user's own."""

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
from railwright.cli.variables import Env, read_environment
from railwright.errors import InputError
from railwright.units import parse_bytes, parse_us

if TYPE_CHECKING:
    from railwright.simulate.results import SimulationResult
    from railwright.spec.cluster import Transport

_PROOF = "result.json"
_MOST_RANKS = 10_000_000


def simulate(
    context: typer.Context,
    source: MaybePlanOrSpec = None,
    collective: Annotated[
        str,
        typer.Option("--collective", metavar="NAME", help="all-reduce, all-gather, all-to-all, … as in nccl-tests."),
    ] = "all-reduce",
    size: Annotated[
        float,
        typer.Option(
            "--size",
            parser=parse_bytes,
            metavar="SIZE",
            show_default="1GiB",
            help="Message size as in nccl-tests: 1GiB.",
        ),
    ] = float(2**30),
    ranks: Ranks = None,
    engine: Annotated[
        str | None,
        typer.Option("--engine", metavar="ENGINE", help="analytic, flow or packet. Default: analytic on a plan."),
    ] = None,
    algorithm: Annotated[
        str | None,
        typer.Option("--algorithm", metavar="NAME", help="ring, tree, hierarchical, … Default: the usual one."),
    ] = None,
    paths: Annotated[
        str | None,
        typer.Option(
            "--paths",
            metavar="MODE|FILE",
            help="ecmp, spray, adaptive, flowlet or rail, or a CSV with src,dst,path. Default: the plan's.",
        ),
    ] = None,
    env: Env = None,
    fail: Annotated[
        list[str] | None,
        typer.Option("--fail", metavar="WHAT", help="A failure, for example leaf:rail3-leaf1; again for more."),
    ] = None,
    reroute: Annotated[
        float | None,
        typer.Option(
            "--reroute",
            parser=parse_us,
            metavar="TIME",
            show_default=False,
            help="From a failure during the run until traffic leaves the broken path. Default: at once.",
        ),
    ] = None,
    network: OwnNetwork = None,
    flows: Annotated[Path | None, typer.Option("--flows", metavar="FLOWS.csv", help="Flows of your own.")] = None,
    options: OwnOptions = None,
    transport: Annotated[
        str, typer.Option("--transport", metavar="NAME", help="rocev2 or infiniband, for a network of your own.")
    ] = "rocev2",
    iterations: Annotated[
        int, typer.Option("--iterations", min=1, max=1000, help="Runs in a row, for jitter (engine packet).")
    ] = 1,
    background: Annotated[
        list[str] | None,
        typer.Option(
            "--background",
            metavar="KIND:SHARE",
            help="Load beside it (engine packet): requests:10%, storage-reads, checkpoint, backup, ingest, management.",
        ),
    ] = None,
    series: Annotated[
        float,
        typer.Option(
            "--series",
            parser=parse_us,
            metavar="TIME",
            show_default=False,
            help="Write queues and rates of links every so often, with -o; as drawings too.",
        ),
    ] = 0.0,
    trace: Annotated[
        bool, typer.Option("--trace", help="Write trace.json for chrome://tracing or Perfetto, with -o.")
    ] = False,
    output: MaybeDirectory = None,
    seed: Seed = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Simulate a collective on a plan, or your own flows on your own network.

    Exit code 1 when not every flow could finish; the result says why.
    """
    from railwright.cli.folders import RESULT_ENTRIES, check_folder, new_folder
    from railwright.cli.inputs import open_plan
    from railwright.cli.output import Steps, print_json

    if output is None and (series or trace):
        raise InputError("needs a folder to write to: -o DIR", key="--series" if series else "--trace")
    steps = Steps(quiet=quiet or as_json)
    own = network is not None or flows is not None
    if own == (source is not None):
        raise InputError("give a plan (or spec), or --network with --flows, and not both", key="PLAN|SPEC")
    if options is not None and not own:
        raise InputError("is for a network of your own; the settings of a plan are in its spec", key="--options")
    if own:
        of_plans = {
            "--collective": _given(context, "collective"),
            "--size": _given(context, "size"),
            "--ranks": ranks,
            "--algorithm": algorithm,
            "--background": background,
            "--iterations": iterations > 1,
        }
        for key, value in of_plans.items():
            if value:
                raise InputError("is for collectives on a plan, not for flows of your own", key=key)
    if env is not None and own:
        raise InputError("is for a collective on a plan; flows of your own need none", key="--env")
    environment = read_environment(env)
    if output is not None:
        check_folder(output, RESULT_ENTRIES, _PROOF)
    if source is not None:
        from railwright.simulate.run import simulate_collective

        with steps.step("plan", f"open {source}"):
            plan = open_plan(source, seed)
        wanted = None if ranks is None else parse_ranks(ranks)
        chosen = engine or "analytic"
        with steps.step("simulate", f"{collective}, {chosen}"):
            result = simulate_collective(
                plan,
                collective,
                size,
                wanted,
                chosen,
                algorithm=algorithm,
                paths=paths,
                fail=tuple(fail or ()),
                seed=seed,
                iterations=iterations,
                background=tuple(background or ()),
                sample_us=series,
                reroute_us=reroute or 0.0,
                environment=environment,
            )
        shown = result.engine.flows
    else:
        if network is None or flows is None:
            raise InputError("--network and --flows belong together", key="--flows" if flows is None else "--network")
        from railwright.simulate.own_network import named_flows, simulate_own

        with steps.step("simulate", f"{flows} on {network}"):
            result = simulate_own(
                network,
                flows,
                engine or "packet",
                paths=paths,
                transport=_transport(transport),
                seed=seed or 0,
                sample_us=series,
                options_file=options,
                fail=tuple(fail or ()),
                reroute_us=reroute,
            )
        shown = named_flows(result, network)
    if output is not None:
        with new_folder(output, RESULT_ENTRIES, _PROOF) as folder:
            result.save(folder)
            shown.write_csv(folder / "flows.csv")
            if series:
                from railwright.report.series import write_series

                write_series(result.engine.details["carried"], result.engine.details["queues"], folder)
            if trace:
                from railwright.simulate.packet.chrome_trace import write_chrome_trace

                details = result.engine.details
                series_of = {name: details[name] for name in ("carried", "queues") if name in details}
                write_chrome_trace(result.engine.flows, folder / "trace.json", **series_of)
    if as_json:
        print_json(result.as_dict())
    else:
        _print(result, output)
    if result.engine.diagnosis is not None or result.engine.flows["finish_us"].null_count():
        raise typer.Exit(1)


def _given(context: typer.Context, name: str) -> bool:
    """Say whether the user wrote the option himself."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _transport(name: str) -> "Transport":
    from railwright.errors import nearest

    if name == "rocev2":
        return "rocev2"
    if name == "infiniband":
        return "infiniband"
    raise InputError(f"{name!r} is not a transport{nearest(name, ('rocev2', 'infiniband'))}", key="--transport")


def parse_ranks(text: str) -> int | list[int]:
    """Return a count (``128``) or a list of global GPU ids (``0-7,16``); raises InputError."""
    from railwright.units import parse_count

    try:
        if text.isdecimal():
            return parse_count(text)
        ids: list[int] = []
        for part in text.split(","):
            first, dash, last = part.partition("-")
            begin, end = parse_count(first), parse_count(last if dash else first)
            if begin > end or end >= _MOST_RANKS:
                raise ValueError(f"{part!r} is not a range below {_MOST_RANKS:,}")
            ids.extend(range(begin, end + 1))
    except ValueError as error:
        raise InputError(f"{text!r}: {error}; write a count (128) or GPU ids (0-7,16)", key="--ranks") from None
    return ids


def _print(result: "SimulationResult", output: Path | None) -> None:
    from railwright.cli.output import print_pairs, print_table
    from railwright.units import format_bytes, format_us

    summary = result.as_dict()
    setting, engine = summary["setting"], summary["engine"]
    size = setting.get("size_bytes")
    pairs: dict[str, Any] = {
        "time": format_us(summary["time_us"]) if summary["time_us"] is not None else "did not finish",
        "algbw": f"{summary['algbw_GBps']:.1f} GB/s" if summary["algbw_GBps"] is not None else None,
        "busbw": f"{summary['busbw_GBps']:.1f} GB/s" if summary["busbw_GBps"] is not None else None,
        "flow completion": ", ".join(
            f"{key} {format_us(us)}" for key, us in summary["fct_us"].items() if us is not None
        )
        or None,
        "ECN marks": summary["ecn"]["marks"],
        "pauses": summary["pfc"]["pause_frames"],
        "drops": summary["drops"],
        "algorithm": setting.get("algorithm"),
        "channels": setting.get("channels"),
        "ranks": setting.get("ranks"),
        "paths": setting.get("paths"),
        "engine": f"{engine['name']}, {engine['wall_s']:.2f} s" if engine["wall_s"] is not None else engine["name"],
        "diagnosis": summary["diagnosis"]["code"] if summary["diagnosis"] else None,
        "jitter": format_us(summary["jitter_us"])
        if setting.get("iterations", 1) > 1 and summary["jitter_us"]
        else None,
        "why": summary["why"] or None,
        "written": str(output) if output is not None else None,
    }
    if whole := setting.get("without_failures"):
        names = ", ".join(whole["names"][:3]) + (", …" if whole["hit"] > 3 else "")
        longer = f", {whole['slowdown']:.2f} times as long with them" if whole["slowdown"] else ""
        pairs["without failures"] = f"{format_us(whole['time_us'])}{longer}" if whole["time_us"] else None
        pairs["hit"] = f"{whole['hit']:,} of {whole['endpoints']:,} senders{f' ({names})' if names else ''}"
    title = " ".join(str(part) for part in (setting.get("collective"), format_bytes(size) if size else None) if part)
    print_pairs(title or "flows", pairs)
    for remark in setting.get("remarks", ()):
        typer.echo(f"note: {remark}")
    if summary["bottleneck"]:
        typer.echo("")
        print_table(
            ("busiest link from", "to", "utilisation"),
            [(link["from"], link["to"], f"{link['util']:.0%}") for link in summary["bottleneck"]],
        )
