"""How the plan's path mode reaches each operating system, and the policy of borders in the dual-site example."""

import json
from pathlib import Path
from types import ModuleType

import pytest

from railwright.build import border, eos, frr, nvue, sonic
from railwright.build.contract import Bgp, DeviceView, Neighbor, Port
from railwright.build.path_modes import MODES, rendered_mode, shortfall
from railwright.build.render import render_plan
from railwright.build.services import routed_view
from railwright.build.views import Target, device_views
from railwright.catalog.load import load_catalog
from railwright.check.configs import check_configs
from railwright.cli.build import write_build
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.design.qos_table import contracts_for
from railwright.spec.load import read_spec

EXAMPLES = Path(__file__).parents[2] / "examples"
SYSTEMS: dict[str, ModuleType] = {"sonic": sonic, "nvue": nvue, "eos": eos, "frr": frr}

ARS = {
    "ARS_PROFILE": {"algorithm", "ars_nhg_path_selector_mode", "default_ars_object", "ipv4_enable", "ipv6_enable"},
    "ARS_OBJECT": {"assign_mode", "flowlet_idle_time"},
    "ARS_INTERFACE": {"scaling_factor", "ars_obj_name"},
}
"""Tables and the fields of them that matter here: sonic-ars.yang, sonic-buildimage at 53f72b03 (revision 2025-10-30)."""
HASH_FIELDS = {"IP_PROTOCOL", "SRC_IP", "DST_IP", "L4_SRC_PORT", "L4_DST_PORT", "RDMA_BTH_DEST_QP"}
"""Enumeration of sonic-hash.yang, sonic-buildimage at 3fa9f2c0, as far as it matters here."""


def leaf(nos: str, mode: str) -> DeviceView:
    """A leaf with one session toward a spine."""
    name = {"sonic": "Ethernet0", "nvue": "swp1", "eos": "Ethernet1/1", "frr": "swp1"}[nos]
    port = Port(name, speed_gbps=800, lanes=tuple(range(8)), mtu=9214, fec="rs")
    bgp = Bgp(65001, "10.0.0.1", 64, (Neighbor(name, True, None, True),))
    return DeviceView("leaf1", nos, loopbacks=("10.0.0.1/32",), ports=(port,), bgp=bgp, balancing=mode)


def test_the_commands_of_every_mode_are_those_of_the_vendors_documents() -> None:
    said = {mode: nvue.render(leaf("nvue", mode))[nvue.COMMANDS] for mode in MODES}
    for text in said.values():
        assert "nv set system forwarding ecmp-hash destination-port on" in text
    for mode in ("adaptive", "spray"):
        assert "nv set router adaptive-routing enable on" in said[mode]
        assert "nv set interface swp1 router adaptive-routing enable on" in said[mode]
    assert "adaptive-routing" not in said["flowlet"] + said["ecmp"]
    command = "ip hardware fib load-balance distribution dynamic"
    assert [mode for mode in MODES if command in eos.render(leaf("eos", mode))[eos.FILE]] == [
        "flowlet",
        "adaptive",
        "spray",
    ]
    assert "bgp bestpath as-path multipath-relax" in frr.render(leaf("frr", "ecmp"))["frr.conf"]


def test_sonic_keeps_what_only_newer_releases_know_in_a_file_of_its_own() -> None:
    for mode in MODES:
        files = sonic.render(leaf("sonic", mode))
        db = json.loads(files[sonic.FILE])
        assert set(db["SWITCH_HASH"]["GLOBAL"]) == {"ecmp_hash"}
        assert set(db["SWITCH_HASH"]["GLOBAL"]["ecmp_hash"]) <= HASH_FIELDS
        assert not set(db) & set(ARS)
        if mode == "ecmp":
            assert sonic.PATHS not in files
            continue
        newer = json.loads(files[sonic.PATHS])
        if mode == "ecmp-qp":
            assert "RDMA_BTH_DEST_QP" in newer["SWITCH_HASH"]["GLOBAL"]["ecmp_hash_ipv4_rdma"]
            continue
        for table, entries in newer.items():
            assert all(set(entry) <= ARS[table] for entry in entries.values())
        profile, held = newer["ARS_PROFILE"]["railwright"], newer["ARS_OBJECT"]
        assert profile["default_ars_object"] in held
        wanted = "per_flowlet_quality" if mode == "flowlet" else "per_packet_quality"
        assert held["railwright"]["assign_mode"] == wanted
        assert 2 <= int(held["railwright"].get("flowlet_idle_time", 2)) <= 2047
        assert set(newer["ARS_INTERFACE"]) == {"Ethernet0"}


def test_what_a_system_cannot_do_is_said_and_not_silent() -> None:
    assert {(nos, mode) for nos in SYSTEMS for mode in MODES if shortfall(nos, mode)} == {
        ("nvue", "flowlet"),
        ("eos", "spray"),
        ("frr", "flowlet"),
        ("frr", "adaptive"),
        ("frr", "spray"),
    }
    assert rendered_mode("nvue", None) is None


def test_the_build_and_the_linter_name_the_switches_that_fall_short(tmp_path: Path) -> None:
    text = (EXAMPLES / "rail-optimized-1024.yaml").read_text()
    spec = tmp_path / "flowlets.yaml"
    spec.write_text(text.replace("backend:\n", "backend:\n  load_balancing: flowlet\n"))
    plan = design_plan(read_spec(spec).checked(load_catalog()), load_catalog())
    made = render_plan(plan, ("nvue",))
    assert made.shortfalls["spine1"] == "nvue: NVUE cannot ask for flowlets: flows are hashed"
    assert made.manifest()["shortfalls"] == made.shortfalls
    write_build(made, tmp_path / "configs")
    found = check_configs(tmp_path / "configs", plan)
    assert {f.code for f in found} == {"RW041"}
    assert {f.subject for f in found} == {f"{name} paths" for name in made.shortfalls}


@pytest.fixture(scope="module")
def sites() -> Plan:
    """The example with two sites and one anycast address."""
    return design_plan(read_spec(EXAMPLES / "dual-site-frontend.yaml").checked(load_catalog()), load_catalog())


def test_a_border_filters_every_session_that_leaves_the_fabric(sites: Plan) -> None:
    views = {v.name: v for v in device_views(sites, contracts_for(sites), Target("nvue"))}
    edge = views["north-border1"].bgp
    assert edge is not None
    policies = {policy.name: policy for policy in edge.policies}
    numbered = [n for n in edge.neighbors if not n.unnumbered]
    assert sorted(n.policy for n in numbered) == ["BALANCER", "BALANCER", "FIREWALL", "FIREWALL", "OUTSIDE"]
    assert all(n.maximum_prefixes for n in numbered)
    assert policies["OUTSIDE"].accept == ("0.0.0.0/0",)
    assert policies["OUTSIDE"].announce == edge.aggregates == ("10.240.0.0/24",)
    assert "10.240.0.1/32" in policies["BALANCER"].accept
    assert policies["BALANCER"].tag_accepted == border.SERVICE_TAG
    assert [(leak.vrf, leak.sources) for leak in edge.leaks] == [("default", ("frontend",)), ("frontend", ("default",))]
    assert all(leak.accept for leak in edge.leaks)
    inside = views["north-frontend-spine1"].bgp
    assert inside is not None
    assert (inside.policies, inside.aggregates, inside.leaks) == ((), (), ())


@pytest.mark.parametrize("name", ["north-load-balancer1", "south-load-balancer2", "north-firewall1"])
def test_a_box_with_two_uplinks_announces_only_its_own(sites: Plan, name: str) -> None:
    bgp = routed_view(sites, name).bgp
    assert bgp is not None
    assert [policy.name for policy in bgp.policies] == [border.FABRIC]
    own = set(sites.devices.filter(sites.devices["name"] == name)["loopback"])
    services = {"10.240.0.1/32"} if "balancer" in name else set()
    assert set(bgp.policies[0].announce) == own | services
    assert all(n.policy == border.FABRIC for n in bgp.neighbors)


@pytest.mark.parametrize("nos", ["sonic", "nvue", "frr"])
def test_the_clean_sets_of_two_sites_have_no_finding(sites: Plan, tmp_path: Path, nos: str) -> None:
    write_build(render_plan(sites, (nos,)), tmp_path / "configs")
    assert check_configs(tmp_path / "configs", sites) == []
    assert check_configs(tmp_path / "configs") == []


def test_nvue_of_later_releases_is_read_too() -> None:
    view = leaf("nvue", "adaptive")
    text = nvue.render(view)[nvue.COMMANDS].replace("enable on", "state enabled")
    read = nvue.read("leaf1", {"leaf1/nv-set.txt": text}).view
    assert read.balancing == "adaptive"
    assert read.bgp is not None
    assert view.bgp is not None
    assert read.bgp.neighbors == view.bgp.neighbors
