"""Jobs side by side: what they cost each other on links that they share, and nothing where they share none."""

from functools import cache
from pathlib import Path

import pytest

from railwright.design.plan import Plan
from railwright.errors import InputError
from railwright.simulate.jobs.place import NoRoomError
from railwright.simulate.jobs.side_by_side import JobsResult, read_jobs, simulate_jobs
from railwright.simulate.validation import validation_plan

OVER = "switch: sn5600, uplink_gbps: 800G, oversubscription: {leaf: '4:1'}, counts: {leaf_down_ports: 64}"


@cache
def oversubscribed() -> Plan:
    """Four leaves of eight servers, a quarter of the rate above them."""
    return validation_plan(256, "leaf-spine", OVER)


def run(folder: Path, text: str, **options: object) -> JobsResult:
    file = folder / "jobs.yaml"
    file.write_text(text)
    return simulate_jobs(oversubscribed(), read_jobs(file, oversubscribed()), **options)  # type: ignore[arg-type]


TWO = """
jobs:
  - {{name: a, gpus: 128, policy: {policy}, collective: all-to-all, size: 256 MiB}}
  - {{name: b, gpus: 128, policy: {policy}, collective: all-to-all, size: 256 MiB}}
"""


def test_two_jobs_on_half_of_every_leaf_halve_each_others_share_of_the_uplinks(tmp_path: Path) -> None:
    result = run(tmp_path, TWO.format(policy="spread"), paths="spray")
    for job in result.jobs:
        assert job.slowdown == pytest.approx(2, rel=0.05)
        assert list(job.hit_by.values()) == [pytest.approx(0.5, abs=0.01)]
    assert result.shared_links.row(0, named=True)["jobs"] == ["a", "b"]


def test_jobs_on_leaves_of_their_own_do_not_meet(tmp_path: Path) -> None:
    result = run(tmp_path, TWO.format(policy="packed"), paths="ecmp")
    assert [job.slowdown for job in result.jobs] == [pytest.approx(1, abs=1e-9)] * 2
    assert result.shared_links.is_empty()
    assert {job.job.servers[0] for job in result.jobs} == {"server-0001", "server-0017"}


def test_a_job_that_starts_when_the_other_is_done_costs_nothing(tmp_path: Path) -> None:
    text = TWO.format(policy="spread").replace("name: b,", "name: b, start: 1 s,")
    result = run(tmp_path, text, paths="ecmp")
    assert [job.slowdown for job in result.jobs] == [pytest.approx(1, rel=1e-6)] * 2


def test_repetitions_take_their_number_of_times_as_long(tmp_path: Path) -> None:
    text = "jobs: [{{name: a, gpus: 64, collective: all-gather, size: 64 MiB, repeat: {n}}}]"
    one, five = (run(tmp_path, text.format(n=n)).jobs[0] for n in (1, 5))
    assert five.alone_us == pytest.approx(5 * one.alone_us, rel=1e-6)
    assert five.alone_busbw_gbytes_s == pytest.approx(one.alone_busbw_gbytes_s, rel=1e-6)


def test_named_nodes_and_rank_files_come_before_free_placement(tmp_path: Path) -> None:
    (tmp_path / "ranks.txt").write_text("rank 0=server-0002 slot=4\nrank 1=server-0003 slot=0\n")
    text = """
jobs:
  - {name: free, gpus: 9}
  - {name: named, nodes: "server-0001", collective: all-gather, size: 1 MiB}
  - {name: ranked, rank_file: ranks.txt, size: 1 MiB}
busy: server-0004
"""
    free, named, ranked = (job.job for job in run(tmp_path, text).jobs)
    assert free.servers == ("server-0005", "server-0006")
    assert free.placement.ranks == 9
    assert (named.servers, named.policy) == (("server-0001",), None)
    assert ranked.placement.gpu.tolist() == [12, 16]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("jobs: [{name: a, gpu: 8}]", r"jobs.yaml:1:\d+: jobs\[0\]\.?gpu.*did you mean 'gpus'"),
        ("jobs: [{name: a}]", "exactly one of gpus, nodes and rank_file"),
        ("jobs: [{name: a, gpus: 8}, {name: a, gpus: 8}]", "two jobs 'a'"),
        ("jobs: [{name: a, nodes: server-99}]", "'server-99' is not a server of the plan"),
        ("jobs: [{name: a, nodes: server-0001}, {name: b, nodes: server-0001}]", "given to job 'a' already"),
        ("jobs: [{name: a, gpus: 8, policy: tight}]", "'tight' is not allowed"),
        ("jobs: []", "too short"),
    ],
)
def test_a_mistake_in_a_jobs_file_is_told_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        run(tmp_path, text)


def test_a_job_without_room_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoRoomError, match="job 'b': 1 servers are needed; 0 of 32 are free"):
        run(tmp_path, "jobs: [{name: a, gpus: 256}, {name: b, gpus: 8}]")


def test_an_unknown_engine_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'flow'"):
        run(tmp_path, "jobs: [{name: a, gpus: 16}]", engine="flows")
