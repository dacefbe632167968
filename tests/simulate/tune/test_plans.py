"""`tune` on a plan: what it finds is a spec, and `simulate` on that spec gives the same figures."""

from functools import cache
from pathlib import Path

import pytest

from railwright.catalog.load import load_catalog
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.design.qos_table import contracts_for, qos_table
from railwright.errors import InputError
from railwright.simulate.run import simulate_collective
from railwright.simulate.tune.parameters import Sections, parse_ranges
from railwright.simulate.tune.run import tune
from railwright.simulate.tune.scenario import own_scenario, plan_scenario
from railwright.simulate.tune.search import parse_objectives
from railwright.simulate.tune.store import RunStore
from railwright.spec.load import parse_spec

SPEC = "name: small\ncluster: {servers: 16, server: hgx-h100}\n"
BACKEND = "backend:\n  topology: rail-only\n  switch: sn5400\n"
RANKS = list(range(0, 128, 8))
SIZE = 2.0**22
BURST = ("checkpoint:40%",)


@cache
def plan_of(text: str) -> Plan:
    catalog = load_catalog()
    plan = design_plan(parse_spec(text).checked(catalog), catalog)
    return plan.with_tables(qos=qos_table(plan, contracts_for(plan)))


def scenario(text: str = SPEC + BACKEND, **options):
    return plan_scenario(plan_of(text), **{"collective": "all-to-all", "size_bytes": SIZE, "ranks": RANKS, **options})


def test_the_contract_is_what_simulate_runs():
    figures = scenario().run(Sections(), 0)
    result = simulate_collective(plan_of(SPEC + BACKEND), "all-to-all", SIZE, RANKS, "packet").as_dict()
    assert figures["time_us"] == pytest.approx(result["time_us"], rel=1e-12)
    assert figures["slowdown_p999"] == result["slowdown"]["p999"]
    assert figures["ecn_marks"] == result["ecn"]["marks"]


def test_the_lines_found_give_the_same_figures_in_simulate():
    small = scenario(background=BURST)
    ranges = parse_ranges(["alpha", "kmin=10KB:200KB", "kmax_ratio", "pmax", "g", "alpha_timer"], small.parameters)
    store = RunStore(None, small.setting)
    setting = {"alpha": 0.0625, "kmin": 20e3, "kmax_ratio": 2.5, "pmax": 0.37, "g": 1 / 64, "alpha_timer": 5.0}
    sections = small.sections(setting)
    result = tune(small, ranges, parse_objectives([]), budget=24, seed=0, store=store, jobs=1)
    assert result["runs"]["total"] <= 24
    for changed in (sections, *([small.sections(result["best"]["parameters"])] if result["snippet"] else [])):
        lines = small.snippet(changed)["backend"]
        text = SPEC + BACKEND + "".join(f"  {key}: {str(value).replace(chr(39), '')}\n" for key, value in lines.items())
        told = simulate_collective(plan_of(text), "all-to-all", SIZE, RANKS, "packet", background=BURST).as_dict()
        figures = small.run(changed, 0)
        assert figures["time_us"] == pytest.approx(told["time_us"], rel=1e-12)
        assert figures["ecn_marks"] == told["ecn"]["marks"]
        assert figures["paused_us"] == told["pfc"]["paused_us"]
    assert small.run(sections, 0)["ecn_marks"] != small.run(Sections(), 0)["ecn_marks"]


def test_the_bound_is_that_of_the_linter():
    # 16 ports of 400G, headroom of the platform's table, alpha 1: alpha (B - H) / (n (1 + alpha))
    table = plan_of(SPEC + BACKEND).table("qos")
    headroom = table.filter(table["lossless"] & table["headroom_bytes"].is_not_null())["headroom_bytes"].max()
    assert scenario().limit(None) == pytest.approx((158_229_504 - 16 * headroom) / (16 * 2))


def test_an_incast_on_a_rail_has_senders_of_that_rail_only():
    rows = scenario(collective=None, ranks=None, incast=15, size_bytes=1e6).rows
    assert rows["dst"].unique().to_list() == [0]
    assert rows["src"].to_list() == list(range(8, 128, 8))
    with pytest.raises(InputError, match="1 to 15 endpoints"):
        scenario(collective=None, ranks=None, incast=16)


def test_background_is_load_beside_and_not_judged():
    alone, beside = scenario(), scenario(background=("storage-reads:30%",))
    assert beside.rows.height > alone.rows.height
    own, both = alone.run(Sections(), 0), beside.run(Sections(), 0)
    assert both["goodput_gbps"] * both["time_us"] == pytest.approx(own["goodput_gbps"] * own["time_us"])
    assert both["time_us"] > own["time_us"]


def test_infiniband_has_nothing_to_tune():
    text = (
        SPEC.replace("hgx-h100", "dgx-h100") + "backend: {topology: rail-only, transport: infiniband, switch: qm9700}\n"
    )
    with pytest.raises(InputError, match="InfiniBand"):
        scenario(text)


def test_without_pfc_there_is_no_alpha_and_without_dcqcn_no_rate():
    lossy = scenario(SPEC + BACKEND + "  congestion: ecn-only\n")
    assert {"kmin", "g"} <= set(lossy.parameters)
    assert not {"alpha", "xoff"} & set(lossy.parameters)
    paused = scenario(SPEC + BACKEND + "  congestion: pfc-only\n")
    assert set(paused.parameters) == {"alpha", "xon_offset", "xoff"}


VICTIM_NET = """\
nodes:
  - {{name: a, kind: host}}
  - {{name: b, kind: host}}
  - {{name: victim, kind: host}}
  - {{name: hot, kind: host}}
  - {{name: cold, kind: host}}
  - {{name: left, kind: switch, buffer_bytes: {buffer}}}
  - {{name: right, kind: switch, buffer_bytes: {buffer}}}
links:
  - {{a: a, b: left, gbps: 100, delay_us: 0.1}}
  - {{a: b, b: left, gbps: 100, delay_us: 0.1}}
  - {{a: victim, b: left, gbps: 100, delay_us: 0.1}}
  - {{a: left, b: right, gbps: 400, delay_us: 0.1}}
  - {{a: right, b: hot, gbps: 100, delay_us: 0.1}}
  - {{a: right, b: cold, gbps: 100, delay_us: 0.1}}
"""
VICTIM_FLOWS = "flow_id,src,dst,bytes\n0,a,hot,4000000\n1,b,hot,4000000\n2,victim,cold,4000000\n"


@pytest.mark.parametrize(("buffer", "victims"), [(1_000_000, 1), (64_000_000, 0)])
def test_a_victim_is_slow_without_crossing_the_congested_link(tmp_path: Path, buffer: int, victims: int):
    # a and b share hot's link; the link between the switches is 400G and not congested, but paused when `right` is full
    (tmp_path / "NET.yaml").write_text(VICTIM_NET.format(buffer=buffer))
    (tmp_path / "FLOWS.csv").write_text(VICTIM_FLOWS)
    (tmp_path / "OPTIONS.yaml").write_text("congestion_control: none\nheadroom_bytes: 50000\n")
    own = own_scenario(*(tmp_path / name for name in ("NET.yaml", "FLOWS.csv")), options_file=tmp_path / "OPTIONS.yaml")
    assert own.free.tolist() == [False, False, True]
    figures = own.run(Sections(), 0)
    assert figures["victims"] == victims
    assert (figures["pause_frames"] > 0) == bool(victims)


def test_flows_inside_an_nvlink_domain_are_not_judged():
    # 16 GPUs of two servers, all-to-all: 16 x 15 pairs, of which 2 x 8 x 7 stay inside
    both = scenario(ranks=16)
    assert both.rows.height >= 16 * 15
    inside = (both.rows["src"] // 8 == both.rows["dst"] // 8).to_numpy()
    assert (both.fabric == ~inside).all()
    assert both.run(Sections(), 0)["flows"] == int((~inside).sum())
    with pytest.raises(InputError, match="crosses the fabric"):
        scenario(ranks=8)
