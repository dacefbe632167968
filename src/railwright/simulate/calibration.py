"""Makes the constants of `goodput` from runs of the packet engine: ``railwright doctor --calibration FILE``.

Per way of meeting congestion, path mode and MTU: incasts of several sizes on one leaf, and, where packets are spread, a
permutation in which every host sends across the spines as fast as it can. The senders never end; what the receivers' links
carry between two times, long after the start, over what they could carry is the share that congestion control leaves.
Retransmitted packets that arrive twice do not count. Switches and hosts are set as `build` sets them (the plan's QoS contract).
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.simulate.goodput import (
    ACK_BYTES,
    OVERHEAD_BYTES,
    PACKETS_PER_ACK,
    Carrier,
    Goodput,
    GoodputFile,
    Measured,
    ack_share,
    goodput_share,
)
from railwright.simulate.network import HOST, SWITCH, Network
from railwright.simulate.packet.engine import PacketResult, simulate_packets
from railwright.simulate.packet.on_plan import plan_options, plan_queues
from railwright.simulate.packet.options import PacketOptions, rocev2
from railwright.simulate.plan_network import network_from_plan
from railwright.spec.load import parse_spec
from railwright.tables import conform

SEED = 1
SENDERS = (2, 4, 8, 16)
INCAST_US = (32_000.0, 48_000.0)
"""DCQCN needs up to 16 ms to settle (its alpha decays over 256 timers of 55 us)."""
PERMUTATION_US = (3_000.0, 5_000.0)
ENDLESS_BYTES = 1e10
TCP_MTU_BYTES = (1448, 8948)
"""Payload of a full segment with timestamps in Ethernet frames of 1500 and 9000 bytes."""

_SPEC = """
name: calibration
cluster: {{gpus: 256, server: hgx-h100}}
backend: {{topology: rail-optimized, transport: {transport}, congestion: {congestion}, {shape}}}
frontend: {{enabled: false}}
storage: {{enabled: false}}
management: {{enabled: false}}
"""
_SHAPES = {
    "incast": "servers_per_unit: 32, tiers: 2",
    "permutation": "servers_per_unit: 4, tiers: 2",
}
_NETWORK = "32 servers of 8 H100 on 400G with rails; incast: one leaf per rail, permutation: 8 leaves of 4 servers, non-blocking"


@dataclass(frozen=True)
class Setting:
    """What one row of constants is for."""

    congestion: str
    transport: Carrier
    paths: str
    mtu_bytes: int

    @property
    def spreads(self) -> bool:
        """Whether packets of one flow take several paths."""
        return self.paths in ("spray", "adaptive")


def settings() -> list[Setting]:
    """Return every setting that has constants."""
    rdma: tuple[tuple[str, Carrier, tuple[str, ...]], ...] = (
        ("dcqcn+pfc", "rocev2", ("ecmp", "spray", "adaptive")),
        ("ecn-only", "rocev2", ("ecmp",)),
        ("pfc-only", "rocev2", ("ecmp", "spray")),
        ("lossy+spray", "rocev2", ("spray", "adaptive")),
        ("credits", "infiniband", ("ecmp", "adaptive", "spray")),
    )
    found = [Setting(key, carrier, way, mtu) for key, carrier, ways in rdma for way in ways for mtu in (1024, 4096)]
    return found + [Setting("tcp", "tcp", "ecmp", mtu) for mtu in TCP_MTU_BYTES]


def calibrate(progress: Callable[[str], None] = lambda _: None) -> GoodputFile:
    """Run all settings (about five minutes of processor time)."""
    rows = []
    for item in settings():
        progress(f"{item.congestion}, {item.paths}, MTU {item.mtu_bytes}")
        rows.append(measure(item))
    return GoodputFile(
        made_by="railwright doctor --calibration",
        engine_version=version("railwright"),
        seed=SEED,
        network=_NETWORK,
        rows=tuple(rows),
    )


def calibration_text(made: GoodputFile) -> str:
    """Return ``made`` as the JSON file that `goodput` reads (JSON, because YAML takes longer to read than a simulation)."""
    return made.model_dump_json(indent=1) + "\n"


def measure(setting: Setting) -> Goodput:
    """Return the constants of one setting, from fresh runs."""
    incasts = [incast(setting, senders) for senders in SENDERS]
    spread = [permutation(setting)] if setting.spreads else []
    incast_share = _mean(incasts)
    return Goodput(
        congestion=setting.congestion,
        transport=setting.transport,
        paths=setting.paths,
        mtu_bytes=setting.mtu_bytes,
        header_share=round(goodput_share(setting.transport, setting.mtu_bytes), 6),
        ack_share=round(ack_share(setting.transport, setting.mtu_bytes), 6),
        incast_share=incast_share,
        spread_share=_mean(spread) if spread else incast_share,
        runs=(*incasts, *spread),
    )


def incast(setting: Setting, senders: int) -> Measured:
    """Run ``senders`` hosts that send to one below the same leaf."""
    pairs = [(8 * (sender + 1), 0) for sender in range(senders)]
    return _measured(setting, "incast", pairs, INCAST_US)


def permutation(setting: Setting) -> Measured:
    """Run 32 hosts of one rail that each send to the one four servers on, below another leaf."""
    pairs = [(8 * i, 8 * ((i + 4) % 32)) for i in range(32)]
    return _measured(setting, "permutation", pairs, PERMUTATION_US)


def _mean(runs: list[Measured]) -> float:
    return round(float(np.mean([run.utilisation for run in runs if not run.gave_up])), 4)


@cache
def _network(transport: str, congestion: str, pattern: str) -> tuple[Plan, Network, pl.DataFrame]:
    file = parse_spec(_SPEC.format(transport=transport, congestion=congestion, shape=_SHAPES[pattern]))
    catalog = file.catalog()
    plan = design_plan(file.checked(catalog), catalog)
    network = network_from_plan(plan)
    return plan, network, plan_queues(plan, network)


def _measured(setting: Setting, pattern: str, pairs: list[tuple[int, int]], times_us: tuple[float, float]) -> Measured:
    tcp = setting.transport == "tcp"
    plan, network, queues = _network(
        *(("rocev2", "dcqcn+pfc") if tcp else (setting.transport, setting.congestion)), pattern
    )
    into, out = _ports(network, pairs)
    could = float(network.link_gbps[into].sum()) * 125.0
    done = []
    for until_us in times_us:
        options = _options(plan, setting, until_us)
        result = simulate_packets(
            network,
            _traffic(pairs, tcp=tcp),
            options,
            SEED,
            thresholds=None if tcp or queues.is_empty() else queues,
        )
        again = result.counters["duplicates"] * (options.mtu_bytes + options.header_bytes)
        carried = result.links_used["bytes"].to_numpy()
        done.append((float(carried[into].sum()) - again, carried[out]))
    (before, sent_before), (after, sent) = done
    start, end = times_us
    return Measured.model_validate(
        {
            "pattern": pattern,
            "senders": len(pairs),
            "from_us": start,
            "to_us": end,
            "gave_up": int(np.count_nonzero(sent == sent_before)),
            "utilisation": round(min(1.0, (after - before) / (could * (end - start))), 4),
            "idle_us": round(max(0.0, start - before / could), 1),
            "ecn_marks": int(result.counters["ecn_marks"]),
            "drops": int(result.counters["drops"]),
            "paused_us": round(result.counters["paused_us"], 1),
            "digest": _digest(result),
        }
    )


def _ports(network: Network, pairs: list[tuple[int, int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the links from switches to the receivers, and those from the senders to switches."""
    kind = network.node_kind
    senders, receivers = np.array(pairs).T
    into = (kind[network.link_src] == SWITCH) & (kind[network.link_dst] == HOST) & np.isin(network.link_dst, receivers)
    out = (kind[network.link_src] == HOST) & (kind[network.link_dst] == SWITCH) & np.isin(network.link_src, senders)
    return np.flatnonzero(into), np.flatnonzero(out)


def _options(plan: Plan, setting: Setting, until_us: float) -> PacketOptions:
    if setting.transport != "tcp":
        return plan_options(plan, setting.paths, mtu_bytes=setting.mtu_bytes, time_limit_us=until_us)
    return rocev2(
        mtu_bytes=setting.mtu_bytes,
        header_bytes=OVERHEAD_BYTES["tcp"],
        ack_bytes=ACK_BYTES["tcp"],
        ack_every=PACKETS_PER_ACK["tcp"],
        time_limit_us=until_us,
    )


def _traffic(pairs: list[tuple[int, int]], *, tcp: bool) -> pl.DataFrame:
    src, dst = np.array(pairs).T
    rows = pl.DataFrame({"op_id": np.arange(src.size), "src": src, "dst": dst}).with_columns(
        kind=pl.lit("send"),
        bytes=pl.lit(ENDLESS_BYTES),
        start_us=pl.lit(0.0),
        repeat=pl.lit(1),
        job=pl.lit("calibration"),
        direction=pl.lit("north_south" if tcp else "east_west"),
        **{"class": pl.lit("calibration")},
    )
    return conform("traffic", rows)


def _digest(result: PacketResult) -> str:
    carried = result.links_used.select("bytes", "ecn_marks", "drops").to_numpy()
    return hashlib.sha256(np.ascontiguousarray(carried).tobytes()).hexdigest()[:16]
