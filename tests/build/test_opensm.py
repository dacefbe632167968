"""InfiniBand: routing engine, partitions and topology; our files in the real OpenSM over ibsim."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from railwright.build import opensm
from railwright.build.opensm import Fabric
from railwright.catalog.load import load_catalog
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.design.qos import profile_contract
from railwright.errors import InputError
from railwright.spec.cluster import ClusterSpec

CREDITS = profile_contract("credits")


def superpod(servers: int, spines: int | None = None, tenants: tuple[dict[str, object], ...] = ()) -> Plan:
    counts = {"spines": spines} if spines else {}
    return design_plan(
        ClusterSpec.model_validate(
            {
                "name": "pod",
                "cluster": {"servers": servers, "server": "dgx-h100"},
                "backend": {
                    "topology": "rail-optimized",
                    "transport": "infiniband",
                    "tiers": 2,
                    "switch": "qm9700",
                    "servers_per_unit": 32,
                    "counts": counts,
                },
                "storage": {"enabled": False},
                "tenants": list(tenants),
            }
        ),
        load_catalog(),
    )


@pytest.fixture(scope="module")
def pods() -> dict[int, tuple[Plan, Fabric]]:
    """The 3-unit fabric (24 leaves x 32 uplinks) with 12 spines, which do not divide 32, and with 16."""
    plans = {spines: superpod(96, spines) for spines in (12, 16)}
    return {spines: (plan, opensm.fabrics(plan, "backend")[0]) for spines, plan in plans.items()}


def test_16_spines_make_a_pure_fat_tree_and_12_do_not(pods: dict[int, tuple[Plan, Fabric]]) -> None:
    assert opensm.choose_routing(pods[16][1])[0] == "ftree,updn"
    engine, why = opensm.choose_routing(pods[12][1])
    assert engine == "updn"
    assert "2 to 3 ports to the 12 switches" in why


def test_every_adapter_and_switch_is_a_node_with_a_guid_of_its_own(pods: dict[int, tuple[Plan, Fabric]]) -> None:
    _, fabric = pods[16]
    assert fabric.nodes["kind"].value_counts().sort("kind").rows() == [("Hca", 768), ("Switch", 40)]
    assert fabric.nodes["guid"].n_unique() == 808
    assert len(fabric.cables) == 768 + 24 * 32


def test_guids_come_from_ibnetdiscover() -> None:
    text = (
        'Switch\t64 "S-b8599f0300000001"\t# "rail1-leaf1" enhanced port 0 lid 5 lmc 0\n'
        '[1]\t"H-ec0d9a0300000010"[1](ec0d9a0300000011)\t# "server-001 mlx5_0" lid 9 4xNDR\n\n'
        'Ca\t1 "H-ec0d9a0300000010"\t# "server-001 mlx5_0"\n[1](ec0d9a0300000011) \t"S-b8599f0300000001"[1]\n'
    )
    found = opensm.guids_from(text)
    assert found == {"rail1-leaf1": 0xB8599F0300000001, "server-001 mlx5_0": 0xEC0D9A0300000011}
    plan = superpod(32)
    leaf = plan.devices["name"].filter(plan.devices["role"] == "leaf")[0]
    fabric = opensm.fabrics(plan, "backend", {leaf: 0xB8599F0300000001})[0]
    assert dict(fabric.nodes.select("label", "guid").iter_rows())[leaf] == 0xB8599F0300000001
    with pytest.raises(InputError, match="ibnetdiscover"):
        opensm.guids_from("nothing")


def test_topology_file_lists_every_port_from_both_ends(pods: dict[int, tuple[Plan, Fabric]]) -> None:
    _, fabric = pods[16]
    text = opensm.topo(fabric)
    assert len(re.findall(r"^    P\d+ -> ", text, re.MULTILINE)) == 2 * len(fabric.cables)
    assert len(re.findall(r"^QM9700 ", text, re.MULTILINE)) == 40


def test_tenants_are_full_members_of_their_own_partition_only() -> None:
    tenants = ({"name": "red", "servers": 8}, {"name": "blue", "servers": 24})
    plan = superpod(32, tenants=tenants)
    text = opensm.partitions(plan, opensm.fabrics(plan, "backend")[0])
    lines = dict(line.split("=", 1) for line in text.splitlines())
    assert "ALL=limited" in lines["Default"]
    assert (lines["red"].count("=full"), lines["blue"].count("=full")) == (8 * 8 + 1, 24 * 8 + 1)
    assert not set(re.findall(r"0x[0-9a-f]{16}", lines["red"])) & set(re.findall(r"0x[0-9a-f]{16}", lines["blue"]))


def test_opensm_knows_every_key_of_our_file(
    tool: Callable[[str], str], tmp_path: Path, pods: dict[int, tuple[Plan, Fabric]]
) -> None:
    defaults = tmp_path / "defaults.conf"
    subprocess.run([tool("opensm"), "-c", str(defaults)], capture_output=True, timeout=60, check=True)
    known = {line.split()[0] for line in defaults.read_text().splitlines() if line and not line.startswith("#")}
    plan, fabric = pods[16]
    files = opensm.render(plan, fabric, CREDITS)
    for ours in (files["opensm.conf"], files["congestion.conf"]):
        assert {line.split()[0] for line in ours.splitlines() if line and not line.startswith("#")} <= known


def test_congestion_control_is_a_variant_that_opensm_reads_back_as_written(
    tool: Callable[[str], str], tmp_path: Path, pods: dict[int, tuple[Plan, Fabric]]
) -> None:
    plan, fabric = pods[16]
    files = opensm.render(plan, fabric, CREDITS)
    assert "congestion_control FALSE" in files["opensm.conf"]
    (tmp_path / "ours.conf").write_text(files["congestion.conf"])
    command = [tool("opensm"), "-F", str(tmp_path / "ours.conf"), "-c", str(tmp_path / "read.conf")]
    subprocess.run(command, capture_output=True, timeout=60, check=True)
    read = (tmp_path / "read.conf").read_text()
    wanted = [line for line in files["congestion.conf"].splitlines() if not line.startswith("#")]
    assert set(wanted) <= set(read.splitlines())


def _once(program: str, library: Path, directory: Path, environment: dict[str, str]) -> None:
    subprocess.run(
        [program, "-F", str(directory / "opensm.conf"), "-o", "-D", "0x07", "-f", str(directory / "osm.log")],
        cwd=directory,
        env={**environment, "LD_PRELOAD": str(library), "OSM_TMP_DIR": str(directory), "OSM_CACHE_DIR": str(directory)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=True,
    )


@pytest.fixture
def subnet(tool: Callable[[str], str], tmp_path: Path) -> Callable[..., str]:
    """Run OpenSM once on a fabric in ibsim and return its log."""
    opensm_path, ibsim_path = tool("opensm"), tool("ibsim")
    library = next(Path("/usr/lib").rglob("libumad2sim.so"), None)
    if library is None:
        pytest.fail("libumad2sim.so is not installed: run tools/install-test-daemons.sh as root", pytrace=False)

    def run(fabric: Fabric, files: dict[str, str]) -> str:
        (tmp_path / "net").write_text(opensm.ibsim_network(fabric))
        for name, text in files.items():
            (tmp_path / name).write_text(text.replace("/etc/opensm/", f"{tmp_path}/"))
        host = fabric.nodes["label"].filter(fabric.nodes["kind"] == "Hca")[0]
        # ibsim's sockets are abstract: a name of its own keeps parallel tests apart.
        environment = {**os.environ, "IBSIM_SOCKNAME": f"rw{os.getpid()}{tmp_path.name}"[:40], "SIM_HOST": host}
        with subprocess.Popen(
            [ibsim_path, "-s", "-N", "4000", "-S", "400", "-P", "40000", "net"],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as simulator:
            try:
                assert simulator.stdout is not None
                while (line := simulator.stdout.readline()) and "simulator ready" not in line:
                    pass
                _once(opensm_path, library, tmp_path, environment)
            finally:
                simulator.terminate()
        return (tmp_path / "osm.log").read_text()

    return run


def without_lists(files: dict[str, str]) -> dict[str, str]:
    """The files with ftree alone and no GUID lists: with a list of roots OpenSM checks ranks only, not purity."""
    conf = re.sub(r"^\w+_guid_file .*\n", "", files["opensm.conf"], flags=re.MULTILINE)
    return {**files, "opensm.conf": re.sub(r"^routing_engine .*$", "routing_engine ftree", conf, flags=re.MULTILINE)}


def test_opensm_takes_our_files_and_routes_the_fat_tree(
    subnet: Callable[..., str], pods: dict[int, tuple[Plan, Fabric]]
) -> None:
    plan, fabric = pods[16]
    log = subnet(fabric, opensm.render(plan, fabric, CREDITS))
    assert "ftree tables configured on all switches" in log
    assert "SUBNET UP" in log
    assert " ERR " not in log


def test_opensms_ftree_accepts_the_16_spine_fabric(
    subnet: Callable[..., str], pods: dict[int, tuple[Plan, Fabric]]
) -> None:
    plan, fabric = pods[16]
    assert "ftree tables configured" in subnet(fabric, without_lists(opensm.render(plan, fabric, CREDITS)))


def test_opensms_ftree_refuses_the_12_spine_fabric(
    subnet: Callable[..., str], pods: dict[int, tuple[Plan, Fabric]]
) -> None:
    plan, fabric = pods[12]
    log = subnet(fabric, without_lists(opensm.render(plan, fabric, CREDITS)))
    assert "Fabric topology is not a fat-tree" in log
    assert "ftree tables configured" not in log


def test_opensm_takes_the_partitions_of_tenants(subnet: Callable[..., str]) -> None:
    plan = superpod(32, tenants=({"name": "red", "servers": 8}, {"name": "blue", "servers": 24}))
    fabric = opensm.fabrics(plan, "backend")[0]
    log = subnet(fabric, opensm.render(plan, fabric, CREDITS))
    assert "SUBNET UP" in log
    assert " ERR " not in log
