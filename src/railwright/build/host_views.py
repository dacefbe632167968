"""From a plan to the views of its servers: port names, QoS of each adapter, addresses, and NCCL's environment.

Ports get the names ``rail3`` (``rail3p2`` on the second plane), ``front0`` and ``store0``; the RDMA devices are numbered in
the order of the adapters, as the driver does by PCI address.
"""

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from railwright.build import names
from railwright.build.hosts import HostPort, HostView
from railwright.build.layer2 import layer2_of
from railwright.design.plan import Plan
from railwright.design.qos import QosContract, TrafficClass

HOST_ROLES = ("server", "head")
ROCE_V2_GID = 3
"""The GID index of RoCEv2 over IPv4 on an adapter with one IPv4 address, as mlx5 numbers them; `show` checks the type."""

_SHORT = {"backend": "back", "frontend": "front", "storage": "store"}


def host_views(plan: Plan, contracts: Mapping[str, QosContract], peers: Mapping[int, str]) -> list[HostView]:
    """Return the view of every server, in order of ``devices``; ``peers`` maps a port id to ``switch:port`` as rendered."""
    hosts = plan.devices.filter(pl.col("role").cast(pl.String).is_in(HOST_ROLES))
    names.check_all(plan.devices["name"], names.DEVICE, "the name of a device")
    ports = _ports(plan, hosts)
    of_device = ports.partition_by("device_id", as_dict=True)
    views = []
    for device_id, name in hosts.select("device_id", "name").iter_rows():
        rows = of_device.get((device_id,), ports.clear())
        own = tuple(_port(row, contracts[row["network"]], peers) for row in rows.iter_rows(named=True))
        views.append(HostView(name, own, _nccl(plan, own, contracts["backend"])))
    return views


def _ports(plan: Plan, hosts: pl.DataFrame) -> pl.DataFrame:
    """Return the servers' ports outside the management network with ``label``, ``rdma``, addresses and gateway."""
    links = pl.concat(
        plan.links.select("rail", "plane", port_id=here, other=there)
        for here, there in (("a_port", "b_port"), ("b_port", "a_port"))
    )
    held = plan.addresses.filter(pl.col("port_id").is_not_null()).group_by("port_id", maintain_order=True)
    addresses = held.agg(pl.col("address").sort())
    gateways = held.agg(gateway=pl.col("address").first().str.split("/").list.first()).rename({"port_id": "other"})
    ports = (
        plan.ports.filter(pl.col("network").cast(pl.String).is_in(list(_SHORT)))
        .join(hosts.select("device_id"), on="device_id", maintain_order="left")
        .join(links, on="port_id", maintain_order="left")
        .join(addresses, on="port_id", how="left", maintain_order="left")
        .join(gateways, on="other", how="left", maintain_order="left")
        .sort("device_id", "nic", "port_id", nulls_last=True)
    )
    within = ["device_id", "network"]
    ordinal = pl.int_range(pl.len()).over(within)
    of_rail = pl.len().over([*within, "rail", "plane"])
    railed = (pl.col("network") == "backend") & pl.col("rail").is_not_null() & (of_rail == 1)
    plane = pl.when(pl.col("plane").is_null()).then(pl.lit("")).otherwise(pl.format("p{}", "plane"))
    short = pl.col("network").cast(pl.String).replace_strict(_SHORT)
    layer2 = layer2_of(plan)
    anycast = pl.DataFrame(
        [(d, v.vid, v.gateways[0].partition("/")[0]) for d, own in layer2.vlans.items() for v in own if v.gateways],
        schema={"far_device": pl.UInt32, "vlan": pl.Int64, "vlan_gateway": pl.String},
        orient="row",
    )
    far = layer2.ports.join(plan.ports.select("port_id", far_device="device_id"), on="port_id").select(
        "vlan", "far_device", other="port_id"
    )
    shared = far.join(anycast, on=["far_device", "vlan"]).select("other", "vlan_gateway").unique("other")
    ports = (
        ports.join(shared, on="other", how="left", maintain_order="left")
        .join(layer2.bonds, on="port_id", how="left", maintain_order="left")
        .with_columns(gateway=pl.coalesce("gateway", "vlan_gateway"))
    )
    bond = pl.col("bond").rank("dense").over("device_id")
    return ports.with_columns(
        bond_name=pl.when(pl.col("bond").is_not_null()).then(pl.format("bond{}", bond - 1)).otherwise(pl.lit("")),
        label=pl.when(railed)
        .then(pl.concat_str(pl.format("rail{}", "rail"), plane))
        .otherwise(pl.concat_str(short, ordinal)),
        rdma=pl.when(pl.col("name").str.starts_with("mlx5_"))
        .then("name")
        .otherwise(pl.format("mlx5_{}", pl.int_range(pl.len()).over("device_id"))),
    )


def _port(row: Mapping[str, object], contract: QosContract, peers: Mapping[int, str]) -> HostPort:
    network = str(row["network"])
    infiniband = contract.transport == "infiniband"
    roce = _roce_class(contract, network)
    addresses = row["address"]
    gpu, rail, plane = (None if row[key] is None else int(str(row[key])) for key in ("gpu", "rail", "plane"))
    port = HostPort(
        name=str(row["label"]),
        rdma=str(row["rdma"]),
        network="infiniband" if infiniband else network,
        peer=peers.get(int(str(row["port_id"])), ""),
        gpu=gpu,
        rail=rail,
        plane=plane,
        speed_gbps=float(str(row["speed_gbps"])),
        addresses=tuple(addresses) if isinstance(addresses, list) else (),
        gateway=str(row["gateway"] or ""),
        bond=str(row["bond_name"]),
    )
    if infiniband:
        return port
    cnp = next(iter(contract.of_purpose("cnp")), None)
    return _with_qos(port, contract, network, roce, cnp)


def _with_qos(
    port: HostPort, contract: QosContract, network: str, roce: TrafficClass | None, cnp: TrafficClass | None
) -> HostPort:
    controlled = contract.dcqcn and roce is not None and roce.ecn is not None
    named = sorted((d, c.priority) for c in contract.classes for d in c.dscp)
    return replace(
        port,
        mtu=contract.host_mtu_bytes,
        trust="dscp",
        pfc=contract.pfc_priorities(network),
        dscp=tuple(named),
        traffic_class=roce.traffic_class_byte if roce else None,
        cnp_dscp=cnp.dscp[0] if roce and cnp and cnp.dscp else None,
        dcqcn=((roce.priority,) if controlled and roce else ()) if roce else None,
        pause="off",
        gid=ROCE_V2_GID if roce else None,
    )


def _roce_class(contract: QosContract, network: str) -> TrafficClass | None:
    """Return the class that RoCE on ``network`` belongs to; None on a network without RoCE."""
    remote = (c for c in contract.classes if c.purpose in ("roce", "storage") and (c.lossless or c.ecn))
    return next((c for c in remote if network in c.networks), None)


def _nccl(plan: Plan, ports: tuple[HostPort, ...], contract: QosContract) -> tuple[tuple[str, str], ...]:
    """Return the environment of NCCL (and RCCL, which reads the same names); empty for a box without a backend."""
    fabric = [p for p in ports if p.network == "backend" or (p.network == "infiniband" and p.gpu is not None)]
    if not fabric:
        return ()
    backend = plan.spec.backend
    topology = plan.facts.get("backend", {}).get("topology", backend.topology)
    found = {
        "NCCL_IB_HCA": "=" + ",".join(p.rdma for p in fabric),
        "NCCL_CROSS_NIC": "0" if topology in ("rail-only", "rail-optimized") else "2",
    }
    front = next((p.bond or p.name for p in ports if p.network == "frontend"), None)
    if front:
        found["NCCL_SOCKET_IFNAME"] = f"={front}"
    if contract.transport == "infiniband":
        found["NCCL_IB_SL"] = str(contract.classes[0].priority)
    else:
        byte = fabric[0].traffic_class
        if byte is not None:
            found |= {"NCCL_IB_TC": str(byte), "NCCL_IB_GID_INDEX": str(fabric[0].gid)}
        balancing = backend.load_balancing or plan.facts.get("backend", {}).get("load_balancing")
        if balancing == "ecmp-qp":
            found |= {"NCCL_IB_QPS_PER_CONNECTION": "4", "NCCL_IB_SPLIT_DATA_ON_QPS": "1"}
        if balancing in ("spray", "adaptive"):
            found["NCCL_IB_ADAPTIVE_ROUTING"] = "1"
    if any(p.rail is not None for p in fabric):
        found["NCCL_TOPO_FILE"] = "/etc/railwright/nccl-topo.xml"
    return tuple(sorted(found.items()))
