"""The options that mean the same in every command."""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, to stdout.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing about progress.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Say more: reasons, waived findings, details.")]
Seed = Annotated[int | None, typer.Option("--seed", min=0, metavar="N", help="Seed, in place of the spec's own.")]
Directory = Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Folder to write.")]
MaybeDirectory = Annotated[Path | None, typer.Option("-o", "--output", metavar="DIR", help="Folder to write.")]
PlanOrSpec = Annotated[Path, typer.Argument(metavar="PLAN|SPEC", help="Folder of a plan or of a run, or a spec.")]
MaybePlanOrSpec = Annotated[
    Path | None, typer.Argument(metavar="PLAN|SPEC", help="Folder of a plan or of a run, or a spec.")
]
Ranks = Annotated[
    str | None, typer.Option("--ranks", metavar="RANKS", help="A count, or global GPU ids: 0-7,16,24. Default: all.")
]
OwnNetwork = Annotated[
    Path | None, typer.Option("--network", metavar="NET.yaml", help="A network of your own, with --flows.")
]
OwnOptions = Annotated[
    Path | None,
    typer.Option("--options", metavar="OPTIONS.yaml", help="What else the engine is told about --network."),
]
