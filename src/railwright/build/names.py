"""Names that may stand in a configuration file, a file path or a shell script: nothing that any of them could read as syntax.

A plan can be edited by hand and a view can come from elsewhere, so renderers check names instead of escaping them.
"""

import re
from collections.abc import Iterable

from railwright.errors import InputError

DEVICE = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?){0,5}"
)
PORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:-]{0,47}")
TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@+-]{0,62}")


def checked(name: str, kind: re.Pattern[str], what: str) -> str:
    """Return ``name`` when ``kind`` matches all of it; raises InputError that shows the name and says what is allowed."""
    if not kind.fullmatch(name) or ".." in name:
        shown = name if len(name) <= 60 else f"{name[:57]}..."
        raise InputError(f"{shown!r} cannot be {what}: use letters, digits and '-' (ports also '/', ':', '.', '_')")
    return name


def check_all(names: Iterable[str], kind: re.Pattern[str], what: str) -> None:
    """Check every name once; raises InputError for the first bad one."""
    for name in dict.fromkeys(names):
        checked(name, kind, what)
