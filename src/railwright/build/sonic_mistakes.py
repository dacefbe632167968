"""What a SONiC configuration gets wrong by itself: references that lead nowhere, and lossless priorities whose maps, groups
and buffers do not belong together. No plan is needed: the tables contradict each other.

A lossless priority travels DSCP → traffic class → priority group (ingress, where PFC is made) and → queue (egress, where PFC
is obeyed). Source: SONiC's QoS and buffer tables (Configuration.md of sonic-buildimage).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from railwright.build.sonic_tables import Tables, bare

Problem = tuple[str, str, str, tuple[str, ...]]
"""Rule code, port (or empty), message, JSON path."""

_REFERENCES = (
    ("BUFFER_PG", "profile", "BUFFER_PROFILE"),
    ("BUFFER_QUEUE", "profile", "BUFFER_PROFILE"),
    ("QUEUE", "wred_profile", "WRED_PROFILE"),
    ("QUEUE", "scheduler", "SCHEDULER"),
    ("PORT_QOS_MAP", "dscp_to_tc_map", "DSCP_TO_TC_MAP"),
    ("PORT_QOS_MAP", "tc_to_queue_map", "TC_TO_QUEUE_MAP"),
    ("PORT_QOS_MAP", "tc_to_pg_map", "TC_TO_PRIORITY_GROUP_MAP"),
    ("PORT_QOS_MAP", "pfc_to_pg_map", "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP"),
    ("PORT_QOS_MAP", "pfc_to_queue_map", "MAP_PFC_PRIORITY_TO_QUEUE"),
)


def own_problems(tables: Tables) -> Iterator[Problem]:
    """Yield all of them."""
    yield from _dangling(tables.db)
    yield from _unbuffered(tables)
    yield from _crossed_maps(tables.db)
    yield from _lossy_queues(tables)
    yield from _shut(tables.db)


def _dangling(db: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield references to profiles and maps that the file does not define."""
    for table, field, target in _REFERENCES:
        known = db.get(target, {})
        for key, entry in db.get(table, {}).items():
            name = bare(str(entry.get(field, "NULL")))
            if name != "NULL" and name not in known:
                message = f"{table} {key} refers to {target} {name}, which is not defined"
                yield "RW021", key.partition("|")[0], message, (table, key, field)


def _lossless(entry: Mapping[str, str]) -> list[str]:
    return [p.strip() for p in entry.get("pfc_enable", "").split(",") if p.strip().isdigit()]


def _unbuffered(tables: Tables) -> Iterator[Problem]:
    """Yield lossless priorities without a priority group of their own, or in a group whose profile has no xoff.

    A group whose profile is ``NULL`` is left to the switch's dynamic buffer model.
    """
    db = tables.db
    for port, entry in db.get("PORT_QOS_MAP", {}).items():
        for priority in _lossless(entry):
            group = tables.entry("BUFFER_PG", port, int(priority))
            profile = bare(db["BUFFER_PG"][group].get("profile", "")) if group else ""
            where = ("BUFFER_PG", group) if group else ("PORT_QOS_MAP", port, "pfc_enable")
            known = db.get("BUFFER_PROFILE", {}).get(profile, {})
            if group is None or (profile not in ("", "NULL") and known and int(known.get("xoff", 0)) == 0):
                what = "has no BUFFER_PG" if group is None else f"has profile {profile} without xoff"
                yield "RW007", port, f"priority {priority} is lossless and {what}", where


def _crossed_maps(db: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield maps that send a lossless priority into another group than PFC names, or stop another queue than it is sent in.

    ``TC_TO_PRIORITY_GROUP_MAP`` and ``PFC_PRIORITY_TO_PRIORITY_GROUP_MAP`` must agree, as must ``TC_TO_QUEUE_MAP`` and
    ``MAP_PFC_PRIORITY_TO_QUEUE``; a map that is not there, or a priority that it does not hold, is not judged.
    """
    pairs = (
        ("tc_to_pg_map", "TC_TO_PRIORITY_GROUP_MAP", "pfc_to_pg_map", "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP", "group"),
        ("tc_to_queue_map", "TC_TO_QUEUE_MAP", "pfc_to_queue_map", "MAP_PFC_PRIORITY_TO_QUEUE", "queue"),
    )
    for port, entry in db.get("PORT_QOS_MAP", {}).items():
        for carried, carrying, paused, pausing, what in pairs:
            way, stop = bare(entry.get(carried, "")), bare(entry.get(paused, ""))
            for priority in _lossless(entry):
                here = db.get(carrying, {}).get(way, {}).get(priority)
                there = db.get(pausing, {}).get(stop, {}).get(priority)
                if here is not None and there is not None and here != there:
                    at = (pausing, stop, priority) if here == priority else (carrying, way, priority)
                    message = (
                        f"priority {priority} is lossless and travels in {what} {here}, PFC acts on {what} {there}"
                    )
                    yield "RW006", port, message, at


def _lossy_queues(tables: Tables) -> Iterator[Problem]:
    """Yield lossless queues whose buffer profile draws on a lossy pool: the egress drops what PFC protects at ingress.

    A pool is lossy when the profile of another queue of the port, one that PFC does not protect, draws on it too.
    """
    db = tables.db
    profiles = db.get("BUFFER_PROFILE", {})
    for port, entry in db.get("PORT_QOS_MAP", {}).items():
        queues = db.get("TC_TO_QUEUE_MAP", {}).get(bare(entry.get("tc_to_queue_map", "")), {})
        protected = {int(queues[p]) for p in _lossless(entry) if str(queues.get(p, "")).isdigit()}
        held = {q: tables.entry("BUFFER_QUEUE", port, q) for q in range(8)}
        pools = {
            q: bare(profiles.get(bare(db["BUFFER_QUEUE"][key].get("profile", "")), {}).get("pool", ""))
            for q, key in held.items()
            if key
        }
        lossy = {pool for q, pool in pools.items() if q not in protected and pool}
        for queue in sorted(protected):
            key = held.get(queue)
            if key and "lossless" not in pools[queue] and pools[queue] in lossy:
                profile = bare(db["BUFFER_QUEUE"][key].get("profile", ""))
                message = f"queue {queue} is lossless and its buffer profile {profile} draws on {pools[queue]}, as lossy ones do"
                yield "RW007", port, message, ("BUFFER_QUEUE", key, "profile")


def _shut(db: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield ports that name a neighbour and are down by configuration; a port without ``admin_status`` is down too."""
    for port, entry in db.get("PORT", {}).items():
        neighbor = db.get("DEVICE_NEIGHBOR", {}).get(port, {}).get("name")
        if neighbor and entry.get("admin_status", "down") != "up":
            where = ("PORT", port, "admin_status") if "admin_status" in entry else ("PORT", port)
            yield "RW042", port, f"is shut and has a cable to {neighbor}", where
