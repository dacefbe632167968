"""Which switch ports are in a VLAN or a bond, and which VLANs and VRFs each switch has: from the plan's addresses and links.

A server with several ports in a network and one address there is bonded: its ports go to two switches as one LACP bond, an EVPN
Ethernet segment. A VLAN with bonds is stretched between its switches by a VNI, another one is local to its switch. A VRF's
routes travel between switches under a VNI of the VRF.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from railwright.build.contract import Vlan, Vrf
from railwright.design.plan import Plan
from railwright.design.qos_table import SWITCH_ROLES

VLAN_VNI = 10_000
_VNIS_PER_VLAN = 4096
"""The same VLAN number in another subnet is another broadcast domain: its VNI is this much higher."""
VRF_VNI = 50_001
BONDED_ATTACH = ("lacp", "evpn-multihoming")


@dataclass(frozen=True)
class Layer2:
    """``ports``: ``port_id, vlan, bond`` of switch ports that are not routed. ``vlans`` and ``vrfs`` are by device id, ``evpn``
    names the networks whose sessions carry EVPN. ``bonds``: ``port_id, bond`` of server ports.
    """

    ports: pl.DataFrame
    vlans: Mapping[int, tuple[Vlan, ...]]
    vrfs: Mapping[int, tuple[Vrf, ...]]
    evpn: frozenset[str]
    bonds: pl.DataFrame


def layer2_of(plan: Plan) -> Layer2:
    """Return the bridged part of ``plan``; empty where everything is routed."""
    hosts = _hosts(plan)
    far = pl.concat(
        plan.links.select(port_id=here, other=there) for here, there in (("a_port", "b_port"), ("b_port", "a_port"))
    )
    ends = hosts.join(far, on="port_id", maintain_order="left").select("vlan", "bond", port_id="other")
    switches = plan.devices.filter(pl.col("role").is_in(SWITCH_ROLES)).select("device_id", device_network="network")
    ports = plan.ports.select("port_id", "device_id").join(switches, on="device_id", maintain_order="left")
    bridged = ends.join(ports, on="port_id", maintain_order="left")
    stretched = set(bridged.filter(pl.col("bond").is_not_null())["vlan"])
    held = plan.addresses.join(switches, on="device_id", maintain_order="left").filter(
        pl.col("network").cast(pl.String) != "management"
    )
    vlans = _vlans(held, bridged, stretched)
    names = sorted(set(held["vrf"].drop_nulls()) - {"default", "mgmt"})
    numbers = {name: VRF_VNI + index for index, name in enumerate(names)}
    own = held.filter(pl.col("vrf").is_in(names)).select("device_id", "vrf").unique().sort("device_id", "vrf")
    vrfs = {
        device: tuple(Vrf(name, numbers[name]) for name in found)
        for device, found in own.group_by("device_id", maintain_order=True).agg("vrf").iter_rows()
    }
    tunnelled = [device for device, found in vlans.items() if any(v.vni for v in found)] + list(vrfs)
    networks = switches.filter(pl.col("device_id").is_in(tunnelled))["device_network"].cast(pl.String).unique()
    return Layer2(
        bridged.select("port_id", "vlan", "bond").unique("port_id"),
        vlans,
        vrfs,
        frozenset(networks),
        hosts.filter(pl.col("bond").is_not_null()).select("port_id", "bond"),
    )


def _hosts(plan: Plan) -> pl.DataFrame:
    """Return ``port_id, vlan, bond`` of the ports of boxes whose address is in a VLAN."""
    addressed = plan.addresses.filter((pl.col("kind") == "host") & pl.col("vlan").is_not_null())
    of_box = addressed.group_by("device_id", "network").agg(addresses=pl.len(), vlan=pl.col("vlan").first())
    switch = plan.devices.select("device_id", switch=pl.col("role").is_in(SWITCH_ROLES))
    ports = plan.ports.join(switch, on="device_id").filter(~pl.col("switch")).select("port_id", "device_id", "network")
    boxes = ports.join(of_box, on=["device_id", "network"], maintain_order="left").with_columns(
        ports=pl.len().over("device_id", "network")
    )
    attached = plan.spec.frontend.attach in BONDED_ATTACH
    bonded = (pl.col("addresses") == 1) & (pl.col("ports") > 1) & pl.lit(attached)
    single = addressed.select("port_id", own_vlan="vlan").filter(pl.col("port_id").is_not_null()).unique("port_id")
    return (
        boxes.join(single, on="port_id", how="left", maintain_order="left")
        .select(
            "port_id",
            vlan=pl.when(bonded).then("vlan").otherwise("own_vlan").cast(pl.Int64),
            bond=pl.when(bonded).then(pl.col("device_id").cast(pl.Int64) + 1),
        )
        .filter(pl.col("vlan").is_not_null())
    )


def _vlans(held: pl.DataFrame, bridged: pl.DataFrame, stretched: set[int]) -> dict[int, tuple[Vlan, ...]]:
    gateways = held.filter((pl.col("kind") == "gateway") & pl.col("vlan").is_not_null()).select(
        "device_id", pl.col("vlan").cast(pl.Int64), "vrf", "address"
    )
    used = bridged.select("device_id", "vlan").unique()
    rows = (
        pl.concat([used, gateways.select("device_id", "vlan")])
        .unique()
        .sort("device_id", "vlan")
        .join(
            gateways.group_by("device_id", "vlan").agg(pl.col("address").sort(), pl.col("vrf").first()),
            on=["device_id", "vlan"],
            how="left",
            maintain_order="left",
        )
    )
    subnets: dict[int, list[tuple[str, ...]]] = {}
    for vid, addresses in (
        gateways.group_by("vlan", "device_id")
        .agg(pl.col("address").sort())
        .select("vlan", "address")
        .sort("vlan", "address")
        .iter_rows()
    ):
        if tuple(addresses) not in subnets.setdefault(vid, []):
            subnets[vid].append(tuple(addresses))
    found: dict[int, list[Vlan]] = {}
    for device, vid, addresses, vrf in rows.iter_rows():
        nth = subnets[vid].index(tuple(addresses)) if addresses else 0
        vni = VLAN_VNI + vid + _VNIS_PER_VLAN * nth if vid in stretched else None
        found.setdefault(device, []).append(Vlan(vid, vni, vrf or "default", tuple(addresses or ())))
    return {device: tuple(own) for device, own in found.items()}
