"""A SONiC configuration database as a whole: entries found by port and number, names freed from old notations."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

POOLS = ("ingress_lossless_pool", "egress_lossless_pool", "egress_lossy_pool")
"""The buffer pools that SONiC's own buffer templates name."""


@dataclass(frozen=True)
class Tables:
    """A configuration database; ``spread`` finds the entry of ``PORT[,PORT]|N[-M]`` keys by port and number.

    ``addresses`` are those of each port, ``bonds`` the bond of each member, ``vlans`` the untagged VLAN of a port or bond.
    """

    db: Mapping[str, Any]
    spread: Mapping[str, Mapping[tuple[str, int], str]]
    addresses: Mapping[str, tuple[str, ...]]
    bonds: Mapping[str, str]
    vlans: Mapping[str, int]

    def entry(self, table: str, port: str, number: int) -> str | None:
        """Return the key of ``table`` that covers ``port`` and ``number``."""
        return self.spread[table].get((port, number))


def tables_of(db: Mapping[str, Any]) -> Tables:
    """Return ``db`` with its indexes."""
    spread: dict[str, dict[tuple[str, int], str]] = {}
    for table in ("QUEUE", "BUFFER_PG", "BUFFER_QUEUE"):
        found: dict[tuple[str, int], str] = {}
        for key in db.get(table, {}):
            owners, _, numbers = key.rpartition("|")
            found |= {(owner, number): key for owner in owners.split(",") for number in span(numbers)}
        spread[table] = found
    addresses: dict[str, list[str]] = defaultdict(list)
    for key in db.get("INTERFACE", {}):
        port, bar, address = key.partition("|")
        if bar:
            addresses[port].append(address)
    bonds = {port: bond for bond, _, port in (key.partition("|") for key in db.get("PORTCHANNEL_MEMBER", {}))}
    vlans = {
        key.partition("|")[2]: int(key.partition("|")[0].removeprefix("Vlan"))
        for key, entry in db.get("VLAN_MEMBER", {}).items()
        if entry.get("tagging_mode") == "untagged"
    }
    return Tables(db, spread, {port: tuple(sorted(held)) for port, held in addresses.items()}, bonds, vlans)


def span(text: str) -> range:
    """Return the numbers of ``3`` or ``3-4``; none for anything else."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1) if first.isdigit() and (last or first).isdigit() else range(0)


def bare(reference: str) -> str:
    """Return the name in a reference; older releases write ``[TABLE|name]``."""
    return reference.strip("[]").rpartition("|")[2]


def vrf_name(name: str) -> str:
    """Return a VRF's name as SONiC wants it: it must begin with ``Vrf``."""
    return f"Vrf-{name}"


def plain_vrf(name: str) -> str:
    """Return a VRF's own name from SONiC's."""
    return name.removeprefix("Vrf-")
