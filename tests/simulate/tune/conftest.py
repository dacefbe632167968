"""An incast whose right answer is known: seven hosts of 100G fill one queue of a switch with 2 MB.

A pause comes when one ingress's share of the queue, q/7, is alpha times the free pool (see the packet test of marks and
pauses); below that, quick notifications hold the queue.
"""

from pathlib import Path

import pytest

from railwright.simulate.tune.scenario import Scenario, own_scenario

SENDERS = 7
POOL = 2e6
HEADROOM = 50e3
ALPHA = 0.25
FREE = POOL - HEADROOM * (SENDERS + 1)
PAUSE_AT = ALPHA * FREE / (1 / SENDERS + ALPHA)
BOUND = ALPHA * FREE / ((SENDERS + 1) * (1 + ALPHA))

OPTIONS = f"""\
headroom_bytes: {HEADROOM:.0f}
notify_interval_us: 4
classes:
  data: {{alpha: {ALPHA}, reserve_bytes: 0, kmin_bytes: 1400000, kmax_bytes: 1500000, pmax: 1}}
"""


def write_incast(folder: Path, each_bytes: int = 1_000_000) -> tuple[Path, Path, Path]:
    """Write NET.yaml, FLOWS.csv and OPTIONS.yaml of the incast."""
    hosts = range(SENDERS + 1)
    net = ["nodes:", *(f"  - {{name: h{i}, kind: host}}" for i in hosts)]
    net += [f"  - {{name: leaf, kind: switch, buffer_bytes: {POOL:.0f}}}", "links:"]
    net += [f"  - {{a: h{i}, b: leaf, gbps: 100, delay_us: 0.1}}" for i in hosts]
    flows = ["flow_id,src,dst,bytes", *(f"{i},h{i},h{SENDERS},{each_bytes}" for i in range(SENDERS))]
    files = folder / "NET.yaml", folder / "FLOWS.csv", folder / "OPTIONS.yaml"
    for file, text in zip(files, ("\n".join(net), "\n".join(flows), OPTIONS), strict=True):
        file.write_text(text.rstrip("\n") + "\n")
    return files


@pytest.fixture
def incast_files(tmp_path: Path) -> tuple[Path, Path, Path]:
    return write_incast(tmp_path)


@pytest.fixture
def incast(incast_files: tuple[Path, Path, Path]) -> Scenario:
    net, flows, options = incast_files
    return own_scenario(net, flows, options_file=options, seed=3)
