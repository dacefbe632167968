"""Mistakes seeded into clean configurations: each is found, on its hop and line, with the plan and, where two boxes show it,
without. The clean sets have no finding."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from railwright import tables
from railwright.build.render import Build, render_plan
from railwright.build.views import Target, device_views, retarget
from railwright.catalog.load import load_catalog
from railwright.check.configs import check_configs, config_rule_texts
from railwright.cli.build import write_build
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.design.qos_table import contracts_for
from railwright.errors import InputError
from railwright.findings import Finding
from railwright.spec.cluster import ClusterSpec

Edit = Callable[[str], str]


@pytest.fixture(scope="module")
def cluster() -> Plan:
    """4 servers on 8 rail leaves and 4 spines of SN5600, with cables of 5 m to servers and 40 m between switches."""
    spec = ClusterSpec.model_validate(
        {
            "name": "seeded",
            "cluster": {"servers": 4, "server": "hgx-h100"},
            "backend": {"topology": "rail-optimized", "tiers": 2, "switch": "sn5600", "counts": {"spines": 4}},
            "storage": {"enabled": False},
        }
    )
    plan = design_plan(spec, load_catalog())
    links = plan.links.with_columns(cable_id=pl.col("link_id"))
    host = pl.col("tier").cast(pl.String).is_in(["host", "service"])
    cables = links.select("cable_id", length_m=pl.when(host).then(5.0).otherwise(40.0))
    return plan.with_tables(links=links, cables=tables.conform("cables", cables))


@pytest.fixture(scope="module")
def clean(cluster: Plan, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Clean configurations of the cluster for SONiC, NVUE and EOS."""
    root = tmp_path_factory.mktemp("clean")
    for nos, platform in (("sonic", None), ("nvue", None), ("eos", "7060x6-64pe")):
        write_build(render_plan(cluster, (nos,), platform), root / nos)
    return {nos: root / nos for nos in ("sonic", "nvue", "eos")}


def edited(change: Callable[[dict[str, Any]], object]) -> Edit:
    """An edit of a configuration database."""

    def apply(text: str) -> str:
        db = json.loads(text)
        change(db)
        return json.dumps(db, indent=4) + "\n"

    return apply


def put(*path: str) -> Edit:
    """Set the JSON value at ``path[:-1]`` to ``path[-1]``; ``*`` is every key."""

    def change(db: dict[str, Any]) -> None:
        nodes = [db]
        for key in path[:-2]:
            nodes = [value for node in nodes for name, value in node.items() if key in ("*", name)]
        assert nodes
        for node in nodes:
            assert path[-2] in node, path
            node[path[-2]] = path[-1]

    return edited(change)


def drop(*path: str) -> Edit:
    """Delete the JSON key at ``path``."""

    def change(db: dict[str, Any]) -> None:
        node = db
        for key in path[:-1]:
            node = node[key]
        del node[path[-1]]

    return edited(change)


def swap(old: str, new: str, count: int = 1) -> Edit:
    """Replace text, which must be there."""

    def apply(text: str) -> str:
        assert re.search(old, text, re.MULTILINE), old
        return re.sub(old, new, text, count=count, flags=re.MULTILINE)

    return apply


@dataclass(frozen=True)
class Seed:
    """``file`` below the folder of ``nos``; ``line`` is in the line that the finding must point at."""

    name: str
    nos: str
    file: str
    edit: Edit
    code: str
    line: str
    alone: bool = True


LEAF = "rail1-leaf1/config_db.json"
HOST = "server-0003/host.conf"
UP = "Ethernet256"
SEEDS = [
    Seed("ECN none", "sonic", LEAF, put("WRED_PROFILE", "*", "ecn", "ecn_none"), "RW001", '"ecn": "ecn_none"'),
    Seed(
        "WRED enable flag false",
        "sonic",
        LEAF,
        put("WRED_PROFILE", "*", "wred_green_enable", "false"),
        "RW001",
        '"wred_green_enable": "false"',
    ),
    Seed("ECN profile not bound", "sonic", LEAF, drop("QUEUE", f"{UP}|3", "wred_profile"), "RW002", f"{UP}|3"),
    Seed("PFC on priority 4", "sonic", LEAF, put("PORT_QOS_MAP", UP, "pfc_enable", "4"), "RW003", '"pfc_enable": "4"'),
    Seed("PFC off", "sonic", LEAF, drop("PORT_QOS_MAP", UP, "pfc_enable"), "RW003", f'"{UP}": {{'),
    Seed("CNP in a lossy queue", "sonic", LEAF, put("DSCP_TO_TC_MAP", "*", "48", "0"), "RW005", '"48": "0"'),
    Seed("RoCE DSCP in a lossy priority", "sonic", LEAF, put("DSCP_TO_TC_MAP", "*", "26", "1"), "RW005", '"26": "1"'),
    Seed("RoCE DSCP not mapped", "sonic", LEAF, drop("DSCP_TO_TC_MAP", "RAILWRIGHT", "26"), "RW005", '"RAILWRIGHT"'),
    Seed("queue of priority 3", "sonic", LEAF, put("TC_TO_QUEUE_MAP", "*", "3", "4"), "RW006", '"3": "4"'),
    Seed("no priority group", "sonic", LEAF, drop("BUFFER_PG", f"{UP}|3"), "RW007", '"pfc_enable"'),
    Seed(
        "headroom of 5 m on a 40 m cable",
        "sonic",
        LEAF,
        put("BUFFER_PG", f"{UP}|3", "profile", "pg_lossless_400000_5m_profile"),
        "RW008",
        '"xoff": "230400"',
    ),
    Seed("cable length missing", "sonic", LEAF, drop("CABLE_LENGTH", "AZURE", UP), "RW009", '"AZURE"'),
    Seed("cable length 5 m", "sonic", LEAF, put("CABLE_LENGTH", "AZURE", UP, "5m"), "RW009", f'"{UP}": "5m"'),
    Seed("MTU 1500 on one hop", "sonic", LEAF, put("PORT", UP, "mtu", "1500"), "RW010", '"mtu": "1500"'),
    Seed("no FEC", "sonic", LEAF, put("PORT", UP, "fec", "none"), "RW011", '"fec": "none"'),
    Seed("half the speed", "sonic", LEAF, put("PORT", UP, "speed", "200000"), "RW012", '"speed": "200000"'),
    Seed(
        "wrong breakout",
        "sonic",
        LEAF,
        put("BREAKOUT_CFG", UP, "brkout_mode", "1x800G"),
        "RW012",
        '"brkout_mode": "1x800G"',
        alone=False,
    ),
    Seed("watchdog off", "sonic", LEAF, drop("PFC_WD", UP), "RW013", '"PFC_WD"'),
    Seed(
        "watchdog slower",
        "sonic",
        LEAF,
        swap(r'"detection_time": "200"', '"detection_time": "1000"', 0),
        "RW013",
        '"detection_time": "1000"',
    ),
    Seed(
        "profile not defined",
        "sonic",
        LEAF,
        put("QUEUE", f"{UP}|3", "wred_profile", "AZURE_LOSSLESS"),
        "RW021",
        '"wred_profile": "AZURE_LOSSLESS"',
    ),
    Seed(
        "Kmin ten times",
        "sonic",
        LEAF,
        edited(lambda db: [p.update(green_min_threshold="9000000") for p in db["WRED_PROFILE"].values()]),
        "RW045",
        '"green_min_threshold": "9000000"',
    ),
    Seed(
        "Kmin twice",
        "sonic",
        LEAF,
        edited(lambda db: [p.update(green_min_threshold="900000") for p in db["WRED_PROFILE"].values()]),
        "RW022",
        '"green_min_threshold": "900000"',
        alone=False,
    ),
    Seed(
        "RoCE queue strict",
        "sonic",
        LEAF,
        edited(lambda db: db["SCHEDULER"].update({"scheduler.3": {"type": "STRICT"}})),
        "RW029",
        '"scheduler.3"',
    ),
    Seed("DSCP not trusted", "sonic", LEAF, drop("PORT_QOS_MAP", UP, "dscp_to_tc_map"), "RW030", f'"{UP}": {{'),
    Seed(
        "cables swapped",
        "sonic",
        LEAF,
        edited(lambda db: db["DEVICE_NEIGHBOR"][UP].update(name="spine4", port="Ethernet8")),
        "RW028",
        f'"{UP}": {{',
    ),
    Seed("session missing", "sonic", "rail1-leaf1/frr.conf", swap(rf"^ neighbor {UP} .*\n", "", 0), "RW025", ""),
    Seed(
        "BFD missing",
        "sonic",
        "rail1-leaf1/frr.conf",
        swap(rf"^ neighbor {UP} bfd .*\n", ""),
        "RW025",
        f"neighbor {UP}",
    ),
    Seed("host TOS 104", "sonic", HOST, swap("traffic_class=106", "traffic_class=104"), "RW014", "traffic_class=104"),
    Seed("host DSCP 0", "sonic", HOST, swap("traffic_class=106", "traffic_class=2"), "RW014", "traffic_class=2"),
    Seed("host PFC on 4", "sonic", HOST, swap("pfc=3", "pfc=4"), "RW015", "pfc=4"),
    Seed("host trusts pcp", "sonic", HOST, swap("trust=dscp", "trust=pcp"), "RW016", "trust=pcp"),
    Seed("host global pause", "sonic", HOST, swap("pause=off", "pause=on"), "RW017", "pause=on"),
    Seed("host DCQCN off", "sonic", HOST, swap("dcqcn=3", "dcqcn=none"), "RW023", "dcqcn=none"),
    Seed("host DSCP map", "sonic", HOST, swap("26:3", "26:1"), "RW024", "26:1"),
    Seed("host CNP DSCP", "sonic", HOST, swap("cnp_dscp=48", "cnp_dscp=0"), "RW004", "cnp_dscp=0"),
    Seed("host MTU 1500", "sonic", "server-0003/netplan.yaml", swap("mtu: 9000", "mtu: 1500"), "RW010", "mtu: 1500"),
    Seed(
        "wrong GID index", "sonic", "server-0003/nccl.conf", swap("GID_INDEX=3", "GID_INDEX=1"), "RW018", "GID_INDEX=1"
    ),
    Seed("NCCL traffic class", "sonic", "server-0003/nccl.conf", swap("IB_TC=106", "IB_TC=0"), "RW019", "IB_TC=0"),
    Seed(
        "NCCL over the frontend", "sonic", "server-0003/nccl.conf", swap("mlx5_0,", "mlx5_8,"), "RW020", "NCCL_IB_HCA"
    ),
    Seed(
        "NCCL bootstrap on a rail",
        "sonic",
        "server-0003/nccl.conf",
        swap("=bond0", "=rail1"),
        "RW020",
        "NCCL_SOCKET_IFNAME",
    ),
    Seed(
        "NVUE: ECN disabled",
        "nvue",
        "rail1-leaf1/startup.yaml",
        swap("ecn: enable", "ecn: disable"),
        "RW001",
        "ecn: disable",
    ),
    Seed(
        "NVUE: cable length 5 m",
        "nvue",
        "rail1-leaf1/startup.yaml",
        swap("cable-length: 40", "cable-length: 5"),
        "RW009",
        "cable-length: 5",
    ),
    Seed(
        "NVUE: DSCP map",
        "nvue",
        "spine1/startup.yaml",
        swap(r"('26':\n\s+switch-priority: )3", r"\g<1>1"),
        "RW005",
        "'26'",
    ),
    Seed(
        "NVUE: PFC not sent",
        "nvue",
        "rail1-leaf1/startup.yaml",
        swap("tx: enable", "tx: disable"),
        "RW003",
        "switch-priority",
    ),
    Seed("NVUE: MTU", "nvue", "spine1/startup.yaml", swap("mtu: 9216", "mtu: 1500"), "RW010", "mtu: 1500"),
    Seed(
        "EOS: PFC on priority 4",
        "eos",
        "rail1-leaf1/startup-config",
        swap("priority 3 no-drop", "priority 4 no-drop"),
        "RW003",
        "priority 4 no-drop",
    ),
    Seed(
        "EOS: no ECN",
        "eos",
        "rail1-leaf1/startup-config",
        swap(r"^ +random-detect ecn min.*\n", "", 0),
        "RW002",
        "qos profile",
    ),
    Seed(
        "EOS: DSCP map",
        "eos",
        "spine1/startup-config",
        swap("(dscp 26 to traffic-class) 3", r"\1 1"),
        "RW005",
        "dscp 26",
    ),
    Seed(
        "watchdog without its priorities",
        "sonic",
        LEAF,
        drop("PORT_QOS_MAP", UP, "pfcwd_sw_enable"),
        "RW013",
        f'"{UP}": {{',
    ),
    Seed(
        "watchdog on another priority",
        "sonic",
        LEAF,
        put("PORT_QOS_MAP", UP, "pfcwd_sw_enable", "4"),
        "RW013",
        '"pfcwd_sw_enable": "4"',
    ),
    Seed(
        "buffer pool too small",
        "sonic",
        LEAF,
        put("BUFFER_POOL", "ingress_lossless_pool", "size", "1048576"),
        "RW044",
        '"size": "1048576"',
        alone=False,
    ),
    Seed(
        "NVUE: Kmin above Kmax",
        "nvue",
        "rail1-leaf1/startup.yaml",
        swap(r"min-threshold: \d+", "min-threshold: 99999999", 0),
        "RW045",
        "min-threshold: 99999999",
    ),
    Seed(
        "EOS: Kmin above Kmax",
        "eos",
        "rail1-leaf1/startup-config",
        swap(r"minimum-threshold \d+ bytes", "minimum-threshold 99999999 bytes", 0),
        "RW045",
        "minimum-threshold 99999999 bytes",
    ),
    Seed(
        "paths of different ASes not equal",
        "sonic",
        "rail1-leaf1/frr.conf",
        swap(r"^ bgp bestpath as-path multipath-relax\n", "", 0),
        "RW025",
        "router bgp",
        alone=False,
    ),
    Seed(
        "NVUE: paths of different ASes not equal",
        "nvue",
        "rail1-leaf1/startup.yaml",
        swap("aspath-ignore: .*", "aspath-ignore: off", 0),
        "RW025",
        "aspath-ignore: off",
        alone=False,
    ),
    Seed(
        "EOS: routing model",
        "eos",
        "rail1-leaf1/startup-config",
        swap("model multi-agent", "model ribd"),
        "RW025",
        "model ribd",
    ),
    Seed(
        "EOS: FEC", "eos", "spine1/startup-config", swap(r"^ +error-correction .*\n", ""), "RW011", "interface Ethernet"
    ),
]


def test_at_least_thirty_mistakes_are_seeded() -> None:
    assert len(SEEDS) >= 30
    assert len({seed.name for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("nos", ["sonic", "nvue", "eos"])
def test_a_clean_set_has_no_finding(cluster: Plan, clean: dict[str, Path], nos: str) -> None:
    assert check_configs(clean[nos], cluster) == []
    assert check_configs(clean[nos]) == []


def test_a_clean_set_of_frr_has_no_finding(cluster: Plan, tmp_path: Path) -> None:
    write_build(render_plan(cluster, ("frr",)), tmp_path / "configs")
    assert check_configs(tmp_path / "configs", cluster) == []
    assert check_configs(tmp_path / "configs") == []


def test_servers_alone_are_read_and_have_no_finding(cluster: Plan, tmp_path: Path) -> None:
    files = render_plan(cluster, ("sonic",)).files
    write_build(Build({path: text for path, text in files.items() if path.startswith("server-")}), tmp_path / "hosts")
    assert check_configs(tmp_path / "hosts") == []
    assert {finding.code for finding in check_configs(tmp_path / "hosts", cluster)} == {"RW027"}


def test_one_system_of_a_build_for_several_is_checked_with_its_servers(cluster: Plan, tmp_path: Path) -> None:
    write_build(render_plan(cluster, ("sonic", "frr")), tmp_path / "configs")
    for nos in ("sonic", "frr"):
        assert check_configs(tmp_path / "configs" / nos, cluster) == []
        assert check_configs(tmp_path / "configs" / nos) == []
    with pytest.raises(InputError, match=r"a folder per operating system \(frr, sonic\)"):
        check_configs(tmp_path / "configs")


def test_a_platform_is_named_as_its_vendor_writes_it(cluster: Plan) -> None:
    moved, stayed = retarget(cluster, Target("eos", "7060X6-64PE"))
    assert not stayed
    assert "7060x6-64pe" in set(moved.devices["model"])


def test_switches_without_a_port_in_use_have_a_view_without_ports(cluster: Plan) -> None:
    bare = cluster.with_tables(links=cluster.links.clear(), ports=cluster.ports.clear())
    views = device_views(bare, contracts_for(bare, None), Target("frr"))
    assert views
    assert not any(view.ports for view in views)


def found(findings: list[Finding], seed: Seed, folder: Path) -> bool:
    device = seed.file.partition("/")[0]
    for finding in findings:
        match = re.search(r"\[([^\]]+?)(?::(\d+))?\]$", finding.message)
        if finding.code != seed.code or not finding.subject.startswith(device) or match is None:
            continue
        text = (folder / match[1]).read_text().splitlines()
        line = text[int(match[2]) - 1] if match[2] else ""
        on_hop = device.startswith("server") or re.match(rf"hop server-\d+( > \S+)* > {device}: ", finding.message)
        if seed.line in line and on_hop and match[1].startswith(device):
            return True
    return False


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: seed.name)
def test_a_seeded_mistake_is_found_on_its_hop_and_line(
    cluster: Plan, clean: dict[str, Path], tmp_path: Path, seed: Seed
) -> None:
    folder = tmp_path / "configs"
    shutil.copytree(clean[seed.nos], folder)
    file = folder / seed.file
    file.write_text(seed.edit(file.read_text()))
    with_plan = check_configs(folder, cluster)
    assert found(with_plan, seed, folder), [(f.code, f.subject, f.message) for f in with_plan]
    if seed.alone:
        alone = check_configs(folder)
        assert found(alone, seed, folder), [(f.code, f.subject, f.message) for f in alone]


def test_missing_and_foreign_devices_are_named(cluster: Plan, clean: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "configs"
    shutil.copytree(clean["sonic"], folder)
    (folder / "spine1").rename(folder / "spine99")
    subjects = {finding.subject for finding in check_configs(folder, cluster) if finding.code == "RW027"}
    assert subjects == {"spine1", "spine99"}


def test_a_broken_file_is_an_input_error_with_its_line(clean: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "configs"
    shutil.copytree(clean["sonic"], folder)
    (folder / LEAF).write_text('{\n "PORT": {\n')
    with pytest.raises(InputError, match=r"config_db.json:3"):
        check_configs(folder)
    with pytest.raises(InputError, match="no device is here"):
        check_configs(tmp_path)


@pytest.mark.parametrize("text", ["", "\n\n", "!\n! device: leaf1\n!\nend\n"])
@pytest.mark.parametrize(
    ("nos", "name"),
    [("eos", "startup-config"), ("sonic", "config_db.json"), ("nvue", "startup.yaml"), ("sonic", "frr.conf")],
)
def test_an_empty_file_is_an_input_error(
    cluster: Plan, clean: dict[str, Path], tmp_path: Path, nos: str, name: str, text: str
) -> None:
    folder = tmp_path / "configs"
    shutil.copytree(clean[nos], folder)
    file = folder / "rail1-leaf1" / name
    file.write_text(text if name in ("startup-config", "frr.conf") else "\n" * len(text))
    with pytest.raises(InputError, match=rf"rail1-leaf1/{name}.*is empty"):
        check_configs(folder, cluster)


def test_every_code_has_a_text_with_a_source() -> None:
    codes = list(config_rule_texts())
    assert codes == [f"RW{n:03d}" for n in range(1, len(codes) + 1)]
    assert all(text.source and text.fix for text in config_rule_texts().values())
