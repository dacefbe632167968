"""Render, read back, equal: for every operating system, over random contracts."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railwright.build import eos, frr, nvue, sonic
from railwright.build.contract import (
    Bgp,
    DeviceView,
    Headroom,
    Leak,
    Marking,
    Neighbor,
    Policy,
    Port,
    Qos,
    Queue,
    Vlan,
    Vrf,
    Watchdog,
    project,
    statements,
)
from railwright.build.path_modes import MODES
from railwright.build.sonic_tables import POOLS
from railwright.build.views import Target, device_views, retarget
from railwright.design.plan import Plan
from railwright.design.qos_table import contracts_for

SYSTEMS: dict[str, ModuleType] = {"sonic": sonic, "nvue": nvue, "eos": eos, "frr": frr}
NAMES = {
    "sonic": lambda cage, sub, split: f"Ethernet{(cage - 1) * 8 + sub * 8 // split}",
    "nvue": lambda cage, sub, split: f"swp{cage}s{sub}" if split > 1 else f"swp{cage}",
    "eos": lambda cage, sub, split: f"Ethernet{cage}/{sub * 8 // split + 1}",
    "frr": lambda cage, sub, split: f"swp{cage}s{sub}" if split > 1 else f"swp{cage}",
}
SPEEDS = {1: 800.0, 2: 400.0, 4: 200.0, 8: 100.0}


PREFIXES = st.lists(
    st.sampled_from(["0.0.0.0/0", "10.240.0.0/24", "10.0.0.0/8 le 32", "192.0.2.7/32"]), max_size=3, unique=True
).map(tuple)


@st.composite
def edges(draw: st.DrawFn, neighbors: tuple[Neighbor, ...], routed: bool) -> dict[str, Any]:
    """What an edge adds to the routing of a box: sessions with policies, blocks, leaks between VRFs."""
    policies = tuple(
        Policy(
            name, draw(PREFIXES), draw(PREFIXES), *draw(st.sampled_from([("", ""), ("64512:100", ""), ("", "64512:7")]))
        )
        for name in sorted(draw(st.sets(st.sampled_from(["OUTSIDE", "BALANCER"]))))
    )
    sessions = tuple(
        Neighbor(
            f"198.51.100.{number}",
            False,
            draw(st.sampled_from([None, 65003])),
            draw(st.booleans()),
            "default",
            policy.name,
            draw(st.sampled_from([None, 10])),
        )
        for number, policy in enumerate(policies, start=1)
    )
    leaks = (Leak("tenant-a", ("default",), draw(PREFIXES)), Leak("default", ("tenant-a",), draw(PREFIXES)))
    return {
        "neighbors": neighbors + sessions,
        "policies": policies,
        "aggregates": draw(st.sampled_from([(), ("10.240.0.0/24", "203.0.113.0/24")])),
        "leaks": leaks if routed and draw(st.booleans()) else (),
    }


@st.composite
def views(draw: st.DrawFn, nos: str) -> DeviceView:
    """A whole random view that one contract could ask for."""
    lossless = draw(st.sets(st.integers(0, 7), max_size=2))
    priorities = sorted(lossless | draw(st.sets(st.integers(0, 7), min_size=1, max_size=5)))
    queue_of = dict(zip(priorities, draw(st.permutations(range(8))), strict=False))
    queues = tuple(
        Queue(q, *draw(st.sampled_from([("strict", None), ("dwrr", 5), ("dwrr", 12)])))
        for q in sorted(queue_of.values())
    )
    marked = draw(st.sets(st.sampled_from(sorted(queue_of.values())), max_size=2))
    limits = {
        (q, split): draw(st.tuples(st.integers(1, 10**6), st.integers(10**6, 10**7), st.integers(1, 100)))
        for q in marked
        for split in SPEEDS
    }
    watchdog = (
        Watchdog(
            draw(st.integers(2, 50)) * 50, draw(st.integers(4, 60)) * 100, draw(st.sampled_from(["drop", "alert"]))
        )
        if lossless
        else None
    )
    ports = []
    for cage in sorted(draw(st.sets(st.integers(1, 64), min_size=1, max_size=4))):
        split = draw(st.sampled_from(sorted(SPEEDS)))
        length = draw(st.one_of(st.none(), st.integers(1, 300)))
        for sub in range(split):
            layer = draw(st.sampled_from(["routed", "vlan", "bond"])) if nos != "frr" else "routed"
            width = 8 // split
            first = (cage - 1) * 8 + sub * width
            pfc = tuple(sorted(lossless)) if draw(st.booleans()) else ()
            ports.append(
                Port(
                    name=NAMES[nos](cage, sub, split),
                    peer=draw(st.sampled_from(["", "leaf1:swp1", "gpu-001:mlx5_3", "spine-2:Ethernet4/1"])),
                    speed_gbps=SPEEDS[split],
                    split=split,
                    lanes=tuple(range(first, first + width)),
                    mtu=draw(st.sampled_from([1500, 9100, 9214])),
                    fec=draw(st.sampled_from(["rs", "none"])),
                    cable_m=length,
                    trust_dscp=draw(st.booleans()),
                    pfc=pfc,
                    watchdog=bool(pfc) and draw(st.booleans()),
                    marking=tuple(Marking(q, *limits[q, split]) for q in sorted(marked)),
                    headroom=tuple(Headroom(p, 1024 * (length or 1), 19456, 19456 + 1024 * (length or 1)) for p in pfc),
                    addresses=()
                    if layer != "routed"
                    else draw(st.sampled_from([(), (f"10.1.{cage}.{sub}/31",), (f"2001:db8:{cage}::{sub}/64",)])),
                    vrf="default" if layer != "routed" else draw(st.sampled_from(["default", "tenant-a"])),
                    vlan=draw(st.sampled_from([200, 300])) if layer != "routed" else None,
                    bond=cage * 8 + sub if layer == "bond" else None,
                )
            )
    if not any(p.watchdog for p in ports):
        watchdog = watchdog if nos == "eos" else None
    neighbors = tuple(
        Neighbor(p.name, True, draw(st.sampled_from([None, 65001])), draw(st.booleans()), p.vrf)
        for p in ports
        if p.vlan is None and draw(st.booleans())
    ) + ((Neighbor("10.9.9.9", False, 65002, draw(st.booleans()), "default"),) if draw(st.booleans()) else ())
    vrfs = draw(st.sampled_from([(), (Vrf("tenant-a", 50001),)]))
    edge = draw(edges(neighbors, bool(vrfs)))
    return DeviceView(
        name="leaf1",
        nos=nos,
        model="sn5600",
        role="leaf",
        loopbacks=draw(st.sampled_from([("10.0.0.1/32",), ("10.0.0.1/32", "2001:db8::1/128")])),
        qos=Qos(
            tuple(draw(st.sampled_from(priorities)) for _ in range(64)),
            tuple(queue_of.get(p, -1) for p in range(8)),
            queues,
            watchdog,
        ),
        ports=tuple(ports),
        bgp=Bgp(
            asn=draw(st.integers(1, 2**32 - 1)),
            router_id="10.0.0.1",
            maximum_paths=draw(st.integers(1, 128)),
            evpn=draw(st.booleans()),
            relaxed=draw(st.booleans()),
            withheld=draw(
                st.sampled_from([(), ("172.16.0.0/12",), ("10.192.0.0/11", "172.16.0.0/12", "192.0.2.9/32")])
            ),
            **edge,
        ),
        balancing=draw(st.sampled_from([None, *MODES])),
        vlans=(Vlan(200, 10200, "tenant-a", ("10.64.0.1/24",)), Vlan(300, None, "default", ("10.65.0.1/25",))),
        vrfs=vrfs,
        pools=draw(st.sampled_from([(), tuple((name, 158_229_504) for name in POOLS)])),
    )


def round_trip(view: DeviceView, only: str | None = None) -> DeviceView:
    module = SYSTEMS[view.nos]
    files = module.render(view)
    kept = {f"{view.name}/{name}": text for name, text in files.items() if only in (None, name)}
    return module.read(view.name, kept).view


@pytest.mark.parametrize("nos", ["sonic", "nvue", "frr"])
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_what_is_rendered_is_read_back(nos: str, data: st.DataObject) -> None:
    view = data.draw(views(nos))
    assert project(round_trip(view)) == project(view)


@given(view=views("eos"))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_eos_through_pyavd_is_read_back(view: DeviceView) -> None:
    assert project(round_trip(view)) == project(view)


@given(view=views("nvue"))
@settings(max_examples=20, deadline=None)
def test_nv_set_commands_say_the_same_as_the_yaml(view: DeviceView) -> None:
    assert project(round_trip(view, nvue.COMMANDS)) == project(view)


@pytest.mark.parametrize("nos", list(SYSTEMS))
def test_the_switches_of_a_plan_are_read_back(make_plan: Callable[..., Plan], nos: str) -> None:
    plan, stayed = retarget(make_plan(), Target(nos, "7060x6-64pe" if nos == "eos" else None))
    assert not stayed
    found = device_views(plan, contracts_for(plan), Target(nos))
    assert [v.name for v in found] == ["rail1-leaf1", "rail2-leaf1", "spine1"]
    for view in found:
        assert project(round_trip(view)) == project(view)


@given(view=views("sonic"))
@settings(max_examples=20, deadline=None)
def test_statement_keys_are_unique_and_have_a_line(view: DeviceView) -> None:
    keys = [key for key, _ in statements(project(view))]
    assert len(keys) == len(set(keys))
    files = {f"leaf1/{name}": text for name, text in sonic.render(view).items()}
    reading = sonic.read("leaf1", files)
    for key, value in statements(project(view)):
        place = reading.place(key)
        assert 1 <= place.line <= files[place.file].count("\n"), (key, value)
