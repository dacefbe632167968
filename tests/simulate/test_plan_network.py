"""From plans to networks: every link once, endpoints in order, rates and delays of the right kind."""

from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from railwright.catalog.load import load_catalog
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.errors import InputError
from railwright.simulate.network import HOST, SCALE_UP, SWITCH, Network
from railwright.simulate.plan_network import NS_PER_M, network_from_plan, placement_of, scale_up_gbps
from railwright.simulate.routing import route
from railwright.spec.cluster import ClusterSpec
from railwright.spec.load import load_spec

EXAMPLES = Path(__file__).parents[2] / "examples"


@cache
def plan_of(name: str) -> Plan:
    return design_plan(load_spec(EXAMPLES / f"{name}.yaml"), load_catalog())


def ports_of(network: Network, kind: int) -> np.ndarray:
    """Return for each endpoint how many links lead to nodes of ``kind``."""
    ends = (network.node_kind[network.link_src] == HOST) & (network.node_kind[network.link_dst] == kind)
    return np.bincount(network.link_src[ends], minlength=network.hosts)


@pytest.mark.parametrize(("name", "ports"), [("rail-only-128", 1), ("multi-plane-2048", 2), ("h100-superpod-4su", 1)])
def test_every_gpu_has_its_adapter_ports_and_one_nvlink_port(name: str, ports: int) -> None:
    network = network_from_plan(plan_of(name))
    assert network.hosts == placement_of(plan_of(name)).ranks
    assert set(ports_of(network, SWITCH).tolist()) == {ports}
    assert set(ports_of(network, SCALE_UP).tolist()) == {1}
    # Subnet managers hang on leaves too; they are neither endpoints nor switches.
    fabric = pl.all_horizontal(pl.col("a_role", "b_role").is_in(["server", "leaf", "spine", "core"]))
    backend = plan_of(name).named_links().filter((pl.col("network") == "backend") & fabric)
    assert np.isin(backend["link_id"].to_numpy(), network.link_id).all()
    assert np.unique(network.link_id).size == network.link_id.size == backend.height + network.hosts


def test_nvlink_of_an_h100_carries_what_nccl_counts_on() -> None:
    gpu = load_catalog().gpu("h100")
    assert scale_up_gbps(gpu) / 8 == pytest.approx(18 * 20.6)


def test_gpus_that_share_an_adapter_meet_at_it() -> None:
    spec = {"name": "shared", "cluster": {"gpus": 32, "server": "hgx-h100", "nics_per_server": 4}}
    plan = design_plan(ClusterSpec.model_validate(spec), load_catalog())
    network = network_from_plan(plan)
    offsets, links = route(network, np.array([0, 1, 2]), np.array([8, 9, 10]))
    nics = network.link_dst[links[offsets[:-1]]]
    assert nics[0] == nics[1] != nics[2]
    assert network.node_name[int(nics[0])] == "server-0001:nic0"


@pytest.mark.parametrize("name", ["frontend", "storage", "management"])
def test_other_networks_join_boxes_and_keep_every_link(name: str) -> None:
    plan = plan_of("rail-only-128")
    network = network_from_plan(plan, name)
    assert network.link_id.size == plan.links.filter(plan.links["network"] == name).height
    assert network.node_name[: network.hosts].to_list()[:2] == ["server-0001", "server-0002"]
    assert (ports_of(network, SWITCH)[:16] > 0).all()


def test_a_server_reaches_a_storage_appliance_over_the_storage_fabric() -> None:
    network = network_from_plan(plan_of("rail-only-128"), "storage")
    appliance = network.node_name.to_list().index("storage1")
    assert appliance < network.hosts
    offsets, _ = route(network, np.array([0]), np.array([appliance]))
    assert offsets[1] >= 2


def test_lengths_of_cables_become_delays() -> None:
    network = network_from_plan(plan_of("rail-only-128"))
    outer = network.node_kind[network.link_src[::2]] != SCALE_UP
    outer &= network.node_kind[network.link_dst[::2]] != SCALE_UP
    assert set(network.link_delay_ns[::2][outer].tolist()) == {5.0 * NS_PER_M}


def test_a_network_that_the_plan_does_not_have_is_named() -> None:
    spec = {"name": "bare", "cluster": {"gpus": 8, "server": "hgx-h100"}, "storage": {"enabled": False}}
    plan = design_plan(ClusterSpec.model_validate(spec), load_catalog())
    with pytest.raises(InputError, match="no storage links"):
        network_from_plan(plan, "storage")


def test_a_rank_beyond_the_cluster_is_named() -> None:
    with pytest.raises(InputError, match="GPU 128 does not exist; the plan has GPUs 0 to 127"):
        placement_of(plan_of("rail-only-128"), [0, 128])
