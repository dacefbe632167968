"""The packet engine's Python face: a network, a traffic table and options in, flows and used links out.

The engine (`native/packet`) simulates every packet, acknowledgement and pause frame in integer picoseconds. Same input and
seed give the same bytes. A run that cannot finish returns what there is, with a named diagnosis.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright import _native
from railwright.simulate.network import Network
from railwright.simulate.packet.budget import latency_budget
from railwright.simulate.packet.columns import change_columns, native_options, network_columns, operation_columns
from railwright.simulate.packet.options import PacketOptions
from railwright.simulate.packet.why import diagnosis_of, explain
from railwright.simulate.results import Diagnosis
from railwright.tables import conform


@dataclass(frozen=True)
class PacketResult:
    """What a run gives.

    ``flows`` and ``links_used`` have the schemas of those tables (one row per operation; per link and direction).
    ``operations``: op_id, job, start_us, finish_us (null: not so far) of all rows.
    ``counters``: pause_frames, paused_us, ecn_marks, cnps, drops, events, data_packet_hops (first transmissions, per link
    crossed), cpu_s (of the thread, as the operating system tells), wall_s, and more. ``pauses``: one row per paused
    transmitter (link, forward, from, to, frames, paused_us, longest_us). ``buffers``: peak use of the shared pool and of the
    headroom per switch. Counters ``drops_<reason>`` add up to drops.
    ``samples`` (queue lengths) and ``carried`` (bytes of each direction of a link since the look before, control frames as
    well, their share of what it could carry, packets marked, and how long its classes were paused) over time, when asked for;
    ``budget`` (see `packet/budget`) as well. ``why``: sentences. ``diagnosis``: null when all
    operations finished.
    """

    flows: pl.DataFrame
    links_used: pl.DataFrame
    operations: pl.DataFrame
    counters: dict[str, float]
    pauses: pl.DataFrame
    buffers: pl.DataFrame
    samples: pl.DataFrame
    carried: pl.DataFrame
    budget: pl.DataFrame
    why: list[str]
    diagnosis: Diagnosis | None


def simulate_packets(
    network: Network,
    traffic: pl.DataFrame,
    options: PacketOptions,
    seed: int = 0,
    *,
    pinned: tuple[NDArray[np.int64], NDArray[np.int32]] | None = None,
    thresholds: pl.DataFrame | None = None,
    entropy: NDArray[np.uint32] | None = None,
) -> PacketResult:
    """Run ``traffic`` over ``network``; ``pinned`` gives paths as of `routing.route` (an empty one: the options' path mode).

    ``thresholds`` (see `packet/queues`) are those of single queues, of a plan's QoS table for example. ``entropy`` (one per row)
    stands for the source port of each operation's queue pair; by default its id and the seed give it.

    Interruptible; releases the interpreter lock. Raises InputError for traffic or options that do not fit the network.
    """
    columns = network_columns(network, options, thresholds)
    operations = operation_columns(traffic, network, options, seed, pinned, entropy)
    changes = change_columns(options.changes, network)
    began = time.perf_counter()
    raw = _native.simulate_packets(columns, operations, changes, native_options(options, seed))
    wall_s = time.perf_counter() - began
    flows = _flows(traffic, raw)
    operations_done = traffic.select("op_id", "job").with_columns(**_times(raw))
    links = _links(network, raw)
    pauses = _pauses(network, raw)
    buffers = pl.DataFrame(
        {
            "node": network.node_name,
            "shared_bytes": raw["pool_capacity"],
            "shared_used_max_bytes": raw["pool_used_max"],
            "headroom_bytes": raw["pool_headroom"],
            "headroom_used_max_bytes": raw["pool_headroom_max"],
        }
    ).filter(pl.Series(network.node_kind == 1))
    samples = pl.DataFrame(
        {
            "time_us": raw["sample_ps"] / 1e6,
            "link_id": network.link_id[raw["sample_link"] // 2],
            "forward": raw["sample_link"] % 2 == 0,
            **_ends(network, raw["sample_link"]),
            "class": raw["sample_class"],
            "queued_bytes": raw["sample_queued"],
        }
    )
    counters = {
        **raw["counters"],
        **{f"drops_{reason}": count for reason, count in raw["lost"].items()},
        "paused_us": float(raw["link_pause_ps"].sum()) / 1e6,
        "cpu_s": raw["cpu_s"],
        "wall_s": wall_s,
        "end_us": raw["end_ps"] / 1e6,
    }
    diagnosis = diagnosis_of(network, traffic, options, raw)
    why = explain(network, options, columns, raw, pauses, links)
    if diagnosis is not None:
        why.insert(0, diagnosis.message)
    return PacketResult(
        flows,
        links,
        operations_done,
        counters,
        pauses,
        buffers,
        samples,
        _carried(network, raw),
        latency_budget(network, flows, _sends(traffic).to_numpy(), raw["budget"]),
        why,
        diagnosis,
    )


def _times(raw: dict[str, Any]) -> dict[str, pl.Series]:
    def known(name: str) -> pl.Series:
        values = raw[f"{name}_ps"].astype(np.float64)
        return pl.Series(np.where(values < 0, np.nan, values / 1e6)).fill_nan(None)

    return {"start_us": known("start"), "finish_us": known("finish")}


def _flows(traffic: pl.DataFrame, raw: dict[str, Any]) -> pl.DataFrame:
    repeat = pl.col("repeat").fill_null(1) if "repeat" in traffic.columns else pl.lit(1)
    known = [name for name in ("op_id", "job", "class", "src", "dst") if name in traffic.columns]
    frame = traffic.select(*known, (pl.col("bytes").fill_null(0.0) * repeat).alias("bytes"), "kind").with_columns(
        **_times(raw),
        ideal_us=pl.Series(raw["ideal_ps"] / 1e6),
        hops=pl.Series(raw["hops"]),
        retransmitted_bytes=pl.Series(raw["again_bytes"].astype(np.float64)),
    )
    sends = frame.filter(_sends(traffic)).drop("kind")
    return conform("flows", sends.with_columns(fct_us=pl.col("finish_us") - pl.col("start_us")))


def _sends(traffic: pl.DataFrame) -> pl.Series:
    return traffic["kind"].cast(pl.String) == "send"


def _links(network: Network, raw: dict[str, Any]) -> pl.DataFrame:
    count = network.link_gbps.size
    carried = raw["link_bytes"].astype(np.float64)
    duration_us = max(float(raw["end_ps"]) / 1e6, 1e-12)
    frame = pl.DataFrame(
        {
            "link_id": np.repeat(network.link_id, 2),
            "forward": np.arange(count) % 2 == 0,
            "bytes": carried,
            "util": carried * 8e-3 / (network.link_gbps * duration_us),
            "queue_max_bytes": raw["link_queue_max"].astype(np.float64),
            "ecn_marks": raw["link_marks"].astype(np.uint64),
            "pause_us": raw["link_pause_ps"] / 1e6,
            "drops": raw["link_drops"].astype(np.uint64),
        }
    )
    return conform("links_used", frame)


_SINCE = ("bytes", "ecn_marks", "pause_us")


def _ends(network: Network, links: NDArray[Any]) -> dict[str, pl.Series]:
    """Return the names of the nodes from which and to which directed links lead, as columns."""
    return {
        "from": network.node_name.gather(network.link_src[links]),
        "to": network.node_name.gather(network.link_dst[links]),
    }


def _carried(network: Network, raw: dict[str, Any]) -> pl.DataFrame:
    link = raw["link_sample_link"]
    frame = pl.DataFrame(
        {
            "time_us": raw["link_sample_ps"] / 1e6,
            "link_id": network.link_id[link // 2],
            "forward": link % 2 == 0,
            **_ends(network, link),
            "bytes": raw["link_sample_bytes"],
            "ecn_marks": raw["link_sample_marks"].astype(np.int64),
            "pause_us": raw["link_sample_pause_ps"] / 1e6,
            "gbps": network.link_gbps[link],
        }
    )
    moments = frame.select("time_us").unique().sort("time_us")
    moments = moments.with_columns(since_us=pl.col("time_us").shift(1, fill_value=0.0))
    over = ("link_id", "forward")
    return (
        frame.join(moments, on="time_us", how="left", maintain_order="left")
        .with_columns(pl.col(name) - pl.col(name).shift(1, fill_value=0).over(over) for name in _SINCE)
        .with_columns(util=pl.col("bytes") * 8e-3 / (pl.col("gbps") * (pl.col("time_us") - pl.col("since_us"))))
        .select("time_us", "since_us", *over, "from", "to", "bytes", "util", "ecn_marks", "pause_us")
    )


def _pauses(network: Network, raw: dict[str, Any]) -> pl.DataFrame:
    links = np.flatnonzero(raw["link_pause_frames"])
    return pl.DataFrame(
        {
            "link_id": network.link_id[links // 2],
            "forward": links % 2 == 0,
            **_ends(network, links),
            "frames": raw["link_pause_frames"][links],
            "paused_us": raw["link_pause_ps"][links] / 1e6,
            "longest_us": raw["link_longest_pause_ps"][links] / 1e6,
        }
    ).sort("paused_us", "link_id", "forward", descending=[True, False, True])
