"""PFC and credits: no loss with exact headroom, loss below it, pauses that run out, storms, deadlocks with their cycle."""

import itertools

import numpy as np
import pytest

from railwright.simulate.packet.columns import packet_headroom
from railwright.simulate.packet.engine import simulate_packets
from railwright.simulate.packet.options import PacketOptions, infiniband, parse_options, rocev2

MTU, FRAME = 4096, 4096 + 82


def lossless(options: PacketOptions | None = None, **changes: object) -> PacketOptions:
    base = options or rocev2(congestion_control="none", forwarding="store-and-forward")
    data = base.classes[0].model_copy(update={"alpha": 0.125, "kmax_bytes": 0.0, "kmin_bytes": 0.0, **changes})
    return parse_options({**base.model_dump(), "classes": (data, *base.classes[1:])})


def test_incast_without_congestion_control_pauses_and_loses_nothing(star, sends) -> None:
    net = star(17, buffer_bytes=2e6, latency_ns=500.0)
    result = simulate_packets(net, sends(*((h, 16, 1e6) for h in range(16))), lossless())
    assert result.counters["pause_frames"] > 0
    assert result.counters["drops"] == 0
    assert result.flows["fct_us"].null_count() == 0
    assert result.pauses["to"].unique().to_list() == ["s0"]


def worst_case(network, sends, missing: float, phase_ns: float) -> float:
    """Drops at a switch whose receiver takes nothing, while full frames towards the sender delay the pause frame."""
    net = network(3, 1, [(0, 3), (1, 3), (2, 3)], delay_ns=[700.0, 50.0, 50.0], latency_ns=300.0, buffer_bytes=4e6)
    storm = ({"time_us": 0.0, "kind": "storm-on", "subject": 1},)
    options = parse_options(
        {**lossless(xoff_bytes=50_000.0, rto_us=0.0).model_dump(), "changes": storm, "ack_every": 1024}
    )
    options = options.model_copy(update={"headroom_bytes": float(packet_headroom(net, options)[0]) - missing})
    rows = ((0, 1, 4e6, 1.0), (2, 0, 4e6, 1.0 + phase_ns / 1e3))
    return simulate_packets(net, sends(*rows), options).counters["drops"]


PHASES_NS = np.linspace(0, 83, 24).tolist()


@pytest.mark.parametrize("phase_ns", PHASES_NS)
def test_worst_case_headroom_is_enough(network, sends, phase_ns) -> None:
    assert worst_case(network, sends, 0.0, phase_ns) == 0


def test_one_packet_below_the_worst_case_loses(network, sends) -> None:
    assert max(worst_case(network, sends, FRAME, phase) for phase in PHASES_NS) > 0


QUANTA_US = 1000 * 512 / 400e3
"""1,000 quanta of 512 bits at 400 Gb/s."""


def storm(star, sends, until_us: float, seed: int = 1, **options: object) -> dict[str, float]:
    """What the switch suffers when host 1 pauses it from 1 us on, a long message towards it being under way."""
    changes = (
        {"time_us": 1.0, "kind": "storm-on", "subject": 1},
        {"time_us": until_us, "kind": "storm-off", "subject": 1},
    )
    told = parse_options({**lossless().model_dump(), "changes": changes, "pause_quanta": 1000, **options})
    return simulate_packets(star(2), sends((0, 1, 4e6)), told, seed).pauses.row(0, named=True)


def test_a_pause_whose_resume_is_lost_runs_out_after_its_quanta(star, sends) -> None:
    bad = ({"cable": 1, "probability": 0.5},)
    held = {round(storm(star, sends, 1.3, seed, losses=bad)["paused_us"], 6) for seed in range(20)}
    assert held == {0.0, 0.3, round(QUANTA_US, 6)}  # the pause is lost, both arrive, the resume is lost


def test_a_pause_is_refreshed_at_half_its_quanta_and_never_lapses(star, sends) -> None:
    paused = storm(star, sends, 51.0)
    assert paused["from"] == "s0"
    assert paused["paused_us"] == paused["longest_us"] == pytest.approx(50.0, abs=0.1)
    assert paused["frames"] == pytest.approx(1 + 50 / (QUANTA_US / 2), abs=1)


def test_a_nic_that_pauses_for_ever_is_named(star, sends) -> None:
    changes = ({"time_us": 1.0, "kind": "storm-on", "subject": 1},)
    options = parse_options({**lossless(rto_us=0.0).model_dump(), "changes": changes, "pause_quanta": 1000})
    result = simulate_packets(star(3), sends((0, 1, 1e6), (2, 1, 1e6)), options)
    assert result.diagnosis is not None
    assert result.diagnosis.code == "paused-forever"
    assert "s0 → h1" in result.diagnosis.places


def test_a_pause_that_never_ends_counts_as_long_as_it_has_lasted(star, sends) -> None:
    # The storming NIC was the first to pause, so its switch has been paused the longest: that names the culprit.
    changes = ({"time_us": 1.0, "kind": "storm-on", "subject": 1},)
    options = parse_options({**lossless(rto_us=0.0, alpha=0.01).model_dump(), "changes": changes})
    result = simulate_packets(star(3), sends((0, 1, 1e6), (2, 1, 1e6)), options)
    worst = result.pauses.row(0, named=True)
    assert (worst["from"], worst["to"]) == ("s0", "h1")
    assert worst["paused_us"] == worst["longest_us"] > 1
    assert result.counters["paused_us"] == pytest.approx(result.pauses["paused_us"].sum())


def test_the_watchdog_frees_the_victims_of_a_storm(star, sends) -> None:
    # Host 0 sends to the storming host 1 and, later, to host 2: without the watchdog the second flow waits for ever.
    rows = ((0, 1, 4e6), (0, 2, 1e6, 5.0), (3, 1, 4e6))
    storm = {"changes": ({"time_us": 1.0, "kind": "storm-on", "subject": 1},), "time_limit_us": 20_000.0}
    base = lossless(rto_us=0.0, alpha=0.01).model_dump()
    without = simulate_packets(star(4), sends(*rows), parse_options({**base, **storm}))
    watched = {"watchdog_detect_us": 200.0, "watchdog_restore_us": 1000.0}
    result = simulate_packets(star(4), sends(*rows), parse_options({**base, **storm, **watched}))
    assert without.flows["finish_us"][1] is None
    assert result.flows["finish_us"][1] is not None
    assert result.counters["watchdog"] >= 1
    assert result.counters["drops"] > 0


def ring_of_three(network, sends):
    """Three switches in a ring, every flow two switches on: the classic cyclic buffer dependency."""
    net = network(
        6, 3, [(0, 6), (1, 7), (2, 8), (3, 6), (4, 7), (5, 8), (6, 7), (7, 8), (8, 6)], buffer_bytes=400_000.0
    )
    number = {(int(a), int(b)): i for i, (a, b) in enumerate(zip(net.link_src, net.link_dst, strict=True))}
    routes = [(0, 6, 7, 8, 5), (1, 7, 8, 6, 3), (2, 8, 6, 7, 4)]
    routes += [(3, 6, 7, 8, 2), (4, 7, 8, 6, 0), (5, 8, 6, 7, 1)]
    paths = [[number[hop] for hop in itertools.pairwise(stops)] for stops in routes]
    offsets = np.cumsum([0] + [len(path) for path in paths])
    traffic = sends(*((stops[0], stops[-1], 8e6) for stops in routes))
    return net, traffic, (offsets, np.concatenate(paths).astype(np.int32))


def test_pause_deadlock_ends_with_the_cycle_of_ports(network, sends) -> None:
    net, traffic, pinned = ring_of_three(network, sends)
    result = simulate_packets(net, traffic, lossless(rto_us=0.0), pinned=pinned)
    assert result.diagnosis is not None
    assert result.diagnosis.code == "pause-deadlock"
    assert sorted(result.diagnosis.places) == ["s0 → s1", "s1 → s2", "s2 → s0"]


def test_credit_deadlock_ends_with_the_cycle_of_ports(network, sends) -> None:
    net, traffic, pinned = ring_of_three(network, sends)
    options = lossless(infiniband(paths="ecmp"), rto_us=0.0)
    result = simulate_packets(net, traffic, options, pinned=pinned)
    assert result.diagnosis is not None
    assert result.diagnosis.code == "credit-deadlock"
    assert sorted(result.diagnosis.places) == ["s0 → s1", "s1 → s2", "s2 → s0"]


def test_infiniband_incast_drops_nothing_and_never_exceeds_its_credits(star, sends) -> None:
    options = infiniband(paths="ecmp")
    result = simulate_packets(star(17), sends(*((h, 16, 1e6) for h in range(16))), options)
    assert result.counters["drops"] == 0
    assert result.counters["pause_frames"] == 0
    # All that waits at the switch for the receiver came over 16 links with one buffer each.
    assert result.links_used["queue_max_bytes"].max() <= 16 * options.credit_bytes


@pytest.mark.parametrize("credit", [9_000, 50_000, 131_072])
def test_what_waits_behind_a_slow_port_is_the_credits_of_its_one_input_to_the_packet(network, sends, credit) -> None:
    net = network(2, 1, [(0, 2), (2, 1)], gbps=[400.0, 25.0])
    result = simulate_packets(net, sends((0, 1, 1000 * MTU)), infiniband(paths="ecmp", credit_bytes=credit))
    waits = result.links_used.filter((result.links_used["link_id"] == 1) & result.links_used["forward"])
    whole_packets = credit // (MTU + 26) * (MTU + 26)
    assert result.counters["drops"] == 0
    assert whole_packets - 2 * (MTU + 26) < waits["queue_max_bytes"].item() <= whole_packets


def test_a_link_with_credits_for_its_round_trip_runs_at_line_rate(star, sends) -> None:
    net = star(2, delay_ns=1000.0)
    trip = 2 * 1000.0 * 400 / 8 + 2 * FRAME
    full = simulate_packets(net, sends((0, 1, 4e6)), infiniband(paths="ecmp", credit_bytes=trip + FRAME)).flows[
        "fct_us"
    ][0]
    half = simulate_packets(net, sends((0, 1, 4e6)), infiniband(paths="ecmp", credit_bytes=trip / 2)).flows["fct_us"][0]
    assert full == pytest.approx(4e6 * (4096 + 26) / 4096 * 8 / 400e3, rel=0.03)
    assert half == pytest.approx(2 * full, rel=0.12)


def test_more_buffer_never_makes_an_incast_later(star, sends) -> None:
    last = []
    for size in (1e6, 2e6, 4e6, 8e6, 64e6):
        net = star(9, buffer_bytes=size)
        last.append(simulate_packets(net, sends(*((h, 8, 5e5) for h in range(8))), lossless()).flows["finish_us"].max())
    assert all(later <= earlier + 1e-9 for earlier, later in itertools.pairwise(last))
