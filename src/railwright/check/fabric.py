"""Rules on the shape of the backend: capacity, failures, symmetry, radix and lanes."""

from collections.abc import Iterator

import polars as pl

from railwright.check.engine import Hit, rule
from railwright.check.views import PLURALS, examples, pair_links, switch_capacity
from railwright.design.context import resolve_server
from railwright.design.plan import Plan
from railwright.findings import Severity
from railwright.units import counted, format_gbps, format_ratio

FIBRE_US_PER_KM = 4.9
"""Group delay of standard single-mode fibre, us per km one way (ITU-T G.652, index 1.468)."""


@rule("RW101")
def oversubscribed_backend(plan: Plan) -> Iterator[Hit]:
    """A tier with more capacity down than up; one hit per tier, with its worst switch."""
    capacity = switch_capacity(plan, "backend").filter(
        (pl.col("up_gbps") > 0) & (pl.col("down_gbps") > pl.col("up_gbps"))
    )
    for (role,), tier in capacity.with_columns(ratio=pl.col("down_gbps") / pl.col("up_gbps")).group_by(
        ["role"], maintain_order=True
    ):
        worst = tier.sort("ratio", "name", descending=[True, False]).row(0, named=True)
        yield Hit(
            f"backend {PLURALS[role]}",
            f"{len(tier)} {role} switches are oversubscribed, the worst ({worst['name']}) "
            f"{format_ratio(worst['ratio'])}: {format_gbps(worst['down_gbps'])} down, {format_gbps(worst['up_gbps'])} up",
        )


@rule("RW102")
def capacity_after_one_failure(plan: Plan) -> Iterator[Hit]:
    """The share of a leaf's uplinks that ends on one spine, one plane or one link."""
    pairs = pair_links(plan, "backend", "leaf", "spine")
    if len(pairs):
        per_leaf = pairs.group_by("a_device").agg(total=pl.col("gbps").sum(), worst=pl.col("gbps").max())
        worst = per_leaf.with_columns(lost=pl.col("worst") / pl.col("total")).sort(
            "lost", "a_device", descending=[True, False]
        )
        lost = float(worst["lost"][0])
        if lost > 0.25:
            down = switch_capacity(plan, "backend").filter(pl.col("name") == worst["a_device"][0])
            ratio = float(down["down_gbps"][0]) / (float(down["up_gbps"][0]) * (1 - lost)) if lost < 1 else float("inf")
            yield Hit(
                "backend spines",
                f"losing one spine takes {lost:.0%} of the uplinks of {worst['a_device'][0]}, "
                f"which then runs at {format_ratio(ratio)}",
            )
    planes = (
        plan.links.filter((pl.col("network") == "backend") & (pl.col("tier") == "host"))["plane"]
        .drop_nulls()
        .n_unique()
    )
    if 1 < planes < 4:
        yield Hit(
            "backend planes",
            f"losing one of {planes} planes takes {1 / planes:.0%} of every NIC's rate",
            severity=Severity.INFO,
        )


@rule("RW103")
def leaf_failure_hits_several_rails(plan: Plan) -> Iterator[Hit]:
    """Servers with more than one NIC on one backend leaf."""
    hosts = plan.named_links().filter((pl.col("network") == "backend") & (pl.col("tier") == "host"))
    shared = (
        hosts.group_by("a_device", "b_device").agg(nics=pl.col("a_nic").n_unique()).filter(pl.col("nics") > 1)
    ).sort("a_device")
    if len(shared):
        topology = str(plan.facts.get("backend", {}).get("topology", ""))
        yield Hit(
            "backend leaves",
            f"{shared['a_device'].n_unique()} servers have up to {_top(shared['nics'])} NICs on one leaf "
            f"({examples(shared['a_device'].unique(maintain_order=True))})",
            severity=Severity.WARNING if topology == "leaf-spine" else None,
        )


@rule("RW104")
def uneven_spine_bundles(plan: Plan) -> Iterator[Hit]:
    """Leaves, or spines toward cores, whose bundles to the next tier differ in size."""
    for lower, upper in (("leaf", "spine"), ("spine", "core")):
        per_switch = (
            pair_links(plan, "backend", lower, upper)
            .group_by("a_device")
            .agg(least=pl.col("links").min(), most=pl.col("links").max(), uppers=pl.len(), links=pl.col("links").sum())
            .filter(pl.col("least") != pl.col("most"))
            .sort("a_device")
        )
        if len(per_switch):
            first = per_switch.row(0, named=True)
            yield Hit(
                f"backend {PLURALS[lower]}",
                f"{len(per_switch)} {lower} switches have uneven bundles, for example {first['a_device']}: "
                f"{first['links']} uplinks over {first['uppers']} {PLURALS[upper]} give {first['least']} to {first['most']} each",
            )


@rule("RW105")
def radix_overrun(plan: Plan) -> Iterator[Hit]:
    """Switches that use a cage number beyond the platform's last one."""
    used = plan.ports.group_by("device_id").agg(last=pl.col("cage").max())
    switches = plan.devices.filter(pl.col("model").is_in(list(plan.catalog.switches))).join(used, on="device_id")
    cages = pl.DataFrame(
        {
            "model": list(plan.catalog.switches),
            "cages": [sum(group.count for group in s.cages) for s in plan.catalog.switches.values()],
        }
    )
    over = switches.join(cages, on="model").filter(pl.col("last") > pl.col("cages")).sort("device_id")
    for (model, network), rows in over.group_by(["model", "network"], maintain_order=True):
        first = rows.row(0, named=True)
        yield Hit(
            f"{network} {model}",
            f"{counted(len(rows), 'switch uses', 'switches use')} up to cage {_top(rows['last'])}, but {model} has "
            f"{first['cages']} ({examples(rows['name'])})",
        )


@rule("RW106")
def lane_overrun(plan: Plan) -> Iterator[Hit]:
    """Cages whose ports overlap or need more lanes than there are."""
    lanes = pl.DataFrame(
        {
            "model": list(plan.catalog.switches),
            "cage_lanes": [max(group.lanes for group in s.cages) for s in plan.catalog.switches.values()],
        }
    )
    cages = (
        plan.ports.filter(pl.col("lanes").is_not_null())
        .join(plan.devices.select("device_id", "model", device="name"), on="device_id")
        .join(lanes, on="model")
        .group_by("device", "cage", "cage_lanes")
        .agg(
            used=pl.col("lanes").cast(pl.Int64).sum(),
            last=(pl.col("lane_first") + pl.col("lanes")).max(),
            distinct=pl.col("lane_first").n_unique(),
            ports=pl.len(),
        )
        .filter(
            (pl.col("used") > pl.col("cage_lanes"))
            | (pl.col("last") > pl.col("cage_lanes"))
            | (pl.col("distinct") < pl.col("ports"))
        )
        .sort("device", "cage")
    )
    for row in cages.head(20).iter_rows(named=True):
        yield Hit(
            f"{row['device']} cage {row['cage']}",
            f"{row['ports']} ports need {row['used']} lanes; the cage has {row['cage_lanes']}",
        )


@rule("RW107")
def converged_backend(plan: Plan) -> Iterator[Hit]:
    """The backend named in ``converge``."""
    if "backend" in plan.spec.converge:
        others = " and ".join(name for name in plan.spec.converge if name != "backend")
        yield Hit("backend", f"GPU collectives share switches and links with {others} traffic")


@rule("RW108")
def rails_without_crossing(plan: Plan) -> Iterator[Hit]:
    """Rail-only while traffic between rails has no scale-up network to use, or wants the network."""
    if plan.facts.get("backend", {}).get("topology") != "rail-only":
        return
    server = resolve_server(plan.spec, plan.catalog)
    if server.scale_up_gpus == 1 and server.gpus > 1:
        yield Hit("backend", f"the GPUs of {server.key} have no scale-up network to carry cross-rail traffic")
    elif plan.spec.workload is not None and plan.spec.workload.cross_rail == "network":
        yield Hit("workload.cross_rail", f"workload {plan.spec.workload.name} sends between rails through the network")


@rule("RW109")
def stretched_backend(plan: Plan) -> Iterator[Hit]:
    """Backend links between sites."""
    sites = plan.devices.filter((pl.col("network") == "backend") | (pl.col("role") == "server")).select(
        "device_id", "site"
    )
    ends = plan.ports.filter(pl.col("network") == "backend").join(sites, on="device_id").select("port_id", "site")
    spanning = (
        plan.links.filter(pl.col("network") == "backend")
        .join(ends.rename({"site": "a_site"}), left_on="a_port", right_on="port_id")
        .join(ends.rename({"site": "b_site"}), left_on="b_port", right_on="port_id")
        .filter(pl.col("a_site") != pl.col("b_site"))
    )
    if not len(spanning):
        return
    distance_km = max(site.distance for site in plan.spec.sites) / 1000
    added = 2 * distance_km * FIBRE_US_PER_KM
    target = plan.spec.backend.latency_target_ns / 1000
    yield Hit(
        "backend",
        f"{counted(len(spanning), 'link joins', 'links join')} sites up to {distance_km:g} km apart: {added:g} us of fibre per "
        "round trip against a "
        f"port-to-port target of {target:g} us",
    )


@rule("RW110")
def slow_switches(plan: Plan) -> Iterator[Hit]:
    """Backend platforms at or above the latency target, or without a figure."""
    target = plan.spec.backend.latency_target_ns
    for key in plan.devices.filter(pl.col("network") == "backend")["model"].unique().sort():
        switch = plan.catalog.switches.get(key)
        if switch is None:
            continue
        if switch.latency_ns is None:
            yield Hit(
                key,
                f"the latency of {switch.name} is not in the catalog; the target is {target} ns",
                severity=Severity.INFO,
            )
        elif switch.latency_ns >= target:
            yield Hit(
                key, f"{switch.name} needs {switch.latency_ns:g} ns from port to port; the target is below {target} ns"
            )


@rule("RW112")
def few_spines(plan: Plan) -> Iterator[Hit]:
    """A backend spine layer of one to three switches."""
    spines = plan.devices.filter((pl.col("network") == "backend") & (pl.col("role") == "spine"))
    per_group = spines.group_by("plane", "pod").len()
    fewest = -_top(-per_group["len"].cast(pl.Int64)) if len(per_group) else 4
    if fewest < 4:
        yield Hit("backend spines", f"{fewest} spines connect the leaves of a plane or pod")


@rule("RW113")
def lone_subnet_manager(plan: Plan) -> Iterator[Hit]:
    """InfiniBand with fewer than two subnet managers."""
    backend = plan.spec.backend
    planned = backend.subnet_managers
    if backend.transport == "infiniband" and planned is not None and planned < 2:
        yield Hit("backend.subnet_managers", f"{planned} subnet manager is planned")


def _top(counts: pl.Series) -> int:
    return int(counts.to_numpy().max())
