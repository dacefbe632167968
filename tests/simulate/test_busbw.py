"""busbw on plans: what the fabric takes from NCCL's own forecast, against closed forms; scopes and sizes."""

from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from railwright.design.plan import Plan
from railwright.errors import InputError
from railwright.simulate.busbw import Fabric, open_fabric, parse_sizes, rows
from railwright.simulate.busbw_log import compare
from railwright.simulate.scopes import scope_of, standard_scopes
from railwright.simulate.validation import validation_plan
from railwright.workload.collectives import COLLECTIVES
from railwright.workload.nccl.environment import parse_environment
from railwright.workload.nccl.expect import expected
from railwright.workload.nccl.log import parse_log, read_log

LOGS = Path(__file__).parents[1] / "workload" / "logs"
LARGE = 2.0**34
PAYLOAD_GBYTES_S = 50 * 4096 / 4178
"""A 400G port less 82 bytes per RoCEv2 packet of 4096."""

OVER = "switch: sn5600, uplink_gbps: 800G, oversubscription: {leaf: '4:1'}, counts: {leaf_down_ports: 64}"


@cache
def rails() -> Plan:
    return validation_plan(256)


@cache
def oversubscribed() -> Plan:
    """Four leaves of 64 GPUs with a quarter of their rate above them."""
    return validation_plan(256, "leaf-spine", OVER)


@cache
def fabric_of(which: str, paths: str, queue_pairs: int = 1) -> Fabric:
    plan = rails() if which == "rails" else oversubscribed()
    return open_fabric(plan, parse_environment(f"NCCL_IB_QPS_PER_CONNECTION={queue_pairs}"), paths=paths)


def at(fabric: Fabric, scope: str, collective: str, size: float = LARGE) -> dict[str, object]:
    return rows(fabric, scope_of(fabric.plan, scope), collective, [size]).row(0, named=True)


def test_an_all_to_all_on_a_4_to_1_fabric_gets_a_quarter_for_what_leaves_the_leaf() -> None:
    row = at(fabric_of("over", "spray"), "cluster", "all-to-all")
    # 192 of 256 parts leave the leaf, over a quarter of the adapters' rate.
    algbw = PAYLOAD_GBYTES_S / 4 / (192 / 256)
    assert row["busbw_GBps"] == pytest.approx(algbw * 255 / 256, rel=0.01)
    assert row["limit"] == "fabric"
    assert "leaf" in str(row["bottleneck"])
    assert "spine" in str(row["bottleneck"])


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_a_non_blocking_fabric_that_sprays_takes_nothing_from_nccls_forecast(collective: str) -> None:
    scope = scope_of(rails(), "cluster")
    ours = rows(fabric_of("rails", "spray"), scope, collective, [2.0**20, LARGE])
    theirs = expected(collective, [2.0**20, LARGE], scope.shape)
    np.testing.assert_allclose(ours["time_us"], theirs["time_us"], rtol=1e-9)
    assert "fabric" not in ours["limit"].to_list()


@pytest.mark.parametrize("which", ["rails", "over"])
@pytest.mark.parametrize("collective", ["all-reduce", "all-gather", "all-to-all"])
def test_hashed_paths_are_never_better_than_sprayed_ones(which: str, collective: str) -> None:
    hashed, sprayed = (at(fabric_of(which, paths), "cluster", collective) for paths in ("ecmp", "spray"))
    assert hashed["busbw_GBps"] <= sprayed["busbw_GBps"] * (1 + 1e-9)


def test_many_queue_pairs_come_close_to_spraying() -> None:
    one, many = (at(fabric_of("over", "ecmp", pairs), "cluster", "all-gather") for pairs in (1, 64))
    sprayed = at(fabric_of("over", "spray"), "cluster", "all-gather")
    assert one["busbw_GBps"] < 0.9 * sprayed["busbw_GBps"]
    assert many["busbw_GBps"] > 0.95 * sprayed["busbw_GBps"]
    assert "flows" in str(one["bottleneck"])


def test_without_pxn_an_all_to_all_crosses_rails_over_the_spines() -> None:
    plan = rails()
    usual = open_fabric(plan, paths="ecmp")
    without = open_fabric(plan, parse_environment("NCCL_P2P_PXN_LEVEL=0"), paths="ecmp")
    scope = "pod:2"  # one unit: with PXN nothing leaves its leaves
    assert at(usual, scope, "all-to-all")["limit"] == "adapters"
    assert at(without, scope, "all-to-all")["limit"] == "fabric"


def test_servers_that_do_not_come_in_pairs_cross_rails_over_nvlink_where_rails_are_not_joined() -> None:
    plan = validation_plan(24, "rail-only", "tiers: 1")
    assert at(open_fabric(plan), "cluster", "all-reduce")["busbw_GBps"] > 300


def test_rings_that_change_rail_where_rails_are_not_joined_are_told_of() -> None:
    plan = validation_plan(128, "rail-only", "tiers: 1")
    ways = {value: open_fabric(plan, parse_environment(f"NCCL_CROSS_NIC={value}")) for value in (0, 1, 2)}
    scope = scope_of(plan, "cluster")
    told = {
        value: rows(fabric, scope, "all-gather", [LARGE], parse_environment(f"NCCL_CROSS_NIC={value}")).row(
            0, named=True
        )
        for value, fabric in ways.items()
    }
    assert "NCCL_CROSS_NIC=0 avoids it" in str(told[1]["bottleneck"])
    assert "rail" not in str(told[0]["bottleneck"]) + str(told[2]["bottleneck"])
    assert told[0]["busbw_GBps"] < 8 * 45  # 8 x 48 is more than NVLink has when every ring leaves every GPU over it
    assert told[2]["busbw_GBps"] > 8 * 46


def test_the_standard_scopes_of_a_fabric_with_units() -> None:
    scopes = {scope.name: scope for scope in standard_scopes(rails())}
    assert list(scopes) == ["cluster", "pod", "rail", "pair", "pair:far"]
    assert scopes["cluster"].shape.ranks == 256
    assert (scopes["pod"].shape.ranks, scopes["pod"].subject) == (32, "unit 1 of 8")
    rail = scopes["rail"]
    assert (rail.shape.nodes, rail.shape.gpus_per_node, rail.shape.nics_per_node) == (32, 1, 1)
    assert set(rail.placement.rail) == {1}
    assert scopes["pair"].subject == "server-0001 and server-0002, on the same leaves"
    assert scopes["pair:far"].subject == "server-0001 and server-0032, on different leaves"


def test_one_server_has_one_scope() -> None:
    assert [scope.name for scope in standard_scopes(validation_plan(8, "rail-only", "tiers: 1"))] == ["cluster"]


def test_gpus_that_do_not_fill_an_nvl72_rack_are_left_out() -> None:
    text = "name: racks\ncluster: {gpus: 160, server: gb200-nvl72}\nbackend: {transport: infiniband}\n"
    from railwright.design.design import design_plan
    from railwright.spec.load import parse_spec

    file = parse_spec(text)
    plan = design_plan(file.checked(file.catalog()), file.catalog())
    scope = scope_of(plan, "cluster")
    assert (scope.shape.nodes, scope.shape.gpus_per_node) == (2, 72)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("clustr", "did you mean 'cluster'"),
        ("rail:9", "there are 1 to 8"),
        ("unit:0", "there are 1 to 8"),
        ("pair:server-0001,server-0099", "there is no server 'server-0099'"),
        ("pair:server-0001", "two servers"),
        ("rail:x", "not a whole number"),
    ],
)
def test_a_scope_that_is_not_there_is_told_with_what_there_is(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        scope_of(rails(), text)


def test_sizes_are_those_of_nccl_tests() -> None:
    assert parse_sizes("8:16G") == [8.0 * 2**power for power in range(32)]
    assert parse_sizes("1M:1G:4") == [2.0 ** (20 + 2 * power) for power in range(6)]
    assert parse_sizes("1K,3MiB") == [1024.0, 3 * 2.0**20]
    for wrong in ("", "8:", "1G:1M", "1M:1G:1", "1:2:3:4", "4Q", "1:1T:1.0001"):
        with pytest.raises(InputError):
            parse_sizes(wrong)


def test_small_messages_are_a_matter_of_start_up_whatever_the_fabric() -> None:
    row = at(fabric_of("over", "ecmp"), "cluster", "all-to-all", 1024.0)
    assert (row["limit"], row["bottleneck"]) == ("latency", "start-up")


def log_of(busbw: float, hosts: list[str], gpus: int = 8) -> str:
    """A log of alltoall_perf in nccl-tests' format that levels off at ``busbw``."""
    ranks = [(h, g) for h in hosts for g in range(gpus)]
    lines = ["# nThread 1 nGpus 1 minBytes 1073741824 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20"]
    lines += [
        f"#  Rank {r:2d} Group  0 Pid {r + 1} on {host} device {gpu} [0x1b] NVIDIA H100 80GB HBM3"
        for r, (host, gpu) in enumerate(ranks)
    ]
    lines += [
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong"
    ]
    for power in range(30, 34):
        algbw = busbw * len(ranks) / (len(ranks) - 1)
        cells = f"{2**power / algbw / 1e3:.1f} {algbw:.2f} {busbw:.2f} 0"
        lines.append(f"  {2**power} {2**power // 4 // len(ranks)} float none -1 {cells} {cells}")
    return "\n".join([*lines, "# Out of bounds values : 0 OK", f"# Avg bus bandwidth : {busbw}"])


def test_a_log_of_an_oversubscribed_fabric_is_as_expected_there_and_slow_on_a_full_one() -> None:
    names = [f"server-{i:04d}" for i in range(1, 33)]
    log = parse_log(log_of(16.2, names).replace("# nThread", "# Collective test starting: alltoall_perf\n# nThread"))
    (there,) = compare(fabric_of("over", "spray"), log)
    (full,) = compare(fabric_of("rails", "spray"), log)
    assert (there.code, there.sizes["limit"].unique().to_list()) == ("as-expected", ["fabric"])
    assert full.code == "slow-network"
    assert there.remarks == ()


def test_hosts_of_the_log_are_put_where_the_plan_has_them() -> None:
    far = ["server-0001.example", "SERVER-0032"]
    log = parse_log(log_of(80.0, far))
    (verdict,) = compare(fabric_of("over", "ecmp"), log, collective="all-to-all")
    assert not any("not in the plan" in remark for remark in verdict.remarks)
    (strange,) = compare(fabric_of("over", "ecmp"), parse_log(log_of(80.0, ["a", "b"])), collective="all-to-all")
    assert any("not in the plan" in remark for remark in strange.remarks)


@pytest.mark.parametrize(
    ("name", "code", "ranks"),
    [
        ("healthy_h100_2_nodes", "as-expected", None),
        ("healthy_h100_1_node", "as-expected", None),
        ("one_slow_adapter", "slow-rail", None),
        ("nvlink_only", "one-host", 16),
        ("nvlink_only", "as-expected", None),
        ("wrong_gid_then_sockets", "sockets", None),
        ("cliff_at_64_mib", "cliff", None),
    ],
)
def test_real_formats_get_their_verdict_against_a_plan(name: str, code: str, ranks: int | None) -> None:
    verdicts = compare(fabric_of("rails", "spray"), read_log(LOGS / f"{name}.log"), ranks=ranks)
    assert verdicts[-1].code == code


def test_a_log_of_other_gpus_says_so() -> None:
    (verdict,) = compare(fabric_of("rails", "spray"), read_log(LOGS / "healthy_mi300x_rccl.log"))
    assert any("MI300X" in remark and "H100" in remark for remark in verdict.remarks)


def test_the_same_seed_gives_the_same_table() -> None:
    tables = [
        rows(
            open_fabric(oversubscribed(), paths="ecmp", seed=3),
            scope_of(oversubscribed(), "cluster"),
            "all-to-all",
            [LARGE],
        )
        for _ in range(2)
    ]
    assert tables[0].equals(tables[1])
    assert isinstance(tables[0], pl.DataFrame)
