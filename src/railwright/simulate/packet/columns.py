"""Between the tables and the packet engine: network, operations and changes as flat arrays in the engine's own units.

Times become integer picoseconds (a byte at 400 Gb/s is exactly 20), `after` lists become offsets and row numbers.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright import _native
from railwright.errors import InputError, nearest
from railwright.simulate.network import HOST, SWITCH, Network
from railwright.simulate.packet.options import LEAST_GBPS, PATHS, Change, PacketOptions
from railwright.simulate.packet.queues import queue_columns
from railwright.simulate.routing import flow_entropy
from railwright.tables import TABLES
from railwright.workload.traffic import ring_before

_KINDS = {"send": 0, "reduce": 1, "compute": 2, "barrier": 3}
_CHANGES = {"link-down": 0, "link-up": 1, "node-down": 2, "node-up": 3, "storm-on": 4, "storm-off": 5}
_PS_PER_US = 1e6
_T = TypeVar("_T")
Columns = dict[str, NDArray[Any]]


def packet_headroom(network: Network, options: PacketOptions) -> NDArray[np.float64]:
    """Return bytes (float64, 2m) that can still come over each directed link after its end decides to pause it.

    Worst case of this engine: the packet that crosses the threshold; a full frame that has just begun on the way back; the
    pause frame; propagation both ways, the latency of the switch (packets in its pipeline are not counted yet) and the
    reaction of the other side, all at line rate; the frame that the other side has just begun. Zero where a host receives.
    Real ASICs need more (pipeline, cells): the QoS contract of a plan has the platform's own table.
    """
    frame = options.mtu_bytes + options.header_bytes
    ns_per_byte = 8.0 / network.link_gbps
    back = np.arange(network.link_gbps.size) ^ 1
    way_back_ns = (frame + options.pause_frame_bytes) * ns_per_byte[back] + network.link_delay_ns[back]
    latency_ns = network.node_latency_ns[network.link_dst]
    in_flight_ns = way_back_ns + options.pause_response_ns + network.link_delay_ns + latency_ns
    headroom = np.ceil(in_flight_ns / ns_per_byte) + 2 * frame
    return np.where(network.node_kind[network.link_dst] == SWITCH, headroom, 0.0)


def _ps(values: NDArray[np.float64], per_unit: float) -> NDArray[np.int64]:
    return np.rint(values * per_unit).astype(np.int64)


def network_columns(network: Network, options: PacketOptions, thresholds: pl.DataFrame | None = None) -> Columns:
    """Return the arrays of ``network`` that the engine reads; raises InputError for a rate or delay that cannot be.

    ``thresholds`` as of `packet/queues`.
    """
    if network.link_gbps.size and not network.link_gbps.min() > 0:
        raise InputError(f"link {int(np.argmin(network.link_gbps)) // 2} has a rate of 0", key="link_gbps")
    if network.link_gbps.size and network.link_gbps.min() < LEAST_GBPS:
        slow = int(np.argmin(network.link_gbps))
        raise InputError(
            f"link {slow // 2} has a rate of {network.link_gbps[slow]:g} Gb/s; the engine counts from {LEAST_GBPS:g} Gb/s",
            key="link_gbps",
        )
    if network.link_delay_ns.size and network.link_delay_ns.min() < 0:
        raise InputError("a link has a negative delay", key="link_delay_ns")
    if options.headroom_bytes is None:
        headroom = packet_headroom(network, options)
    else:
        headroom = np.full(network.link_gbps.size, options.headroom_bytes)
    loss = np.zeros(network.link_gbps.size if options.losses else 0)
    burst = np.ones(loss.size)
    cables = network.link_gbps.size // 2
    for bad in options.losses:
        if bad.cable >= cables:
            raise InputError(f"cable {bad.cable} does not exist; there are {cables}", key="losses")
        loss[2 * bad.cable : 2 * bad.cable + 2] = bad.probability
        burst[2 * bad.cable : 2 * bad.cable + 2] = bad.burst_packets
    columns: Columns = {
        "node_kind": np.ascontiguousarray(network.node_kind, np.uint8),
        "link_src": np.ascontiguousarray(network.link_src, np.int32),
        "link_dst": np.ascontiguousarray(network.link_dst, np.int32),
        "link_gbps": np.ascontiguousarray(network.link_gbps, np.float64),
        "link_delay_ps": _ps(network.link_delay_ns, 1e3),
        "link_headroom_bytes": headroom,
        "link_loss": loss,
        "link_loss_burst": burst,
        "node_buffer_bytes": np.ascontiguousarray(network.node_buffer_bytes, np.float64),
        "node_latency_ps": _ps(network.node_latency_ns, 1e3),
    }
    queues = queue_columns(network, options, thresholds)
    _check_buffers(network, options, headroom, queues)
    return columns | queues


def _check_buffers(network: Network, options: PacketOptions, headroom: NDArray[np.float64], queues: Columns) -> None:
    if options.transport == "infiniband":
        return
    links = network.link_gbps.size
    reserved = np.zeros(links)
    for index, item in enumerate(options.classes):
        if item.lossless:
            pairs = (("queue_headroom", headroom), ("queue_reserve", np.full(links, item.reserve_bytes)))
            for name, usual in pairs:
                own = queues[name][index :: len(options.classes)] if queues[name].size else np.full(links, np.nan)
                reserved += np.where(np.isnan(own), usual, own)
    switch_end = network.node_kind[network.link_dst] == SWITCH
    needed = np.bincount(network.link_dst, np.where(switch_end, reserved, 0.0), network.node_kind.size)
    size = np.where(network.node_buffer_bytes > 0, network.node_buffer_bytes, options.buffer_bytes)
    full = np.flatnonzero((needed >= size) & (network.node_kind == SWITCH))
    if full.size:
        node = int(full[0])
        raise InputError(
            f"switch {network.node_name[node]} has {size[node]:,.0f} bytes of buffer, but reserve and headroom of its ports"
            f" take {needed[node]:,.0f}: give it more, or fewer lossless classes, or a smaller headroom_bytes",
            key="buffer_bytes",
        )


def traffic_classes(traffic: pl.DataFrame, options: PacketOptions) -> NDArray[np.uint8]:
    """Return the queue number of every row: by `class` where the options map it or it is a queue's name, else by direction."""
    names = [item.name for item in options.classes]
    by_class = {name: index for index, name in enumerate(names)}
    by_class |= {key: options.index_of(name) for key, name in options.traffic_classes.items()}
    last = len(names) - 1
    if options.transport == "infiniband":
        last = 0
    frame = traffic.select(
        pl.col("class")
        .replace_strict(by_class, default=None, return_dtype=pl.UInt8)
        .fill_null(
            pl.when(pl.col("direction").is_in(["north_south", "management"])).then(last).otherwise(0).cast(pl.UInt8)
        )
    )
    return frame.to_series().fill_null(0).to_numpy().astype(np.uint8)


def operation_columns(
    traffic: pl.DataFrame,
    network: Network,
    options: PacketOptions,
    seed: int,
    pinned: tuple[NDArray[np.int64], NDArray[np.int32]] | None,
    entropy: NDArray[np.uint32] | None = None,
) -> Columns:
    """Return the arrays of ``traffic`` (the table of that name) that the engine reads; raises InputError with the row."""
    missing = [name for name in ("op_id", "kind") if name not in traffic.columns]
    if missing:
        raise InputError(f"traffic has no column {missing[0]!r}", key=missing[0])
    unknown = [name for name in traffic.columns if name not in TABLES["traffic"]]
    if unknown:
        hint = nearest(unknown[0], TABLES["traffic"])
        raise InputError(f"traffic has a column {unknown[0]!r} that nothing reads{hint}", key=unknown[0])
    n = traffic.height
    dependencies = _dependencies(traffic)
    hosts = network.hosts
    sends = (traffic["kind"].cast(pl.String) == "send").to_numpy()
    ends = {}
    for name in ("src", "dst"):
        values = traffic[name].cast(pl.Int64).fill_null(0).to_numpy()
        wrong = np.flatnonzero(sends & ((values < 0) | (values >= hosts) | traffic[name].is_null().to_numpy()))
        if wrong.size:
            row = int(wrong[0])
            raise InputError(
                f"operation {traffic['op_id'][row]} has {name} {traffic[name][row]}; endpoints are 0 to {hosts - 1}",
                key=name,
            )
        ends[name] = np.where(sends, values, 0).astype(np.int32)
    amounts = {}
    for name, default in (("bytes", 0.0), ("duration_us", 0.0), ("start_us", 0.0)):
        values = traffic[name].cast(pl.Float64).fill_null(default).to_numpy()
        wrong = np.flatnonzero(~np.isfinite(values) | (values < 0))
        if wrong.size:
            row = int(wrong[0])
            raise InputError(
                f"operation {traffic['op_id'][row]} has {name} {values[row]:g}; it must be 0 or more", key=name
            )
        amounts[name] = values
    if n and amounts["bytes"].max() / options.mtu_bytes >= 2**24:
        row = int(np.argmax(amounts["bytes"]))
        raise InputError(
            f"operation {traffic['op_id'][row]} sends {amounts['bytes'][row]:g} bytes: more than 2^24 packets;"
            " split it, or use the flow engine",
            key="bytes",
        )
    path_offset, path = pinned if pinned is not None else (np.zeros(n + 1, np.int64), np.empty(0, np.int32))
    return {
        "kind": traffic["kind"].cast(pl.String).replace_strict(_KINDS, return_dtype=pl.UInt8).to_numpy(),
        "src": ends["src"],
        "dst": ends["dst"],
        "bytes": np.ceil(amounts["bytes"]).astype(np.int64),
        "duration_ps": _ps(amounts["duration_us"], _PS_PER_US),
        "start_ps": _ps(amounts["start_us"], _PS_PER_US),
        "repeat": np.maximum(traffic["repeat"].cast(pl.UInt32).fill_null(1).to_numpy(), 1),
        "cls": traffic_classes(traffic, options),
        "entropy": flow_entropy(traffic["op_id"], seed)
        if entropy is None
        else np.ascontiguousarray(entropy, np.uint32),
        **dependencies,
        "path_offset": np.ascontiguousarray(path_offset, np.int64),
        "path": np.ascontiguousarray(path, np.int32),
    }


def _dependencies(traffic: pl.DataFrame) -> Columns:
    """Return ``after`` and ``gate`` as offsets and row numbers; what groups mean is told in `workload.traffic`."""
    ids = traffic["op_id"].cast(pl.UInt32)
    rising = bool((ids.diff().drop_nulls() > 0).all()) if ids.is_sorted() else False
    if not rising and ids.n_unique() < traffic.height:
        twice = ids.filter(ids.is_duplicated())[0]
        raise InputError(f"operation {twice} is there twice", key="op_id")
    group = (
        traffic["group"].cast(pl.UInt32)
        if "group" in traffic.columns
        else pl.repeat(None, traffic.height, dtype=pl.UInt32, eager=True)
    )
    listed = traffic["after"] if "after" in traffic.columns else pl.Series([], dtype=pl.List(pl.UInt32))
    if group.null_count() == traffic.height and not listed.list.len().sum():
        nothing, nobody = np.zeros(traffic.height + 1, np.int64), np.empty(0, np.uint32)
        lists: Columns = {"after_offset": nothing, "after": nobody, "gate_offset": nothing, "gate": nobody}
        return {**lists, "gate_lead": np.empty(0, np.uint8)}
    rows = pl.DataFrame({"op_id": ids, "group": group}).with_row_index("row")
    if not listed.len():
        listed = pl.repeat(None, traffic.height, dtype=pl.List(pl.UInt32), eager=True)
    pairs = (
        rows.select("row", "group", after=listed.cast(pl.List(pl.UInt32)))
        .explode("after")
        .drop_nulls("after")
        .join(
            rows.rename({"row": "other", "group": "group_other"}),
            left_on="after",
            right_on="op_id",
            how="left",
            maintain_order="left",
        )
    )
    if pairs["other"].null_count():
        lost = pairs.filter(pl.col("other").is_null()).row(0, named=True)
        raise InputError(
            f"operation {ids[lost['row']]} waits for operation {lost['after']}, which does not exist", key="after"
        )
    inside = (pl.col("group") == pl.col("group_other")).fill_null(False)
    pieces = pairs.filter(inside).select("row", "other", lead=pl.lit(1, pl.UInt8))
    ends = traffic.select(pl.col("src").cast(pl.Int64), pl.col("dst").cast(pl.Int64))
    cycles = pl.concat([rows, ends], how="horizontal").filter(
        pl.col("group").is_not_null() & ~pl.col("group").is_in(pairs.filter(inside)["group"].unique().implode())
    )
    if "repeat" in traffic.columns:
        cycles = cycles.filter(traffic["repeat"].gather(cycles["row"]).fill_null(1) > 1)
    place = ring_before(*(cycles[name].to_numpy().astype(np.int64) for name in ("group", "src", "dst")))
    steps = cycles.select("row", other=cycles["row"].gather(place), lead=pl.lit(0, pl.UInt8))
    gates = pl.concat([pieces, steps]).sort("row", maintain_order=True)
    held = pairs.filter(~inside)
    return {
        "after_offset": _offsets(held["row"], traffic.height),
        "after": np.ascontiguousarray(held["other"].to_numpy(), np.uint32),
        "gate_offset": _offsets(gates["row"], traffic.height),
        "gate": np.ascontiguousarray(gates["other"].to_numpy(), np.uint32),
        "gate_lead": np.ascontiguousarray(gates["lead"].to_numpy(), np.uint8),
    }


def _offsets(rows: pl.Series, count: int) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.bincount(rows.to_numpy(), minlength=count))]).astype(np.int64)


def change_columns(changes: tuple[Change, ...], network: Network) -> Columns:
    """Return the arrays of what happens to the network; a cable is told by its first directed link. Raises InputError."""
    cables, nodes = network.link_src.size // 2, network.node_kind.size
    for change in changes:
        limit, what = (cables, "cable") if change.kind.startswith("link") else (nodes, "node")
        if change.subject >= limit:
            raise InputError(f"{what} {change.subject} does not exist; there are {limit}", key="changes")
        if change.kind.startswith("storm") and network.node_kind[change.subject] != HOST:
            raise InputError(f"node {network.node_name[change.subject]} is not a host", key="changes")
    return {
        "time_ps": np.asarray([round(c.time_us * _PS_PER_US) for c in changes], np.int64),
        "kind": np.asarray([_CHANGES[c.kind] for c in changes], np.uint8),
        "subject": np.asarray([c.subject * (2 if c.kind.startswith("link") else 1) for c in changes], np.int32),
    }


def native_options(options: PacketOptions, seed: int) -> _native.PacketRun:
    """Return ``options`` as the engine's own structure."""
    run = _native.PacketRun()
    plain = {name: getattr(options, name) for name in PacketOptions.model_fields if hasattr(run, name)}
    derived = {
        "seed": seed % 2**64,
        "payload_bytes": options.mtu_bytes,
        "cut_through": options.forwarding == "cut-through",
        "credits": options.transport == "infiniband",
        "paths": PATHS[options.paths],
        "notify_class": options.index_of(options.notify_class),
        "ack_class": -1 if options.ack_class is None else options.index_of(options.ack_class),
        "finish_at_sender": options.finish == "acknowledged",
        "classes": [_filled(_native.PacketClass(), item.model_dump(exclude={"name"})) for item in options.classes],
        "dcqcn": _filled(_native.PacketDcqcn(), options.dcqcn.model_dump()),
        "hpcc": _filled(_native.PacketHpcc(), options.hpcc.model_dump()),
        "dctcp": _filled(_native.PacketDctcp(), options.dctcp.model_dump()),
        "ibcc": _filled(_native.PacketIbcc(), options.ibcc.model_dump()),
        "cubic": _filled(_native.PacketCubic(), options.cubic.model_dump()),
    }
    return _filled(run, plain | derived)


def _filled(target: _T, values: Mapping[str, object]) -> _T:
    for name, value in values.items():
        setattr(target, name, value)
    return target
