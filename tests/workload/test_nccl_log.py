"""Reading logs of nccl-tests and rccl-tests, whole, torn and mutated."""

from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railwright.errors import InputError
from railwright.workload.collectives import bus_factor
from railwright.workload.nccl.log import ROWS, parse_log, read_log
from railwright.workload.nccl.shape import JobShape
from railwright.workload.nccl.verdict import judge

LOGS = Path(__file__).parent / "logs"
H100 = JobShape(2, 8, "hopper", 450, 8, 50)


@pytest.mark.parametrize("file", sorted(LOGS.glob("*.log")), ids=lambda file: file.stem)
def test_rows_agree_with_their_own_size_time_and_bus_factor(file: Path) -> None:
    for run in read_log(file).runs:
        assert run.rows.schema == ROWS
        if run.collective is None or run.size < 2 or run.rows.height == 0:
            continue
        large = run.rows.filter(pl.col("size_bytes") >= 2**20)
        algbw = large["size_bytes"] / large["time_us"] / 1000
        assert ((large["algbw_gbytes_s"] / algbw - 1).abs() < 0.01).all()
        factor = bus_factor(run.collective, run.size)
        assert ((large["busbw_gbytes_s"] / large["algbw_gbytes_s"] - factor).abs() < 0.02).all()


def test_a_log_with_mpi_tags_gives_ranks_hosts_and_nccls_own_words() -> None:
    (run,) = read_log(LOGS / "healthy_h100_2_nodes.log").runs
    assert (run.size, run.hosts, run.collective) == (16, 2, "all-reduce")
    assert run.ranks["name"].unique().to_list() == ["NVIDIA H100 80GB HBM3"]
    assert (run.min_bytes, run.max_bytes, run.iterations) == (8, 2**33, 20)
    facts = run.facts
    assert (facts.version, facts.network, facts.channels, facts.nvls_channels) == ("NCCL 2.30.7", "IB", 16, 16)
    assert facts.adapters == tuple(f"mlx5_{number}:1/IB" for number in range(8))
    assert facts.via == {"p2p": 16, "gdr": 16}
    assert facts.adapter_use == dict.fromkeys(range(8), 2)
    assert run.complete


def test_every_row_has_the_line_where_it_stands() -> None:
    file = LOGS / "several_runs.log"
    lines = file.read_text().splitlines()
    for run in read_log(file).runs:
        for row in run.rows.iter_rows(named=True):
            assert str(int(row["size_bytes"])) in lines[row["line"] - 1]


def test_several_runs_in_a_file_are_told_apart_and_named() -> None:
    runs = read_log(LOGS / "several_runs.log").runs
    assert [run.collective for run in runs] == ["all-reduce", "all-gather", "all-to-all"]
    assert [run.rows["size_bytes"].min() for run in runs] == [8, 1024, 1024]


def test_torn_rows_of_mixed_ranks_are_put_together() -> None:
    (run,) = read_log(LOGS / "mixed_ranks.log").runs
    assert run.torn == 0
    assert run.rows.height == 2 * 31
    assert run.rows["size_bytes"].unique().sort().to_list() == [2.0**power for power in range(3, 34)]
    assert run.rows["wrong"].sum() == 0


def test_a_truncated_log_keeps_its_whole_rows() -> None:
    (run,) = read_log(LOGS / "truncated.log").runs
    assert not run.complete
    assert run.torn == 1
    assert run.rows["size_bytes"].max() == 2**28


def test_old_columns_without_root_and_with_error_are_read() -> None:
    (run,) = read_log(LOGS / "wrong_results_old_format.log").runs
    assert run.size == 8
    assert run.rows["wrong"].max() == 4000
    assert run.out_of_bounds == 14


def test_not_checked_results_have_no_count_of_wrong_elements() -> None:
    (run,) = read_log(LOGS / "healthy_mi300x_rccl.log").runs
    assert run.rows["wrong"].null_count() == run.rows.height
    assert run.facts.version == "RCCL 2.27.7"


def test_per_iteration_columns_and_pasted_logs_without_hashes_are_read() -> None:
    text = (
        " nThread 1 nGpus 2 minBytes 1048576 maxBytes 1048576 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1\n"
        "  Rank  0 Group  0 Pid 1 on host device  0 [0000:1b:00] NVIDIA H100\n"
        "  Rank  1 Group  0 Pid 1 on host device  1 [0000:43:00] NVIDIA H100\n"
        "  size  count  type  redop  root  time  algbw  busbw  #wrong  i_min  i_max  i_p99  i_cv%  time  algbw  busbw  #wrong "
        " i_min  i_max  i_p99  i_cv%\n"
        "  1048576  262144  float  sum  -1  20.0  52.4  52.4  0  19.0  30.0  29.0  5.1"
        "  21.0  49.9  49.9  0  19.0  31.0  30.0  4.0\n"
        " Avg bus bandwidth : 51.2\n"
    )
    (run,) = parse_log(text).runs
    assert run.rows.select("in_place", "time_us", "busbw_gbytes_s").rows() == [(False, 20.0, 52.4), (True, 21.0, 49.9)]
    assert run.size == 2


def test_times_too_wide_for_their_column_are_numbers() -> None:
    text = "# nThread 1 nGpus 8 minBytes 8 maxBytes 8\n 8 2 float sum -1 1.2e+06 0.00 0.00 N/A 1e+06 0.00 0.00 N/A\n"
    (run,) = parse_log(text).runs
    assert run.rows["time_us"].to_list() == [1.2e6, 1e6]


def test_other_text_is_an_error_that_says_what_was_expected() -> None:
    with pytest.raises(InputError, match=r"notes.txt: no line of nccl-tests"):
        parse_log("hello\nworld\n", file="notes.txt")


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent.log: cannot be read"):
        read_log(tmp_path / "absent.log")


TEXTS = [file.read_text() for file in sorted(LOGS.glob("*.log"))]
JUNK = st.text(st.characters(codec="utf-8"), max_size=40) | st.sampled_from(
    ["[1,0]<stdout>:", "nan", "inf", "-1", "9" * 400, "1e999", "N/A", "\x00", "NCCL WARN ", "#", "\r", "float"]
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """One of the logs with one to five injuries: cut, doubled, replaced or swapped pieces."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 300)))
        piece = text[start:end]
        change = draw(st.sampled_from(["cut", "double", "replace", "insert", "truncate", "reverse"]))
        junk = draw(JUNK)
        text = {
            "cut": text[:start] + text[end:],
            "double": text[:end] + piece + text[end:],
            "replace": text[:start] + junk + text[end:],
            "insert": text[:start] + junk + text[start:],
            "truncate": text[:end],
            "reverse": text[:start] + piece[::-1] + text[end:],
        }[change]
    return text


@settings(max_examples=1000, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(mutated())
def test_a_thousand_mutated_logs_give_a_verdict_or_an_input_error(text: str) -> None:
    try:
        log = parse_log(text)
    except InputError:
        return
    assert all(verdict.summary for verdict in judge(log, H100))


def test_a_log_that_windows_saved_is_read(tmp_path: Path) -> None:
    plain = LOGS / "healthy_h100_1_node.log"
    for encoding in ("utf-16", "utf-8-sig"):
        file = tmp_path / f"{encoding}.log"
        file.write_text(plain.read_text(), encoding=encoding)
        assert read_log(file).runs[0].rows.equals(read_log(plain).runs[0].rows)
