"""Management networks stay out of the fabric: what the files withhold, what a route map lets through, and how it is found."""

import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railwright.build import frr
from railwright.build.contract import Bgp, DeviceView
from railwright.build.render import render_plan
from railwright.build.withheld import covers, withheld
from railwright.check.configs import check_configs
from railwright.cli.build import write_build
from railwright.design.plan import Plan

NETS = ["0.0.0.0/0", "172.16.0.0/12", "172.16.128.0/17", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32"]
PROBES = ["172.16.0.9", "172.16.200.1", "10.1.2.3", "10.1.2.4", "10.9.0.1", "192.0.2.1"]


def first_match(address: str, clauses: list[tuple[bool, list[str]]], lists: dict[str, list[tuple[bool, str]]]) -> bool:
    """Say whether a route map lets a host route through: the first clause, and in a list the first entry, that matches."""
    for permits, names in clauses:
        hits = [
            next((p for p, text in lists[name] if IPv4Address(address) in IPv4Network(text.split()[0])), False)
            for name in names
        ]
        if not names or any(hits):
            return permits
    return False


ENTRIES = st.lists(st.tuples(st.booleans(), st.sampled_from(NETS).map(lambda n: f"{n} le 32")), max_size=3)


@given(
    clauses=st.lists(st.tuples(st.booleans(), st.lists(st.sampled_from("ab"), max_size=1)), max_size=4),
    lists=st.fixed_dictionaries({"a": ENTRIES, "b": ENTRIES}),
    address=st.sampled_from(PROBES),
)
def test_what_is_withheld_is_what_the_first_match_refuses(
    clauses: list[tuple[bool, list[str]]], lists: dict[str, list[tuple[bool, str]]], address: str
) -> None:
    assert covers(withheld(clauses, lists), f"{address}/32") != first_match(address, clauses, lists)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("route-map M permit 10\n match ip address prefix-list L\nip prefix-list L permit 10.0.0.0/8 le 32\n", True),
        (
            "route-map M deny 10\n match ip address prefix-list L\nroute-map M permit 20\n"
            "ip prefix-list L permit 172.16.0.0/12\n",
            False,
        ),
        ("route-map M deny 10\n match interface eth0\nroute-map M permit 20\n", False),
        ("route-map M permit 10\nroute-map M deny 20\n match ip address prefix-list L\n", False),
    ],
)
def test_forms_of_a_filter(text: str, kept: bool) -> None:
    config = f"{text}router bgp 65001\n address-family ipv4 unicast\n  redistribute connected route-map M\n"
    bgp = frr.read("leaf1", {"leaf1/frr.conf": config}).view.bgp
    assert bgp is not None
    assert covers(bgp.withheld, "172.16.0.0/12") is kept


def test_a_box_that_redistributes_nothing_withholds_all() -> None:
    bgp = frr.read("leaf1", {"leaf1/frr.conf": "router bgp 65001\n"}).view.bgp
    assert bgp is not None
    assert covers(bgp.withheld, "172.16.0.0/12")


def test_only_the_default_vrf_and_ipv4_are_filtered() -> None:
    view = DeviceView("leaf1", "frr", bgp=Bgp(65001, "10.0.0.1", 1, (), withheld=("172.16.0.0/12",)))
    text = frr.render(view)["frr.conf"]
    assert re.findall(r"address-family (\S+) unicast\n  redistribute connected(.*)", text) == [
        ("ipv4", " route-map CONNECTED"),
        ("ipv6", ""),
    ]


@pytest.mark.parametrize("nos", ["sonic", "frr"])
def test_an_unfiltered_redistribution_is_found_on_its_line(plan: Plan, tmp_path: Path, nos: str) -> None:
    write_build(render_plan(plan, (nos,)), tmp_path)
    pool = plan.spec.addressing.out_of_band
    assert [f for f in check_configs(tmp_path, plan) if f.code == "RW043"] == []
    file = tmp_path / "spine1" / "frr.conf"
    text = file.read_text().replace(" route-map CONNECTED", "")
    file.write_text(text)
    line = text.splitlines().index("  redistribute connected") + 1
    (finding,) = [f for f in check_configs(tmp_path, plan) if f.code == "RW043"]
    assert finding.severity == "error"
    assert f"connected routes in {pool} are announced" in finding.message
    assert re.match(r"hop gpu-\d+ > \S+ > spine1: ", finding.message)
    assert finding.message.endswith(f"[spine1/frr.conf:{line}]")


def without_vrf(text: str) -> str:
    return text.replace('"mgmtVrfEnabled": "true"', '"mgmtVrfEnabled": "false"')


@pytest.mark.parametrize(
    ("database", "routing", "found"),
    [
        (without_vrf, lambda text: text.replace(" route-map CONNECTED", ""), True),
        (without_vrf, str, False),
        (str, lambda text: text.replace(" route-map CONNECTED", ""), False),
    ],
)
def test_sonic_without_a_plan_needs_a_filter_or_a_management_vrf(
    plan: Plan, tmp_path: Path, database: Callable[[str], str], routing: Callable[[str], str], found: bool
) -> None:
    write_build(render_plan(plan, ("sonic",)), tmp_path)
    for name, edit in (("config_db.json", database), ("frr.conf", routing)):
        file = tmp_path / "rail1-leaf1" / name
        file.write_text(edit(file.read_text()))
    codes = [(f.code, f.subject) for f in check_configs(tmp_path)]
    assert codes == ([("RW043", "rail1-leaf1 bgp")] if found else [])
