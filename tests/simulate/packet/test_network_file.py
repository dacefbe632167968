"""The user's own network and flows: what is read, and what every mistake says."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railwright.errors import InputError
from railwright.simulate.network_file import read_flows, read_network
from railwright.simulate.own_network import simulate_own
from railwright.simulate.packet.engine import simulate_packets
from railwright.simulate.packet.options import rocev2

NET = """\
nodes:
  - {name: leaf, kind: switch, buffer_bytes: 2.0e+6, latency_ns: 500, qos: tight}
  - {name: a, kind: host}
  - {name: b, kind: host}
  - {name: c, kind: host}
links:
  - {a: a, b: leaf, gbps: 400, delay_us: 0.1}
  - {a: b, b: leaf, gbps: 400, delay_us: 0.1}
  - {a: leaf, b: c, gbps: 400, delay_us: 0.1}
qos:
  tight:
    data: {kmin_bytes: 8000, kmax_bytes: 9000, pmax: 1}
"""
FLOWS = """\
flow_id,src,dst,bytes,start_us,class,path
1,a,c,400000,0,data,a;leaf;c
2,b,c,400000,1.5,,
"""


@pytest.fixture
def files(tmp_path: Path):
    def write(net: str = NET, flows: str = FLOWS) -> tuple[Path, Path]:
        (tmp_path / "NET.yaml").write_text(net)
        (tmp_path / "FLOWS.csv").write_text(flows)
        return tmp_path / "NET.yaml", tmp_path / "FLOWS.csv"

    return write


def test_files_become_a_run(files) -> None:
    net, flows = files()
    user = read_network(net)
    traffic, pinned = read_flows(flows, user.network)
    assert user.network.node_name.to_list() == ["a", "b", "c", "leaf"]
    assert traffic["op_id"].to_list() == [1, 2]
    assert pinned is not None
    assert pinned[0].tolist() == [0, 2, 2]
    assert user.network.link_dst[pinned[1]].tolist() == [3, 2]
    result = simulate_packets(user.network, traffic, rocev2(), pinned=pinned, thresholds=user.thresholds)
    assert result.diagnosis is None
    assert result.counters["ecn_marks"] > 0
    plain = simulate_packets(user.network, traffic, rocev2(), pinned=pinned)
    assert plain.counters["ecn_marks"] == 0


def test_a_flow_file_may_leave_out_the_last_columns(files) -> None:
    net, flows = files(flows="flow_id,src,dst,bytes\n7,a,b,10\n")
    traffic, pinned = read_flows(flows, read_network(net).network)
    assert pinned is None
    assert traffic.select("start_us", "class").row(0) == (0.0, "data")


def test_a_class_that_nobody_knows_is_a_mistake_and_no_default(files) -> None:
    net, flows = files(flows="flow_id,src,dst,bytes,start_us,class\n7,a,b,10,0,dta\n")
    with pytest.raises(InputError, match="there is no class 'dta'") as error:
        simulate_own(net, flows)
    assert error.value.key == "class"


BAD_NETWORKS = [
    ("kind: switch, ", "kind: swich, ", "NET.yaml:2.*did you mean 'switch'"),
    ("{name: b, kind: host}", "{name: a, kind: host}", "NET.yaml:4.*a node 'a' already"),
    (
        "b: leaf, gbps: 400, delay_us: 0.1}\n  - {a: b",
        "b: laef, gbps: 400, delay_us: 0.1}\n  - {a: b",
        "did you mean 'leaf'",
    ),
    ("{a: leaf, b: c,", "{a: leaf, b: leaf,", "both ends are 'leaf'"),
    ("gbps: 400, delay_us: 0.1}\nqos", "gbps: 0, delay_us: 0.1}\nqos", "gbps.*at least 0.001"),
    ("gbps: 400, delay_us: 0.1}\nqos", "gbps: 1e-9, delay_us: 0.1}\nqos", "gbps.*at least 0.001"),
    ("gbps: 400, delay_us: 0.1}\nqos", "gbps: 400, delay_us: -1}\nqos", "delay_us.*at least 0"),
    ("gbps: 400, delay_us: 0.1}\nqos", "gbps: 400, delay: 0.1}\nqos", "delay_us"),
    ("gbps: 400, delay_us: 0.1}\nqos", "gbps: fast, delay_us: 0.1}\nqos", "'fast'"),
    ("qos: tight}", "qos: thight}", "did you mean 'tight'"),
    ("kmin_bytes: 8000", "kmn_bytes: 8000", "did you mean 'kmin_bytes'"),
    ("kmin_bytes: 8000", "kmin_bytes: 8e9", "kmin_bytes.*is above kmax_bytes"),
    ("pmax: 1}", "pmax: 2}", "pmax.*at most 1"),
    ("links:", "link:", "did you mean 'links'"),
    ("kind: host", "kind: switch", "no node is a host"),
    ("nodes:", "nodes: [", "not YAML"),
    ("qos: tight}", "pcie_gbps: 100}", "'leaf' is a switch; hosts have a PCIe rate"),
    ("name: b, kind: host", "name: b, kind: host, pcie_gbps: -1", "pcie_gbps.*at least 0"),
    ("name: b, kind: host", "name: b, kind: host, pcie_gbps: 1e-9", "1e-09 is below 0.001"),
]


@pytest.mark.parametrize(("old", "new", "says"), BAD_NETWORKS)
def test_a_mistake_in_a_network_is_told_with_its_place(files, old, new, says) -> None:
    assert old in NET
    net, _ = files(net=NET.replace(old, new))
    with pytest.raises(InputError, match=f"(?s){says}"):
        read_network(net)


BAD_FLOWS = [
    ("a,c,400000", "d,c,400000", "FLOWS.csv:2: src: there is no node 'd'"),
    ("a,c,400000", "leaf,c,400000", "'leaf' is a switch"),
    ("2,b,c,400000", "1,b,c,400000", "FLOWS.csv:3: flow_id: 1 is on line 2 already"),
    ("2,b,c,400000", "2,b,c,-4", "bytes: -4 is out of range"),
    ("2,b,c,400000", "2,b,c,many", "'many' is not a number"),
    ("2,b,c,400000", "2.5,b,c,4", "'2.5' is not a whole number"),
    ("1.5,,", "soon,,", "start_us: 'soon'"),
    ("a;leaf;c", "a;spine;c", "path: there is no node 'spine'"),
    ("a;leaf;c", "a;b;c", "no link joins 'a' and 'b'"),
    ("a;leaf;c", "a;leaf;b;leaf;c", "visits a node twice"),
    ("flow_id,src,dst,bytes", "flow_id,src,dst,byte", "did you mean 'bytes'"),
    ("flow_id,src,dst,bytes,", "flow_id,src,dst,", "column 'bytes' is missing"),
    ("1.5,,", "1.5,,,,", "9 fields, the header has 7"),
    (FLOWS, "", "column 'flow_id' is missing"),
    (FLOWS, "flow_id,src,dst,bytes\n", "has no row"),
]


@pytest.mark.parametrize(("old", "new", "says"), BAD_FLOWS)
def test_a_mistake_in_a_flow_file_is_told_with_its_line(files, old, new, says) -> None:
    assert old in FLOWS
    net, flows = files(flows=FLOWS.replace(old, new))
    with pytest.raises(InputError, match=says):
        read_flows(flows, read_network(net).network)


def test_all_mistakes_of_a_flow_file_are_told_at_once(files) -> None:
    net, flows = files(flows="flow_id,src,dst,bytes\n1,x,a,1\n2,a,y,1\n3,a,b,z\n")
    with pytest.raises(InputError) as caught:
        read_flows(flows, read_network(net).network)
    assert all(f"FLOWS.csv:{line}" in str(caught.value) for line in (2, 3, 4))


@settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(place=st.integers(0, 400), cut=st.integers(0, 12), text=st.text(max_size=6), which=st.booleans())
def test_broken_files_give_input_errors_and_nothing_else(files, place, cut, text, which) -> None:
    def broken(source: str) -> str:
        at = place % len(source)
        return source[:at] + text + source[at + cut :]

    net, flows = files(broken(NET) if which else NET, FLOWS if which else broken(FLOWS))
    try:
        user = read_network(net)
        traffic, pinned = read_flows(flows, user.network)
    except InputError:
        return
    assert traffic.height
    assert pinned is None or np.all(pinned[1] < user.network.link_src.size)
