"""Growth: designs the larger cluster and lays it over the one that stands, so that what stands keeps ids, ports and cables.

Boxes are matched by name, links by their two boxes, tier, rate, plane and rail (and NIC). Of parallel links as many stay as
the larger design still has between the two boxes; the ports of the others are free for links to new boxes. A cable that
changes its upper end keeps its id and is listed as moved, with the reason. Nothing moves where the first plan reserved room
(``growth.gpus``).
"""

from dataclasses import dataclass
from typing import Any

import polars as pl

from railwright import tables
from railwright.design.context import Context, resolve_server, start_context
from railwright.design.design import Progress, build_networks, finish_plan
from railwright.design.placement import Layout, stand_in_racks
from railwright.design.plan import Plan
from railwright.errors import InputError
from railwright.spec.cluster import ClusterSpec

LINK_KEY = ["network", "tier", "speed_gbps", "plane", "rail", "a_box", "b_box", "a_nic", "nth"]
"""What identifies a link: its kind, its two boxes and its number among the parallel ones."""
PORT_GROUP = ("device_id", "network", "direction", "speed_gbps", "nic")
"""Ports of one group stand in for one another when a cable has to be laid anew."""


def extend_plan(plan: Plan, gpus: int, progress: Progress | None = None) -> tuple[Plan, dict[str, Any]]:
    """Return ``plan`` grown to ``gpus`` GPUs in total, and what that takes.

    The second value has ``added`` (``devices`` by role, ``links`` by tier, ``names`` of the boxes), ``moved`` (one entry per
    cable with ``link_id, network, port, from, to, reason``), ``readdressed`` (one entry per standing port or box whose
    address changes: ``device, port, from, to``) and ``removed`` (``devices``: names, ``links``: how many). Raises InputError
    when ``gpus`` is less than the plan has or cannot be built.
    """
    say = progress or _silent
    context = start_context(grown_spec(plan, gpus), plan.catalog)
    layout = build_networks(context, say, standing=lambda started: _standing(started, plan))
    fresh = context.wiring.finish()
    fresh["devices"] = _known_names(stand_in_racks(context, layout, fresh["devices"]), plan)
    merged = _merge(plan, fresh, exactly=False)
    if merged.conflict:
        merged = _merge(plan, fresh, exactly=True)
    grown = finish_plan(context, layout, merged.tables, say)
    return grown, _changes(plan, grown, merged)


def grown_spec(plan: Plan, gpus: int) -> ClusterSpec:
    """Return the spec of ``plan`` with ``gpus`` GPUs; raises InputError when that is not growth in whole servers."""
    server = resolve_server(plan.spec, plan.catalog)
    now = len(plan.devices.filter(pl.col("role") == "server")) * server.gpus
    if gpus < now:
        raise InputError(f"{gpus} is less than the {now} GPUs of the plan; extend only grows", key="--gpus")
    if gpus % server.gpus:
        raise InputError(f"{gpus} GPUs do not fill whole servers of {server.gpus} ({server.key})", key="--gpus")
    growth = plan.spec.growth if plan.spec.growth is not None and plan.spec.growth.gpus >= gpus else None
    cluster = plan.spec.cluster.model_copy(
        update={"gpus": gpus} if plan.spec.cluster.servers is None else {"servers": gpus // server.gpus}
    )
    return plan.spec.model_copy(update={"cluster": cluster, "growth": growth})


@dataclass(frozen=True)
class _Merged:
    """The grown tables and what is not as it was: links ``moved`` (``link_id, old_b``) and ``gone``, names of boxes gone.

    ``conflict``: two cables want one port or lane.
    """

    tables: dict[str, pl.DataFrame]
    moved: pl.DataFrame
    gone: pl.DataFrame
    conflict: bool
    gone_boxes: list[str]


def _standing(context: Context, plan: Plan) -> Layout:
    """Return the racks of ``plan`` and, by id of the new design, the boxes that stand in them."""
    fresh = _known_names(context.wiring.finish()["devices"], plan).select("device_id", "name")
    places = fresh.join(plan.devices.select("name", "rack", "ru"), on="name", maintain_order="left")
    return Layout(plan.racks, places.select("device_id", "rack", "ru").filter(pl.col("rack").is_not_null()))


def _known_names(fresh: pl.DataFrame, plan: Plan) -> pl.DataFrame:
    """Return ``fresh`` with the spines of the first pod called as in a plan that had no pods yet."""
    without_pod = pl.col("name").str.replace("pod1-spine", "spine", literal=True)
    known = plan.devices["name"].implode()
    renamed = (pl.col("role") == "spine") & without_pod.is_in(known) & ~pl.col("name").is_in(known)
    return fresh.with_columns(name=pl.when(renamed).then(without_pod).otherwise("name"))


def _merge(plan: Plan, fresh: dict[str, pl.DataFrame], *, exactly: bool) -> _Merged:
    """Lay the fresh design over ``plan``; ``exactly`` keeps only links that have the same two ports in both.

    Ports of kept and new links can get in each other's way when the larger design splits the ports of a box otherwise; exact
    matching has no such conflict, because every port is then one of the fresh design.
    """
    devices = _merge_devices(plan.devices, fresh["devices"])
    final_id = devices.select("fresh_id", "device_id")
    fresh_ports = (
        fresh["ports"]
        .rename({"device_id": "fresh_id"})
        .join(final_id, on="fresh_id", maintain_order="left")
        .select(plan.ports.columns)
    )
    old = _with_ends(plan.links, plan.ports)
    key = [*LINK_KEY[:-1], "a_name", "b_name"] if exactly else LINK_KEY
    matched = _with_ends(fresh["links"], fresh_ports).join(
        old.select(*key, kept="link_id", kept_a="a_port", kept_b="b_port", kept_cable="cable_id"),
        on=key,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    dropped = old.join(matched.select(link_id="kept"), on="link_id", how="anti")
    laid = _choose_ports(plan.ports, fresh_ports, matched, only_fresh=exactly)
    rows = (
        matched.join(
            laid.select("fresh_port", laid_a="port"),
            left_on="a_port",
            right_on="fresh_port",
            how="left",
            maintain_order="left",
        )
        .join(
            laid.select("fresh_port", laid_b="port"),
            left_on="b_port",
            right_on="fresh_port",
            how="left",
            maintain_order="left",
        )
        .with_columns(a_port=pl.coalesce("kept_a", "laid_a"), b_port=pl.coalesce("kept_b", "laid_b"))
        .join(
            dropped.select("a_port", moved="link_id", old_b="b_port", moved_cable="cable_id"),
            on="a_port",
            how="left",
            maintain_order="left",
        )
        .with_columns(known=pl.coalesce("kept", "moved"), cable_id="kept_cable")
    )
    links = _number(rows, "link_id", _next_id(plan.links, "link_id")).sort("link_id")
    moved = links.filter(pl.col("kept").is_null() & pl.col("moved").is_not_null()).select("link_id", "old_b")
    ports = _merge_ports(plan.ports, fresh_ports, laid, links)
    return _Merged(
        tables={
            "devices": tables.conform("devices", devices.drop("fresh_id").sort("device_id")),
            "ports": ports,
            "links": tables.conform("links", links.select(plan.links.columns)),
        },
        moved=moved,
        gone=dropped.join(moved, on="link_id", how="anti"),
        conflict=bool(links.select(pl.any_horizontal(pl.col("a_port", "b_port").is_null()).any()).item())
        or _overlap(ports),
        gone_boxes=plan.devices.join(devices, on="device_id", how="anti")["name"].to_list(),
    )


def _merge_devices(old: pl.DataFrame, fresh: pl.DataFrame) -> pl.DataFrame:
    """Return the fresh boxes with their final ``device_id`` (and ``fresh_id``); known ones keep place and numbers."""
    kept = ["site", "rack", "ru", "asn", "loopback"]
    rows = fresh.rename({"device_id": "fresh_id"}).join(
        old.select("name", known="device_id", **{f"old_{column}": column for column in kept}),
        on="name",
        how="left",
        maintain_order="left",
    )
    numbered = _number(rows, "device_id", _next_id(old, "device_id"))
    return numbered.with_columns(
        pl.when(pl.col("known").is_not_null()).then(f"old_{column}").otherwise(column).alias(column) for column in kept
    ).select("fresh_id", *old.columns)


def _choose_ports(old: pl.DataFrame, fresh: pl.DataFrame, matched: pl.DataFrame, *, only_fresh: bool) -> pl.DataFrame:
    """Return the port of each end that is laid anew: ``fresh_port``, the final ``port`` and its ``port_name``.

    Free ports of a group (those of either design that no kept cable uses) are taken in the order of their cages.
    """
    used = pl.concat([matched["kept_a"], matched["kept_b"]]).drop_nulls()
    new = matched.filter(pl.col("kept").is_null())
    ends = pl.concat([new["a_port"], new["b_port"]])
    same = [*PORT_GROUP, "name"]
    known = old.select(*same, known="port_id")
    pool = fresh if only_fresh else pl.concat([old, fresh.join(known, on=same, how="anti", nulls_equal=True)])
    pool = pool.join(known, on=same, how="left", nulls_equal=True, maintain_order="left")
    free = _ranked(pool.filter(pl.col("known").is_null() | ~pl.col("known").is_in(used.implode())))
    chosen = _ranked(fresh.filter(pl.col("port_id").is_in(ends.implode()))).select(
        *PORT_GROUP, "nth", fresh_port="port_id"
    )
    found = chosen.join(
        free.select(*PORT_GROUP, "nth", "known", port_name="name"), on=[*PORT_GROUP, "nth"], nulls_equal=True
    )
    numbered = _number(found.sort("fresh_port"), "port", _next_id(old, "port_id"))
    return numbered.select("fresh_port", "port", "port_name", *PORT_GROUP)


def _merge_ports(old: pl.DataFrame, fresh: pl.DataFrame, laid: pl.DataFrame, links: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of all ports that ``links`` use: known ports as they were, the others as the fresh design has them."""
    in_use = pl.concat([links["a_port"], links["b_port"]]).drop_nulls()
    new = laid.filter(pl.col("port") >= _next_id(old, "port_id")).rename({"port_name": "name"})
    rows = (
        fresh.join(new.select(*PORT_GROUP, "name", "port"), on=[*PORT_GROUP, "name"], nulls_equal=True)
        .with_columns(port_id="port")
        .select(old.columns)
    )
    kept = old.filter(pl.col("port_id").is_in(in_use.implode()))
    return tables.conform("ports", pl.concat([kept, rows]).sort("port_id"))


def _overlap(ports: pl.DataFrame) -> bool:
    """Return whether two ports of a box have one name or share a lane of a cage."""
    if ports.select("device_id", "name").is_duplicated().any():
        return True
    lanes = ports.filter(pl.col("lanes").is_not_null()).sort("device_id", "cage", "lane_first")
    end = (pl.col("lane_first") + pl.col("lanes")).shift(1).over("device_id", "cage")
    return bool(lanes.select((end > pl.col("lane_first")).any()).item())


def _changes(plan: Plan, grown: Plan, merged: _Merged) -> dict[str, Any]:
    new_boxes = grown.devices.join(plan.devices, on="device_id", how="anti", maintain_order="left")
    new_links = grown.links.join(plan.links, on="link_id", how="anti")
    was, now = _port_labels(plan), _port_labels(grown)
    moved = (
        merged.moved.join(grown.links, on="link_id", maintain_order="left")
        .join(now.rename({"label": "port"}), left_on="a_port", right_on="port_id", maintain_order="left")
        .join(was.rename({"label": "from"}), left_on="old_b", right_on="port_id", maintain_order="left")
        .join(now.rename({"label": "to"}), left_on="b_port", right_on="port_id", maintain_order="left")
        .select("link_id", pl.col("network").cast(pl.String), pl.col("tier").cast(pl.String), "port", "from", "to")
    )
    kinds = moved.select("network", "tier").unique(maintain_order=True)
    reasons = kinds.with_columns(
        reason=pl.Series([_reason(plan, grown, network, tier) for network, tier in kinds.iter_rows()], dtype=pl.String)
    )
    return {
        "added": {
            "devices": _counts(new_boxes, "role"),
            "links": _counts(new_links, "tier"),
            "names": new_boxes["name"].to_list(),
        },
        "moved": moved.join(reasons, on=["network", "tier"], maintain_order="left").drop("tier").to_dicts(),
        "readdressed": _readdressed(plan, grown),
        "removed": {"devices": merged.gone_boxes, "links": len(merged.gone)},
    }


def _readdressed(plan: Plan, grown: Plan) -> list[dict[str, Any]]:
    """Return the ports and boxes of ``plan`` whose address is another one in ``grown``."""
    place = ["device_id", "port_id", "network", "kind", "vrf", "vlan"]
    old, new = (some.addresses.with_columns(nth=pl.int_range(pl.len()).over(place)) for some in (plan, grown))
    changed = old.join(new, on=[*place, "nth"], nulls_equal=True, suffix="_new", maintain_order="left").filter(
        pl.col("address") != pl.col("address_new")
    )
    return (
        changed.join(plan.devices.select("device_id", device="name"), on="device_id", maintain_order="left")
        .join(plan.ports.select("port_id", port="name"), on="port_id", how="left", maintain_order="left")
        .select("device", "port", pl.col("address").alias("from"), pl.col("address_new").alias("to"))
        .to_dicts()
    )


def _reason(plan: Plan, grown: Plan, network: str, tier: str) -> str:
    upper = {"host": "leaf", "leaf_spine": "spine", "spine_core": "core"}.get(tier, "")

    def count(some: Plan) -> int:
        return len(some.devices.filter((pl.col("network") == network) & (pl.col("role") == upper)))

    if upper and count(plan) != count(grown):
        return (
            f"the {network} has {count(grown)} {upper} switches instead of {count(plan)} and every bundle is spread over "
            "them; plan with growth: to keep room"
        )
    return f"the larger {network} connects this port to another box"


def _with_ends(links: pl.DataFrame, ports: pl.DataFrame) -> pl.DataFrame:
    """Return the links with what identifies them: LINK_KEY and the names of their ports."""
    for side in ("a", "b"):
        ends = ports.select(
            pl.col("port_id").alias(f"{side}_port"),
            pl.col("device_id").alias(f"{side}_box"),
            pl.col("nic").alias(f"{side}_nic"),
            pl.col("name").alias(f"{side}_name"),
        )
        links = links.join(ends, on=f"{side}_port", maintain_order="left")
    return links.drop("b_nic").with_columns(nth=pl.int_range(pl.len()).over(LINK_KEY[:-1]))


def _ranked(ports: pl.DataFrame) -> pl.DataFrame:
    return ports.sort("cage", "lane_first", "name", maintain_order=True).with_columns(
        nth=pl.int_range(pl.len()).over(PORT_GROUP)
    )


def _number(rows: pl.DataFrame, column: str, first: int) -> pl.DataFrame:
    """Return ``rows`` with ids in ``column``: those in ``known``, and for the others new ones from ``first``, in order."""
    nth_new = pl.col("known").is_null().cast(pl.UInt32).cum_sum() - 1
    return rows.with_columns(pl.coalesce("known", first + nth_new).cast(pl.UInt32).alias(column))


def _next_id(frame: pl.DataFrame, column: str) -> int:
    return int(frame[column].to_numpy().max(initial=0)) + 1 if len(frame) else 0


def _port_labels(plan: Plan) -> pl.DataFrame:
    return plan.ports.join(plan.devices.select("device_id", device="name"), on="device_id").select(
        "port_id", label=pl.format("{} {}", "device", "name")
    )


def _counts(frame: pl.DataFrame, column: str) -> dict[str, int]:
    return dict(frame.group_by(pl.col(column).cast(pl.String)).len().sort(column).iter_rows())


def _silent(_step: str) -> None:
    pass
