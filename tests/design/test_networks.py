"""Laws that every plan obeys, whatever the spec asks for: it is built soundly or refused with a key."""

from typing import Any

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from railwright.catalog.load import Catalog
from railwright.design.border import take_turns
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.errors import InputError
from railwright.spec.cluster import ClusterSpec

SERVERS = ["hgx-h100", "dgx-h100", "dgx-b300", "mi300x-8", "gb200-nvl72", "hgx-a100", "generic-8gpu-400g"]
SWITCHES = ["sn5600", "sn5400", "sn4600c", "7060x6-64pe"]
CONVERGE = [["frontend", "storage"], ["frontend", "management"], ["backend", "frontend"], ["backend", "storage"], []]


def some(**keys: list[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A mapping with any of ``keys``, each with one of its values."""
    return st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in keys.items()})


COUNTS = some(leaves=[1, 2, 3, 9], spines=[0, 1, 2, 3], leaf_down_ports=[10, 48], leaf_up_ports=[0, 1, 7, 16])
FRONTEND = some(
    enabled=[True, False],
    attach=["routed", "lacp", "evpn-multihoming"],
    ports_per_server=[1, 2],
    oversubscription=[0.5, 1, 3, 7],
    border_leaves=[0, 1, 2, 3, 4],
    firewalls=[0, 1, 30],
    load_balancers=[0, 1, 30],
    service_nodes=[0, 1, 400],
    head_nodes=[0, 5],
    external_links=[0, 1, 3, 30],
    leaf_switch=SWITCHES,
    spine_switch=SWITCHES,
    underlay=["numbered"],
    firewall_gbps=[10, 1000],
    anycast=[True],
)
STORAGE = some(
    enabled=[True, False],
    transport=["tcp", "infiniband"],
    appliances=[0, 1, 40],
    appliance_ports=[1, 2, 3, 8],
    appliance_gbps=[200, 400],
    oversubscription=[1, 2],
)
MANAGEMENT = some(
    enabled=[True, False], isolation=["vrf"], in_band=["own"], pdus_per_rack=[0, 1, 4], oob_uplinks=[1, 2, 3, 4]
)
SITES = [
    [{"name": "a"}],
    [{"name": "a"}, {"name": "b", "distance": 1000}],
    [{"name": "a"}, {"name": "b", "distance": 1000, "backend": False}, {"name": "c", "distance": 10, "backend": False}],
]


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    frontend, storage = draw(FRONTEND), draw(STORAGE)
    for section in (frontend, storage):
        if draw(st.integers(0, 3)) == 0:
            section["counts"] = draw(COUNTS)
    return {
        "name": "any",
        "cluster": {"servers": draw(st.sampled_from([1, 3, 16, 100, 400])), "server": draw(st.sampled_from(SERVERS))},
        "backend": draw(some(transport=["infiniband"], underlay=["numbered"])),
        "frontend": frontend,
        "storage": storage,
        "management": draw(MANAGEMENT),
        "converge": draw(st.sampled_from(CONVERGE)),
        "sites": draw(st.sampled_from(SITES)),
        "demand": draw(some(requests=[1e3, 1e6], ingest=[1e9, 1e11])),
    }


@settings(max_examples=60, deadline=None)
@given(specs())
def test_a_spec_is_built_soundly_or_refused_with_a_key(catalog: Catalog, spec: dict[str, Any]) -> None:
    try:
        plan = design_plan(ClusterSpec.model_validate(spec), catalog)
    except InputError as error:
        assert error.key
        assert len(error.message) > 20
        return
    assert_sound(plan)


def assert_sound(plan: Plan) -> None:
    """Every name, port, lane and address once; every port on one link; links inside a network's boxes."""
    assert not plan.devices["name"].is_duplicated().any()
    assert not plan.ports.select("device_id", "name").is_duplicated().any()
    on_switches = plan.ports.filter(pl.col("lanes").is_not_null())
    assert not on_switches.select("device_id", "cage", "lane_first").is_duplicated().any()
    ends = pl.concat([plan.links["a_port"], plan.links["b_port"]])
    assert ends.sort().equals(plan.ports["port_id"].sort().alias(ends.name))
    unicast = plan.addresses.filter(~pl.col("kind").is_in(["vip", "gateway"]))["address"].str.split("/").list.first()
    assert not unicast.is_duplicated().any()
    both = plan.named_links().select("speed_gbps", "a_device_id", "b_device_id")
    assert (both["a_device_id"] != both["b_device_id"]).all()


def test_links_between_sites_are_shared_out_over_borders_of_unlike_number(catalog: Catalog) -> None:
    """Two borders on one side and three on the other: no border has more than its share, no port is taken twice."""
    spec = {
        "name": "two",
        "cluster": {"servers": 1, "server": "hgx-h100"},
        "frontend": {"border_leaves": 0, "external_links": 30, "leaf_switch": "sn4600c", "load_balancers": 30},
        "sites": [{"name": "a"}, {"name": "b", "distance": 1000}],
        "converge": ["frontend", "storage"],
        "storage": {"appliance_gbps": 200, "appliance_ports": 1, "appliances": 0},
        "demand": {"requests": 1000.0, "ingest": 1e11},
    }
    plan = design_plan(ClusterSpec.model_validate(spec), catalog)
    assert not plan.ports.select("device_id", "name").is_duplicated().any()
    far = plan.ports.filter((pl.col("direction") == "peer") & (pl.col("network") == "frontend"))
    counts = far.group_by("device_id").len().join(plan.devices.select("device_id", "site"), on="device_id")
    for _, site in counts.group_by("site"):
        assert site["len"].max() - site["len"].min() <= 1


@given(links=st.integers(1, 200), ours=st.integers(1, 9), theirs=st.integers(1, 9))
def test_links_that_take_turns_are_shared_out_evenly_on_both_sides(links: int, ours: int, theirs: int) -> None:
    _, ours_of, theirs_of = take_turns(links, ours, theirs)
    for boxes, count in ((ours_of, ours), (theirs_of, theirs)):
        shared = np.bincount(boxes, minlength=count)
        assert shared.sum() == links
        assert shared.max() - shared.min() <= 1
    pairs = len(set(zip(ours_of.tolist(), theirs_of.tolist(), strict=True)))
    assert pairs == min(links, ours * theirs)
