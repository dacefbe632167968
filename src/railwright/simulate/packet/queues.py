"""Thresholds of single queues for the packet engine, where they differ from those of their class.

The frame has one row per directed link and class: ``link`` (UInt32: the directed link that leaves the port), ``class`` (a
name of `PacketOptions.classes`), and, null where the class decides: ``kmin_bytes, kmax_bytes, pmax`` of the queue that the
port sends from, and ``headroom_bytes, reserve_bytes, xoff_bytes`` of what the same port receives.
"""

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.errors import InputError, nearest
from railwright.simulate.network import Network
from railwright.simulate.packet.options import PacketOptions

SENDING = ("kmin_bytes", "kmax_bytes", "pmax")
RECEIVING = ("headroom_bytes", "reserve_bytes", "xoff_bytes")


def plan_thresholds(qos: pl.DataFrame, port_links: pl.DataFrame, classes: dict[str, str]) -> pl.DataFrame:
    """Return the thresholds of a plan's table ``qos``.

    ``port_links`` (port_id, link) tells which directed link leaves a port; ``classes`` maps the plan's class names to those
    of the options, others are left out. In that table ``xoff_bytes`` is the room behind the pause threshold (SONiC's word),
    which the engine calls headroom; the rest of its ``headroom_bytes`` is the reserve.
    """
    return (
        qos.filter(pl.col("class").is_in(list(classes)))
        .join(port_links, on="port_id")
        .select(
            pl.col("link").cast(pl.UInt32),
            pl.col("class").replace_strict(classes, return_dtype=pl.String),
            *(pl.col(name).cast(pl.Float64) for name in SENDING),
            headroom_bytes=pl.col("xoff_bytes").cast(pl.Float64),
            reserve_bytes=pl.col("headroom_bytes").cast(pl.Float64) - pl.col("xoff_bytes").cast(pl.Float64),
            xoff_bytes=pl.lit(None, pl.Float64),
        )
        .unique(["link", "class"], keep="first", maintain_order=True)
    )


def queue_columns(network: Network, options: PacketOptions, thresholds: pl.DataFrame | None) -> dict[str, NDArray[Any]]:
    """Return the engine's arrays [link x classes], NaN where the class decides; raises InputError for unknown rows."""
    names = [item.name for item in options.classes]
    links = network.link_gbps.size
    if thresholds is None or thresholds.is_empty():
        return {f"queue_{name.removesuffix('_bytes')}": np.empty(0) for name in (*SENDING, *RECEIVING)}
    unknown = thresholds.filter(~pl.col("class").is_in(names))
    if unknown.height:
        name = unknown["class"][0]
        raise InputError(f"there is no class {name!r}{nearest(name, names)}; classes are {', '.join(names)}", key="qos")
    link = thresholds["link"].to_numpy().astype(np.int64)
    if link.max() >= links:
        raise InputError(f"directed link {link.max()} does not exist; there are {links}", key="qos")
    cls = thresholds["class"].replace_strict({name: i for i, name in enumerate(names)}).to_numpy().astype(np.int64)
    columns = {}
    for name in (*SENDING, *RECEIVING):
        values = np.full(links * len(names), np.nan)
        if name in thresholds.columns:
            at = link if name in SENDING else link ^ 1
            values[at * len(names) + cls] = thresholds[name].cast(pl.Float64).to_numpy()
        columns[f"queue_{name.removesuffix('_bytes')}"] = values
    return columns
