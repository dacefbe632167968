"""The service entrance in the programs that run it: zones, virtual addresses, state synchronisation, names and addresses."""

import ipaddress
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from railwright.build.render import Build, render_plan
from railwright.build.services import partner_of
from railwright.build.services_resilience import next_hops
from railwright.catalog.load import load_catalog
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.spec.load import read_spec

EXAMPLES = Path(__file__).parents[2] / "examples"


def planned(name: str) -> Plan:
    return design_plan(read_spec(EXAMPLES / f"{name}.yaml").checked(load_catalog()), load_catalog())


@pytest.fixture(scope="module")
def site() -> Plan:
    """One site, without anycast."""
    return planned("rail-only-128")


@pytest.fixture(scope="module")
def made(site: Plan) -> Build:
    return render_plan(site, ("sonic",))


@pytest.fixture(scope="module")
def two_sites() -> Build:
    """Two sites with an anycast service address."""
    return render_plan(planned("dual-site-frontend"))


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, start_new_session=True)


def test_balancers_route_and_elect_over_the_routed_network(site: Plan, made: Build) -> None:
    loopbacks = dict(
        site.addresses.join(site.devices, on="device_id")
        .filter(pl.col("kind") == "loopback")["name", "address"]
        .iter_rows()
    )
    for own, other in (("load-balancer1", "load-balancer2"), ("load-balancer2", "load-balancer1")):
        text = made.files[f"{own}/keepalived.conf"]
        assert f"unicast_src_ip {loopbacks[own].partition('/')[0]}\n" in text
        assert re.findall(r"unicast_peer \{\s+(\S+)\s+\}", text) == [loopbacks[other].partition("/")[0]]
        routing = made.files[f"{own}/frr.conf"]
        assert "redistribute connected" in routing
        assert (
            "address 10.240.0.1" not in routing
        )  # keepalived adds it while the box is healthy, and FRR announces what is there
    priorities = {re.search(r"priority (\d+)", made.files[f"load-balancer{n}/keepalived.conf"])[1] for n in (1, 2)}  # type: ignore[index]
    assert len(priorities) == 2


def test_with_anycast_every_balancer_holds_the_address_by_its_own_health(two_sites: Build) -> None:
    files = {path: text for path, text in two_sites.files.items() if path.endswith("/keepalived.conf")}
    assert {path.partition("-")[0] for path in files} == {"north", "south"}
    for text in files.values():
        assert "unicast_peer" not in text
        assert "10.240.0.1/32 dev lo" in text


def test_nodes_of_another_site_are_backups(two_sites: Build) -> None:
    rows = re.findall(
        r"server (\w+)-service\d+ \S+:80( backup)?$", two_sites.files["north-load-balancer1/haproxy.cfg"], re.M
    )
    assert {site for site, backup in rows if not backup} == {"north"}
    assert {site for site, backup in rows if backup} == {"south"}


def test_firewalls_are_partners_both_ways_and_the_odd_one_out_is_told(site: Plan, made: Build) -> None:
    one, two = partner_of(site, "firewall1"), partner_of(site, "firewall2")
    assert one is not None
    assert two is not None
    assert [(port, its, mine) for port, mine, its in one.channels] == list(two.channels)
    devices = site.devices.filter(pl.col("name") != "firewall2")
    assert partner_of(site.with_tables(devices=devices), "firewall1") is None


def test_routers_beside_balancers_and_firewalls_hash_resiliently(site: Plan, made: Build) -> None:
    hops = next_hops(site)
    assert set(hops["router"]) == {"border1", "border2"}
    for router in ("border1", "border2"):
        tables = json.loads(made.files[f"{router}/fine-grained-ecmp.json"])
        assert set(tables["FG_NHG_MEMBER"]) == set(hops.filter(pl.col("router") == router)["address"])
        for group in tables["FG_NHG"].values():
            members = [m for m in tables["FG_NHG_MEMBER"].values() if tables["FG_NHG"][m["FG_NHG"]] is group]
            for alive in range(1, len(members) + 1):
                assert int(group["bucket_size"]) % alive == 0
    for router, file in (("border1", "traffic.conf"),):
        assert f"{router}/{file}" in render_plan(site, ("nvue",)).files


def test_every_box_has_its_plain_name_and_zones_are_whole(
    site: Plan, made: Build, tool: Callable[[str], str], tmp_path: Path
) -> None:
    zones = {
        path.rpartition("/")[2]: text
        for path, text in made.files.items()
        if path.startswith("services/dns/") and path.endswith(".db")
    }
    addressed = set(
        site.addresses.join(site.devices, on="device_id").filter(
            pl.col("kind").is_in(["host", "loopback", "management"])
        )["name"]
    )
    labels = re.findall(r"^(\S+) IN A ", zones["zone.db"], re.M)
    assert addressed <= set(labels)
    assert len(labels) == len(set(labels))
    for file, text in zones.items():
        (tmp_path / file).write_text(text)
        origin = "rail-only-128.internal" if file == "zone.db" else file.removesuffix(".db")
        done = run(tool("named-checkzone"), origin, str(tmp_path / file))
        assert done.returncode == 0, done.stdout
    forward = dict(re.findall(r"^(\S+) IN A (\S+)$", zones["zone.db"], re.M))
    pointers = re.findall(r"^(\S+) IN PTR (\S+)\.rail-only-128\.internal\.$", zones["10.in-addr.arpa.db"], re.M)
    assert len(pointers) > 100
    for pointer, label in pointers:
        assert ipaddress.ip_address(forward[label]).reverse_pointer == pointer.removesuffix(".")


def test_dnsmasq_takes_configuration_and_reservations(made: Build, tool: Callable[[str], str], tmp_path: Path) -> None:
    rows = made.files["services/dhcp/reservations.csv"].splitlines()
    filled = [
        rows[0],
        rows[1].replace(",,", ",02:00:00:00:00:0A,"),
        rows[2].replace(",,", ",02:00:00:00:00,"),
        *rows[3:],
    ]
    (tmp_path / "reservations.csv").write_text("\n".join(filled) + "\n")
    (tmp_path / "hosts.sh").write_text(made.files["services/dhcp/hosts.sh"])
    listed = run("sh", str(tmp_path / "hosts.sh"))
    assert re.fullmatch(r"02:00:00:00:00:0a,set:server-0001,172\.16\.\d+\.\d+,server-0001,infinite\n", listed.stdout)
    assert listed.stderr == f"{len(rows) - 2} rows without a MAC address\n"
    (tmp_path / "dhcp-hosts").write_text(listed.stdout)
    text = made.files["services/dhcp/dnsmasq.conf"].replace("/etc/railwright", str(tmp_path))
    (tmp_path / "dnsmasq.conf").write_text(text)
    done = run(tool("dnsmasq"), "--test", "-C", str(tmp_path / "dnsmasq.conf"))
    assert done.returncode == 0, done.stderr
    (tmp_path / "dnsmasq.conf").write_text(text.replace("static,255", "statics,255"))
    assert run(tool("dnsmasq"), "--test", "-C", str(tmp_path / "dnsmasq.conf")).returncode != 0


def test_provisioning_names_a_file_that_the_build_writes(made: Build, two_sites: Build) -> None:
    for build in (made, two_sites):
        for name, entry in json.loads(build.files["services/ztp/devices.json"]).items():
            assert entry["url"].removeprefix("http://ztp/") in build.files
            assert name in entry["url"]
    steps = json.loads(made.files["services/ztp/sonic.json"])["ztp"]
    assert steps["01-configdb-json"]["dynamic-url"]["source"]["identifier"] == "hostname"
    assert "# CUMULUS-AUTOPROVISIONING" in two_sites.files["services/ztp/cumulus.sh"]


@pytest.fixture
def space(tool: Callable[[str], str]) -> Iterator[Callable[[str], str]]:
    """A maker of network namespaces with a loopback; all go at the end."""
    if os.geteuid() != 0:
        pytest.fail("network namespaces need root", pytrace=False)
    ip, spaces = tool("ip"), list[str]()

    def make(name: str) -> str:
        spaces.append(f"rw{os.getpid()}{name}")
        subprocess.run([ip, "netns", "add", spaces[-1]], check=True)
        subprocess.run([ip, "-n", spaces[-1], "link", "set", "lo", "up"], check=True)
        return spaces[-1]

    yield make
    for name in spaces:
        subprocess.run([ip, "netns", "delete", name], capture_output=True, check=False)


SERVER = """
import socket, sys, threading
def serve(port):
    listener = socket.create_server(("", port), reuse_port=True)
    while True:
        conn, _ = listener.accept()
        conn.recv(4096); conn.sendall(b"HTTP/1.0 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n"); conn.close()
for port in sys.argv[2:]:
    threading.Thread(target=serve, args=(int(port),)).start()
print("ready", flush=True)
"""
CLIENT = """
import socket, sys
from concurrent.futures import ThreadPoolExecutor
def reached(target):
    host, port = target.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except OSError:
        return False
    return True
with ThreadPoolExecutor(len(sys.argv)) as pool:
    print(*(t for t, found in zip(sys.argv[1:], pool.map(reached, sys.argv[1:])) if found))
"""


def serve(space: str, *ports: int) -> subprocess.Popen[str]:
    """Start a server on ``ports`` inside a namespace and wait until it listens."""
    ip = shutil.which("ip") or "ip"
    command = [ip, "netns", "exec", space, "python3", "-c", SERVER, "-", *map(str, ports)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
    server.stdout.close()
    return server


def test_packets_cross_the_zones_only_as_the_policy_says(
    made: Build, space: Callable[[str], str], tool: Callable[[str], str], tmp_path: Path
) -> None:
    ip = tool("ip")
    firewall = space("fw")
    places = {  # zone → gateway, address of a box there
        "outside": ("192.0.2.1", "192.0.2.9"),
        "services": ("10.240.0.254", "10.240.0.1"),
        "frontend": ("10.64.0.1", "10.64.0.4"),
        "fabric": ("10.128.0.1", "10.128.0.4"),
        "management": ("172.16.0.1", "172.16.0.4"),
    }
    spaces = {zone: space(zone[:3]) for zone in places}
    for number, (zone, (gateway, box)) in enumerate(places.items()):
        subprocess.run(
            [
                ip,
                "link",
                "add",
                f"z{number}",
                "netns",
                firewall,
                "type",
                "veth",
                "peer",
                "name",
                "e",
                "netns",
                spaces[zone],
            ],
            check=True,
        )
        for where, dev, address in ((firewall, f"z{number}", gateway), (spaces[zone], "e", box)):
            subprocess.run([ip, "-n", where, "addr", "add", f"{address}/24", "dev", dev], check=True)
            subprocess.run([ip, "-n", where, "link", "set", dev, "up"], check=True)
        subprocess.run([ip, "-n", spaces[zone], "route", "add", "default", "via", gateway], check=True)
    subprocess.run([ip, "netns", "exec", firewall, "sysctl", "-qw", "net.ipv4.ip_forward=1"], check=True)
    (tmp_path / "nft").write_text(made.files["firewall1/nftables.conf"])
    subprocess.run([ip, "netns", "exec", firewall, tool("nft"), "-f", str(tmp_path / "nft")], check=True)
    servers = [serve(where, 80, 22, 8080) for where in [*spaces.values(), firewall]]
    try:

        def reached(zone: str, *targets: str) -> set[str]:
            found = run(ip, "netns", "exec", spaces[zone], "python3", "-c", CLIENT, *targets)
            assert found.returncode == 0, found.stderr
            return set(found.stdout.split())

        box = {zone: address for zone, (_, address) in places.items()}
        allowed = {
            "outside": {f"{box['services']}:80"},
            "frontend": {f"{box[zone]}:{port}" for zone in ("services", "outside") for port in (80, 8080)},
            "fabric": set(),
            "management": set(),
        }
        for source, wanted in allowed.items():
            targets = [f"{address}:{port}" for zone, address in box.items() if zone != source for port in (80, 8080)]
            assert reached(source, *targets) == wanted, source
        ssh = {zone: f"{gateway}:22" for zone, (gateway, _) in places.items()}
        assert reached("management", ssh["management"]) == {ssh["management"]}
        assert reached("outside", ssh["outside"]) == set()
    finally:
        for server in servers:
            server.kill()
            server.wait()


def test_a_sick_balancer_loses_the_virtual_address(
    two_sites: Build, space: Callable[[str], str], tool: Callable[[str], str], tmp_path: Path
) -> None:
    ip, inside = tool("ip"), space("lb")
    texts = {name: two_sites.files[f"north-load-balancer1/{name}"] for name in ("haproxy.cfg", "keepalived.conf")}
    for name, text in texts.items():
        (tmp_path / name).write_text(text.replace("maxconn 200000", "maxconn 1000"))
    tool("curl")
    node = re.search(r"server north-service1 (\S+):80", texts["haproxy.cfg"])
    assert node is not None
    for command in (
        ["link", "add", "eth0", "type", "veth", "peer", "name", "far0"],
        ["link", "set", "eth0", "up"],
        ["addr", "add", "192.0.2.1/31", "dev", "eth0"],
        ["addr", "add", f"{node[1]}/32", "dev", "lo"],
    ):
        subprocess.run([ip, "-n", inside, *command], check=True)
    within = [ip, "netns", "exec", inside]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    pids = ["-p", str(tmp_path / "k.pid"), "-r", str(tmp_path / "v.pid")]

    def holds() -> bool:
        return "10.240.0.1/32" in run(ip, "-n", inside, "address", "show", "dev", "lo").stdout

    def wait_until(wanted: bool) -> None:
        deadline = time.monotonic() + 30
        while holds() is not wanted:
            assert time.monotonic() < deadline, f"the address is {'not ' if wanted else ''}there"
            time.sleep(0.2)

    started: list[subprocess.Popen[Any]] = [serve(inside, 80)]
    try:
        # keepalived first: without a live HAProxy it must not take the address.
        started.append(
            subprocess.Popen(
                [*within, tool("keepalived"), "-n", "-P", "-f", str(tmp_path / "keepalived.conf"), *pids], **quiet
            )
        )  # type: ignore[call-overload]
        time.sleep(3)
        assert not holds()
        balancer = subprocess.Popen([*within, tool("haproxy"), "-f", str(tmp_path / "haproxy.cfg")], **quiet)  # type: ignore[call-overload]
        started.append(balancer)
        wait_until(True)
        started[0].kill()  # the last healthy node dies, HAProxy lives
        wait_until(False)
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(timeout=20)


def test_balancers_elect_one_holder_and_the_other_takes_over(
    made: Build, space: Callable[[str], str], tool: Callable[[str], str], tmp_path: Path
) -> None:
    """Two balancers with two uplinks each; their loopbacks reach each other over the second one, not keepalived's interface."""
    ip = tool("ip")
    spaces = [space("b1"), space("b2")]
    for uplink in ("eth0", "eth1"):
        pair = ["type", "veth", "peer", "name", uplink, "netns", spaces[1]]
        subprocess.run([ip, "link", "add", uplink, "netns", spaces[0], *pair], check=True)
    started: list[subprocess.Popen[Any]] = []
    files = [made.files[f"load-balancer{number}/keepalived.conf"] for number in (1, 2)]
    own = [str(re.findall(r"unicast_src_ip (\S+)", text)[0]) for text in files]

    def holders() -> list[int]:
        shown = [run(ip, "-n", where, "address", "show", "dev", "lo").stdout for where in spaces]
        return [number for number, text in enumerate(shown) if "10.240.0.1/32" in text]

    def wait_for(wanted: list[int]) -> None:
        deadline = time.monotonic() + 30
        while holders() != wanted:
            assert time.monotonic() < deadline, f"{holders()} hold the address, not {wanted}"
            time.sleep(0.2)

    alive = [Path(f"/run/{where}") for where in spaces]  # the check runs as nobody, who cannot look into tmp_path
    try:
        for number, (where, text) in enumerate(zip(spaces, files, strict=True)):
            for index, uplink in enumerate(("eth0", "eth1")):
                address = f"192.0.{index}.{number + 1}/24"
                subprocess.run([ip, "-n", where, "address", "add", address, "dev", uplink], check=True)
                subprocess.run([ip, "-n", where, "link", "set", uplink, "up"], check=True)
            subprocess.run([ip, "-n", where, "address", "add", f"{own[number]}/32", "dev", "lo"], check=True)
            subprocess.run(
                [ip, "-n", where, "route", "add", own[1 - number], "via", f"192.0.1.{2 - number}"], check=True
            )
            file = tmp_path / f"{number}.conf"
            file.write_text(re.sub(r'script ".*"', f'script "/usr/bin/test -e {alive[number]}"', text))
            alive[number].touch()
            pids = ["-p", str(tmp_path / f"k{number}"), "-r", str(tmp_path / f"v{number}")]
            command = [ip, "netns", "exec", where, tool("keepalived"), "-n", "-P", "-f", str(file), *pids]
            started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        wait_for([0])
        alive[0].unlink()
        wait_for([1])
        alive[0].touch()
        time.sleep(4)
        assert holders() == [1]  # no switching back: connections would break twice
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(timeout=20)
        for mark in alive:
            mark.unlink(missing_ok=True)


def test_conntrackd_starts_with_the_partners_file(
    made: Build, space: Callable[[str], str], tool: Callable[[str], str], tmp_path: Path
) -> None:
    ip, inside = tool("ip"), space("ct")
    for number, address in enumerate(re.findall(r"IPv4_address (\S+)", made.files["firewall1/conntrackd.conf"])):
        for command in (
            ["link", "add", f"eth{number}", "type", "veth", "peer", "name", f"far{number}"],
            ["link", "set", f"eth{number}", "up"],
        ):
            subprocess.run([ip, "-n", inside, *command], check=True)
        subprocess.run([ip, "-n", inside, "addr", "add", f"{address}/31", "dev", f"eth{number}"], check=True)
    text = made.files["firewall1/conntrackd.conf"]
    text = text.replace("/var/lock/", f"{tmp_path}/").replace("/var/run/", f"{tmp_path}/")
    for wrong in (False, True):
        (tmp_path / "c.conf").write_text(text.replace("Checksum on", "Checksums on") if wrong else text)
        process = subprocess.Popen(
            [ip, "netns", "exec", inside, tool("conntrackd"), "-C", str(tmp_path / "c.conf")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            said, _ = process.communicate(timeout=2)
        except subprocess.TimeoutExpired:
            process.terminate()
            said, _ = process.communicate(timeout=20)
        assert ("initialization completed" in said) is not wrong, said
