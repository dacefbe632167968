"""Every rule of the physical layer once kept and once broken, and combinations of parts that must not pass."""

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from railwright.catalog.load import load_catalog
from railwright.check.engine import check_plan, rule_functions
from railwright.design.cabling import cable_plan
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.findings import Finding
from railwright.spec.cluster import ClusterSpec
from railwright.units import format_w

Changes = dict[str, Any]

CATALOG = load_catalog()
with (Path(__file__).parent / "facts" / "bad_combinations.csv").open(newline="", encoding="utf-8") as stream:
    BAD = list(csv.DictReader(stream))

CLEAN: Changes = {
    "name": "clean",
    "cluster": {"servers": 64, "server": "hgx-h100"},
    "backend": {"topology": "rail-optimized", "switch": "generic-64x800"},
    "cabling": {"equal_twin_lengths": True, "forbid": ["dac"]},
    "sites": [{"name": "hall", "racks": {"pdu_power": "44 kW"}}],
    **{network: {"enabled": False} for network in ("frontend", "storage", "management")},
}
SR4 = {
    "network": "backend",
    "tier": "host",
    "a": "generic-400g-sr4-osfp-rhs-single",
    "b": "generic-800g-2xsr4-osfp-ihs",
}
DR4 = {
    "network": "backend",
    "tier": "host",
    "a": "generic-400g-dr4-osfp-rhs-single",
    "b": "generic-800g-2xdr4-osfp-ihs",
}
OS2, OM4 = {"cable": "generic-os2-mpo12"}, {"cable": "generic-om4-mpo12"}
WIDE = [{"name": "hall", "racks": {"pitch": "8 m", "pdu_power": "44 kW"}}]


def merged(changes: Changes) -> Changes:
    """CLEAN with ``changes`` laid over it, section by section."""
    spec = dict(CLEAN)
    for key, value in changes.items():
        spec[key] = {**spec.get(key, {}), **value} if isinstance(value, dict) else value
    return spec


def plan_of(changes: Changes) -> Plan:
    return cable_plan(design_plan(ClusterSpec.model_validate(merged(changes)), CATALOG))


@cache
def clean_plan() -> Plan:
    return plan_of({})


def found(plan: Plan, code: str) -> list[Finding]:
    return [finding for finding in check_plan(plan) if finding.code == code]


def parts(*listed: Changes, **cabling: Any) -> Changes:
    return {"cabling": {"parts": list(listed), **cabling}}


@dataclass(frozen=True)
class Broken:
    """What breaks a rule: changes to the spec, and then to the tables."""

    spec: Changes | None = None
    tables: Callable[[Plan], Plan] | None = None


def second_module(plan: Plan) -> Plan:
    modules = plan.table("modules")
    return plan.with_tables(
        modules=pl.concat([modules, modules.head(1).with_columns(module_id=pl.lit(10**6, pl.UInt32))])
    )


def same_lanes(plan: Plan) -> Plan:
    return plan.with_tables(cable_ends=plan.table("cable_ends").with_columns(host_lanes=pl.lit(0x0F, pl.UInt16)))


def weak_supplies(plan: Plan) -> Plan:
    switch = plan.catalog.switches["generic-64x800"].model_copy(
        update={"psus": 2, "psu_w": 1000.0, "power_max_w": 1800.0}
    )
    entries = {**plan.catalog.entries, "switches": plan.catalog.switches.over({switch.key: switch})}
    return replace(plan, catalog=replace(plan.catalog, entries=entries))


def racks(**keys: Any) -> Changes:
    return {"sites": [{"name": "hall", "racks": keys}]}


def leaf_spine(switch: str, a: str, b: str, cable: str) -> Changes:
    return {
        "backend": {"switch": switch},
        **parts({"network": "backend", "tier": "leaf_spine", "a": a, "b": b, "cable": cable}),
    }


STANDARD_PLANT = parts(DR4 | OS2, connectors="standard", patch_panels=2)
BROKEN: dict[str, Broken] = {
    "RW703": Broken({"cabling": {"forbid": ["dac", "acc", "aec", "aoc", "mmf", "smf"]}}),
    "RW704": Broken(tables=second_module),
    "RW705": Broken(tables=same_lanes),
    "RW706": Broken({"cluster": {"server": "dgx-b200"}, **racks(weight="90 kg")}),
    "RW711": Broken(leaf_spine("sn5400", *["generic-400g-fr8-qsfp-dd"] * 2, "generic-os2-lc")),
    "RW712": Broken(racks(pdu_power="15 kW")),
    "RW713": Broken(racks(cooling="10 kW")),
    "RW714": Broken({"backend": {"switch": "sn5600"}}),
    "RW715": Broken(tables=weak_supplies),
    "RW716": Broken(racks(feeds=1)),
    "RW717": Broken(racks(pdu_power=None)),
    "RW721": Broken(STANDARD_PLANT),
    "RW722": Broken(STANDARD_PLANT),
    "RW723": Broken(parts(DR4 | OS2, patch_panels=2, splices=12)),
    "RW724": Broken({"sites": WIDE, **parts(SR4 | {"cable": "generic-om3-mpo12"}, multimode="om3")}),
    "RW725": Broken(
        leaf_spine("generic-64x400", "generic-400g-fr4-qsfp-dd", "generic-400g-lr4-qsfp-dd", "generic-os2-lc")
    ),
    "RW726": Broken({"sites": WIDE, **parts(SR4 | OM4)}),
    "RW731": Broken(parts(SR4 | OM4 | {"b": "generic-800g-2xsr4-osfp-rhs"})),
    "RW732": Broken({"backend": {"switch": "generic-64x400"}, **parts({"tier": "host", "cable": "generic-400g-dac"})}),
    "RW733": Broken(parts(DR4 | OS2 | {"b": "generic-800g-2xfr4-osfp-ihs"})),
    "RW734": Broken(parts(DR4 | OS2 | {"a": "generic-800g-dr4-osfp224-rhs"})),
    "RW735": Broken(
        {
            "backend": {"switch": "qm9700", "transport": "infiniband"},
            **parts(SR4 | OM4 | {"a": "mma4z00-ns400-t", "b": "mma4z00-ns-t"}),
        }
    ),
    "RW736": Broken(parts({"tier": "host", "fec_a": "rs544", "fec_b": "none"})),
    "RW737": Broken(parts(DR4 | OS2 | {"b": "generic-400g-dr4-osfp-ihs"})),
    "RW738": Broken(parts(DR4 | OS2 | {"b": "generic-800g-2xdr4-lpo-osfp-ihs"})),
    "RW739": Broken(leaf_spine("7060x6-64pe", "mms4x00-ns", "mms4x00-ns", "mfp7e30")),
    "RW741": Broken(parts(DR4 | OS2, patch_panels=2, trunk_polarity="type-a")),
    "RW742": Broken(parts(SR4 | {"cable": "generic-om4-mpo12-upc"})),
    "RW743": Broken(parts(SR4 | {"cable": "generic-om4-mpo16"})),
    "RW744": Broken(parts(DR4 | {"cable": "generic-os2-trunk"})),
    "RW745": Broken(parts(SR4 | OS2)),
    "RW746": Broken({"cabling": {"equal_twin_lengths": False}}),
    "RW747": Broken(parts(SR4 | {"cable": "mfp7e20"})),
    "RW748": Broken({"sites": WIDE, "cluster": {"nic_gbps": 200}, **parts(SR4 | {"cable": "mfp7e20"})}),
    "RW749": Broken(
        parts(
            {
                "tier": "host",
                "a": "generic-400g-fr4-osfp-rhs-single",
                "b": "generic-800g-2xfr4-osfp-ihs",
                "cable": "mfp7e40",
            }
        )
    ),
    "RW751": Broken(parts({"tier": "host", "fec_a": "none", "fec_b": "none"})),
    "RW752": Broken(parts(DR4 | OS2 | {"autoneg": True})),
    "RW753": Broken({"cabling": {"forbid": []}, "cluster": {"servers": 4}, **racks(switches="top-of-rack")}),
    "RW754": Broken({"cluster": {"server": "dgx-b200"}}),
}


@pytest.mark.parametrize("code", sorted(BROKEN))
def test_a_physical_rule_is_silent_on_a_clean_plan_and_speaks_on_a_broken_one(code: str) -> None:
    assert found(clean_plan(), code) == []
    broken = BROKEN[code]
    plan = plan_of(broken.spec) if broken.spec is not None else clean_plan()
    findings = found(broken.tables(plan) if broken.tables is not None else plan, code)
    assert findings
    assert all(finding.message and finding.fix for finding in findings)


def test_a_load_just_above_its_limit_is_told_apart_from_it() -> None:
    rack = clean_plan().racks["rack_id"].min()
    drawn = clean_plan().devices.filter(pl.col("rack") == rack)["power_w"].sum()
    tight = clean_plan().with_tables(racks=clean_plan().racks.with_columns(power_limit_w=pl.lit(drawn - 0.25)))
    (finding,) = found(tight, "RW701")
    draws, _, limit = finding.message.partition(" draws ")[2].partition(":")[0].partition(" of ")
    assert draws != limit
    assert (draws, limit) == (f"{drawn:,.3f} W", f"{drawn - 0.25:,.3f} W")


@pytest.mark.parametrize(("pdus", "feeds", "left"), [(2, 2, 1), (3, 3, 2), (4, 2, 2), (6, 3, 4), (2, 1, 2)])
def test_the_load_that_a_pdu_of_unknown_size_has_to_carry_is_said(pdus: int, feeds: int, left: int) -> None:
    plan = plan_of({**racks(feeds=feeds, pdu_power=None), "management": {"pdus_per_rack": pdus}})
    worst = plan.devices.group_by("rack").agg(pl.col("power_w").sum())["power_w"].max()
    (finding,) = found(plan, "RW717")
    assert f"has to carry {format_w(worst / left)}" in finding.message


def test_every_physical_rule_has_its_test() -> None:
    assert set(BROKEN) == {code for code in rule_functions() if code.startswith("RW7")} - {"RW701", "RW702"}


@pytest.mark.parametrize("row", BAD, ids=lambda row: row["combination"])
def test_a_bad_combination_has_a_named_error_both_ends_and_a_mend(row: dict[str, str]) -> None:
    named = {key: row[key] for key in ("a", "b", "cable") if row[key]} | json.loads(row["other"] or "{}")
    plan = plan_of(
        {
            "cluster": {"server": row["server"], "servers": 16},
            "backend": {"switch": row["switch"], "transport": row["transport"]},
            **parts({"network": "backend", "tier": row["tier"], **named}),
        }
    )
    findings = found(plan, row["code"])
    assert any(row["says"] in finding.message for finding in findings), [finding.message for finding in findings]
    for finding in findings:
        ends = [end.partition(":") for end in finding.subject.split(" - ")]
        assert [bool(device and port) for device, _, port in ends] == [True, True]
    assert any(row["mend"] in finding.fix for finding in findings), [finding.fix for finding in findings]


def test_there_are_sixteen_bad_combinations_or_more() -> None:
    assert len({row["combination"] for row in BAD}) == len(BAD) >= 16


def test_a_qualified_port_takes_linear_modules() -> None:
    linear = DR4 | OS2 | {"b": "generic-800g-2xdr4-lpo-osfp-ihs"}
    assert found(plan_of(parts(linear | {"linear": True})), "RW738") == []


def test_what_the_design_chooses_itself_breaks_no_rule_on_parts() -> None:
    for switch, server in (("sn5600", "dgx-b200"), ("generic-64x400", "hgx-h100"), ("7060x6-64pe", "mi300x-8")):
        plan = plan_of({"backend": {"switch": switch}, "cluster": {"server": server}, "cabling": {"forbid": []}})
        errors = [f for f in check_plan(plan) if f.code.startswith("RW7") and f.severity.value == "error"]
        assert errors == []


def test_a_link_without_any_part_says_why_each_failed() -> None:
    finding = found(plan_of(BROKEN["RW703"].spec or {}), "RW703")[0]
    assert "the spec forbids" in finding.message
    assert "cabling.forbid" in finding.fix


def test_a_link_that_panels_and_splices_keep_dark_says_so_before_parts_that_nobody_would_take() -> None:
    finding = found(plan_of({"cabling": {"patch_panels": 2, "splices": 40}}), "RW703")[0]
    assert "the channel may lose" in finding.message
    assert "cabling.patch_panels" in finding.fix
    assert "does not link with" not in finding.message.split("the channel may lose")[0]


def test_only_the_links_that_are_too_long_count_as_beyond_reach() -> None:
    near = racks(pitch="0.2 m", row_pitch="1 m", cable_ladder_height="0.2 m")
    plan = plan_of({**parts({"network": "backend", "tier": "host", "cable": "generic-800g-aec"}), **near})
    named = plan.table("cables").filter(pl.col("part") == "generic-800g-aec")
    of_7_m = named.select("cable_id", too_long=pl.col("length_m") > 7)
    links = plan.links.join(of_7_m, on="cable_id")
    finding = found(plan, "RW726")[0]
    assert 1 < links["too_long"].sum() < len(links)
    assert f"; {links['too_long'].sum() - 1} more links alike" in finding.message
    assert "is not made so long" in finding.message
    assert "cabling.parts" in finding.fix
