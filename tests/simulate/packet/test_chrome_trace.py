"""The Chrome trace of a run."""

import json
from pathlib import Path

import pytest

from railwright.simulate.packet.chrome_trace import write_chrome_trace
from railwright.simulate.packet.engine import simulate_packets
from railwright.simulate.packet.options import rocev2


def test_every_flow_is_a_slice_of_its_job(star, sends, tmp_path: Path) -> None:
    flows = simulate_packets(star(3), sends((0, 2, 1e5), (1, 2, 2e5, 3.0), job=["a", "b"]), rocev2()).flows
    write_chrome_trace(flows, tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert [event["args"]["name"] for event in events if event["ph"] == "M"] == ["a", "b"]
    assert [event["name"] for event in slices] == ["0 → 2", "1 → 2"]
    assert slices[1]["ts"] == pytest.approx(3.0)
    assert slices[1]["dur"] == pytest.approx(flows["fct_us"][1])


def test_series_are_counters_of_the_network(star, sends, tmp_path: Path) -> None:
    rows = sends(*((h, 4, 1e6) for h in range(4)))
    result = simulate_packets(star(5, buffer_bytes=1e6), rows, rocev2(congestion_control="none", sample_us=5.0))
    write_chrome_trace(result.flows, tmp_path / "t.json", carried=result.carried, queues=result.samples)
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert {"name": "network"} in [event["args"] for event in events if event["ph"] == "M"]
    counters = [event for event in events if event["ph"] == "C"]
    down = [event["args"]["used_percent"] for event in counters if event["name"] == "link 4 back"]
    assert max(down) == pytest.approx(100, abs=1.5)
    paused = [event["args"]["paused_percent"] for event in counters if event["name"] == "link 0"]
    assert 0 < max(paused) <= 100.001
    longest = max(
        event["args"]["queued_bytes"] for event in counters if event["name"] == "queue of link 4 back, class 0"
    )
    assert longest == result.samples["queued_bytes"].max()
