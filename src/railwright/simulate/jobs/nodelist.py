"""Slurm's short form of host names: ``server-[0001-0004,0007],login1`` stands for six names.

One bracket per name, with comma-separated numbers and ranges whose width (leading zeros) is kept. Source: Slurm, hostlist
expressions (man scontrol, ``show hostnames``).
"""

import re
from collections.abc import Iterable, Iterator

from railwright.errors import InputError

_MOST_NAMES = 1_000_000
_PART = re.compile(r"[^,\[\]\s]*(?:\[[^\[\]]*\])?[^,\[\]\s]*")
_BRACKET = re.compile(r"^([^\[\]]*)(?:\[([^\[\]]*)\])?([^\[\]]*)$")
_RANGE = re.compile(r"^(\d{1,9})(?:-(\d{1,9}))?$")
_NUMBERED = re.compile(r"^(.*?)(\d{1,9})$")


def expand(text: str, *, key: str = "nodelist") -> list[str]:
    """Return the names that ``text`` stands for, in its order; raises InputError for what is no expression."""
    names: list[str] = []
    for part in _parts(text, key):
        match = _BRACKET.match(part)
        if match is None:
            raise InputError(f"{part!r} has more than one bracket; write them out", key=key)
        before, inside, behind = match[1], match[2], match[3]
        if inside is None:
            names.append(part)
            continue
        for number in _numbers(inside, part, key):
            names.append(f"{before}{number}{behind}")
            if len(names) > _MOST_NAMES:
                raise InputError(f"{text[:60]!r} stands for more than {_MOST_NAMES:,} names", key=key)
    return names


def compress(names: Iterable[str]) -> str:
    """Return the expression for ``names``: sorted, ranges joined where prefix and width are the same."""
    runs: dict[tuple[str, int], list[int]] = {}
    alone: list[str] = []
    for name in dict.fromkeys(names):
        match = _NUMBERED.match(name)
        if match:
            runs.setdefault((match[1], len(match[2])), []).append(int(match[2]))
        else:
            alone.append(name)
    texts = [(prefix, width, _ranges(sorted(numbers), width)) for (prefix, width), numbers in runs.items()]
    joined = [
        f"{prefix}[{inside}]" if "," in inside or "-" in inside else f"{prefix}{inside}"
        for prefix, _, inside in sorted(texts)
    ]
    return ",".join([*sorted(alone), *joined])


def _parts(text: str, key: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is not None and match[0]:
            yield match[0]
            at = match.end()
        if at < len(text):
            if text[at] not in ", \t\n":
                raise InputError(
                    f"{text[:60]!r}: {text[at:][:20]!r} does not fit; write for example server-[01-04],login1", key=key
                )
            at += 1


def _numbers(inside: str, part: str, key: str) -> Iterator[str]:
    for piece in inside.split(","):
        match = _RANGE.match(piece.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or first > last or last - first >= _MOST_NAMES:
            raise InputError(f"{part!r}: {piece!r} is not a number or a range; write for example [01-04,7]", key=key)
        for number in range(first, last + 1):
            yield str(number).zfill(len(match[1]))


def _ranges(numbers: list[int], width: int) -> str:
    pieces: list[str] = []
    start = 0
    for index in range(1, len(numbers) + 1):
        if index == len(numbers) or numbers[index] != numbers[index - 1] + 1:
            first, last = str(numbers[start]).zfill(width), str(numbers[index - 1]).zfill(width)
            pieces.append(first if first == last else f"{first}-{last}")
            start = index
    return ",".join(pieces)
