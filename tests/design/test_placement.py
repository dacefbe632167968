"""Racks bear what stands in them."""

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railwright.catalog.load import load_catalog
from railwright.design.design import design_plan
from railwright.design.placement import TOP_RU
from railwright.design.plan import Plan
from railwright.errors import InputError
from railwright.spec.cluster import ClusterSpec

CATALOG = load_catalog()


def _plan(servers: int, server: str, racks: dict[str, Any], **backend: Any) -> Plan:
    spec = {
        "name": "test",
        "cluster": {"servers": servers, "server": server},
        "backend": backend,
        "sites": [{"name": "hall", "racks": racks}],
        **{network: {"enabled": False} for network in ("frontend", "storage", "management")},
    }
    return design_plan(ClusterSpec.model_validate(spec), CATALOG)


def _units(plan: Plan) -> pl.DataFrame:
    """Return one row per occupied rack unit: ``rack, unit``."""
    height = {
        **{key: plan.catalog.server(key).ru for key in plan.catalog.servers},
        **{key: plan.catalog.switch(key).ru for key in plan.catalog.switches},
    }
    return (
        plan.devices.filter(pl.col("ru").is_not_null())
        .with_columns(height=pl.col("model").replace_strict(height, default=1, return_dtype=pl.Int64))
        .select("rack", unit=pl.int_ranges(pl.col("ru"), pl.col("ru") + pl.col("height")))
        .explode("unit")
    )


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 300),
    st.sampled_from(["hgx-h100", "dgx-b300", "generic-4gpu-400g"]),
    st.sampled_from([20e3, 44e3, 130e3]),
    st.sampled_from(["top-of-rack", "middle-of-row", "end-of-row"]),
    st.sampled_from([6, 16]),
)
def test_every_box_stands_alone_in_its_units_and_racks_keep_height_and_power(
    servers: int, server: str, power: float, switches: str, per_row: int
) -> None:
    racks = {"power": power, "switches": switches, "racks_per_row": per_row}
    plan = _plan(servers, server, racks, topology="rail-optimized")
    assert plan.devices["rack"].null_count() == 0
    units = _units(plan)
    assert units.is_unique().all()
    assert units["unit"].min() == 1
    assert units["unit"].max() <= 48 - TOP_RU
    drawn = plan.devices.group_by("rack").agg(pl.col("power_w").sum(), pl.len())
    assert (drawn.filter(pl.col("len") > 1)["power_w"] <= power).all()
    assert plan.racks.select("row", "position").is_unique().all()
    assert plan.racks["position"].max() <= per_row


def test_four_dgx_h100_share_a_rack_of_44_kw() -> None:
    plan = _plan(127, "dgx-h100", {"power": 44e3})
    per_rack = plan.devices.filter(pl.col("role") == "server").group_by("rack").len()
    assert per_rack["len"].max() == 4
    assert len(per_rack) == 32


def test_trays_of_an_nvl72_stay_in_their_factory_built_rack() -> None:
    plan = _plan(36, "gb200-nvl72", {})
    assert plan.devices.filter(pl.col("role") == "server").group_by("rack").len()["len"].to_list() == [18, 18]


def test_network_racks_stand_in_the_middle_of_their_row() -> None:
    plan = _plan(60, "hgx-h100", {"racks_per_row": 16}, topology="rail-optimized", switch="generic-64x400")
    row = plan.racks.filter(pl.col("row") == 1).sort("position")
    kinds = row["kind"].cast(pl.String).to_list()
    first = kinds.index("network")
    assert 0 < first < len(kinds) - 1
    assert abs(first - kinds[::-1].index("network")) <= 1


def test_leaves_on_top_of_racks_share_them_with_servers() -> None:
    plan = _plan(64, "hgx-h100", {"switches": "top-of-rack"}, topology="rail-optimized", switch="generic-64x400")
    racks = plan.devices.join(plan.racks.select("rack_id", "kind"), left_on="rack", right_on="rack_id")
    assert racks.filter(pl.col("role") == "leaf")["kind"].cast(pl.String).unique().to_list() == ["compute"]


@pytest.mark.parametrize("sites", [1, 2])
def test_servers_stand_in_equal_blocks_at_the_sites_with_a_backend(
    sites: int, backend_plan: Callable[..., Plan]
) -> None:
    spec = {
        "name": "test",
        "cluster": {"servers": 32, "server": "hgx-h100"},
        "sites": [{"name": f"s{n}"} for n in range(sites)] + [{"name": "office", "backend": False, "distance": 100}],
        **{network: {"enabled": False} for network in ("frontend", "storage", "management")},
    }
    plan = design_plan(ClusterSpec.model_validate(spec), CATALOG)
    servers = plan.devices.filter(pl.col("role") == "server").group_by("site").len()
    assert dict(servers.iter_rows()) == {f"s{n}": 32 // sites for n in range(sites)}


def _network_heights(plan: Plan) -> list[int]:
    """Return the occupied units of every rack without GPU servers; 0 for an empty one."""
    racks = plan.racks.filter(pl.col("kind") != "compute")["rack_id"].to_list()
    used = dict(_units(plan).group_by("rack").len().iter_rows())
    return [used.get(rack, 0) for rack in racks]


def test_as_many_network_racks_stand_as_asked_for_and_they_are_filled_evenly() -> None:
    fewest = _network_heights(_plan(128, "hgx-h100", {"power": "44 kW"}))
    asked = _network_heights(_plan(128, "hgx-h100", {"power": "44 kW", "network_racks": 6}))
    assert len(fewest) < 6 == len(asked)
    assert sum(asked) == sum(fewest)
    tallest = 2
    assert max(asked) - min(asked) <= tallest
    assert min(asked) > 0


def test_fewer_network_racks_than_the_boxes_need_are_an_error_that_says_how_many() -> None:
    needed = len(_network_heights(_plan(512, "hgx-h100", {"power": "44 kW"})))
    with pytest.raises(InputError, match=f"{needed} are needed") as error:
        _plan(512, "hgx-h100", {"power": "44 kW", "network_racks": 1})
    assert needed > 1
    assert error.value.key == "sites.racks.network_racks"
