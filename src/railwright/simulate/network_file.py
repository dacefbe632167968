"""Networks and flows of the user's own: ``NET.yaml`` and ``FLOWS.csv`` become a `Network`, a traffic table and paths.

``NET.yaml`` has ``nodes`` (name, kind host|switch, for a host pcie_gbps, for a switch buffer_bytes, latency_ns, qos),
``links`` (a, b, gbps, delay_us) and, when nodes name one, ``qos``: profiles of thresholds per class. ``FLOWS.csv`` has the
columns ``flow_id,src,dst,bytes,start_us,class,path``; the last three may be missing or empty, a path is node names joined by
``;`` (both ends may be left out). Every mistake is an error with its line; all mistakes of a file are told at once.
"""

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from railwright.documents import Document, read_document
from railwright.errors import InputError, InputErrors, nearest
from railwright.simulate.network import HOST, SWITCH, Network
from railwright.simulate.packet.options import LEAST_GBPS, MOST_BYTES
from railwright.simulate.packet.queues import RECEIVING, SENDING
from railwright.tables import conform
from railwright.validation import validate

COLUMNS = ("flow_id", "src", "dst", "bytes", "start_us", "class", "path")
_NEEDED = COLUMNS[:4]
_MOST_BYTES = 256 * 2**20
_MOST_ERRORS = 50


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Node(_Model):
    """A host or a switch; ``pcie_gbps`` (0: no limit) is a host's, the buffer, latency and thresholds are a switch's."""

    name: str = Field(min_length=1, max_length=200)
    kind: Literal["host", "switch"]
    buffer_bytes: float = Field(0.0, ge=0, le=MOST_BYTES)
    latency_ns: float = Field(0.0, ge=0, le=1e9)
    pcie_gbps: float = Field(0.0, ge=0, le=1e5)
    qos: str | None = None


class Link(_Model):
    """A cable: the same rate and delay both ways."""

    a: str
    b: str
    gbps: float = Field(ge=LEAST_GBPS, le=1e5)
    delay_us: float = Field(ge=0, le=1e6)


class Queue(_Model):
    """Thresholds of one class on every port of a switch; what is left out is the class's own."""

    kmin_bytes: float | None = Field(None, ge=0, le=MOST_BYTES)
    kmax_bytes: float | None = Field(None, ge=0, le=MOST_BYTES)
    pmax: float | None = Field(None, ge=0, le=1)
    headroom_bytes: float | None = Field(None, ge=0, le=MOST_BYTES)
    reserve_bytes: float | None = Field(None, ge=0, le=MOST_BYTES)
    xoff_bytes: float | None = Field(None, ge=0, le=MOST_BYTES)

    @model_validator(mode="after")
    def _thresholds_rise(self) -> "Queue":
        if self.kmin_bytes is not None and self.kmax_bytes and self.kmin_bytes > self.kmax_bytes:
            raise ValueError(f"kmin_bytes {self.kmin_bytes:g} is above kmax_bytes {self.kmax_bytes:g}")
        return self


class NetworkFile(_Model):
    """The shape of ``NET.yaml``."""

    nodes: tuple[Node, ...] = Field(min_length=2)
    links: tuple[Link, ...] = Field(min_length=1)
    qos: dict[str, dict[str, Queue]] = Field(default_factory=dict)


@dataclass(frozen=True)
class UserNetwork:
    """A network of the user's own, the thresholds of its queues (`packet/queues`; null when no node names a profile), and what
    each host takes over PCIe (float64, hosts; 0: no limit; see `host_limits`)."""

    network: Network
    thresholds: pl.DataFrame | None
    pcie_gbps: NDArray[np.float64]


def read_network(path: Path) -> UserNetwork:
    """Return the network of ``NET.yaml``; hosts come first, each kind in the order of the file. Raises InputError."""
    document = read_document(path, what="a network (NET.yaml)")
    file = validate(NetworkFile, document)
    errors = list(_contradictions(file, document))
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)
    nodes = sorted(file.nodes, key=lambda node: node.kind != "host")
    number = {node.name: i for i, node in enumerate(nodes)}
    ends = np.asarray([[number[link.a], number[link.b]] for link in file.links], np.int32)
    network = Network(
        node_name=pl.Series("name", [node.name for node in nodes]),
        node_kind=np.asarray([HOST if node.kind == "host" else SWITCH for node in nodes], np.uint8),
        node_buffer_bytes=np.asarray([node.buffer_bytes for node in nodes], np.float64),
        node_latency_ns=np.asarray([node.latency_ns for node in nodes], np.float64),
        link_src=np.ascontiguousarray(ends.ravel()),
        link_dst=np.ascontiguousarray(ends[:, ::-1].ravel()),
        link_gbps=np.repeat([link.gbps for link in file.links], 2),
        link_delay_ns=np.repeat([link.delay_us * 1e3 for link in file.links], 2),
        link_id=np.arange(len(file.links), dtype=np.uint32),
    )
    profile = [node.qos for node in nodes]
    rows = [
        {"link": link, "class": name, **queue.model_dump()}
        for link, source in enumerate(network.link_src.tolist())
        if (chosen := profile[source]) is not None
        for name, queue in file.qos[chosen].items()
    ]
    schema = {"link": pl.UInt32, "class": pl.String, **dict.fromkeys((*SENDING, *RECEIVING), pl.Float64)}
    pcie_gbps = np.asarray([node.pcie_gbps for node in nodes[: network.hosts]], np.float64)
    return UserNetwork(network, pl.DataFrame(rows, schema=schema) if rows else None, pcie_gbps)


def _contradictions(file: NetworkFile, document: Document) -> Iterator[InputError]:
    kinds: dict[str, str] = {}
    for i, node in enumerate(file.nodes):
        if node.name in kinds:
            yield document.error(("nodes", i, "name"), f"there is a node {node.name!r} already")
        kinds[node.name] = node.kind
        if ";" in node.name or node.name != node.name.strip():
            yield document.error(("nodes", i, "name"), f"{node.name!r}: a name has no ';' and no space at its ends")
        if node.pcie_gbps and node.kind != "host":
            yield document.error(("nodes", i, "pcie_gbps"), f"{node.name!r} is a switch; hosts have a PCIe rate")
        if 0 < node.pcie_gbps < LEAST_GBPS:
            yield document.error(
                ("nodes", i, "pcie_gbps"), f"{node.pcie_gbps:g} is below {LEAST_GBPS:g}; 0 is no limit"
            )
        if node.qos is not None and node.qos not in file.qos:
            yield document.error(
                ("nodes", i, "qos"), f"there is no profile {node.qos!r} under qos{nearest(node.qos, file.qos)}"
            )
    if "host" not in kinds.values():
        yield document.error(("nodes",), "no node is a host, so nothing can send; give two nodes kind: host")
    for i, link in enumerate(file.links):
        for end, name in (("a", link.a), ("b", link.b)):
            if name not in kinds:
                yield document.error(("links", i, end), f"there is no node {name!r}{nearest(name, kinds)}")
        if link.a == link.b:
            yield document.error(("links", i, "b"), f"both ends are {link.a!r}")


def read_flows(path: Path, network: Network) -> tuple[pl.DataFrame, tuple[NDArray[np.int64], NDArray[np.int32]] | None]:
    """Return (traffic table, pinned paths or None) of ``FLOWS.csv``; raises InputError with line and column name."""
    rows = read_cells(path, COLUMNS, _NEEDED)
    errors: list[InputError] = []
    number = {name: i for i, name in enumerate(network.node_name.to_list())}
    hosts = network.hosts
    cable = cables_of(network)
    ids: dict[int, int] = {}
    out: dict[str, list[object]] = {name: [] for name in ("op_id", "src", "dst", "bytes", "start_us", "class")}
    paths: list[list[int]] = []
    for line, row in rows:
        try:
            flow = _number(row, "flow_id", 0, 2**32 - 1, whole=True)
            if int(flow) in ids:
                raise WrongCell("flow_id", f"{int(flow)} is on line {ids[int(flow)]} already")
            ids[int(flow)] = line
            ends = [host_cell(row, key, number, hosts) for key in ("src", "dst")]
            values = (int(flow), *ends, _number(row, "bytes", 0, 1e15), _number(row, "start_us", 0, 1e12, empty=0.0))
            steps = path_cell(row.get("path", ""), ends, number, cable)
        except WrongCell as wrong:
            errors.append(InputError(wrong.message, file=path, line=line, key=wrong.key))
            if len(errors) == _MOST_ERRORS:
                break
            continue
        for name, value in zip(out, (*values, row.get("class") or "data"), strict=True):
            out[name].append(value)
        paths.append(steps)
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)
    traffic = pl.DataFrame(out, schema_overrides={"op_id": pl.UInt32, "src": pl.UInt32, "dst": pl.UInt32}).with_columns(
        kind=pl.lit("send"),
        job=pl.lit("flows"),
        direction=pl.lit("east_west"),
        repeat=pl.lit(1),
        duration_us=pl.lit(0.0),
    )
    pinned = None
    if any(paths):
        offsets = np.concatenate([[0], np.cumsum([len(steps) for steps in paths])]).astype(np.int64)
        pinned = (offsets, np.asarray([link for steps in paths for link in steps], np.int32))
    return conform("traffic", traffic), pinned


class WrongCell(Exception):
    """A cell of a CSV file that cannot be: the column's name and what is wrong."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key, self.message = key, message


def cables_of(network: Network) -> dict[tuple[int, int], int]:
    """Return the first directed link from one node to another, for every pair of nodes that a cable joins."""
    cable: dict[tuple[int, int], int] = {}
    for link, pair in enumerate(zip(network.link_src.tolist(), network.link_dst.tolist(), strict=True)):
        cable.setdefault(pair, link)
    return cable


def read_cells(path: Path, columns: Sequence[str], needed: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    """Return (line, cells by column) of every row of a CSV file whose first line names some of ``columns``, in any order.

    Raises InputError for what is no CSV, for an unknown column, and for one of ``needed`` that is missing.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(f"is larger than {_MOST_BYTES // 2**20} MiB", file=path)
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError("no such file", file=path) from None
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", file=path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[tuple[int, dict[str, str]]] = []
    try:
        header = [name.strip() for name in next(reader, [])]
        for name in header:
            if name not in columns:
                hint = nearest(name, columns) or f"; columns are {', '.join(columns)}"
                raise InputError(f"unknown column {name!r}{hint}", file=path, line=1)
        for name in needed:
            if name not in header:
                raise InputError(f"column {name!r} is missing; the first line names the columns", file=path, line=1)
        if len(set(header)) < len(header):
            raise InputError("a column is named twice", file=path, line=1)
        for fields in reader:
            if not fields or (len(fields) == 1 and not fields[0].strip()):
                continue
            if len(fields) > len(header):
                raise InputError(f"{len(fields)} fields, the header has {len(header)}", file=path, line=reader.line_num)
            values = dict(zip(header, (field.strip() for field in fields), strict=False))
            rows.append((reader.line_num, values))
    except csv.Error as error:
        raise InputError(f"is not CSV: {error}", file=path, line=reader.line_num) from None
    if not rows:
        raise InputError("has no row below its first line", file=path)
    return rows


def _number(
    row: dict[str, str], key: str, least: float, most: float, *, whole: bool = False, empty: float | None = None
) -> float:
    text = row.get(key, "")
    if not text and empty is not None:
        return empty
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or (whole and value != int(value)):
        raise WrongCell(key, f"{text!r} is not a {'whole ' if whole else ''}number")
    if not least <= value <= most:
        raise WrongCell(key, f"{text} is out of range; it must be from {least:g} to {most:g}")
    return value


def host_cell(row: dict[str, str], key: str, number: dict[str, int], hosts: int) -> int:
    """Return the number of the host that a cell names; raises WrongCell."""
    name = row.get(key, "")
    if name not in number:
        raise WrongCell(key, f"there is no node {name!r}{nearest(name, number)}")
    if number[name] >= hosts:
        raise WrongCell(key, f"{name!r} is a switch; flows run between hosts")
    return number[name]


def path_cell(text: str, ends: list[int], number: dict[str, int], cable: dict[tuple[int, int], int]) -> list[int]:
    """Return the directed links of a path written as node names joined by ``;`` (empty: none); raises WrongCell."""
    if not text:
        return []
    stops = []
    for name in (part.strip() for part in text.split(";")):
        if name not in number:
            raise WrongCell("path", f"there is no node {name!r}{nearest(name, number)}")
        stops.append(number[name])
    if stops[0] != ends[0]:
        stops.insert(0, ends[0])
    if stops[-1] != ends[1]:
        stops.append(ends[1])
    if len(set(stops)) < len(stops):
        raise WrongCell("path", f"{text!r} visits a node twice")
    names = list(number)
    for a, b in pairwise(stops):
        if (a, b) not in cable:
            raise WrongCell("path", f"no link joins {names[a]!r} and {names[b]!r}")
    return [cable[pair] for pair in pairwise(stops)]
