"""Paths of the user's own: a CSV with the columns ``src,dst,path``, one row per pair of endpoints.

A path is node names joined by ``;`` (both ends may be left out). Pairs that the file does not name go as the path mode says.
"""

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.errors import InputError, InputErrors
from railwright.simulate.network import Network
from railwright.simulate.network_file import WrongCell, cables_of, host_cell, path_cell, read_cells

COLUMNS = ("src", "dst", "path")


def read_paths(file: Path, network: Network, traffic: pl.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return (offsets[n + 1], directed links) for the n rows of ``traffic``, empty where the file names no path.

    Raises InputError with line and column for unknown names, paths over missing links, pairs named twice, and for a file
    none of whose pairs sends anything.
    """
    number = {name: i for i, name in enumerate(network.node_name.to_list())}
    cable = cables_of(network)
    found: dict[tuple[int, int], list[int]] = {}
    errors: list[InputError] = []
    for line, row in read_cells(file, COLUMNS, COLUMNS):
        try:
            src, dst = (host_cell(row, key, number, network.hosts) for key in ("src", "dst"))
            if (src, dst) in found:
                raise WrongCell("dst", f"the pair {row['src']!r} to {row['dst']!r} has a path already")
            found[src, dst] = path_cell(row["path"], [src, dst], number, cable)
        except WrongCell as wrong:
            errors.append(InputError(wrong.message, file=file, line=line, key=wrong.key))
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors[:50])
    pairs = pl.DataFrame(
        {
            "src": pl.Series([src for src, _ in found], dtype=pl.UInt32),
            "dst": pl.Series([dst for _, dst in found], dtype=pl.UInt32),
            "links": pl.Series(list(found.values()), dtype=pl.List(pl.Int32)),
        }
    )
    sends = pl.col("kind").cast(pl.String) == "send"
    listed = traffic.select("src", "dst", sends.alias("sends")).join(
        pairs, on=["src", "dst"], how="left", maintain_order="left"
    )
    links = listed.select(pl.when("sends").then("links").otherwise(None).fill_null([])).to_series()
    counts = links.list.len().to_numpy()
    if not counts.any():
        raise InputError("no pair of this file sends anything in this run", file=file)
    flat = links.list.explode(keep_nulls=False, empty_as_null=False).to_numpy()
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), np.ascontiguousarray(flat, np.int32)
