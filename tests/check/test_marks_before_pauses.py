"""RW311 with thresholds of the spec's own: 16 ports of 400G on a switch whose pool is 158,229,504 bytes (SONiC, SN5600)."""

from functools import cache

import polars as pl
import pytest

from railwright.catalog.load import load_catalog
from railwright.check.engine import check_plan
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.design.qos_table import contracts_for, link_ends, qos_table
from railwright.design.thresholds import marking_bounds
from railwright.spec.load import parse_spec

POOL = 158_229_504
PORTS = 16
SPEC = "name: small\ncluster: {servers: 16, server: hgx-h100}\nbackend:\n  topology: rail-only\n  switch: sn5400\n"


@cache
def plan_of(more: str = "") -> Plan:
    catalog = load_catalog()
    plan = design_plan(parse_spec(SPEC + more).checked(catalog), catalog)
    return plan.with_tables(qos=qos_table(plan, contracts_for(plan)))


def fires(plan: Plan) -> bool:
    return any(finding.code == "RW311" for finding in check_plan(plan))


def bounds_of(plan: Plan) -> pl.DataFrame:
    own = marking_bounds(plan, plan.table("qos"), link_ends(plan))
    return own.filter(pl.col("class") == "roce")


def marks(kmin: str) -> str:
    return f"  ecn: {{kmin: {kmin}, kmax: 8 MB, pmax: 5%}}\n"


def test_what_is_derived_is_in_order():
    assert not fires(plan_of())


def test_the_bound_with_the_spec_s_alpha_is_where_the_rule_fires():
    # alpha (B - H) / (n (1 + alpha)) with alpha 1/16
    row = bounds_of(plan_of("  pfc: {alpha: 0.0625}\n")).row(0, named=True)
    bound = 0.0625 * (POOL - row["reserved_bytes"]) / (PORTS * 1.0625)
    assert row["most_bytes"] == pytest.approx(bound)
    below, above = f"{int(bound) - 1} B", f"{int(bound) + 1} B"
    assert not fires(plan_of("  pfc: {alpha: 0.0625}\n" + marks(below)))
    assert fires(plan_of("  pfc: {alpha: 0.0625}\n" + marks(above)))
    assert not fires(plan_of(marks(above)))


def test_a_fixed_threshold_is_shared_by_the_queues_of_all_ports():
    assert not fires(plan_of("  pfc: {xoff: 1600 kB}\n" + marks("100 kB")))
    assert fires(plan_of("  pfc: {xoff: 1600 kB}\n" + marks("101 kB")))


def test_derived_thresholds_keep_below_a_low_pause_threshold():
    plan = plan_of("  pfc: {xoff: 1600 kB}\n")
    highest = plan.table("qos").filter(pl.col("class") == "roce")["kmin_bytes"].max()
    assert 100_000 - 1024 < highest <= 100_000
    assert not fires(plan)


def test_two_lossless_classes_leave_less_room():
    plan = plan_of()
    table = plan.table("qos")
    roce = table.filter(pl.col("class") == "roce")
    second = roce.with_columns(pl.lit("storage").alias("class"))
    both = pl.concat([table.filter(pl.col("class") != "storage"), second.select(table.columns)])
    one = bounds_of(plan).row(0, named=True)
    two = bounds_of(plan.with_tables(qos=both)).row(0, named=True)
    assert two["reserved_bytes"] == 2 * one["reserved_bytes"]
    alpha = one["alpha"]
    assert two["most_bytes"] == pytest.approx(alpha * (POOL - two["reserved_bytes"]) / (PORTS * (1 + 2 * alpha)))
