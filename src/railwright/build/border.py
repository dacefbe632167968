"""Routing policy at the edge: what a site takes from the outside and tells it, and what its firewalls and load balancers may say.

From the outside comes the default route and nothing else; out go the blocks of the service addresses and nothing else, so
that the site never carries traffic between two providers. A load balancer announces its service addresses and itself, tagged
with a community; a firewall announces itself. Boxes with two uplinks give nothing on that they have learned. Every session to
a box outside the fabric has a limit of routes. Where the services stand in a VRF, the border lets balancers and clients reach
it and nothing more: a filtered leak both ways. RFC 7454 (BGP operations and security) asks for the same filters.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from ipaddress import ip_interface, ip_network

import polars as pl

from railwright.build.contract import EVERYTHING, Bgp, Leak, Policy, Vrf
from railwright.design.plan import Plan

SERVICE_TAG = "64512:100"
"""Community of routes that load balancers announce; the AS half is the first private one."""
OUTSIDE, BALANCER, FIREWALL, FABRIC = "OUTSIDE", "BALANCER", "FIREWALL", "FABRIC"
OUTSIDE_PREFIXES, BOX_PREFIXES = 10, 64
"""Most routes from a provider (it should send one) and from a box; a session with more is closed."""
DEFAULT_ROUTE = "0.0.0.0/0"
_BLOCK = 24
"""The longest prefix that providers commonly take."""


def edge_policies(plan: Plan) -> dict[str, Policy]:
    """Return the policy of a session by the role of the box at its other end."""
    loopbacks = {
        role: sorted(set(own["address"]))
        for (role,), own in _held(plan, "loopback").partition_by("role", as_dict=True).items()
    }
    balancers = loopbacks.get("load_balancer", [])
    return {
        "external": Policy(OUTSIDE, (DEFAULT_ROUTE,), service_blocks(plan)),
        "load_balancer": Policy(
            BALANCER, tuple(sorted({*_services(plan), *balancers})), (EVERYTHING,), tag_accepted=SERVICE_TAG
        ),
        "firewall": Policy(FIREWALL, tuple(loopbacks.get("firewall", [])), (EVERYTHING,)),
    }


def service_blocks(plan: Plan) -> tuple[str, ...]:
    """Return the blocks that hold the service addresses, as large as providers take them."""
    return tuple(sorted({str(ip_network(f"{ip_interface(a).ip}/{_BLOCK}", strict=False)) for a in _services(plan)}))


def box_policy(plan: Plan, name: str, bgp: Bgp) -> Bgp:
    """Return the routing of a firewall or load balancer with its policy: it takes all and announces only its own."""
    own = [
        address
        for kind in ("loopback", "vip")
        for address in _held(plan, kind).filter(pl.col("device") == name)["address"]
    ]
    role = plan.devices.filter(pl.col("name") == name)["role"].cast(pl.String)[0]
    tag = SERVICE_TAG if role == "load_balancer" else ""
    policy = Policy(FABRIC, (EVERYTHING,), tuple(sorted(set(own))), tag_announced=tag)
    return replace(bgp, neighbors=tuple(replace(n, policy=FABRIC) for n in bgp.neighbors), policies=(policy,))


def service_leaks(plan: Plan, peer_roles: Collection[str], vrfs: Collection[Vrf]) -> tuple[Leak, ...]:
    """Return the leaks of a switch with sessions to ``peer_roles``: between the services' VRF and that of the balancers."""
    if "load_balancer" not in peer_roles:
        return ()
    held = {vrf.name for vrf in vrfs}
    pools = plan.spec.addressing
    inward = tuple(sorted([DEFAULT_ROUTE, f"{pools.links} le 32", f"{pools.services} le 32"]))
    outward = (f"{pools.frontend} le 32",)
    found = []
    for vrf in sorted(set(_held(plan, "vip")["vrf"]) & held - {"default"}):
        found += [Leak("default", (vrf,), outward), Leak(vrf, ("default",), inward)]
    return tuple(found)


def limit_of(role: str) -> int | None:
    """Return how many routes a box of ``role`` may send; None for the fabric's own switches."""
    limits: Mapping[str, int] = {
        "external": OUTSIDE_PREFIXES,
        "load_balancer": BOX_PREFIXES,
        "firewall": BOX_PREFIXES,
    }
    return limits.get(role)


def _services(plan: Plan) -> list[str]:
    return sorted(set(_held(plan, "vip")["address"]))


def _held(plan: Plan, kind: str) -> pl.DataFrame:
    """Return ``device, role, vrf, address`` of the addresses of a kind."""
    boxes = plan.devices.select("device_id", pl.col("role").cast(pl.String), device="name")
    rows = plan.addresses.filter(pl.col("kind").cast(pl.String) == kind)
    return rows.join(boxes, on="device_id", maintain_order="left").select("device", "role", "vrf", "address")
