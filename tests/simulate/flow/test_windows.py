"""Windows: the next message of a sender starts when a place is free, whatever the table's other waits."""

import pytest

from railwright.simulate.flow.engine import simulate_flows

RATE = 50_000.0
DELAY_US = 2.0


def chains(width: int, length: int) -> list[list[int]]:
    """Waits of ``width`` chains that take turns, as an all-to-all with that window."""
    return [[i - width] if i >= width else [] for i in range(width * length)]


def run(star, sends, width: int, length: int, bytes_each: float) -> float:
    network = star(width * length + 1, delay_ns=DELAY_US * 500)
    rows = [(0, 1 + i, bytes_each) for i in range(width * length)]
    return simulate_flows(network, sends(*rows, after=chains(width, length))).finish_us


def test_a_window_of_one_waits_for_every_arrival(star, sends) -> None:
    assert run(star, sends, 1, 5, 1e5) == pytest.approx(5 * (1e5 / RATE + DELAY_US))


def test_a_window_as_large_as_rate_times_delay_hides_the_delay(star, sends) -> None:
    assert run(star, sends, 4, 5, 1e5) == pytest.approx(20 * 1e5 / RATE + DELAY_US)


def test_a_window_that_is_too_small_leaves_the_line_idle_for_the_rest_of_the_delay(star, sends) -> None:
    message = 2e4 / RATE
    idle = DELAY_US - 3 * message
    assert run(star, sends, 4, 5, 2e4) == pytest.approx(20 * message + 4 * idle + DELAY_US)


def test_waiting_for_what_others_send_is_waiting_for_the_arrival(star, sends) -> None:
    table = sends((0, 1, 1e5), (1, 2, 1e5), after=[[], [0]])
    assert simulate_flows(star(3, delay_ns=1000.0), table).finish_us == pytest.approx(2 * (1e5 / RATE + 2.0))
