"""Servers: files read back, the script on a pretended machine, dumps of the usual tools, NIC affinity."""

import os
import shutil
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railwright.build import hosts
from railwright.build.affinity import nearest_adapters
from railwright.build.host_views import host_views
from railwright.build.hosts import HostPort, HostView, host_statements
from railwright.design.plan import Plan
from railwright.design.qos_table import contracts_for
from railwright.errors import InputError

FACTS = Path(__file__).parent / "facts" / "nvidia-smi-topo"

STUB = """#!/usr/bin/env python3
import json, os, pathlib, sys
state = pathlib.Path(os.environ["STUB_STATE"])
data = json.loads(state.read_text()) if state.exists() else {}
tool, args = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
if tool == "mlnx_qos":
    own = data.setdefault(args[1], {"trust": "pcp", "pfc": [0] * 8, "map": {str(d): d // 8 for d in range(64)}})
    if args[2:3] == ["--trust"]: own["trust"] = args[3]
    elif args[2:3] == ["--pfc"]: own["pfc"] = [int(b) for b in args[3].split(",")]
    elif args[2:3] == ["--dscp2prio"]: _, d, p = args[3].split(","); own["map"][d] = int(p)
    else:
        print("DCBX mode: OS controlled\\nPriority trust state: " + own["trust"])
        print("dscp2prio mapping:")
        for p in range(8):
            row = [d for d in range(63, -1, -1) if own["map"][str(d)] == p]
            if row: print("\\tprio:%d dscp:%s," % (p, ",".join("%02d" % d for d in row)))
        print("Receive buffer size (bytes): 130944,130944,0,0,0,0,0,0,\\nCable len: 7\\nPFC configuration:")
        print("\\tpriority    " + "   ".join(map(str, range(8))))
        print("\\tenabled     " + "   ".join(map(str, own["pfc"])) + "   ")
        print("\\tbuffer      0   0   0   1   0   0   0   0   ")
elif tool == "ethtool":
    if args[0] == "-A": data[args[1] + "/pause"] = "off"
    else:
        now = data.get(args[1] + "/pause", "on")
        print("Pause parameters for %s:\\nAutonegotiate:\\toff\\nRX:\\t\\t%s\\nTX:\\t\\t%s\\n" % (args[1], now, now))
elif tool == "cma_roce_tos":
    if "-t" in args: data[args[1] + "/cma"] = args[3]
    else: print(data.get(args[1] + "/cma", "0"))
elif tool == "ip":
    if args[:2] == ["link", "set"]:
        pathlib.Path(os.environ["RAILWRIGHT_ROOT"] + "/sys/class/net/" + args[3] + "/mtu").write_text(args[5] + "\\n")
    else: print(args[-1] + " UP " + os.environ.get("STUB_ADDRESS", "") + " fe80::1/64")
state.write_text(json.dumps(data))
"""

PORT = HostPort(
    name="rail1",
    rdma="mlx5_0",
    network="backend",
    peer="leaf1:swp1",
    gpu=0,
    rail=1,
    plane=1,
    speed_gbps=400.0,
    mtu=9000,
    trust="dscp",
    pfc=(3,),
    dscp=((26, 3), (30, 3), (48, 6)),
    traffic_class=106,
    cnp_dscp=48,
    dcqcn=(3,),
    pause="off",
    gid=3,
    addresses=("10.1.0.1/31",),
    gateway="10.1.0.0",
)


@st.composite
def host_ports(draw: st.DrawFn, number: int) -> HostPort:
    maybe = st.one_of(st.none(), st.integers(0, 7))
    priorities = st.one_of(st.none(), st.lists(st.integers(0, 7), unique=True, max_size=3).map(sorted).map(tuple))
    return HostPort(
        name=f"rail{number}",
        rdma=f"mlx5_{number}",
        network=draw(st.sampled_from(["backend", "frontend", "storage"])),
        peer=draw(st.sampled_from(["", "leaf1:Ethernet1/5"])),
        gpu=draw(maybe),
        rail=draw(maybe),
        plane=draw(maybe),
        speed_gbps=draw(st.sampled_from([0, 200.0, 400.0])),
        mtu=draw(st.sampled_from([1500, 9000])),
        trust=draw(st.sampled_from([None, "dscp", "pcp"])),
        pfc=draw(priorities),
        dscp=tuple(sorted(draw(st.dictionaries(st.integers(0, 63), st.integers(0, 7), max_size=4)).items())),
        traffic_class=draw(st.one_of(st.none(), st.integers(0, 255))),
        cnp_dscp=draw(st.one_of(st.none(), st.integers(0, 63))),
        dcqcn=draw(priorities),
        pause=draw(st.sampled_from([None, "on", "off"])),
        gid=draw(maybe),
        addresses=draw(st.sampled_from([(), (f"10.1.{number}.1/31",), ("10.2.0.1/24", "2001:db8::1/64")])),
        gateway=draw(st.sampled_from(["", "10.1.0.0"])),
        bond="bond0" if number == 0 and draw(st.booleans()) else "",
    )


@given(data=st.data(), count=st.integers(0, 4), network_manager=st.booleans())
@settings(max_examples=80, deadline=None)
def test_a_servers_files_are_read_back(data: st.DataObject, count: int, network_manager: bool) -> None:
    ports = tuple(data.draw(host_ports(number)) for number in range(count))
    keys, values = st.sampled_from(["NCCL_IB_TC", "NCCL_IB_HCA"]), st.sampled_from(["106", "=mlx5_0"])
    nccl = tuple(sorted(data.draw(st.dictionaries(keys, values)).items()))
    view = HostView("gpu-001", ports, nccl)
    reading = hosts.read(
        "gpu-001", {f"gpu-001/{name}": text for name, text in hosts.render(view, network_manager).items()}
    )
    assert reading.view == view
    assert all(reading.place(key).line for key, _ in host_statements(view))


def test_the_servers_of_a_plan_send_roce_as_the_contract_says(plan: Plan) -> None:
    views = host_views(plan, contracts_for(plan), {})
    assert [v.name for v in views] == ["gpu-001", "gpu-002"]
    rail1 = views[0].ports[0]
    assert (rail1.name, rail1.rdma, rail1.gpu) == ("rail1", "mlx5_0", 0)
    assert (rail1.traffic_class, rail1.cnp_dscp, rail1.pfc, rail1.dcqcn) == (106, 48, (3,), (3,))
    assert dict(views[0].nccl)["NCCL_IB_TC"] == "106"
    assert dict(views[0].nccl)["NCCL_IB_HCA"] == "=mlx5_0,mlx5_1"


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """A pretended server: stub tools, a sysfs of one adapter in its factory state, and host.conf."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("mlnx_qos", "ethtool", "cma_roce_tos", "ip"):
        (tools / tool).write_text(STUB)
        (tools / tool).chmod(0o755)
    files = hosts.render(HostView("gpu-001", (PORT,), (("NCCL_IB_TC", "106"),)))
    script = tmp_path / "railwright-host"
    script.write_text(files["railwright-host"])
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    root = tmp_path / "root"
    net, device = root / "sys/class/net/rail1", root / "sys/class/infiniband/mlx5_0"
    for path, text in {
        net / "mtu": "1500",
        net / "ecn/roce_np/cnp_dscp": "0",
        device / "tc/1/traffic_class": "Global tclass=0",
        device / "ports/1/gid_attrs/types/3": "RoCE v2",
        root / "etc/railwright/host.conf": files["host.conf"],
        root / "etc/nccl.conf": files["nccl.conf"],
        **{net / f"ecn/{point}/enable/{p}": "1" for point in ("roce_np", "roce_rp") for p in range(8)},
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "RAILWRIGHT_ROOT": str(root),
        "STUB_STATE": str(tmp_path / "state.json"),
        "STUB_ADDRESS": "10.1.0.1/31",
        "script": str(script),
    }


def run(machine: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [machine["script"], *arguments], env=machine, capture_output=True, text=True, timeout=60, check=False
    )


def test_apply_is_a_dry_run_first(machine: dict[str, str]) -> None:
    before = run(machine, "show").stdout
    planned = run(machine, "apply")
    assert planned.returncode == 0
    assert "mlnx_qos -i rail1 --pfc 0,0,0,1,0,0,0,0" in planned.stdout
    assert "ethtool -A rail1 rx off tx off" in planned.stdout
    assert "echo 106 >/sys/class/infiniband/mlx5_0/tc/1/traffic_class" in planned.stdout
    assert run(machine, "show").stdout == before


def test_after_apply_the_shown_state_is_the_contract_and_a_second_run_changes_nothing(machine: dict[str, str]) -> None:
    assert run(machine, "check").returncode == 1
    assert run(machine, "apply", "--yes").returncode == 0
    second = run(machine, "apply", "--yes")
    assert second.stdout == "as host.conf says\n"
    reading = hosts.read("gpu-001", {"gpu-001/show.txt": run(machine, "show").stdout})
    found = dict(host_statements(reading.view))
    blind = replace(PORT, gpu=None, gateway="")  # this machine has no nvidia-smi
    for key, value in host_statements(HostView("gpu-001", (blind,), (("NCCL_IB_TC", "106"),))):
        assert found[key] == value, key


def test_a_dump_tells_what_is_wrong(machine: dict[str, str]) -> None:
    reading = hosts.read("gpu-001", {"gpu-001/show.txt": run(machine, "show").stdout})
    port = reading.view.ports[0]
    assert (port.mtu, port.trust, port.pfc, port.traffic_class, port.pause) == (1500, "pcp", (), 0, "on")
    place = reading.place("nic/rail1/mtu")
    assert place.file == "gpu-001/show.txt"
    assert place.line > 0


def test_udev_names_a_port_by_its_rdma_device(machine: dict[str, str]) -> None:
    device = Path(machine["RAILWRIGHT_ROOT"]) / "sys/class/net/enp1s0np0/device/infiniband/mlx5_0"
    device.mkdir(parents=True)
    assert run(machine, "name", "enp1s0np0").stdout == "rail1\n"
    assert run(machine, "name", "eno1").stdout == "eno1\n"


def test_nccl_topology_gets_rail_and_plane_once(machine: dict[str, str], tmp_path: Path) -> None:
    dump = tmp_path / "dump.xml"
    dump.write_text('<nic>\n  <net name="mlx5_0" dev="0" speed="400000"/>\n  <net name="mlx5_9" dev="1"/>\n</nic>\n')
    once = run(machine, "nccl-topo", str(dump)).stdout
    assert once.splitlines()[1:3] == [
        '  <net name="mlx5_0" rail="0" plane="0" dev="0" speed="400000"/>',
        '  <net name="mlx5_9" dev="1"/>',
    ]
    dump.write_text(once)
    assert run(machine, "nccl-topo", str(dump)).stdout == once


def test_udev_finds_a_port_by_its_driver() -> None:
    rule = hosts.render(HostView("gpu-001", (PORT,)))[hosts.UDEV].splitlines()[-1]
    assert 'DRIVERS=="mlx5_core"' in rule
    assert "ID_NET_DRIVER" not in rule  # udev sets it only after rules 70


@pytest.fixture
def healthy(machine: dict[str, str]) -> dict[str, str]:
    """The pretended server after apply, in a slot of PCIe 5 x16, with dma-buf, no ACS, and its GPU beside its adapter."""
    root = Path(machine["RAILWRIGHT_ROOT"])
    for path, text in {
        "sys/class/net/rail1/device/current_link_speed": "32.0 GT/s PCIe",
        "sys/class/net/rail1/device/current_link_width": "16",
        "sys/class/net/rail1/speed": "400000",
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15",
        "proc/kallsyms": "0000000000000000 t ib_umem_dmabuf_get\t[ib_uverbs]",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text + "\n")
    tools = Path(machine["PATH"].partition(":")[0])
    put_tool(tools / "lspci", LSPCI.format(acs="SrcValid- TransBlk-"))
    put_tool(tools / "nvidia-smi", (FACTS / "h100.txt").read_text())
    assert run(machine, "apply", "--yes").returncode == 0
    return machine


def put_tool(path: Path, output: str) -> None:
    """Make ``path`` a program that prints ``output`` whatever it is asked."""
    text = path.with_suffix(".out")
    text.write_text(output)
    path.write_text(f"#!/bin/sh\ncat {text}\n")
    path.chmod(0o755)


LSPCI = """c9:00.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch
\tCapabilities: [f24 v1] Access Control Services
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+
\t\tACSCtl:\t{acs} ReqRedir-
"""


def test_check_has_nothing_to_say_of_a_healthy_server(healthy: dict[str, str]) -> None:
    found = run(healthy, "check")
    assert (found.stdout, found.returncode) == ("as host.conf says\n", 0)


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        (
            "sys/class/net/rail1/device/current_link_width",
            "8",
            "carries 252 Gb/s (32.0 GT/s x8), its ports need 400 Gb/s",
        ),
        ("sys/class/net/rail1/device/current_link_speed", "16.0 GT/s PCIe", "carries 252 Gb/s (16.0 GT/s x16)"),
        ("sys/class/net/rail1/speed", "200000", "rail1 runs at 200000 Mb/s, wanted 400 Gb/s"),
        ("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54", "GPUDirect RDMA"),
        ("proc/kallsyms", "0000000000000000 t dma_buf_get", "GPUDirect RDMA"),
    ],
)
def test_check_names_a_slow_slot_a_slow_port_and_missing_gpudirect(
    healthy: dict[str, str], path: str, text: str, said: str
) -> None:
    (Path(healthy["RAILWRIGHT_ROOT"]) / path).write_text(text + "\n")
    found = run(healthy, "check")
    assert said in found.stdout
    assert found.returncode == 1


def test_peermem_is_enough_without_dma_buf(healthy: dict[str, str]) -> None:
    root = Path(healthy["RAILWRIGHT_ROOT"])
    (root / "proc/kallsyms").unlink()
    (root / "sys/module/nvidia_peermem").mkdir(parents=True)
    assert run(healthy, "check").returncode == 0


def test_two_ports_share_what_their_slot_carries(healthy: dict[str, str]) -> None:
    root = Path(healthy["RAILWRIGHT_ROOT"])
    conf = root / "etc/railwright/host.conf"
    conf.write_text(conf.read_text() + "nic rail2 speed=200\n")
    for function, name in enumerate(("rail1", "rail2")):
        device = root / f"sys/devices/0000:18:00.{function}"
        device.mkdir(parents=True)
        (device / "current_link_speed").write_text("32.0 GT/s PCIe\n")
        (device / "current_link_width").write_text("16\n")
        link = root / "sys/class/net" / name / "device"
        if link.exists():
            shutil.rmtree(link)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(device)
    assert "carries 504 Gb/s (32.0 GT/s x16), its ports need 600 Gb/s" in run(healthy, "check").stdout


def test_infiniband_ports_are_judged_by_their_rdma_device(healthy: dict[str, str]) -> None:
    root = Path(healthy["RAILWRIGHT_ROOT"])
    (root / "etc/railwright/host.conf").write_text("nic rail1 rdma=mlx5_7 network=infiniband speed=400\n")
    device = root / "sys/class/infiniband/mlx5_7"
    for path, text in {
        "device/current_link_speed": "32.0 GT/s PCIe",
        "device/current_link_width": "8",
        "ports/1/rate": "200 Gb/sec (4X HDR)",
    }.items():
        (device / path).parent.mkdir(parents=True, exist_ok=True)
        (device / path).write_text(text + "\n")
    said = run(healthy, "check").stdout
    assert "rail1 runs at 200000 Mb/s, wanted 400 Gb/s" in said
    assert "the slot of rail1 carries 252 Gb/s (32.0 GT/s x8), its ports need 400 Gb/s" in said


def test_check_names_acs_a_far_adapter_and_a_topology_without_rails(healthy: dict[str, str]) -> None:
    tools = Path(healthy["PATH"].partition(":")[0])
    put_tool(tools / "lspci", LSPCI.format(acs="SrcValid+ TransBlk-"))
    put_tool(tools / "nvidia-smi", (FACTS / "a100_scattered.txt").read_text())
    with (Path(healthy["RAILWRIGHT_ROOT"]) / "etc/nccl.conf").open("a") as file:
        file.write("NCCL_TOPO_FILE=/etc/railwright/nccl-topo.xml\n")
    found = run(healthy, "check")
    assert "PCIe ACS is on at c9:00.0" in found.stdout
    assert "mlx5_0 of rail1 is not the nearest adapter of GPU 0, which is mlx5_2 (PIX)" in found.stdout
    assert "/etc/railwright/nccl-topo.xml has no rails" in found.stdout
    assert found.returncode == 1


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("h100", {0: ("PIX", ("mlx5_0",)), 1: ("PIX", ("mlx5_3",)), 2: ("NODE", ("mlx5_0", "mlx5_3"))}),
        ("dgx2_without_legend", {0: ("PIX", ("mlx5_0",)), 2: ("PIX", ("mlx5_1",)), 4: ("PIX", ("mlx5_2",))}),
        ("a100_scattered", {0: ("PIX", ("mlx5_2",)), 1: ("PIX", ("mlx5_4",)), 4: ("PIX", ("mlx5_1",))}),
        ("a100_pairs", {0: ("PXB", ("mlx5_0", "mlx5_1")), 1: ("PXB", ("mlx5_0", "mlx5_1"))}),
        ("one_gpu", {0: ("PHB", ("mlx5_0",))}),
        ("no_adapter", {}),
    ],
)
def test_nic_affinity_of_real_machines(file: str, expected: dict[int, tuple[str, tuple[str, ...]]]) -> None:
    found = nearest_adapters((FACTS / f"{file}.txt").read_text())
    assert {gpu: (n.distance, n.devices) for gpu, n in found.items()} == expected


@pytest.mark.parametrize(
    "file", ["h100", "dgx2_without_legend", "a100_scattered", "a100_pairs", "one_gpu", "no_adapter"]
)
def test_the_script_reads_affinity_as_the_reader_does(healthy: dict[str, str], file: str) -> None:
    text = (FACTS / f"{file}.txt").read_text()
    put_tool(Path(healthy["PATH"].partition(":")[0]) / "nvidia-smi", text)
    conf = Path(healthy["RAILWRIGHT_ROOT"]) / "etc/railwright/host.conf"
    for gpu, near in nearest_adapters(text).items():
        conf.write_text(f"nic x rdma=none gpu={gpu}\n")
        said = run(healthy, "check").stdout
        assert f"which is {' '.join(near.devices)} ({near.distance})" in said
    conf.write_text("nic x rdma=none gpu=99\n")
    assert "GPU 99 has no adapter" in run(healthy, "check").stdout


def test_affinity_in_a_dump_is_the_gpu_of_a_port(healthy: dict[str, str]) -> None:
    reading = hosts.read("gpu-001", {"gpu-001/show.txt": run(healthy, "show").stdout})
    assert reading.view.ports[0].gpu == 0
    assert reading.place("nic/rail1/gpu").line > 0


def test_something_else_than_a_matrix_is_refused() -> None:
    with pytest.raises(InputError, match="nvidia-smi topo -m"):
        nearest_adapters("nothing")


def test_a_wrong_word_in_host_conf_is_named_with_its_line() -> None:
    with pytest.raises(InputError, match=r"host.conf:2: mtu: 'mtu=nine' is not a setting"):
        hosts.read("a", {"a/host.conf": "# x\nnic rail1 mtu=nine\n"})
