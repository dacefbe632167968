"""Prefix lists and route maps, written and read back: what every operating system's routing policies come down to.

A policy ``NAME`` is written as the route maps ``NAME-IN`` and ``NAME-OUT``, each with a prefix list of its own name. Read back
are permits: a clause that permits gives the prefixes that its list permits, or everything when it matches on no list. What a
``deny`` takes away is not computed; such a list reads as wider than it is.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from railwright.build.contract import EVERYTHING, Bgp, Leak, Policy

_SUFFIX = re.compile(r"[-_](IN|OUT)$", re.IGNORECASE)


def leak_name(leak: Leak) -> str:
    """Return the name of the route map of a leak."""
    return f"LEAK-TO-{leak.vrf.upper()}"


def filters_of(bgp: Bgp) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Yield name, prefixes and community of every route map that the box needs."""
    for policy in bgp.policies:
        yield f"{policy.name}-IN", policy.accept, policy.tag_accepted
        yield f"{policy.name}-OUT", policy.announce, policy.tag_announced
    for leak in bgp.leaks:
        if leak.accept:
            yield leak_name(leak), leak.accept, ""


def policy_name(taken: str, given: str) -> str:
    """Return the name of the policy that applies the route map ``taken`` inwards and ``given`` outwards."""
    return _SUFFIX.sub("", taken or given)


def foreign_targets(targets: Mapping[str, Iterable[str]], vnis: Mapping[str, int]) -> Iterator[tuple[str, list[str]]]:
    """Yield VRFs that import the EVPN route target (its number after the colon) of another VRF's VNI, and of which."""
    owners = {str(vni): vrf for vrf, vni in vnis.items()}
    for vrf, numbers in sorted(targets.items()):
        foreign = sorted({owners[number] for number in numbers if owners.get(number, vrf) != vrf})
        if foreign:
            yield vrf, foreign


@dataclass
class Filters:
    """The lists and maps of one box while it is read."""

    lists: dict[str, list[str]] = field(default_factory=dict)
    maps: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    entries: dict[str, list[tuple[bool, str]]] = field(default_factory=dict)
    clauses: dict[str, list[tuple[bool, tuple[str, ...]]]] = field(default_factory=dict)
    _open: dict[str, bool] = field(default_factory=dict)

    def list_line(self, name: str, rest: Sequence[str], number: int) -> None:
        """Take an entry of a prefix list: ``rest`` is ``permit P`` or ``permit P le N`` (or ``deny …``)."""
        held = self.lists.setdefault(name, [])
        self.entries.setdefault(name, []).append((rest[:1] == ["permit"], " ".join(rest[1:])))
        if rest[:1] == ["permit"]:
            prefix = " ".join(rest[1:])
            held.append(EVERYTHING if prefix == "any" else prefix)
        self.lines[name] = number

    def map_line(self, name: str, permits: bool, number: int) -> None:
        """Take the head of a clause of a route map."""
        self.maps.setdefault(name, [])
        self.clauses.setdefault(name, []).append((permits, ()))
        self._open[name] = permits
        if permits:
            self.maps[name].append(())
        self.lines.setdefault(name, number)

    def clause_line(self, name: str, words: Sequence[str], number: int) -> None:
        """Take a line of a clause: what it matches, or the community that it sets."""
        if list(words[:4]) == ["match", "ip", "address", "prefix-list"]:
            self.matches(name, words[4])
        elif list(words[:2]) == ["set", "community"] and len(words) > 2:
            self.tags[name] = words[2]
        elif words[0] == "match":
            self._narrowed(name, " ".join(words))

    def matches(self, name: str, prefix_list: str) -> None:
        """Say that the last clause of a route map matches a prefix list."""
        self._narrowed(name, prefix_list)
        if self._open.get(name) and self.maps.get(name):
            self.maps[name][-1] = (*self.maps[name][-1], prefix_list)

    def _narrowed(self, name: str, condition: str) -> None:
        if self.clauses.get(name):
            permits, conditions = self.clauses[name][-1]
            self.clauses[name][-1] = (permits, (*conditions, condition))

    def prefixes(self, name: str) -> tuple[str, ...]:
        """Return what a route map, or a prefix list used as one, lets through; everything for one that is not defined."""
        if name in self.maps:
            found = {p for clause in self.maps[name] for listed in clause for p in self.lists.get(listed, [])}
            if any(not clause for clause in self.maps[name]):
                found.add(EVERYTHING)
            return tuple(sorted(found))
        return tuple(sorted(self.lists[name])) if name in self.lists else (EVERYTHING,)

    def policy(self, name: str, taken: str, given: str) -> Policy:
        """Return the policy of the two route maps; a direction without one lets everything through."""
        for way, used in (("accept", taken), ("announce", given)):
            listed = next((entry for clause in self.maps.get(used, []) for entry in clause), used)
            line = self.lines.get(listed) or self.lines.get(used)
            if line:
                self.lines[f"policy/{name}/{way}"] = line
            if used in self.lines:
                self.lines[f"policy/{name}/tag_{way}ed" if way == "accept" else f"policy/{name}/tag_announced"] = (
                    self.lines[used]
                )
        return Policy(
            name,
            self.prefixes(taken) if taken else (EVERYTHING,),
            self.prefixes(given) if given else (EVERYTHING,),
            self.tags.get(taken, ""),
            self.tags.get(given, ""),
        )

    def line_of(self, key: str) -> int | None:
        """Return the line of a fact of a policy."""
        return self.lines.get(key)
