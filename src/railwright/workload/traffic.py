"""Builds traffic tables (`tables.TABLES["traffic"]`) block by block from arrays, and says what their rows mean.

**Meaning of a row.** ``repeat`` sends of ``bytes`` each from ``src`` to ``dst``, one after another: send ``k`` (from 0) of a row
may start when the last byte of send ``k - 1`` of the same row has left. Send 0 waits for ``start_us`` and for every *other-group*
row listed in ``after`` to have finished its last send. Between rows, waiting is for the arrival.

**Groups** fold what would be millions of rows:

- A *ring* group is one in which no row lists a row of the same group in ``after``. Its rows form a cycle: send ``k >= 1`` of
  a row also waits for send ``k - 1`` of the row of that group whose ``dst`` is this row's ``src`` (the data forwarded in
  step ``k`` arrived in step ``k - 1``). A ring that comes by a rank twice has its rows in their order, so that the row before
  is meant (`ring_before`). All rows of a group have the same ``repeat``.
- A *pipeline* group is one in which some row lists a row of the same group in ``after``. Send ``k`` of a row waits for send
  ``k`` of the listed rows of its group (piece ``k`` arrives, then travels on), not for their end.

A row of no group (null) with ``repeat`` above 1 is just that many sends in sequence. `unfold` turns any table into the
equivalent one with ``repeat`` 1 everywhere and no group: it is the definition in code.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from railwright.errors import InputError
from railwright.tables import TABLES, conform

Ids = NDArray[np.int64]
NONE = -1
"""In a matrix of dependencies: no dependency here."""


class Traffic:
    """A traffic table under construction. ``job`` and ``traffic_class`` are written to every row."""

    def __init__(self, job: str = "job", traffic_class: str = "rdma", direction: str = "east_west") -> None:
        self._labels = {"job": job, "class": traffic_class, "direction": direction}
        self._blocks: list[pl.DataFrame] = []
        self._ops = 0
        self._groups = 0

    @property
    def next_id(self) -> int:
        """The op id that the next row will get: rows of a block may wait for each other."""
        return self._ops

    def groups(self, count: int) -> Ids:
        """Return ``count`` new group numbers."""
        self._groups += count
        return np.arange(self._groups - count, self._groups)

    def send(
        self,
        src: ArrayLike,
        dst: ArrayLike,
        bytes_each: ArrayLike,
        *,
        after: Ids | tuple[Ids, Ids] | None = None,
        repeat: int = 1,
        group: ArrayLike | None = None,
        start_us: ArrayLike = 0.0,
        duration_us: ArrayLike = 0.0,
        kind: str = "send",
    ) -> Ids:
        """Append one row per element of ``src`` and ``dst`` (m global endpoint ids) and return their op ids (int64, m).

        ``after`` is a matrix (m, k) of op ids with `NONE` for "no more", or a pair (op ids, offsets[m + 1]) for lists of any
        length. ``bytes_each``, ``group``, ``start_us`` and ``duration_us`` (of computing) are scalars or arrays of m.
        """
        source = np.asarray(src).ravel()
        rows = source.size
        ids = np.arange(self._ops, self._ops + rows)
        self._ops += rows
        block = {
            "op_id": ids.astype(np.uint32),
            "src": source.astype(np.uint32),
            "dst": np.asarray(dst).ravel().astype(np.uint32),
            "bytes": np.broadcast_to(np.asarray(bytes_each, np.float64).ravel(), rows),
            "start_us": np.broadcast_to(np.asarray(start_us, np.float64).ravel(), rows),
            "duration_us": np.broadcast_to(np.asarray(duration_us, np.float64).ravel(), rows),
        }
        frame = pl.DataFrame(block).with_columns(
            pl.lit(repeat, pl.UInt32).alias("repeat"),
            pl.lit(kind).alias("kind"),
            *(pl.lit(text).alias(column) for column, text in self._labels.items()),
            _lists(after, rows),
            (
                pl.lit(None, pl.UInt32)
                if group is None
                else pl.Series(np.broadcast_to(np.asarray(group).ravel(), rows).astype(np.uint32))
            ).alias("group"),
        )
        self._blocks.append(conform("traffic", frame))
        return ids

    def frame(self) -> pl.DataFrame:
        """Return the table."""
        return pl.concat([pl.DataFrame(schema=TABLES["traffic"]), *self._blocks], rechunk=True)


def _lists(after: Ids | tuple[Ids, Ids] | None, rows: int) -> pl.Series:
    kind = pl.List(pl.UInt32)
    if after is None or rows == 0:
        return pl.Series("after", [[]], dtype=kind).new_from_index(0, rows)
    if isinstance(after, tuple):
        values, offsets = after
        counts = np.diff(offsets)
    else:
        matrix = after.reshape(rows, -1)
        present = matrix != NONE
        if present.all() and matrix.shape[1]:
            return pl.Series("after", matrix.astype(np.uint32)).arr.to_list()
        counts = present.sum(axis=1)
        values = matrix[present]
    listed = (
        pl.DataFrame({"row": np.repeat(np.arange(rows), counts), "after": values.astype(np.uint32)})
        .group_by("row", maintain_order=True)
        .agg("after")
    )
    empty = pl.Series("after", [[]], dtype=kind)
    column = pl.concat([empty, listed["after"]])
    place = np.zeros(rows, np.int64)
    place[listed["row"].to_numpy()] = np.arange(1, listed.height + 1)
    return column.gather(place)


def merge(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return one traffic table of several jobs: op ids and groups are renumbered so that none meet."""
    ops = groups = 0
    shifted = []
    for table in tables:
        shifted.append(
            table.with_columns(
                (pl.col("op_id") + ops).cast(pl.UInt32),
                pl.col("after").list.eval((pl.element() + ops).cast(pl.UInt32)),
                (pl.col("group") + groups).cast(pl.UInt32),
            )
        )
        if table.height:
            ops += int(np.asarray(table["op_id"].max()).item()) + 1
            last = table["group"].max()
            groups += 0 if last is None else int(np.asarray(last).item()) + 1
    return pl.concat([pl.DataFrame(schema=TABLES["traffic"]), *shifted])


def unfold(table: pl.DataFrame) -> pl.DataFrame:
    """Return the equivalent table with one row per send: ``repeat`` 1, no ``group``, every wait written in ``after``.

    Op ``i`` of the input becomes ``repeat`` consecutive op ids. Raises InputError when the rows of a group repeat differently
    or a ring group is not a ring: the table has no meaning then.
    """
    rows = table.with_row_index("row")
    repeat = rows["repeat"].to_numpy().astype(np.int64)
    first = np.concatenate([[0], np.cumsum(repeat)])
    uneven = rows.filter(pl.col("group").is_not_null()).group_by("group").agg(pl.col("repeat").n_unique())
    if uneven.height and uneven.filter(pl.col("repeat") > 1).height:
        group = uneven.filter(pl.col("repeat") > 1)["group"][0]
        raise InputError(f"the rows of group {group} have different values of repeat", key="traffic.repeat")
    waits = rows.select("row", "group", "after").explode("after", empty_as_null=False).drop_nulls("after")
    known = rows.select(pl.col("op_id").alias("after"), pl.col("row").alias("on"), pl.col("group").alias("on_group"))
    waits = waits.join(known, on="after", how="left")
    lost = waits.filter(pl.col("on").is_null())
    if lost.height:
        raise InputError(f"op {lost['after'][0]} is waited for and does not exist", key="traffic.after")
    same = (pl.col("group") == pl.col("on_group")).fill_null(False)
    piped, whole = waits.filter(same), waits.filter(~same)
    rings = rows.filter(pl.col("group").is_not_null() & ~pl.col("group").is_in(piped["group"].unique().implode()))
    place = ring_before(*(rings[name].to_numpy().astype(np.int64) for name in ("group", "src", "dst")))
    before = rings.select("row", on=rings["row"].gather(place))
    edges = [
        _edges(np.arange(table.height), np.arange(table.height), repeat, first, 1),
        _edges(before["row"].to_numpy(), before["on"].to_numpy(), repeat, first, 1),
        _edges(piped["row"].to_numpy(), piped["on"].to_numpy(), repeat, first, 0),
        np.stack([first[whole["row"].to_numpy()], first[whole["on"].to_numpy() + 1] - 1]),
    ]
    op, on = np.concatenate(edges, axis=1)
    distinct = np.unique(op * (first[-1] + 1) + on)
    op, on = np.divmod(distinct, first[-1] + 1)
    total = int(first[-1])
    offsets = np.concatenate([[0], np.cumsum(np.bincount(op, minlength=total))])
    source = np.repeat(np.arange(table.height), repeat)
    return conform(
        "traffic",
        table[source].with_columns(
            pl.Series("op_id", np.arange(total), pl.UInt32),
            pl.lit(1, pl.UInt32).alias("repeat"),
            pl.lit(None, pl.UInt32).alias("group"),
            _lists((on, offsets), total),
        ),
    )


def ring_before(group: Ids, src: Ids, dst: Ids) -> Ids:
    """Return, for each row of the ring groups (m rows), the position of the row of its group that ends where it starts.

    That is the row before it (for the first one the last) where every row of the groups starts where the one before ends; a
    ring in any other order must come by each rank once. Raises InputError where it does not, or where a group is no ring.
    """
    order = np.argsort(group, kind="stable")
    first = np.concatenate([[0], np.flatnonzero(np.diff(group[order])) + 1]) if group.size else np.zeros(0, np.int64)
    last = np.concatenate([first[1:], [group.size]]) - 1
    earlier = np.arange(group.size) - 1
    earlier[first] = last[: first.size]
    before = np.empty(group.size, np.int64)
    before[order] = order[earlier]
    if bool(np.all(dst[before] == src)):
        return before
    width = int(max(src.max(), dst.max())) + 1
    starts, ends = group * width + src, group * width + dst
    order = np.argsort(ends, kind="stable")
    spots = np.minimum(np.searchsorted(ends[order], starts), group.size - 1)
    broken = ends[order][spots] != starts
    twice = np.diff(ends[order]) == 0
    if broken.any() or twice.any():
        wrong = group[broken][0] if broken.any() else group[order][1:][twice][0]
        raise InputError(f"group {wrong} repeats without pipeline waits and is not a ring", key="traffic.group")
    return order[spots]


def _edges(row: Ids, on: Ids, repeat: Ids, first: Ids, lag: int) -> Ids:
    """Return (2, m) explicit waits: send ``k`` of ``row`` waits for send ``k - lag`` of ``on``, for all ``k`` where it exists."""
    row, on = row.astype(np.int64), on.astype(np.int64)
    counts = np.maximum(repeat[row] - lag, 0)
    step = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.stack([np.repeat(first[row], counts) + step + lag, np.repeat(first[on], counts) + step])
