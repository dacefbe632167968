"""Wires servers and boxes to the leaves that they were given: all links of one kind at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from railwright.catalog.model import Switch
from railwright.design.cages import SIDES, Seats
from railwright.design.context import Context, numbered
from railwright.design.leaf_groups import Homes
from railwright.design.server_ports import ServerPorts
from railwright.design.sizing import ceil_div
from railwright.design.wiring import Ends, Ids
from railwright.spec.cluster import NetworkName

Index = NDArray[np.int64]


@dataclass(frozen=True)
class Boxes:
    """Boxes of one kind at a site: each has ``all_ports`` ports of ``gbps``, dealt to both leaves of its pair.

    ``word`` is the stem of their names, ``network`` the one that their links serve.
    """

    word: str
    role: str
    model: str
    count: int
    all_ports: int
    gbps: float
    network: NetworkName = "frontend"
    port_name: str = "eth{}"

    @property
    def ports(self) -> int:
        """Ports on the first leaf of the pair; the second has as many or one fewer."""
        return ceil_div(self.all_ports, SIDES)


@dataclass(frozen=True)
class Bench:
    """Leaves on which boxes were seated: ``leaves`` are device ids, ``width`` of them make a unit."""

    leaves: Ids
    platform: Switch
    width: int = 2


def add_boxes(context: Context, boxes: Boxes, site: str, prefix: str) -> Ids:
    """Add the boxes to the wiring and return their ids."""
    return context.wiring.add_devices(
        numbered(f"{prefix}{boxes.word}{{}}", boxes.count),
        role=boxes.role,
        network=boxes.network,
        site=site,
        model=boxes.model,
        power_w=context.catalog.box(boxes.model).power_max_w,
    )


def connect_boxes(
    context: Context, boxes: Boxes, ids: Ids, seats: list[Seats], benches: list[Bench], *, first_port: int = 0
) -> None:
    """Connect boxes to the benches on which they were seated; box ports are numbered from ``first_port``, side by side."""
    done = 0
    for seated, bench in zip(seats, benches, strict=True):
        if not seated.count:
            continue
        box, side, nth = (axis.ravel() for axis in np.indices((seated.count, SIDES, boxes.ports)))
        own = side * boxes.ports + nth
        box, side, nth, own = (axis[own < boxes.all_ports] for axis in (box, side, nth, own))
        shift = side * boxes.ports if bench.width == 1 else 0
        context.wiring.connect(
            Ends(
                device=ids[done + box],
                slot=first_port + own,
                direction="host",
                name=boxes.port_name,
            ),
            Ends(
                device=bench.leaves[seated.unit[box] * bench.width + side % bench.width],
                slot=seated.slot[box] + shift + nth,
                direction="down",
                platform=bench.platform,
            ),
            network=boxes.network,
            tier="service",
            speed_gbps=boxes.gbps,
        )
        done += seated.count


def connect_servers(
    context: Context,
    ports: ServerPorts,
    gbps: float,
    servers: Ids,
    homes: Homes,
    leaves: Ids,
    platform: Switch,
    network: NetworkName,
    *,
    one_leaf: bool = False,
) -> None:
    """Connect every server to both leaves of its unit, or with all ports to one (``one_leaf``)."""
    box, port = (axis.ravel() for axis in np.indices((len(servers), ports.count)))
    side = np.zeros_like(port) if one_leaf else ports.side(port)
    nth = port if one_leaf else _ordinal_on_side(ports)[port]
    context.wiring.connect(
        ports.ends(servers[box], port),
        Ends(
            device=leaves[homes.leaf(box, side)],
            slot=homes.port(box, side, nth),
            direction="down",
            platform=platform,
        ),
        network=network,
        tier="host",
        speed_gbps=gbps,
    )


def per_leaf(ports: ServerPorts) -> int:
    """Return the ports of a server on the leaf that takes more of them."""
    return int(_ordinal_on_side(ports).max()) + 1


def _ordinal_on_side(ports: ServerPorts) -> Index:
    """Return for each port of a server its ordinal among those on the same leaf."""
    side = ports.side(np.arange(ports.count))
    return np.where(side == 1, np.cumsum(side), np.cumsum(1 - side)) - 1
