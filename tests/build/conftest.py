"""A small plan written by hand for tests of the QoS contract and the build: 2 servers, 2 leaves, 1 spine, all SN5600."""

import os
import shutil
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from railwright import tables
from railwright.catalog.load import load_catalog
from railwright.design.cabling import cable_plan
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.design.wiring import Ends, Wiring
from railwright.spec.cluster import ClusterSpec


def small_plan(model: str = "sn5600", **backend: object) -> Plan:
    """Return a leaf-spine plan of 2 servers x 2 NICs at 400G with 5 m host and 40 m fabric cables."""
    spec = ClusterSpec.model_validate(
        {"name": "small", "cluster": {"servers": 2, "server": "hgx-h100"}, "backend": backend, "seed": 1}
    )
    catalog = load_catalog()
    switch = catalog.switch(model)
    wiring = Wiring()
    servers = wiring.add_devices(["gpu-001", "gpu-002"], role="server", network=None, site="site1", model="hgx-h100")
    leaves = wiring.add_devices(
        ["rail1-leaf1", "rail2-leaf1"], role="leaf", network="backend", site="site1", model=model, rail=np.array([1, 2])
    )
    spines = wiring.add_devices(["spine1"], role="spine", network="backend", site="site1", model=model)
    slots = np.array([0, 1, 0, 1])
    wiring.connect(
        Ends(np.repeat(servers, 2), slots, "host", name="mlx5_{}", name_from=0, gpu=slots, nic=slots),
        Ends(np.tile(leaves, 2), np.array([0, 0, 1, 1]), "down", switch),
        network="backend",
        tier="host",
        speed_gbps=400,
        rail=slots + 1,
    )
    wiring.connect(
        Ends(np.repeat(leaves, 2), np.array([0, 1, 0, 1]), "up", switch, first_cage=33),
        Ends(np.repeat(spines, 4), np.arange(4), "down", switch),
        network="backend",
        tier="leaf_spine",
        speed_gbps=400,
    )
    made = wiring.finish()
    count = len(made["links"])
    links = made["links"].with_columns(cable_id=pl.Series(np.arange(count), dtype=pl.UInt32))
    cables = tables.conform("cables", pl.DataFrame({"cable_id": np.arange(count), "length_m": [5.0] * 4 + [40.0] * 4}))
    devices = made["devices"].with_columns(
        asn=pl.when(pl.col("role") != "server").then(4_200_000_000 + pl.col("device_id")).cast(pl.UInt32),
        loopback=pl.when(pl.col("role") != "server").then(pl.format("10.0.0.{}", pl.col("device_id"))),
    )
    addresses = tables.conform(
        "addresses",
        devices.filter(pl.col("loopback").is_not_null()).select(
            "device_id",
            network=pl.lit("backend"),
            kind=pl.lit("loopback"),
            vrf=pl.lit("default"),
            address=pl.format("{}/32", "loopback"),
        ),
    )
    return Plan(
        spec=spec,
        catalog=catalog,
        tables={
            **made,
            "devices": devices,
            "links": links,
            "cables": cables,
            "racks": tables.empty("racks"),
            "addresses": addresses,
        },
        facts={"backend": {"tiers": 2, "topology": "leaf-spine"}},
    )


@pytest.fixture(scope="session")
def make_plan() -> Callable[..., Plan]:
    """The maker of small plans, for tests that vary platform or congestion control."""
    return small_plan


@pytest.fixture(scope="session")
def plan() -> Plan:
    """The small plan as it is."""
    return small_plan()


@pytest.fixture(scope="session")
def papers_plan() -> Plan:
    """A cabled cluster with everything that papers have to show: 12 servers, four networks, breakouts, PDUs, prices."""
    return papers_of(transport="rocev2")


@pytest.fixture(scope="session")
def infiniband_plan() -> Plan:
    """The same with InfiniBand backend and twin-port modules in the servers."""
    return papers_of(transport="infiniband", switch="qm9700")


def papers_of(**backend: object) -> Plan:
    """Return a cabled plan of 12 DGX H100 with all four networks, patch panels and one price of the user's own."""
    spec = ClusterSpec.model_validate(
        {
            "name": "papers",
            "cluster": {"servers": 12, "server": "dgx-h100"},
            "backend": backend,
            "management": {"pdus_per_rack": 3},
            "economics": {"prices": {"dgx-h100": {"usd": 300000, "date": "2025-03", "source": "offer"}}},
        }
    )
    return cable_plan(design_plan(spec, load_catalog()))


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """Return the path of a program, or fail with how to install it: tests that need a daemon are never skipped."""

    def find(name: str) -> str:
        found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin:/usr/lib/frr")
        if found is None:
            pytest.fail(f"{name} is not installed: run tools/install-test-daemons.sh as root", pytrace=False)
        return found

    return find
