"""Subnet managers of an InfiniBand backend: appliances with two ports, each on another leaf.

They take leaf ports that no server uses, as in the published designs: the four-unit DGX H100 SuperPOD leaves one server out
so that its managers find a port (NVIDIA RA-11333-001, 127 systems; the bill of materials has two splitter cables for four
manager ports). One switch port of the servers' rate splits in two for them where the platform can.
"""

import numpy as np

from railwright.design.context import numbered
from railwright.design.peer_links import connect_managers
from railwright.design.sizing import ceil_div
from railwright.design.topology.wire import Fabric
from railwright.design.wiring import Ends
from railwright.errors import InputError

DEFAULT_MANAGERS = 2
PORTS = 2


def add_subnet_managers(fabric: Fabric) -> None:
    """Add the managers of each fabric; without a count in the spec, two where two leaf ports are free, else none."""
    context, attachment = fabric.context, fabric.attachment
    backend, decisions = context.spec.backend, context.decisions["backend"]
    if backend.transport != "infiniband":
        return
    wanted = backend.subnet_managers
    managers = DEFAULT_MANAGERS if wanted is None else wanted
    gbps, per_port = _rate(fabric)
    free = _free_slots(fabric)
    on_one_leaf = 1 if fabric.shape.leaves_per_unit > 1 else PORTS
    needed = ceil_div(managers * on_one_leaf, per_port)
    if needed > free:
        if wanted is not None:
            raise InputError(
                f"{wanted} subnet managers need {needed} free ports on two leaves and the servers leave {free}; plan "
                f"{context.servers - 1} servers (as the published 127-system design does) or turn full_units on",
                key="backend.subnet_managers",
            )
        decisions.choose(
            "subnet_managers",
            0,
            "the servers fill every leaf: run the subnet manager on a server or on a managed switch, or plan one server fewer",
        )
        return
    decisions.choose(
        "subnet_managers", managers * attachment.fabrics, "asked for" if wanted else "one active, one standby"
    )
    _add(fabric, managers, gbps, per_port)


def _add(fabric: Fabric, managers: int, gbps: float, per_port: int) -> None:
    context, attachment, shape = fabric.context, fabric.attachment, fabric.shape
    plane, rail_fabric, manager, port = (
        axis.ravel() for axis in np.indices((attachment.planes, attachment.rail_fabrics, managers, PORTS))
    )
    appliances = context.wiring.add_devices(
        numbered("subnet-manager{}", attachment.fabrics * managers),
        role="appliance",
        network="backend",
        site=context.spec.sites[int(context.server_site[0])].name,
        model="subnet-manager",
    ).reshape(attachment.planes, attachment.rail_fabrics, managers)
    for own in appliances.reshape(attachment.fabrics, managers):
        connect_managers(context, own)
    leaves = fabric.leaves[:, :, -1, :]
    if leaves.shape[2] > 1:
        leaf, ordinal = leaves[plane, rail_fabric, port], manager
    else:
        leaf, ordinal = leaves[plane, rail_fabric, 0], manager * PORTS + port
    slot = (shape.leaf_down - 1 - ordinal // per_port) * per_port + ordinal % per_port
    context.wiring.connect(
        Ends(device=appliances[plane, rail_fabric, manager], slot=port, direction="host", name="mlx5_{}"),
        Ends(device=leaf, slot=slot, direction="down", platform=fabric.platforms.leaf),
        network="backend",
        tier="host",
        speed_gbps=gbps,
    )


def _rate(fabric: Fabric) -> tuple[float, int]:
    """Return the rate of a manager's port and how many of them share one server port of a leaf."""
    leaf, gbps = fabric.platforms.leaf, fabric.attachment.gbps
    if leaf.ports_at(gbps / 2) == 2 * leaf.ports_at(gbps):
        return gbps / 2, 2
    return gbps, 1


def _free_slots(fabric: Fabric) -> int:
    """Return how many server ports the leaves of the last unit have left."""
    shape, attachment = fabric.shape, fabric.attachment
    if shape.scattered:
        return 0
    used = (fabric.context.servers - (shape.units - 1) * shape.servers_per_unit) * attachment.leaf_ports_per_server
    return max(0, shape.leaf_down - used)
