"""Port names of every platform and operating system."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railwright.catalog.load import load_catalog
from railwright.catalog.model import Switch
from railwright.catalog.port_names import lanes_before, port_names, port_template
from railwright.errors import InputError

CATALOG = load_catalog()


def names_of(switch: Switch, gbps: float, nos: str | None = None) -> list[str]:
    """Return the names of all fabric ports of ``gbps`` in the order of the face plate."""
    first, names = 1, []
    for group in switch.cages:
        per_cage = group.ports_at(gbps)
        if group.purpose == "fabric" and per_cage:
            lanes = group.lanes // per_cage
            slot = np.arange(group.count * per_cage)
            names += port_names(
                switch, first + slot // per_cage, slot % per_cage * lanes, lanes, per_cage, nos
            ).to_list()
        first += group.count
    return names


@pytest.mark.parametrize(
    ("key", "nos", "gbps", "first", "last", "source"),
    [
        ("sn5600", "sonic", 800, ["Ethernet0", "Ethernet8"], "Ethernet504", "sonic-buildimage nvidia_sn5600"),
        ("sn5600", "sonic", 400, ["Ethernet0", "Ethernet4"], "Ethernet508", "sonic-buildimage nvidia_sn5600"),
        ("sn5600", "nvue", 800, ["swp1", "swp2"], "swp64", "NVUE reference"),
        ("sn5600", "nvue", 200, ["swp1s0", "swp1s1"], "swp64s3", "NVUE reference, 4x breakout"),
        ("7060x6-64pe", "eos", 400, ["Ethernet1/1", "Ethernet1/5"], "Ethernet64/5", "port_config.ini aliases"),
        ("7060x6-64pe", "sonic", 400, ["Ethernet0", "Ethernet4"], "Ethernet508", "port_config.ini names"),
        ("qm9700", "mlnx-os", 400, ["IB1/1/1", "IB1/1/2"], "IB1/32/2", "public Quantum-2 port maps"),
        ("qm9700", "mlnx-os", 200, ["IB1/1/1/1", "IB1/1/1/2"], "IB1/32/2/2", "MLNX-OS manual, InfiniBand Interface"),
        ("q3400-ra", "nvos", 800, ["sw1p1", "sw1p2"], "sw72p2", "netbox Q3400-RA.yaml"),
        ("qfx5240-64od", "junos", 400, ["et-0/0/0:0", "et-0/0/0:1"], "et-0/0/63:1", "Junos interface naming"),
        ("qfx5240-64od", "junos", 800, ["et-0/0/0", "et-0/0/1"], "et-0/0/63", "Junos interface naming"),
        ("sn2201", "nvue", 1, ["swp1", "swp2"], "swp48", "netbox SN2201.yaml"),
    ],
)
def test_published_port_names(key: str, nos: str, gbps: float, first: list[str], last: str, source: str) -> None:
    names = names_of(CATALOG.switch(key), gbps, nos)
    assert names[:2] == first, source
    assert names[-1] == last, source


def test_the_uplinks_of_a_management_switch_follow_its_copper_ports() -> None:
    switch = CATALOG.switch("sn2201")
    uplinks = np.arange(49, 53)
    assert lanes_before(switch, uplinks).tolist() == [48, 52, 56, 60]
    assert port_names(switch, uplinks, np.zeros(4, dtype=np.int64), 4, 1, "nvue").to_list() == [
        "swp49",
        "swp50",
        "swp51",
        "swp52",
    ]


def test_an_operating_system_that_the_platform_does_not_run_is_named() -> None:
    with pytest.raises(InputError, match="sn5600 has no port names for 'eos'; it has: nvue, frr, sonic"):
        port_template(CATALOG.switch("sn5600"), "eos")


@given(st.data())
def test_names_are_unique_on_a_switch_and_keep_the_order_of_lanes(data: st.DataObject) -> None:
    switch = CATALOG.switch(data.draw(st.sampled_from(list(CATALOG.switches))))
    nos = data.draw(st.sampled_from(sorted(switch.port_name)))
    position = data.draw(st.integers(0, len(switch.cages) - 1))
    group = switch.cages[position]
    per_cage = data.draw(st.sampled_from(sorted({int(mode.split("x")[0]) for mode in group.breakouts})))
    before = sum(other.count for other in switch.cages[:position])
    lanes = group.lanes // per_cage
    slot = np.arange(group.count * per_cage)
    names = port_names(switch, before + 1 + slot // per_cage, slot % per_cage * lanes, lanes, per_cage, nos).to_list()
    assert len(set(names)) == len(names)
    numbers = [[int(part) for part in "".join(c if c.isdigit() else " " for c in name).split()] for name in names]
    assert numbers == sorted(numbers)
