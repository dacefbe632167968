"""Gathers what the report shows: figures, tables and sentences, from a plan, its findings and its simulations.

The simulations are runs of `simulate.run`; this module adds none of its own numbers, it only lays them out.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go
import polars as pl

from railwright.check.money import entries_in_use
from railwright.design.context import resolve_server
from railwright.design.plan import Plan
from railwright.design.summary import summarise
from railwright.findings import Finding, count_by_severity
from railwright.report.comparison import Comparison, compare_networks
from railwright.report.figures import busbw_chart, matrix_chart, share_chart, utilisation_chart
from railwright.report.topology_view import draw, overview, unit_detail
from railwright.simulate.goodput import goodput_share
from railwright.simulate.latency import ADAPTERS_US, latency_budget
from railwright.simulate.plan_network import ASSUMED_LENGTH_M, NS_PER_M, SCALE_UP_HOP_NS, UNKNOWN_SWITCH_NS
from railwright.simulate.survey import Survey
from railwright.units import counted, format_bytes, format_gbps, format_ratio, format_us, format_usd, format_w

_NUMBER = re.compile(r"\d+(\.\d+)?")
DRAWN_NETWORKS = ("backend", "frontend", "storage")


@dataclass(frozen=True)
class Content:
    """Everything on the page; figures are Plotly figures, rows are text."""

    title: str
    subtitle: str
    cards: tuple[tuple[str, str], ...]
    topology: tuple[go.Figure, ...]
    counts_columns: tuple[str, ...]
    counts: tuple[tuple[str, ...], ...]
    findings: tuple[Finding, ...]
    finding_counts: Mapping[str, int]
    collective_columns: tuple[str, ...]
    collectives: tuple[tuple[str, ...], ...]
    collective_figures: tuple[go.Figure, ...]
    latency_columns: tuple[str, ...]
    latency: tuple[tuple[str, ...], ...]
    traffic_figures: tuple[go.Figure, ...]
    comparisons: tuple[Comparison, ...]
    reasons: tuple[Mapping[str, str], ...]
    assumptions: tuple[str, ...]
    unverified: tuple[tuple[str, ...], ...]
    engines: str
    version: str
    seed: int


def collect(plan: Plan, findings: Sequence[Finding], survey: Survey) -> Content:
    """Return the report's content."""
    figures = summarise(plan)
    spec = plan.spec
    return Content(
        title=spec.name,
        subtitle=_subtitle(plan, figures),
        cards=_cards(figures, findings),
        topology=tuple(_drawings(plan)),
        counts_columns=("Network", "Topology", "Endpoints", "Leaf", "Spine", "Core", "Others", "Links", "Cables", "Worst ratio"),
        counts=tuple(_counts(figures)),
        findings=tuple(findings),
        finding_counts=count_by_severity(list(findings)),
        collective_columns=("Collective", "Algorithm", "Engine", "Size", "Time", "algbw GB/s", "busbw GB/s", "Bottleneck"),
        collectives=tuple(_collective_rows(survey.runs)),
        collective_figures=(
            busbw_chart(survey.runs, survey.nic_gbytes_s_per_server),
            *((utilisation_chart(survey.utilisation),) if survey.utilisation.height else ()),
        ),
        latency_columns=(
            "Path", "Switches", "Adapters", "Switching", "Serialisation", "Propagation", "Queueing", "Sum",
            "NCCL step, LL", "NCCL step, Simple",
        ),
        latency=tuple(_latency_rows(latency_budget(plan))),
        traffic_figures=(
            share_chart(survey.shares),
            matrix_chart(survey.matrix, survey.matrix_labels, survey.matrix_unit),
        ),
        comparisons=compare_networks(plan),
        reasons=tuple(_decision(reason) for reason in plan.reasons),
        assumptions=tuple(_assumptions(plan, survey)),
        unverified=tuple(_unverified(plan)),
        engines=f"engines: {', '.join(survey.engines)}",
        version=plan.version,
        seed=spec.seed,
    )  # fmt: skip


def _subtitle(plan: Plan, figures: Mapping[str, Any]) -> str:
    server = resolve_server(plan.spec, plan.catalog)
    backend = figures["networks"]["backend"]
    transport = "InfiniBand" if plan.spec.backend.transport == "infiniband" else "RoCEv2"
    return (
        f"{figures['cluster']['gpus']:,} GPUs in {figures['cluster']['servers']:,} x {server.name}; "
        f"backend {backend['topology']} over {transport}"
    )


def _cards(figures: Mapping[str, Any], findings: Sequence[Finding]) -> tuple[tuple[str, str], ...]:
    totals, networks = figures["totals"], figures["networks"]
    counts = count_by_severity(list(findings))
    switches = sum(sum(network["switches"].values()) for network in networks.values())
    price = totals["price_usd"]
    known = totals.get("known_price_usd") or 0.0
    unknown_power = totals.get("power_unknown", 0)
    return (
        ("GPUs", f"{figures['cluster']['gpus']:,}"),
        ("server" if figures["cluster"]["servers"] == 1 else "servers", f"{figures['cluster']['servers']:,}"),
        ("switches", f"{switches:,}"),
        ("links", f"{sum(network['links'] for network in networks.values()):,}"),
        ("racks", f"{totals['rack_count']:,}"),
        (
            f"power ({counted(unknown_power, 'box', 'boxes')} unknown)" if unknown_power else "power",
            format_w(totals["power_w"]),
        ),
        (
            "price"
            if price is not None
            else f"known price ({counted(totals['unpriced'], 'piece', 'pieces')} unpriced)",
            format_usd(price if price is not None else known) if price is not None or known else "unknown",
        ),
        (
            f"energy of a year at full draw: {totals['kwh_per_year']:,.0f} kWh, {format_w(totals['hall_power_w'])} with cooling",
            format_usd(totals["energy_usd_per_year"]),
        ),
        ("errors / warnings", f"{counts['error']} / {counts['warning']}"),
    )


def _drawings(plan: Plan) -> list[go.Figure]:
    present = plan.links["network"].unique().cast(pl.String).to_list()
    drawings = []
    for network in DRAWN_NETWORKS:
        if network not in present:
            continue
        drawings.append(draw(overview(plan, network)))
        detail = unit_detail(plan, network) if network == "backend" else None
        if detail is not None:
            drawings.append(draw(detail))
    return drawings


def _counts(figures: Mapping[str, Any]) -> list[tuple[str, ...]]:
    rows = []
    for name, network in figures["networks"].items():
        switches = dict(network["switches"])
        main = [switches.pop(role, 0) for role in ("leaf", "spine", "core")]
        other = ", ".join(f"{count} {role}" for role, count in switches.items() if count) or "–"
        rows.append(
            (
                name,
                str(network["topology"]),
                f"{network['endpoints']:,}",
                *(f"{count:,}" for count in main),
                other,
                f"{network['links']:,}",
                f"{network['cables']:,}",
                format_ratio(network["oversubscription"]),
            )
        )
    return rows


def _collective_rows(runs: pl.DataFrame) -> list[tuple[str, ...]]:
    """Return one row per collective and engine, all of the largest size that every engine ran."""
    shared = runs.filter(engine="flow")["size_bytes"].max() or runs["size_bytes"].max()
    largest = runs.filter(pl.col("size_bytes") == shared)
    return [
        (
            row["collective"],
            row["algorithm"],
            row["engine"],
            format_bytes(row["size_bytes"]),
            format_us(row["time_us"]),
            f"{row['algbw_GBps']:.1f}",
            f"{row['busbw_GBps']:.1f}",
            row["bottleneck"],
        )
        for row in largest.iter_rows(named=True)
    ]


def _latency_rows(budget: pl.DataFrame) -> list[tuple[str, ...]]:
    return [
        tuple("–" if value is None else value if isinstance(value, str) else f"{value:.3g}" for value in row)
        for row in budget.iter_rows()
    ]


def _decision(reason: Mapping[str, str]) -> dict[str, str]:
    """Return a decision as people read it: rates and ratios with their units."""
    name, _, part = reason["what"].partition(".")
    value = reason["value"]
    number = float(value) if _NUMBER.fullmatch(value) else None
    if number is not None and name.endswith("_gbps"):
        name, value = name.removesuffix("_gbps"), format_gbps(number)
    elif number is not None and name.endswith("oversubscription"):
        value = format_ratio(number)
    what = name.replace("_", " ").replace("-", " ")
    return {**reason, "what": f"{what} ({part})" if part else what, "value": value}


def _assumptions(plan: Plan, survey: Survey) -> list[str]:
    lines = [
        f"Payload is {goodput_share(plan.spec.backend.transport):.1%} of the line rate: packet headers at a 4096-byte MTU.",
        f"Adapters and host buses take {ADAPTERS_US:g} us per message (unverified); an NVSwitch takes {SCALE_UP_HOP_NS:g} ns "
        "(unverified).",
        f"Light takes {NS_PER_M:g} ns per metre.",
        f"A switch of unknown latency is taken at {UNKNOWN_SWITCH_NS:g} ns.",
        *survey.notes,
    ]
    if plan.table("cables").is_empty():
        lengths = ", ".join(f"{tier.replace('_', ' to ')} {metres:g} m" for tier, metres in ASSUMED_LENGTH_M.items())
        lines.append(f"The plan has no cables yet; lengths are taken as {lengths}.")
    return lines


def _unverified(plan: Plan) -> list[tuple[str, ...]]:
    return [
        (entry.key, field.replace("_", " "), _short(getattr(entry, field)), entry.source_of(field))
        for entry in entries_in_use(plan)
        for field in entry.unverified
    ]


def _short(value: object) -> str:
    """Return a catalog value for a table cell: a plain one as it is, a nested one by its size."""
    if isinstance(value, str | int | float) or value is None:
        return "–" if value is None else str(value)
    if isinstance(value, tuple | list) and all(isinstance(item, str | int | float) for item in value):
        return ", ".join(str(item) for item in value)
    return "see catalog show"
