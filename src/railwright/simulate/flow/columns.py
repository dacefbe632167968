"""From traffic tables to the flow engine's arrays: kinds, amounts, and who waits for which repetition of whom.

`workload.traffic` says what rows, groups and repetitions mean; here that becomes a lag per wait: the whole of another row, the
same repetition of a row of a pipeline group, or the one before of a ring group's previous row.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.errors import InputError
from railwright.simulate.network import Network
from railwright.workload.traffic import ring_before

WHOLE, SAME, BEFORE = -1, 0, 1
"""Lags of a wait, as in `native/flow/schedule.hpp`."""


@dataclass(frozen=True)
class Operations:
    """Arrays of the ``n`` rows of a traffic table; ``wait_*`` has one entry per wait, grouped by row with ``wait_offset``."""

    sends: NDArray[np.bool_]
    src: NDArray[np.int64]
    dst: NDArray[np.int64]
    bytes: NDArray[np.float64]
    duration_us: NDArray[np.float64]
    start_us: NDArray[np.float64]
    repeat: NDArray[np.uint32]
    wait_offset: NDArray[np.int64]
    wait_op: NDArray[np.uint32]
    wait_lag: NDArray[np.int8]

    @property
    def count(self) -> int:
        """Rows."""
        return int(self.sends.size)


def operations(traffic: pl.DataFrame, network: Network) -> Operations:
    """Return the arrays of ``traffic``; raises InputError that names the operation and the column."""
    sends = (traffic["kind"].cast(pl.String) == "send").to_numpy()
    ends = {name: _ends(traffic, name, sends, network.hosts) for name in ("src", "dst")}
    amounts = {name: _amounts(traffic, name) for name in ("bytes", "duration_us", "start_us")}
    repeat = traffic["repeat"].fill_null(1).to_numpy().astype(np.uint32)
    if repeat.size and repeat.min() == 0:
        raise InputError(
            f"operation {_op(traffic, repeat == 0)} has repeat 0; it must be 1 or more", key="traffic.repeat"
        )
    offset, on, lag = _waits(traffic)
    return Operations(
        sends=sends,
        src=ends["src"],
        dst=ends["dst"],
        bytes=np.where(sends, amounts["bytes"], 0.0),
        duration_us=amounts["duration_us"],
        start_us=amounts["start_us"],
        repeat=repeat,
        wait_offset=offset,
        wait_op=on,
        wait_lag=lag,
    )


def _op(traffic: pl.DataFrame, wrong: NDArray[np.bool_]) -> int:
    return int(traffic["op_id"][int(np.flatnonzero(wrong)[0])])


def _ends(traffic: pl.DataFrame, name: str, sends: NDArray[np.bool_], hosts: int) -> NDArray[np.int64]:
    values = traffic[name].cast(pl.Int64).fill_null(-1).to_numpy()
    wrong = sends & ((values < 0) | (values >= hosts))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"operation {_op(traffic, wrong)} has {name} {traffic[name][row]}; endpoints are 0 to {hosts - 1}",
            key=f"traffic.{name}",
        )
    return np.where(sends, values, 0)


def _amounts(traffic: pl.DataFrame, name: str) -> NDArray[np.float64]:
    values = traffic[name].cast(pl.Float64).fill_null(0.0).to_numpy()
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"operation {_op(traffic, wrong)} has {name} {values[row]:g}; it must be 0 or more", key=f"traffic.{name}"
        )
    return values


def _waits(traffic: pl.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.int8]]:
    rows = traffic.height
    counts = traffic["after"].list.len().fill_null(0).to_numpy().astype(np.int64)
    listed = traffic["after"].explode().drop_nulls().to_numpy()
    row, on = np.repeat(np.arange(rows), counts), _rows_of(traffic, listed)
    lag = np.full(on.size, WHOLE, np.int8)
    group = traffic["group"].cast(pl.Int64).fill_null(-1).to_numpy()
    if group.size and group.max() >= 0:
        _check_repeats(traffic, group)
        piped = (group[row] >= 0) & (group[row] == group[on])
        lag[piped] = SAME
        ring = (group >= 0) & ~np.isin(group, np.unique(group[row[piped]]))
        ring &= traffic["repeat"].fill_null(1).to_numpy() > 1
        circling = np.flatnonzero(ring)
        if circling.size:
            row = np.concatenate([row, circling])
            on = np.concatenate([on, circling[_before(traffic, group, circling)]])
            lag = np.concatenate([lag, np.full(circling.size, BEFORE, np.int8)])
            order = np.argsort(row, kind="stable")
            row, on, lag = row[order], on[order], lag[order]
    offset = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))]).astype(np.int64)
    return offset, on.astype(np.uint32), lag


def _rows_of(traffic: pl.DataFrame, ids: NDArray[np.unsignedinteger]) -> NDArray[np.int64]:
    """Return the row number of each op id."""
    known = traffic["op_id"].to_numpy()
    if known.size and known[0] == 0 and bool(np.all(np.diff(known.astype(np.int64)) == 1)):
        rows, missing = ids.astype(np.int64), ids >= known.size
    else:
        order = np.argsort(known, kind="stable")
        twice = np.flatnonzero(np.diff(known[order].astype(np.int64)) == 0)
        if twice.size:
            raise InputError(f"operation {known[order][twice[0]]} is there twice", key="traffic.op_id")
        spots = np.minimum(np.searchsorted(known[order], ids), max(0, known.size - 1))
        rows = order[spots]
        missing = known[rows] != ids
    if missing.any():
        raise InputError(f"operation {ids[missing][0]} is waited for and does not exist", key="traffic.after")
    return rows


def _check_repeats(traffic: pl.DataFrame, group: NDArray[np.int64]) -> None:
    repeat = traffic["repeat"].fill_null(1).to_numpy()
    grouped = np.flatnonzero(group >= 0)
    order = grouped[np.argsort(group[grouped], kind="stable")]
    uneven = np.flatnonzero((np.diff(group[order]) == 0) & (np.diff(repeat[order].astype(np.int64)) != 0))
    if uneven.size:
        raise InputError(
            f"the rows of group {group[order[uneven[0]]]} have different values of repeat", key="traffic.repeat"
        )


def _before(traffic: pl.DataFrame, group: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each row of the ring groups, which of ``rows`` (by position) ends where it starts."""
    src, dst = (traffic[name].to_numpy().astype(np.int64)[rows] for name in ("src", "dst"))
    return ring_before(group[rows], src, dst)
