"""Slow receivers: their rate holds, and in a lossless class they pause the leaf."""

import numpy as np
import pytest

from railwright.errors import InputError
from railwright.simulate.host_limits import limit_hosts
from railwright.simulate.own_network import simulate_own
from railwright.simulate.packet.engine import simulate_packets
from railwright.simulate.packet.options import rocev2

MTU = 4096


def test_a_slow_receiver_sets_the_rate_and_pauses_its_leaf(star, sends) -> None:
    net = limit_hosts(star(3), np.array([1]), 100.0, nic_buffer_bytes=500_000.0)
    result = simulate_packets(net, sends((0, 1, 8e6), (0, 2, MTU)), rocev2(congestion_control="none"))
    assert result.flows["fct_us"][0] == pytest.approx(8e6 * (MTU + 82) / MTU * 8 / 100e3, rel=0.02)
    assert result.counters["drops"] == 0
    assert ("s0", "h1:nic") in list(zip(result.pauses["from"], result.pauses["to"], strict=True))
    assert result.flows["hops"].to_list() == [3, 2]


def test_cables_keep_their_numbers(star) -> None:
    net = star(3)
    limited = limit_hosts(net, np.array([0, 2]), 200.0)
    assert limited.hosts == net.hosts
    assert np.array_equal(limited.link_id[:3], net.link_id)
    assert limited.link_gbps[6:].tolist() == [200.0] * 4


def test_a_switch_is_no_host(star) -> None:
    with pytest.raises(InputError, match="node 3 is not a host"):
        limit_hosts(star(3), np.array([3]), 100.0)


NET = """\
nodes:
  - {name: leaf, kind: switch}
  - {name: a, kind: host, pcie_gbps: 200}
  - {name: b, kind: host, pcie_gbps: 100}
  - {name: c, kind: host}
links:
  - {a: a, b: leaf, gbps: 400, delay_us: 0.1}
  - {a: b, b: leaf, gbps: 400, delay_us: 0.1}
  - {a: c, b: leaf, gbps: 400, delay_us: 0.1}
"""
FLOWS = "flow_id,src,dst,bytes,start_us,class,path\n1,a,c,8000000,0,,a;leaf;c\n2,c,b,8000000,0,,\n3,b,a,8000000,9000,,leaf\n"


@pytest.mark.parametrize("engine", ["flow", "packet"])
def test_pcie_rates_of_a_network_file_hold_for_pinned_and_free_flows(tmp_path, engine) -> None:
    (tmp_path / "net.yaml").write_text(NET)
    (tmp_path / "flows.csv").write_text(FLOWS)
    (tmp_path / "options.yaml").write_text("congestion_control: none\n")
    options = tmp_path / "options.yaml" if engine == "packet" else None
    result = simulate_own(tmp_path / "net.yaml", tmp_path / "flows.csv", engine, options_file=options)
    bits = 8e6 * (MTU + 82) / MTU * 8
    times = dict(zip(result.engine.flows["op_id"], result.engine.flows["fct_us"], strict=True))
    assert times[1] == pytest.approx(bits / 200e3, rel=0.02)  # out of a, which has 200
    assert times[2] == pytest.approx(bits / 100e3, rel=0.02)  # into b, which takes 100
    assert times[3] == pytest.approx(bits / 100e3, rel=0.02)
    if engine == "packet":
        hops = dict(zip(result.engine.flows["op_id"], result.engine.flows["hops"], strict=True))
        assert hops == {1: 3, 2: 3, 3: 4}
