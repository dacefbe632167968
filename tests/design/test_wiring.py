"""Laws that every backend keeps, whatever its size and radix."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railwright.catalog.load import Catalog, load_catalog
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.errors import InputError
from railwright.spec.cluster import ClusterSpec

SMALL = """
  small-{cages}-{ports}:
    name: Any {cages} cages of {ports} x 400G
    vendor: generic
    asic: any
    protocol: ethernet
    capacity_gbps: {capacity}
    cages: [{{count: {cages}, form_factor: osfp-ihs, lanes: 8, lane_gbps: 100, breakouts: [{ports}x400, {split}x200]}}]
    ru: 1
    nos: [sonic]
    port_name: {{sonic: "Ethernet{{lane}}"}}
"""


@cache
def small_catalog() -> Catalog:
    """Return the catalog with switches of 8 to 24 cages, of one or two ports of 400G each."""
    entries = [
        SMALL.format(cages=cages, ports=ports, split=2 * ports, capacity=cages * ports * 400)
        for cages in range(8, 25)
        for ports in (1, 2)
    ]
    with TemporaryDirectory() as directory:
        file = Path(directory) / "small.yaml"
        file.write_text("switches:" + "".join(entries), encoding="utf-8")
        return load_catalog(file)


def _plan(servers: int, switch: str, server: str = "generic-8gpu-400g", **backend: Any) -> Plan:
    spec = {
        "name": "test",
        "cluster": {"servers": servers, "server": server},
        "backend": {"switch": switch, **backend},
        **{network: {"enabled": False} for network in ("frontend", "storage", "management")},
    }
    return design_plan(ClusterSpec.model_validate(spec), small_catalog())


@st.composite
def fabrics(draw: st.DrawFn) -> Plan:
    """Plans of any topology; sizes that a radix cannot reach are drawn again."""
    switch = f"small-{draw(st.integers(8, 24))}-{draw(st.sampled_from([1, 2]))}"
    topology = draw(st.sampled_from(["rail-only", "rail-optimized", "leaf-spine", "multi-plane", "auto"]))
    backend: dict[str, Any] = {"topology": topology}
    if topology == "multi-plane":
        backend["planes"] = draw(st.sampled_from([2, 8]))
    if topology in ("rail-optimized", "leaf-spine"):
        backend["oversubscription"] = {"leaf": draw(st.sampled_from([1.0, 1.5, 2.0, 3.0]))}
        backend["full_units"] = draw(st.booleans())
    server = draw(st.sampled_from(["generic-8gpu-400g", "generic-4gpu-400g", "gb200-nvl72"]))
    if topology == "multi-plane" and server != "generic-8gpu-400g":
        backend["planes"] = 2
    for servers in (draw(st.integers(1, 120)), draw(st.integers(1, 8))):
        try:
            return _plan(servers, switch, server, **backend)
        except InputError:
            continue
    return _plan(1, "small-24-2", "generic-4gpu-400g", topology="rail-only")


@settings(max_examples=60, deadline=None)
@given(fabrics())
def test_every_nic_port_has_one_link_and_no_port_two(plan: Plan) -> None:
    used = pl.concat([plan.links["a_port"], plan.links["b_port"]])
    assert used.is_unique().all()
    assert set(used) == set(plan.ports["port_id"])
    assert plan.ports.select("device_id", "name").is_unique().all()
    switch_ports = plan.ports.filter(pl.col("lanes").is_not_null())
    assert switch_ports.select("device_id", "cage", "lane_first").is_unique().all()
    per_server = plan.links.filter(pl.col("tier") == "host")["speed_gbps"].sum() / _servers(plan)
    server = plan.catalog.server(plan.spec.cluster.server)
    assert per_server == server.backend.count * server.backend.gbps


@settings(max_examples=60, deadline=None)
@given(fabrics())
def test_no_switch_has_more_ports_than_its_platform(plan: Plan) -> None:
    cages = plan.catalog.switch(plan.facts["backend"]["leaf_switch"]).cages[0].count
    assert plan.ports.filter(pl.col("lanes").is_not_null())["cage"].max() <= cages


@settings(max_examples=60, deadline=None)
@given(fabrics())
def test_capacity_up_is_at_least_what_the_oversubscription_asks_for(plan: Plan) -> None:
    capacity = _capacity(plan).filter(pl.col("up") > 0)
    ratio = plan.spec.backend.oversubscription
    for role, limit in (("leaf", ratio.leaf), ("spine", ratio.spine)):
        tier = capacity.filter(pl.col("role") == role)
        assert (tier["down"] <= tier["up"] * limit * (1 + 1e-9)).all()


@settings(max_examples=60, deadline=None)
@given(fabrics())
def test_links_between_two_tiers_are_spread_evenly(plan: Plan) -> None:
    links = plan.named_links().filter(pl.col("tier") != "host")
    bundles = links.group_by("tier", "a_device", "b_device").len()
    assert bundles.group_by("tier", "a_device").agg(pl.col("len").n_unique())["len"].to_list() == [1] * (
        bundles.select("tier", "a_device").n_unique()
    )


@settings(max_examples=60, deadline=None)
@given(fabrics())
def test_a_leaf_failure_takes_at_most_one_rail_of_a_server(plan: Plan) -> None:
    if plan.facts["backend"]["topology"] == "leaf-spine":
        return
    hosts = plan.named_links().filter(pl.col("tier") == "host")
    assert hosts.group_by("a_device", "b_device").agg(pl.col("a_nic").n_unique())["a_nic"].max() == 1


@settings(max_examples=60, deadline=None)
@given(fabrics())
def test_every_pair_of_nics_that_has_to_meet_does(plan: Plan) -> None:
    reached = _components(plan)
    hosts = plan.named_links().filter((pl.col("tier") == "host") & (pl.col("a_role") == "server"))
    of_leaf = hosts.select("rail", "plane", component=pl.Series(reached[hosts["b_device_id"].to_numpy()]))
    separate = plan.facts["backend"]["fabrics"] > of_leaf["plane"].drop_nulls().n_unique() or (
        plan.facts["backend"]["topology"] == "rail-only"
    )
    key = ["plane", "rail"] if separate else ["plane"]
    assert of_leaf.group_by(key).agg(pl.col("component").n_unique())["component"].max() == 1


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 128), st.sampled_from(["generic-64x400", "generic-128x400", "generic-64x800"]))
def test_rail_only_pairs_of_one_rank_are_one_switch_apart(servers: int, switch: str) -> None:
    servers = min(servers, small_catalog().switch(switch).ports_at(400))
    plan = _plan(servers, switch, topology="rail-only")
    hosts = plan.named_links().filter(pl.col("tier") == "host")
    assert hosts.group_by("rail").agg(pl.col("b_device").n_unique())["b_device"].to_list() == [1] * 8
    assert plan.devices.filter(pl.col("role") == "spine").is_empty()


def test_rail_only_128_gpus_needs_8_leaves_and_no_spine(backend_plan: Callable[..., Plan]) -> None:
    plan = backend_plan(16)
    assert dict(plan.devices.group_by("role").len().iter_rows()) == {"server": 16, "leaf": 8}
    assert len(plan.links) == 128


def test_three_tier_pods_meet_core_groups_spine_by_spine(backend_plan: Callable[..., Plan]) -> None:
    plan = backend_plan(512, "dgx-h100", topology="rail-optimized", transport="infiniband", switch="qm9700")
    links = plan.named_links().filter(pl.col("tier") == "spine_core")
    spine = links["a_device"].str.extract(r"spine(\d+)$").cast(pl.Int64)
    core = links["b_device"].str.extract(r"core(\d+)$").cast(pl.Int64)
    assert ((core - 1) // 2 + 1 == spine).all()


def test_given_counts_are_obeyed_and_dealt_round_robin(backend_plan: Callable[..., Plan]) -> None:
    plan = backend_plan(128, topology="rail-optimized", switch="generic-64x400", counts={"spines": 24})
    links = plan.named_links().filter(pl.col("tier") == "leaf_spine")
    bundles = links.group_by("a_device", "b_device").len()["len"]
    assert plan.devices.filter(pl.col("role") == "spine").height == 24
    assert set(bundles) == {1, 2}
    assert set(links.group_by("b_device").len()["len"]) <= {42, 43}


def test_given_leaves_that_do_not_divide_into_units_are_dealt_round_robin(backend_plan: Callable[..., Plan]) -> None:
    plan = backend_plan(64, topology="rail-optimized", switch="generic-64x400", counts={"leaves": 18})
    hosts = plan.named_links().filter(pl.col("tier") == "host")
    assert plan.devices.filter(pl.col("role") == "leaf").height == 18
    assert set(hosts.group_by("b_device").len()["len"]) <= {28, 29}


def test_given_counts_beyond_the_radix_still_plan_on_cages_that_do_not_exist(backend_plan: Callable[..., Plan]) -> None:
    plan = backend_plan(256, topology="rail-optimized", switch="generic-64x400", counts={"spines": 16})
    spines = plan.devices.filter(pl.col("role") == "spine")
    ports = plan.ports.join(spines, on="device_id", how="semi")
    assert spines.height == 16
    assert ports["cage"].max() == 128
    assert ports.select("device_id", "name").is_unique().all()


def test_surplus_cages_follow_the_management_cages_of_a_switch(backend_plan: Callable[..., Plan]) -> None:
    plan = backend_plan(256, topology="rail-optimized", switch="sn5400", counts={"spines": 16})
    spines = plan.devices.filter(pl.col("role") == "spine")
    cages = plan.ports.join(spines, on="device_id", how="semi")["cage"].unique().sort().to_list()
    assert cages == [*range(1, 65), *range(67, 131)]


def test_dual_plane_nic_ports_end_on_leaves_of_two_planes(backend_plan: Callable[..., Plan]) -> None:
    plan = backend_plan(32, "dgx-b300", topology="multi-plane", planes=2)
    hosts = plan.named_links().filter(pl.col("tier") == "host")
    per_nic = hosts.group_by("a_device", "a_nic").agg(pl.col("plane").n_unique(), pl.col("speed_gbps").sum())
    assert per_nic["plane"].unique().to_list() == [2]
    assert per_nic["speed_gbps"].unique().to_list() == [800.0]


def test_names_carry_plane_rail_and_pod(backend_plan: Callable[..., Plan]) -> None:
    planes = backend_plan(32, "dgx-b300", topology="multi-plane", planes=2).devices["name"]
    pods = backend_plan(512, "dgx-h100", topology="rail-optimized", transport="infiniband").devices["name"]
    assert {"plane2-rail3-leaf1", "plane1-spine1"} <= set(planes)
    assert {"rail3-leaf16", "pod2-spine3", "core1", "server-0001"} <= set(pods)


@pytest.mark.parametrize(
    ("servers", "backend", "words"),
    [
        (256, {"topology": "rail-only", "switch": "generic-128x400"}, ["1024 GPUs", "rail-optimized"]),
        (512, {"topology": "rail-optimized", "tiers": 2, "switch": "generic-64x400"}, ["2048", "tiers: 3"]),
        (16, {"topology": "rail-optimized", "tiers": 1}, ["rail-only"]),
        (16, {"leaf_switch": "qm9700"}, ["infiniband", "ethernet"]),
        (16, {"leaf_switch": "sn4600c"}, ["400G", "100G"]),
        (16, {"topology": "leaf-spine", "switch": "sn4700", "servers_per_unit": 4}, ["no uplink"]),
        (512, {"topology": "rail-optimized", "pod_units": 9, "switch": "generic-64x400"}, ["at most 4"]),
        (
            128,
            {"transport": "infiniband", "topology": "rail-optimized", "switch": "qm9700", "subnet_managers": 2},
            ["127"],
        ),
    ],
)
def test_what_cannot_be_built_says_what_would_be_right(
    servers: int, backend: dict[str, Any], words: list[str], backend_plan: Callable[..., Plan]
) -> None:
    with pytest.raises(InputError) as caught:
        backend_plan(servers, **backend)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert str(caught.value).startswith("backend.")


@pytest.mark.parametrize(
    ("servers", "server", "backend", "topology"),
    [
        (16, "hgx-h100", {}, "rail-only"),
        (128, "hgx-h100", {}, "rail-only"),
        (129, "hgx-h100", {}, "rail-optimized"),
        (16, "hgx-h100", {"pod_units": 1}, "rail-optimized"),
        (512, "dgx-b300", {}, "multi-plane"),
    ],
)
def test_auto_picks_by_size_and_ports(
    servers: int, server: str, backend: dict[str, Any], topology: str, backend_plan: Callable[..., Plan]
) -> None:
    plan = backend_plan(servers, server, **backend)
    assert plan.facts["backend"]["topology"] == topology
    assert any(r["what"] == "topology" and r["why"].startswith("auto:") for r in plan.reasons)


def test_auto_takes_spines_when_the_workload_crosses_rails_in_the_network(catalog: Catalog) -> None:
    spec = {
        "name": "test",
        "cluster": {"gpus": 128, "server": "hgx-h100"},
        "workload": {"name": "deepseek-v3", "cross_rail": "network"},
    }
    assert design_plan(ClusterSpec.model_validate(spec), catalog).facts["backend"]["topology"] == "rail-optimized"


def _servers(plan: Plan) -> int:
    return len(plan.devices.filter(pl.col("role") == "server"))


def _capacity(plan: Plan) -> pl.DataFrame:
    return (
        plan.ports.join(plan.devices.select("device_id", "role"), on="device_id")
        .group_by("device_id", "role")
        .agg(
            down=pl.col("speed_gbps").filter(pl.col("direction") == "down").sum(),
            up=pl.col("speed_gbps").filter(pl.col("direction") == "up").sum(),
        )
    )


def _components(plan: Plan) -> np.ndarray:
    """Return a label per device id; switches that links between switches join have the same one."""
    links = plan.named_links().filter(pl.col("tier") != "host")
    lower, upper = links["a_device_id"].to_numpy(), links["b_device_id"].to_numpy()
    label = np.arange(len(plan.devices))
    for _ in range(len(plan.devices)):
        before = label.copy()
        np.minimum.at(label, lower, label[upper])
        np.minimum.at(label, upper, label[lower])
        if (before == label).all():
            break
    return label
