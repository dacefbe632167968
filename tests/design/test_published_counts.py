"""The design reproduces published switch and cable counts, and contradicts those that were misprinted."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from railwright.design.plan import Plan
from railwright.design.sizing import three_tier_clos, two_tier_clos, upper_switches
from railwright.design.summary import summarise

FACTS = Path(__file__).parent / "facts"


def _rows(name: str) -> list[dict[str, str]]:
    with (FACTS / name).open(newline="") as stream:
        return list(csv.DictReader(stream))


PUBLISHED = _rows("published_counts.csv")
DEEPSEEK = _rows("deepseek_table3.csv")
BOM = {row["item"]: int(row["quantity"]) for row in _rows("h100_superpod_4su_compute.csv")}


@pytest.mark.parametrize("row", PUBLISHED, ids=[row["design"] for row in PUBLISHED])
def test_published_design(row: dict[str, str], backend_plan: Callable[..., Plan]) -> None:
    plan = backend_plan(int(row["servers"]), row["server"], **json.loads(row["backend"]))
    backend = summarise(plan)["networks"]["backend"]
    tiers = dict(plan.links.group_by("tier").len().iter_rows())
    found = {
        **backend["switches"],
        "cables_node_leaf": tiers.get("host", 0),
        "cables_leaf_spine": tiers.get("leaf_spine", 0),
        "cables_spine_core": tiers.get("spine_core", 0),
    }
    published = {key: int(row[key]) for key in found if row.get(key)}
    assert {key: found[key] for key in published} == published


@pytest.mark.parametrize("row", DEEPSEEK, ids=[row["column"] for row in DEEPSEEK])
def test_deepseek_table_3(row: dict[str, str], backend_plan: Callable[..., Plan]) -> None:
    plan = backend_plan(int(row["endpoints"]) // 8, "generic-8gpu-400g", **json.loads(row["backend"]))
    backend = summarise(plan)["networks"]["backend"]
    assert backend["endpoints"] == int(row["endpoints"])
    assert sum(backend["switches"].values()) == int(row["switches"])
    assert len(plan.links.filter(pl.col("tier") != "host")) == int(row["switch_links"])


def test_closed_forms_of_64_port_switches() -> None:
    assert (two_tier_clos(64).endpoints, two_tier_clos(64).switches, two_tier_clos(64).links) == (2048, 96, 2048)
    assert (three_tier_clos(64).endpoints, three_tier_clos(64).switches) == (65536, 5120)
    assert three_tier_clos(64).links == 131072


def test_superpod_of_127_systems_has_the_compute_fabric_of_its_bill_of_materials(
    backend_plan: Callable[..., Plan],
) -> None:
    plan = backend_plan(
        127, "dgx-h100", topology="rail-optimized", transport="infiniband", switch="qm9700", subnet_managers=2
    )
    backend = summarise(plan)["networks"]["backend"]
    links = plan.named_links()
    to_managers = links.filter(pl.col("a_role") == "appliance")
    cages = plan.ports.join(plan.devices.select("device_id", "role"), on="device_id").unique(["device_id", "cage"])
    assert backend["switches"]["leaf"] == BOM["leaf switches"]
    assert backend["switches"]["spine"] == BOM["spine switches"]
    assert len(links) - len(to_managers) == BOM["cables of 400G"]
    assert len(to_managers) == BOM["subnet manager ports"]
    assert backend["cables"] == BOM["cables of 400G"] + BOM["splitter cables to the subnet managers"]
    assert len(cages.filter(pl.col("role").is_in(["leaf", "spine"]))) == BOM["twin-port switch modules"]
    assert len(cages.filter(pl.col("role") == "server")) == BOM["twin-port server modules"]


def test_subnet_managers_stand_on_two_leaves(backend_plan: Callable[..., Plan]) -> None:
    plan = backend_plan(127, "dgx-h100", topology="rail-optimized", transport="infiniband", subnet_managers=2)
    ends = plan.named_links().filter(pl.col("a_role") == "appliance")
    assert ends.group_by("a_device").agg(pl.col("b_device").n_unique())["b_device"].to_list() == [2, 2]


def test_hpn_pod_ratios(backend_plan: Callable[..., Plan]) -> None:
    row = next(row for row in PUBLISHED if "HPN" in row["design"])
    plan = backend_plan(int(row["servers"]), row["server"], **json.loads(row["backend"]))
    ratios = summarise(plan)["networks"]["backend"]["oversubscription_by_tier"]
    assert ratios["leaf"] == pytest.approx(128 * 200 / (60 * 400), abs=1e-4)
    assert ratios["spine"] == 15.0


def test_2048_servers_are_64_units_not_the_56_of_the_html_table(backend_plan: Callable[..., Plan]) -> None:
    plan = backend_plan(2048, "dgx-h100", topology="rail-optimized", transport="infiniband", switch="qm9700")
    assert plan.facts["backend"]["units"] == 64


@pytest.mark.parametrize("units", [4, 8])
def test_two_tier_superpods_have_no_spine_core_cables_although_the_html_table_prints_some(
    units: int, backend_plan: Callable[..., Plan]
) -> None:
    plan = backend_plan(units * 32, "dgx-h100", topology="rail-optimized", transport="infiniband", switch="qm9700")
    assert plan.links.filter(pl.col("tier") == "spine_core").is_empty()


def test_18_units_of_b300_are_10368_gpus_not_the_9216_of_the_table(backend_plan: Callable[..., Plan]) -> None:
    plan = backend_plan(18 * 72, "dgx-b300", topology="rail-optimized", transport="infiniband", switch="q3400-ra")
    summary = summarise(plan)
    assert summary["cluster"]["gpus"] == 10368
    assert plan.facts["backend"]["units"] == 18
    assert summary["networks"]["backend"]["switches"]["spine"] == 72
    assert dict(plan.links.group_by("tier").len().iter_rows())["host"] == 10368


@pytest.mark.parametrize(("units", "spines"), [(1, 4), (2, 8), (4, 18), (9, 36), (18, 72)])
def test_spines_of_b300_xdr_divide_the_72_uplinks_of_a_leaf(units: int, spines: int) -> None:
    assert upper_switches(units * 8, 72, 144) == spines
