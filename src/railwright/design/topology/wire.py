"""Wires the fabrics of a backend: every leaf, spine and core with all their links, as arrays.

Indices are laid out as ``[plane, rail fabric, unit, leaf of the unit]`` for leaves and ``[plane, rail fabric, spine]`` for
spines and cores. The port (slot) of a link follows from the numbers of its two ends alone, never from the size of the
cluster, so that a box keeps its ports when units or pods are added.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.catalog.model import Switch
from railwright.design.context import Context
from railwright.design.sizing import Shape
from railwright.design.topology.attachment import Attachment
from railwright.design.topology.ports import Platforms, first_uplink_cage
from railwright.design.wiring import Ends, Ids

Index = NDArray[np.int64]

NIC_PORT_NAMES = {"NVIDIA": "mlx5_{}", "Broadcom": "bnxt_re{}", "AMD": "ionic_{}"}
"""How Linux names the RDMA device of one adapter port, by maker; ``rdma{}`` for the others."""


@dataclass(frozen=True)
class Fabric:
    """What was built. ``leaves`` (uint32) has the shape [planes, rail fabrics, units, leaves per unit]."""

    context: Context
    attachment: Attachment
    platforms: Platforms
    shape: Shape
    leaves: Ids


def wire(context: Context, attachment: Attachment, platforms: Platforms, shape: Shape) -> Fabric:
    """Add the switches and links of all fabrics of the backend to ``context.wiring``."""
    grid = (attachment.planes, attachment.rail_fabrics, shape.units, shape.leaves_per_unit)
    plane, rail_fabric, unit, leaf = (axis.ravel() for axis in np.indices(grid))
    whole_rails = attachment.leaf_takes == "rail" and not shape.scattered
    rail = rail_fabric + leaf + 1 if whole_rails else None
    leaves = context.wiring.add_devices(
        _names(attachment, plane, rail, None, "leaf", unit),
        role="leaf",
        network="backend",
        site=_unit_sites(context, shape, unit),
        model=platforms.leaf.key,
        plane=_plane(attachment, plane, rail_fabric),
        rail=rail,
        pod=unit // shape.pod_units + 1 if shape.tiers == 3 else None,
        power_w=_power(platforms.leaf),
    ).reshape(grid)
    fabric = Fabric(context, attachment, platforms, shape, leaves)
    _wire_servers(fabric)
    if shape.spines:
        spines = _add_upper(fabric, "spine", shape.spines, platforms.spine)
        _wire_spines(fabric, spines)
        if shape.cores:
            _wire_cores(fabric, spines, _add_upper(fabric, "core", shape.cores, platforms.core))
    return fabric


def spread(position: Index, uplinks: int, upper: Index | int) -> tuple[Index, Index, Index, Index]:
    """Spread ``uplinks`` ports of each lower switch over ``upper`` switches (an int, or one count per lower switch).

    ``position`` is the ordinal of the lower switch among those below the same upper ones. Returns ``row`` (index into
    ``position``), ``uplink`` (port ordinal below), ``above`` (upper switch) and ``slot`` (its port ordinal), each of length
    ``len(position) * uplinks``. Counts that divide the uplinks give equal bundles of neighbouring ports; others are dealt
    round robin.
    """
    row = np.repeat(np.arange(len(position)), uplinks)
    uplink = np.tile(np.arange(uplinks), len(position))
    count = np.broadcast_to(np.asarray(upper, dtype=np.int64), position.shape)[row]
    parallel = np.maximum(uplinks // count, 1)
    dealt = position[row] * uplinks + uplink
    even = uplinks % count == 0
    above = np.where(even, uplink // parallel, dealt % count)
    slot = np.where(even, position[row] * parallel + uplink % parallel, dealt // count)
    return row, uplink, above, slot


def server_ends(fabric: Fabric, server: Index, nic: Index, port: Index) -> Ends:
    """Return the server side of backend links; ``port`` counts over the ports of one NIC in all planes."""
    context, attachment = fabric.context, fabric.attachment
    ports_per_nic = attachment.planes * attachment.ports
    group = context.server.backend
    vendor = context.catalog.nic(group.nic).vendor
    return Ends(
        device=context.server_ids[server],
        slot=nic * ports_per_nic + port,
        direction="host",
        name=NIC_PORT_NAMES.get(vendor, "rdma{}"),
        ports_per_cage=group.ports_per_cage * max(1, ports_per_nic // group.ports),
        gpu=nic * context.server.gpus // attachment.rails,
        nic=nic,
    )


def _wire_servers(fabric: Fabric) -> None:
    context, attachment, shape = fabric.context, fabric.attachment, fabric.shape
    server, nic, plane, port = (
        axis.ravel() for axis in np.indices((context.servers, attachment.rails, attachment.planes, attachment.ports))
    )
    if shape.scattered:
        dealt = server * attachment.rails + nic
        leaf = fabric.leaves[plane, 0, dealt % shape.units, 0]
        slot = dealt // shape.units * attachment.ports + port
    else:
        unit, place = np.divmod(server, shape.servers_per_unit)
        by_rail = attachment.leaf_takes == "rail"
        leaf = fabric.leaves[
            plane,
            nic if attachment.separate_rails else np.zeros_like(nic),
            unit,
            nic if by_rail and not attachment.separate_rails else np.zeros_like(nic),
        ]
        slot = place * attachment.leaf_ports_per_server + (0 if by_rail else nic * attachment.ports) + port
    context.wiring.connect(
        server_ends(fabric, server, nic, plane * attachment.ports + port),
        Ends(device=leaf, slot=slot, direction="down", platform=fabric.platforms.leaf),
        network="backend",
        tier="host",
        speed_gbps=attachment.gbps,
        plane=_plane(attachment, plane, nic),
        rail=nic + 1,
    )


def _add_upper(fabric: Fabric, role: str, count: int, platform: Switch) -> Ids:
    """Add spines or cores; the result has the shape [planes, rail fabrics, count]."""
    attachment, shape = fabric.attachment, fabric.shape
    grid = (attachment.planes, attachment.rail_fabrics, count)
    plane, rail_fabric, number = (axis.ravel() for axis in np.indices(grid))
    rail = rail_fabric + 1 if attachment.separate_rails else None
    pod = None
    if role == "spine" and shape.tiers == 3:
        first = np.concatenate(([0], np.cumsum(_spines_of_pods(shape))))
        pod = np.searchsorted(first, number, side="right")
        number = number - first[pod - 1]
    return fabric.context.wiring.add_devices(
        _names(attachment, plane, rail, pod, role, number),
        role=role,
        network="backend",
        site=_first_site(fabric.context),
        model=platform.key,
        plane=_plane(attachment, plane, rail_fabric),
        rail=rail,
        pod=pod,
        power_w=_power(platform),
    ).reshape(grid)


def _wire_spines(fabric: Fabric, spines: Ids) -> None:
    attachment, shape, platforms = fabric.attachment, fabric.shape, fabric.platforms
    leaf = np.arange(shape.leaves)
    pod, position = np.divmod(leaf, shape.pod_units * shape.leaves_per_unit)
    of_pods = _spines_of_pods(shape)
    first = np.concatenate(([0], np.cumsum(of_pods)))
    row, uplink, above, slot = spread(position, shape.leaf_up, of_pods[pod])
    plane, rail_fabric, link = _over_fabrics(attachment, len(row))
    below = fabric.leaves.reshape(attachment.planes, attachment.rail_fabrics, shape.leaves)
    leaf_rail = rail_fabric + row[link] % shape.leaves_per_unit + 1
    fabric.context.wiring.connect(
        Ends(
            device=below[plane, rail_fabric, row[link]],
            slot=uplink[link],
            direction="up",
            platform=platforms.leaf,
            first_cage=first_uplink_cage(platforms.leaf, shape.leaf_down, attachment.gbps, platforms.uplink_gbps),
        ),
        Ends(
            device=spines[plane, rail_fabric, (first[pod[row]] + above)[link]],
            slot=slot[link],
            direction="down",
            platform=platforms.spine,
        ),
        network="backend",
        tier="leaf_spine",
        speed_gbps=platforms.uplink_gbps,
        plane=_plane(attachment, plane, rail_fabric),
        rail=leaf_rail if attachment.leaf_takes == "rail" and not shape.scattered else None,
    )


def _wire_cores(fabric: Fabric, spines: Ids, cores: Ids) -> None:
    attachment, shape, platforms = fabric.attachment, fabric.shape, fabric.platforms
    spine = np.arange(shape.spines)
    if shape.spine_total is None and shape.core_total is None:
        pod, group = np.divmod(spine, shape.spines_per_pod)
        row, uplink, above, slot = spread(pod, shape.spine_up, shape.cores_per_group)
        above = group[row] * shape.cores_per_group + above
    else:
        row, uplink, above, slot = spread(spine, shape.spine_up, shape.cores)
    plane, rail_fabric, link = _over_fabrics(attachment, len(row))
    fabric.context.wiring.connect(
        Ends(
            device=spines[plane, rail_fabric, row[link]],
            slot=uplink[link],
            direction="up",
            platform=platforms.spine,
            first_cage=first_uplink_cage(
                platforms.spine, shape.spine_down, platforms.uplink_gbps, platforms.uplink_gbps
            ),
        ),
        Ends(
            device=cores[plane, rail_fabric, above[link]],
            slot=slot[link],
            direction="down",
            platform=platforms.core,
        ),
        network="backend",
        tier="spine_core",
        speed_gbps=platforms.uplink_gbps,
        plane=_plane(attachment, plane, rail_fabric),
        rail=rail_fabric + 1 if attachment.separate_rails else None,
    )


def _over_fabrics(attachment: Attachment, links: int) -> tuple[Index, Index, Index]:
    """Return plane, rail fabric and link of every link of every fabric, one fabric after the other."""
    plane, rail_fabric, link = (
        axis.ravel() for axis in np.indices((attachment.planes, attachment.rail_fabrics, links))
    )
    return plane, rail_fabric, link


def _spines_of_pods(shape: Shape) -> Index:
    if shape.spine_total is None:
        return np.full(shape.pods, shape.spines_per_pod, dtype=np.int64)
    base, rest = divmod(shape.spine_total, shape.pods)
    return base + (np.arange(shape.pods) < rest)


def _plane(attachment: Attachment, plane: Index, rail: Index) -> Index | None:
    if attachment.rail_planes:
        return rail + 1
    return plane + 1 if attachment.planes > 1 else None


def _names(
    attachment: Attachment, plane: Index, rail: Index | None, pod: Index | None, kind: str, number: Index
) -> pl.Series:
    """Return ``plane2-rail3-leaf1``, ``pod2-spine3`` …: only the parts that tell boxes apart."""
    parts: list[tuple[str, Index]] = []
    if attachment.planes > 1:
        parts.append(("plane", plane + 1))
    if rail is not None:
        parts.append(("plane" if attachment.rail_planes else "rail", rail))
    if pod is not None:
        parts.append(("pod", pod))
    parts.append((kind, number + 1))
    pattern = "-".join(f"{word}{{}}" for word, _ in parts)
    return pl.select(pl.format(pattern, *(pl.Series(word, values) for word, values in parts))).to_series().alias("name")


def _unit_sites(context: Context, shape: Shape, unit: Index) -> pl.Series:
    first_server = np.minimum(unit * (0 if shape.scattered else shape.servers_per_unit), context.servers - 1)
    return context.site_names(context.server_site[first_server])


def _first_site(context: Context) -> str:
    return context.spec.sites[int(context.server_site[0])].name


def _power(platform: Switch) -> float | None:
    return platform.power_max_w or platform.power_typical_w
