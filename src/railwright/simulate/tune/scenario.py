"""The traffic and the network that `tune` runs again and again, and what a run is judged by.

Only thresholds and rates change from run to run: network, traffic, paths and hashes stay. A plan's setting becomes
``backend.ecn``, ``backend.pfc`` and ``backend.dcqcn`` of its spec, so `simulate` on the spec with those lines gives the same
figures. A *victim* is a flow that crosses no congested link and is slow all the same: with max-min fair shares of the same
links (flow engine) it runs at most `FREE_SLOWDOWN` times as long as alone, with packets at least `VICTIM_SLOWDOWN` times as
long. Both limits are ours. That definition needs no knowledge of paths, and holds for sprayed packets too; a flow that meets
congestion only for a small part of its life counts as free.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.design.plan import Plan
from railwright.design.qos_table import contracts_for, link_ends, qos_table
from railwright.design.thresholds import marking_bounds
from railwright.documents import read_document
from railwright.errors import InputError, nearest
from railwright.simulate.analytic import Library, simulate_analytic
from railwright.simulate.flow.engine import simulate_flows
from railwright.simulate.flow.options import FlowOptions
from railwright.simulate.goodput import goodput_share
from railwright.simulate.library import cross_rail_of, taken
from railwright.simulate.network import SCALE_UP, SWITCH, Network
from railwright.simulate.network_file import read_flows, read_network
from railwright.simulate.options_file import read_options
from railwright.simulate.packet.columns import packet_headroom
from railwright.simulate.packet.engine import PacketResult, simulate_packets
from railwright.simulate.packet.on_plan import Pinned, edge_gbps, plan_options, plan_queues, reach_groups
from railwright.simulate.packet.options import PacketOptions, rocev2
from railwright.simulate.packet.queues import queue_columns
from railwright.simulate.packet.settings import class_fields, rate_control_fields, rate_control_options
from railwright.simulate.plan_goodput import plan_paths
from railwright.simulate.plan_network import network_from_plan, placement_of
from railwright.simulate.routing import flow_entropy
from railwright.simulate.run import PATHS
from railwright.simulate.tune.parameters import Sections, Setting, control_values, sections_of
from railwright.spec.congestion import Pausing
from railwright.spec.load import dump_spec
from railwright.workload.background import JOB as BACKGROUND
from railwright.workload.background import background_traffic
from railwright.workload.collectives import collective_name, collective_traffic
from railwright.workload.traffic import Traffic, merge

FREE_SLOWDOWN = 1.05
"""Up to here, with max-min fair shares, a flow crosses no congested link; ours."""
VICTIM_SLOWDOWN = 1.5
"""From here a flow that crosses no congested link is a victim; ours."""

BY_HAND = "build writes the ECN thresholds; PFC's alpha and xoff and DCQCN's rates are to be set by hand"

Settled = tuple[PacketOptions, pl.DataFrame | None]


@dataclass(frozen=True)
class Scenario:
    """What stays the same in all runs.

    ``base`` is the contract as values of parameters, as far as it has them (kmin: the lowest of all ports). ``settle`` gives
    options and thresholds of `Sections` (none: the contract as it is), ``sections`` the sections of a setting, ``limit`` the
    highest Kmin that marks before PFC pauses (None: not known). ``setting`` says what is simulated and identifies it.
    """

    network: Network
    rows: pl.DataFrame
    entropy: NDArray[np.uint32]
    pinned: Pinned | None
    free: NDArray[np.bool_]
    fabric: NDArray[np.bool_]
    base: Setting
    settle: Callable[[Sections], Settled]
    sections: Callable[[Setting], Sections]
    limit: Callable[[Pausing | None], float | None]
    snippet: Callable[[Sections], dict[str, Any]]
    notes: Callable[[Sections], list[str]]
    setting: Mapping[str, Any] = field(default_factory=dict)

    def run(self, sections: Sections, seed: int) -> dict[str, Any]:
        """Return the figures of one run (see `figures`); ``seed`` is that of the random marks, hashes stay."""
        options, thresholds = self.settle(sections)
        result = simulate_packets(
            self.network,
            self.rows,
            options,
            seed,
            pinned=self.pinned,
            thresholds=thresholds,
            entropy=self.entropy,
        )
        return figures(result, self.free, self.fabric, self.network)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters that the contract has."""
        return (*self.base, *(("xoff",) if "alpha" in self.base else ()))

    def marks_first(self, sections: Sections) -> bool | None:
        """Say whether ECN marks before PFC can pause by the bound of rule RW311; None where that is not known."""
        most = self.limit(sections.pfc)
        kmin = sections.ecn.kmin if sections.ecn else self.base.get("kmin")
        return None if most is None or kmin is None else kmin <= most


def figures(
    result: PacketResult, free: NDArray[np.bool_], fabric: NDArray[np.bool_], network: Network
) -> dict[str, Any]:
    """Return what a run is judged by; None where a run did not finish.

    ``time_us`` until the last flow of the traffic ended (background apart); of its flows that cross the fabric (the others
    stay in an NVLink domain) ``goodput_gbps``, their bytes over that time, ``fct_p999_us`` and ``slowdown_p999`` (completion over
    that of the flow alone); ``pause_share`` of the time of the links
    in use, ``victims`` and ``flows``; beside them marks, frames, drops and the longest switch queue.
    """
    every = result.flows.select("job", "bytes", "start_us", "finish_us", "fct_us", "ideal_us", fabric=pl.Series(fabric))
    judged = every.filter(~pl.col("job").fill_null("").str.starts_with(BACKGROUND))
    own = judged.filter("fabric")
    finished = result.diagnosis is None
    slowdown = (own["fct_us"] / own["ideal_us"]).drop_nulls()
    last, first = judged["finish_us"].max(), judged["start_us"].min()
    time_us = float(last) - float(first) if finished and last is not None and first is not None else None  # type: ignore[arg-type]
    used = int((result.links_used["bytes"] > 0).sum())
    switch = pl.Series(network.node_kind[network.link_src] == SWITCH)
    return {
        "time_us": time_us,
        "goodput_gbps": float(own["bytes"].sum()) * 8e-3 / time_us if time_us else None,
        "fct_p999_us": _quantile(own["fct_us"].drop_nulls()) if finished else None,
        "slowdown_p999": _quantile(slowdown) if finished else None,
        "pause_share": result.counters["paused_us"] / (used * result.counters["end_us"]) if used else 0.0,
        "victims": int((pl.Series(free & fabric) & (every["fct_us"] / every["ideal_us"] >= VICTIM_SLOWDOWN)).sum())
        if finished
        else None,
        "flows": int(fabric.sum()),
        "paused_us": result.counters["paused_us"],
        "pause_frames": int(result.counters["pause_frames"]),
        "ecn_marks": int(result.counters["ecn_marks"]),
        "cnps": int(result.counters["cnps"]),
        "drops": int(result.counters["drops"]),
        "queue_max_bytes": float(result.links_used.filter(switch)["queue_max_bytes"].max() or 0.0),  # type: ignore[arg-type]
        "diagnosis": None if result.diagnosis is None else result.diagnosis.code,
    }


def _quantile(values: pl.Series) -> float | None:
    found = values.quantile(0.999, interpolation="nearest")
    return None if found is None else float(found)


def plan_scenario(
    plan: Plan,
    *,
    collective: str | None = None,
    size_bytes: float = 2.0**24,
    ranks: int | list[int] | None = None,
    incast: int | None = None,
    flows: Path | None = None,
    background: Sequence[str] = (),
    paths: str | None = None,
    seed: int | None = None,
) -> Scenario:
    """Return the scenario of one kind of traffic on the backend of ``plan``, whose table ``qos`` is the contract.

    The traffic is a ``collective`` of ``size_bytes`` among ``ranks``, an ``incast`` of so many senders with ``size_bytes`` each,
    or the ``flows`` of a CSV file between the plan's GPUs. Raises InputError that names what is wrong.
    """
    contract = contracts_for(plan)["backend"]
    if contract.transport == "infiniband":
        raise InputError(
            "tune works on PFC, ECN and DCQCN; this backend is InfiniBand, which has none of them", key="PLAN"
        )
    used_seed = plan.spec.seed if seed is None else seed
    way = _known_paths(paths) or plan_paths(plan)
    network = network_from_plan(plan)
    pinned: Pinned | None = None
    expected_us = 0.0
    told: dict[str, Any] = {}
    if flows is not None:
        traffic, pinned = read_flows(flows, network)
        told = {"flows": flows.name, "flows_sha256": _digest(flows)}
    elif incast is not None:
        traffic = incast_traffic(network, incast, size_bytes)
        told = {"incast": incast, "size_bytes": size_bytes}
    else:
        name = collective_name(collective or "all-to-all")
        placement = placement_of(plan, ranks)
        runs = taken(plan, name, size_bytes, placement)
        traffic = collective_traffic(
            name,
            size_bytes,
            placement,
            algorithm=runs.algorithm,
            channels=runs.channels,
            cross_rail=cross_rail_of(plan),
        )
        if background:
            closed, _ = simulate_analytic(plan, name, size_bytes, placement, runs.algorithm, Library(runs.channels))
            expected_us = closed.finish_us
        told = {"collective": name, "algorithm": runs.algorithm, "size_bytes": size_bytes, "ranks": placement.ranks}
        told |= {"rank_ids": ranks} if isinstance(ranks, list) else {}
    rows, entropy = _with_background(network, traffic, background, expected_us, used_seed)
    if pinned is not None and rows.height > traffic.height:
        pinned = (np.append(pinned[0], np.full(rows.height - traffic.height, pinned[0][-1])), pinned[1])
    options = plan_options(plan, way)
    classes = [c.name for c in contract.classes if c.purpose == "roce"]
    data = next(item for item in options.classes if item.name == classes[0])
    table = plan.table("qos")
    if table.is_empty():
        table = qos_table(plan, contracts_for(plan))
    ends = link_ends(plan)
    base = _base(data.lossless, data.xon_offset_bytes, data.alpha, options, dcqcn=contract.dcqcn)
    marked = _backend_rows(plan, table).filter(pl.col("class").is_in(classes) & pl.col("kmin_bytes").is_not_null())
    if not marked.is_empty():
        lowest = marked.sort("kmin_bytes").row(0, named=True)
        base |= _marks(lowest["kmin_bytes"], lowest["kmax_bytes"], lowest["pmax"])

    def changed(sections: Sections) -> Plan:
        update = {key: value for key, value in vars(sections).items() if value is not None}
        backend = plan.spec.backend.model_copy(update=update)
        return replace(plan, spec=plan.spec.model_copy(update={"backend": backend}))

    def settle(sections: Sections) -> Settled:
        if sections == Sections():
            return options, plan_queues(plan, network)
        own = changed(sections)
        own = own.with_tables(qos=qos_table(own, contracts_for(own)))
        return plan_options(own, way), plan_queues(own, network)

    bounds: dict[Pausing | None, float | None] = {}

    def limit(pfc: Pausing | None) -> float | None:
        if pfc not in bounds:
            known = marking_bounds(changed(Sections(pfc=pfc)), table, ends)
            backend = plan.devices.filter(pl.col("network") == "backend")["device_id"].implode()
            most = known.filter(pl.col("device_id").is_in(backend) & pl.col("class").is_in(classes))["most_bytes"].min()
            bounds[pfc] = None if most is None else float(most)  # type: ignore[arg-type]
        return bounds[pfc]

    return Scenario(
        network=network,
        rows=rows,
        entropy=entropy,
        pinned=pinned,
        free=_free(network, rows, way, used_seed, pinned),
        fabric=_fabric(network, rows),
        base=base,
        settle=settle,
        sections=lambda setting: sections_of(setting, base, plan.spec.backend.pfc, plan.spec.backend.dcqcn),
        limit=limit if data.lossless else lambda pfc: None,
        snippet=lambda sections: {"backend": sections.as_dict()},
        notes=lambda sections: [BY_HAND] if sections.pfc or sections.dcqcn else [],
        setting={
            "plan": plan.spec.name,
            "spec_sha256": hashlib.sha256(dump_spec(plan.spec).encode()).hexdigest(),
            **told,
            "background": list(background),
            "paths": way,
            "seed": used_seed,
        },
    )


def own_scenario(
    network_file: Path,
    flows_file: Path,
    *,
    options_file: Path | None = None,
    background: Sequence[str] = (),
    paths: str | None = None,
    seed: int = 0,
) -> Scenario:
    """Return the scenario of flows of the user's own on a network of the user's own; raises InputError.

    ``options_file`` (default: `rocev2`) and the thresholds in the network's file are the contract; what is found is that
    file with the best values.
    """
    asked_paths = _known_paths(paths)
    given: Mapping[str, Any] = {}
    if options_file is None:
        options = rocev2(paths=asked_paths or "ecmp")
    else:
        options = read_options(options_file, paths=asked_paths)
        given = read_document(options_file, what="options of the packet engine (OPTIONS.yaml)").data
    if options.transport == "infiniband":
        raise InputError("tune works on PFC, ECN and DCQCN; InfiniBand has none of them", key="--options")
    way, asked = options.paths, options
    user = read_network(network_file)
    traffic, pinned = read_flows(flows_file, user.network)
    rows, entropy = _with_background(user.network, traffic, background, 0.0, seed)
    if pinned is not None and rows.height > traffic.height:
        pinned = (np.append(pinned[0], np.full(rows.height - traffic.height, pinned[0][-1])), pinned[1])
    data = options.classes[0]
    base = _base(data.lossless, data.xon_offset_bytes, data.alpha, options, dcqcn=data.congestion_control == "dcqcn")
    base |= _marks(data.kmin_bytes, data.kmax_bytes, data.pmax)
    profile = None if user.thresholds is None else user.thresholds.filter(pl.col("class") == data.name)
    if profile is not None and (kmin := profile["kmin_bytes"].drop_nulls()).len():
        lowest = profile.filter(pl.col("kmin_bytes") == kmin.min()).row(0, named=True)
        base |= _marks(
            lowest["kmin_bytes"],
            lowest["kmax_bytes"] or data.kmax_bytes,
            data.pmax if lowest["pmax"] is None else lowest["pmax"],
        )

    def thresholds_with(sections: Sections) -> pl.DataFrame | None:
        replaced = [name for name in ("kmin_bytes", "kmax_bytes", "pmax") if sections.ecn is not None]
        if sections.pfc is not None and (sections.pfc.alpha is not None or sections.pfc.xoff is not None):
            replaced.append("xoff_bytes")
        if user.thresholds is None or not replaced:
            return user.thresholds
        return user.thresholds.with_columns(
            pl.when(pl.col("class") != data.name).then(pl.col(name)).alias(name) for name in replaced
        )

    def settle(sections: Sections) -> Settled:
        own = asked.model_copy(
            update={
                "classes": (data.model_copy(update=class_fields(sections.ecn, sections.pfc)), *asked.classes[1:]),
                "dcqcn": rate_control_options(sections.dcqcn, asked.dcqcn),
            }
        )
        return own, thresholds_with(sections)

    def snippet(sections: Sections) -> dict[str, Any]:
        kept = given.get("classes", {})
        fields = {**kept.get(data.name, {}), **class_fields(sections.ecn, sections.pfc)}
        if not fields.get("xoff_bytes", data.xoff_bytes) and not data.xoff_bytes:
            fields.pop("xoff_bytes", None)
        control = {**given.get("dcqcn", {}), **rate_control_fields(sections.dcqcn)}
        lines = {"classes": {**kept, data.name: fields} if fields else kept, "dcqcn": control}
        return {**given, **{key: value for key, value in lines.items() if value}}

    def limit(pfc: Pausing | None) -> float | None:
        own, thresholds = settle(Sections(pfc=pfc))
        return own_marking_bound(user.network, own, thresholds)

    def notes(sections: Sections) -> list[str]:
        if profile is None or (sections.ecn is None and sections.pfc is None):
            return []
        return [
            f"the profiles under qos in {network_file.name} win over these lines:"
            f" take kmin_bytes, kmax_bytes, pmax and xoff_bytes of class {data.name} out of them"
        ]

    return Scenario(
        network=user.network,
        rows=rows,
        entropy=entropy,
        pinned=pinned,
        free=_free(user.network, rows, way, seed, pinned),
        fabric=_fabric(user.network, rows),
        base=base,
        settle=settle,
        sections=lambda setting: sections_of(setting, base, None, None),
        limit=limit if data.lossless else lambda pfc: None,
        snippet=snippet,
        setting={
            "network": network_file.name,
            "network_sha256": _digest(network_file),
            "flows": flows_file.name,
            "flows_sha256": _digest(flows_file),
            "options_sha256": hashlib.sha256(options.model_dump_json().encode()).hexdigest(),
            "background": list(background),
            "paths": way,
            "seed": seed,
        },
        notes=notes,
    )


def own_marking_bound(network: Network, options: PacketOptions, thresholds: pl.DataFrame | None) -> float | None:
    """Return the highest Kmin of the first class with which every switch marks before PFC can pause.

    The form of `design.thresholds` with the engine's own headroom, reserve and buffer; None without a switch.
    """
    data, count = options.classes[0], len(options.classes)
    into_switch = network.node_kind[network.link_dst] == SWITCH
    switches = np.flatnonzero(network.node_kind == SWITCH)
    if not switches.size:
        return None
    columns = queue_columns(network, options, thresholds)
    links = network.link_gbps.size

    def queue(name: str, usual: NDArray[np.float64]) -> NDArray[np.float64]:
        own = columns[name][::count] if columns[name].size else np.full(links, np.nan)
        return np.where(np.isnan(own), usual, own)

    usual = (
        packet_headroom(network, options) if options.headroom_bytes is None else np.full(links, options.headroom_bytes)
    )
    reserved = queue("queue_headroom", usual) + queue("queue_reserve", np.full(links, data.reserve_bytes))
    xoff = queue("queue_xoff", np.full(links, data.xoff_bytes))
    nodes = network.node_kind.size
    held = np.bincount(network.link_dst[into_switch], reserved[into_switch], nodes)[switches]
    ports = np.maximum(np.bincount(network.link_dst[into_switch], minlength=nodes)[switches], 1)
    size = network.node_buffer_bytes[switches]
    pool = np.where(size > 0, size, options.buffer_bytes) - held
    moving = data.alpha * pool / (ports * (1 + data.alpha))
    lowest = np.full(nodes, np.inf)
    fixed = into_switch & (xoff > 0)
    np.minimum.at(lowest, network.link_dst[fixed], xoff[fixed])
    any_moving = np.bincount(network.link_dst[into_switch & (xoff <= 0)], minlength=nodes)[switches] > 0
    return float(np.minimum(lowest[switches] / ports, np.where(any_moving, moving, np.inf)).min())


def incast_traffic(network: Network, senders: int, size_bytes: float) -> pl.DataFrame:
    """Return ``senders`` sends of ``size_bytes`` to the first endpoint at once, from endpoints that switches join to it.

    The senders are spread evenly over those endpoints. Raises InputError when there are not so many.
    """
    group = reach_groups(network)
    others = np.flatnonzero(group == group[0])[1:]
    if not 1 <= senders <= others.size:
        raise InputError(
            f"{senders} senders; 1 to {others.size} endpoints reach {network.node_name[0]} over switches",
            key="--incast",
        )
    chosen = others[np.arange(senders) * others.size // senders]
    traffic = Traffic(job="incast")
    traffic.send(chosen, np.zeros(senders, np.int64), size_bytes)
    return traffic.frame()


def _with_background(
    network: Network, traffic: pl.DataFrame, background: Sequence[str], expected_us: float, seed: int
) -> tuple[pl.DataFrame, NDArray[np.uint32]]:
    """Return the traffic with ``background`` load for twice ``expected_us``, hashed as `simulate` does it.

    Without ``expected_us``: twice the time in which the busiest endpoint's bytes pass its adapter.
    """
    entropy = flow_entropy(traffic["op_id"], seed)
    if not background:
        return traffic, entropy
    rate = edge_gbps(network)
    if not expected_us:
        ends = [traffic.group_by(end).agg(pl.col("bytes").sum()).rename({end: "end"}) for end in ("src", "dst")]
        busiest = pl.concat(ends)
        expected_us = float((busiest["bytes"].to_numpy() * 8e-3 / rate[busiest["end"].to_numpy()]).max())
    load = background_traffic(background, rate, until_us=2 * expected_us, seed=seed, groups=reach_groups(network))
    rows = merge([traffic, load])
    return rows, np.concatenate([entropy, flow_entropy(rows["op_id"][traffic.height :], seed)])


def _free(network: Network, rows: pl.DataFrame, paths: str, seed: int, pinned: Pinned | None) -> NDArray[np.bool_]:
    """Return for every send whether it crosses no congested link when all flows get max-min fair shares (bool)."""
    flows = simulate_flows(
        network, rows, FlowOptions(goodput=goodput_share("rocev2"), paths=paths), seed, pinned=pinned
    ).flows
    slowdown = (flows["fct_us"] / flows["ideal_us"]).to_numpy()
    return np.asarray(slowdown <= FREE_SLOWDOWN, np.bool_)


def _fabric(network: Network, rows: pl.DataFrame) -> NDArray[np.bool_]:
    """Return for every send whether its ends are in different scale-up domains, or in none (bool).

    Raises InputError when that is so for background load only.
    """
    joins = network.node_kind[network.link_dst] == SCALE_UP
    domain = -1 - np.arange(network.node_kind.size)
    domain[network.link_src[joins]] = network.link_dst[joins]
    sends = rows.filter(pl.col("kind").cast(pl.String) == "send")
    crosses = np.asarray(domain[sends["src"].to_numpy()] != domain[sends["dst"].to_numpy()], np.bool_)
    if not (crosses & ~sends["job"].str.starts_with(BACKGROUND).to_numpy()).any():
        raise InputError("no flow of this traffic crosses the fabric: there is nothing to tune", key="traffic")
    return crosses


def _base(lossless: bool, xon_offset: float, alpha: float, options: PacketOptions, *, dcqcn: bool) -> dict[str, float]:
    base = {"alpha": alpha, "xon_offset": xon_offset} if lossless else {}
    return base | (control_values(options.dcqcn) if dcqcn else {})


def _marks(kmin: float, kmax: float, pmax: float) -> dict[str, float]:
    return {"kmin": float(kmin), "kmax_ratio": float(kmax) / float(kmin), "pmax": float(pmax)} if kmin else {}


def _backend_rows(plan: Plan, table: pl.DataFrame) -> pl.DataFrame:
    ports = plan.ports.select("port_id", "device_id").join(
        plan.devices.filter(pl.col("network") == "backend").select("device_id"), on="device_id"
    )
    return table.join(ports.select("port_id"), on="port_id")


def _known_paths(paths: str | None) -> str | None:
    if paths is not None and paths not in PATHS:
        raise InputError(
            f"path mode {paths!r} is unknown{nearest(paths, PATHS)}; choose one of {', '.join(PATHS)}", key="--paths"
        )
    return paths


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
