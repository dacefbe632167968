"""Goodput constants: closed forms of headers and acknowledgements, and measured shares that fresh runs reproduce."""

import pytest

from railwright.design.qos_table import contracts_for
from railwright.errors import InputError
from railwright.simulate.calibration import INCAST_US, SENDERS, Setting, incast, settings
from railwright.simulate.flow.engine import FlowOptions, simulate_flows
from railwright.simulate.goodput import ack_share, calibrated, goodput_file, goodput_share
from railwright.simulate.packet.options import infiniband, rocev2
from railwright.simulate.plan_goodput import plan_goodput
from railwright.simulate.plan_network import network_from_plan, placement_of
from railwright.simulate.run import simulate_collective
from railwright.simulate.validation import validation_plan
from railwright.workload.collectives import collective_traffic


def test_headers_of_a_4096_byte_packet_are_82_bytes_on_ethernet_and_26_on_infiniband() -> None:
    assert goodput_share("rocev2") == pytest.approx(4096 / 4178)
    assert goodput_share("infiniband") == pytest.approx(4096 / 4122)
    assert goodput_share("tcp", 1448) == pytest.approx(1448 / 1538)
    assert ack_share("rocev2") == pytest.approx(86 / 4178)


def test_the_packet_engine_counts_the_same_bytes() -> None:
    for options in (rocev2(), infiniband()):
        payload, frame = options.mtu_bytes, options.mtu_bytes + options.header_bytes
        assert goodput_share(options.transport, payload) == pytest.approx(payload / frame)
        assert ack_share(options.transport, payload) == pytest.approx(options.ack_bytes / options.ack_every / frame)


def test_every_setting_has_constants_of_at_most_one_with_the_runs_that_made_them() -> None:
    file = goodput_file()
    rows = {(row.congestion, row.transport, row.paths, row.mtu_bytes): row for row in file.rows}
    assert set(rows) == {(s.congestion, s.transport, s.paths, s.mtu_bytes) for s in settings()}
    for row in file.rows:
        assert row.header_share == pytest.approx(goodput_share(row.transport, row.mtu_bytes), abs=1e-6)
        assert row.ack_share == pytest.approx(ack_share(row.transport, row.mtu_bytes), abs=1e-6)
        incasts = [run for run in row.runs if run.pattern == "incast"]
        assert [run.senders for run in incasts] == list(SENDERS)
        steady = [run.utilisation for run in incasts if not run.gave_up]
        assert row.incast_share == pytest.approx(sum(steady) / len(steady), abs=1e-4)
        assert 0.9 < row.incast_share <= 1
        assert 0.7 < row.spread_share <= 1
        assert all(len(run.digest) == 16 for run in row.runs)
    assert file.seed == 1


def test_lossless_fabrics_lose_nothing_and_smaller_packets_never_carry_more() -> None:
    for row in goodput_file().rows:
        if row.congestion in ("dcqcn+pfc", "pfc-only", "credits"):
            assert sum(run.drops for run in row.runs) == 0
    for congestion, paths in (("dcqcn+pfc", "spray"), ("credits", "adaptive")):
        small, large = calibrated(congestion, paths, 1024), calibrated(congestion, paths, 4096)
        assert small.header_share * small.spread_share < large.header_share * large.spread_share


@pytest.mark.parametrize(
    "setting", [Setting("dcqcn+pfc", "rocev2", "ecmp", 4096), Setting("lossy+spray", "rocev2", "spray", 4096)]
)
def test_a_fresh_run_gives_the_stored_share(setting: Setting) -> None:
    stored = next(
        run
        for run in calibrated(setting.congestion, setting.paths, setting.mtu_bytes).runs
        if run.pattern == "incast" and run.senders == 8
    )
    assert (stored.from_us, stored.to_us) == INCAST_US
    fresh = incast(setting, 8)
    assert fresh.utilisation == pytest.approx(stored.utilisation, abs=0.002)
    assert fresh.gave_up == 0


def test_unknown_settings_are_named_and_alike_path_modes_stand_in() -> None:
    with pytest.raises(InputError, match="no goodput constants of 'dcqcn'"):
        calibrated("dcqcn", "ecmp")
    assert calibrated("dcqcn+pfc", "rail").paths == "ecmp"
    assert calibrated("lossy+spray", "ecmp").paths == "spray"


@pytest.mark.parametrize("more", ["", ", congestion: ecn-only", ", congestion: lossy+spray", ", congestion: pfc-only"])
def test_a_plan_uses_the_constants_of_its_qos_contract(more: str) -> None:
    plan = validation_plan(16, "rail-only", f"tiers: 1{more}")
    assert plan_goodput(plan).congestion == contracts_for(plan)["backend"].profile


def test_acknowledgements_slow_a_cable_that_is_busy_both_ways_and_no_other() -> None:
    plan = validation_plan(64)
    network, goodput = network_from_plan(plan), plan_goodput(plan, "ecmp")
    options = FlowOptions(goodput=goodput_share("rocev2"), calibration=goodput, acknowledged=True)
    plain = FlowOptions(goodput=goodput_share("rocev2"))
    ring = collective_traffic("all-reduce", 2.0**30, placement_of(plan), algorithm="ring")
    slowed = simulate_flows(network, ring, options).finish_us / simulate_flows(network, ring, plain).finish_us
    assert slowed == pytest.approx(1 + ack_share("rocev2"), rel=1e-3)
    one_way = ring.filter((ring["src"] == 7) & (ring["dst"] == 8)).head(1)
    assert simulate_flows(network, one_way, options).finish_us == pytest.approx(
        simulate_flows(network, one_way, plain).finish_us
    )


def test_results_say_which_constants_they_used() -> None:
    result = simulate_collective(validation_plan(64), "all-reduce", 2.0**26, engine="flow")
    said = next(sentence for sentence in result.engine.why if sentence.startswith("goodput of rocev2, dcqcn+pfc"))
    assert "packet engine 0.1.0, seed 1" in said
    assert "payload 98.0% of the wire" in said
