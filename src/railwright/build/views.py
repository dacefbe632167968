"""From a plan to the views of its switches: what each box must be told, with the port names of its operating system.

Tables are joined once for the whole plan; only the last step makes one object per port, because a configuration is written
port by port.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from railwright.build import border, names
from railwright.build.contract import (
    CARRIES,
    MTU_LIMIT,
    NOT_MAPPED,
    Bgp,
    DeviceView,
    Headroom,
    Marking,
    Neighbor,
    Policy,
    Port,
    Qos,
    Queue,
    Vrf,
    Watchdog,
)
from railwright.build.layer2 import layer2_of
from railwright.build.sonic_tables import POOLS
from railwright.build.withheld import management_pools
from railwright.catalog.model import Switch
from railwright.catalog.port_names import lanes_before, port_names
from railwright.catalog.qos import platforms
from railwright.design.headroom import ASSUMED_CABLE_M, link_headroom
from railwright.design.plan import Plan
from railwright.design.qos import QosContract
from railwright.design.qos_table import SWITCH_ROLES, link_ends, qos_table
from railwright.errors import InputError, nearest

RENDERED = tuple(CARRIES)
"""Operating systems that have a renderer."""

MAXIMUM_PATHS = 128
_FORWARD_ERROR_CORRECTION_FROM_GBPS = 25


@dataclass(frozen=True)
class Target:
    """What the user wants the switches to be: ``nos`` None is each platform's own, ``platform`` re-targets all fabrics."""

    nos: str | None = None
    platform: str | None = None


def retarget(plan: Plan, target: Target) -> tuple[Plan, dict[str, str]]:
    """Return the plan with its Ethernet fabric switches on ``target.platform`` and, by device name, why some stayed.

    Cages, lanes and speeds are kept; a switch moves only when the platform has every cage and breakout that it uses.
    Raises InputError for an unknown platform and when no switch can move.
    """
    if target.platform is None:
        return plan, {}
    platform = plan.catalog.switch(_key(plan, target.platform), where="--platform")
    if platform.protocol != "ethernet":
        raise InputError(f"{platform.key} is an {platform.protocol} switch; --platform re-targets Ethernet fabrics")
    fabric = fabric_switches(plan)
    used = (
        plan.ports.filter(pl.col("network").cast(pl.String) != "management")
        .join(fabric.select("device_id", device="name"), on="device_id")
        .with_columns(split=_split())
        .group_by("device", "speed_gbps", "split")
        .agg(cages=pl.col("cage").max(), ports=pl.len())
        .sort("device", "speed_gbps", "split")
    )
    groups = np.repeat(np.arange(len(platform.cages)), [group.count for group in platform.cages])
    stayed: dict[str, str] = {}
    for device, speed, split, cages, _ in used.iter_rows():
        fits = cages <= len(groups) and platform.cages[groups[cages - 1]].ports_at(speed) >= split
        if not fits:
            stayed.setdefault(device, f"{platform.key} has no cage {cages} with {split} x {speed:g}G")
    if len(stayed) == len(fabric):
        raise InputError(f"no switch fits: {next(iter(stayed.values()), 'the plan has none')}", key="--platform")
    moved = (pl.col("device_id").is_in(fabric["device_id"].implode())) & ~pl.col("name").is_in(list(stayed))
    devices = plan.devices.with_columns(model=pl.when(moved).then(pl.lit(platform.key)).otherwise("model"))
    return plan.with_tables(devices=devices), stayed


def _key(plan: Plan, platform: str) -> str:
    """Return the catalog's key for a platform written as its vendor does (``7060X6-64PE``)."""
    return platform.lower() if platform.lower() in plan.catalog.switches else platform


def fabric_switches(plan: Plan) -> pl.DataFrame:
    """Return the Ethernet switches of backend, frontend and storage (rows of ``devices``)."""
    ethernet = [key for key in plan.devices["model"].drop_nulls().unique().sort() if _is_ethernet(plan, key)]
    return plan.devices.filter(
        pl.col("role").is_in(SWITCH_ROLES)
        & pl.col("model").is_in(ethernet)
        & (pl.col("network").cast(pl.String) != "management")
    )


def system_of(platform: Switch, target: Target) -> str:
    """Return the operating system to render for ``platform``; raises InputError when it does not run it or has no renderer."""
    offered = [nos for nos in platform.nos if nos in RENDERED]
    if target.nos is None:
        if not offered:
            raise InputError(
                f"{platform.key} runs {', '.join(platform.nos) or 'nothing known'}, which has no renderer "
                f"(there are: {', '.join(RENDERED)}); --platform KEY re-targets the plan",
                key="--nos",
            )
        return offered[0]
    if target.nos not in RENDERED:
        raise InputError(
            f"no renderer for {target.nos!r}{nearest(target.nos, RENDERED)}; there are: {', '.join(RENDERED)}",
            key="--nos",
        )
    if target.nos not in offered:
        raise InputError(
            f"{platform.key} does not run {target.nos} (it runs: {', '.join(platform.nos)}); "
            "--platform KEY re-targets the plan to one that does",
            key="--nos",
        )
    return target.nos


def device_views(
    plan: Plan, contracts: Mapping[str, QosContract], target: Target, only: Collection[str] | None = None
) -> list[DeviceView]:
    """Return the view of every Ethernet fabric switch (or of those named in ``only``), in order of ``devices``.

    ``plan`` is already re-targeted (see :func:`retarget`). Raises InputError for an operating system that a platform does
    not run and for names that cannot stand in a configuration.
    """
    switches = fabric_switches(plan)
    if only is not None:
        switches = switches.filter(pl.col("name").is_in(list(only)))
    if switches.is_empty():
        return []
    names.check_all(plan.devices["name"], names.DEVICE, "the name of a device")
    systems = {key: system_of(plan.catalog.switch(key), target) for key in switches["model"].unique().sort()}
    ports = _ports(plan, switches, systems, contracts)
    of_device = ports.partition_by("device_id", as_dict=True)
    loopbacks = _addresses(plan, pl.col("kind") == "loopback", "device_id")
    layer2 = layer2_of(plan)
    policies = border.edge_policies(plan)
    views = []
    for row in switches.iter_rows(named=True):
        contract = contracts[row["network"]]
        rows = of_device.get((row["device_id"],), ports.clear())
        own = loopbacks.get(row["device_id"], ())
        bgp = _bgp(
            row,
            rows,
            own,
            bfd=_bfd(plan, row["network"]),
            evpn=row["network"] in layer2.evpn,
            policies=policies,
            withheld=management_pools(plan),
        )
        views.append(
            DeviceView(
                name=row["name"],
                nos=systems[row["model"]],
                model=row["model"],
                role=row["role"],
                loopbacks=own,
                qos=_qos(contract, row["network"]),
                ports=tuple(_port(port, contract, systems[row["model"]]) for port in rows.iter_rows(named=True)),
                bgp=bgp and _with_services(plan, bgp, rows, layer2.vrfs.get(row["device_id"], ())),
                vlans=layer2.vlans.get(row["device_id"], ()),
                vrfs=layer2.vrfs.get(row["device_id"], ()),
                balancing=path_mode(plan, row["network"]),
                pools=_pools(row["model"]),
            )
        )
    return views


def path_mode(plan: Plan, network: str) -> str:
    """Return how switches of ``network`` share traffic over equal paths: the plan's mode on the backend, hashes elsewhere."""
    chosen = plan.spec.backend.load_balancing or plan.facts.get("backend", {}).get("load_balancing")
    return str(chosen) if network == "backend" and chosen else "ecmp"


def _pools(model: str) -> tuple[tuple[str, int], ...]:
    """Return the buffer pools of a platform, each as large as its lossless pool; none where that is not known."""
    known = platforms().get(model)
    return tuple((name, known.pool_bytes) for name in POOLS) if known is not None and known.pool_bytes else ()


def _is_ethernet(plan: Plan, key: str) -> bool:
    return key in plan.catalog.switches and plan.catalog.switches[key].protocol == "ethernet"


def _bfd(plan: Plan, network: str) -> bool:
    return plan.spec.frontend.bfd if network == "frontend" else plan.spec.backend.bfd


def _split() -> pl.Expr:
    """How many ports share the cage: by the lanes of the port, from what the plan uses of it."""
    return (pl.col("lane_first") // pl.col("lanes") + 1).max().over("device_id", "cage")


def _ports(
    plan: Plan, switches: pl.DataFrame, systems: Mapping[str, str], contracts: Mapping[str, QosContract]
) -> pl.DataFrame:
    """Return one row per port in use of ``switches``, with its name in the operating system, peer, headroom and addresses."""
    own = (
        plan.ports.filter(pl.col("network").cast(pl.String) != "management")
        .join(switches.select("device_id", "model", "role"), on="device_id", maintain_order="left")
        .join(link_ends(plan).select("port_id", "cable_m"), on="port_id", maintain_order="left")
        .rename({"name": "plan_name"})
    )
    own = own.with_columns(split=_full_split(plan, own))
    unnamed = own.clear().with_columns(name=pl.lit(""), lane_from=pl.lit(0, pl.Int64))
    named = pl.concat(
        [_named(plan, part, systems) for part in own.partition_by("model", "lanes", "split")] or [unnamed]
    )
    peers = _peers(plan, named)
    addresses = _addresses(plan, pl.col("port_id").is_not_null(), "port_id")
    held = pl.DataFrame(
        {"port_id": list(addresses), "addresses": [list(value) for value in addresses.values()]},
        schema={"port_id": pl.UInt32, "addresses": pl.List(pl.String)},
    )
    vrfs = plan.addresses.filter(pl.col("port_id").is_not_null()).unique("port_id").select("port_id", "vrf")
    return (
        link_headroom(named)
        .join(peers, on="port_id", how="left", maintain_order="left")
        .join(held, on="port_id", how="left", maintain_order="left")
        .join(vrfs, on="port_id", how="left", maintain_order="left")
        .join(layer2_of(plan).ports, on="port_id", how="left", maintain_order="left")
        .join(_marking(plan, contracts), on="port_id", how="left", maintain_order="left")
        .sort("device_id", "cage", "lane_first")
    )


def _marking(plan: Plan, contracts: Mapping[str, QosContract]) -> pl.DataFrame:
    """Return ``port_id, marking``: the ECN thresholds of every port that marks, as fields of `Marking` in order of the queue."""
    percent = (pl.col("pmax") * 100).round().cast(pl.Int64).clip(1)
    rows = qos_table(plan, contracts).filter(pl.col("kmin_bytes").is_not_null()).sort("port_id", "queue")
    fields = pl.struct("queue", "kmin_bytes", "kmax_bytes", probability_percent=percent)
    return rows.group_by("port_id", maintain_order=True).agg(marking=fields)


def _full_split(plan: Plan, own: pl.DataFrame) -> pl.Series:
    """Return the breakout of each port's cage: how many ports of this rate the platform gives on it."""
    keys = own.group_by("model", "cage", "speed_gbps", "lanes", maintain_order=True).agg(pl.col("device_id").first())
    split = []
    for model, cage, speed, lanes, device in keys.iter_rows():
        platform = plan.catalog.switch(model)
        last_of = np.cumsum([group.count for group in platform.cages])
        if cage > last_of[-1]:
            name = plan.devices.filter(pl.col("device_id") == device)["name"][0]
            raise InputError(
                f"{name} needs cage {cage}, but {model} has {last_of[-1]}: the plan's counts leave too few switches "
                "(railwright check says which)"
            )
        group = platform.cages[int(np.searchsorted(last_of, cage))]
        split.append(max(group.lanes // lanes if lanes else 1, 1) if group.ports_at(speed) else 1)
    found = keys.drop("device_id").with_columns(split=pl.Series(split, dtype=pl.Int64))
    return own.join(found, on=["model", "cage", "speed_gbps", "lanes"], nulls_equal=True, maintain_order="left")[
        "split"
    ]


def _named(plan: Plan, part: pl.DataFrame, systems: Mapping[str, str]) -> pl.DataFrame:
    platform = plan.catalog.switch(part["model"][0])
    lanes, split = int(part["lanes"][0]), int(part["split"][0])
    cage = part["cage"].to_numpy().astype(np.int64)
    first = part["lane_first"].to_numpy().astype(np.int64)
    own_names = port_names(platform, cage, first, lanes, split, systems[platform.key])
    return part.with_columns(name=own_names, lane_from=pl.Series(lanes_before(platform, cage) + first))


def _peers(plan: Plan, named: pl.DataFrame) -> pl.DataFrame:
    """Return ``port_id, peer, peer_role, peer_asn, peer_address`` for every port.

    A switch port has its name in the operating system rendered; ``peer_address`` is that of a numbered link.
    """
    numbered = plan.addresses.filter(pl.col("kind") == "p2p").select("port_id", peer_address="address")
    shown = (
        plan.ports.join(named.select("port_id", own_name="name"), on="port_id", how="left", maintain_order="left")
        .join(plan.devices.select("device_id", "role", "asn", device="name"), on="device_id", maintain_order="left")
        .join(numbered.unique("port_id"), on="port_id", how="left", maintain_order="left")
        .select(
            "port_id",
            "peer_address",
            peer_role="role",
            peer_asn="asn",
            peer=pl.concat_str("device", pl.lit(":"), pl.coalesce("own_name", "name")),
        )
    )
    return pl.concat(
        plan.links.select(port_id=here, other=there).join(shown, left_on="other", right_on="port_id").drop("other")
        for here, there in (("a_port", "b_port"), ("b_port", "a_port"))
    )


def _addresses(plan: Plan, which: pl.Expr, key: str) -> dict[int, tuple[str, ...]]:
    found: dict[int, list[str]] = defaultdict(list)
    for owner, address in plan.addresses.filter(which).select(key, "address").iter_rows():
        found[owner].append(address)
    return {owner: tuple(sorted(values)) for owner, values in found.items()}


def _qos(contract: QosContract, network: str) -> Qos:
    queues = [NOT_MAPPED] * 8
    for c in contract.classes:
        queues[c.priority] = c.queue
    watched = contract.watchdog
    return Qos(
        dscp_to_priority=tuple(contract.dscp_to_priority().values()),
        priority_to_queue=tuple(queues),
        queues=tuple(Queue(c.queue, c.scheduler, c.weight) for c in sorted(contract.classes, key=lambda c: c.queue)),
        watchdog=Watchdog(**watched.model_dump()) if watched and contract.pfc_priorities(network) else None,
    )


def _port(row: Mapping[str, object], contract: QosContract, nos: str) -> Port:
    network, speed = str(row["network"]), float(str(row["speed_gbps"]))
    lanes = int(str(row["lanes"] or 1))
    pfc = contract.pfc_priorities(network)
    first = int(str(row["lane_from"]))
    known = row["size_bytes"] is not None
    addresses, marking = row["addresses"], row["marking"]
    return Port(
        name=str(row["name"]),
        peer=str(row["peer"] or ""),
        speed_gbps=speed,
        split=int(str(row["split"])),
        lanes=tuple(range(first, first + lanes)),
        mtu=min(contract.switch_mtu_bytes, MTU_LIMIT[nos]),
        fec="rs" if speed / lanes >= _FORWARD_ERROR_CORRECTION_FROM_GBPS else "none",
        cable_m=int(ASSUMED_CABLE_M) if row["cable_m"] is None else max(1, int(float(str(row["cable_m"])))),
        trust_dscp=True,
        pfc=pfc,
        watchdog=bool(pfc) and contract.watchdog is not None,
        marking=tuple(Marking(**fields) for fields in marking) if isinstance(marking, list) else (),
        headroom=tuple(
            Headroom(p, *(int(str(row[c])) for c in ("xoff_bytes", "xon_bytes", "size_bytes"))) for p in pfc if known
        ),
        addresses=tuple(addresses) if isinstance(addresses, list) else (),
        vrf=str(row["vrf"] or "default"),
        vlan=None if row["vlan"] is None else int(str(row["vlan"])),
        bond=None if row["bond"] is None else int(str(row["bond"])),
    )


def _bgp(
    row: Mapping[str, object],
    ports: pl.DataFrame,
    loopbacks: tuple[str, ...],
    *,
    bfd: bool,
    evpn: bool,
    policies: Mapping[str, Policy],
    withheld: tuple[str, ...],
) -> Bgp | None:
    """Return the routing of a switch; sessions to boxes outside the fabric have their policy, those to providers no BFD.

    The AS of a provider is not in a plan: any other is taken.
    """
    if row["asn"] is None or not loopbacks:
        return None
    speaks = ports.filter(
        pl.col("peer_asn").is_not_null() | (pl.col("peer_role").cast(pl.String) == "external")
    ).select("name", "vrf", pl.col("peer_role").cast(pl.String), "peer_asn", "peer_address")
    neighbors = []
    for name, vrf, role, asn, address in speaks.iter_rows():
        policy = policies[role].name if role in policies else ""
        if address is not None:
            peer, checked = address.partition("/")[0], bfd and role != "external"
            neighbors.append(Neighbor(peer, False, asn, checked, vrf or "default", policy, border.limit_of(role)))
        elif role in SWITCH_ROLES:
            neighbors.append(Neighbor(name, True, None, bfd, vrf or "default"))
    router_id = next((a for a in loopbacks if ":" not in a), loopbacks[0]).partition("/")[0]
    used = {neighbor.policy for neighbor in neighbors}
    held = tuple(policy for policy in policies.values() if policy.name in used)
    return Bgp(int(str(row["asn"])), router_id, MAXIMUM_PATHS, tuple(neighbors), evpn, held, withheld=withheld)


def _with_services(plan: Plan, bgp: Bgp, ports: pl.DataFrame, vrfs: tuple[Vrf, ...]) -> Bgp:
    """Return the routing with what the edge adds: blocks of service addresses toward the outside, leaks toward balancers."""
    roles = set(ports["peer_role"].cast(pl.String).drop_nulls())
    blocks = border.service_blocks(plan) if any(n.policy == border.OUTSIDE for n in bgp.neighbors) else ()
    return replace(bgp, aggregates=blocks, leaks=border.service_leaks(plan, roles, vrfs))
