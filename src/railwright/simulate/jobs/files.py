"""Files of other tools that say where jobs run: Slurm's ``topology.conf``, rank files and host files, lists of busy nodes.

- ``topology.conf``: ``SwitchName=leaf1 Nodes=srv[1-32]`` and ``SwitchName=spine Switches=leaf[1-4]`` (topology/tree), or
  ``BlockName=b1 Nodes=srv[1-16]`` (topology/block). Source: Slurm, man topology.conf.
- Rank files: ``rank 0=srv1 slot=3`` (Open MPI, mpirun --rankfile), or one line per rank, ``srv1`` or ``srv1:3``.
- Host files: ``srv1 slots=8`` (Open MPI) or ``srv1:8`` when every line has the same number (MPICH).
"""

import re
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from railwright.errors import InputError, InputErrors, nearest
from railwright.simulate.jobs.nodelist import expand

_KEYS = ("SwitchName", "Switches", "Nodes", "LinkSpeed", "BlockName", "BlockSizes")
_RANK_LINE = re.compile(r"^rank\s+(\d{1,9})\s*=\s*(\S+)\s+slots?\s*=\s*(\S+)$", re.IGNORECASE)
_SLOTS_LINE = re.compile(r"^(\S+)\s+slots\s*=\s*(\d{1,6})(?:\s+max[-_]slots\s*=\s*\d+)?$", re.IGNORECASE)
_PLAIN_LINE = re.compile(r"^([^\s:]+)(?:[:\s]\s*(\d{1,6}))?$")


@dataclass(frozen=True)
class RankPlace:
    """Where a rank runs: the host's name and its GPU there (None: the next free one)."""

    host: str
    gpu: int | None


def read_topology(path: Path) -> pl.DataFrame:
    """Return one row per node: ``name``, ``unit`` and ``pod`` (UInt32 from 1), ``leaves`` (its switch or block).

    The unit is the lowest switch (or the block), the pod the switch above that where there are three layers. Raises
    InputError with the line.
    """
    switches = _switches(path)
    parent = {child: name for name, switch in switches.items() for child in switch.children}
    rows = []
    for name, switch in switches.items():
        above = [name]
        while above[-1] in parent and len(above) <= len(switches):
            above.append(parent[above[-1]])
        if len(above) > len(switches):
            raise InputError(f"switch {name!r} is above itself", file=path, line=switch.line)
        rows += [(node, name, above[1] if len(above) > 2 else above[-1]) for node in switch.nodes]
    frame = pl.DataFrame(rows, schema=["name", "leaves", "pod"], orient="row")
    twice = frame.filter(pl.col("name").is_duplicated())
    if twice.height:
        first, second = twice.filter(pl.col("name") == twice["name"][0])["leaves"].head(2)
        raise InputError(f"node {twice['name'][0]!r} is under {first!r} and under {second!r}", file=path)
    if frame.is_empty():
        raise InputError("names no node; write for example SwitchName=leaf1 Nodes=srv[1-32]", file=path)
    number = {text: place for place, text in enumerate(frame["leaves"].unique(maintain_order=True), 1)}
    pod = {text: place for place, text in enumerate(frame["pod"].unique(maintain_order=True), 1)}
    return frame.select(
        "name",
        pl.col("leaves").replace_strict(number, return_dtype=pl.UInt32).alias("unit"),
        pl.col("pod").replace_strict(pod, return_dtype=pl.UInt32),
        "leaves",
    )


@dataclass
class _Switch:
    line: int
    nodes: list[str]
    children: list[str]


def _switches(path: Path) -> dict[str, _Switch]:
    found: dict[str, _Switch] = {}
    errors: list[InputError] = []
    for number, line in _lines(path):
        try:
            fields = _fields(line)
            name = fields.get("SwitchName") or fields.get("BlockName")
            if name is None:
                if "BlockSizes" not in fields:
                    raise InputError("has neither SwitchName nor BlockName")
                continue
            if name in found:
                raise InputError(f"switch {name!r} is there twice (first in line {found[name].line})")
            nodes = expand(fields.get("Nodes", ""), key="Nodes")
            found[name] = _Switch(number, nodes, expand(fields.get("Switches", ""), key="Switches"))
        except InputError as error:
            errors.append(InputError(error.message, file=path, line=number, key=error.key))
    for name, switch in found.items():
        errors += [
            InputError(
                f"switch {name!r} has {child!r} below it, which is not defined{nearest(child, found)}",
                file=path,
                line=switch.line,
                key="Switches",
            )
            for child in switch.children
            if child not in found
        ]
    if errors:
        raise InputErrors(errors)
    return found


def _fields(line: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    known = {key.lower(): key for key in _KEYS}
    for word in line.split():
        key, equals, value = word.partition("=")
        if not equals or key.lower() not in known:
            raise InputError(f"{word!r} is not understood{nearest(key, _KEYS)}; known are {', '.join(_KEYS)}")
        fields[known[key.lower()]] = value
    return fields


def read_ranks(path: Path) -> list[RankPlace]:
    """Return where each rank runs, in rank order; raises InputErrors with the lines that are not understood."""
    numbered: dict[int, RankPlace] = {}
    slots: list[tuple[str, int]] = []
    plain: list[tuple[str, int | None]] = []
    errors: list[InputError] = []
    for number, line in _lines(path):
        if match := _RANK_LINE.match(line):
            rank, slot = int(match[1]), match[3]
            if not slot.isdecimal():
                errors.append(InputError(f"slot {slot!r} is not a GPU number", file=path, line=number, key="slot"))
            elif rank in numbered:
                errors.append(InputError(f"rank {rank} is there twice", file=path, line=number, key="rank"))
            else:
                numbered[rank] = RankPlace(match[2], int(slot))
        elif match := _SLOTS_LINE.match(line):
            slots.append((match[1], int(match[2])))
        elif match := _PLAIN_LINE.match(line):
            plain.append((match[1], int(match[2]) if match[2] else None))
        else:
            message = f"{line[:60]!r} is not understood; write rank 0=srv1 slot=0, srv1 slots=8, or srv1:0"
            errors.append(InputError(message, file=path, line=number))
    if errors:
        raise InputErrors(errors)
    kinds = [kind for kind in (numbered, slots, plain) if kind]
    if len(kinds) != 1:
        what = "names no rank" if not kinds else "mixes forms"
        raise InputError(f"{what}; write rank 0=srv1 slot=0, srv1 slots=8, or one srv1:0 per rank", file=path)
    if numbered:
        missing = next((rank for rank in range(len(numbered)) if rank not in numbered), None)
        if missing is not None:
            raise InputError(f"rank {missing} is missing; ranks count from 0 without gaps", file=path)
        return [numbered[rank] for rank in range(len(numbered))]
    if slots:
        return [RankPlace(host, None) for host, count in slots for _ in range(count)]
    hosts = [host for host, _ in plain]
    counts = {count for _, count in plain}
    if len(set(hosts)) == len(hosts) and len(counts) == 1 and (count := counts.pop()) is not None and count > 0:
        return [RankPlace(host, None) for host in hosts for _ in range(count)]
    return [RankPlace(host, gpu) for host, gpu in plain]


def read_nodes(path: Path) -> list[str]:
    """Return the node names in ``path``: names or Slurm expressions, several per line, ``#`` begins a comment."""
    names: list[str] = []
    for number, line in _lines(path):
        try:
            names += expand(line)
        except InputError as error:
            raise InputError(error.message, file=path, line=number) from None
    return names


def _lines(path: Path) -> list[tuple[int, str]]:
    """Return (number, text) of the lines that say something, continuations joined."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError("is not text", file=path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path) from None
    lines: list[tuple[int, str]] = []
    held, first = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        held, first = held + line.split("#", 1)[0], first or number
        if held.rstrip().endswith("\\"):
            held = held.rstrip()[:-1] + " "
            continue
        if held.strip():
            lines.append((first, held.strip()))
        held, first = "", 0
    if held.strip():
        lines.append((first, held.strip()))
    return lines
