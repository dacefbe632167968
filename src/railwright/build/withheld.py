"""Connected routes that a box keeps to itself: the management networks, which backend servers must not reach.

``redistribute connected`` takes every subnet of the box's own ports, that of its management port too when this port stands in
the default VRF. A route map on it denies the plan's management pools and permits the rest (FRR's user guide, chapters BGP and
Route Maps: clauses in order, the first match decides, what no clause matches is denied).
"""

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Network, collapse_addresses

from railwright.design.plan import Plan

CONNECTED = "CONNECTED"
"""Name of the route map on connected routes."""
MANAGEMENT = "MANAGEMENT"
"""Name of the prefix list of what it denies."""
_ALL = IPv4Network("0.0.0.0/0")


def management_pools(plan: Plan) -> tuple[str, ...]:
    """Return the IPv4 pools of the management networks."""
    pools = plan.spec.addressing
    own = [str(pools.in_band)] if plan.spec.management.in_band == "own" else []
    return tuple(sorted([*own, str(pools.out_of_band)]))


def withheld(
    clauses: Sequence[tuple[bool, Sequence[str]]], lists: Mapping[str, Sequence[tuple[bool, str]]]
) -> tuple[str, ...]:
    """Return the IPv4 networks of which a route map lets nothing through.

    ``clauses`` are ``(permits, names of the prefix lists)`` in order, none for a clause that matches everything; ``lists`` have
    ``(permits, "P" or "P le N")``. A prefix that is denied without its subnets withholds nothing here; nor does a clause
    that denies by something else than a list, and one that permits so is taken for one that permits everything.
    """
    open_, denied = [_ALL], []
    for permits, names in clauses:
        anything = not names or (permits and any(name not in lists for name in names))
        matched = [_ALL] if anything else [net for name in names for net in _matched(lists.get(name, ()), permits)]
        if not permits:
            denied += [net for one in matched for net in _common(open_, one)]
        for net in matched:
            open_ = _without(open_, net)
    return tuple(sorted(map(str, collapse_addresses([*denied, *open_]))))


def covers(held: Iterable[str], wanted: str) -> bool:
    """Say whether the network ``wanted`` lies in one of ``held``."""
    return any(IPv4Network(wanted).subnet_of(IPv4Network(net)) for net in held)


def _matched(entries: Sequence[tuple[bool, str]], widest: bool) -> list[IPv4Network]:
    """Return what a prefix list permits; an entry that names no subnets counts only where ``widest`` is wanted."""
    found: list[IPv4Network] = []
    refused: list[IPv4Network] = []
    for permits, text in entries:
        prefix, *rest = text.split()
        net = IPv4Network("0.0.0.0/0" if prefix == "any" else prefix, strict=False)
        whole = prefix == "any" or net.prefixlen == 32 or rest == ["le", "32"]
        if permits and (whole or widest):
            kept = [net]
            for other in refused:
                kept = _without(kept, other)
            found += kept
        elif not permits and whole:
            refused.append(net)
    return found


def _common(nets: Iterable[IPv4Network], other: IPv4Network) -> list[IPv4Network]:
    return [max(net, other, key=lambda n: n.prefixlen) for net in nets if net.overlaps(other)]


def _without(nets: Iterable[IPv4Network], other: IPv4Network) -> list[IPv4Network]:
    kept: list[IPv4Network] = []
    for net in nets:
        if not net.overlaps(other):
            kept.append(net)
        elif other.subnet_of(net) and other != net:
            kept += net.address_exclude(other)
    return kept
