"""The reference profile against published runs of the ns-3 RDMA lineage (`facts/reference_cases.csv`).

Single flows agree to the nanosecond; the rest within the tolerance that the randomness of marks or paths leaves.
"""

import itertools
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from railwright.simulate.packet.engine import PacketResult, simulate_packets
from railwright.simulate.packet.options import PacketOptions, reference

FACTS = Path(__file__).parent / "facts"
CASES = pl.read_csv(FACTS / "reference_cases.csv")
HEADROOM_PER_GBPS = 3 * 1000 / 8  # bytes per Gb/s: three times the delay of 1 us at line rate
SIZES = {"1KB": 1e3, "100KB": 1e5, "1MB": 1e6, "4MB": 4e6, "10MB": 1e7}


def options_of(case: dict[str, object]) -> PacketOptions:
    name = {"nocc": "none", "dcqcn_paper": "dcqcn"}.get(
        str(case["congestion_control"]), str(case["congestion_control"])
    )
    gbps = float(str(case["gbps"]))
    options = reference(
        gbps,
        congestion_control=name,
        buffer_mib=float(str(case["buffer_mib"])),
        headroom_bytes=HEADROOM_PER_GBPS * gbps,
    )
    if case["congestion_control"] == "dcqcn_paper":
        timers = {"alpha_timer_us": 50.0, "decrease_interval_us": 50.0, "increase_timer_us": 55.0}
        options = options.model_copy(update={"dcqcn": options.dcqcn.model_copy(update=timers)})
    return options


def run(case: dict[str, object], star, leaf_spine, sends) -> PacketResult:
    kind, shape, size = str(case["case"]).split("_")[:3]
    link = {"gbps": float(str(case["gbps"])), "delay_ns": 1000.0}
    amount = SIZES[size]
    if kind == "1":
        return simulate_packets(star(2, **link), sends((0, 1, amount)), options_of(case), 1)
    if kind == "2":
        return simulate_packets(star(9, **link), sends(*((h, 8, amount) for h in range(8))), options_of(case), 1)
    net = leaf_spine(8, 8, 8, **link)
    if shape.startswith("ring"):
        src, dst = np.arange(64), (np.arange(64) + 1) % 64
        spine = np.where(src // 8 == dst // 8, -1, 7)
    else:
        flows = pl.read_csv(FACTS / "permutation64.csv")
        src, dst = flows["src"].to_numpy(), flows["dst"].to_numpy()
        spine = flows["spine"].fill_null(-1).to_numpy()
    number = {(int(a), int(b)): i for i, (a, b) in enumerate(zip(net.link_src, net.link_dst, strict=True))}
    paths = []
    for s, d, via in zip(src.tolist(), dst.tolist(), spine.tolist(), strict=True):
        stops = [s, 64 + s // 8, *([72 + via, 64 + d // 8] if via >= 0 else []), d]
        paths.append([number[hop] for hop in itertools.pairwise(stops)])
    offsets = np.concatenate([[0], np.cumsum([len(path) for path in paths])])
    traffic = sends(*zip(src.tolist(), dst.tolist(), [amount] * 64, strict=True))
    return simulate_packets(net, traffic, options_of(case), 1, pinned=(offsets, np.concatenate(paths).astype(np.int32)))


@pytest.mark.parametrize("case", CASES.rows(named=True), ids=lambda c: f"{c['case']}-{c['congestion_control']}")
def test_reference_case(case, star, leaf_spine, sends) -> None:
    result = run(case, star, leaf_spine, sends)
    times = np.sort(result.flows["fct_us"].to_numpy())
    nearest_rank = times[int(np.ceil(0.5 * times.size)) - 1]
    assert result.diagnosis is None
    assert nearest_rank == pytest.approx(case["p50_us"], rel=case["p50_tolerance"], abs=1e-6)
    assert times[-1] == pytest.approx(case["max_us"], rel=case["max_tolerance"], abs=1e-6)
    assert result.counters["drops"] == case["drops"]
    assert result.counters["pause_frames"] == pytest.approx(case["pause_frames"], rel=0.20)
    assert result.counters["ecn_marks"] == pytest.approx(case["ecn_marks"], rel=0.15)
