"""The whole build: files per box, re-targeting, systems that a platform does not run, hostile names, nothing half-written."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from railwright.build.render import check_paths, render_plan
from railwright.catalog.load import load_catalog
from railwright.cli.build import write_build
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.errors import InputError
from railwright.spec.cluster import ClusterSpec
from railwright.spec.load import read_spec

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> Plan:
    file = read_spec(EXAMPLES / f"{name}.yaml")
    return design_plan(file.checked(load_catalog()), load_catalog())


@pytest.fixture(scope="module")
def cluster() -> Plan:
    """The 128-GPU RoCEv2 example."""
    return example("rail-only-128")


@pytest.mark.parametrize(
    ("nos", "platform", "file"),
    [
        ("sonic", None, "config_db.json"),
        ("nvue", None, "startup.yaml"),
        ("frr", None, "frr.conf"),
        ("eos", "7060x6-64pe", "startup-config"),
    ],
)
def test_every_fabric_switch_and_server_of_the_128_gpu_example_has_its_files(
    cluster: Plan, nos: str, platform: str | None, file: str
) -> None:
    made = render_plan(cluster, (nos,), platform)
    switches = cluster.devices.filter(
        pl.col("role").cast(pl.String).is_in(["leaf", "spine", "core", "border"])
        & (pl.col("network").cast(pl.String) != "management")
    )["name"]
    assert set(made.systems) == set(switches)
    assert all(f"{name}/{file}" in made.files for name in switches)
    for server in cluster.devices.filter(pl.col("role") == "server")["name"]:
        assert {f"{server}/{name}" for name in ("host.conf", "netplan.yaml", "nccl.conf")} <= set(made.files)


def test_the_superpod_example_has_the_subnet_managers_files() -> None:
    made = render_plan(example("h100-superpod-4su"))
    for fabric in ("backend", "storage"):
        wanted = ("opensm.conf", "partitions.conf", "root_guids.conf", "fabric.topo")
        assert {f"opensm/{fabric}/{name}" for name in wanted} <= set(made.files)
    assert "routing_engine ftree,updn" in made.files["opensm/backend/opensm.conf"]
    assert made.skipped["rail1-leaf1"].startswith("the subnet manager")


def test_the_same_plan_gives_the_same_bytes(cluster: Plan) -> None:
    assert render_plan(cluster, ("sonic",)).files == render_plan(cluster, ("sonic",)).files


def test_several_systems_get_a_folder_each(cluster: Plan) -> None:
    made = render_plan(cluster, ("sonic", "nvue"))
    assert "sonic/rail1-leaf1/config_db.json" in made.files
    assert "nvue/rail1-leaf1/startup.yaml" in made.files


def test_a_system_that_the_platform_does_not_run_is_refused_with_the_way_out(cluster: Plan) -> None:
    with pytest.raises(InputError, match=r"does not run eos .*--platform"):
        render_plan(cluster, ("eos",))
    with pytest.raises(InputError, match=r"no renderer for 'sonc' .*'sonic'"):
        render_plan(cluster, ("sonc",))
    with pytest.raises(InputError, match="7060x6"):
        render_plan(cluster, ("eos",), "7060x6-64p")


def test_a_platform_without_the_ports_is_refused(cluster: Plan) -> None:
    with pytest.raises(InputError, match="no switch fits"):
        render_plan(cluster, ("sonic",), "sn2201")


HOSTILE = [
    "leaf1; reboot",
    "leaf1\nusername admin",
    'leaf1"},"X":{"',
    "../../etc/passwd",
    "leaf1/../../x",
    "$(reboot)",
    "leaf1 `id`",
    "-rf",
    "..",
    "",
    "leaf 1",
    "leaf1\x00",
    "a" * 300,
    "лист",
]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("role", ["leaf", "server"])
def test_no_name_can_inject(make_plan: Callable[..., Plan], name: str, role: str) -> None:
    plan = make_plan()
    victim = plan.devices.filter(pl.col("role") == role)["device_id"][0]
    devices = plan.devices.with_columns(
        name=pl.when(pl.col("device_id") == victim).then(pl.lit(name)).otherwise("name")
    )
    with pytest.raises(InputError, match="cannot be the name of a device"):
        render_plan(plan.with_tables(devices=devices), ("sonic",))


@pytest.mark.parametrize("path", ["../x", "a/../../b", "/etc/passwd", "a//b", "a/b c", "a/b\nc"])
def test_no_file_leaves_its_folder(path: str) -> None:
    with pytest.raises(InputError):
        check_paths({path: ""})


def test_a_foreign_folder_is_not_overwritten_and_an_old_build_is_replaced(cluster: Plan, tmp_path: Path) -> None:
    made = render_plan(cluster, ("sonic",))
    target = tmp_path / "configs"
    write_build(made, target)
    (target / "stale").mkdir()
    write_build(made, target)
    assert not (target / "stale").exists()
    assert json.loads((target / "build.json").read_text())["systems"]["rail1-leaf1"] == "sonic"
    foreign = tmp_path / "mine"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("x")
    with pytest.raises(InputError):
        write_build(made, foreign)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_sonic_files_keep_the_constraints_of_sonics_models(cluster: Plan) -> None:
    """What sonic-yang-models demand of these tables, as far as the facts say (patterns, ranges, references)."""
    for path, text in render_plan(cluster, ("sonic",)).files.items():
        if not path.endswith("config_db.json"):
            continue
        db = json.loads(text)
        for port in db["PORT"].values():
            assert 68 <= int(port["mtu"]) <= 9216
            assert 1 <= int(port["speed"]) <= 1_600_000
            assert port["fec"] in ("rs", "fc", "none", "auto")
            assert re.fullmatch(r"\d+(,\d+)*", port["lanes"])
        for profile in db.get("WRED_PROFILE", {}).values():
            assert int(profile["green_min_threshold"]) <= int(profile["green_max_threshold"])
            assert 0 <= int(profile["green_drop_probability"]) <= 100
            assert profile["ecn"].startswith("ecn_")
        for scheduler in db["SCHEDULER"].values():
            assert scheduler["type"] in ("DWRR", "WRR", "STRICT")
            assert 1 <= int(scheduler.get("weight", 1)) <= 100
        for key, entry in db.get("PFC_WD", {}).items():
            if key != "GLOBAL":
                assert 100 <= int(entry["detection_time"]) <= 5000
                assert 100 <= int(entry["restoration_time"]) <= 60000
        for length in db["CABLE_LENGTH"]["AZURE"].values():
            assert re.fullmatch(r"(0|[1-9]\d*)m", length)
        for key, entry in db["BUFFER_PG"].items():
            port, number = key.split("|")
            assert port in db["PORT"]
            assert re.fullmatch(r"[0-7](-[0-7])?", number)
            assert entry["profile"] == "NULL" or entry["profile"] in db["BUFFER_PROFILE"]
        for entry in db["BUFFER_PROFILE"].values():
            assert entry["pool"] in db["BUFFER_POOL"]
            assert -8 <= int(entry["dynamic_th"]) <= 8
        for entry in db["QUEUE"].values():
            assert entry["scheduler"] in db["SCHEDULER"]
            assert entry.get("wred_profile", "x") in (*db.get("WRED_PROFILE", {}), "x")
        for table in ("DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP", "TC_TO_PRIORITY_GROUP_MAP"):
            assert all(0 <= int(v) <= 7 for m in db[table].values() for v in m.values())
        assert db["DEVICE_METADATA"]["localhost"]["type"] in ("LeafRouter", "SpineRouter", "ToRRouter")


def test_counts_that_need_more_cages_than_a_switch_has_are_refused_by_name() -> None:
    """512 uplinks on two switches of 64 large cages: the plan is made as asked, a configuration cannot be."""
    spec = ClusterSpec.model_validate(
        {
            "name": "too-few",
            "cluster": {"servers": 8, "server": "hgx-h100"},
            "backend": {"topology": "rail-optimized", "tiers": 2, "switch": "sn5600", "counts": {"spines": 2}},
        }
    )
    with pytest.raises(InputError, match=r"spine1 needs cage \d+, but sn5600 has 65"):
        render_plan(design_plan(spec, load_catalog()))


def test_routed_servers_are_refused_because_they_would_have_no_session() -> None:
    spec = ClusterSpec.model_validate(
        {"name": "routed", "cluster": {"servers": 2, "server": "hgx-h100"}, "frontend": {"attach": "routed"}}
    )
    with pytest.raises(InputError, match="no sessions between leaves and servers") as error:
        render_plan(design_plan(spec, load_catalog()))
    assert error.value.key == "frontend.attach"


def test_a_vrf_name_that_no_linux_interface_can_have_is_refused() -> None:
    """IFNAMSIZ is 16 with the closing zero, and SONiC puts Vrf- before the name: 11 characters are left."""
    tenants = [{"name": "twelve-chars", "servers": 1}, {"name": "eleven-char", "servers": 1}]
    spec = {"name": "long", "cluster": {"servers": 2, "server": "hgx-h100"}, "tenants": tenants}
    with pytest.raises(InputError, match=r"twelve-chars.*12 characters"):
        render_plan(design_plan(ClusterSpec.model_validate(spec), load_catalog()))
