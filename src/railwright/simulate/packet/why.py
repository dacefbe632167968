"""Why a packet run went as it did: the bottleneck, thresholds that nothing reached, who paused whom, and named endings."""

from typing import Any

import numpy as np
import polars as pl

from railwright.simulate.network import SWITCH, Network
from railwright.simulate.packet.options import PacketOptions
from railwright.simulate.results import Diagnosis
from railwright.units import format_bytes, format_gbps, format_us

_NAMED = 8


def diagnosis_of(
    network: Network, traffic: pl.DataFrame, options: PacketOptions, raw: dict[str, Any]
) -> Diagnosis | None:
    """Return None for a run that finished, else what stopped it."""
    ending = raw["ending"]
    if ending == "finished":
        return None
    culprits = raw["culprits"]
    left = int((raw["finish_ps"] < 0).sum())
    if ending in ("pause-deadlock", "credit-deadlock", "paused-forever"):
        links = culprits >> raw["lane_bits"]
        places = [
            f"{network.node_name[int(network.link_src[link])]} → {network.node_name[int(network.link_dst[link])]}"
            for link in links
        ]
    else:
        places = [_operation(network, traffic, int(op)) for op in culprits[:_NAMED]]
    listed = ", ".join(places[:_NAMED]) + (", …" if len(places) > _NAMED else "")
    drops = raw["counters"]["drops"]
    messages = {
        "pause-deadlock": f"deadlock: every port of this cycle is paused by the next one: {listed}",
        "credit-deadlock": f"deadlock: every port of this cycle waits for credits of the next one: {listed}",
        "paused-forever": f"paused and never resumed: {listed}",
        "lost-tail": (
            f"the last packet or its acknowledgement was lost ({drops} drops) and no retransmission timeout is set"
            f" (rto_us 0): {listed}"
        ),
        "dependency-cycle": f"these operations wait for each other: {listed}",
        "unreachable": f"no path: {listed}",
        "retry-exceeded": f"gave up after the last retry (retry_limit): {listed}",
        "time-limit": f"stopped at time_limit_us {options.time_limit_us:g}",
    }
    return Diagnosis(ending, f"{messages[ending]}; {left} operations did not finish", places)


def _operation(network: Network, traffic: pl.DataFrame, row: int) -> str:
    name = f"operation {traffic['op_id'][row]}"
    if str(traffic["kind"][row]) != "send":
        return name
    ends = (network.node_name[int(traffic[end][row])] for end in ("src", "dst"))
    return f"{name} ({' → '.join(ends)})"


def explain(
    network: Network,
    options: PacketOptions,
    columns: dict[str, Any],
    raw: dict[str, Any],
    pauses: pl.DataFrame,
    links: pl.DataFrame,
) -> list[str]:
    """Return sentences about the run, the most telling first."""
    told = []
    util = links["util"].to_numpy()
    if util.size and util.max() > 0:
        most = int(np.argmax(util))
        told.append(
            f"bottleneck: {_link_name(network, most)} ({format_gbps(float(network.link_gbps[most]))})"
            f" was {util[most]:.0%} busy, its queue reached {format_bytes(float(links['queue_max_bytes'][most]))}"
        )
    first = options.classes[0]
    if first.kmax_bytes:
        if raw["counters"]["ecn_marks"] == 0:
            longest = float(raw["class_queue_max"][0])
            told.append(
                f"ECN never marked: the longest switch queue of class {first.name!r} was {format_bytes(longest)},"
                f" its kmin_bytes is {_kmin(network, options, columns)}"
            )
        else:
            told.append(
                f"ECN marked {raw['counters']['ecn_marks']:,} packets, {raw['counters']['cnps']:,} notifications came back"
            )
    if options.transport == "rocev2" and any(item.lossless for item in options.classes):
        told += _pause_story(network, options, raw, pauses)
    counters = raw["counters"]
    if counters["drops"]:
        told.append(
            f"{counters['drops']:,} packets were lost ({_reasons(raw['lost'])});"
            f" {counters['retransmitted_packets']:,} sent again, {counters['timeouts']:,} timeouts"
        )
    if counters["watchdog"]:
        told.append(f"the PFC watchdog took {counters['watchdog']:,} queues out of flow control")
    return told


_REASONS = {
    "lossy_queue": "at the threshold of a lossy queue",
    "headroom": "beyond the headroom of a lossless queue",
    "corrupted": "corrupted",
    "link_down": "on a dead link",
    "no_path": "without a path",
    "watchdog": "by the PFC watchdog",
}


def _reasons(lost: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {_REASONS[reason]}" for reason, count in lost.items() if count)


def _kmin(network: Network, options: PacketOptions, columns: dict[str, Any]) -> str:
    """Return the threshold of the first class, or from which to which those of the switches' queues go."""
    usual = float(options.classes[0].kmin_bytes)
    own = columns["queue_kmin"][:: len(options.classes)]
    if not own.size:
        return format_bytes(usual)
    own = np.where(np.isnan(own), usual, own)[network.node_kind[network.link_src] == SWITCH]
    ends = [format_bytes(float(value)) for value in (own.min(), own.max())] if own.size else [format_bytes(usual)]
    return " to ".join(dict.fromkeys(ends))


def _pause_story(network: Network, options: PacketOptions, raw: dict[str, Any], pauses: pl.DataFrame) -> list[str]:
    if pauses.is_empty():
        switches = np.flatnonzero(network.node_kind == SWITCH)
        if not switches.size:
            return []
        fullest = int(switches[np.argmax(raw["pool_used_max"][switches])])
        used, capacity = int(raw["pool_used_max"][fullest]), int(raw["pool_capacity"][fullest])
        return [f"PFC never paused: the fullest shared buffer held {format_bytes(used)} of {format_bytes(capacity)}"]
    worst = pauses.row(0, named=True)
    told = [
        f"PFC: {worst['to']} paused {worst['from']} for {format_us(worst['paused_us'])} in {worst['frames']:,} frames,"
        f" the most of {pauses.height} paused links"
    ]
    if raw["counters"]["ecn_marks"] == 0 and options.classes[0].kmax_bytes:
        told.append(
            "PFC paused before ECN marked a single packet: kmin_bytes is above what the pause threshold lets queue up"
        )
    return told


def _link_name(network: Network, link: int) -> str:
    return f"{network.node_name[int(network.link_src[link])]} → {network.node_name[int(network.link_dst[link])]}"
