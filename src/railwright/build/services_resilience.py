"""Resilient hashing where routers spread connections over load balancers and firewalls: losing one moves only its own.

Written beside the router's configuration, because it concerns only these next hops: SONiC's fine-grained ECMP tables
(``sonic-fine-grained-ecmp.yang``; platforms of Mellanox and some of Broadcom), Cumulus' ``traffic.conf``, EOS' per-prefix
command. Those of Cumulus and EOS are not tried on a switch. Linux with FRR has none for routes that BGP learns.
"""

import json
import math
from collections.abc import Mapping

import polars as pl

from railwright.design.plan import Plan

SONIC_FILE, CUMULUS_FILE, EOS_FILE = "fine-grained-ecmp.json", "traffic.conf", "resilient-ecmp.cfg"
_MOST_BUCKETS = 4096
_CUMULUS_BUCKETS = 512
_EOS_REDUNDANCY = 4


def resilient_hashing(plan: Plan, systems: Mapping[str, str]) -> dict[str, str]:
    """Return path → text for every router in ``systems`` beside load balancers or firewalls."""
    found: dict[str, str] = {}
    vips = sorted(set(plan.addresses.filter(pl.col("kind") == "vip")["address"]))
    for (router,), rows in next_hops(plan).partition_by("router", as_dict=True, maintain_order=True).items():
        groups = {role: own["address"].to_list() for (role,), own in rows.partition_by("role", as_dict=True).items()}
        system = systems.get(router)
        if system == "sonic":
            found[f"{router}/{SONIC_FILE}"] = _sonic(groups)
        elif system == "nvue":
            found[f"{router}/{CUMULUS_FILE}"] = _CUMULUS
        elif system == "eos" and vips:
            found[f"{router}/{EOS_FILE}"] = _eos(vips, max(len(own) for own in groups.values()))
    return found


def next_hops(plan: Plan) -> pl.DataFrame:
    """Return ``router, role, address``: the addresses of load balancers and firewalls as each router beside them sees them."""
    boxes = plan.devices.filter(pl.col("role").is_in(["load_balancer", "firewall"])).select("device_id", "role")
    ends = pl.concat(
        plan.links.select(port_id=here, other=there) for here, there in (("a_port", "b_port"), ("b_port", "a_port"))
    )
    ports = plan.ports.select("port_id", "device_id")
    addresses = plan.addresses.filter(pl.col("kind") == "p2p").select(
        "port_id", pl.col("address").str.split("/").list.first()
    )
    return (
        ends.join(ports.join(boxes, on="device_id"), on="port_id")
        .join(addresses, on="port_id")
        .join(ports.select(other="port_id", far="device_id"), on="other")
        .join(plan.devices.select(far="device_id", router="name"), on="far")
        .sort("far", "role", "port_id")
        .select("router", pl.col("role").cast(pl.String), "address")
    )


def _sonic(groups: Mapping[str, list[str]]) -> str:
    named = {role: f"railwright_{role}" for role in groups}
    tables = {
        "FG_NHG": {
            named[role]: {"bucket_size": str(_buckets(len(own))), "match_mode": "nexthop-based"}
            for role, own in groups.items()
        },
        "FG_NHG_MEMBER": {
            address: {"FG_NHG": named[role], "bank": "0"} for role, own in groups.items() for address in own
        },
    }
    return json.dumps(tables, indent=4) + "\n"


def _buckets(members: int) -> int:
    """Return a number of buckets that every number of surviving members divides evenly, as long as it is small enough."""
    return min(math.lcm(*range(1, members + 1)) * (60 if members <= 2 else 1), _MOST_BUCKETS)


_CUMULUS = f"""# Into /etc/cumulus/datapath/traffic.conf, then restart switchd. Adaptive routing does not use it.
resilient_hash_enable = TRUE
resilient_hash_entries_ecmp = {_CUMULUS_BUCKETS}
"""


def _eos(vips: list[str], members: int) -> str:
    lines = [f"ip hardware fib ecmp resilience {vip} capacity {members} redundancy {_EOS_REDUNDANCY}" for vip in vips]
    return "\n".join(["! Resilient ECMP towards the virtual addresses; not verified on a switch.", *lines, ""])
