"""How far the models are from measurements and from each other: the tables of docs/validation.md, made by fresh runs.

Three comparisons: forecasts with published measurements; the flow engine with the packet engine on 24 traffic cases; the
analytic engine, the flow engine and the load of the busiest link with closed forms. Every row is shown, good or bad.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.simulate.analytic import simulate_analytic
from railwright.simulate.fabric_load import fabric_ceiling
from railwright.simulate.failures import condition, parse_failures
from railwright.simulate.flow.engine import FlowOptions, simulate_flows
from railwright.simulate.goodput import calibrated, goodput_share
from railwright.simulate.network import HOST, SWITCH, Network
from railwright.simulate.packet.engine import simulate_packets
from railwright.simulate.packet.options import Change, rocev2
from railwright.simulate.paths import find_paths
from railwright.simulate.plan_goodput import plan_goodput
from railwright.simulate.plan_network import network_from_plan, placement_of
from railwright.simulate.routing import flow_entropy
from railwright.spec.load import parse_spec
from railwright.workload.collectives import collective_traffic

MEAN_ERROR, WORST_ERROR = 0.05, 0.15
"""Bars for finish times of the flow engine against the packet engine."""

_SPEC = """
name: validation
cluster: {{gpus: {gpus}, server: hgx-h100}}
backend: {{topology: {topology}, transport: rocev2, {more}}}
frontend: {{enabled: false}}
storage: {{enabled: false}}
management: {{enabled: false}}
"""
_RAILS = "servers_per_unit: 4, tiers: 2"
_OVER = "switch: sn5600, uplink_gbps: 800G, oversubscription: {leaf: '4:1'}, counts: {leaf_down_ports: 64}"
_SEED = 1
_FAILED = "rail1-leaf1"


def validation_plan(gpus: int, topology: str = "rail-optimized", more: str = _RAILS) -> Plan:
    """Return a plan of ``gpus`` H100 over 400G RoCEv2: by default rails with four servers per leaf, non-blocking."""
    file = parse_spec(_SPEC.format(gpus=gpus, topology=topology, more=more))
    catalog = file.catalog()
    return design_plan(file.checked(catalog), catalog)


@dataclass(frozen=True)
class Case:
    """One of the 24 cases: bytes as nccl-tests counts them, ``failed``: leaf rail1-leaf1 is out."""

    collective: str
    gpus: int
    size_bytes: float
    paths: str
    failed: bool


def cases() -> list[Case]:
    """Return 2 collectives x 64 and 256 GPUs x ECMP, spraying and rails x all leaves, one leaf out.

    The all-reduce is a ring per rail, the all-to-all sends 256 KiB from each GPU to each other one, across rails over the
    spines (``ecmp``, ``spray``) or over NVLink to the rail first (``rail``).
    """
    sizes = {
        ("all-reduce", 64): 2**26,
        ("all-reduce", 256): 2**26,
        ("all-to-all", 64): 2**24,
        ("all-to-all", 256): 2**26,
    }
    return [
        Case(collective, gpus, float(size), paths, failed)
        for ((collective, gpus), size), paths, failed in product(
            sizes.items(), ("ecmp", "spray", "rail"), (False, True)
        )
    ]


def flow_against_packet(progress: Callable[[str], None] = lambda _: None) -> pl.DataFrame:
    """Run the cases with both engines; one row each: the case, flow_us, packet_us, error (flow / packet - 1), marks, drops.

    About two minutes of processor time.
    """
    rows = []
    networks: dict[int, tuple[Plan, Network]] = {}
    for case in cases():
        progress(f"{case.collective}, {case.gpus} GPUs, {case.paths}{', a leaf out' if case.failed else ''}")
        if case.gpus not in networks:
            plan = validation_plan(case.gpus)
            networks[case.gpus] = plan, network_from_plan(plan)
        rows.append(run_both(case, *networks[case.gpus]))
    return pl.DataFrame(rows)


def small_messages() -> pl.DataFrame:
    """Return what becomes of a healthy, sprayed all-to-all as its messages shrink below the size of the 24 cases.

    Columns: gpus, message_bytes, flow_us, packet_us, error.
    """
    rows = []
    for gpus, largest in ((128, 18), (256, 17)):
        plan = validation_plan(gpus)
        network = network_from_plan(plan)
        for power in range(largest, 14, -1):
            case = Case("all-to-all", gpus, float(gpus * 2**power), "spray", failed=False)
            told = run_both(case, plan, network)
            figures = {key: told[key] for key in ("flow_us", "packet_us", "error")}
            rows.append({"gpus": gpus, "message_bytes": float(2**power), **figures})
    return pl.DataFrame(rows)


def run_both(case: Case, plan: Plan, network: Network) -> dict[str, object]:
    """Run ``case`` with both engines on ``network`` of ``plan``; the columns of `flow_against_packet`."""
    traffic = collective_traffic(
        case.collective,
        case.size_bytes,
        placement_of(plan),
        algorithm="ring" if case.collective == "all-reduce" else None,
        cross_rail="network",
    )
    fail = (f"leaf:{_FAILED}",) if case.failed else ()
    pinned = _around(network, traffic, case.paths, fail) if fail else None
    options = FlowOptions(
        goodput=goodput_share("rocev2"),
        calibration=calibrated("dcqcn+pfc", case.paths),
        acknowledged=True,
        paths=case.paths,
        fail=fail,
    )
    flow = simulate_flows(network, traffic, options, _SEED, pinned=pinned)
    leaf = int(np.flatnonzero((network.node_name == _FAILED).to_numpy())[0])
    changes = (Change(time_us=0, kind="node-down", subject=leaf),) if fail else ()
    packet = simulate_packets(network, traffic, rocev2(paths=case.paths, changes=changes), _SEED, pinned=pinned)
    finish = float(np.max(packet.flows["finish_us"].fill_null(np.inf).to_numpy()))
    return {
        "collective": case.collective,
        "gpus": case.gpus,
        "size_bytes": case.size_bytes,
        "paths": case.paths,
        "failed": case.failed,
        "flow_us": flow.finish_us,
        "packet_us": finish,
        "error": flow.finish_us / finish - 1,
        "ecn_marks": int(packet.counters["ecn_marks"]),
        "drops": int(packet.counters["drops"]),
    }


def _around(
    network: Network, traffic: pl.DataFrame, mode: str, fail: tuple[str, ...]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return paths for the sends of GPUs whose leaf is out, over their neighbours' adapters, as `routing.route` gives them.

    The packet engine does not look for such ways, so both engines are told the same ones.
    """
    state = condition(network, parse_failures(fail, network, _SEED))
    src, dst = traffic["src"].to_numpy(), traffic["dst"].to_numpy()
    entropy = flow_entropy(traffic["op_id"], _SEED)
    found = find_paths(
        network, src, dst, "rail" if mode == "rail" else "ecmp", entropy=entropy, seed=_SEED, state=state
    )
    works = (network.node_kind[network.link_src] == HOST) & (network.node_kind[network.link_dst] == SWITCH)
    alone = np.bincount(network.link_src[works & (state.gbps > 0)], minlength=network.hosts) == 0
    counts = np.diff(found.offset)
    told = (alone[src] | alone[dst]) & (counts > 2)
    offset = np.concatenate([[0], np.cumsum(np.where(told, counts, 0))]).astype(np.int64)
    return offset, found.link[np.repeat(told, counts)].astype(np.int32)


@dataclass(frozen=True)
class _Form:
    """A closed form: what it says, and the time in us that bandwidth alone allows."""

    collective: str
    algorithm: str
    gpus: int
    fabric: str
    formula: str
    time_us: float


def against_closed_forms() -> pl.DataFrame:
    """Return one row per closed form: collective, algorithm, gpus, fabric, formula, closed_us, analytic_us, flow_us.

    1 GiB; the closed forms count bytes over payload rate and no latency, so that the engines may only be slower.
    """
    rows = []
    for form, plan in _forms():
        placement = placement_of(plan)
        size = float(2**30)
        result, _ = simulate_analytic(plan, form.collective, size, placement, form.algorithm)
        traffic = collective_traffic(form.collective, size, placement, algorithm=form.algorithm)
        options = FlowOptions(goodput=goodput_share("rocev2"), calibration=plan_goodput(plan), paths="spray")
        flow = simulate_flows(network_from_plan(plan), traffic, options, _SEED)
        rows.append(
            {
                "collective": form.collective,
                "algorithm": form.algorithm,
                "gpus": form.gpus,
                "fabric": form.fabric,
                "formula": form.formula,
                "closed_us": form.time_us,
                "analytic_us": result.finish_us,
                "flow_us": flow.finish_us,
            }
        )
    return pl.DataFrame(rows)


def _forms() -> Iterator[tuple[_Form, Plan]]:
    size, rate, nvlink = float(2**30), 50e3 * goodput_share("rocev2"), 18 * 20.6e3
    server = validation_plan(8, "rail-only", "tiers: 1")
    ring = 2 * 7 / 8 * size / nvlink
    yield _Form("all-reduce", "ring", 8, "one server", "2(n-1)/n · S / V", ring), server
    for gpus in (64, 256):
        rails, n = validation_plan(gpus), gpus
        share, name = (n - 1) / n * size / (8 * rate), "rails, 1:1"
        yield _Form("all-reduce", "ring", n, name, "2(n-1)/n · S / 8B", 2 * share), rails
        yield _Form("all-gather", "ring", n, name, "(n-1)/n · S / 8B", share), rails
        yield _Form("reduce-scatter", "ring", n, name, "(n-1)/n · S / 8B", share), rails
        yield _Form("broadcast", "ring", n, name, "S / 8B", size / (8 * rate)), rails
        yield _Form("all-to-all", "pairwise", n, name, "(n-8)/n · S / B", (n - 8) / n * size / rate), rails
        yield _Form("send-recv", "pairwise", n, name, "S / B", size / rate), rails
    over = validation_plan(256, "leaf-spine", _OVER)
    crossing = 64 * (256 - 64) / 256 * size
    # 64 GPUs below a leaf share uplinks of a quarter of their own rate, of which congestion control leaves the share c.
    uplinks = 64 * rate / 4 * plan_goodput(over).spread_share
    yield _Form("all-to-all", "pairwise", 256, "leaf-spine, 4:1", "4 (n-64)/n · S / cB", crossing / uplinks), over


def busiest_link_against_flow() -> pl.DataFrame:
    """Return one row per case: gpus, collective, algorithm, paths, ceiling_us (of `fabric_load`), flow_us, at 1 GiB.

    This is what ``busbw`` takes for the fabric's part of the time.
    """
    rows = []
    size, goodput = float(2**30), goodput_share("rocev2")
    for (fabric, plan), (collective, algorithm), paths in product(
        (("rails, 1:1", validation_plan(256)), ("leaf-spine, 4:1", validation_plan(256, "leaf-spine", _OVER))),
        (("all-reduce", "ring"), ("all-reduce", "tree"), ("all-gather", "ring"), ("all-to-all", "pairwise")),
        ("ecmp", "spray"),
    ):
        network, placement = network_from_plan(plan), placement_of(plan)
        found = fabric_ceiling(network, collective, placement, algorithm, paths=paths, goodput=goodput, seed=_SEED)
        traffic = collective_traffic(collective, size, placement, algorithm=algorithm)
        flow = simulate_flows(network, traffic, FlowOptions(goodput=goodput, paths=paths), _SEED)
        rows.append(
            {
                "fabric": fabric,
                "collective": collective,
                "algorithm": algorithm,
                "paths": paths,
                "ceiling_us": found.us_per_byte * size if found else 0.0,
                "flow_us": flow.finish_us,
            }
        )
    return pl.DataFrame(rows)
