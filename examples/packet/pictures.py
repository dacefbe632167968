"""The classic pictures of lossless fabrics, drawn from runs of the packet engine.

    python examples/packet/pictures.py [NAME …] [-o DIR]

writes one SVG per picture (default: all, into the folder where you are). A picture shows one or several runs of
``railwright simulate --network NET --flows FLOWS --options OPTIONS`` on the files beside this script.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import polars as pl

from railwright.report.line_chart import Line, line_chart
from railwright.simulate.own_network import named_flows, simulate_own
from railwright.simulate.results import SimulationResult

HERE = Path(__file__).resolve().parent
PUBLISHED_INCAST_US = {8: 668.091}
"""Last completion of 8 x 1 MB at 100G without congestion control in the ns-3 RDMA lineage."""


def run(case: str, options: str, sample_us: float = 0.0) -> tuple[SimulationResult, pl.DataFrame]:
    """Return the result of a case with the options file of that name, and its flows with the names of their ends."""
    folder = HERE / case
    net, flows = folder / "net.yaml", folder / "flows.csv"
    result = simulate_own(net, flows, options_file=folder / f"{options}.yaml", sample_us=sample_us)
    return result, named_flows(result, net)


def rates_of(result: SimulationResult, start: str, end: str) -> tuple[list[float], list[float]]:
    """Return the moments (ms) and the rates (Gb/s) up to then of the link between two nodes."""
    series = result.engine.details["carried"].filter((pl.col("from") == start) & (pl.col("to") == end))
    rates = series.select(pl.col("bytes") * 8e-3 / (pl.col("time_us") - pl.col("since_us"))).to_series()
    return (series["time_us"] / 1e3).to_list(), rates.to_list()


def two_dcqcn_flows() -> str:
    """Two senders of 40G, the second 5 ms later: DCQCN brings both to half of the link."""
    result, _ = run("two-dcqcn-flows", "options", 500.0)
    lines = [Line(name, *rates_of(result, name, "switch")) for name in ("sender1", "sender2")]
    return line_chart(
        [*lines, Line("fair share", [5.0, lines[0].x[-1]], [20.0, 20.0], dashed=True)],
        title="Two DCQCN flows find their fair share of 40 Gb/s",
        x_label="time (ms)",
        y_label="rate (Gb/s)",
    )


def victim() -> str:
    """A flow to an idle host beside an incast of eight: what it gets under pause alone and with DCQCN."""
    lines = []
    for options, name in (("pfc-alone", "PFC alone"), ("dcqcn", "DCQCN and PFC")):
        result, _ = run("victim", options, 250.0)
        lines.append(Line(f"victim, {name}", *rates_of(result, "a5", "leaf-a")))
        lines.append(Line(f"one of the incast, {name}", *rates_of(result, "a1", "leaf-a"), dashed=True))
    return line_chart(
        lines, title="The victim of an incast that it has no part in", x_label="time (ms)", y_label="rate (Gb/s)"
    )


def parking_lot() -> str:
    """Four senders along a chain: pause alone halves the share at every switch, DCQCN does not."""
    lines = []
    for options, name in (("pfc-alone", "PFC alone"), ("dcqcn", "DCQCN")):
        result, _ = run("parking-lot", options, 250.0)
        for sender, switch in (("far1", "first"), ("middle", "second"), ("near", "third")):
            lines.append(Line(f"{sender}, {name}", *rates_of(result, sender, switch), dashed=options == "dcqcn"))
    return line_chart(
        lines, title="Parking lot: who is far gets less under PFC alone", x_label="time (ms)", y_label="rate (Gb/s)"
    )


def deadlock() -> str:
    """The ring of three switches: what has arrived, until every port of the cycle waits for the next one."""
    until_us = 500.0
    lines = []
    for options, name in (("pfc", "PFC alone"), ("credits", "InfiniBand credits"), ("dcqcn", "DCQCN and PFC")):
        result, _ = run("deadlock", options, 5.0)
        received = (
            result.engine.details["carried"]
            .filter(pl.col("from").str.starts_with("switch") & ~pl.col("to").str.starts_with("switch"))
            .group_by("time_us")
            .agg(pl.col("bytes").sum())
            .sort("time_us")
            .with_columns(total=pl.col("bytes").cum_sum() / 1e6)
            .filter(pl.col("time_us") <= until_us)
        )
        moments, total = received["time_us"].to_list(), received["total"].to_list()
        if result.engine.diagnosis is not None:
            name += ": stands still"
            moments, total = [*moments, until_us], [*total, total[-1]]
        lines.append(Line(name, [0.0, *moments], [0.0, *total], dashed=options == "credits"))
    return line_chart(
        lines,
        title="A cycle of buffers: what six flows have delivered",
        x_label="time (us)",
        y_label="delivered (MB, frames)",
    )


def incast() -> str:
    """Last completion over the number of senders of 1 MB each at 100G."""
    lines = []
    for options, name in (("pfc-alone", "PFC alone"), ("dcqcn", "DCQCN of the ns-3 lineage")):
        _, flows = run("incast", options)
        last = flows.group_by(senders=pl.col("flow_id") // 1000).agg(pl.col("fct_us").max()).sort("senders")
        lines.append(Line(name, last["senders"].to_list(), last["fct_us"].to_list(), marked=True))
    ideal = [count * 1e6 * 1036 / 1000 * 8e-3 / 100 for count in lines[0].x]
    lines.append(Line("N x size / rate", lines[0].x, ideal, dashed=True))
    published = list(PUBLISHED_INCAST_US)
    lines.append(Line("ns-3 lineage, published", published, list(PUBLISHED_INCAST_US.values()), marked=True))
    return line_chart(
        lines,
        title="Incast of 1 MB from each of N senders at 100G",
        x_label="senders",
        y_label="last completion (us)",
        log_x=True,
        log_y=True,
    )


PICTURES: dict[str, Callable[[], str]] = {
    "two-dcqcn-flows": two_dcqcn_flows,
    "victim": victim,
    "parking-lot": parking_lot,
    "deadlock": deadlock,
    "incast": incast,
}


def main() -> None:
    """Draw what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PICTURES))
    parser.add_argument("-o", "--output", type=Path, default=Path(), metavar="DIR")
    asked = parser.parse_args()
    unknown = [name for name in asked.names if name not in PICTURES]
    if unknown:
        parser.error(f"there is no picture {unknown[0]!r}; pictures are {', '.join(PICTURES)}")
    asked.output.mkdir(parents=True, exist_ok=True)
    for name in asked.names or PICTURES:
        file = asked.output / f"{name}.svg"
        file.write_text(PICTURES[name](), encoding="utf-8")
        print(file)


if __name__ == "__main__":
    main()
