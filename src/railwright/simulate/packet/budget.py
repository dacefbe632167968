"""Where the time of flows goes, per kind of path: the latency budget of a packet run.

Every part is what the last packet of a flow met on its way (`native/packet`, ``Budget``): its wait at the sender beyond what
the bytes before it need (other flows, congestion control, windows, steps of a collective), propagation and switching of its
path, its waits in the queues of switches, the time that its ports were paused meanwhile (the sender's as well), and its
retransmissions. The rest of the completion time is serialisation, as far as an idle network needs it too; what is left beyond
that came late: other packets that were sprayed or sent again, and with ``finish: acknowledged`` the way back. Waits for
InfiniBand's credits count as queueing.
"""

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.simulate.network import SCALE_UP, Network

PARTS = ("sender", "serialisation", "propagation", "switching", "queueing", "pause", "retransmit", "late")
"""Parts of a completion time, in the order of a packet's life; they add up to it."""
TAIL_SHARE = 0.01


def latency_budget(
    network: Network, flows: pl.DataFrame, sends: NDArray[np.bool_], budget: dict[str, Any]
) -> pl.DataFrame:
    """Return one row per job, class, ``over``, hops and ``of``: ``flows, fct_us`` and every part in us, all of them means.

    ``flows`` is table ``flows``, ``sends`` the rows of the budget that are its own. ``over`` is ``scale-up`` or ``fabric``.
    ``of`` is ``all``, or ``slowest 1%``: at least one flow. Flows that did not finish, and those that never left their endpoint,
    are left out. Of repeated sends the last repetition is told, and its wait for its turn is the sender's.
    """
    if not len(budget["sender_ps"]):
        return pl.DataFrame()
    told = {name: budget[f"{name}_ps"][sends] / 1e6 for name in ("sender", "propagation", "switching", "queueing")}
    into = network.node_kind[network.link_dst[budget["first_link"][sends]]]
    over = pl.Series("over", np.where(into == SCALE_UP, "scale-up", "fabric"))
    parts = pl.DataFrame(
        {**told, "pause": budget["paused_ps"][sends] / 1e6, "retransmit": budget["again_ps"][sends] / 1e6}
    )
    measured = pl.sum_horizontal(*(name for name in PARTS if name in parts.columns))
    rest = pl.col("fct_us") - measured
    idle = pl.col("ideal_us") - pl.col("propagation") - pl.col("switching")
    kept = ("job", "class", "hops", "fct_us", "ideal_us")
    rows = (
        pl.concat([flows.select(*kept), parts, over.to_frame()], how="horizontal")
        .filter(pl.col("fct_us").is_not_null() & (pl.col("hops") > 0))
        .with_columns(serialisation=pl.min_horizontal(rest, idle))
        .with_columns(late=(rest - pl.col("serialisation")).round(6))
    )
    kind = ("job", "class", "over", "hops")
    slow = rows.filter(
        pl.col("fct_us").rank("ordinal", descending=True).over(kind) <= (pl.len().over(kind) * TAIL_SHARE).ceil()
    )
    grouped = [
        part.group_by(kind)
        .agg(pl.len().alias("flows"), pl.col("fct_us").mean(), *(pl.col(p).mean().alias(f"{p}_us") for p in PARTS))
        .with_columns(of=pl.lit(name))
        for name, part in (("all", rows), ("slowest 1%", slow))
    ]
    return pl.concat(grouped).select(*kind, "of", "flows", "fct_us", *(f"{p}_us" for p in PARTS)).sort(*kind, "of")
