"""Consistency of the physical parts: lanes and rates that add up, references that exist, entries that agree.

Called by ``validate.py``, which has the codes for everything that is plugged together from these parts.
"""

from collections.abc import Iterable, Iterator

from railwright.catalog.cables import Breakout, Cable
from railwright.catalog.fibres import FibreCable
from railwright.catalog.form_factors import CageRule, FormFactor
from railwright.catalog.load import KINDS, Catalog
from railwright.catalog.model import Record
from railwright.catalog.optics import InteropPair, Optic, Pmd
from railwright.catalog.prices import Price
from railwright.errors import nearest
from railwright.findings import Finding, Severity

SOURCES = {
    "RW911": "the ASIC's capacity and the platform's port list",
    "RW912": "electrical lanes of cages, modules and cables",
    "RW913": "the catalog's own references",
    "RW914": "PCI Express Base Specification 3.0 to 6.0, lane rates",
    "RW915": "the catalog's other entries",
    "RW916": "the operating system's port numbering",
}

Problem = tuple[str, str, str]
"""Code, message and mend."""


def inconsistency(subject: str, problem: Problem) -> Finding:
    """Return a problem of the entry ``subject`` as a warning."""
    code, message, fix = problem
    return Finding(code, Severity.WARNING, subject, message, fix, SOURCES[code])


def unknown(catalog: Catalog, kind: str, keys: Iterable[str], what: str) -> Iterator[Problem]:
    """Yield a problem for each of ``keys`` that is not among the entries of ``kind``."""
    known = catalog.kind(kind)
    for key in keys:
        if key not in known:
            message = f"its {what} {key!r} is not in the catalog{nearest(key, known)}"
            yield "RW913", message, f"name an entry of {kind} or add it"


def part_problems(catalog: Catalog, entry: Record) -> Iterator[Problem]:
    """Yield what is wrong with a physical part; nothing for other entries."""
    if isinstance(entry, FormFactor):
        yield from unknown(catalog, "form_factors", entry.accepts, "accepted form factor")
    elif isinstance(entry, CageRule):
        yield from _cage_rule(catalog, entry)
    elif isinstance(entry, Pmd):
        yield from _pmd(catalog, entry)
    elif isinstance(entry, Optic):
        yield from _optic(catalog, entry)
    elif isinstance(entry, InteropPair):
        yield from _pair(catalog, entry)
    elif isinstance(entry, Cable):
        yield from _cable(catalog, entry)
    elif isinstance(entry, Breakout):
        yield from _breakout(entry)
    elif isinstance(entry, FibreCable):
        yield from unknown(catalog, "fibres", [entry.fibre], "fibre")
        yield from unknown(catalog, "polarities", [entry.polarity], "polarity")
        yield from _families(catalog, (entry.connector, entry.far_connector))
        yield from _lengths(entry.lengths_m, entry.reach_m)
    elif isinstance(entry, Price):
        yield from _price(catalog, entry)


def _families(catalog: Catalog, families: Iterable[str]) -> Iterator[Problem]:
    known = {connector.family for connector in catalog.connectors.values()} | {"mpo-24"}
    for family in families:
        if family not in known:
            message = f"no connector of family {family!r} is in the catalog{nearest(family, known)}"
            yield "RW913", message, "name a family of connectors or add one"


def _rate(what: str, lanes: int, lane_gbps: float, gbps: float) -> Iterator[Problem]:
    if lanes * lane_gbps != gbps:
        message = f"{what}: {lanes} lanes of {lane_gbps:g}G are {lanes * lane_gbps:g}G, not {gbps:g}G"
        yield "RW912", message, "mend the number of lanes, their rate or gbps"


def _lengths(lengths_m: tuple[float, ...], reach_m: float | None) -> Iterator[Problem]:
    if list(lengths_m) != sorted(set(lengths_m)):
        yield "RW915", "lengths_m does not rise", "list each length once, the shortest first"
    if lengths_m and reach_m is not None and lengths_m[-1] > reach_m:
        yield "RW915", f"a length of {lengths_m[-1]:g} m is longer than its reach of {reach_m:g} m", "mend one of them"


def _cage_rule(catalog: Catalog, rule: CageRule) -> Iterator[Problem]:
    yield from unknown(catalog, "form_factors", [rule.cage, *rule.accepts, *rule.rejects], "form factor")
    for device in rule.devices:
        if device in catalog.switches:
            groups = [group for group in catalog.switches[device].cages if group.form_factor == rule.cage]
            limits = {group.module_limit_w for group in groups if group.purpose == "fabric"}
            if not groups:
                yield "RW915", f"{device} has no {rule.cage} cages", "mend the cage or the list of devices"
            elif rule.module_limit_w is not None and limits != {rule.module_limit_w}:
                message = (
                    f"it gives a module {rule.module_limit_w:g} W, the switch {device} says {sorted(map(str, limits))}"
                )
                yield "RW915", message, "mend module_limit_w in one of the two"
        else:
            yield from unknown(catalog, "nics", [device], "device")


def _pmd(catalog: Catalog, pmd: Pmd) -> Iterator[Problem]:
    yield from _rate("optical side", pmd.lanes, pmd.lane_gbps, pmd.gbps)
    yield from unknown(catalog, "fibres", {*pmd.reach_m, *pmd.channel_loss_db}, "fibre")
    yield from _families(catalog, pmd.connectors)


def _optic(catalog: Catalog, optic: Optic) -> Iterator[Problem]:
    yield from unknown(catalog, "form_factors", [optic.form_factor], "form factor")
    yield from unknown(catalog, "pmds", [optic.pmd], "pmd")
    yield from _rate("electrical side", optic.host_lanes, optic.host_lane_gbps, optic.gbps)
    if optic.form_factor in catalog.form_factors:
        shape = catalog.form_factors[optic.form_factor]
        if optic.host_lanes > shape.lanes or optic.host_lane_gbps > max(shape.lane_gbps):
            message = (
                f"{optic.host_lanes} lanes of {optic.host_lane_gbps:g}G do not fit {shape.key} "
                f"({shape.lanes} of {max(shape.lane_gbps):g}G)"
            )
            yield "RW912", message, "mend the form factor or the electrical side"
    if optic.pmd in catalog.pmds:
        pmd = catalog.pmds[optic.pmd]
        if optic.legs * pmd.gbps != optic.gbps:
            message = f"{optic.legs} legs of {pmd.key} are {optic.legs * pmd.gbps:g}G, not {optic.gbps:g}G"
            yield "RW912", message, "mend legs, pmd or gbps"
        if optic.connector not in pmd.connectors or optic.polish != pmd.polish:
            offered = ", ".join(f"{connector}/{pmd.polish}" for connector in pmd.connectors)
            message = f"{optic.connector}/{optic.polish} is not a connector of {pmd.key} ({offered})"
            yield "RW915", message, "mend connector or polish"
        for fibre, reach_m in optic.reach_m.items():
            if reach_m > pmd.reach_m.get(fibre, 0.0):
                message = f"it reaches {reach_m:g} m on {fibre}, {pmd.key} {pmd.reach_m.get(fibre, 0.0):g} m"
                yield "RW915", message, "mend reach_m, or name the PMD that reaches so far"


def _pair(catalog: Catalog, pair: InteropPair) -> Iterator[Problem]:
    yield from unknown(catalog, "pmds", pair.pmds, "pmd")
    if all(key in catalog.pmds for key in pair.pmds):
        a, b = (catalog.pmds[key] for key in pair.pmds)
        if (a.lane_gbps, a.modulation, a.fibre_kind) != (b.lane_gbps, b.modulation, b.fibre_kind):
            message = f"{a.key} and {b.key} differ in lane rate, modulation or fibre and cannot work"
            yield "RW915", message, "remove the pair"


def _cable(catalog: Catalog, cable: Cable) -> Iterator[Problem]:
    tail_gbps = cable.tail_lane_gbps or cable.lane_gbps
    yield from unknown(catalog, "form_factors", {*cable.head.form_factors, *cable.tails.form_factors}, "form factor")
    yield from _rate("head", cable.head.count * cable.head.lanes, cable.lane_gbps, cable.gbps)
    yield from _rate("tails", cable.tails.count * cable.tails.lanes, tail_gbps, cable.gbps)
    yield from _lengths(cable.lengths_m, cable.reach_m)
    if tail_gbps != cable.lane_gbps and not cable.gearbox:
        message = f"its lanes run at {cable.lane_gbps:g}G at the head and {tail_gbps:g}G at the tails without a gearbox"
        yield "RW912", message, "mend tail_lane_gbps, or set gearbox"
    for end in (cable.head, cable.tails):
        for key in end.form_factors:
            if key in catalog.form_factors and end.lanes > catalog.form_factors[key].lanes:
                message = f"{end.lanes} lanes do not fit a {key} plug ({catalog.form_factors[key].lanes})"
                yield "RW912", message, "mend lanes or form_factors"


def _breakout(breakout: Breakout) -> Iterator[Problem]:
    used = 0
    for leg in breakout.legs:
        if used & leg.host_lanes:
            yield "RW912", f"host lanes {leg.host_lanes:#04x} belong to two legs", "give every lane to one leg"
        used |= leg.host_lanes
    if breakout.host_lanes is not None and used >> breakout.host_lanes:
        yield "RW912", f"a leg uses a lane beyond the {breakout.host_lanes} of the cage", "mend the masks or host_lanes"


def _price(catalog: Catalog, price: Price) -> Iterator[Problem]:
    for item in price.items:
        kind, _, key = item.partition(".")
        if kind in KINDS:
            yield from unknown(catalog, kind, [key], "item")
    if not (price.usd_low or price.usd) <= price.usd <= (price.usd_high or price.usd):
        message = (
            f"{price.usd:g} is outside its range of {price.usd_low or price.usd:g} to {price.usd_high or price.usd:g}"
        )
        yield "RW915", message, "mend usd, usd_low or usd_high"
