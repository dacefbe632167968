"""Growth keeps what stands."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from railwright.catalog.load import load_catalog
from railwright.design.design import design_plan
from railwright.design.extend import extend_plan
from railwright.design.plan import Plan
from railwright.errors import InputError
from railwright.spec.cluster import ClusterSpec
from railwright.spec.load import load_spec

EXAMPLES = Path(__file__).parents[2] / "examples"
IDS = {"devices": "device_id", "ports": "port_id", "links": "link_id", "racks": "rack_id"}


def _plan(gpus: int, server: str = "hgx-h100", **parts: Any) -> Plan:
    spec = {"name": "test", "cluster": {"gpus": gpus, "server": server}, **parts}
    return design_plan(ClusterSpec.model_validate(spec), load_catalog())


def _unchanged(before: Plan, after: Plan, table: str) -> bool:
    """Return whether every row of ``table`` is in the grown plan, value for value."""
    old, new = before.tables[table], after.tables[table]
    return new.join(old, on=old.columns, how="semi", nulls_equal=True).height == old.height


def _bundles(plan: Plan) -> pl.DataFrame:
    """Return the links of the networks that do not depend on where racks stand; spines of a first pod may lack its name."""
    return (
        plan.named_links()
        .filter(pl.col("network") != "management")
        .with_columns(pl.col("a_device", "b_device").str.replace("pod1-spine", "spine", literal=True))
        .group_by("a_device", "b_device", "a_nic", "speed_gbps")
        .len()
        .sort("a_device", "b_device", "a_nic", "speed_gbps")
    )


@pytest.mark.parametrize(
    "backend",
    [
        {"topology": "rail-optimized", "switch": "sn5400"},
        {"topology": "rail-optimized", "transport": "infiniband"},
        {"topology": "rail-optimized", "switch": "generic-32x400", "tiers": 3},
        {"topology": "leaf-spine", "switch": "sn5600"},
        {"topology": "multi-plane", "planes": 2, "switch": "sn5600"},
        {"topology": "rail-only", "tiers": 2, "switch": "generic-64x400"},
    ],
)
def test_1024_to_2048_moves_nothing_when_growth_was_planned(backend: dict[str, Any]) -> None:
    plan = _plan(1024, backend=backend, growth={"gpus": 2048})
    grown, changes = extend_plan(plan, 2048)
    assert changes["moved"] == changes["readdressed"] == []
    assert changes["removed"] == {"devices": [], "links": 0}
    assert all(_unchanged(plan, grown, table) for table in (*IDS, "addresses"))
    assert changes["added"]["devices"]["server"] == 128


def test_the_example_with_all_networks_grows_to_2048_without_a_change_to_what_stands() -> None:
    plan = design_plan(load_spec(EXAMPLES / "rail-optimized-1024.yaml"), load_catalog())
    grown, changes = extend_plan(plan, 2048)
    assert {str(name) for name in grown.links["network"].unique()} == {"backend", "frontend", "storage", "management"}
    assert changes["moved"] == changes["readdressed"] == []
    assert all(_unchanged(plan, grown, table) for table in (*IDS, "addresses"))


def test_growth_that_was_not_planned_moves_only_the_cables_that_new_spines_need() -> None:
    plan = _plan(1024, backend={"topology": "rail-optimized", "switch": "sn5400"})
    grown, changes = extend_plan(plan, 2048)
    backend = [move for move in changes["moved"] if move["network"] == "backend"]
    assert len(backend) == 512
    assert all("32 spine" in move["reason"] and "growth" in move["reason"] for move in backend)
    links = plan.links.filter(~pl.col("link_id").is_in([move["link_id"] for move in changes["moved"]]))
    assert grown.links.join(links, on=links.columns, how="semi", nulls_equal=True).height == links.height


@pytest.mark.parametrize(
    "backend",
    [
        {"topology": "rail-optimized", "switch": "sn5400"},
        {"topology": "rail-optimized", "switch": "generic-32x400"},
        {"topology": "leaf-spine", "switch": "sn5600"},
        {},
    ],
)
@pytest.mark.parametrize("gpus", [(512, 520), (96, 1600), (1000, 3000)])
def test_a_grown_plan_has_the_links_of_a_plan_made_at_once(backend: dict[str, Any], gpus: tuple[int, int]) -> None:
    grown, _ = extend_plan(_plan(gpus[0], backend=backend), gpus[1])
    assert _bundles(grown).equals(_bundles(_plan(gpus[1], backend=backend)))
    used = pl.concat([grown.links["a_port"], grown.links["b_port"]])
    assert used.is_unique().all()
    assert set(used) == set(grown.ports["port_id"])
    assert grown.ports.select("device_id", "name").is_unique().all()
    assert all(grown.tables[table][key].is_unique().all() for table, key in IDS.items())


def test_a_third_tier_keeps_the_spines_of_the_first_pod() -> None:
    plan = _plan(512, backend={"topology": "rail-optimized", "switch": "sn5400"})
    grown, changes = extend_plan(plan, 8192)
    spines = plan.devices.filter((pl.col("role") == "spine") & (pl.col("network") == "backend"))
    assert changes["removed"] == {"devices": [], "links": 0}
    assert set(spines["name"]) <= set(grown.devices.filter(pl.col("pod") == 1)["name"])
    assert grown.devices.filter((pl.col("role") == "core") & (pl.col("network") == "backend")).height > 0


def test_new_ids_lie_above_the_old_ones() -> None:
    plan = _plan(1024, growth={"gpus": 2048})
    grown, _ = extend_plan(plan, 1536)
    for table, key in IDS.items():
        added = grown.tables[table].join(plan.tables[table], on=key, how="anti")
        assert added[key].min() > plan.tables[table][key].max()


def test_growth_in_two_steps_is_growth_in_one() -> None:
    plan = _plan(1024, backend={"topology": "rail-optimized"}, growth={"gpus": 4096})
    in_steps = extend_plan(extend_plan(plan, 2048)[0], 4096)[0]
    assert _bundles(in_steps).equals(_bundles(extend_plan(plan, 4096)[0]))


def test_standing_boxes_keep_their_racks() -> None:
    plan = _plan(1024)
    grown, _ = extend_plan(plan, 2048)
    place = ["name", "rack", "ru"]
    assert grown.devices.join(plan.devices.select(place), on=place, how="semi", nulls_equal=True).height == len(
        plan.devices
    )
    assert grown.devices.select("rack", "ru").drop_nulls().is_unique().all()


@pytest.mark.parametrize(("gpus", "word"), [(512, "only grows"), (1030, "whole servers")])
def test_what_is_not_growth_is_an_input_error(gpus: int, word: str) -> None:
    with pytest.raises(InputError, match=word):
        extend_plan(_plan(1024), gpus)
