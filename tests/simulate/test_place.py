"""Where jobs go: as few leaves and pods as there can be, whatever is busy; Slurm's node lists and files."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railwright.errors import InputError
from railwright.simulate.jobs.files import RankPlace, read_nodes, read_ranks, read_topology
from railwright.simulate.jobs.nodelist import compress, expand
from railwright.simulate.jobs.place import NoRoomError, place


def groups(*pods: tuple[int, ...], per_domain: int = 1) -> pl.DataFrame:
    """Pods of units of so many servers each."""
    units = [(pod, size) for pod, sizes in enumerate(pods, 1) for size in sizes]
    rows = [(pod, unit) for unit, (pod, size) in enumerate(units, 1) for _ in range(size)]
    return pl.DataFrame(
        {
            "name": [f"srv{i:03d}" for i in range(len(rows))],
            "domain": np.arange(len(rows)) // per_domain,
            "unit": [unit for _, unit in rows],
            "pod": [pod for pod, _ in rows],
            "leaves": [f"leaf{unit}" for _, unit in rows],
        }
    )


def least_units(sizes: list[int], count: int) -> int:
    """So many of the largest units hold ``count`` servers."""
    return int(np.searchsorted(np.cumsum(sorted(sizes, reverse=True)), count)) + 1


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4), min_size=1, max_size=4), st.data())
def test_packed_takes_the_fewest_pods_and_in_one_pod_the_fewest_units(
    pods: list[list[int]], data: st.DataObject
) -> None:
    table = groups(*map(tuple, pods))
    busy = data.draw(st.sets(st.sampled_from(table["name"].to_list()), max_size=table.height - 1))
    free = table.filter(~pl.col("name").is_in(list(busy)))
    count = data.draw(st.integers(1, free.height))
    placed = place(table, count, busy=busy)
    assert len(set(placed.names)) == count
    assert not busy & set(placed.names)
    per_pod = {pod: part["unit"].value_counts()["count"].to_list() for (pod,), part in free.group_by("pod")}
    assert placed.pods == least_units([sum(sizes) for sizes in per_pod.values()], count)
    if placed.pods == 1:
        assert placed.units == min(least_units(sizes, count) for sizes in per_pod.values() if sum(sizes) >= count)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=6),
    st.integers(1, 20),
    st.sampled_from(["packed", "rail-aware", "spread", "random"]),
)
def test_every_policy_gives_that_many_different_servers_or_says_how_many_are_free(
    units: list[int], count: int, policy: str
) -> None:
    table = groups(tuple(units))
    if count > table.height:
        with pytest.raises(NoRoomError, match=f"{table.height} of {table.height} are free"):
            place(table, count, policy=policy)
        return
    first, again = (place(table, count, policy=policy, seed=5) for _ in range(2))
    assert first == again
    assert len(set(first.servers)) == count
    assert list(first.names) == table["name"].gather(list(first.servers)).to_list()


def test_the_tightest_unit_that_holds_the_job_is_taken_and_larger_ones_stay_whole() -> None:
    placed = place(groups((8, 4, 6)), 4)
    assert placed.names == ("srv008", "srv009", "srv010", "srv011")
    assert any("tightest fit" in reason for reason in placed.why)
    assert (placed.ring_crossings, placed.pair_crossing) == (0, 0.0)


def test_spread_takes_from_every_unit_and_makes_nearly_everything_cross() -> None:
    placed = place(groups((8, 8, 8, 8)), 8, policy="spread")
    assert placed.units == 4
    assert placed.ring_crossings == 4
    assert placed.pair_crossing == pytest.approx(1 - 4 * 2 * 1 / (8 * 7))


def test_rail_aware_gives_every_unit_the_same_part() -> None:
    table = groups((8, 8, 8, 8))
    assert place(table, 10).units == 2
    placed = place(table, 10, policy="rail-aware")
    used = table["unit"].gather(list(placed.servers)).value_counts()["count"].to_list()
    assert used == [5, 5]
    uneven = place(table, 11, policy="rail-aware")
    assert any("packed instead" in reason for reason in uneven.why)


def test_trays_of_one_nvlink_domain_go_together() -> None:
    placed = place(groups((36,), per_domain=18), 18, busy=["srv000"])
    assert placed.domains == 1
    assert placed.names[0] == "srv018"


def test_a_busy_server_that_does_not_exist_is_told() -> None:
    with pytest.raises(InputError, match="did you mean 'srv001'"):
        place(groups((4,)), 1, busy=["srv01"])
    with pytest.raises(InputError, match="did you mean 'packed'"):
        place(groups((4,)), 1, policy="pack")


@given(st.sets(st.tuples(st.sampled_from(["n", "gpu-", "r1c"]), st.integers(0, 2000), st.integers(1, 5)), max_size=60))
def test_a_node_list_expands_to_the_names_that_were_compressed(parts: set[tuple[str, int, int]]) -> None:
    names = {f"{prefix}{str(number).zfill(width)}" for prefix, number, width in parts}
    assert set(expand(compress(names))) == names
    assert len(expand(compress(names))) == len(names)


def test_node_lists_as_slurm_writes_them() -> None:
    assert expand("srv[001-003,007],login") == ["srv001", "srv002", "srv003", "srv007", "login"]
    assert compress(["srv003", "srv001", "srv002", "login", "srv9"]) == "login,srv9,srv[001-003]"
    for wrong in ("srv[3-1]", "srv[a]", "srv[1-3", "srv]", "a[1][2]", "srv[0-99999999]"):
        with pytest.raises(InputError):
            expand(wrong)


def write(folder: Path, text: str) -> Path:
    file = folder / "file.txt"
    file.write_text(text)
    return file


def test_a_topology_of_three_layers_has_units_and_pods(tmp_path: Path) -> None:
    text = """# two pods
SwitchName=leaf1 Nodes=srv[1-2] LinkSpeed=400
SwitchName=leaf2 Nodes=srv[3-4]
SwitchName=leaf3 Nodes=srv[5-6]
SwitchName=pod1 Switches=leaf[1-2]
SwitchName=pod2 \\
  Switches=leaf3
SwitchName=core Switches=pod[1-2]
"""
    table = read_topology(write(tmp_path, text))
    assert table["unit"].to_list() == [1, 1, 2, 2, 3, 3]
    assert table["pod"].to_list() == [1, 1, 1, 1, 2, 2]


def test_blocks_are_units(tmp_path: Path) -> None:
    table = read_topology(write(tmp_path, "BlockName=b1 Nodes=a[1-2]\nBlockName=b2 Nodes=a3\nBlockSizes=2,4\n"))
    assert table["unit"].to_list() == [1, 1, 2]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SwitchName=l1 Node=a", r":1: .*did you mean 'Nodes'"),
        ("SwitchName=leaf1 Nodes=a\nSwitchName=s Switches=leaf2", r":2: Switches: .*did you mean 'leaf1'"),
        ("SwitchName=l1 Nodes=a\nSwitchName=l1 Nodes=b", r":2: .*twice"),
        ("SwitchName=l1 Nodes=a\nSwitchName=l2 Nodes=a", "under 'l1' and under 'l2'"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a Nodes=x", "above itself"),
        ("", "names no node"),
    ],
)
def test_a_mistake_in_a_topology_is_told_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_topology(write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("rank 1=b slot=3\nrank 0=a slot=2 # first", [("a", 2), ("b", 3)]),
        ("a slots=2\nb slots=1 max-slots=8", [("a", None), ("a", None), ("b", None)]),
        ("a:2\nb:2", [("a", None), ("a", None), ("b", None), ("b", None)]),
        ("a:0\na:1\nb:0", [("a", 0), ("a", 1), ("b", 0)]),
        ("a\nb", [("a", None), ("b", None)]),
    ],
)
def test_rank_files_and_host_files(tmp_path: Path, text: str, ranks: list[tuple[str, int | None]]) -> None:
    assert read_ranks(write(tmp_path, text)) == [RankPlace(host, gpu) for host, gpu in ranks]


@pytest.mark.parametrize("text", ["", "rank 0=a slot=0\nrank 2=b slot=0", "rank 0=a slot=0:1", "a b c", "a slots=2\nb"])
def test_a_rank_file_that_says_nothing_clear_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError):
        read_ranks(write(tmp_path, text))


def test_busy_nodes_are_names_and_expressions(tmp_path: Path) -> None:
    assert read_nodes(write(tmp_path, "a[1-2] b # c\n\nd")) == ["a1", "a2", "b", "d"]
