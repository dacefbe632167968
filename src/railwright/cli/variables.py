"""``--env``: the job's NCCL variables, pasted or as a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railwright.errors import InputError

if TYPE_CHECKING:
    from railwright.workload.nccl.environment import Environment

Env = Annotated[
    str | None, typer.Option("--env", metavar="FILE|TEXT", help="The job's NCCL variables, pasted or as a file.")
]


def read_environment(text: str | None) -> "Environment":
    """Return what ``text`` (``NAME=VALUE …``) or the file that it names sets; raises InputError."""
    from railwright.workload.nccl.environment import parse_environment

    if text is None:
        return parse_environment("")
    if "=" in text and not Path(text).is_file():
        return parse_environment(text, file="--env")
    try:
        return parse_environment(Path(text).read_text(encoding="utf-8"), file=text)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{text!r} is neither a file that can be read nor variables (NAME=VALUE …): {error}", key="--env"
        ) from None
