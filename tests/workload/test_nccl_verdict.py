"""The verdict on each of our logs, and the thresholds behind them."""

from pathlib import Path

import polars as pl
import pytest

from railwright.workload.nccl.constants import read_data
from railwright.workload.nccl.environment import parse_environment
from railwright.workload.nccl.log import parse_log, read_log
from railwright.workload.nccl.shape import JobShape
from railwright.workload.nccl.verdict import Verdict, judge

LOGS = Path(__file__).parent / "logs"
H100 = JobShape(2, 8, "hopper", 450, 8, 50)
A100 = JobShape(1, 8, "ampere", 300, 8, 25)
MI300X = JobShape(1, 8, "cdna3", 448, 8, 50, nvswitch=False)

CASES = [
    ("healthy_h100_1_node", H100.at(1), ["as-expected"]),
    ("healthy_h100_2_nodes", H100, ["as-expected"]),
    ("healthy_mi300x_rccl", MI300X, ["as-expected"]),
    ("mixed_ranks", H100, ["as-expected"]),
    ("one_slow_adapter", H100, ["slow-rail"]),
    ("wrong_gid_then_sockets", H100, ["rdma-errors", "sockets"]),
    ("nvlink_only", H100, ["one-host"]),
    ("cliff_at_64_mib", H100.at(4), ["cliff"]),
    ("truncated", H100, ["truncated"]),
    ("ring_in_place_of_nvls", H100.at(1), ["wrong-algorithm"]),
    ("no_gpudirect", H100, ["no-gdr"]),
    ("built_without_mpi", H100.at(1), ["not-one-job"]),
    ("wrong_results_old_format", A100, ["corrupt"]),
    ("several_runs", H100.at(4), ["as-expected", "as-expected", "slow-network"]),
]


def verdicts(name: str, shape: JobShape) -> tuple[Verdict, ...]:
    return judge(read_log(LOGS / f"{name}.log"), shape)


def test_there_is_a_case_for_every_log_and_at_least_twelve() -> None:
    assert {name for name, _, _ in CASES} == {file.stem for file in LOGS.glob("*.log")}
    assert len(CASES) >= 12


@pytest.mark.parametrize(("name", "shape", "codes"), CASES, ids=[name for name, _, _ in CASES])
def test_each_log_gets_its_verdict(name: str, shape: JobShape, codes: list[str]) -> None:
    assert [verdict.code for verdict in verdicts(name, shape)] == codes


@pytest.mark.parametrize(("name", "shape", "codes"), CASES, ids=[name for name, _, _ in CASES])
def test_every_cause_has_evidence_and_something_to_try(name: str, shape: JobShape, codes: list[str]) -> None:
    for verdict in verdicts(name, shape):
        for cause in verdict.causes:
            assert cause.evidence
            assert cause.tries
            assert cause.confidence in ("certain", "likely", "possible")


def test_evidence_quotes_the_line_that_it_names() -> None:
    (verdict,) = verdicts("no_gpudirect", H100)
    lines = (LOGS / "no_gpudirect.log").read_text().splitlines()
    for evidence in verdict.causes[0].evidence:
        number, text = evidence.removeprefix("line ").split(": ", 1)
        assert text in lines[int(number) - 1]


def test_a_cliff_is_slow_from_the_size_where_it_begins() -> None:
    (verdict,) = verdicts("cliff_at_64_mib", H100.at(4))
    assert verdict.slow_from == 64 * 2**20
    assert "64 MiB" in verdict.summary
    before = verdict.sizes.filter(pl.col("size_bytes") < 64 * 2**20)
    assert set(before["verdict"]) == {"as expected"}


def test_a_port_at_half_its_rate_is_recognised_by_the_half() -> None:
    (verdict,) = verdicts("one_slow_adapter", H100)
    assert verdict.causes[0].confidence == "likely"
    assert any("about 50%" in evidence for evidence in verdict.causes[0].evidence)


def test_healthy_logs_have_no_slow_size() -> None:
    for name, shape in (
        ("healthy_h100_1_node", H100.at(1)),
        ("healthy_h100_2_nodes", H100),
        ("healthy_mi300x_rccl", MI300X),
    ):
        (verdict,) = verdicts(name, shape)
        assert verdict.slow_from is None
        assert not verdict.sizes["verdict"].is_in(["slow", "slow start"]).any()


def test_the_shape_is_that_of_the_log_not_of_the_plan() -> None:
    (verdict,) = verdicts("nvlink_only", H100.at(16))
    assert (verdict.shape.nodes, verdict.shape.gpus_per_node) == (1, 8)
    assert verdict.causes[0].code == "one-host"


def test_sockets_that_were_planned_are_no_cause() -> None:
    planned = JobShape(2, 8, "hopper", 450, 8, 50, transport="socket")
    codes = [cause.code for verdict in verdicts("wrong_gid_then_sockets", planned) for cause in verdict.causes]
    assert "sockets" not in codes


def test_a_ring_that_was_asked_for_is_not_the_wrong_algorithm() -> None:
    log = read_log(LOGS / "ring_in_place_of_nvls.log")
    (verdict,) = judge(log, H100.at(1), parse_environment("NCCL_NVLS_ENABLE=0"))
    assert verdict.code == "as-expected"


def test_a_log_that_does_not_name_its_test_is_told_by_the_ratio_or_by_the_user() -> None:
    text = (LOGS / "several_runs.log").read_text()
    unnamed = "\n".join(line for line in text.splitlines() if "_perf" not in line)
    runs = judge(parse_log(unnamed), H100.at(4))
    assert [verdict.collective for verdict in runs] == ["all-reduce", None, None]
    assert any("does not name the collective" in remark for remark in runs[1].remarks)
    named = judge(parse_log(unnamed), H100.at(4), collective="alltoall")
    assert named[2].code == "slow-network"


def test_every_verdict_text_belongs_to_a_test() -> None:
    texts = read_data("verdicts.yaml")
    assert all(set(text) == {"title", "try"} and text["try"] for text in texts.values())
    shown = {cause.code for name, shape, _ in CASES for verdict in verdicts(name, shape) for cause in verdict.causes}
    assert shown <= set(texts)


ROW = "{size} 1 float sum -1 {out} 0 {a} 0 {in_} 0 {b} 0"


def made(rows: list[tuple[int, float, float]], hosts: int = 2, notices: str = "") -> str:
    """A log of an all-reduce on 8 GPUs per host with the given size, out-of-place and in-place times."""
    head = "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592\n"
    ranks = "".join(
        f"#  Rank {8 * host + gpu} Group 0 Pid 1 on host{host} device {gpu} [0x1b] NVIDIA H100\n"
        for host in range(hosts)
        for gpu in range(8)
    )
    factor = 2 * (8 * hosts - 1) / (8 * hosts)
    body = "".join(
        ROW.format(size=size, out=out, in_=inner, a=size / out / 1000 * factor, b=size / inner / 1000 * factor) + "\n"
        for size, out, inner in rows
    )
    return head + ranks + notices + body + "# Avg bus bandwidth : 1\n"


def healthy(size: int) -> float:
    """Time in us of an all-reduce on two H100 nodes at 430 GB/s busbw."""
    return 45 + size / 230e3


LARGE = [2**power for power in range(26, 34)]


def test_plateaus_without_notices_suggest_sockets_when_very_low() -> None:
    (verdict,) = judge(parse_log(made([(size, size / 2e3, size / 2e3) for size in LARGE])), H100)
    assert (verdict.code, verdict.causes[0].confidence) == ("sockets", "possible")


def test_results_that_differ_between_in_place_and_out_of_place_are_unstable() -> None:
    (verdict,) = judge(parse_log(made([(size, healthy(size), 2 * healthy(size)) for size in LARGE])), H100)
    assert verdict.code == "unstable"


def test_slow_small_messages_alone_are_a_slow_start() -> None:
    small = [(2**power, 400.0, 400.0) for power in range(3, 20)]
    rows = [*small, *((size, 350 + healthy(size), 350 + healthy(size)) for size in LARGE)]
    (verdict,) = judge(parse_log(made(rows)), H100)
    assert verdict.code == "slow-start"


def test_fewer_adapters_than_the_server_has_are_named() -> None:
    notice = "host0:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\n"
    rows = [(size, 3.9 * healthy(size), 3.9 * healthy(size)) for size in LARGE]
    (verdict,) = judge(parse_log(made(rows, notices=notice)), H100)
    assert verdict.code == "missing-adapters"
    assert verdict.causes[0].evidence[0] == "2 adapters where a server has 8"


def test_shared_memory_inside_a_host_means_no_nvlink() -> None:
    notice = "host0:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n"
    rows = [(size, 30 + size / 12e3, 30 + size / 12e3) for size in LARGE]
    (verdict,) = judge(parse_log(made(rows, hosts=1, notices=notice)), H100.at(1))
    assert verdict.code == "no-nvlink"


def test_one_host_at_a_third_of_nvlink_is_slow_inside() -> None:
    rows = [(size, 30 + size / 100e3, 30 + size / 100e3) for size in LARGE]
    (verdict,) = judge(parse_log(made(rows, hosts=1)), H100.at(1))
    assert verdict.code == "slow-nvlink"


def test_a_test_that_stops_itself_is_told_with_its_own_words() -> None:
    rows = [(size, healthy(size), healthy(size)) for size in LARGE[:4]]
    text = made(rows).replace("# Avg bus bandwidth : 1\n", "")
    text += "host1: Test CUDA failure common.cu:1204 'out of memory'\n .. host1 pid 5: Test failure common.cu:915\n"
    (verdict,) = judge(parse_log(text), H100)
    assert verdict.code == "test-failed"
    assert "out of memory" in verdict.causes[0].evidence[0]
    assert "truncated" not in [cause.code for cause in verdict.causes]


def test_a_largest_size_that_does_not_fit_into_memory_is_not_missing() -> None:
    rows = [(size, healthy(size), healthy(size)) for size in LARGE[:-1]]
    notice = "# Reducing maxBytes to 4294967296 due to memory limitation\n"
    assert judge(parse_log(made(rows)), H100)[0].code == "truncated"
    assert judge(parse_log(made(rows, notices=notice)), H100)[0].code == "as-expected"


@pytest.mark.parametrize("tag", ["[1,0]<stdout>:", " 0: ", "\x1b[1;33m", "2025-03-14T09:12:01.123Z stdout F ", "> "])
def test_what_schedulers_and_terminals_put_before_a_line_changes_nothing(tag: str) -> None:
    text = made([(size, healthy(size), healthy(size)) for size in LARGE])
    end = "\x1b[0m" if tag.startswith("\x1b") else ""
    tagged = "\n".join(f"{tag}{line}{end}" for line in text.splitlines())
    (plain,), (same,) = judge(parse_log(text), H100), judge(parse_log(tagged), H100)
    assert (same.code, same.run.size, same.sizes["size_bytes"].to_list()) == (
        plain.code,
        plain.run.size,
        plain.sizes["size_bytes"].to_list(),
    )
