"""SONiC's tables for equal paths: ``SWITCH_HASH`` and the ``ARS_`` tables of adaptive routing, written and read back.

Names and values are those of ``sonic-hash.yang`` and ``sonic-ars.yang`` (sonic-buildimage). The hash over addresses and ports is
part of ``config_db.json``; what only newer releases know stands in a file of its own, to be loaded on top (``config load``):
the destination queue pair in the hash of RoCEv2, and adaptive routing (models of October 2025). The idle time that ends a
flowlet is SONiC's own default. Neither was tried on a switch.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from railwright.build.contract import DeviceView
from railwright.build.path_modes import rendered_mode

FILE = "path-mode.json"
NAME = "railwright"
FIELDS = ("IP_PROTOCOL", "SRC_IP", "DST_IP", "L4_SRC_PORT", "L4_DST_PORT")
QUEUE_PAIR = "RDMA_BTH_DEST_QP"
FLOWLET_IDLE_US = 256
_RDMA = ("ecmp_hash_ipv4_rdma", "ecmp_hash_ipv6_rdma")
_ASSIGN = {"flowlet": "per_flowlet_quality", "spray": "per_packet_quality"}

Table = dict[str, dict[str, Any]]


def hash_table(view: DeviceView) -> Table:
    """Return ``SWITCH_HASH`` for ``config_db.json``."""
    return {"GLOBAL": {"ecmp_hash": list(FIELDS)}} if rendered_mode("sonic", view.balancing) else {}


def newer_tables(view: DeviceView) -> dict[str, Table]:
    """Return the tables of the file of its own; the ports of adaptive routing are those toward other switches."""
    mode = rendered_mode("sonic", view.balancing) or "ecmp"
    if mode == "ecmp-qp":
        return {"SWITCH_HASH": {"GLOBAL": {name: [*FIELDS, QUEUE_PAIR] for name in _RDMA}}}
    if mode not in _ASSIGN:
        return {}
    sessions = {n.peer for n in view.bgp.neighbors if n.unnumbered} if view.bgp else set()
    idle = {"flowlet_idle_time": str(FLOWLET_IDLE_US)} if mode == "flowlet" else {}
    return {
        "ARS_OBJECT": {NAME: {"assign_mode": _ASSIGN[mode]} | idle},
        "ARS_PROFILE": {
            NAME: {
                "algorithm": "ewma",
                "ars_nhg_path_selector_mode": "interface",
                "default_ars_object": NAME,
                "ipv4_enable": "true",
                "ipv6_enable": "true",
            }
        },
        "ARS_INTERFACE": {port.name: {} for port in view.ports if port.name in sessions},
    }


def read_mode(db: Mapping[str, Any], newer: Mapping[str, Any]) -> str | None:
    """Return the path mode that ``config_db.json`` and the file of its own say; None where they say nothing."""
    for held in (newer, db):
        profile = next(iter(held.get("ARS_PROFILE", {}).values()), None)
        if profile is not None:
            chosen = held.get("ARS_OBJECT", {}).get(profile.get("default_ars_object", ""), {}).get("assign_mode")
            return next((mode for mode, assigned in _ASSIGN.items() if assigned == chosen), None)
    hashed = [held.get("SWITCH_HASH", {}).get("GLOBAL", {}) for held in (newer, db)]
    if not any(hashed):
        return None
    return (
        "ecmp-qp"
        if any(QUEUE_PAIR in fields.get(n, ()) for fields in hashed for n in ("ecmp_hash", *_RDMA))
        else "ecmp"
    )


def mode_paths() -> Iterator[tuple[str, ...]]:
    """Yield where the path mode stands in either file, most exact first."""
    yield from (("ARS_OBJECT",), ("SWITCH_HASH", "GLOBAL", _RDMA[0]), ("SWITCH_HASH", "GLOBAL"))
