"""The Chrome trace of a run."""

import json
from pathlib import Path

import pytest

from railwright.simulate.chrome_trace import write_chrome_trace
from railwright.simulate.packet import simulate_packets
from railwright.simulate.packet_options import rocev2


def test_every_flow_is_a_slice_of_its_job(star, sends, tmp_path: Path) -> None:
    flows = simulate_packets(star(3), sends((0, 2, 1e5), (1, 2, 2e5, 3.0), job=["a", "b"]), rocev2()).flows
    write_chrome_trace(flows, tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert [event["args"]["name"] for event in events if event["ph"] == "M"] == ["a", "b"]
    assert [event["name"] for event in slices] == ["0 → 2", "1 → 2"]
    assert slices[1]["ts"] == pytest.approx(3.0)
    assert slices[1]["dur"] == pytest.approx(flows["fct_us"][1])
