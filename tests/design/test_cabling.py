"""Cables: every link has one, lanes add up, modules are shared as cages are."""

from collections.abc import Callable
from functools import cache
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railwright.catalog.load import load_catalog
from railwright.design.cabling import cable_plan
from railwright.design.design import design_plan
from railwright.design.explain_cable import explain_cable
from railwright.design.extend import extend_plan
from railwright.design.plan import Plan, load_plan
from railwright.errors import InputError
from railwright.spec.cluster import ClusterSpec

CATALOG = load_catalog()


def cabled(
    servers: int = 32,
    server: str = "hgx-h100",
    cabling: dict[str, Any] | None = None,
    racks: dict[str, Any] | None = None,
    **backend: Any,
) -> Plan:
    spec = {
        "name": "test",
        "cluster": {"servers": servers, "server": server},
        "backend": {"topology": "rail-optimized", "switch": "sn5600", **backend},
        "cabling": cabling or {},
        "sites": [{"name": "hall", "racks": racks or {}}],
    }
    return cable_plan(design_plan(ClusterSpec.model_validate(spec), CATALOG))


@cache
def example() -> Plan:
    return cabled()


def media(plan: Plan, network: str, tier: str) -> set[str]:
    links = plan.links.filter((pl.col("network") == network) & (pl.col("tier") == tier))
    return set(links.join(plan.table("cables"), on="cable_id")["medium"].cast(pl.String).to_list())


@settings(max_examples=12, deadline=None)
@given(
    st.integers(1, 80),
    st.sampled_from(
        [
            ("hgx-h100", "sn5600"),
            ("dgx-b200", "sn5600"),
            ("dgx-b300", "sn5600"),
            ("hgx-h100", "generic-64x400"),
            ("mi300x-8", "7060x6-64pe"),
        ]
    ),
    st.sampled_from(["top-of-rack", "middle-of-row", "end-of-row"]),
    st.sampled_from([0, 2]),
)
def test_every_link_has_a_cable_with_a_part_that_is_long_enough(
    servers: int, boxes: tuple[str, str], switches: str, panels: int
) -> None:
    plan = cabled(servers, boxes[0], {"patch_panels": panels}, {"switches": switches}, switch=boxes[1])
    cables = plan.table("cables")
    assert plan.links["cable_id"].null_count() == 0
    assert set(plan.links["cable_id"]) == set(cables["cable_id"])
    assert cables.filter(pl.col("medium").is_null())["reason"].to_list() == []
    assert cables["reason"].null_count() == 0
    assert (cables["margin_db"].drop_nulls() >= 0).all()
    ends = plan.table("cable_ends")
    assert ends["port_id"].sort().to_list() == plan.ports["port_id"].sort().to_list()
    assert_lanes_add_up(plan)


def assert_lanes_add_up(plan: Plan) -> None:
    """No two ports of a module share a lane, on either side of it."""
    for column in ("host_lanes", "media_lanes"):
        lanes = (
            plan.table("cable_ends")
            .filter(pl.col("module_id").is_not_null())
            .group_by("module_id")
            .agg(
                pl.col(column).bitwise_count_ones().sum().alias("each"),
                pl.col(column).bitwise_or().bitwise_count_ones().alias("all"),
            )
        )
        assert (lanes["each"] == lanes["all"]).all(), column


def test_two_ports_of_a_twin_port_cage_share_one_module_and_split_its_lanes() -> None:
    plan = cabled(64, "dgx-h100", transport="infiniband", switch="qm9700")
    ends = plan.table("cable_ends").join(plan.table("modules"), on="module_id")
    both = ends.filter(pl.col("part") == "mma4z00-ns-flt").group_by("module_id").agg("host_lanes", "media_lanes")
    assert both["host_lanes"].list.sort().unique().to_list() == [[0x0F, 0xF0]]
    assert both["media_lanes"].list.sort().unique().to_list() == [[0x0F, 0xF0]]


def test_a_module_is_bought_once_per_cage() -> None:
    modules = example().table("modules")
    assert modules.select("device_id", "cage").is_unique().all()


def test_the_leg_of_a_splitter_cable_has_half_of_its_head() -> None:
    plan = cabled(4, "hgx-h100", racks={"switches": "top-of-rack"})
    split = plan.table("cables").filter(pl.col("part") == "mcp7y00")
    ends = plan.table("cable_ends").join(split, on="cable_id", how="semi")
    assert len(split)
    assert ends.filter(pl.col("end") == "b").group_by("cable_id").agg("host_lanes")[
        "host_lanes"
    ].list.sort().unique().to_list() == [[0x0F, 0xF0]]
    assert ends.filter(pl.col("end") == "a")["host_lanes"].unique().to_list() == [0x0F]


def test_a_fan_out_gives_each_port_one_fibre_and_two_electrical_lanes() -> None:
    plan = cabled(16)
    fan = plan.table("cables").filter(pl.col("part") == "generic-os2-mpo12-4xlc")
    ends = plan.table("cable_ends").join(fan, on="cable_id", how="semi").join(plan.table("modules"), on="module_id")
    ends = ends.filter(pl.col("part") == "generic-400g-dr4-qsfp-dd")
    assert set(ends["host_lanes"]) <= {0x03, 0x0C, 0x30, 0xC0}
    assert set(ends["media_lanes"]) <= {0x1, 0x2, 0x4, 0x8}
    assert dict(ends.select("host_lanes", "media_lanes").unique().iter_rows())[0x03] == 0x1


def test_a_small_hall_is_multimode_and_beyond_fifty_metres_it_is_single_mode() -> None:
    near, far = (
        cabled(64, "dgx-h100", racks={"pitch": pitch}, transport="infiniband", switch="qm9700")
        for pitch in ("0.6 m", "8 m")
    )
    assert media(near, "backend", "host") == {"mmf"}
    links = far.links.filter(pl.col("network") == "backend").join(far.table("cables"), on="cable_id")
    assert links.filter(pl.col("medium") == "mmf")["length_m"].max() <= 50
    assert "smf" in media(far, "backend", "host")


def test_lanes_of_200g_have_no_multimode_and_no_aoc() -> None:
    plan = cabled(32, "hgx-b300", transport="infiniband", switch="q3400-ra", in_network_reduction=False)
    assert media(plan, "backend", "host") <= {"smf", "dac", "aec"}
    assert "smf" in media(plan, "backend", "leaf_spine")


def test_parts_of_one_module_follow_its_longest_link() -> None:
    """A module has one kind of interface, so a far leg takes the near one along."""
    plan = cabled(64, "dgx-h100", racks={"pitch": "3 m"}, transport="infiniband", switch="qm9700")
    ends = plan.table("cable_ends").join(plan.table("cables").select("cable_id", "medium"), on="cable_id")
    per_module = ends.filter(pl.col("module_id").is_not_null()).group_by("module_id").agg(pl.col("medium").n_unique())
    assert per_module["medium"].unique().to_list() == [1]


def test_patch_panels_leave_fixed_ends_inside_the_racks() -> None:
    plan = cabled(32, cabling={"patch_panels": 2})
    fixed = plan.table("cables").filter(pl.col("medium").is_in(["dac", "acc", "aec", "aoc"]))
    assert fixed["route"].str.starts_with("in ").all()


def test_what_the_spec_prefers_and_forbids_is_kept() -> None:
    assert "aec" in media(example(), "backend", "host")
    assert "aec" not in media(cabled(cabling={"forbid": ["aec"]}), "backend", "host")
    assert media(cabled(cabling={"prefer": ["smf"]}), "backend", "host") == {"smf"}


def test_prices_of_all_candidates_decide_before_power() -> None:
    prices = {
        part: {"usd": usd, "date": "2026-11", "source": "test"}
        for part, usd in (
            ("mma4z00-ns", 900),
            ("mma4z00-ns400", 500),
            ("mfp7e10", 50),
            ("generic-800g-aec-2x400", 9000),
        )
    }
    spec = example().spec.model_dump()
    spec["economics"] = {**spec["economics"], "prices": prices}
    spec["cabling"] = {**spec["cabling"], "forbid": ["smf", "aoc", "acc", "dac"]}
    plan = cable_plan(design_plan(ClusterSpec.model_validate(spec), CATALOG))
    assert media(plan, "backend", "host") == {"mmf"}


def test_fibres_of_one_module_can_be_given_one_length() -> None:
    plan = cabled(64, "dgx-h100", {"equal_twin_lengths": True}, transport="infiniband", switch="qm9700")
    ends = plan.table("cable_ends").join(plan.table("cables"), on="cable_id").filter(pl.col("module_id").is_not_null())
    assert ends.group_by("module_id").agg(pl.col("length_m").n_unique())["length_m"].unique().to_list() == [1]


def test_a_cabled_plan_survives_the_disk(tmp_path: Any) -> None:
    plan = example()
    back = load_plan(plan.save(tmp_path / "plan"))
    for name in ("cables", "cable_ends", "modules", "links"):
        assert back.table(name).equals(plan.table(name)), name


def test_the_same_spec_gives_the_same_cables() -> None:
    assert cabled().table("cables").equals(example().table("cables"))


def test_the_reason_of_a_cable_names_what_was_not_taken() -> None:
    plan = example()
    row = plan.links.filter((pl.col("network") == "backend") & (pl.col("tier") == "host")).row(0, named=True)
    lines = explain_cable(plan, row["cable_id"])
    assert any(line.startswith("chosen: ") for line in lines)
    assert any("is sold up to 3 m" in line for line in lines)


def test_a_cable_that_is_not_there_is_an_input_error() -> None:
    with pytest.raises(InputError, match="none with the number 999999"):
        explain_cable(example(), 999_999)


@pytest.fixture(scope="module")
def far_sites() -> Callable[[float], Plan]:
    def make(distance_m: float) -> Plan:
        spec = {
            "name": "test",
            "cluster": {"servers": 4, "server": "hgx-h100"},
            "backend": {"switch": "sn5600"},
            "sites": [{"name": "one"}, {"name": "two", "distance": distance_m, "backend": False}],
            "demand": {"requests": "2000/s"},
        }
        return cable_plan(design_plan(ClusterSpec.model_validate(spec), CATALOG))

    return make


def test_sites_up_to_ten_kilometres_apart_are_joined_by_pluggables(far_sites: Callable[[float], Plan]) -> None:
    assert media(far_sites(5000.0), "frontend", "peer") == {"smf"}


def test_sites_beyond_have_no_part_and_the_plan_says_so(far_sites: Callable[[float], Plan]) -> None:
    plan = far_sites(40_000.0)
    peers = plan.links.filter(pl.col("tier") == "peer").join(plan.table("cables"), on="cable_id")
    assert peers["medium"].null_count() == len(peers) > 0
    assert peers["reason"].str.starts_with("no part works").all()


def test_copper_has_no_module_and_so_no_diagnostics() -> None:
    fixed = example().table("cables").filter(pl.col("medium").is_in(["dac", "acc", "aec", "aoc", "cat6"]))
    ends = example().table("cable_ends").join(fixed, on="cable_id", how="semi")
    assert len(ends) > 0
    assert ends["module_id"].null_count() == len(ends)


def test_growth_keeps_the_cables_that_stand() -> None:
    before = cable_plan(design_plan(ClusterSpec.model_validate(_growing()), CATALOG))
    grown, _ = extend_plan(before, 512)
    after = cable_plan(grown)
    kept = before.links.select("link_id", old="cable_id").join(after.links.select("link_id", "cable_id"), on="link_id")
    assert len(kept) > 0
    assert (kept["old"] == kept["cable_id"]).all()
    assert set(after.links["cable_id"]) == set(after.table("cables")["cable_id"])
    assert after.table("cables")["cable_id"].is_unique().all()


def _growing() -> dict[str, Any]:
    return {
        "name": "test",
        "cluster": {"gpus": 256, "server": "hgx-h100"},
        "backend": {"topology": "rail-optimized", "switch": "sn5600"},
        "growth": {"gpus": 512},
    }
