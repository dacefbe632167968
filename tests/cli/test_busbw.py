"""busbw, place and jobs as a user calls them."""

import json
from pathlib import Path

import pytest

from railwright.cli.main import call

ROOT = Path(__file__).parents[2]
RAILS = str(ROOT / "examples" / "rail-optimized-1024.yaml")
LOGS = ROOT / "tests" / "workload" / "logs"


def json_of(capsys, *arguments: str, code: int = 0) -> dict:
    assert call([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_busbw_prints_a_table_like_nccl_tests_and_an_overview(capsys):
    assert call(["busbw", RAILS, "--sizes", "1M:1G:32"]) == 0
    out = capsys.readouterr().out
    assert "all-reduce, cluster: all servers, 1,024 ranks on 128 nodes of 8" in out
    assert "1,048,576" in out
    assert "pair:far" in out
    assert "all-to-all" in out


def test_busbw_json_has_one_row_per_scope_collective_and_size(capsys):
    data = json_of(capsys, "busbw", RAILS, "--sizes", "8:16G", "--scope", "cluster", "--scope", "rail:2")
    assert len(data["rows"]) == 2 * 7 * 32
    row = data["rows"][31]
    assert (row["scope"], row["collective"], row["ranks"], row["size_bytes"]) == ("cluster", "all-reduce", 1024, 2**34)
    assert {
        "algorithm",
        "protocol",
        "channels",
        "time_us",
        "algbw_GBps",
        "busbw_GBps",
        "limit",
        "bottleneck",
    } <= row.keys()
    assert [scope["ranks"] for scope in data["scopes"]] == [1024, 128]
    assert data["setting"]["paths"] == "adaptive"


def test_a_jobs_environment_changes_the_answer(capsys, tmp_path):
    file = tmp_path / "job.env"
    file.write_text("export NCCL_ALGO=Ring\nexport NCCL_IB_QPS_PER_CONNECTION=4\n")
    data = json_of(
        capsys, "busbw", RAILS, "--sizes", "1G", "--scope", "pair", "--collective", "all-reduce", "--env", str(file)
    )
    assert data["rows"][0]["algorithm"] == "ring"
    assert data["setting"]["queue_pairs"] == 4
    assert call(["busbw", RAILS, "--env", "NCCL_ALGO=Rings"]) == 2
    assert "did you mean 'ring'" in capsys.readouterr().err
    assert call(["busbw", RAILS, "--env", "no-such-file"]) == 2


def test_a_jobs_environment_changes_a_simulation(capsys, tmp_path):
    file = tmp_path / "job.env"
    file.write_text(
        "export NCCL_CROSS_NIC=0  # rails\nmpirun -x NCCL_IB_QPS_PER_CONNECTION=4 -x NCCL_MAX_NCHANNELS=8 "
        "-x NCCL_ALGO='allreduce:ring;broadcast:ring' ./all_reduce_perf\n"
    )
    setting = json_of(capsys, "simulate", RAILS, "--engine", "flow", "--env", str(file))["setting"]
    assert (setting["algorithm"], setting["channels"], setting["cross_nic"], setting["queue_pairs"]) == (
        "ring",
        8,
        0,
        4,
    )
    assert setting["variables"]["NCCL_CROSS_NIC"] == "0"
    assert call(["simulate", RAILS, "--env", "NCCL_CROSS_NIC=3"]) == 2
    assert "write 0 to 2" in capsys.readouterr().err
    assert call(["simulate", RAILS, "--env", "NCCL_CROS_NIC=1"]) == 0
    assert "did you mean 'NCCL_CROSS_NIC'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("log", "more", "code", "exit_code"),
    [
        ("healthy_h100_2_nodes", [], "as-expected", 0),
        ("one_slow_adapter", [], "slow-rail", 1),
        ("nvlink_only", ["--ranks", "16"], "one-host", 1),
        ("truncated", [], "truncated", 1),
    ],
)
def test_a_log_gets_a_verdict_and_an_exit_code(capsys, log, more, code, exit_code):
    data = json_of(capsys, "busbw", RAILS, "--compare", str(LOGS / f"{log}.log"), *more, code=exit_code)
    assert data["runs"][0]["code"] == code
    assert data["as_expected"] is (exit_code == 0)
    assert data["rows"][0]["run"] == 0


def test_a_verdict_in_words_has_evidence_and_what_to_try(capsys):
    assert call(["busbw", RAILS, "--compare", str(LOGS / "one_slow_adapter.log")]) == 1
    out = capsys.readouterr().out
    assert "slow-rail" in out
    assert "line 105" in out
    assert "try:" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--sizes", "16Q"], "is not a size"),
        (["--scope", "rails"], "did you mean 'rail'"),
        (["--collective", "alreduce"], "did you mean 'all-reduce'"),
        (["--paths", "spary"], "did you mean 'spray'"),
        (["--ranks", "8"], "belongs to --compare"),
        (["--compare", "no-such.log"], "cannot be read"),
    ],
)
def test_mistakes_are_told_without_a_trace(capsys, arguments, says):
    assert call(["busbw", RAILS, *arguments]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert "Traceback" not in err


def test_place_gives_a_node_list_reasons_and_alternatives(capsys, tmp_path):
    busy = tmp_path / "busy.txt"
    busy.write_text("server-[0001-0020]\n")
    data = json_of(capsys, "place", RAILS, "--gpus", "64", "--busy", str(busy))
    assert (data["nodelist"], data["units"], data["ring_crossings"]) == ("server-[0021-0028]", 1, 0)
    assert [option["policy"] for option in data["alternatives"]] == ["rail-aware", "spread", "random"]
    assert data["alternatives"][1]["units"] == 4
    assert data["busbw_GBps"]["all-reduce"] > 300
    assert data["why"]
    assert call(["place", RAILS, "--gpus", "60"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("server-[0001-0008]\n")
    assert "4 GPUs of the last server stay idle" in out


def test_place_says_no_when_there_is_no_room(capsys):
    assert call(["place", RAILS, "--gpus", "2,048"]) == 1
    assert "256 servers are needed; 128 of 128 are free" in capsys.readouterr().err
    assert call(["place", RAILS, "--gpus", "0"]) == 2


def test_place_takes_slurms_topology(capsys, tmp_path):
    topology = tmp_path / "topology.conf"
    topology.write_text(
        "SwitchName=a Nodes=server-[0001-0120]\nSwitchName=b Nodes=server-[0121-0128]\nSwitchName=top Switches=a,b\n"
    )
    assert (
        json_of(capsys, "place", RAILS, "--gpus", "64", "--topology", str(topology))["nodelist"] == "server-[0121-0128]"
    )
    topology.write_text("SwitchName=a Nodes=server-[0001-0127]\n")
    assert call(["place", RAILS, "--gpus", "64", "--topology", str(topology)]) == 2
    assert "'server-0128' of the plan is under no switch" in capsys.readouterr().err


def test_jobs_tell_what_they_cost_each_other(capsys, tmp_path):
    file = tmp_path / "jobs.yaml"
    file.write_text(
        "jobs:\n  - {name: a, gpus: 64, size: 64 MiB}\n  - {name: b, gpus: 64, policy: spread, size: 64 MiB}\n"
    )
    data = json_of(capsys, "jobs", RAILS, str(file))
    assert [job["name"] for job in data["jobs"]] == ["a", "b"]
    assert all(job["slowdown"] >= 1 - 1e-9 for job in data["jobs"])
    assert call(["jobs", RAILS, str(file), "-q"]) == 0
    assert "slowdown" in capsys.readouterr().out
