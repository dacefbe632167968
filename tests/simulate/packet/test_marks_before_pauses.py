"""Which comes first in an incast, an ECN mark or a pause: the packet engine against the closed form of the linter's rule.

Seven senders fill one queue of q bytes, q/7 from each ingress; a pause comes when q/7 = alpha (B - H - q). Zhu et al. (SIGCOMM
2015, section 4) bound Kmin for the worst case, one ingress that holds all of it, so a queue that marks from there on marks
before that incast pauses too.
"""

import pytest

from railwright.simulate.packet.engine import simulate_packets
from railwright.simulate.packet.options import QosClass, parse_options

SENDERS = 7
POOL = 2e6
HEADROOM = 50e3
ALPHA = 0.25
FREE = POOL - HEADROOM * (SENDERS + 1)
PAUSE_AT = ALPHA * FREE / (1 / SENDERS + ALPHA)
BOUND = ALPHA * FREE / ((SENDERS + 1) * (1 + ALPHA))


def first_things(star, sends, kmin_bytes: float, each_bytes: float) -> tuple[float, float]:
    """Return marks and pause frames of the incast of ``each_bytes`` per sender."""
    data = QosClass(name="data", alpha=ALPHA, reserve_bytes=0, kmin_bytes=kmin_bytes, kmax_bytes=kmin_bytes, pmax=1)
    options = parse_options(
        {"classes": (data,), "notify_class": "data", "headroom_bytes": HEADROOM, "buffer_bytes": POOL}
    )
    net = star(SENDERS + 1, buffer_bytes=POOL, gbps=400.0)
    traffic = sends(*((host, SENDERS, each_bytes) for host in range(SENDERS)))
    counters = simulate_packets(net, traffic, options, 1).counters
    return counters["ecn_marks"], counters["pause_frames"]


def peak(share: float) -> float:
    """Return the bytes per sender whose queue peaks at ``share`` of the pause point: 6 of 7 arriving bytes stay."""
    return share * PAUSE_AT / (SENDERS - 1)


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_at_the_bound_marks_come_and_no_pause(star, sends, share):
    marks, pauses = first_things(star, sends, BOUND, peak(share))
    assert marks > 0
    assert pauses == 0


def test_above_the_pause_point_pauses_come_and_no_mark(star, sends):
    marks, pauses = first_things(star, sends, 1.3 * PAUSE_AT, peak(6.0))
    assert pauses > 0
    assert marks == 0


def test_the_pause_point_is_where_the_closed_form_says(star, sends):
    assert first_things(star, sends, POOL, peak(0.95))[1] == 0
    assert first_things(star, sends, POOL, peak(1.05))[1] > 0
