"""The report's charts, as Plotly figures that the web application shows too. Each takes a small frame and says its units."""

import plotly.graph_objects as go
import polars as pl

from railwright.report.topology_view import RAIL_COLOURS

_LAYOUT = {"template": "plotly_white", "margin": {"l": 60, "r": 20, "t": 50, "b": 50}, "height": 420}


def busbw_chart(rows: pl.DataFrame, line_rate_gbytes_s: float | None) -> go.Figure:
    """Return bus bandwidth over message size, one line per collective and engine.

    ``rows`` has ``collective, engine, size_bytes, busbw_GBps``; ``line_rate_gbytes_s`` (all NICs of a server, GB/s) is drawn
    as the limit.
    """
    figure = go.Figure()
    names = rows["collective"].unique(maintain_order=True).to_list()
    for (collective, engine), line in rows.sort("size_bytes").group_by(["collective", "engine"], maintain_order=True):
        figure.add_scatter(
            x=line["size_bytes"].to_list(),
            y=line["busbw_GBps"].to_list(),
            name=f"{collective} ({engine})",
            mode="lines+markers",
            line={"color": RAIL_COLOURS[names.index(collective) % len(RAIL_COLOURS)]},
            marker={"symbol": "circle", "size": 6} if engine == "analytic" else {"symbol": "diamond", "size": 12},
            hovertemplate="%{x:.3s}B<br>%{y:.1f} GB/s<extra>%{fullData.name}</extra>",
        )
    if line_rate_gbytes_s is not None:
        figure.add_hline(y=line_rate_gbytes_s, line_dash="dash", annotation_text="NIC rate of a server")
    figure.update_layout(
        title="Bus bandwidth over message size (GB/s, decimal)",
        xaxis={"type": "log", "title": "message size (bytes, as nccl-tests counts it)"},
        yaxis={"title": "busbw (GB/s)", "rangemode": "tozero"},
        **_LAYOUT,
    )
    return figure


def utilisation_chart(rows: pl.DataFrame) -> go.Figure:
    """Return mean and maximum utilisation per collective, tier and direction.

    ``rows`` has ``collective, tier, direction, mean_util, max_util`` (0 to 1).
    """
    figure = go.Figure()
    places = [f"{tier} {direction}" for tier, direction in rows.select("tier", "direction").iter_rows()]
    for column, name, colour in (("mean_util", "mean", RAIL_COLOURS[5]), ("max_util", "maximum", RAIL_COLOURS[0])):
        figure.add_bar(
            x=[rows["collective"].to_list(), places],
            y=(rows[column] * 100).to_list(),
            name=name,
            marker_color=colour,
            hovertemplate="%{x}<br>%{y:.1f} %<extra>%{fullData.name}</extra>",
        )
    figure.update_layout(
        title="Utilisation of links over the whole run (percent of line rate)",
        yaxis={"title": "utilisation (%)", "range": [0, 105]},
        barmode="group",
        **_LAYOUT,
    )
    return figure


def matrix_chart(matrix: list[list[float]], labels: list[str], unit: str) -> go.Figure:
    """Return the bytes from each endpoint (row) to each endpoint (column) as a heat map; ``unit`` names what a cell is."""
    figure = go.Figure(
        go.Heatmap(
            z=matrix,
            x=labels,
            y=labels,
            colorscale="Viridis",
            colorbar={"title": unit},
            hovertemplate=f"%{{y}} to %{{x}}<br>%{{z:.4s}} {unit}<extra></extra>",
        )
    )
    figure.update_layout(
        title="Who sends to whom",
        xaxis={"title": "receiver", "type": "category"},
        yaxis={"title": "sender", "type": "category", "autorange": "reversed"},
        **{**_LAYOUT, "height": 560},
    )
    return figure


def share_chart(shares: dict[str, float]) -> go.Figure:
    """Return the shares of traffic by kind of path (same rail, cross rail, NVLink …) as one stacked bar."""
    figure = go.Figure()
    for index, (name, share) in enumerate(shares.items()):
        figure.add_bar(
            y=["traffic"],
            x=[share * 100],
            name=f"{name} {share:.1%}",
            orientation="h",
            marker_color=RAIL_COLOURS[index % len(RAIL_COLOURS)],
            hovertemplate=f"{name}: {share:.2%}<extra></extra>",
        )
    figure.update_layout(
        title="Share of bytes by path",
        barmode="stack",
        xaxis={"title": "percent of bytes", "range": [0, 100]},
        **{**_LAYOUT, "height": 220},
    )
    return figure
