"""Every rule of the foundation once broken and once kept, on plans made from specs a user could write."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import polars as pl
import pytest

from railwright.catalog.load import load_catalog
from railwright.check.engine import check_plan, rule_functions, rule_texts
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.design.qos_table import contracts_for, qos_table
from railwright.errors import InputError
from railwright.spec.cluster import ClusterSpec

Changes = dict[str, Any]

CLEAN: Changes = {
    "name": "clean",
    "cluster": {"servers": 64, "server": "hgx-h100"},
    "backend": {"topology": "rail-optimized", "switch": "sn5600", "load_balancing": "adaptive"},
    "demand": {"requests": "2000/s", "dataset_read": "40 GB/s", "checkpoint": "1 TB", "checkpoint_time": "60 s"},
}


def merged(changes: Changes) -> Changes:
    """CLEAN with ``changes`` laid over it, section by section."""
    spec = dict(CLEAN)
    for key, value in changes.items():
        spec[key] = {**spec.get(key, {}), **value} if isinstance(value, dict) else value
    return spec


@cache
def clean_plan() -> Plan:
    return plan_of({})


def plan_of(changes: Changes) -> Plan:
    return design_plan(ClusterSpec.model_validate(merged(changes)), load_catalog())


def codes(plan: Plan) -> set[str]:
    return {finding.code for finding in check_plan(plan)}


@dataclass(frozen=True)
class Broken:
    """What breaks a rule: changes to the spec, or a change to the tables of the clean plan."""

    spec: Changes | None = None
    tables: Callable[[Plan], Plan] | None = None


def with_entry(kind: str, key: str, **fields: object) -> Callable[[Plan], Plan]:
    """Change fields of a catalog entry; ``features`` is a mapping of the single features to change."""

    def change(plan: Plan) -> Plan:
        entry = plan.catalog.kind(kind)[key]
        update = dict(fields)
        if "features" in update:
            update["features"] = entry.features.model_copy(update=update["features"])
        entries = {**plan.catalog.entries, kind: {**plan.catalog.kind(kind), key: entry.model_copy(update=update)}}
        return replace(plan, catalog=replace(plan.catalog, entries=entries))

    return change


def late_marks(plan: Plan) -> Plan:
    """ECN thresholds of 4 MB on 128 ports that share 158 MB."""
    table = qos_table(plan, contracts_for(plan))
    late = pl.when(pl.col("kmin_bytes").is_not_null()).then(4_000_000).cast(pl.UInt64)
    return plan.with_tables(qos=table.with_columns(kmin_bytes=late, kmax_bytes=late))


NIC = load_catalog().servers["hgx-h100"].backend.nic


def without(**column_values: str) -> Callable[[Plan], Plan]:
    """Remove the boxes whose columns have these values, except the first."""

    def change(plan: Plan) -> Plan:
        condition = pl.all_horizontal(pl.col(column) == value for column, value in column_values.items())
        found = plan.devices.filter(condition)["device_id"].slice(1)
        return plan.with_tables(devices=plan.devices.filter(~pl.col("device_id").is_in(found.implode())))

    return change


def lanes_doubled(plan: Plan) -> Plan:
    return plan.with_tables(ports=plan.ports.with_columns(pl.col("lanes") * 2))


def all_frontend_on_one_leaf(plan: Plan) -> Plan:
    """Move every frontend server link to one leaf's ports."""
    named = plan.named_links()
    hosts = named.filter(
        (pl.col("network") == "frontend") & (pl.col("tier") == "host") & (pl.col("a_role") == "server")
    )
    leaf = hosts["b_device_id"][0]
    moved = plan.ports.with_columns(
        device_id=pl.when(pl.col("port_id").is_in(hosts["b_port"].implode())).then(leaf).otherwise("device_id")
    )
    return plan.with_tables(ports=moved)


def same_loopbacks(plan: Plan) -> Plan:
    return plan.with_tables(
        addresses=plan.addresses.with_columns(
            address=pl.when(pl.col("kind") == "loopback").then(pl.lit("10.255.0.1/32")).otherwise("address"),
            vrf=pl.lit("default"),
        )
    )


def same_asns(plan: Plan) -> Plan:
    return plan.with_tables(
        devices=plan.devices.with_columns(asn=pl.when(pl.col("role") == "leaf").then(65001).otherwise("asn"))
    )


def no_management_links(plan: Plan) -> Plan:
    return plan.with_tables(links=plan.links.filter(pl.col("tier") != "oob"))


def racks_with(column: str, value: float) -> Callable[[Plan], Plan]:
    return lambda plan: plan.with_tables(racks=plan.racks.with_columns(pl.lit(value).alias(column)))


BROKEN: dict[str, Broken] = {
    "RW101": Broken(spec={"backend": {"oversubscription": {"leaf": "2:1"}}}),
    "RW102": Broken(spec={"backend": {"counts": {"spines": 2}}}),
    "RW103": Broken(spec={"backend": {"topology": "leaf-spine"}}),
    "RW104": Broken(spec={"backend": {"counts": {"spines": 3}}}),
    "RW105": Broken(spec={"backend": {"counts": {"spines": 1}}, "cluster": {"servers": 256}}),
    "RW106": Broken(tables=lanes_doubled),
    "RW107": Broken(spec={"converge": ["backend", "storage"]}),
    "RW108": Broken(
        spec={
            "backend": {"topology": "rail-only", "switch": "sn5600"},
            "workload": {"name": "llama3-70b", "cross_rail": "network"},
        }
    ),
    "RW110": Broken(tables=with_entry("switches", "sn5600", latency_ns=1200.0)),
    "RW111": Broken(spec={"backend": {"load_balancing": "ecmp"}}),
    "RW112": Broken(spec={"backend": {"counts": {"spines": 2}}}),
    "RW113": Broken(
        spec={
            "cluster": {"servers": 63},
            "backend": {"transport": "infiniband", "switch": "qm9700", "load_balancing": None, "subnet_managers": 1},
        }
    ),
    "RW201": Broken(tables=all_frontend_on_one_leaf),
    "RW202": Broken(tables=without(network="frontend", role="spine")),
    "RW203": Broken(spec={"frontend": {"bfd": False}}),
    "RW204": Broken(spec={"frontend": {"firewalls": 1}}),
    "RW205": Broken(spec={"frontend": {"load_balancers": 1}}),
    "RW206": Broken(spec={"frontend": {"border_leaves": 1}}),
    "RW207": Broken(spec={"frontend": {"counts": {"leaf_up_ports": 1}}}),
    "RW208": Broken(spec={"frontend": {"external_links": 1}}),
    "RW301": Broken(tables=with_entry("switches", "sn5600", features={"ecn": False})),
    "RW302": Broken(tables=with_entry("nics", NIC, out_of_order_receive=False)),
    "RW303": Broken(tables=with_entry("switches", "sn5600", features={"adaptive_routing": False})),
    "RW304": Broken(tables=with_entry("switches", "sn5600", features={"adaptive_routing": None})),
    "RW311": Broken(tables=late_marks),
    "RW401": Broken(spec={"storage": {"appliances": 1}, "demand": {"checkpoint": "100 TB"}}),
    "RW402": Broken(spec={"storage": {"appliances": 1}, "demand": {"checkpoint": "100 TB"}}),
    "RW403": Broken(spec={"storage": {"appliances": 1}, "demand": {"dataset_read": "900 GB/s"}}),
    "RW404": Broken(spec={"demand": {"checkpoint_interval": "30 s", "checkpoint_time": "20 s"}}),
    "RW501": Broken(spec={"management": {"telemetry_interval": "10 ms", "telemetry_bytes_per_port": "20 kB"}}),
    "RW502": Broken(tables=no_management_links),
    "RW601": Broken(tables=same_loopbacks),
    "RW602": Broken(tables=same_asns),
    "RW701": Broken(tables=racks_with("power_limit_w", 1000.0)),
    "RW702": Broken(tables=racks_with("height_ru", 4)),
    "RW801": Broken(spec={"cluster": {"nics_per_server": 4}}),
    "RW802": Broken(tables=with_entry("nics", NIC, pcie_lanes=8)),
}
ALWAYS_TOLD = {"RW901", "RW902"}
"""Rules that hold of every plan here: no spec gives all prices, and the catalog has unverified fields."""
STRETCHED = {"RW109"}
PHYSICAL = re.compile(r"RW7(?!0[12])\d\d")
"""Rules of the physical layer, which test_physical_rules.py has."""


@pytest.mark.parametrize("code", sorted(BROKEN))
def test_rule_is_silent_on_a_clean_plan_and_speaks_on_a_broken_one(code: str) -> None:
    assert code not in codes(clean_plan())
    broken = BROKEN[code]
    plan = plan_of(broken.spec) if broken.spec is not None else clean_plan()
    if broken.tables is not None:
        plan = broken.tables(plan)
    assert code in codes(plan)


def test_stretched_backend_is_an_error_and_a_stretched_frontend_is_not() -> None:
    def stretched(plan: Plan) -> Plan:
        spines = plan.devices.with_columns(
            site=pl.when((pl.col("network") == "backend") & (pl.col("role") == "spine"))
            .then(pl.lit("far"))
            .otherwise("site")
        )
        return plan.with_tables(devices=spines)

    assert "RW109" not in codes(clean_plan())
    found = [finding for finding in check_plan(stretched(clean_plan())) if finding.code == "RW109"]
    assert [finding.severity.value for finding in found] == ["error"]


def test_prices_silence_the_unpriced_rule() -> None:
    models = clean_plan().devices["model"].unique().drop_nulls()
    prices = {model: {"usd": 1000, "date": "2026-11", "source": "test"} for model in models}
    assert "RW901" in codes(clean_plan())
    assert "RW901" not in codes(plan_of({"economics": {"prices": prices}}))


def test_every_rule_has_a_text_and_a_test() -> None:
    here = {code for code in rule_functions() if not PHYSICAL.fullmatch(code)}
    assert here == set(BROKEN) | ALWAYS_TOLD | STRETCHED
    assert set(rule_functions()) <= set(rule_texts())


def test_a_waived_rule_is_kept_with_its_reason_and_no_longer_counts() -> None:
    waived = {"ignore": [{"code": "RW101", "reason": "inference only"}]}
    plan = plan_of({"backend": {"oversubscription": {"leaf": "2:1"}}, **waived})
    found = [finding for finding in check_plan(plan) if finding.code == "RW101"]
    assert [finding.ignored for finding in found] == ["inference only"] * len(found) != []


def test_waiving_an_unknown_rule_is_an_error_with_the_nearest_code() -> None:
    spec = ClusterSpec.model_validate({**merged({}), "ignore": [{"code": "RW110", "reason": "known"}]})
    wrong = spec.model_copy(update={"ignore": (spec.ignore[0].model_copy(update={"code": "RW199"}),)})
    with pytest.raises(InputError, match="RW199"):
        check_plan(replace(clean_plan(), spec=wrong))


def test_findings_come_errors_first_then_by_code() -> None:
    findings = check_plan(plan_of({"backend": {"counts": {"spines": 3}}}))
    order = ["error", "warning", "info"]
    assert [order.index(f.severity.value) for f in findings] == sorted(order.index(f.severity.value) for f in findings)
