"""A plan's backend with the packet engine: options from the transport and the QoS contract, thresholds of every queue from
table ``qos``, failures as changes, and the result in the form that all engines share.

The contract that `build` renders and `check` compares is what is simulated: its classes with their weights, its ECN
thresholds, and the room behind the pause threshold of every port. What the contract leaves open is the engine's default and
is told in `PacketOptions`; the share of the free pool that a queue may take (alpha) is that of the platform's headroom table
unless the spec has its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.design.headroom import link_headroom
from railwright.design.plan import Plan
from railwright.design.qos import QosContract, TrafficClass
from railwright.design.qos_table import contracts_for, link_ends, qos_table
from railwright.errors import InputError
from railwright.simulate.failures import broken, parse_failures
from railwright.simulate.network import HOST, SWITCH, Network
from railwright.simulate.packet.engine import PacketResult, simulate_packets
from railwright.simulate.packet.options import Change, PacketOptions, infiniband, parse_options, rocev2
from railwright.simulate.packet.queues import plan_thresholds
from railwright.simulate.packet.settings import pausing_options, rate_control_options
from railwright.simulate.results import EngineResult
from railwright.simulate.routing import flow_entropy
from railwright.tables import conform
from railwright.workload.background import background_traffic
from railwright.workload.repeat import repeated
from railwright.workload.traffic import merge

LOSSY_REORDER_PACKETS = 256
"""Packets behind a gap after which a lossy class that is sprayed takes it for a loss (1 MiB); an assumption of ours."""
LOSSY_RTO_US = 1000.0
"""Retransmission timeout of a lossy RDMA class: adapters made for loss have one near a millisecond; unverified."""

Pinned = tuple[NDArray[np.int64], NDArray[np.int32]]


@dataclass(frozen=True)
class PacketExtras:
    """What only the packet engine does in a run.

    ``iterations`` of the traffic with a barrier between them, over the same paths; ``background`` load (texts as of
    `workload.background.parse_load`) for ``expected_us`` per iteration and as much again; queues are looked at every
    ``sample_us`` (0: never).
    """

    iterations: int = 1
    background: tuple[str, ...] = ()
    expected_us: float = 0.0
    sample_us: float = 0.0


def plan_options(plan: Plan, paths: str, **changed: object) -> PacketOptions:
    """Return the packet engine's options for the backend of ``plan``: transport, classes of the contract, congestion control.

    ``changed`` overrides fields of `PacketOptions`. Raises InputError.
    """
    contract = contracts_for(plan)["backend"]
    if contract.transport == "infiniband":
        data, management = infiniband(paths=paths).classes
        lanes = [data.model_copy(update={"name": c.name, "weight": c.weight or 1}) for c in contract.classes]
        both: dict[str, object] = {"classes": (*lanes, management), **changed}
        return parse_options({**infiniband(paths=paths).model_dump(exclude={"classes"}), **both})
    rates = plan.links.filter(pl.col("network") == "backend").select(pl.col("speed_gbps").min())
    gbps = float(rates.item() or 400.0)
    pausing = {"alpha": plan_alpha(plan), **pausing_options(plan.spec.backend.pfc)}
    plain, notify, tcp = rocev2(paths=paths).classes
    classes = []
    for item in contract.classes:
        fields: dict[str, object] = {"name": item.name, "weight": item.weight or 1}
        fields["strict"] = item.scheduler == "strict"
        if item.purpose in ("roce", "storage"):
            fields |= {"kmin_bytes": 0.0, "kmax_bytes": 0.0, "pmax": 0.0, **pausing}
            fields |= _marking(item, contract, gbps) | _behaviour(item, contract, paths)
            classes.append(plain.model_copy(update=fields))
        else:
            classes.append((notify if item.purpose == "cnp" else tcp).model_copy(update=fields))
    notified = [item.name for item in contract.of_purpose("cnp")] or [classes[0].name]
    own: dict[str, object] = {"classes": tuple(classes), "notify_class": notified[0]}
    own["dcqcn"] = rate_control_options(plan.spec.backend.dcqcn)
    own |= changed
    return parse_options({"paths": paths, **own})


def plan_alpha(plan: Plan) -> float:
    """Return the spec's alpha, else the smallest of the backend's platforms: 2 to their tables' dynamic threshold, else 1/8."""
    if plan.spec.backend.pfc is not None and plan.spec.backend.pfc.alpha is not None:
        return plan.spec.backend.pfc.alpha
    ends = link_headroom(link_ends(plan).filter((pl.col("network") == "backend") & ~pl.col("host")))
    lowest = ends.select(pl.col("threshold").min()).item()
    return PacketOptions().classes[0].alpha if lowest is None else 2.0 ** float(lowest)


def _marking(item: TrafficClass, contract: QosContract, gbps: float) -> dict[str, float]:
    bounds = item.ecn.threshold_bytes(gbps, contract.rtt_us) if item.ecn and item.holds_on("backend") else None
    if item.ecn is None or bounds is None:
        return {}
    return {"kmin_bytes": float(bounds[0]), "kmax_bytes": float(bounds[1]), "pmax": item.ecn.pmax}


def _behaviour(item: TrafficClass, contract: QosContract, paths: str) -> dict[str, object]:
    """Return how flows of a class react: by DCQCN, by nothing, or (lossy and sprayed) by the marks on acknowledgements."""
    lossless = item.lossless and item.holds_on("backend")
    own_control = contract.profile == "lossy+spray"
    control = "dcqcn" if contract.dcqcn else "dctcp" if own_control else "none"
    fields: dict[str, object] = {"lossless": lossless, "congestion_control": control}
    sprayed = paths in ("spray", "spray-round-robin", "adaptive", "multipath")
    if lossless:
        return fields | ({"selective_repeat": True, "reorder_packets": -1} if sprayed else {})
    return fields | {
        "selective_repeat": True,
        "reorder_packets": LOSSY_REORDER_PACKETS if sprayed else 0,
        "rto_us": LOSSY_RTO_US,
    }


def plan_queues(plan: Plan, network: Network) -> pl.DataFrame:
    """Return the thresholds of every queue of the plan's backend as `packet/queues` has them; empty over InfiniBand."""
    contracts = contracts_for(plan)
    if contracts["backend"].transport == "infiniband":
        return pl.DataFrame()
    table = plan.table("qos")
    if table.is_empty():
        table = qos_table(plan, {"backend": contracts["backend"]})
    numbers = pl.DataFrame({"link_id": network.link_id, "link": 2 * np.arange(network.link_id.size)})
    cables = plan.links.select("link_id", "a_port", "b_port").join(numbers, on="link_id")
    port_links = pl.concat(
        [
            cables.select(port_id="a_port", link="link"),
            cables.select(port_id="b_port", link=pl.col("link") + 1),
        ]
    )
    classes = {item.name: item.name for item in contracts["backend"].classes}
    return plan_thresholds(table, port_links, classes)


def plan_changes(network: Network, fail: Sequence[str], seed: int) -> tuple[Network, tuple[Change, ...]]:
    """Return the network with what is slower from the start, and what breaks when; raises InputError.

    Nodes and links that are out from the start are changes at time 0, of which routing knows. The packet engine cannot slow
    a link down during a run.
    """
    failures = parse_failures(fail, network, seed)
    changes = []
    for failure in failures:
        if failure.share:
            if failure.at_us:
                raise InputError(
                    f"{failure.text!r}: a link gets slower during the run only with engine flow", key="fail"
                )
            continue
        changes += [Change(time_us=failure.at_us, kind="node-down", subject=int(node)) for node in failure.nodes]
        changes += [Change(time_us=failure.at_us, kind="link-down", subject=int(cable)) for cable in failure.cables]
    return broken(network, failures), tuple(changes)


def simulate_plan_packets(
    plan: Plan,
    network: Network,
    traffic: pl.DataFrame,
    paths: str,
    seed: int,
    *,
    fail: Sequence[str] = (),
    pinned: Pinned | None = None,
    packet: PacketExtras = PacketExtras(),
    **changed: object,
) -> EngineResult:
    """Run ``traffic`` over ``network`` (of `plan_network`) with the settings of ``plan``; raises InputError.

    ``pinned`` as of `simulate_packets`; ``changed`` overrides fields of `PacketOptions`.
    """
    worn, changes = plan_changes(network, fail, seed)
    seen = {"sample_us": packet.sample_us, "latency_budget": True}
    options = plan_options(plan, paths, changes=changes, **{**seen, **changed})
    rounds = repeated(traffic, packet.iterations)
    entropy = np.resize(flow_entropy(traffic["op_id"], seed), rounds.height)
    offsets, links = pinned if pinned is not None else (np.zeros(traffic.height + 1, np.int64), np.empty(0, np.int32))
    rows = rounds
    if packet.background:
        until_us = 2 * packet.iterations * packet.expected_us
        load = background_traffic(
            packet.background, edge_gbps(network), until_us=until_us, seed=seed, groups=reach_groups(network)
        )
        rows = merge([rounds, load])
        entropy = np.concatenate([entropy, flow_entropy(rows["op_id"][rounds.height :], seed)])
    counts = np.concatenate([np.tile(np.diff(offsets), packet.iterations), np.zeros(rows.height, np.int64)])[
        : rows.height
    ]
    result = simulate_packets(
        worn,
        rows,
        options,
        seed,
        pinned=(np.concatenate([[0], np.cumsum(counts)]), np.tile(links, packet.iterations)),
        thresholds=plan_queues(plan, network),
        entropy=entropy,
    )
    return _iterations(engine_result(result), result, traffic, packet.iterations)


def edge_gbps(network: Network) -> NDArray[np.float64]:
    """Return the rate of each endpoint's links to switches (float64, hosts)."""
    edge = (network.node_kind[network.link_src] == HOST) & (network.node_kind[network.link_dst] == SWITCH)
    return np.bincount(network.link_src[edge], network.link_gbps[edge], network.hosts)[: network.hosts].astype(
        np.float64
    )


def reach_groups(network: Network) -> NDArray[np.int64]:
    """Return a number per endpoint (int64, hosts) that two endpoints share when switches join them."""
    label = np.arange(network.node_kind.size)
    switch = network.node_kind == SWITCH
    src, dst = network.link_src, network.link_dst
    between = switch[src] & switch[dst]
    while True:
        lower = label.copy()
        np.minimum.at(lower, dst[between], label[src[between]])
        if np.array_equal(lower, label):
            break
        label = lower
    edge = (network.node_kind[src] == HOST) & switch[dst]
    group = np.full(network.node_kind.size, network.node_kind.size)
    np.minimum.at(group, src[edge], label[dst[edge]])
    return group[: network.hosts]


def _iterations(shared: EngineResult, result: PacketResult, traffic: pl.DataFrame, iterations: int) -> EngineResult:
    """Return ``shared`` with one step per iteration of ``traffic``, and the end of the last as its end."""
    own = result.operations.head(iterations * traffic.height)
    if iterations == 1 and own.height == result.operations.height:
        return shared
    ends = own.with_columns(step=pl.int_range(own.height, dtype=pl.UInt32) // traffic.height)
    steps = ends.group_by("step", maintain_order=True).agg(pl.col("job").first(), pl.col("finish_us").max())
    steps = steps.with_columns(start_us=pl.col("finish_us").shift(1, fill_value=0.0))
    rest = shared.steps.filter(pl.col("job") != traffic["job"][0])
    finish_us = float(steps["finish_us"][-1]) if own["finish_us"].null_count() == 0 else float("nan")
    return replace(shared, finish_us=finish_us, steps=pl.concat([conform("steps", steps), rest]))


def engine_result(result: PacketResult) -> EngineResult:
    """Return ``result`` in the form that all engines share; ``finish_us`` is NaN when operations are left."""
    ends = result.operations["finish_us"].drop_nulls().to_numpy()
    jobs = result.operations.group_by("job", maintain_order=True).agg(
        pl.col("start_us").min(), pl.col("finish_us").max()
    )
    return EngineResult(
        finish_us=float(ends.max(initial=0.0)) if result.diagnosis is None else float("nan"),
        flows=result.flows,
        links_used=result.links_used,
        counters=result.counters,
        why=tuple(result.why),
        steps=conform("steps", jobs.with_columns(step=pl.lit(0))),
        diagnosis=result.diagnosis,
        details={
            "pauses": result.pauses,
            "buffers": result.buffers,
            "queues": result.samples,
            "carried": result.carried,
            "budget": result.budget,
        },
    )
