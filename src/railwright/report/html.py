"""Writes the report: one HTML file that works without a network, charts and their library included."""

from pathlib import Path

import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from railwright.report.content import Content

_CONFIG = {"displaylogo": False, "responsive": True, "scrollZoom": True}


def render(content: Content) -> str:
    """Return the page. Everything but the charts is escaped; the charts are JSON written by Plotly."""
    environment = Environment(
        loader=PackageLoader("railwright.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    charts = {
        name: [_div(figure, f"{name}-{index}") for index, figure in enumerate(getattr(content, name))]
        for name in ("topology", "collective_figures", "traffic_figures")
    }
    return environment.get_template("report.html.j2").render(content=content, charts=charts, plotly_js=get_plotlyjs())


def write_html(content: Content, file: Path) -> Path:
    """Write the page to ``file`` through a temporary name."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.partial")
    partial.write_text(render(content), encoding="utf-8")
    partial.replace(file)
    return file


def _div(figure: go.Figure, name: str) -> str:
    return str(figure.to_html(full_html=False, include_plotlyjs=False, config=_CONFIG, div_id=name))
