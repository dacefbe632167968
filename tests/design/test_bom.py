"""The bill of materials against the published one of the 4-SU DGX H100 SuperPOD, row by row; prices, spares, totals."""

import csv
import math
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from railwright.catalog.load import load_catalog
from railwright.design.bom import IN_LINK_PRICE, bill_of_materials, capital_cost, unpriced
from railwright.design.cabling import cable_plan
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.design.summary import summarise
from railwright.spec.cluster import ClusterSpec
from railwright.spec.load import load_spec

EXAMPLE = Path(__file__).parents[2] / "examples" / "h100-superpod-4su.yaml"
with (Path(__file__).parent / "facts" / "h100_superpod_4su_bom.csv").open(newline="", encoding="utf-8") as stream:
    PUBLISHED = list(csv.DictReader(stream))


@cache
def superpod() -> Plan:
    return cable_plan(design_plan(load_spec(EXAMPLE), load_catalog()))


def bought(section: str, network: str, part: str) -> int:
    rows = (
        superpod()
        .table("bom")
        .filter((pl.col("section") == section) & (pl.col("network") == network) & (pl.col("part") == part))
    )
    return int(rows["quantity"].sum())


def links(network: str, tier: str, role: str) -> pl.DataFrame:
    return (
        superpod()
        .named_links()
        .filter((pl.col("network") == network) & (pl.col("tier") == tier) & (pl.col("a_role") == role))
    )


def counted(measure: str) -> int:
    """Count what ``measure`` names in the plan."""
    plan = superpod()
    kind, *rest = measure.split(":")
    if kind == "racks":
        return len(plan.racks)
    if kind == "devices":
        return len(plan.devices.filter(pl.col("role") == rest[0]))
    if kind == "model":
        found = plan.devices.filter(pl.col("model") == rest[0])
        return len(found if len(rest) == 1 else found.filter(pl.col("network") == rest[1]))
    if kind == "pdus":
        placed = plan.devices.filter(pl.col("role") == "pdu").join(plan.racks, left_on="rack", right_on="rack_id")
        return len(placed.filter((pl.col("kind") == "compute") == (rest[0] == "compute")))
    if kind in ("cables", "modules"):
        return bought(kind, *rest)
    if kind == "splitters":
        return links(rest[0], "service", rest[1])["cable_id"].n_unique()
    if kind == "links":
        return len(links(*rest))
    oob = (
        plan.named_links()
        .filter(pl.col("tier") == "oob")
        .join(plan.devices.select("device_id", "model"), left_on="a_device_id", right_on="device_id")
    )
    return len(
        oob.filter(pl.col("a_role").cast(pl.String).is_in(rest[0].split("+")) | pl.col("model").is_in([rest[0]]))
    )


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: f"{row['section']}: {row['component']}")
def test_each_row_of_the_published_bill_of_materials(row: dict[str, str]) -> None:
    assert counted(row["measure"]) == int(row["ours"])
    assert (row["ours"] == row["published"]) == (row["why_not"] == "")


def test_no_row_of_the_published_bill_is_missing() -> None:
    assert [int(row["row"]) for row in PUBLISHED] == list(range(1, 33))
    assert sum(row["why_not"] == "" for row in PUBLISHED) == 31


def test_the_published_storage_optics_follow_from_the_cables_without_the_splitters_of_the_appliances() -> None:
    modules = superpod().table("modules").filter(pl.col("part") == "mma4z00-ns").select("module_id")
    ends = superpod().table("cable_ends").join(modules, on="module_id", how="semi")
    link = superpod().named_links().filter(pl.col("network") == "storage").select("cable_id", "a_role", "tier")
    at_switches = ends.join(link.unique("cable_id"), on="cable_id").with_columns(
        pl.col("a_role", "tier").cast(pl.String)
    )
    straight = at_switches.filter(pl.col("tier").is_in(["host", "leaf_spine"]))
    of_managers = at_switches.filter(pl.col("a_role") == "appliance")["module_id"].n_unique()
    of_splitters = at_switches.filter(pl.col("a_role") == "storage")["module_id"].n_unique()
    assert (len(straight), of_managers, of_splitters) == (254 + 2 * 240, 2, 48 // 2)
    assert len(straight) // 2 + of_managers == 369


def test_the_published_order_numbers_are_on_the_bill() -> None:
    items = " ".join(superpod().table("bom")["item"].to_list())
    for number in (
        "980-9I510-00NS00",
        "980-9I51A-00NS00",
        "980-9I51S-00NS00",
        "980-9I693-00NS00",
        "920-9B210-00FN-0M0",
    ):
        assert number in items


def small(**changes: Any) -> Plan:
    spec = {
        "name": "test",
        "cluster": {"servers": 16, "server": "hgx-h100"},
        "backend": {"topology": "rail-optimized", "switch": "sn5600"},
        **changes,
    }
    return cable_plan(design_plan(ClusterSpec.model_validate(spec), load_catalog()))


def test_a_named_cable_that_is_not_made_so_long_is_marked_on_the_bill() -> None:
    plan = small(cabling={"parts": [{"network": "backend", "tier": "host", "cable": "generic-800g-dac"}]})
    needed = plan.table("cables").filter(pl.col("part") == "generic-800g-dac")["length_m"].unique()
    items = plan.table("bom").filter(pl.col("part") == "generic-800g-dac")["item"]
    assert needed.max() > 3
    for length in needed:
        marked = items.filter(items.str.contains(f", {length:g} m", literal=True)).str.contains(
            "(not sold so long)", literal=True
        )
        assert marked.to_list() == [length > plan.catalog.cables["generic-800g-dac"].lengths_m[-1]]


def test_everything_in_the_tables_is_on_the_bill_once() -> None:
    plan = small()
    sums = dict(plan.table("bom").group_by("section").agg(pl.col("quantity").sum()).iter_rows())
    assert sums["cables"] == len(plan.table("cables").filter(pl.col("part").is_not_null()))
    assert sums["modules"] == len(plan.table("modules"))
    assert sums["racks"] == len(plan.racks)
    boxes = sum(sums.get(section, 0) for section in ("servers", "switches", "boxes", "pdus"))
    assert boxes == len(plan.devices.filter(pl.col("role") != "external"))


def test_spares_are_a_share_rounded_up_of_what_fails_in_the_field() -> None:
    bom = small(economics={"spares": "5%"}).table("bom")
    for row in bom.iter_rows(named=True):
        spared = row["section"] in ("switches", "modules", "cables")
        assert row["spares"] == (math.ceil(row["quantity"] * 0.05 - 1e-9) if spared else 0)


def test_an_unknown_price_is_counted_and_never_zero() -> None:
    bom = small().table("bom")
    assert (bom["unit_price_usd"].drop_nulls() > 0).all()
    known, missing = capital_cost(bom)
    pieces = unpriced(bom).select((pl.col("quantity") + pl.col("spares")).sum()).item()
    assert missing == pieces > 0
    assert known > 0
    assert summarise(small())["totals"]["price_usd"] is None


def test_every_known_price_has_a_source() -> None:
    priced = small().table("bom").filter(pl.col("unit_price_usd").is_not_null())
    assert priced["price_source"].null_count() == 0


def test_a_price_of_a_whole_link_is_carried_by_its_cord_and_not_twice() -> None:
    bom = superpod().table("bom")
    cord = bom.filter((pl.col("part") == "mfp7e10") & (pl.col("network") == "backend"))
    assert cord["unit_price_usd"].unique().to_list() == [1280.0]
    module = bom.filter(pl.col("part") == "mma4z00-ns-flt")
    assert module["unit_price_usd"].null_count() == len(module)
    assert module["price_source"].unique().to_list() == [IN_LINK_PRICE]


def test_the_users_price_replaces_the_catalogs() -> None:
    price = {"hgx-h100": {"usd": 111, "date": "2026-11", "source": "quote 7"}}
    bom = small(economics={"prices": price}).table("bom")
    row = bom.filter(pl.col("section") == "servers").row(0, named=True)
    assert (row["unit_price_usd"], row["price_date"], row["price_source"]) == (111.0, "2026-11", "quote 7")


def test_channels_through_panels_are_two_cords_and_a_share_of_a_trunk() -> None:
    plan = small(cabling={"patch_panels": 2})
    bom = bill_of_materials(plan)
    through = plan.table("cables").filter(
        pl.col("medium").is_in(["mmf", "smf"]) & ~pl.col("route").str.starts_with("in ")
    )
    cords = bom.filter((pl.col("section") == "cables") & ~pl.col("part").str.ends_with("trunk"))
    per_run = (
        through.join(plan.links, on="cable_id")
        .group_by("network", "medium", "route")
        .agg(pl.col("cable_id").n_unique())
    )
    trunks = int((per_run["cable_id"] / 12).ceil().sum())
    assert cords["quantity"].sum() == len(plan.table("cables")) + len(through)
    assert bom.filter(pl.col("part").str.ends_with("trunk"))["quantity"].sum() == trunks
    assert bom.filter(pl.col("section") == "panels")["quantity"].sum() > 0
