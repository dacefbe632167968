"""Verbs that make plans: ``init`` writes a spec, ``plan`` designs one."""

from pathlib import Path
from typing import Annotated

import typer

from railwright.cli.options import Json
from railwright.units import parse_count

_SpecFile = Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="File to write.")]


def init(
    gpus: Annotated[int, typer.Option("--gpus", parser=parse_count, metavar="N", help="GPUs in total.")] = 128,
    gpu: Annotated[str, typer.Option("--gpu", metavar="KEY", help="GPU or server, a key of the catalog.")] = "h100",
    transport: Annotated[str, typer.Option("--transport", metavar="T", help="rocev2 or infiniband.")] = "rocev2",
    topology: Annotated[
        str,
        typer.Option("--topology", metavar="T", help="auto, rail-only, rail-optimized, leaf-spine or multi-plane."),
    ] = "auto",
    output: _SpecFile = Path("cluster.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    as_json: Json = False,
) -> None:
    """Write a commented spec that plans without edits."""
    from railwright.cli.folders import write_file
    from railwright.cli.output import print_json
    from railwright.spec.init import initial_spec

    write_file(output, initial_spec(gpus, gpu, transport, topology), force=force)
    if as_json:
        print_json({"path": str(output)})
    else:
        typer.echo(f"{output} written. Next: railwright run {output} -o out")
