"""Two sets of configurations: facts that differ, and an order that never touches two stand-ins at once."""

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
    (root / "c").mkdir()
    return {"a": root / "a", "b": root / "b"}


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


def test_switches_change_one_by_one_from_the_edge_upwards_and_are_drained(changed: Difference) -> None:
    layers = [step.layer for step in changed.rollout]
    assert layers == ["server", "leaf", "leaf", "spine"]
    assert all(len(step.devices) == 1 and step.drain for step in changed.rollout[1:])


def test_the_way_back_is_the_reverse(changed: Difference) -> None:
    plain = changed.as_dict()
    assert plain["rollback"] == plain["rollout"][::-1]


def test_a_new_device_comes_first_and_a_removed_one_last(sets: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "more"
    shutil.copytree(sets["a"], folder)
    (folder / "spine1").rename(folder / "spine2")
    moved = difference(read_configs(sets["a"]), read_configs(folder))
    assert (moved.added, moved.removed) == (("spine2",), ("spine1",))
    assert (moved.rollout[0].devices, moved.rollout[-1].devices) == (("spine2",), ("spine1",))
