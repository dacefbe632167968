"""Reads what nccl-tests and rccl-tests print, together with NCCL's own INFO and WARN lines, from logs as they come.

Logs come from mpirun with rank tags (``[1,0]<stdout>:``, ``[0]``, also in the middle of a line), from ``srun -l``, from several
runs one after another, with lines of many ranks mixed so that a row is torn in two, with warnings in between, cut off at the
end, or pasted without the leading ``#``. Columns are taken from the header in the log, so that old formats (no root, ``error``
in place of ``#wrong``) and new ones (per-iteration statistics) both work. Formats: nccl-tests 2.0 to 2.19 (src/util.cu,
src/common.cu), rccl-tests (src/common.cu), NCCL 2.30 (src/init.cc, src/transport/*.cc, src/enqueue.cc).
"""

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from railwright.errors import InputError
from railwright.workload.collectives.meaning import bus_factor, collective_name
from railwright.workload.nccl.facts import Evidence, Facts, FactsReader

ROWS = pl.Schema(
    {
        "line": pl.UInt32,
        "size_bytes": pl.Float64,
        "count": pl.Float64,
        "type": pl.String,
        "redop": pl.String,
        "in_place": pl.Boolean,
        "time_us": pl.Float64,
        "algbw_gbytes_s": pl.Float64,
        "busbw_gbytes_s": pl.Float64,
        "wrong": pl.Float64,
    }
)
"""Columns of `Run.rows`: one row per size and place; ``wrong`` is null when the run did not check (``N/A``)."""

RANKS = pl.Schema({"line": pl.UInt32, "rank": pl.UInt32, "host": pl.String, "device": pl.UInt32, "name": pl.String})

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_STOPPED = re.compile(
    r"Test (?:NCCL |CUDA |HIP )?failure|Test timeout|out of memory|CANCELLED AT|MPI_ABORT was invoked|mpirun noticed that process"
)
_REDUCED = re.compile(r"Reducing maxBytes to ([0-9]{1,20})")
_TAG = re.compile(r"\[\d+(?:,\d+)?\](?:<std(?:out|err)>:?)?(?!\s*NCCL)")
_FIRST_TAG = re.compile(r"^\s*(?:\[(\d+(?:,\d+)?)\](?:<std(?:out|err)>:?)?|(\d+):\s)")
_NOTICE = re.compile(r"\bNCCL (?:INFO|WARN|TRACE)\b")
_WHOLE = re.compile(r"[0-9]{1,20}")
_SETTINGS = re.compile(r"nThreads?:? \d+ nGpus:? \d+.*?minBytes:? ([0-9]{1,20}) maxBytes:? ([0-9]{1,20})(.*)")
_WARMUP = re.compile(r"warmup iters: \d+ iters: ([0-9]{1,9})")
_RANK = re.compile(r"Rank\s+([0-9]{1,9})\s.*?Pid\s+\d+ on\s+(\S+) device\s+([0-9]{1,9}) \[[^\]]*\]\s*(.*)")
_STARTING = re.compile(r"Collective test starting: (\S+)")
_PROGRAM = re.compile(r"\b(\w+?)_perf(?:_mpi)?\b")
_AVERAGE = re.compile(r"Avg bus bandwidth\s*:\s*(\S+)")
_OUT_OF_BOUNDS = re.compile(r"Out of bounds values\s*:\s*([0-9]{1,9})")
_NUMBER = re.compile(r"^[-+]?(?:[0-9]+\.?[0-9]*(?:[eE][-+]?[0-9]+)?|nan|inf)\*?$")
_INTEGERS = frozenset(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 32, 64))
_FLOATS = frozenset({"half", "float", "double", "bfloat16", "fp8_e4m3", "fp8_e5m2", "f8e4m3", "f8e5m2"})
_TYPES = _INTEGERS | _FLOATS | {"char", "int"}
_LABELS = ("size", "count", "type", "redop", "root")
_NEW_LAYOUT = (*_LABELS, *("time", "algbw", "busbw", "#wrong") * 2)
_TIMES = ("time", "cputime")
_OLD_LAYOUT = (*_LABELS[:4], *("time", "algbw", "busbw", "error") * 2)


@dataclass(frozen=True, eq=False)
class Run:
    """One execution of a test program, or of one process of it when every process prints its own table.

    ``collective`` is None when the log does not say; ``average_busbw`` None when the closing lines are missing; ``complete``
    says whether the largest size asked for was reached and the closing lines are there. ``torn`` counts rows that could not
    be put together. ``stops`` are lines with which the test, MPI or Slurm ended it.
    """

    first_line: int
    last_line: int
    stream: str
    collective: str | None
    min_bytes: float | None
    max_bytes: float | None
    iterations: int | None
    ranks: pl.DataFrame
    rows: pl.DataFrame
    average_busbw: float | None
    out_of_bounds: int | None
    torn: int
    facts: Facts
    stops: tuple[Evidence, ...]

    @property
    def size(self) -> int:
        """How many ranks took part: from the rank lines, or from NCCL's own lines."""
        return max(self.ranks.height, self.facts.ranks or 0)

    @property
    def hosts(self) -> int:
        """How many hosts took part: from the rank lines, or from NCCL's own lines."""
        return max(self.ranks["host"].n_unique() if self.ranks.height else 0, self.facts.nodes or 0)

    @property
    def complete(self) -> bool:
        """Whether the run came to its end."""
        largest = self.rows["size_bytes"].max() if self.rows.height else None
        reached = self.max_bytes is None or (isinstance(largest, float) and largest * 2 > self.max_bytes)
        return self.average_busbw is not None and reached


@dataclass(frozen=True)
class Log:
    """All runs of a log, in the order in which they begin."""

    runs: tuple[Run, ...]
    lines: int


@dataclass
class _Open:
    """A run while its lines are read; ``pending`` holds the left part of a torn row and its line."""

    stream: str
    first_line: int
    last_line: int
    program: str | None = None
    layout: Sequence[str] | None = None
    settings: tuple[float, float] | None = None
    iterations: int | None = None
    ranks: list[tuple[int, int, str, int, str]] = field(default_factory=list)
    rows: list[tuple[int, list[str], Sequence[str]]] = field(default_factory=list)
    pending: tuple[int, list[str]] | None = None
    torn: int = 0
    average: float | None = None
    out_of_bounds: int | None = None

    @property
    def began(self) -> bool:
        return bool(self.settings or self.rows or self.pending or self.layout)


def read_log(path: Path) -> Log:
    """Return the runs in the file ``path``; raises InputError when it cannot be read or holds no test output."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path) from None
    wide = data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    text = data.decode("utf-16" if wide else "utf-8-sig", errors="replace")
    return parse_log(text, file=path)


def parse_log(text: str, *, file: Path | str | None = None) -> Log:
    """Return the runs in ``text``; ``file`` is named in errors. Raises InputError when there is no row and no header."""
    streams: dict[str, _Open] = {}
    done: list[_Open] = []
    named = _Named()
    notices = FactsReader()
    lines = _COLOUR.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
    stops: list[Evidence] = []
    for number, line in enumerate(lines, start=1):
        tag = _FIRST_TAG.match(line)
        stream = (tag[1] or tag[2]) if tag else ""
        notice = _NOTICE.search(line)
        if notice or "CCL version" in line:
            notices.read(number, line)
        elif _STOPPED.search(line):
            stops.append(Evidence(number, line.strip()[:200]))
        plain = _TAG.sub(" ", line[: notice.start()] if notice else line)
        plain = re.sub(r"^\s*\d+:\s", " ", plain) if tag and tag[2] else plain
        _take(plain, number, stream, streams, done, named, torn=notice is not None)
    runs = [run for run in (*done, *streams.values()) if run.began]
    if not any(run.settings or run.rows for run in runs):
        raise InputError(
            "no line of nccl-tests or rccl-tests found; expected its header ('# nThread 1 nGpus 8 minBytes …') and rows of "
            "size, count, type, …, time, algbw, busbw",
            file=file,
        )
    runs.sort(key=lambda run: run.first_line)
    ends = [run.first_line for run in runs[1:]] + [len(lines) + 1]
    together = len({run.stream for run in runs}) > 1
    ranges = [
        (1 if together or index == 0 else run.first_line, len(lines) + 1 if together else end)
        for index, (run, end) in enumerate(zip(runs, ends, strict=True))
    ]
    return Log(
        runs=tuple(
            _closed(run, notices.facts(first, end), tuple(stop for stop in stops if first <= stop.line < end))
            for run, (first, end) in zip(runs, ranges, strict=True)
        ),
        lines=len(lines),
    )


@dataclass
class _Named:
    """The last test program named on a line of its own (a command), and which streams have had a run since."""

    program: str | None = None
    used_by: set[str] = field(default_factory=set)

    def use(self, stream: str) -> str | None:
        fresh = stream not in self.used_by
        self.used_by.add(stream)
        return self.program if fresh else None


def _take(
    line: str, number: int, stream: str, streams: dict[str, _Open], done: list[_Open], named: _Named, *, torn: bool
) -> None:
    """Hand one line, without tags and NCCL's notices, to the run of its stream; starts a new run where a header says so."""
    run = streams.setdefault(stream, _Open(stream, number, number))
    settings, starting = _SETTINGS.search(line), _STARTING.search(line)
    if (settings and (run.settings or run.rows)) or (starting and run.began):
        done.append(run)
        run = streams[stream] = _Open(stream, number, number)
    if not run.began:
        run.first_line = number
    if starting:
        run.program = starting[1]
    if settings:
        run.settings = (float(settings[1]), float(settings[2]))
        warmup = _WARMUP.search(settings[3])
        run.iterations = int(warmup[1]) if warmup else None
        run.program = run.program or named.use(stream)
    elif not starting and (program := _PROGRAM.search(line)) and "concluded" not in line:
        named.program, named.used_by = program[1], set()
    if match := _RANK.search(line):
        run.ranks.append((number, int(match[1]), match[2], int(match[3]), match[4].strip()))
        return
    if run.settings and (match := _REDUCED.search(line)):
        run.settings = (min(run.settings[0], float(match[1])), float(match[1]))
    if match := _AVERAGE.search(line):
        run.average = float(match[1]) if _NUMBER.match(match[1]) else None
        run.last_line = number
    if match := _OUT_OF_BOUNDS.search(line):
        run.out_of_bounds = int(match[1])
        run.last_line = number
    tokens = line.lstrip(" #").split()
    if tokens[:3] == ["size", "count", "type"]:
        run.layout = _layout(tokens) or run.layout
        return
    _row(run, number, line.split(), torn=torn)


def _layout(tokens: list[str]) -> list[str] | None:
    """Return the columns that a header names, or None when it is damaged: each time is followed by its two rates."""
    columns = [word for word in tokens if word != "timestamp"]
    places = [index for index, name in enumerate(columns) if name in _TIMES]
    whole = all(columns[place + 1 : place + 3] == ["algbw", "busbw"] for place in places)
    return columns if places and whole else None


def _row(run: _Open, number: int, tokens: list[str], *, torn: bool) -> None:
    """Add a result row, or the left or right part of a torn one."""
    start = next(
        (
            index
            for index in range(len(tokens) - 2)
            if _WHOLE.fullmatch(tokens[index]) and _WHOLE.fullmatch(tokens[index + 1]) and tokens[index + 2] in _TYPES
        ),
        None,
    )
    layout = run.layout or (_NEW_LAYOUT if start is None or _has_root(tokens[start:]) else _OLD_LAYOUT)
    if start is not None:
        if run.pending:
            run.torn += 1
        run.pending = None
        run.last_line = number
        cells = _cells(tokens[start:])
        if len(cells) >= len(layout):
            run.rows.append((number, cells[: len(layout)], layout))
        else:
            run.pending = (number, cells)
        return
    if run.pending and tokens and all(_is_value(token) for token in tokens) and not torn:
        first, left = run.pending
        cells = [*left, *tokens]
        run.last_line = number
        run.pending = None if len(cells) >= len(layout) else (first, cells)
        if len(cells) >= len(layout):
            run.rows.append((first, cells[: len(layout)], layout))


def _has_root(tokens: list[str]) -> bool:
    return len(tokens) >= 5 and tokens[3].isalpha() and bool(re.fullmatch(r"-?\d+", tokens[4]))


def _is_value(word: str) -> bool:
    return word == "N/A" or bool(_NUMBER.match(word))


def _cells(tokens: list[str]) -> list[str]:
    """Return the leading tokens that can be cells: the labels, then values up to the first one that is neither."""
    cells = tokens[:3]
    for token in tokens[3:]:
        if not _is_value(token) and len(cells) > 3:
            break
        cells.append(token)
    return cells


def _values(run: _Open) -> Iterator[tuple[object, ...]]:
    for number, cells, layout in run.rows:
        redop = cells[layout.index("redop")] if "redop" in layout else None
        places = [index for index, name in enumerate(layout) if name in _TIMES]
        for order, place in enumerate(places):
            time_us, algbw, busbw = (_float(cell) for cell in cells[place : place + 3])
            wrong = _float(cells[place + 3]) if place + 3 < len(cells) else None
            single = len(places) == 1
            size, count = _float(cells[0]), _float(cells[1])
            yield number, size, count, cells[2], redop, order == 1 or single, time_us, algbw, busbw, wrong


def _float(cell: str) -> float | None:
    return None if cell == "N/A" or not _NUMBER.match(cell) else float(cell.rstrip("*"))


def _closed(run: _Open, facts: Facts, stops: tuple[Evidence, ...]) -> Run:
    rows = pl.DataFrame(list(_values(run)), schema=ROWS, orient="row")
    ranks = pl.DataFrame(run.ranks, schema=RANKS, orient="row")
    return Run(
        first_line=run.first_line,
        last_line=max(run.last_line, run.first_line),
        stream=run.stream,
        collective=_collective(run, rows, max(ranks.height, facts.ranks or 0), facts),
        min_bytes=run.settings[0] if run.settings else None,
        max_bytes=run.settings[1] if run.settings else None,
        iterations=run.iterations,
        ranks=ranks,
        rows=rows,
        average_busbw=run.average,
        out_of_bounds=run.out_of_bounds,
        torn=run.torn + (run.pending is not None),
        facts=facts,
        stops=stops,
    )


def _collective(run: _Open, rows: pl.DataFrame, ranks: int, facts: Facts) -> str | None:
    """Return the collective from the program's name, NCCL's own lines, or the ratio of busbw to algbw (all-reduce only)."""
    for text in (run.program, facts.collective):
        if text:
            try:
                return collective_name(text)
            except InputError:
                continue
    large = rows.filter((pl.col("algbw_gbytes_s") > 1) & (pl.col("busbw_gbytes_s") > 0))
    if ranks > 2 and large.height:
        ratio = (large["busbw_gbytes_s"] / large["algbw_gbytes_s"]).median()
        if isinstance(ratio, float) and abs(ratio - bus_factor("all-reduce", ranks)) < 0.02:
            return "all-reduce"
    return None
