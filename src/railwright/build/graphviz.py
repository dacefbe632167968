"""The networks of a plan for Graphviz: one undirected graph per network, parallel links as one edge with their number.

``dot -Tsvg`` draws some thousand edges; for more use ``sfdp -Tsvg -Goverlap=prism``. Text is quoted as the DOT language wants:
in double quotes, with backslash and quote escaped.
"""

from pathlib import Path

import polars as pl

from railwright.design.plan import Plan

_RANKS = ("server", "leaf", "spine", "core")
_COLOURS = {"leaf": "#BBF7D0", "spine": "#FDE68A", "core": "#FDBA74", "server": "#BFDBFE", "oob": "#E5E7EB"}


def write_dot(plan: Plan, directory: Path) -> list[Path]:
    """Write ``NETWORK.dot`` for every network that has links and return the files."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for network in plan.links["network"].unique(maintain_order=True).cast(pl.String).sort():
        written.append(directory / f"{network}.dot")
        written[-1].write_text(dot(plan, network), encoding="utf-8")
    return written


def dot(plan: Plan, network: str) -> str:
    """Return ``network`` of ``plan`` in the DOT language, switches of a tier on one rank."""
    links = plan.links.filter(pl.col("network") == network)
    of_port = plan.ports.select("port_id", "device_id")
    pairs = (
        links.join(of_port.rename({"port_id": "a_port", "device_id": "a"}), on="a_port", maintain_order="left")
        .join(of_port.rename({"port_id": "b_port", "device_id": "b"}), on="b_port", maintain_order="left")
        .group_by("a", "b", "tier", "speed_gbps", maintain_order=True)
        .agg(links=pl.len())
    )
    ids = pl.concat([pairs["a"], pairs["b"]]).unique().implode()
    nodes = plan.devices.filter(pl.col("device_id").is_in(ids)).with_columns(
        quoted=_quoted("name"), role_name=pl.col("role").cast(pl.String)
    )
    colour = pl.col("role_name").replace_strict(_COLOURS, default="#FFFFFF", return_dtype=pl.String)
    node_lines = nodes.select(
        pl.format(
            '  {} [fillcolor="{}", tooltip={}];',
            "quoted",
            colour,
            _quoted(pl.format("{} {}", "role_name", pl.col("model").fill_null(""))),
        )
    ).to_series()
    ranks = [
        f"  {{ rank=same; {'; '.join(nodes.filter(pl.col('role_name') == role)['quoted'])} }}"
        for role in _RANKS
        if not nodes.filter(pl.col("role_name") == role).is_empty()
    ]
    quoted = nodes.select("device_id", "quoted")
    edges = (
        pairs.join(quoted.rename({"device_id": "a", "quoted": "a_name"}), on="a", maintain_order="left")
        .join(quoted.rename({"device_id": "b", "quoted": "b_name"}), on="b", maintain_order="left")
        .select(
            pl.format(
                '  {} -- {} [label="{}"];',
                "b_name",
                "a_name",
                pl.when(pl.col("links") > 1)
                .then(pl.format("{} x {}G", "links", _rate()))
                .otherwise(pl.format("{}G", _rate())),
            )
        )
        .to_series()
    )
    head = [
        f'graph "{plan.spec.name} {network}" {{',
        '  graph [rankdir=TB, ranksep=1.2, nodesep=0.15, splines=line, fontname="Helvetica"];',
        '  node [shape=box, style=filled, fontname="Helvetica", fontsize=10];',
        '  edge [fontsize=7, fontname="Helvetica", color="#6B7280"];',
    ]
    return "\n".join([*head, *node_lines, *ranks, *edges, "}", ""])


def _rate() -> pl.Expr:
    whole = pl.col("speed_gbps").round(0)
    return (
        pl.when(whole == pl.col("speed_gbps"))
        .then(whole.cast(pl.Int64).cast(pl.String))
        .otherwise(pl.col("speed_gbps").cast(pl.String))
    )


def _quoted(text: str | pl.Expr) -> pl.Expr:
    value = pl.col(text) if isinstance(text, str) else text
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", " ")):
        value = value.str.replace_all(plain, escaped, literal=True)
    return pl.concat_str(pl.lit('"'), value, pl.lit('"'))
