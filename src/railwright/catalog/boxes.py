"""Boxes that are neither GPU server nor switch: firewalls, load balancers, CPU nodes, storage appliances, PDUs, routers.

The packaged entries are generic, with nothing that nobody knows: users name their own in a catalog file. How many of them a
design needs follows from throughputs in the spec, not from here.
"""

from typing import Literal

from pydantic import PositiveFloat, PositiveInt

from railwright.catalog.model import Entry

BoxRole = Literal["firewall", "load_balancer", "head", "service", "storage", "appliance", "pdu", "external"]


class Box(Entry):
    """A box with network ports of one rate. ``ports`` of ``gbps`` are those that carry traffic, the management port apart.

    ``ru`` is absent for what stands in no rack unit (a PDU at the side of a rack, a router of somebody else).
    """

    role: BoxRole
    ports: PositiveInt | None = None
    gbps: PositiveFloat | None = None
    ru: PositiveInt | None = None
    power_max_w: PositiveFloat | None = None
    weight_kg: PositiveFloat | None = None
