"""Our files in the programs that will read them: FRR, HAProxy, keepalived, nftables, netplan."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from railwright.build import frr
from railwright.build.acceptance import acceptance_files
from railwright.build.contract import Bgp, DeviceView, Neighbor, Port
from railwright.build.render import Build, render_plan
from railwright.catalog.load import load_catalog
from railwright.design.design import design_plan
from railwright.spec.cluster import ClusterSpec


@pytest.fixture(scope="module")
def made() -> Build:
    """A cluster with a whole service entrance, for FRR."""
    spec = ClusterSpec.model_validate(
        {"name": "site", "cluster": {"servers": 4, "server": "hgx-h100"}, "backend": {"switch": "sn5600"}}
    )
    plan = design_plan(spec, load_catalog())
    made = render_plan(plan, ("frr",))
    keyed = render_plan(plan, ("frr",), network_manager=True)
    keyfiles = {path: text for path, text in keyed.files.items() if path.endswith(".nmconnection")}
    return made.with_files({**keyfiles, **acceptance_files(plan)})


def of(made: Build, name: str) -> list[tuple[str, str]]:
    found = [(path, text) for path, text in made.files.items() if path.endswith(f"/{name}")]
    assert found, f"nothing is called {name}"
    return found


def run(*command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False, start_new_session=True
    )


def test_vtysh_takes_every_frr_file(made: Build, tool: Callable[[str], str], tmp_path: Path) -> None:
    file = tmp_path / "frr.conf"
    for path, text in of(made, "frr.conf"):
        file.write_text(text)
        done = run(tool("vtysh"), "-C", "-f", str(file))
        assert done.returncode == 0, (path, done.stdout, done.stderr)


def test_vtysh_refuses_what_we_would_not_write(tool: Callable[[str], str], tmp_path: Path) -> None:
    file = tmp_path / "frr.conf"
    file.write_text("router bgp 65001\n neighbour swp1 interface remote-as external\n")
    assert run(tool("vtysh"), "-C", "-f", str(file)).returncode != 0


def test_bgpd_finds_no_error_in_the_routing_part(made: Build, tool: Callable[[str], str], tmp_path: Path) -> None:
    file = tmp_path / "bgpd.conf"
    for path, text in of(made, "frr.conf"):
        routing = "\n".join(re.findall(r"^router bgp .*?^exit$", text, re.MULTILINE | re.DOTALL))
        file.write_text(re.sub(r"^ neighbor .* bfd profile .*\n", "", routing, flags=re.MULTILINE) + "\n")
        done = run(tool("bgpd"), "-C", "-f", str(file))
        assert "No such command" not in done.stdout + done.stderr, (path, done.stderr)
        assert "Config Failed" not in done.stdout + done.stderr, (path, done.stderr)


def test_haproxy_takes_every_file(made: Build, tool: Callable[[str], str], tmp_path: Path) -> None:
    for path, text in of(made, "haproxy.cfg"):
        (tmp_path / "haproxy.cfg").write_text(text)
        done = run(tool("haproxy"), "-c", "-f", str(tmp_path / "haproxy.cfg"))
        assert done.returncode == 0, (path, done.stderr)
        assert "WARNING" not in done.stderr


def test_keepalived_takes_every_file(made: Build, tool: Callable[[str], str], tmp_path: Path) -> None:
    for path, text in of(made, "keepalived.conf"):
        (tmp_path / "keepalived.conf").write_text(text)
        done = run(tool("keepalived"), "-t", "-f", str(tmp_path / "keepalived.conf"))
        # Version 2.2 ends a good configuration test by a signal to itself; a bad one exits with 4 or 5 and says why.
        assert done.returncode in (0, -signal.SIGTERM), (path, done.stdout, done.stderr)
        assert done.stdout + done.stderr == ""


def test_nft_takes_every_filter_and_the_default_is_to_drop(
    made: Build, tool: Callable[[str], str], tmp_path: Path
) -> None:
    for path, text in of(made, "nftables.conf"):
        (tmp_path / "nftables.conf").write_text(text)
        done = run(tool("nft"), "-c", "-f", str(tmp_path / "nftables.conf"))
        assert done.returncode == 0, (path, done.stderr)
        assert text.count("policy drop") == 2


def test_netplan_generates_every_servers_file(made: Build, tool: Callable[[str], str], tmp_path: Path) -> None:
    for number, (path, text) in enumerate(of(made, "netplan.yaml")):
        root = tmp_path / str(number)
        (root / "etc/netplan").mkdir(parents=True)
        (root / "etc/netplan/60-railwright.yaml").write_text(text)
        (root / "etc/netplan/60-railwright.yaml").chmod(0o600)
        done = run(tool("netplan"), "generate", "--root-dir", str(root))
        assert done.returncode == 0, (path, done.stderr)
        assert list((root / "run/systemd/network").glob("*.network"))


READ_BY_LIBNM = """
import sys, gi
gi.require_version("NM", "1.0")
from gi.repository import GLib, NM
for path in sys.argv[1:]:
    file, said = GLib.KeyFile(), []
    file.load_from_file(path, GLib.KeyFileFlags.NONE)
    handler = lambda f, c, kind, data, user: said.append(NM.keyfile_handler_data_warn_get(data)[0]) or True
    connection = NM.keyfile_read(file, "/etc", NM.KeyfileHandlerFlags.NONE, handler, None)
    connection.normalize()
    assert connection.verify()
    assert not said, (path, said)
    four = connection.get_setting_ip4_config()
    if four is not None and four.get_num_routes():
        assert four.get_num_routing_rules() == 1
        table = four.get_route(0).get_attribute("table").get_uint32()
        assert table == four.get_routing_rule(0).get_table(), path
"""


def test_libnm_takes_every_keyfile_without_a_word(made: Build, tool: Callable[[str], str], tmp_path: Path) -> None:
    for number, (_, text) in enumerate(keyfiles_of(made)):
        (tmp_path / f"{number}.nmconnection").write_text(text)
    files = sorted(str(path) for path in tmp_path.glob("*.nmconnection"))
    assert len(files) > 40
    done = run(tool("/usr/bin/python3"), "-c", READ_BY_LIBNM, *files)
    assert done.returncode == 0, done.stderr


def test_libnm_refuses_what_we_would_not_write(tool: Callable[[str], str], tmp_path: Path) -> None:
    (tmp_path / "x.nmconnection").write_text(
        "[connection]\nid=x\ntype=ethernet\n[ipv4]\nmethod=manual\nadress1=1.1.1.1/8\n"
    )
    assert run(tool("/usr/bin/python3"), "-c", READ_BY_LIBNM, str(tmp_path / "x.nmconnection")).returncode != 0


def keyfiles_of(made: Build) -> list[tuple[str, str]]:
    return [(path, text) for path, text in made.files.items() if path.endswith(".nmconnection")]


def test_shellcheck_takes_every_script(made: Build, tool: Callable[[str], str], tmp_path: Path) -> None:
    scripts = {text for text in made.files.values() if text.startswith("#!/bin/sh")}
    assert len(scripts) >= 4
    for number, text in enumerate(sorted(scripts)):
        (tmp_path / f"{number}.sh").write_text(text)
        done = run(tool("shellcheck"), "-S", "warning", "-s", "sh", str(tmp_path / f"{number}.sh"))
        assert done.returncode == 0, done.stdout


def test_no_file_holds_a_secret(made: Build) -> None:
    for path, text in made.files.items():
        assert not re.search(
            r"(password|passwd|secret|snmp-server community|auth_pass|private.key)\s*[:=]?\s*\S", text, re.IGNORECASE
        ), path


@pytest.fixture
def pair(tool: Callable[[str], str], tmp_path: Path) -> Iterator[dict[str, str]]:
    """A leaf and a spine in network namespaces, running FRR with our files; yields namespace by device.

    The spine's ``eth0`` has one address of the management pool, which it withholds, and one of another network.
    """
    if os.geteuid() != 0:
        pytest.fail("network namespaces need root", pytrace=False)
    daemons = {name: tool(name) for name in ("zebra", "bgpd", "bfdd")}
    vtysh, ip = tool("vtysh"), tool("ip")
    mark = f"rw{os.getpid()}"
    spaces = {"leaf1": f"{mark}a", "spine1": f"{mark}b"}
    views = [
        DeviceView(
            name,
            "frr",
            loopbacks=(f"10.9.0.{number}/32",),
            ports=(Port("swp1", peer=f"{other}:swp1"),),
            bgp=Bgp(
                4_200_000_000 + number,
                f"10.9.0.{number}",
                128,
                (Neighbor("swp1", True, None, True),),
                withheld=("172.16.0.0/12",),
            ),
        )
        for number, (name, other) in enumerate((("leaf1", "spine1"), ("spine1", "leaf1")), start=1)
    ]
    started: list[Path] = []
    folders = [Path(base) / space for space in spaces.values() for base in ("/etc/frr", "/var/run/frr")]
    try:
        for space in spaces.values():
            subprocess.run([ip, "netns", "add", space], check=True)
        a, b = spaces.values()
        subprocess.run(
            [ip, "link", "add", "swp1", "netns", a, "type", "veth", "peer", "name", "swp1", "netns", b], check=True
        )
        subprocess.run([ip, "-n", b, "link", "add", "eth0", "type", "veth", "peer", "name", "oob"], check=True)
        for link in ("eth0", "oob"):
            subprocess.run([ip, "-n", b, "link", "set", link, "up"], check=True)
        for address in ("172.16.9.1/24", "192.0.2.1/24"):
            subprocess.run([ip, "-n", b, "address", "add", address, "dev", "eth0"], check=True)
        for folder in folders:
            folder.mkdir(parents=True)
            shutil.chown(folder, "frr", "frr")
        for view in views:
            space = spaces[view.name]
            for link in ("lo", "swp1"):
                subprocess.run([ip, "-n", space, "link", "set", link, "up"], check=True)
            Path(f"/etc/frr/{space}/frr.conf").write_text(frr.render(view)["frr.conf"])
            Path(f"/etc/frr/{space}/vtysh.conf").write_text("")
            for daemon in daemons.values():
                subprocess.run([ip, "netns", "exec", space, daemon, "-N", space, "-d"], capture_output=True, check=True)
                started.append(Path(f"/var/run/frr/{space}/{Path(daemon).name}.pid"))
            loaded = subprocess.run([vtysh, "-N", space, "-b"], capture_output=True, text=True, check=False)
            assert loaded.returncode == 0, loaded.stdout + loaded.stderr
        yield spaces
    finally:
        for file in started:
            if file.is_file():
                os.kill(int(file.read_text()), 15)
        time.sleep(0.5)
        for space in spaces.values():
            subprocess.run([ip, "netns", "delete", space], capture_output=True, check=False)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


def test_a_running_frr_brings_up_the_unnumbered_session_with_bfd(
    pair: dict[str, str], tool: Callable[[str], str]
) -> None:
    vtysh = tool("vtysh")
    deadline = time.monotonic() + 60
    while True:
        routes = run(vtysh, "-N", pair["leaf1"], "-c", "show ip route 10.9.0.2/32").stdout
        bfd = run(vtysh, "-N", pair["leaf1"], "-c", "show bfd peers").stdout
        if 'Known via "bgp"' in routes and "Status: up" in bfd:
            break
        assert time.monotonic() < deadline, (
            routes + bfd + run(vtysh, "-N", pair["leaf1"], "-c", "show bgp summary").stdout
        )
        time.sleep(0.3)
    assert "fe80::" in routes
    learned = run(vtysh, "-N", pair["leaf1"], "-c", "show ip route bgp").stdout
    assert "192.0.2.0/24" in learned
    assert "172.16.9.0/24" not in learned
