"""Commissioning tests with limits from the plan, and verdicts on what the usual tools print."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from railwright.build.acceptance import acceptance_files, adapter_pairs, judge, wanted_results
from railwright.check.acceptance import check_acceptance, read_results
from railwright.design.plan import Plan
from railwright.errors import InputError

EXPECTED = [{"scope": "cluster", "collective": "all-reduce", "size_bytes": 1 << 30, "busbw_GBps": 100.0}]
PERFTEST = """ #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      446870           0.00               {rate}             0.744798
"""
NCCL = """#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
  1073741824     268435456     float     sum      -1   20134   53.33  {busbw}      0    20100   53.42   93.6      0
"""


def test_pairs_stay_on_their_rail_and_never_meet_themselves(plan: Plan) -> None:
    pairs = adapter_pairs(plan)
    assert set(pairs["rail"]) == {1, 2}
    assert (pairs["server"] != pairs["peer"]).all()
    assert (pairs["device"] == pairs["peer_device"]).all()


def test_limits_come_from_the_plans_rates(plan: Plan) -> None:
    limits = json.loads(acceptance_files(plan, EXPECTED)["acceptance/limits.json"])
    assert limits["ib_write_bw"]["min_gbps"] == 380.0
    assert limits["nccl"]["rows"][0]["min_GBps"] == 90.0


@pytest.mark.parametrize(("rate", "passed"), [("391.2", True), ("196.4", False)])
def test_a_slow_pair_is_judged(plan: Plan, rate: str, passed: bool) -> None:
    limits = json.loads(acceptance_files(plan, EXPECTED)["acceptance/limits.json"])
    verdict = next(judge(limits, {"pair-r1-a-b.txt": PERFTEST.format(rate=rate)}))
    assert (verdict.value, verdict.limit, verdict.passed) == (float(rate), 380.0, passed)


@pytest.mark.parametrize(("busbw", "passed"), [("99.9", True), ("46.7", False)])
def test_a_slow_collective_is_judged(plan: Plan, busbw: str, passed: bool) -> None:
    limits = json.loads(acceptance_files(plan, EXPECTED)["acceptance/limits.json"])
    verdict = next(judge(limits, {"results/cluster-all-reduce.txt": NCCL.format(busbw=busbw)}))
    assert (verdict.test, verdict.value, verdict.passed) == ("nccl", float(busbw), passed)


def test_errors_after_fec_are_judged(plan: Plan) -> None:
    limits = json.loads(acceptance_files(plan)["acceptance/limits.json"])
    bad = next(judge(limits, {"mlxlink-a.txt": "Effective Physical BER              : 2E-9\n"}))
    good = next(judge(limits, {"mlxlink-a.txt": "Effective Physical BER              : 15E-255\n"}))
    assert (bad.passed, good.passed) == (False, True)


def test_wrong_values_fail_at_any_speed(plan: Plan) -> None:
    limits = json.loads(acceptance_files(plan, EXPECTED)["acceptance/limits.json"])
    text = NCCL.format(busbw="99.9").replace("93.6      0", "93.6     17")
    assert [(v.value, v.unit, v.passed) for v in judge(limits, {"cluster-all-reduce.txt": text})] == [
        (17, "wrong values", False),
        (99.9, "GB/s", True),
    ]


@pytest.mark.parametrize(
    ("name", "text", "lacks"),
    [
        ("cluster-all-reduce.txt", NCCL.format(busbw="99.9").splitlines()[0], "1 of 1 sizes, from 1073741824 bytes"),
        ("cluster-all-reduce.txt", NCCL.format(busbw="99.9")[:-40], "1 of 1 sizes, from 1073741824 bytes"),
        ("pair-r1-a-b.txt", PERFTEST.splitlines()[0], "any result"),
        ("pair-r1-a-b.txt", PERFTEST.format(rate="391.2")[:-20], "any result"),
        ("mlxlink-gpu-001.txt", "Effective Physical BER              : 15E-255\n", "1 of 2 bit error ratios"),
        ("mlxlink-gpu-001.txt", "connection refused", "2 of 2 bit error ratios"),
        ("notes.txt", "", "any result"),
    ],
)
def test_an_output_that_ends_early_is_an_error_and_does_not_hide_the_others(
    plan: Plan, name: str, text: str, lacks: str
) -> None:
    files = acceptance_files(plan, EXPECTED)
    slow = {"pair-r2-a-b.txt": PERFTEST.format(rate="196.4")}
    found = check_acceptance(files, {name: text, **slow})
    assert [(f.code, f.subject, f.message) for f in found.findings if f.code == "RW036"] == [
        ("RW036", name, f"does not hold {lacks}")
    ]
    assert [f.subject for f in found.findings if f.code == "RW032"] == ["pair-r2-a-b.txt"]


def test_scripts_measure_in_the_plans_class_with_its_gpus(make_plan: Callable[..., Plan]) -> None:
    plain = acceptance_files(make_plan())
    assert " --tclass 106" in plain["acceptance/2-pairs.sh"]
    assert "gpus=8" in plain["acceptance/3-collectives.sh"]
    assert " --tclass 98" in acceptance_files(make_plan(), convention="arista")["acceptance/2-pairs.sh"]
    assert "tclass" not in acceptance_files(make_plan(transport="infiniband"))["acceptance/2-pairs.sh"]


def test_results_are_judged_by_the_plan_and_unmeasured_tests_are_named(plan: Plan, tmp_path: Path) -> None:
    files = acceptance_files(plan, EXPECTED)
    wanted = wanted_results(files)
    assert {
        "mlxlink-gpu-001.txt",
        "pair-r1-gpu-001-mlx5_0-gpu-002.txt",
        "cluster-all-reduce.txt",
        "rail2-all-to-all.txt",
    } <= set(wanted)
    assert len(wanted) == len(set(wanted))
    folder = tmp_path / "acceptance" / "results"
    folder.mkdir(parents=True)
    for name in wanted:
        text = NCCL.format(busbw="99.9")
        if name.startswith("pair-"):
            text = PERFTEST.format(rate="391.2")
        elif name.startswith("mlxlink-"):
            text = "Effective Physical BER              : 15E-255\n" * 2
        if not name.startswith(("rail", "cluster")) or name == "cluster-all-reduce.txt":
            (folder / name).write_text(text)
    (folder / "pair-r1-gpu-001-mlx5_0-gpu-002.txt").write_text(PERFTEST.format(rate="196.4"))
    (folder / "mlxlink-gpu-002.txt").unlink()
    found = check_acceptance(files, read_results(folder.parent))
    assert [(f.code, f.subject) for f in found.findings] == [
        ("RW032", "pair-r1-gpu-001-mlx5_0-gpu-002.txt"),
        ("RW035", "mlxlink"),
        ("RW035", "nccl-tests"),
    ]
    assert "mlxlink-gpu-002.txt" in found.missing
    assert "196.4 Gb/s is below the limit of 380 Gb/s" in found.findings[0].message


def test_a_folder_without_results_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no result"):
        read_results(tmp_path)
    with pytest.raises(InputError, match="is not a folder"):
        read_results(tmp_path / "absent")
