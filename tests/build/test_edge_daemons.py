"""The edge in running FRR: a provider, a border, a load balancer and a leaf in network namespaces, with our files.

The provider tries to give more than a default route, the balancer more than its service address: both are refused. Border and
leaf learn each other as tunnel ends of a stretched VLAN by EVPN. The kernel's VRFs are not used: not every kernel has them.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from railwright.build import border, frr
from railwright.build.contract import Bgp, DeviceView, Neighbor, Port
from railwright.catalog.load import load_catalog
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.spec.cluster import ClusterSpec

SERVICE = "10.240.0.1/32"
VNI = 10_200
WAIT_S = 90
PROVIDER = """frr defaults datacenter
hostname provider
router bgp 64999
 bgp router-id 203.0.113.1
 no bgp ebgp-requires-policy
 neighbor 100.64.9.0 remote-as external
 address-family ipv4 unicast
  network 0.0.0.0/0
  network 198.51.100.0/24
 exit-address-family
exit
ip route 0.0.0.0/0 Null0
ip route 198.51.100.0/24 Null0
"""


@pytest.fixture(scope="module")
def plan() -> Plan:
    """A plan with one load balancer pair, whose policies the routers run."""
    spec = ClusterSpec.model_validate(
        {"name": "edge", "cluster": {"servers": 4, "server": "hgx-h100"}, "backend": {"switch": "sn5600"}}
    )
    return design_plan(spec, load_catalog())


def balancer_loopback(plan: Plan) -> str:
    """The loopback of the first load balancer."""
    ids = plan.devices.filter(plan.devices["role"] == "load_balancer")
    return f"{ids['loopback'][0].partition('/')[0]}/32"


def views(plan: Plan) -> dict[str, DeviceView]:
    """Border, balancer and leaf as the build would have them, on the links of this test."""
    policies = border.edge_policies(plan)
    name = plan.devices.filter(plan.devices["role"] == "load_balancer")["name"][0]
    sessions = (
        Neighbor("100.64.9.1", False, None, False, policy=border.OUTSIDE, maximum_prefixes=border.OUTSIDE_PREFIXES),
        Neighbor("100.64.9.3", False, 4_200_000_012, True, policy=border.BALANCER, maximum_prefixes=64),
        Neighbor("to-leaf", True, None, True),
    )
    edge = Bgp(4_200_000_011, "10.9.0.1", 16, sessions, True, tuple(policies.values()), border.service_blocks(plan))
    own = Bgp(4_200_000_012, "10.9.0.2", 16, (Neighbor("100.64.9.2", False, 4_200_000_011, True),))
    ports = (
        Port("to-provider", addresses=("100.64.9.0/31",)),
        Port("to-balancer", addresses=("100.64.9.2/31",)),
        Port("to-leaf"),
    )
    return {
        "border": DeviceView("border", "frr", loopbacks=("10.9.0.1/32",), ports=ports, bgp=edge),
        "balancer": DeviceView(
            "balancer",
            "frr",
            loopbacks=(balancer_loopback(plan),),
            ports=(Port("to-border", addresses=("100.64.9.3/31",)),),
            bgp=border.box_policy(plan, name, own),
        ),
        "leaf": DeviceView(
            "leaf",
            "frr",
            loopbacks=("10.9.0.3/32",),
            ports=(Port("to-border"),),
            bgp=Bgp(4_200_000_013, "10.9.0.3", 16, (Neighbor("to-border", True, None, True),), True),
        ),
    }


@dataclass(frozen=True)
class Lab:
    """The running routers: namespace by name, and the path of ``vtysh``."""

    spaces: dict[str, str]
    vtysh: str

    def ask(self, router: str, command: str) -> dict[str, Any]:
        """Return what a router answers as JSON."""
        done = subprocess.run(
            [self.vtysh, "-N", self.spaces[router], "-c", f"{command} json"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        found: dict[str, Any] = json.loads(done.stdout) if done.stdout.strip().startswith("{") else {}
        return found

    def routes(self, router: str) -> dict[str, Any]:
        """Return the BGP routes of a router by prefix."""
        found: dict[str, Any] = self.ask(router, "show bgp ipv4 unicast").get("routes", {})
        return found

    def until(self, true: Callable[[], object], what: str) -> None:
        """Wait for something; what the border sees is the message when it never comes."""
        deadline = time.monotonic() + WAIT_S
        while not true():
            assert time.monotonic() < deadline, (what, self.ask("border", "show bgp summary"), self.routes("border"))
            time.sleep(0.3)


@pytest.fixture(scope="module")
def lab(plan: Plan, tool: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Four routers with our files (the provider has its own)."""
    if os.geteuid() != 0:
        pytest.fail("network namespaces need root", pytrace=False)
    daemons = [tool(name) for name in ("zebra", "staticd", "bgpd", "bfdd")]
    ip, bridge = tool("ip"), tool("bridge")
    names = ("provider", "border", "balancer", "leaf")
    spaces = {name: f"rw{os.getpid()}{name[:3]}" for name in names}
    held = views(plan)
    texts = {name: frr.render(view)["frr.conf"] for name, view in held.items()} | {"provider": PROVIDER}
    folders = [Path(base) / space for space in spaces.values() for base in ("/etc/frr", "/var/run/frr")]
    started: list[Path] = []

    def do(*command: str) -> None:
        subprocess.run(command, check=True, capture_output=True, timeout=30)

    try:
        for space in spaces.values():
            do(ip, "netns", "add", space)
            do(ip, "-n", space, "link", "set", "lo", "up")
        for name in ("provider", "balancer", "leaf"):
            far = ("peer", "name", "to-border", "netns", spaces[name])
            do(ip, "link", "add", f"to-{name}", "netns", spaces["border"], "type", "veth", *far)
            do(ip, "-n", spaces["border"], "link", "set", f"to-{name}", "up")
            do(ip, "-n", spaces[name], "link", "set", "to-border", "up")
        do(ip, "-n", spaces["provider"], "address", "add", "100.64.9.1/31", "dev", "to-border")
        for address in (SERVICE, "192.0.2.66/32"):  # keepalived's part, and one that nobody asked for
            do(ip, "-n", spaces["balancer"], "address", "add", address, "dev", "lo")
        for name in ("border", "leaf"):
            own = held[name].loopbacks[0].partition("/")[0]
            do(ip, "-n", spaces[name], "link", "add", "br0", "type", "bridge")
            tunnel = ("type", "vxlan", "id", str(VNI), "dstport", "4789", "local", own, "nolearning")
            do(ip, "-n", spaces[name], "link", "add", "vxlan0", *tunnel)
            do(ip, "-n", spaces[name], "link", "set", "vxlan0", "master", "br0", "up")
            do(bridge, "-n", spaces[name], "link", "set", "dev", "vxlan0", "neigh_suppress", "on", "learning", "off")
            do(ip, "-n", spaces[name], "link", "set", "br0", "up")
        for folder in folders:
            folder.mkdir(parents=True)
            shutil.chown(folder, "frr", "frr")
        for name, space in spaces.items():
            Path(f"/etc/frr/{space}/frr.conf").write_text(texts[name])
            Path(f"/etc/frr/{space}/vtysh.conf").write_text("")
            for daemon in daemons:
                do(ip, "netns", "exec", space, daemon, "-N", space, "-d")
                started.append(Path(f"/var/run/frr/{space}/{Path(daemon).name}.pid"))
            loaded = subprocess.run(
                [tool("vtysh"), "-N", space, "-b"], capture_output=True, text=True, timeout=60, check=False
            )
            assert loaded.returncode == 0, (name, loaded.stdout + loaded.stderr)
        yield Lab(spaces, tool("vtysh"))
    finally:
        for file in started:
            if file.is_file():
                os.kill(int(file.read_text()), 15)
        time.sleep(0.5)
        for space in spaces.values():
            subprocess.run([ip, "netns", "delete", space], capture_output=True, check=False)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


def test_the_border_takes_the_default_route_and_refuses_the_rest_of_what_the_provider_sends(lab: Lab) -> None:
    lab.until(lambda: "0.0.0.0/0" in lab.routes("border"), "no default route from the provider")
    assert "198.51.100.0/24" in lab.routes("provider")
    assert "198.51.100.0/24" not in lab.routes("border")


def test_the_provider_hears_the_block_of_the_services_and_nothing_else(lab: Lab) -> None:
    lab.until(lambda: "10.240.0.0/24" in lab.routes("provider"), "the block of the services is not announced")
    assert set(lab.routes("provider")) == {"0.0.0.0/0", "198.51.100.0/24", "10.240.0.0/24"}


def test_the_service_address_arrives_tagged_and_what_else_the_balancer_has_does_not(lab: Lab, plan: Plan) -> None:
    lab.until(lambda: SERVICE in lab.routes("border"), "no service address from the balancer")
    paths = lab.ask("border", f"show bgp ipv4 unicast {SERVICE}")["paths"]
    assert border.SERVICE_TAG in paths[0]["community"]["string"]
    assert balancer_loopback(plan) in lab.routes("border")
    assert "192.0.2.66/32" in lab.routes("balancer")
    assert "192.0.2.66/32" not in lab.routes("border")
    lab.until(lambda: SERVICE in lab.routes("leaf"), "the leaf does not know the service address")


def test_border_and_leaf_are_tunnel_ends_of_the_stretched_vlan_by_evpn(lab: Lab) -> None:
    for router, other in (("border", "10.9.0.3"), ("leaf", "10.9.0.1")):

        def learned(router: str = router, other: str = other) -> bool:
            ends = lab.ask(router, f"show evpn vni {VNI}").get("numRemoteVteps", [])
            return other in str(ends)

        lab.until(learned, f"{router} does not know {other}")


def test_without_the_filter_the_border_would_take_it(lab: Lab, plan: Plan, tool: Callable[[str], str]) -> None:
    """The last test: the same router with an open filter takes the refused prefix, so the tests above can fail."""
    open_view = views(plan)["border"]
    assert open_view.bgp is not None
    policies = tuple(replace(p, accept=("0.0.0.0/0 le 32",)) for p in open_view.bgp.policies)
    text = frr.render(replace(open_view, bgp=replace(open_view.bgp, policies=policies)))["frr.conf"]
    lines = [line for line in text.splitlines() if line.startswith("ip prefix-list OUTSIDE-IN")]
    file = Path(f"/etc/frr/{lab.spaces['border']}/more.conf")
    file.write_text("\n".join([*lines, ""]))
    subprocess.run([tool("vtysh"), "-N", lab.spaces["border"], "-f", str(file)], check=True, capture_output=True)
    lab.until(lambda: "198.51.100.0/24" in lab.routes("border"), "the open filter still refuses")
