"""Management: every box reachable out of band, switches per rack group, uplinks, the published out-of-band network."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railwright.catalog.load import load_catalog
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.design.rack_groups import group_racks
from railwright.errors import InputError
from railwright.spec.load import load_spec

MakePlan = Callable[..., Plan]
EXAMPLES = Path(__file__).parents[2] / "examples"


def links(plan: Plan, tier: str) -> pl.DataFrame:
    return plan.named_links().filter((pl.col("tier") == tier) & (pl.col("network") == "management"))


def published(what: str) -> int:
    facts = pl.read_csv(Path(__file__).parent / "facts" / "h100_superpod_4su_networks.csv")
    return int(facts.filter(pl.col("what") == what)["count"].item())


@pytest.fixture(scope="module")
def superpod() -> Plan:
    return design_plan(load_spec(EXAMPLES / "h100-superpod-4su.yaml"), load_catalog())


def test_every_box_has_one_port_out_of_band(make_plan: MakePlan) -> None:
    plan = make_plan(100, demand={"requests": 1e5})
    managed = plan.devices.filter(~pl.col("role").is_in(["oob", "tor", "external"]))
    reached = links(plan, "oob")["a_device_id"]
    assert reached.sort().to_list() == managed["device_id"].sort().to_list()


def test_access_switches_serve_whole_racks_within_their_ports(make_plan: MakePlan) -> None:
    plan = make_plan(200)
    served = links(plan, "oob").join(
        plan.devices.select("device_id", served="rack"), left_on="a_device_id", right_on="device_id"
    )
    assert max(served.group_by("b_device").len()["len"]) <= 48
    per_rack = served.group_by("served").agg(boxes=pl.len(), switches=pl.col("b_device").n_unique())
    assert per_rack.filter(pl.col("boxes") <= 48)["switches"].unique().to_list() == [1]


def test_access_switches_stand_in_the_first_rack_that_they_serve(make_plan: MakePlan) -> None:
    plan = make_plan(200)
    served = links(plan, "oob").join(
        plan.devices.select("device_id", served="rack"), left_on="a_device_id", right_on="device_id"
    )
    first = served.group_by(pl.col("b_device_id").alias("device_id")).agg(pl.col("served").min())
    stands = plan.devices.filter(pl.col("role") == "oob").join(first, on="device_id")
    assert stands.select((pl.col("rack") == pl.col("served")).all()).item()


def test_every_rack_has_its_pdus(make_plan: MakePlan) -> None:
    plan = make_plan(100, management={"pdus_per_rack": 3, "pdus_per_network_rack": 1})
    pdus = plan.devices.filter(pl.col("role") == "pdu").group_by(pl.col("rack").alias("rack_id")).len()
    per_kind = (
        plan.racks.join(pdus, on="rack_id", how="left")
        .group_by(pl.col("kind") == "compute")
        .agg(pl.col("len").unique())
    )
    assert dict(per_kind.iter_rows()) == {True: [3], False: [1]}


def test_each_access_switch_has_two_uplinks_to_two_switches(make_plan: MakePlan) -> None:
    up = links(make_plan(300), "uplink").group_by("a_device").agg(pl.len(), pl.col("b_device").n_unique())
    assert up["len"].unique().to_list() == [2]
    assert up["b_device"].unique().to_list() == [2]


def test_physically_apart_it_has_an_aggregation_of_its_own_else_it_ends_on_the_frontend(make_plan: MakePlan) -> None:
    apart, shared = make_plan(), make_plan(management={"isolation": "vrf"})
    assert set(links(apart, "uplink")["b_role"].cast(pl.String)) == {"spine"}
    above = set(links(apart, "uplink")["b_device_id"])
    assert set(apart.devices.filter(pl.col("device_id").is_in(list(above)))["network"].cast(pl.String)) == {
        "management"
    }
    assert set(links(shared, "uplink")["b_role"].cast(pl.String)) == {"border"}
    assert len(shared.devices.filter((pl.col("network") == "management") & (pl.col("role") == "spine"))) == 0


def test_many_access_switches_take_several_aggregation_pairs_under_cores(make_plan: MakePlan) -> None:
    # 60 access switches fit a pair of 64-port switches that keep 4 ports free.
    plan = make_plan(3000, storage={"enabled": False})
    access = plan.devices.filter(pl.col("role") == "oob")
    pairs = -(-len(access) // 60)
    assert len(plan.devices.filter((pl.col("network") == "management") & (pl.col("role") == "spine"))) == 2 * pairs
    assert len(plan.devices.filter((pl.col("network") == "management") & (pl.col("role") == "core"))) == 2
    assert len(links(plan, "spine_core")) == 2 * pairs * 2


def test_in_band_switches_of_its_own_reach_every_server_and_cpu_node(make_plan: MakePlan) -> None:
    plan = make_plan(management={"in_band": "own"})
    hosts = links(plan, "host")
    wanted = plan.devices.filter(pl.col("role").is_in(["server", "head", "service", "storage"]))
    assert hosts["a_device_id"].sort().to_list() == wanted["device_id"].sort().to_list()
    assert set(hosts["b_role"].cast(pl.String)) == {"tor"}


def test_management_ports_stand_in_no_cage(make_plan: MakePlan) -> None:
    plan = make_plan()
    own = plan.ports.join(links(plan, "oob").select(port_id="a_port"), on="port_id", how="semi")
    assert own["cage"].unique().to_list() == [0]


def test_a_switch_without_1g_ports_is_refused_with_its_rates(make_plan: MakePlan) -> None:
    with pytest.raises(InputError, match=r"sn5600 has no port of 1G; it offers 100G") as caught:
        make_plan(8, management={"oob_switch": "sn5600"})
    assert caught.value.key == "management.oob_switch"


@given(st.lists(st.integers(0, 60), min_size=1, max_size=40), st.integers(1, 5))
def test_racks_that_come_later_move_no_port(counts: list[int], later: int) -> None:
    grown = [*counts, *[7] * later]
    before, after = (group_racks(np.repeat(np.arange(len(racks)), racks), len(racks), 48) for racks in (counts, grown))
    endpoints = sum(counts)
    assert np.array_equal(before.switch, after.switch[:endpoints])
    assert np.array_equal(before.slot, after.slot[:endpoints])
    assert np.array_equal(before.standing, after.standing[: before.switches])


@given(st.lists(st.integers(0, 120), min_size=1, max_size=40))
def test_no_two_endpoints_share_a_port_and_no_switch_has_more_than_it_has_ports(counts: list[int]) -> None:
    groups = group_racks(np.repeat(np.arange(len(counts)), counts), len(counts), 48)
    seats = set(zip(groups.switch.tolist(), groups.slot.tolist(), strict=True))
    assert len(seats) == sum(counts)
    assert groups.slot.max(initial=0) < 48
    assert groups.switch.max(initial=-1) < groups.switches


def test_the_published_out_of_band_network_comes_out_of_the_example(superpod: Plan) -> None:
    # The example does not insist on the number of access switches: it follows from racks and ports.
    assert superpod.spec.management.counts.leaves is None
    oob = links(superpod, "oob").join(
        superpod.devices.select("device_id", "network", "model", "rack"), left_on="a_device_id", right_on="device_id"
    )
    roles = dict(oob.group_by(pl.col("a_role").cast(pl.String)).len().iter_rows())
    models = dict(oob.group_by("model").len().iter_rows())
    assert roles["server"] == published("oob cables to servers")
    assert models["qm9700"] == published("oob cables to InfiniBand switches")
    assert models["sn4600c"] == published("oob cables to in-band switches")
    assert roles["head"] + roles["appliance"] == published("oob cables to management and UFM")
    assert len(superpod.devices.filter(pl.col("role") == "oob")) == published("oob switches")
    assert len(links(superpod, "uplink")) == published("oob uplinks")
    in_compute = superpod.devices.filter(pl.col("role") == "pdu").join(
        superpod.racks.filter(pl.col("kind") == "compute"), left_on="rack", right_on="rack_id"
    )
    assert len(in_compute) == published("PDUs in compute racks")
