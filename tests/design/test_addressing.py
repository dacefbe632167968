"""Addresses and AS numbers: unique, in their pools, structured as documented, unchanged by growth."""

from collections.abc import Callable
from ipaddress import IPv4Interface, IPv4Network
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from railwright.catalog.load import load_catalog
from railwright.design.design import design_plan
from railwright.design.extend import extend_plan
from railwright.design.plan import Plan
from railwright.design.pools import Pool, written
from railwright.errors import InputError
from railwright.spec.addressing import POOLS, Addressing
from railwright.spec.cluster import ClusterSpec

MakePlan = Callable[..., Plan]
REPEATING = ("vip", "gateway")


def addresses(plan: Plan, kind: str, network: str) -> pl.DataFrame:
    chosen = plan.addresses.filter((pl.col("kind") == kind) & (pl.col("network") == network))
    return chosen.join(
        plan.devices.select("device_id", "name", "role", "site"), on="device_id", maintain_order="left"
    ).join(plan.ports.select("port_id", "nic"), on="port_id", how="left", maintain_order="left")


def block_of(bits: int) -> pl.Expr:
    """The address without its last ``bits``."""
    return pl.col("address").map_elements(lambda address: int(IPv4Interface(address).ip) >> bits, return_dtype=pl.Int64)


def assert_no_clash(plan: Plan) -> None:
    own = plan.addresses.filter(~pl.col("kind").is_in(REPEATING))
    assert own["address"].str.split("/").list.first().n_unique() == len(own)
    unicast = set(own["address"].str.split("/").list.first())
    others = plan.addresses.filter(pl.col("kind").is_in(REPEATING))["address"].str.split("/").list.first()
    assert unicast.isdisjoint(others)
    leaves = plan.devices.filter(pl.col("role").is_in(["leaf", "border"]) & pl.col("asn").is_not_null())
    assert leaves["asn"].n_unique() == len(leaves)


def test_a_pool_is_an_ipv4_network_and_pools_do_not_overlap() -> None:
    defaults = [IPv4Network(getattr(Addressing(), name)) for name in POOLS]
    assert all(not a.overlaps(b) for n, a in enumerate(defaults) for b in defaults[:n])
    with pytest.raises(ValidationError, match=r"backend .* and frontend .* overlap"):
        Addressing(frontend="10.0.0.0/8")
    with pytest.raises(ValidationError, match=r"write 10\.0\.0\.0/16"):
        Addressing(backend="10.0.1.0/16")
    with pytest.raises(ValidationError, match="not an IPv4 network"):
        Addressing(backend="rail")
    with pytest.raises(ValidationError, match="RFC 6996"):
        Addressing(first_asn=65000)


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=20), st.integers(0, 32))
def test_integers_are_written_as_the_standard_library_writes_them(numbers: list[int], prefix: int) -> None:
    expected = [f"{IPv4Interface(number).ip}/{prefix}" for number in numbers]
    assert written(np.array(numbers, dtype=np.int64), prefix).to_list() == expected


def test_a_pool_that_is_too_small_says_which_size_would_do() -> None:
    with pytest.raises(InputError, match=r"10\.0\.0\.0/30 is too small: hosts need 5 addresses, a /29") as caught:
        Pool("addressing.backend", IPv4Network("10.0.0.0/30")).at(np.array([4]), "hosts")
    assert caught.value.key == "addressing.backend"


@settings(max_examples=25, deadline=None)
@given(
    servers=st.integers(1, 300),
    server=st.sampled_from(["hgx-h100", "dgx-b200", "mi300x-8", "dgx-b300"]),
    attach=st.sampled_from(["routed", "lacp", "evpn-multihoming"]),
    underlay=st.sampled_from(["unnumbered", "numbered"]),
    converge=st.sampled_from([[], ["frontend", "storage"], ["frontend", "management"]]),
    tenants=st.integers(0, 3),
)
def test_no_plan_has_a_clash(
    make_plan: MakePlan, servers: int, server: str, attach: str, underlay: str, converge: list[str], tenants: int
) -> None:
    plan = make_plan(
        servers,
        server,
        backend={"underlay": underlay},
        frontend={"attach": attach, "underlay": underlay},
        converge=converge,
        tenants=[{"name": f"t{n}", "servers": max(1, servers // 8)} for n in range(tenants)] if servers > 24 else [],
    )
    assert_no_clash(plan)


@pytest.mark.parametrize("server", ["dgx-b200", "gb200-nvl72"])
def test_a_hundred_thousand_gpus_have_no_clash_with_the_default_pools(
    make_plan: MakePlan, catalog: Any, server: str
) -> None:
    numbered = {"underlay": "numbered"}
    plan = make_plan(100_000 // catalog.server(server).gpus, server, backend=numbered, frontend=numbered)
    assert_no_clash(plan)
    pools = {name: IPv4Network(getattr(Addressing(), name)) for name in POOLS}
    within = plan.addresses.group_by("network", "kind").agg(pl.col("address").first(), last=pl.col("address").last())
    for row in within.iter_rows(named=True):
        holding = [name for name, pool in pools.items() if IPv4Interface(row["address"]).ip in pool]
        assert holding and IPv4Interface(row["last"]).ip in pools[holding[0]]


def test_nic_k_of_every_server_is_in_the_block_of_rail_k_and_the_subnet_of_its_leaf(make_plan: MakePlan) -> None:
    plan = make_plan(200, backend={"topology": "rail-optimized"})
    hosts = addresses(plan, "host", "backend")
    # The /10 is cut into eight blocks of /13, one per rail, and these into /25, one per leaf (64 links).
    rails = hosts.with_columns(block=block_of(19))
    assert rails.group_by("nic").agg(pl.col("block").n_unique())["block"].unique().to_list() == [1]
    assert rails["block"].n_unique() == 8
    leaf_of = plan.named_links().select(port_id="a_port", leaf="b_device")
    leaves = hosts.join(leaf_of, on="port_id").with_columns(block=block_of(7))
    assert leaves.group_by("leaf").agg(pl.col("block").n_unique())["block"].unique().to_list() == [1]
    assert leaves["block"].n_unique() == leaves["leaf"].n_unique()


def test_the_gateway_of_a_backend_port_is_the_other_end_of_its_31(make_plan: MakePlan) -> None:
    plan = make_plan(32)
    ends = plan.links.filter((pl.col("network") == "backend") & (pl.col("tier") == "host"))
    by_port = dict(plan.addresses.filter(pl.col("port_id").is_not_null()).select("port_id", "address").iter_rows())
    for a_port, b_port in ends.select("a_port", "b_port").head(100).iter_rows():
        host, gateway = IPv4Interface(by_port[a_port]), IPv4Interface(by_port[b_port])
        assert host.network == gateway.network
        assert int(host.ip) == int(gateway.ip) + 1


def test_planes_have_blocks_of_their_own(make_plan: MakePlan) -> None:
    plan = make_plan(64, "dgx-b300", backend={"topology": "multi-plane", "planes": 2})
    hosts = addresses(plan, "host", "backend").join(
        plan.named_links().select("plane", "rail", port_id="a_port"), on="port_id"
    )
    blocks = hosts.with_columns(block=block_of(18))
    assert blocks["block"].n_unique() == 16
    assert blocks.group_by("plane", "rail").agg(pl.col("block").n_unique())["block"].unique().to_list() == [1]


def test_every_leaf_has_its_own_as_number_and_spines_of_a_group_share_one(make_plan: MakePlan) -> None:
    plan = make_plan(256, backend={"topology": "rail-optimized", "switch": "sn5400"}, frontend={"attach": "routed"})
    by_role = plan.devices.group_by("network", "role").agg(pl.len(), numbers=pl.col("asn").drop_nulls().n_unique())
    found = {(n, r): (boxes, numbers) for n, r, boxes, numbers in by_role.iter_rows()}
    for network in ("backend", "frontend", "storage"):
        leaves, numbers = found[(network, "leaf")]
        assert leaves == numbers
        assert found[(network, "spine")][1] == 1
    assert found[(None, "server")] == (256, 256)
    leaf_numbers = set(plan.devices.filter(pl.col("role") == "leaf")["asn"])
    assert leaf_numbers.isdisjoint(plan.devices.filter(pl.col("role") == "spine")["asn"])
    assert plan.devices["asn"].drop_nulls().is_between(4_200_000_000, 4_294_967_294).all()


def test_spines_of_different_pods_have_different_as_numbers(make_plan: MakePlan) -> None:
    plan = make_plan(2048, "dgx-h100", backend={"topology": "rail-optimized", "tiers": 3, "switch": "sn5400"})
    spines = plan.devices.filter((pl.col("network") == "backend") & (pl.col("role") == "spine"))
    assert spines["asn"].n_unique() == spines["pod"].n_unique() > 1


def test_links_between_switches_have_no_address_unless_numbered(make_plan: MakePlan) -> None:
    for underlay, share in (("unnumbered", 0), ("numbered", 2)):
        plan = make_plan(64, backend={"topology": "rail-optimized", "underlay": underlay, "switch": "sn5400"})
        fabric = plan.links.filter((pl.col("network") == "backend") & (pl.col("tier") == "leaf_spine"))
        ports = pl.concat([fabric["a_port"], fabric["b_port"]])
        own = plan.addresses.filter(pl.col("port_id").is_in(ports.implode()))
        assert len(own) == share * len(fabric)
        assert set(own["address"].str.split("/").list.last()) <= {"31"}


def test_infiniband_has_no_as_numbers_and_no_addresses_on_the_backend(make_plan: MakePlan) -> None:
    plan = make_plan(31, "dgx-h100", backend={"transport": "infiniband"}, storage={"transport": "infiniband"})
    assert len(plan.addresses.filter(pl.col("network") == "backend")) == 0
    assert plan.devices.filter(pl.col("model") == "qm9700")["asn"].null_count() == len(
        plan.devices.filter(pl.col("model") == "qm9700")
    )
    ipoib = addresses(plan, "host", "storage").filter(pl.col("role") == "server")
    assert len(ipoib) == 62
    assert len({IPv4Interface(a).network for a in ipoib["address"]}) == 1


def test_a_bond_has_one_address_and_both_leaves_its_gateway(make_plan: MakePlan) -> None:
    plan = make_plan(120)
    hosts = addresses(plan, "host", "frontend").filter(pl.col("role") == "server")
    assert len(hosts) == 120
    gateways = addresses(plan, "gateway", "frontend").filter(pl.col("name").str.starts_with("frontend-leaf"))
    assert gateways.group_by("address").len()["len"].unique().to_list() == [2]
    subnets = {IPv4Interface(a).network for a in gateways["address"]}
    assert {IPv4Interface(a).network for a in hosts["address"]} == subnets
    assert len(subnets) == 2  # 96 servers on the first pair, 24 on the second


def test_routed_hosts_have_loopbacks_instead_of_subnets(make_plan: MakePlan) -> None:
    plan = make_plan(40, frontend={"attach": "routed"})
    assert len(addresses(plan, "host", "frontend").filter(pl.col("role") == "server")) == 0
    servers = plan.devices.filter(pl.col("role") == "server")
    assert servers["loopback"].n_unique() == 40
    assert len(addresses(plan, "loopback", "frontend").filter(pl.col("role") == "server")) == 40


def test_each_tenant_has_its_vrf_its_vlan_and_its_part_of_the_pool(make_plan: MakePlan) -> None:
    plan = make_plan(40, tenants=[{"name": "red", "servers": 10}, {"name": "blue", "servers": 20}])
    hosts = addresses(plan, "host", "frontend").filter(pl.col("role") == "server")
    per_vrf = hosts.group_by("vrf").agg(pl.len(), pl.col("vlan").unique()).sort("vrf")
    assert per_vrf["vrf"].to_list() == ["blue", "frontend", "red"]
    assert per_vrf["len"].to_list() == [20, 10, 10]
    assert per_vrf["vlan"].to_list() == [[202], [200], [201]]
    parts = hosts.filter(pl.col("vrf").is_in(["red", "blue"])).group_by("vrf").agg(part=block_of(18).unique())
    assert parts["part"].list.len().to_list() == [1, 1]
    assert parts["part"].explode().n_unique() == 2
    backend = addresses(plan, "host", "backend")
    assert dict(backend.group_by("vrf").len().iter_rows()) == {"red": 80, "blue": 160, "default": 80}


def test_storage_on_the_frontend_gives_servers_a_second_address_on_their_bond(make_plan: MakePlan) -> None:
    plan = make_plan(40, converge=["frontend", "storage"])
    for network in ("frontend", "storage"):
        assert len(addresses(plan, "host", network).filter(pl.col("role") == "server")) == 40
    assert addresses(plan, "host", "storage").filter(pl.col("role") == "server")["vlan"].unique().to_list() == [300]


def test_out_of_band_has_a_subnet_of_64_per_access_switch(make_plan: MakePlan) -> None:
    plan = make_plan(100)
    ports = addresses(plan, "management", "management")
    assert len(ports) == len(plan.links.filter(pl.col("tier") == "oob"))
    networks = {IPv4Interface(a).network for a in ports["address"]}
    assert {network.prefixlen for network in networks} == {26}
    assert len(networks) == len(plan.devices.filter(pl.col("role") == "oob"))
    gateways = addresses(plan, "gateway", "management")
    assert all(int(IPv4Interface(a).ip) % 64 == 1 for a in gateways["address"])


@pytest.mark.parametrize(
    "sections",
    [
        {"backend": {"topology": "rail-optimized", "switch": "sn5400"}},
        {
            "frontend": {"attach": "routed", "underlay": "numbered"},
            "backend": {"underlay": "numbered", "topology": "leaf-spine"},
        },
        {"converge": ["frontend", "storage"], "management": {"isolation": "vrf", "in_band": "own"}},
    ],
)
def test_growth_into_what_was_reserved_changes_no_address_and_no_as_number(
    make_plan: MakePlan, sections: dict[str, Any]
) -> None:
    plan = make_plan(60, growth={"gpus": 1920}, tenants=[{"name": "red", "servers": 10}], **sections)
    grown, changes = extend_plan(plan, 1920)
    assert changes["moved"] == []
    kept = ["device_id", "name", "asn", "loopback"]
    assert plan.devices.join(grown.devices, on=kept, how="anti", nulls_equal=True).is_empty()
    rows = plan.addresses.columns
    assert plan.addresses.join(grown.addresses, on=rows, how="anti", nulls_equal=True).is_empty()
    assert_no_clash(grown)


def test_the_user_s_pools_are_used(make_plan: MakePlan) -> None:
    plan = make_plan(
        16, addressing={"services": "203.0.113.0/24", "out_of_band": "192.168.0.0/16", "first_asn": 4_250_000_000}
    )
    assert set(addresses(plan, "vip", "frontend")["address"]) == {"203.0.113.1/32"}
    assert all(a.startswith("192.168.") for a in addresses(plan, "management", "management")["address"])
    assert min(plan.devices["asn"].drop_nulls()) >= 4_250_000_000


@pytest.mark.parametrize("pool", ["backend", "frontend", "storage", "loopbacks", "links", "out_of_band"])
def test_a_small_pool_is_named_with_the_size_it_needs(pool: str) -> None:
    spec = ClusterSpec.model_validate(
        {
            "name": "test",
            "cluster": {"servers": 64, "server": "hgx-h100"},
            "backend": {"underlay": "numbered", "topology": "rail-optimized", "switch": "sn5400"},
            "addressing": {pool: "192.168.0.0/29"},
        }
    )
    with pytest.raises(InputError, match="too small") as caught:
        design_plan(spec, load_catalog())
    assert caught.value.key == f"addressing.{pool}"


def test_more_tenants_than_blocks_are_refused(make_plan: MakePlan) -> None:
    tenants = [{"name": f"t{n}", "servers": 1} for n in range(20)]
    with pytest.raises(InputError, match="20 tenants") as caught:
        make_plan(64, tenants=tenants)
    assert caught.value.key == "addressing.tenant_blocks"
