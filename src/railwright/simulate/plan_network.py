"""The network of a plan as the engines see it: GPUs with their NIC ports, switches, and the NVLink inside the domains.

Endpoint ``e`` is the GPU with global id ``e`` (server by server). Where a server has fewer NICs than GPUs, a node of kind
SWITCH stands for each NIC and its GPUs hang on it at the rate of their PCIe slot. On the other networks endpoints are boxes:
servers first, then the others. Propagation follows the cable's length once the plan has cables, and a typical length per tier
before that.
"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.catalog.model import Gpu
from railwright.design.context import resolve_server
from railwright.design.plan import Plan
from railwright.errors import InputError
from railwright.simulate.network import HOST, SCALE_UP, SWITCH, Network
from railwright.workload.nccl.constants import ARCHITECTURES, constants_of
from railwright.workload.placement import Placement

NS_PER_M = 4.9
"""Group delay of single-mode fibre (ITU-T G.652, index 1.468); twinax differs by less than 10 %."""

ASSUMED_LENGTH_M = {"host": 5.0, "leaf_spine": 30.0, "spine_core": 60.0}
"""Lengths taken before cabling: a neighbouring rack, a row, a hall."""
OTHER_LENGTH_M = 30.0

FORWARDING = ("leaf", "spine", "core", "border", "tor", "oob", "firewall")
"""Boxes that pass traffic on; all others end it."""

SCALE_UP_HOP_NS = 250.0
"""One way through an NVSwitch, half on each link. Not published by the vendor; unverified."""

UNKNOWN_SWITCH_NS = 700.0
"""Latency taken for a platform whose figure the catalog does not know: between Tomahawk 5 (600) and Tomahawk 4 (800)."""


def network_from_plan(plan: Plan, network: str = "backend", *, exact_lengths: bool = True) -> Network:
    """Return ``network`` of ``plan`` as arrays. Links of the scale-up network get ids above those of the plan.

    Without ``exact_lengths`` every cable of a tier has the tier's mean length: nanoseconds move, but alike links stay alike,
    which is what lets the flow engine compute alike operations once.
    Raises InputError when the plan has no such network.
    """
    fabric = _fabric_of(plan, network)
    if fabric != "backend":
        return _network_of_boxes(plan, fabric, exact_lengths=exact_lengths)
    links = plan.links.filter((pl.col("network") == fabric) & pl.col("tier").is_in(list(ASSUMED_LENGTH_M)))
    if links.is_empty():
        raise InputError(f"the plan has no {network} links to simulate", key=network)
    server = resolve_server(plan.spec, plan.catalog)
    servers = plan.devices.filter(pl.col("role") == "server").sort("device_id")
    switches = plan.devices.filter((pl.col("network") == fabric) & pl.col("role").is_in(["leaf", "spine", "core"]))
    gpus = len(servers) * server.gpus
    shared = server.backend.count < server.gpus
    nics = len(servers) * server.backend.count if shared else 0

    server_index = pl.DataFrame({"device_id": servers["device_id"], "server": np.arange(len(servers))})
    switch_node = pl.DataFrame({"device_id": switches["device_id"], "node": gpus + nics + np.arange(len(switches))})
    ends = (
        plan.ports.select("port_id", "device_id", "gpu", "nic")
        .join(server_index, on="device_id", how="left")
        .join(switch_node, on="device_id", how="left")
        .with_columns(
            node=pl.coalesce(
                pl.col("node"),
                gpus + pl.col("server") * server.backend.count + pl.col("nic")
                if shared
                else pl.col("server") * server.gpus + pl.col("gpu"),
            )
        )
        .select("port_id", "node")
        .drop_nulls()
    )
    wired = (
        links.join(ends.rename({"port_id": "a_port", "node": "a"}), on="a_port", maintain_order="left")
        .join(ends.rename({"port_id": "b_port", "node": "b"}), on="b_port", maintain_order="left")
        .with_columns(length_m=_lengths(plan, exact=exact_lengths))
    )
    a, b = wired["a"].to_numpy().astype(np.int64), wired["b"].to_numpy().astype(np.int64)
    rate = wired["speed_gbps"].to_numpy()
    delay = wired["length_m"].to_numpy() * NS_PER_M
    ids = wired["link_id"].to_numpy().astype(np.int64)
    next_id = int(plan.links["link_id"].to_numpy().max()) + 1

    if shared:
        slot = plan.catalog.nics[server.backend.nic].host_gbps(server.pcie_generation) or server.backend.gbps
        gpu = np.arange(gpus)
        nic = gpus + gpu // server.gpus * server.backend.count + gpu % server.gpus * server.backend.count // server.gpus
        a, b, rate = np.append(a, gpu), np.append(b, nic), np.append(rate, np.full(gpus, slot))
        delay, ids = np.append(delay, np.zeros(gpus)), np.append(ids, next_id + gpu)
        next_id += gpus

    domains = -(-gpus // server.scale_up_gpus) if server.scale_up_gpus > 1 else 0
    if domains:
        gpu = np.arange(gpus)
        usable_gbps = scale_up_gbps(plan.catalog.gpu(server.gpu))
        a = np.append(a, gpu)
        b = np.append(b, gpus + nics + len(switches) + gpu // server.scale_up_gpus)
        rate = np.append(rate, np.full(gpus, usable_gbps))
        delay = np.append(delay, np.full(gpus, SCALE_UP_HOP_NS / 2))
        ids = np.append(ids, next_id + gpu)

    names = pl.concat(
        [
            _endpoint_names(servers["name"], server.gpus, "gpu"),
            _endpoint_names(servers["name"], server.backend.count, "nic") if shared else pl.Series([], dtype=pl.String),
            switches["name"],
            pl.select(pl.format("nvlink-domain{}", pl.int_range(1, domains + 1))).to_series(),
        ]
    )
    kinds = np.repeat(np.array([HOST, SWITCH, SWITCH, SCALE_UP], np.uint8), [gpus, nics, len(switches), domains])
    facts = _switch_facts(plan, switches["model"])
    before, after = np.zeros(gpus + nics), np.zeros(domains)
    return Network(
        node_name=names.rename("node"),
        node_kind=kinds,
        node_buffer_bytes=np.concatenate([before, facts["buffer_bytes"].to_numpy(), after]),
        node_latency_ns=np.concatenate([before, facts["latency_ns"].to_numpy(), after]),
        link_src=np.column_stack([a, b]).ravel().astype(np.int32),
        link_dst=np.column_stack([b, a]).ravel().astype(np.int32),
        link_gbps=np.repeat(rate, 2),
        link_delay_ns=np.repeat(delay, 2),
        link_id=ids.astype(np.uint32),
    )


def scale_up_gbps(gpu: Gpu) -> float:
    """Return what one GPU's NVLink or xGMI port carries in one direction, in Gb/s of payload.

    Half of the vendor's figure, which sums both directions, times the share that the collective library counts on (NCCL 2.30,
    src/graph/topo.h: 20.6 of 25 GB/s per link on H100, so 371 of 450 GB/s, of which 365 to 370 are measured, nccl#1455; RCCL
    alike for MI300X). An architecture without such constants keeps the vendor's figure.
    """
    vendor = gpu.scale_up_gbytes_s / 2 * 8
    if gpu.architecture not in ARCHITECTURES:
        return vendor
    link = constants_of(gpu.architecture).nvlink[gpu.architecture]
    return vendor * link["counted"] / link["vendor"]


def placement_of(plan: Plan, ranks: int | list[int] | None = None) -> Placement:
    """Return where the ranks of a job sit: all GPUs of the plan, the first ``ranks``, or the listed global GPU ids.

    Raises InputError for a GPU that the plan does not have.
    """
    server = resolve_server(plan.spec, plan.catalog)
    gpus = len(plan.devices.filter(pl.col("role") == "server")) * server.gpus
    wanted = gpus if ranks is None else ranks
    highest = wanted if isinstance(wanted, int) else max(wanted, default=-1) + 1
    if highest > gpus:
        raise InputError(f"GPU {highest - 1} does not exist; the plan has GPUs 0 to {gpus - 1}", key="ranks")
    return Placement.of(
        wanted,
        gpus_per_server=server.gpus,
        rails=min(server.backend.count, server.gpus),
        domain_gpus=server.scale_up_gpus,
    )


def _network_of_boxes(plan: Plan, fabric: str, *, exact_lengths: bool) -> Network:
    """Return a network whose endpoints are boxes: servers in order, then the others that its links reach."""
    links = plan.named_links().filter(pl.col("network") == fabric)
    if links.is_empty():
        raise InputError(f"the plan has no {fabric} links to simulate", key=fabric)
    reached = pl.concat([links[f"{side}_device_id"] for side in ("a", "b")]).unique()
    passes_on = pl.col("role").is_in(FORWARDING)
    boxes = plan.devices.filter(pl.col("device_id").is_in(reached.implode())).sort(
        passes_on, pl.col("role").cast(pl.String) != "server", "device_id"
    )
    hosts = boxes.filter(~passes_on).height
    node = pl.DataFrame({"device_id": boxes["device_id"], "node": np.arange(boxes.height)})
    ends = [
        links.select(device_id=f"{side}_device_id").join(node, on="device_id", maintain_order="left")["node"].to_numpy()
        for side in ("a", "b")
    ]
    delay = links.select(_lengths(plan, exact=exact_lengths)).to_series().to_numpy() * NS_PER_M
    facts = _switch_facts(plan, boxes["model"][hosts:])
    nothing = np.zeros(hosts)
    return Network(
        node_name=boxes["name"].rename("node"),
        node_kind=np.repeat(np.array([HOST, SWITCH], np.uint8), [hosts, boxes.height - hosts]),
        node_buffer_bytes=np.concatenate([nothing, facts["buffer_bytes"].to_numpy()]),
        node_latency_ns=np.concatenate([nothing, facts["latency_ns"].to_numpy()]),
        link_src=np.column_stack(ends).ravel().astype(np.int32),
        link_dst=np.column_stack(ends[::-1]).ravel().astype(np.int32),
        link_gbps=np.repeat(links["speed_gbps"].to_numpy(), 2),
        link_delay_ns=np.repeat(delay, 2),
        link_id=links["link_id"].to_numpy(),
    )


def _fabric_of(plan: Plan, network: str) -> str:
    converge = plan.spec.converge
    return (
        converge[0] if network in converge and plan.links.filter(pl.col("network") == network).is_empty() else network
    )


def _lengths(plan: Plan, *, exact: bool) -> pl.Expr:
    tier = pl.col("tier").cast(pl.String)
    assumed = tier.replace_strict(ASSUMED_LENGTH_M, default=OTHER_LENGTH_M, return_dtype=pl.Float64)
    cables = plan.table("cables").drop_nulls("length_m")
    if cables.is_empty():
        return assumed
    known = pl.col("cable_id").replace_strict(
        cables["cable_id"], cables["length_m"], default=None, return_dtype=pl.Float64
    )
    return pl.coalesce(known if exact else known.mean().over("tier"), assumed)


def _endpoint_names(servers: pl.Series, count: int, what: str) -> pl.Series:
    frame = pl.DataFrame({"server": servers}).join(
        pl.DataFrame({"index": np.arange(count)}), how="cross", maintain_order="left_right"
    )
    return frame.select(pl.format("{}:{}{}", "server", pl.lit(what), "index")).to_series()


def _switch_facts(plan: Plan, models: pl.Series) -> pl.DataFrame:
    used = models.unique(maintain_order=True)
    platforms = [plan.catalog.switches.get(key) for key in used]
    facts = pl.DataFrame(
        {
            "model": used,
            "buffer_bytes": [float(platform.buffer_bytes or 0) if platform else 0.0 for platform in platforms],
            "latency_ns": [(platform.latency_ns if platform else None) or UNKNOWN_SWITCH_NS for platform in platforms],
        },
        schema={"model": pl.String, "buffer_bytes": pl.Float64, "latency_ns": pl.Float64},
    )
    return models.to_frame("model").join(facts, on="model", how="left", nulls_equal=True, maintain_order="left")


def port_counts(network: Network) -> NDArray[np.int64]:
    """Return how many fabric links each endpoint has."""
    fabric = (network.node_kind[network.link_src] == HOST) & (network.node_kind[network.link_dst] == SWITCH)
    return np.bincount(network.link_src[fabric], minlength=network.hosts)[: network.hosts].astype(np.int64)
