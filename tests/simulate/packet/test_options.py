"""Options: presets, and the error of every impossible one."""

import pytest

from railwright.errors import InputError
from railwright.simulate.packet.engine import simulate_packets
from railwright.simulate.packet.options import infiniband, parse_options, reference, rocev2

BAD = [
    ({"mtu_byte": 9000}, "did you mean 'mtu_bytes'"),
    ({"mtu_bytes": 20}, "mtu_bytes"),
    ({"paths": "emcp"}, "did you mean 'ecmp'"),
    ({"paths": "spray"}, "reorders packets"),
    ({"notify_class": "cpn"}, "did you mean 'cnp'"),
    ({"transport": "roce"}, "transport"),
    ({"classes": [{"name": "a", "kmin_bytes": 5, "kmax_bytes": 4}], "notify_class": "a"}, "kmin_bytes 5 is above"),
    ({"classes": [{"name": "a"}, {"name": "a"}], "notify_class": "a"}, "same name"),
    ({"classes": [{"name": "a", "congestion_control": "cubic"}], "notify_class": "a"}, "selective_repeat"),
    ({"classes": [{"name": "a", "congestion_control": "swift"}], "notify_class": "a"}, "swift"),
    ({"classes": [{"name": "a", "alhpa": 1}], "notify_class": "a"}, "did you mean 'alpha'"),
    ({"classes": []}, "one to seven"),
    ({"transport": "infiniband", "credit_bytes": 4096}, "less than two packets"),
    ({"ack_every": 0}, "ack_every"),
    ({"dcqcn": {"g": 2}}, "dcqcn.g"),
    ({"changes": [{"time_us": 1, "kind": "link-dwn", "subject": 0}]}, "link-dwn"),
    ({"losses": [{"cable": 0, "probability": 1.5}]}, "probability"),
]


@pytest.mark.parametrize(("values", "says"), BAD)
def test_a_wrong_option_is_named(values, says) -> None:
    with pytest.raises(InputError, match=says):
        parse_options(values)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (rocev2(buffer_bytes=10_000), "switch s0 has 10,000 bytes of buffer"),
        (rocev2(losses=({"cable": 9, "probability": 0.1},)), "cable 9 does not exist"),
        (rocev2(changes=({"time_us": 1, "kind": "node-down", "subject": 9},)), "node 9 does not exist"),
        (rocev2(changes=({"time_us": 1, "kind": "storm-on", "subject": 2},)), "node s0 is not a host"),
    ],
)
def test_options_that_do_not_fit_the_network_are_named(star, sends, options, says) -> None:
    with pytest.raises(InputError, match=says):
        simulate_packets(star(2), sends((0, 1, 1)), options)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ((0, 9, 1), "dst 9"),
        ((0, 1, -1), "bytes -1"),
        ((0, 1, 1, -2.0), "start_us -2"),
        ((0, 1, 1e12), "2\\^24 packets"),
    ],
)
def test_traffic_that_does_not_fit_is_named(star, sends, row, says) -> None:
    with pytest.raises(InputError, match=says):
        simulate_packets(star(2), sends(row), rocev2())


def test_a_column_that_nothing_reads_is_named(star, sends) -> None:
    with pytest.raises(InputError, match="did you mean 'bytes'"):
        simulate_packets(star(2), sends((0, 1, 1), byts=1), rocev2())


def test_presets_are_valid_and_can_be_written_and_read() -> None:
    for options in (rocev2(), rocev2(paths="adaptive"), infiniband(), reference(100.0)):
        assert parse_options(options.model_dump()) == options
