"""The sentences of a packet run name the thresholds and the buffer that the switches had, not those of the profile."""

import polars as pl

from railwright.simulate.packet.engine import simulate_packets
from railwright.simulate.packet.options import rocev2
from railwright.units import format_bytes


def _told(result, start):
    return next(sentence for sentence in result.why if sentence.startswith(start))


def test_thresholds_that_nothing_reached_are_those_of_the_switch(star, sends):
    net = star(2, buffer_bytes=3e6)
    own = pl.DataFrame({"link": [1, 3], "class": ["data", "data"], "kmin_bytes": [2e5, 3e5], "kmax_bytes": [8e5, 8e5]})
    result = simulate_packets(net, sends((0, 1, 1e5)), rocev2(), 1, thresholds=own)
    assert _told(result, "ECN never marked").endswith(f"is {format_bytes(2e5)} to {format_bytes(3e5)}")
    capacity = format_bytes(float(result.buffers["shared_bytes"][0]))
    assert _told(result, "PFC never paused").endswith(f"of {capacity}")
