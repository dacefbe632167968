"""``railwright place``: which servers a job should get, why, and what the other policies would cost."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railwright.cli.options import Json, PlanOrSpec, Seed
from railwright.units import parse_count

if TYPE_CHECKING:
    from railwright.simulate.busbw import Fabric
    from railwright.simulate.jobs.place import Placed

_SIZE = float(2**30)
_TESTS = ("all-reduce", "all-to-all")


def place(
    source: PlanOrSpec,
    gpus: Annotated[int, typer.Option("--gpus", parser=parse_count, metavar="N", help="GPUs that the job needs.")],
    policy: Annotated[
        str, typer.Option("--policy", metavar="POLICY", help="packed, rail-aware, spread or random.")
    ] = "packed",
    busy: Annotated[
        Path | None,
        typer.Option("--busy", metavar="FILE", help="Servers that are taken: names or Slurm expressions."),
    ] = None,
    topology: Annotated[
        Path | None,
        typer.Option("--topology", metavar="FILE", help="Slurm's topology.conf, in place of the plan's own leaves."),
    ] = None,
    seed: Seed = None,
    as_json: Json = False,
) -> None:
    """Say which servers a job should get, as a Slurm node list, and why.

    Exit code 1 when there are not enough free servers.
    """
    from railwright.cli.inputs import open_plan
    from railwright.cli.output import print_json
    from railwright.design.context import resolve_server
    from railwright.errors import InputError
    from railwright.simulate.busbw import open_fabric
    from railwright.simulate.jobs.files import read_nodes, read_topology
    from railwright.simulate.jobs.place import POLICIES
    from railwright.simulate.jobs.place import place as choose

    if gpus < 1:
        raise InputError(f"{gpus} GPUs; a job needs at least 1", key="--gpus")
    plan = open_plan(source, seed)
    from railwright.simulate.jobs.place import groups_of

    groups = groups_of(plan, read_topology(topology) if topology is not None else None)
    taken = read_nodes(busy) if busy is not None else []
    per_server = resolve_server(plan.spec, plan.catalog).gpus
    servers = -(-gpus // per_server)
    number = plan.spec.seed if seed is None else seed
    chosen = choose(groups, servers, policy=policy, busy=taken, seed=number)
    fabric = open_fabric(plan, seed=number)
    others = [choose(groups, servers, policy=name, busy=taken, seed=number) for name in POLICIES if name != policy]
    rates = {option.policy: _rates(fabric, option) for option in (chosen, *others)}
    spare = servers * per_server - gpus
    if as_json:
        print_json(
            {
                **_placed(chosen, rates[policy]),
                "servers": list(chosen.names),
                "gpus": servers * per_server,
                "spare_gpus": spare,
                "why": list(chosen.why),
                "alternatives": [_placed(option, rates[option.policy]) for option in others],
                "seed": number,
            }
        )
        return
    _print(chosen, others, rates, spare)


def _rates(fabric: "Fabric", placed: "Placed") -> dict[str, float | None]:
    """Return the busbw in GB/s that the tests should show at 1 GiB on these servers; None where nobody talks."""
    from railwright.simulate.busbw import forecast
    from railwright.simulate.scopes import scope_of_servers

    scope = scope_of_servers(fabric.plan, placed.servers, f"placed {placed.policy}")
    if scope is None:
        return dict.fromkeys(_TESTS)
    return {name: float(forecast(fabric, scope, name, [_SIZE])["busbw_gbytes_s"][0]) for name in _TESTS}


def _placed(placed: "Placed", rates: dict[str, float | None]) -> dict[str, Any]:
    return {
        "policy": placed.policy,
        "nodelist": placed.nodelist,
        "units": placed.units,
        "pods": placed.pods,
        "nvlink_domains": placed.domains,
        "ring_crossings": placed.ring_crossings,
        "all_to_all_crossing": placed.pair_crossing,
        "busbw_GBps": rates,
    }


def _print(chosen: "Placed", others: list["Placed"], rates: dict[str, dict[str, float | None]], spare: int) -> None:
    from railwright.cli.output import print_table

    typer.echo(chosen.nodelist)
    typer.echo("")
    for reason in chosen.why:
        typer.echo(f"  {reason}")
    if spare:
        typer.echo(f"  {spare} GPUs of the last server stay idle")
    typer.echo("")
    print_table(
        (
            "policy",
            "units",
            "pods",
            "ring edges across units",
            "all-to-all across units",
            *(f"{name} 1 GiB (GB/s)" for name in _TESTS),
        ),
        [
            (
                option.policy,
                option.units,
                option.pods,
                f"{option.ring_crossings} of {len(option.servers) if len(option.servers) > 1 else 0}",
                f"{option.pair_crossing:.0%}",
                *(None if rate is None else f"{rate:.1f}" for rate in rates[option.policy].values()),
            )
            for option in (chosen, *others)
        ],
    )
