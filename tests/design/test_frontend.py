"""The frontend: dual-homing, oversubscription, the entrance and its redundancy, several sites, the published in-band network."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from railwright.catalog.load import Catalog, load_catalog
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.design.server_ports import frontend_ports
from railwright.errors import InputError
from railwright.spec.cluster import Frontend
from railwright.spec.load import load_spec

MakePlan = Callable[..., Plan]
EXAMPLES = Path(__file__).parents[2] / "examples"


def count(plan: Plan, role: str, network: str = "frontend", **also: Any) -> int:
    chosen = plan.devices.filter((pl.col("role") == role) & (pl.col("network") == network))
    for column, value in also.items():
        chosen = chosen.filter(pl.col(column) == value)
    return len(chosen)


def links(plan: Plan, tier: str, network: str = "frontend") -> pl.DataFrame:
    return plan.named_links().filter((pl.col("tier") == tier) & (pl.col("network") == network))


def published(what: str) -> int:
    facts = pl.read_csv(Path(__file__).parent / "facts" / "h100_superpod_4su_networks.csv")
    return int(facts.filter(pl.col("what") == what)["count"].item())


@pytest.fixture(scope="module")
def superpod() -> Plan:
    return design_plan(load_spec(EXAMPLES / "h100-superpod-4su.yaml"), load_catalog())


def test_every_server_hangs_on_the_two_leaves_of_a_pair(make_plan: MakePlan) -> None:
    plan = make_plan(200)
    by_server = links(plan, "host").group_by("a_device").agg(pl.col("b_device_id").unique().sort())
    pairs = by_server["b_device_id"].to_list()
    assert len(pairs) == 200
    first = min(plan.devices.filter((pl.col("network") == "frontend") & (pl.col("role") == "leaf"))["device_id"])
    assert all(len(pair) == 2 and pair[1] == pair[0] + 1 and (pair[0] - first) % 2 == 0 for pair in pairs)


def test_two_adapters_of_a_server_lead_to_two_leaves(make_plan: MakePlan) -> None:
    hosts = links(make_plan(32, "dgx-h100"), "host")
    assert hosts.group_by("a_device").agg(pl.col("a_nic").n_unique(), pl.col("b_device").n_unique())[
        "a_nic"
    ].unique().to_list() == [2]


def test_four_ports_of_two_adapters_reach_both_leaves_from_each_adapter(catalog: Catalog) -> None:
    server = catalog.server("dgx-h100")
    wide = server.model_copy(update={"frontend": server.frontend.model_copy(update={"ports": 2})})
    ports, _ = frontend_ports(wide, Frontend())
    port = np.arange(ports.count)
    reached = {(int(p % ports.adapters), int(s)) for p, s in zip(port, ports.side(port), strict=True)}
    assert reached == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_lacp_hangs_a_server_on_one_leaf(make_plan: MakePlan) -> None:
    hosts = links(make_plan(64, frontend={"attach": "lacp"}), "host")
    assert hosts.group_by("a_device").agg(pl.col("b_device").n_unique())["b_device"].unique().to_list() == [1]
    assert len(hosts) == 128


@pytest.mark.parametrize("ratio", [1.0, 2.0, 3.0, 5.0])
@pytest.mark.parametrize("servers", [8, 100, 700])
def test_no_leaf_is_oversubscribed_beyond_the_target(make_plan: MakePlan, servers: int, ratio: float) -> None:
    plan = make_plan(servers, frontend={"oversubscription": ratio}, storage={"enabled": False})
    leaves = plan.devices.filter((pl.col("network") == "frontend") & (pl.col("role") == "leaf"))
    sums = (
        plan.ports.join(leaves.select("device_id"), on="device_id")
        .group_by("device_id")
        .agg(
            down=pl.col("speed_gbps").filter(pl.col("direction") == "down").sum(),
            up=pl.col("speed_gbps").filter(pl.col("direction") == "up").sum(),
        )
    )
    assert sums.select((pl.col("down") <= ratio * pl.col("up") * 1.0001).all()).item()


def test_three_to_one_on_64_cages_is_96_ports_of_200g_over_16_uplinks_of_400g(make_plan: MakePlan) -> None:
    # 48 cages of 2 x 200G are 19.2 Tb/s down, 16 of 400G 6.4 Tb/s up: a pair holds 96 dual-homed servers.
    plan = make_plan(97)
    assert count(plan, "leaf") == 4
    assert count(make_plan(96), "leaf") == 2
    uplinks = links(plan, "leaf_spine").filter(pl.col("a_device") == "frontend-leaf1")
    assert len(uplinks) == 16


def test_spines_are_at_least_two_and_divide_the_uplinks_of_a_leaf(make_plan: MakePlan) -> None:
    for servers in (4, 96, 400, 900):
        plan = make_plan(servers, storage={"enabled": False})
        spines = count(plan, "spine")
        assert spines >= 2
        bundles = links(plan, "leaf_spine").group_by("a_device", "b_device").len()
        assert bundles.group_by("a_device").agg(pl.col("len").n_unique())["len"].unique().to_list() == [1]
        assert bundles.group_by("a_device").len()["len"].unique().to_list() == [spines]


def test_thousands_of_servers_take_three_tiers(make_plan: MakePlan) -> None:
    plan = make_plan(12_500, storage={"enabled": False})
    assert count(plan, "core") > 0
    pods = plan.devices.filter((pl.col("network") == "frontend") & (pl.col("role") == "spine"))["pod"].n_unique()
    leaf_pods = links(plan, "leaf_spine").join(
        plan.devices.select("device_id", a_pod="pod"), left_on="a_device_id", right_on="device_id"
    )
    same = leaf_pods.join(plan.devices.select("device_id", b_pod="pod"), left_on="b_device_id", right_on="device_id")
    assert pods > 1
    assert same.select((pl.col("a_pod") == pl.col("b_pod")).all()).item()


def test_a_slower_uplink_is_taken_where_it_saves_a_third_tier(make_plan: MakePlan) -> None:
    plan = make_plan(2048, "dgx-b200", storage={"oversubscription": 1})
    assert plan.facts["storage"]["uplink_gbps"] == 400
    assert count(plan, "core", "storage") == 0
    assert make_plan(512, "dgx-b200").facts["storage"]["uplink_gbps"] == 800


def test_the_entrance_has_two_of_everything_without_a_demand(make_plan: MakePlan) -> None:
    plan = make_plan()
    assert {role: count(plan, role) for role in ("border", "firewall", "load_balancer", "external")} == {
        "border": 2,
        "firewall": 2,
        "load_balancer": 2,
        "external": 2,
    }
    assert count(plan, "service") == 0
    assert len(links(plan, "border")) == 2


def test_the_entrance_follows_from_the_demand(make_plan: MakePlan) -> None:
    # 1,000,000/s x 40 kB x 8 x 1.5 = 480 Gb/s out, 4 kB in: 48 Gb/s. Firewalls ceil(528/400) + 1, balancers ceil(528/200) + 1,
    # nodes ceil(1.5e6/5000) + 1, external links: 5 of 100G on each border, because one border must do.
    plan = make_plan(demand={"requests": 1e6, "request_bytes": 4e3, "response_bytes": 40e3})
    assert count(plan, "firewall") == 3
    assert count(plan, "load_balancer") == 4
    assert count(plan, "service") == 301
    assert len(links(plan, "border")) == 10


def test_external_links_are_dealt_over_borders_and_routers(make_plan: MakePlan) -> None:
    outside = links(make_plan(frontend={"external_links": 8}), "border")
    assert outside.group_by("a_device", "b_device").len()["len"].to_list() == [2, 2, 2, 2]


def test_every_box_of_the_entrance_hangs_on_two_switches(make_plan: MakePlan) -> None:
    plan = make_plan(demand={"requests": 1e6})
    homes = links(plan, "service").group_by("a_device").agg(pl.col("b_device").n_unique())
    assert homes["b_device"].unique().to_list() == [2]
    assert len(homes) == sum(count(plan, role) for role in ("firewall", "load_balancer", "service", "head", "storage"))


def test_a_firewall_keeps_its_throughput_when_a_border_is_lost(make_plan: MakePlan) -> None:
    plan = make_plan(frontend={"firewall_gbps": 1000})
    at_border = (
        links(plan, "service")
        .filter(pl.col("a_role") == "firewall")
        .group_by("a_device", "b_device")
        .agg(pl.col("speed_gbps").sum())
    )
    assert min(at_border["speed_gbps"]) >= 1000


def test_service_nodes_beyond_the_borders_get_leaf_pairs_of_their_own(make_plan: MakePlan) -> None:
    plan = make_plan(frontend={"service_nodes": 600})
    service = plan.devices.filter(pl.col("name").str.starts_with("frontend-service-leaf"))
    assert len(service) >= 2
    assert len(service) % 2 == 0


def test_without_borders_the_spines_face_the_outside(make_plan: MakePlan) -> None:
    plan = make_plan(frontend={"border_leaves": 0})
    assert count(plan, "border") == 0
    assert links(plan, "border")["a_role"].cast(pl.String).unique().to_list() == ["spine"]


def test_two_sites_share_the_demand_and_are_joined_between_their_borders(make_plan: MakePlan) -> None:
    plan = make_plan(
        sites=[{"name": "north"}, {"name": "south", "distance": 40_000, "backend": False}],
        demand={"requests": 80e3, "request_bytes": 8e3, "response_bytes": 64e3},
        frontend={"anycast": True},
    )
    # With anycast each site can carry all: 80,000/s x 1.5 / 5000 + 1 = 25 nodes at both.
    assert [count(plan, "service", site=site) for site in ("north", "south")] == [25, 25]
    assert [count(plan, role, site="south") for role in ("border", "firewall", "load_balancer", "spine")] == [
        2,
        2,
        2,
        2,
    ]
    assert (
        len(
            links(plan, "leaf_spine").filter(
                pl.col("a_device").str.starts_with("north") != pl.col("b_device").str.starts_with("north")
            )
        )
        == 0
    )
    between = links(plan, "peer")
    assert {(row["a_role"], row["b_role"]) for row in between.iter_rows(named=True)} == {("border", "border")}
    assert between["a_device"].n_unique() == between["b_device"].n_unique() == 2


def test_one_anycast_address_stands_on_every_balancer_and_one_per_site_without_anycast(make_plan: MakePlan) -> None:
    sites = [{"name": "north"}, {"name": "south", "distance": 40_000, "backend": False}]
    for anycast, expected in ((True, 1), (False, 2)):
        plan = make_plan(sites=sites, frontend={"anycast": anycast})
        vips = plan.addresses.filter(pl.col("kind") == "vip")
        assert len(vips) == 4
        assert vips["address"].n_unique() == expected


def test_head_nodes_stand_with_the_servers_and_explicit_nodes_are_split_by_share(make_plan: MakePlan) -> None:
    plan = make_plan(
        sites=[{"name": "a", "share": 0.75}, {"name": "b", "share": 0.25, "backend": False}],
        frontend={"service_nodes": 8},
    )
    assert [count(plan, "service", site=site) for site in ("a", "b")] == [6, 2]
    assert [count(plan, "head", site=site) for site in ("a", "b")] == [4, 0]


def test_insisted_counts_are_built_as_given(make_plan: MakePlan) -> None:
    plan = make_plan(
        frontend={"counts": {"leaves": 3, "spines": 1, "leaf_up_ports": 5}, "firewalls": 1, "load_balancers": 0}
    )
    assert (count(plan, "leaf"), count(plan, "spine"), count(plan, "firewall"), count(plan, "load_balancer")) == (
        3,
        1,
        1,
        0,
    )
    hosts = links(plan, "host").group_by("a_device").agg(pl.col("b_device").n_unique())
    assert hosts["b_device"].unique().to_list() == [2]
    from_leaves = links(plan, "leaf_spine").filter(pl.col("a_role") == "leaf")
    assert from_leaves.group_by("a_device").len()["len"].to_list() == [5, 5, 5]


def test_ports_of_a_server_run_slower_on_a_slower_switch(make_plan: MakePlan) -> None:
    plan = make_plan(32, "dgx-h100", frontend={"leaf_switch": "sn4600c"})
    assert links(plan, "host")["speed_gbps"].unique().to_list() == [100]
    assert "run at 100G" in next(
        r["why"] for r in plan.reasons if (r["network"], r["what"]) == ("frontend", "leaf_switch")
    )


@pytest.mark.parametrize(
    ("frontend", "key", "said"),
    [
        ({"leaf_switch": "qm9700"}, "frontend.leaf_switch", "infiniband switch"),
        ({"leaf_switch": "sn2201"}, "frontend.leaf_switch", "no port of 200G; it offers 1G"),
        ({"ports_per_server": 3}, "frontend.ports_per_server", "has 2 frontend ports, not 3"),
        ({"external_gbps": 33}, "frontend.external_gbps", "no port of 33G"),
        ({"uplink_gbps": 25}, "frontend.uplink_gbps", "no port of 25G"),
        ({"spine_switch": "sn4600c", "uplink_gbps": 400}, "frontend.uplink_gbps", "sn4600c has no port of 400G"),
    ],
)
def test_what_cannot_be_built_is_said_with_its_key(
    make_plan: MakePlan, frontend: dict[str, Any], key: str, said: str
) -> None:
    with pytest.raises(InputError, match=said) as caught:
        make_plan(frontend=frontend)
    assert caught.value.key == key


def test_no_two_ports_of_a_switch_share_a_lane(make_plan: MakePlan) -> None:
    plan = make_plan(300, demand={"requests": 1e6}, converge=["frontend", "storage"], frontend={"border_leaves": 4})
    seats = plan.ports.filter(pl.col("lanes").is_not_null())
    assert not seats.select("device_id", "cage", "lane_first").is_duplicated().any()
    splits = seats.group_by("device_id", "cage").agg(pl.col("speed_gbps").n_unique())
    assert splits["speed_gbps"].unique().to_list() == [1]


def test_port_names_of_a_box_are_its_own(make_plan: MakePlan) -> None:
    assert not make_plan(64, "dgx-h100").ports.select("device_id", "name").is_duplicated().any()


def test_a_backend_that_carries_the_frontend_keeps_every_box_on_two_leaves(make_plan: MakePlan) -> None:
    plan = make_plan(64, backend={"topology": "rail-optimized", "switch": "sn5400"}, converge=["backend", "frontend"])
    assert count(plan, "leaf") == count(plan, "spine") == 0
    assert (
        not plan.ports.filter(pl.col("lanes").is_not_null())
        .select("device_id", "cage", "lane_first")
        .is_duplicated()
        .any()
    )
    homes = links(plan, "service").group_by("a_device").agg(pl.col("b_device").n_unique())
    assert min(homes["b_device"]) == 2


def test_the_published_in_band_network_comes_out_of_the_example(superpod: Plan) -> None:
    assert count(superpod, "leaf") + count(superpod, "spine") == published("in-band switches")
    assert len(links(superpod, "host")) == published("in-band cables to servers")
    assert len(links(superpod, "leaf_spine")) == published("in-band cables leaf-core")
    assert len(links(superpod, "border")) == published("in-band uplinks")
    service = links(superpod, "service")
    assert len(service.filter(pl.col("a_role") == "head")) == published("in-band cables to management servers")
    assert len(service.filter(pl.col("a_role") == "service")) == published("in-band cables to NFS")
