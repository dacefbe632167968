"""A network as a drawing that stays readable from 16 servers to 100,000 GPUs.

Boxes of one tier stand in one row, servers at the bottom. A tier with too many boxes or too many lines is drawn as groups
(servers by unit, leaves by rail, spines and cores by plane and pod) whose parallel links become one line that tells their
number; a second drawing shows one unit in full. Both are Plotly figures: the same in the report and in the web application.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import plotly.graph_objects as go
import polars as pl

from railwright.design.plan import Plan
from railwright.units import format_gbps

MOST_BOXES = 64
"""Boxes of a tier that are drawn one by one."""

MOST_LINES = 512
"""Pairs of boxes between two tiers that are drawn one by one."""

TIERS = {
    "server": 0,
    "storage": 0,
    "head": 0,
    "appliance": 0,
    "leaf": 1,
    "border": 1,
    "spine": 2,
    "core": 3,
    "firewall": 3,
}
TIER_NAMES = {0: "endpoints", 1: "leaves", 2: "spines", 3: "cores"}

PLURALS = {
    "leaf": "leaves",
    "spine": "spines",
    "core": "cores",
    "border": "border leaves",
    "server": "servers",
    "head": "head nodes",
    "service": "service nodes",
    "storage": "storage boxes",
    "appliance": "appliances",
    "firewall": "firewalls",
    "load_balancer": "load balancers",
    "external": "external routers",
    "oob": "out-of-band switches",
    "tor": "access switches",
}
LABEL_SHIFT = 20
"""Pixels from the middle of a box to its label."""

RAIL_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8B5A2B", "#7A68B3")
NEUTRAL = "#6B7280"


@dataclass(frozen=True)
class View:
    """What is drawn: ``boxes`` (``box, label, hover, tier, x, rail``), ``lines`` (``a, b, rail, links, gbps``), names of rows."""

    boxes: pl.DataFrame
    lines: pl.DataFrame
    tier_names: Mapping[int, str]
    title: str


def overview(plan: Plan, network: str = "backend") -> View:
    """Return the whole of ``network``, tiers with too many boxes or lines grouped."""
    return _view(_members(plan, network), _links(plan, network), f"{network.capitalize()}: the whole network")


def unit_detail(plan: Plan, network: str = "backend", unit: int = 0) -> View | None:
    """Return unit ``unit`` (servers on the same leaves) in full, or None when the overview already shows every box."""
    members = _members(plan, network)
    if not members.filter(pl.col("grouped")).height:
        return None
    links = _links(plan, network)
    units = members.filter(pl.col("unit").is_not_null())["unit"].unique(maintain_order=True)
    servers = members.filter(pl.col("unit") == units[unit])
    kept = [servers]
    below = servers
    for tier in (1, 2):
        up = links.join(below.select(a_device_id="device_id"), on="a_device_id", how="semi")
        below = members.filter(pl.col("tier") == tier).join(
            up.select(device_id="b_device_id").unique(), on="device_id", how="semi"
        )
        kept.append(below)
    shown = pl.concat(kept).with_columns(grouped=pl.len().over("tier") > 2 * MOST_BOXES)
    inside = links.join(shown.select(a_device_id="device_id"), on="a_device_id", how="semi").join(
        shown.select(b_device_id="device_id"), on="b_device_id", how="semi"
    )
    return _view(shown, inside, f"{network.capitalize()}: unit {units[unit]} in full")


def draw(view: View, height: int = 520) -> go.Figure:
    """Return ``view`` as a Plotly figure; a click on a rail in the legend hides it."""
    figure = go.Figure()
    place = view.boxes.select("box", "x", "tier")
    lines = view.lines.join(place.rename({"box": "a", "x": "ax", "tier": "ay"}), on="a").join(
        place.rename({"box": "b", "x": "bx", "tier": "by"}), on="b"
    )
    heaviest = float(lines.select(pl.col("links").max()).item() or 1)
    for (rail,), rows in lines.sort("rail", "a", "b", nulls_last=True).group_by(["rail"], maintain_order=True):
        name = "links" if rail is None else f"rail {rail}"
        colour = rail_colour(rail)
        x: list[float | None] = []
        y: list[float | None] = []
        for ax, ay, bx, by in rows.select("ax", "ay", "bx", "by").iter_rows():
            x += (ax, bx, None)
            y += (ay, by, None)
        thick = 0.6 + 2.4 * float(rows.select(pl.col("links").mean()).item() or 0) / heaviest
        figure.add_scatter(
            x=x, y=y, mode="lines", name=name, legendgroup=name, hoverinfo="skip", opacity=0.55,
            line={"color": colour, "width": thick},
        )  # fmt: skip
        middle = rows.with_columns(x=(pl.col("ax") + pl.col("bx")) / 2, y=(pl.col("ay") + pl.col("by")) / 2)
        figure.add_scatter(
            x=middle["x"].to_list(), y=middle["y"].to_list(), mode="markers", legendgroup=name, showlegend=False,
            marker={"size": 7, "color": colour, "opacity": 0}, hovertemplate="%{text}<extra></extra>",
            text=[
                f"{a} – {b}<br>{n} x {format_gbps(g / n)}" for a, b, n, g in rows.select("a", "b", "links", "gbps").iter_rows()
            ],
        )  # fmt: skip
    for (tier,), rows in view.boxes.sort("tier", "x").group_by(["tier"], maintain_order=True):
        crowded = rows.height > 24
        figure.add_scatter(
            x=rows["x"].to_list(), y=rows["tier"].to_list(), mode="markers", showlegend=False,
            customdata=rows["hover"].to_list(),
            hovertemplate="%{customdata}<extra></extra>",
            marker={
                "symbol": "square", "size": 12 if crowded else 20, "line": {"color": "#1F2937", "width": 1},
                "color": [rail_colour(rail) if rail is not None else "#D1D5DB" for rail in rows["rail"]],
            },
        )  # fmt: skip
        for x, label in rows.filter(pl.col("label") != "").select("x", "label").iter_rows():
            figure.add_annotation(
                x=x, y=tier, text=label, showarrow=False, yshift=-LABEL_SHIFT if tier == 0 else LABEL_SHIFT,
                font={"size": 9 if crowded else 11}, bgcolor="rgba(255,255,255,0.85)", borderpad=1,
            )  # fmt: skip
    tiers = sorted(view.boxes["tier"].unique().to_list())
    figure.update_layout(
        title=view.title, height=height, template="plotly_white", margin={"l": 70, "r": 20, "t": 50, "b": 30},
        legend={"orientation": "h", "y": -0.08}, dragmode="pan",
        xaxis={"visible": False, "range": [-0.04, 1.04]},
        yaxis={
            "tickvals": tiers, "ticktext": [view.tier_names[tier] for tier in tiers], "showgrid": False, "zeroline": False,
            "range": [min(tiers) - 0.45, max(tiers) + 0.4],
        },
    )  # fmt: skip
    return figure


def rail_colour(rail: int | None) -> str:
    """Return the colour of a rail (from 1), repeating after eight; grey for what has no rail."""
    return NEUTRAL if rail is None else RAIL_COLOURS[(rail - 1) % len(RAIL_COLOURS)]


def _links(plan: Plan, network: str) -> pl.DataFrame:
    return (
        plan.named_links()
        .filter((pl.col("network") == network) & (pl.col("tier") != "oob"))
        .select("a_device_id", "b_device_id", "rail", "speed_gbps")
    )


def _members(plan: Plan, network: str) -> pl.DataFrame:
    """Return the boxes of ``network``: ``device_id, name, role, tier, rail, unit, group, grouped``."""
    links = _links(plan, network)
    ids = pl.concat([links.select(device_id="a_device_id"), links.select(device_id="b_device_id")]).unique()
    boxes = (
        plan.devices.join(ids, on="device_id", how="semi")
        .with_columns(tier=pl.col("role").cast(pl.String).replace_strict(TIERS, default=0, return_dtype=pl.Int64))
        .select("device_id", "name", "role", "tier", "rail", "plane", "pod")
        .join(_units(links, plan), on="device_id", how="left", maintain_order="left")
        .sort("tier", "device_id")
    )
    tiers = [rows for _, rows in boxes.group_by("tier", maintain_order=True)]
    grouped = pl.concat([_with_groups(rows) for rows in tiers])
    tier_of = boxes.select("device_id", "tier")
    pairs = (
        links.unique(["a_device_id", "b_device_id"])
        .join(tier_of.rename({"device_id": "a_device_id", "tier": "a"}), on="a_device_id")
        .join(tier_of.rename({"device_id": "b_device_id", "tier": "b"}), on="b_device_id")
        .group_by("a", "b")
        .len()
        .filter(pl.col("len") > MOST_LINES)
    )
    crowded = pl.concat([pairs["a"], pairs["b"]]).unique()
    many = pl.len().over("tier") > MOST_BOXES
    return grouped.with_columns(grouped=many | pl.col("tier").is_in(crowded.implode()))


def _units(links: pl.DataFrame, plan: Plan) -> pl.DataFrame:
    """Return ``device_id, unit`` of the servers: those on the same leaves share a unit, numbered from 1."""
    servers = plan.devices.filter(pl.col("role") == "server").select(a_device_id="device_id")
    leaves = (
        links.join(servers, on="a_device_id", how="semi")
        .group_by("a_device_id")
        .agg(leaves=pl.col("b_device_id").unique().sort())
        .with_columns(first=pl.col("a_device_id").min().over("leaves"))
    )
    return leaves.select(device_id="a_device_id", unit=pl.col("first").rank("dense").cast(pl.Int64))


def _with_groups(tier: pl.DataFrame) -> pl.DataFrame:
    """Return one tier with the finest grouping that gives at most ``MOST_BOXES`` groups."""
    role = pl.col("role").cast(pl.String).replace(PLURALS)
    named = {
        "unit": pl.format("unit {}", "unit"),
        "rail": pl.format("rail {} {}", "rail", role),
        "pod": pl.format("pod {} {}", "pod", role),
        "plane": pl.format("plane {} {}", "plane", role),
    }
    choices = [("plane", "pod", "rail"), ("plane", "rail"), ("unit",), ("plane", "pod"), ("pod",), ("plane",)]
    for keys in choices:
        present = [key for key in keys if tier[key].null_count() < tier.height]
        if present and tier.select(present).n_unique() <= MOST_BOXES:
            parts = [pl.when(pl.col(key).is_not_null()).then(named[key]).otherwise(pl.lit("")) for key in present]
            label = pl.concat_str(parts, separator=" ").str.strip_chars()
            return tier.with_columns(group=pl.when(label == "").then(role).otherwise(label))
    return tier.with_columns(group=role)


def _view(members: pl.DataFrame, links: pl.DataFrame, title: str) -> View:
    named = members.with_columns(box=pl.when("grouped").then("group").otherwise("name"))
    boxes = (
        named.group_by("box", "tier", maintain_order=True)
        .agg(
            count=pl.len(),
            role=pl.col("role").first(),
            rail=pl.when(pl.col("rail").n_unique() == 1).then(pl.col("rail").first()).otherwise(None).first(),
            first=pl.col("name").first(),
            last=pl.col("name").last(),
        )
        .with_columns(
            x=(pl.int_range(pl.len()).over("tier") + 0.5) / pl.len().over("tier"),
            label=pl.when(pl.col("count") > 1).then(pl.format("{} ({})", "box", "count")).otherwise("box"),
            hover=pl.when(pl.col("count") > 1)
            .then(pl.format("{}<br>{} boxes: {} … {}", "box", "count", "first", "last"))
            .otherwise(pl.format("{} ({})", "box", pl.col("role").cast(pl.String).str.replace_all("_", " "))),
        )
    )
    crowded = boxes.with_columns(rank=pl.int_range(pl.len()).over("tier"), total=pl.len().over("tier"))
    boxes = crowded.with_columns(
        label=pl.when((pl.col("total") <= 12) | (pl.col("rank") % ((pl.col("total") + 11) // 12) == 0))
        .then("label")
        .otherwise(pl.lit(""))
    )
    names = named.select("device_id", "box")
    lines = (
        links.join(names.rename({"device_id": "a_device_id", "box": "a"}), on="a_device_id")
        .join(names.rename({"device_id": "b_device_id", "box": "b"}), on="b_device_id")
        .group_by("a", "b", "rail")
        .agg(links=pl.len(), gbps=pl.col("speed_gbps").sum())
        .sort("a", "b", "rail")
    )
    return View(boxes.select("box", "label", "hover", "tier", "x", "rail"), lines, _tier_names(members), title)


def _tier_names(members: pl.DataFrame) -> dict[int, str]:
    roles = members.select("tier", pl.col("role").cast(pl.String)).unique(maintain_order=True)
    names = {
        int(tier): ", ".join(sorted(PLURALS.get(role, f"{role.replace('_', ' ')}s") for role in rows["role"]))
        for (tier,), rows in roles.group_by(["tier"], maintain_order=True)
    }
    return {**names, 0: "endpoints"}
