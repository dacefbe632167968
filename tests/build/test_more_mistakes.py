"""Mistakes that hide behind tables which agree with the plan one by one: switches left off, maps that cross, sessions that
carry nothing. Each is found with its line; the clean texts have no problem."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from railwright.build import hosts
from railwright.build.contract import Reading
from railwright.build.frr_mistakes import session_problems
from railwright.build.host_model import HostPort, HostView
from railwright.build.readings import read_files
from railwright.build.render import render_plan
from railwright.check.config_frames import frames
from railwright.check.config_rules import host_peers
from railwright.design.plan import Plan

LEAF = "rail1-leaf1"
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def sonic(plan: Plan) -> Mapping[str, str]:
    return render_plan(plan, ("sonic",)).files


@pytest.fixture(scope="module")
def nvue(plan: Plan) -> Mapping[str, str]:
    return render_plan(plan, ("nvue",)).files


@pytest.fixture(scope="module")
def eos(plan: Plan) -> Mapping[str, str]:
    return render_plan(plan, ("eos",), "7060x6-64pe").files


def leaf_of(files: Mapping[str, str]) -> Reading:
    own = {path: text for path, text in files.items() if path.startswith(f"{LEAF}/")}
    return read_files(own).switches[0]


def every(table: str, **fields: str) -> Change:
    def change(db: dict[str, Any]) -> None:
        for entry in db[table].values():
            entry.update(fields)

    return change


def test_clean_files_have_no_problem_of_their_own(sonic: Mapping[str, str], eos: Mapping[str, str]) -> None:
    for files in (sonic, eos):
        assert [r.view.name for r in read_files(files).switches if r.problems] == []


@pytest.mark.parametrize(
    ("change", "code", "line", "message"),
    [
        (
            every("TC_TO_PRIORITY_GROUP_MAP", **{"3": "0"}),
            "RW006",
            '"3": "0"',
            "travels in group 0, PFC acts on group 3",
        ),
        (
            every("MAP_PFC_PRIORITY_TO_QUEUE", **{"3": "4"}),
            "RW006",
            '"3": "4"',
            "travels in queue 3, PFC acts on queue 4",
        ),
        (every("PFC_PRIORITY_TO_PRIORITY_GROUP_MAP", **{"3": "5"}), "RW006", '"3": "5"', "PFC acts on group 5"),
        (every("BUFFER_QUEUE", profile="egress_lossy_profile"), "RW007", "egress_lossy_profile", "queue 3 is lossless"),
        (every("PORT", admin_status="down"), "RW042", '"admin_status": "down"', "is shut and has a cable to"),
        (
            every("PORT_QOS_MAP", pfc_to_pg_map="OTHER"),
            "RW021",
            '"OTHER"',
            "refers to PFC_PRIORITY_TO_PRIORITY_GROUP_MAP",
        ),
    ],
)
def test_tables_of_sonic_that_contradict_each_other(
    sonic: Mapping[str, str], change: Change, code: str, line: str, message: str
) -> None:
    db = json.loads(sonic[f"{LEAF}/config_db.json"])
    change(db)
    text = json.dumps(db, indent=4)
    reading = leaf_of({**sonic, f"{LEAF}/config_db.json": text})
    found = [problem for problem in reading.problems if problem[0] == code]
    assert found
    assert message in found[0][2]
    assert line in text.splitlines()[found[0][3].line - 1]


def test_eos_priorities_are_lossless_only_with_flow_control_switched_on(eos: Mapping[str, str]) -> None:
    path = f"{LEAF}/startup-config"
    assert {p.pfc for p in leaf_of(eos).view.ports} == {(3,)}
    off = leaf_of({**eos, path: eos[path].replace("   priority-flow-control on\n", "")})
    assert {p.pfc for p in off.view.ports} == {()}


def test_an_eos_port_that_is_shut_is_named_with_its_line(eos: Mapping[str, str]) -> None:
    path = f"{LEAF}/startup-config"
    text = eos[path].replace("   no switchport\n", "   no switchport\n   shutdown\n", 1)
    (problem,) = leaf_of({**eos, path: text}).problems
    assert (problem[0], text.splitlines()[problem[3].line - 1]) == ("RW042", "   shutdown")


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        (
            "  neighbor Ethernet256 activate\n",
            "",
            " neighbor Ethernet256 interface remote-as external",
            "not activated",
        ),
        ("  redistribute connected( route-map CONNECTED)?\n", "", "router bgp ", "announces nothing of its own"),
    ],
)
def test_sessions_that_carry_no_route(sonic: Mapping[str, str], old: str, new: str, line: str, message: str) -> None:
    path = f"{LEAF}/frr.conf"
    text = re.sub(old, new, sonic[path])
    assert text != sonic[path]
    (problem,) = leaf_of({**sonic, path: text}).problems
    assert message in problem[2]
    assert text.splitlines()[problem[3].line - 1].startswith(line)


def test_route_servers_and_evpn_sessions_are_left_alone() -> None:
    text = (
        "router bgp 65001\n no bgp default ipv4-unicast\n neighbor 10.0.0.1 remote-as 65002\n"
        " neighbor 10.0.0.2 remote-as 65003\n address-family ipv4 unicast\n  neighbor 10.0.0.1 activate\n"
        "  neighbor 10.0.0.1 route-server-client\n exit-address-family\n address-family l2vpn evpn\n"
        "  neighbor 10.0.0.2 activate\n exit-address-family\nexit\n"
    )
    assert list(session_problems("r1/frr.conf", text)) == []


def test_internal_means_the_own_as(sonic: Mapping[str, str], nvue: Mapping[str, str]) -> None:
    for files, path in ((sonic, f"{LEAF}/frr.conf"), (nvue, f"{LEAF}/startup.yaml")):
        for word, wanted in (("external", None), ("internal", True)):
            bgp = leaf_of(
                {**files, path: re.sub("remote-as(:?) external", rf"remote-as\1 {word}", files[path])}
            ).view.bgp
            assert bgp is not None
            assert {n.remote_as for n in bgp.neighbors} == {bgp.asn if wanted else None}


def test_an_nvue_port_that_is_down_is_named_with_its_line(nvue: Mapping[str, str]) -> None:
    path = f"{LEAF}/startup.yaml"
    text = re.sub(r"(state:\n +)up:", r"\1down:", nvue[path], count=1)
    (problem,) = leaf_of({**nvue, path: text}).problems
    assert (problem[0], text.splitlines()[problem[3].line - 1].strip()) == ("RW042", "down: {}")


@pytest.mark.parametrize(
    ("pattern", "new", "gateway"),
    [
        (r"via: \S+", "via: 10.9.9.9", "10.9.9.9"),
        (r"      routing-policy:\n        - from: \S+\n          table: 101\n", "", ""),
    ],
)
def test_the_gateway_of_a_rail_is_what_netplan_says_and_a_rule_leads_to(pattern: str, new: str, gateway: str) -> None:
    """A route in a table without a rule is never looked up (ip-rule(8))."""
    path = "gpu-001/netplan.yaml"
    rail = HostPort("rail1", "mlx5_0", "backend", mtu=9000, addresses=("10.1.0.1/31",), gateway="10.1.0.0")
    own = {f"gpu-001/{name}": text for name, text in hosts.render(HostView("gpu-001", (rail,))).items()}
    changed = re.sub(pattern, new, own[path], count=1)
    assert changed != own[path]
    (clean,), (found,) = (read_files(files).servers for files in (own, {**own, path: changed}))
    assert clean.view.ports[0].gateway == "10.1.0.0"
    assert found.view.ports[0].gateway == gateway


def test_an_adapter_that_names_another_servers_port_is_found(sonic: Mapping[str, str]) -> None:
    path = "gpu-001/host.conf"
    text = re.sub(r"(nic rail1 .*peer=)rail1-leaf1:", r"\1rail2-leaf1:", sonic[path])
    readings = read_files({**sonic, path: text})
    (mistake,) = host_peers(readings, frames(readings))
    assert (mistake.code, mistake.device, mistake.item) == ("RW028", "gpu-001", "rail1")
    assert list(host_peers(read_files(sonic), frames(read_files(sonic)))) == []


def test_facts_that_the_files_do_not_mention_have_a_place(sonic: Mapping[str, str], nvue: Mapping[str, str]) -> None:
    """A configuration of another plan lacks whole VRFs, VLANs, queues and ports."""
    for files in (sonic, nvue):
        for key in ("vrf/no/vni", "vlan/4000/vrf", "dscp/99", "queue/9/weight", "port/Ethernet999/mtu", "bgp/asn"):
            assert leaf_of(files).place(key).file.startswith(f"{LEAF}/")
