"""``railwright busbw``: the table that nccl-tests should print on a plan, or the verdict on a log of a real run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railwright.cli.options import Json, PlanOrSpec, Seed, Verbose
from railwright.cli.variables import Env, read_environment
from railwright.errors import InputError
from railwright.units import parse_count

if TYPE_CHECKING:
    import polars as pl

    from railwright.simulate.busbw import Fabric
    from railwright.simulate.scopes import Scope
    from railwright.workload.nccl.environment import Environment
    from railwright.workload.nccl.verdict import Verdict

_LOOK_AT = float(2**30)


def busbw(
    source: PlanOrSpec,
    collective: Annotated[
        list[str] | None,
        typer.Option("--collective", metavar="NAME", help="all-reduce, all-gather, …; again for more. Default: all."),
    ] = None,
    sizes: Annotated[
        str, typer.Option("--sizes", metavar="FIRST:LAST", help="As nccl-tests -b and -e: 8:16G, or 1M:1G:4, or 1M,1G.")
    ] = "8:16G",
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            metavar="SCOPE",
            help="cluster, pod[:N], unit[:N], rail[:N], pair[:far|:NAME,NAME] or all; again for more. Default: all.",
        ),
    ] = None,
    env: Env = None,
    paths: Annotated[
        str | None,
        typer.Option("--paths", metavar="MODE", help="ecmp, spray, adaptive, flowlet or rail. Default: the plan's."),
    ] = None,
    compare: Annotated[
        Path | None, typer.Option("--compare", metavar="LOG", help="Output of nccl-tests or rccl-tests to judge.")
    ] = None,
    ranks: Annotated[
        int | None,
        typer.Option("--ranks", parser=parse_count, metavar="N", help="With --compare: ranks that were meant to run."),
    ] = None,
    seed: Seed = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Print what nccl-tests should print on a plan; with --compare say what a real log shows.

    Exit code 1 when a log is not as expected.
    """
    from railwright.cli.inputs import open_plan
    from railwright.simulate.busbw import open_fabric, parse_sizes

    wanted = parse_sizes(sizes)
    environment = read_environment(env)
    fabric = open_fabric(open_plan(source, seed), environment, paths=paths, seed=seed)
    if compare is not None:
        if collective and len(collective) > 1:
            raise InputError("a log is compared with one collective; name one or none", key="--collective")
        _compare(fabric, compare, environment, collective[0] if collective else None, ranks, as_json=as_json)
        return
    if ranks is not None:
        raise InputError("--ranks belongs to --compare; --scope chooses the ranks of a table", key="--ranks")
    _forecast(fabric, environment, collective, wanted, scope or ["all"], as_json=as_json, verbose=verbose)


def _forecast(
    fabric: "Fabric",
    environment: "Environment",
    collective: list[str] | None,
    sizes: list[float],
    scope: list[str],
    *,
    as_json: bool,
    verbose: bool,
) -> None:
    import polars as pl

    from railwright.cli.output import print_json
    from railwright.simulate.busbw import rows
    from railwright.simulate.scopes import scope_of, standard_scopes
    from railwright.workload.collectives import COLLECTIVES, collective_name

    names = [collective_name(name) for name in collective or COLLECTIVES]
    scopes = standard_scopes(fabric.plan) if "all" in scope else [scope_of(fabric.plan, name) for name in scope]
    table = pl.concat([rows(fabric, part, name, sizes, environment) for part in scopes for name in names])
    if as_json:
        print_json(
            {
                "rows": table.to_dicts(),
                "scopes": [_scope(part) for part in scopes],
                "setting": _setting(fabric, environment),
            }
        )
        return
    shown = names if collective or verbose else names[:1]
    for part in scopes if scope != ["all"] or collective or verbose else scopes[:1]:
        for name in shown:
            _print_table(part, name, table.filter((pl.col("scope") == part.name) & (pl.col("collective") == name)))
    if len(scopes) * len(names) > 1:
        _print_overview(scopes, table)
    _print_setting(fabric, environment)


def _scope(part: "Scope") -> dict[str, Any]:
    shape = part.shape
    counts = {"ranks": shape.ranks, "nodes": shape.nodes, "gpus_per_node": shape.gpus_per_node}
    return {"name": part.name, "subject": part.subject, **counts}


def _setting(fabric: "Fabric", environment: "Environment") -> dict[str, Any]:
    import railwright

    return {
        "plan": fabric.plan.spec.name,
        "paths": fabric.paths,
        "queue_pairs": fabric.queue_pairs,
        "cross_rail": fabric.cross_rail,
        "seed": fabric.seed,
        "environment": dict(environment.variables),
        "remarks": list(environment.remarks),
        "version": railwright.__version__,
    }


def _print_setting(fabric: "Fabric", environment: "Environment") -> None:
    pairs = f"{fabric.queue_pairs} queue pair{'s' if fabric.queue_pairs > 1 else ''} per connection"
    typer.echo(f"\npaths: {fabric.paths}, {pairs}, seed {fabric.seed}; start-up is known to a factor of about two")
    for remark in environment.remarks:
        typer.echo(f"note: {remark}")


def _print_table(part: "Scope", collective: str, table: "pl.DataFrame") -> None:
    from railwright.cli.output import print_table

    shape = part.shape
    nodes = f"{shape.nodes:,} node{'s' if shape.nodes > 1 else ''} of {shape.gpus_per_node}"
    print_table(
        (
            "size (B)",
            "count",
            "time (us)",
            "algbw (GB/s)",
            "busbw (GB/s)",
            "algorithm",
            "protocol",
            "channels",
            "bottleneck",
        ),
        [
            (
                int(row["size_bytes"]),
                row["count"],
                f"{row['time_us']:,.2f}",
                f"{row['algbw_GBps']:.2f}",
                f"{row['busbw_GBps']:.2f}",
                row["algorithm"],
                row["protocol"],
                row["channels"],
                row["bottleneck"],
            )
            for row in table.iter_rows(named=True)
        ],
        title=f"{collective}, {part.name}: {part.subject}, {shape.ranks:,} ranks on {nodes}",
    )
    typer.echo("")


def _print_overview(scopes: list["Scope"], table: "pl.DataFrame") -> None:
    """Print one line per scope and collective: the largest size, and from which size half of that is reached."""
    import polars as pl

    from railwright.cli.output import print_table
    from railwright.units import format_bytes

    subjects = {part.name: part.subject for part in scopes}
    lines = []
    for (scope, collective), rows in table.group_by("scope", "collective", maintain_order=True):
        last = rows.row(-1, named=True)
        half = rows.filter(pl.col("busbw_GBps") >= last["busbw_GBps"] / 2)["size_bytes"][0]
        what = f"{last['algorithm']}/{last['protocol']}"
        lines.append(
            (
                scope,
                subjects[str(scope)],
                last["ranks"],
                collective,
                f"{last['busbw_GBps']:.1f}",
                format_bytes(half),
                what,
                last["bottleneck"],
            )
        )
    size = format_bytes(float(table["size_bytes"][-1]))
    columns = ("scope", "what", "ranks", "collective", f"busbw at {size}", "half of it from", "by", "bottleneck")
    print_table(columns, lines, title="GB/s")


def _compare(
    fabric: "Fabric",
    log: Path,
    environment: "Environment",
    collective: str | None,
    ranks: int | None,
    *,
    as_json: bool,
) -> None:
    from railwright.cli.output import print_json
    from railwright.simulate.busbw_log import compare
    from railwright.workload.nccl.log import read_log

    verdicts = compare(fabric, read_log(log), environment, collective=collective, ranks=ranks)
    fine = all(verdict.code == "as-expected" and verdict.sizes.height for verdict in verdicts)
    if as_json:
        print_json(
            {
                "as_expected": fine,
                "runs": [_verdict(verdict) for verdict in verdicts],
                "rows": [
                    {"run": number, **row}
                    for number, verdict in enumerate(verdicts)
                    for row in verdict.sizes.to_dicts()
                ],
                "setting": _setting(fabric, environment),
            }
        )
    else:
        for verdict in verdicts:
            _print_verdict(verdict, log)
    if not fine:
        raise typer.Exit(1)


def _verdict(verdict: "Verdict") -> dict[str, Any]:
    return {
        "line": verdict.run.first_line,
        "collective": verdict.collective,
        "ranks": verdict.run.size,
        "nodes": verdict.shape.nodes,
        "code": verdict.code,
        "summary": verdict.summary,
        "slow_from_bytes": verdict.slow_from,
        "causes": [
            {
                "code": cause.code,
                "title": cause.title,
                "confidence": cause.confidence,
                "evidence": list(cause.evidence),
                "try": list(cause.tries),
            }
            for cause in verdict.causes
        ],
        "remarks": list(verdict.remarks),
    }


def _print_verdict(verdict: "Verdict", log: Path) -> None:
    from railwright.cli.output import print_paragraphs, print_table
    from railwright.units import format_bytes

    typer.echo(f"{log}:{verdict.run.first_line}: {verdict.summary}")
    if verdict.sizes.height:
        print_table(
            ("size", "measured (GB/s)", "expected (GB/s)", "share", "algorithm expected", "limit", "verdict"),
            [
                (
                    format_bytes(row["size_bytes"]),
                    f"{row['busbw_gbytes_s']:.2f}",
                    f"{row['expected_gbytes_s']:.2f}",
                    f"{row['ratio']:.0%}",
                    f"{row['algorithm']}/{row['protocol']}",
                    row["limit"],
                    row["verdict"],
                )
                for row in verdict.sizes.iter_rows(named=True)
            ],
        )
    typer.echo("")
    kinds = {"certain": "error", "likely": "warning", "possible": "info"}
    print_paragraphs(
        (
            (kinds[cause.confidence], f"{cause.title} ({cause.code}, {cause.confidence})"),
            "\n".join(cause.evidence),
            "try: " + "\n     ".join(cause.tries),
        )
        for cause in verdict.causes
    )
    for remark in verdict.remarks:
        typer.echo(f"note: {remark}")
    typer.echo("")
