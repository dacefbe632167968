"""Two sets of configurations: facts that differ, and an order that never touches two stand-ins at once."""

import json
import shutil
from pathlib import Path

import pytest

from railwright.build.difference import Difference, difference
from railwright.build.readings import read_configs
from railwright.build.render import render_plan
from railwright.cli.build import write_build
from railwright.design.plan import Plan


@pytest.fixture(scope="module")
def sets(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The plan's configurations for SONiC and NVUE, and for SONiC with another convention."""
    root = tmp_path_factory.mktemp("sets")
    write_build(render_plan(plan, ("sonic",)), root / "a")
    write_build(render_plan(plan, ("sonic",), convention="arista"), root / "b")
    write_build(render_plan(plan, ("nvue",)), root / "c")
    return {name: root / name for name in "abc"}


@pytest.fixture(scope="module")
def changed(sets: dict[str, Path]) -> Difference:
    """From DSCP 26 to DSCP 24 for RoCE."""
    return difference(read_configs(sets["a"]), read_configs(sets["b"]))


def test_a_set_does_not_differ_from_itself(sets: dict[str, Path]) -> None:
    same = difference(read_configs(sets["a"]), read_configs(sets["a"]))
    assert (same.added, same.removed, same.changes, same.rollout) == ((), (), (), ())


def test_facts_are_compared_not_lines(changed: Difference) -> None:
    leaf = {c.key: (c.before, c.after) for c in changed.changes if c.device == "rail1-leaf1"}
    assert leaf == {"dscp/24": ("0", "3"), "dscp/26": ("3", "0")}
    host = {c.key: (c.before, c.after) for c in changed.changes if c.device == "gpu-001"}
    assert host["nic/rail1/traffic_class"] == ("106", "98")


def test_another_operating_system_is_one_fact_not_a_thousand(sets: dict[str, Path]) -> None:
    other = difference(read_configs(sets["a"]), read_configs(sets["c"]))
    switches = [c for c in other.changes if c.device == "spine1"]
    assert [(c.key, c.before, c.after) for c in switches] == [("system", "sonic", "nvue")]
    assert [step.drain for step in other.rollout if "spine1" in step.devices] == [True]


def test_switches_change_one_by_one_from_the_edge_upwards_and_are_drained(changed: Difference) -> None:
    layers = [step.layer for step in changed.rollout]
    assert layers == ["server", "switch1", "switch1", "switch2"]
    assert all(step.drain for step in changed.rollout)
    assert all(len(step.devices) == 1 for step in changed.rollout[1:])


def test_the_way_back_is_the_reverse(changed: Difference) -> None:
    plain = changed.as_dict()
    assert plain["rollback"] == plain["rollout"][::-1]


def test_servers_behind_other_switches_change_in_another_step(sets: dict[str, Path], tmp_path: Path) -> None:
    halves = {}
    for side in ("a", "b"):
        folder = tmp_path / side
        shutil.copytree(sets[side], folder)
        shutil.copytree(folder / "gpu-001", folder / "gpu-003")
        conf = folder / "gpu-003" / "host.conf"
        conf.write_text(conf.read_text().replace("rail1-leaf1:", "spine1:").replace("rail2-leaf1:", "spine1:"))
        halves[side] = read_configs(folder)
    servers = [step.devices for step in difference(halves["a"], halves["b"]).rollout if step.layer == "server"]
    assert sorted(servers) == [("gpu-001", "gpu-002"), ("gpu-003",)]


def test_a_cable_that_moves_is_named(sets: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "moved"
    shutil.copytree(sets["a"], folder)
    file = folder / "spine1" / "config_db.json"
    db = json.loads(file.read_text())
    port = next(iter(db["DEVICE_NEIGHBOR"]))
    db["DEVICE_NEIGHBOR"][port]["port"] = "Ethernet504"
    file.write_text(json.dumps(db))
    moved = difference(read_configs(sets["a"]), read_configs(folder)).as_dict()["moved"]
    assert [(m["device"], m["key"], m["after"]) for m in moved] == [
        ("spine1", f"port/{port}/peer", moved[0]["before"].partition(":")[0] + ":Ethernet504")
    ]


def test_a_change_of_the_environment_only_drains_nobody(sets: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "nccl"
    shutil.copytree(sets["a"], folder)
    with (folder / "gpu-001" / "nccl.conf").open("a") as file:
        file.write("NCCL_DEBUG=WARN\n")
    (step,) = difference(read_configs(sets["a"]), read_configs(folder)).rollout
    assert (step.devices, step.drain) == (("gpu-001",), False)


def test_a_new_device_comes_first_and_a_removed_one_last(sets: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "more"
    shutil.copytree(sets["a"], folder)
    (folder / "spine1").rename(folder / "spine2")
    moved = difference(read_configs(sets["a"]), read_configs(folder))
    assert (moved.added, moved.removed) == (("spine2",), ("spine1",))
    assert (moved.rollout[0].devices, moved.rollout[-1].devices) == (("spine2",), ("spine1",))
    assert (moved.rollout[0].drain, moved.rollout[-1].drain) == (False, True)
    back = moved.rollback
    assert [(s.devices, s.layer, s.drain) for s in (back[0], back[-1])] == [
        (("spine1",), "new", False),
        (("spine2",), "removed", True),
    ]
