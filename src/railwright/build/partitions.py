"""Reads OpenSM's ``partitions.conf``: which port may speak with which, and where the file says so.

The format is that of OpenSM's *partition-config.txt*: ``Name=0xKEY, flags : member[=full|limited|both], … ;``, a definition may
run over several lines, ``#`` starts a comment. The key's highest bit is the membership's and does not count.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from railwright.errors import InputError

FILE = "partitions.conf"
DEFAULT_KEY = 0x7FFF
EVERYBODY = ("ALL", "ALL_CAS")
_HEAD = re.compile(r"\s*([^=,:\s]+)\s*(?:=\s*(0[xX][0-9a-fA-F]+|\d+))?\s*((?:,[^:]*)?)$")


@dataclass(frozen=True, slots=True)
class Member:
    """A port GUID as a number, or a word such as ``ALL``, with its membership and line."""

    who: int | str
    membership: str
    line: int


@dataclass(frozen=True, slots=True)
class Partition:
    """One definition. ``key`` is without the membership bit; None where OpenSM chooses it."""

    name: str
    key: int | None
    members: tuple[Member, ...]
    line: int


def read_partitions(path: str, text: str) -> list[Partition]:
    """Return the partitions of a file; raises InputError with the line for what OpenSM would not take."""
    return [_partition(path, body, line) for body, line in _definitions(text)]


def full_members(partitions: list[Partition]) -> Mapping[int, list[tuple[Partition, Member]]]:
    """Return for every GUID where it is a full member, apart from the default partition."""
    found: dict[int, list[tuple[Partition, Member]]] = {}
    for partition in partitions:
        for member in partition.members:
            if partition.key != DEFAULT_KEY and member.membership != "limited" and isinstance(member.who, int):
                found.setdefault(member.who, []).append((partition, member))
    return found


def _definitions(text: str) -> Iterator[tuple[list[tuple[str, int]], int]]:
    """Yield every definition as its pieces with their lines, and its first line."""
    held: list[tuple[str, int]] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.partition("#")[0]
        while ";" in line:
            piece, _, line = line.partition(";")
            held.append((piece, number))
            yield held, next((n for part, n in held if part.strip()), number)
            held = []
        if line.strip():
            held.append((line, number))
    if held:
        yield held, held[0][1]


def _partition(path: str, pieces: list[tuple[str, int]], line: int) -> Partition:
    head, _, rest = pieces[0][0].partition(":")
    match = _HEAD.fullmatch(head)
    if match is None:
        raise InputError(f"{head.strip()!r} is no partition: needs NAME=0xKEY, flags : members ;", file=path, line=line)
    default = "full" if re.search(r"defmember\s*=\s*full", match[3]) else "limited"
    members = []
    for text, number in ((rest, pieces[0][1]), *pieces[1:]):
        for word in filter(None, (part.strip() for part in text.split(","))):
            who, _, membership = (part.strip() for part in word.partition("="))
            known: int | str = int(who, 16) if who.lower().startswith("0x") else who
            members.append(Member(known, membership or default, number))
    key = int(match[2], 0) & 0x7FFF if match[2] else DEFAULT_KEY if match[1] == "Default" else None
    return Partition(match[1], key, tuple(members), line)
