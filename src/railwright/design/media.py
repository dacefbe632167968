"""Which parts join the cages of a component: the choice, its reasons, and what was not taken and why.

The ports of one cage share a plug, so parts are chosen for a *component*: all cages that hang together over links. One cage
facing one other, or one cage facing several with one port each, may be joined by a cable with fixed ends (copper, AOC).
Every other component is joined by modules and fibre cords, with one kind of module per kind of cage. A plan of any size has
a few dozen kinds of components, and only these are looked at one by one.

Of what works (``interoperability``) the preferred medium of the spec is taken first, then the cheapest in price and energy
over the lifetime. Where prices are unknown, power decides, then the medium (passive copper first, single-mode last).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from railwright.catalog.cables import Cable
from railwright.catalog.fibres import FibreCable
from railwright.catalog.load import Catalog
from railwright.catalog.optics import Optic
from railwright.design.interoperability import (
    OPEN_VENDORS,
    Plant,
    Problem,
    cable_problems,
    channel_problems,
    cord_problems,
    module_problems,
    pair_problems,
    ports_of,
    ports_per_connector,
)
from railwright.design.prices import energy_usd, known_price
from railwright.design.routes import stock_length
from railwright.design.sockets import Socket
from railwright.spec.cabling import Part
from railwright.spec.cluster import ClusterSpec

MEDIUM_RANK = ("cat6", "dac", "acc", "aec", "aoc", "mmf", "smf")
"""Order of media where power and price say nothing: the simpler one first."""

_NOTHING_WRONG = Problem("", "", "")

UNLIKELY = frozenset({"RW733", "RW734", "RW737", "RW738", "RW739"})
"""Rules whose offenders nobody would have thought of for the link; they come last among the reasons."""


@dataclass(frozen=True)
class Joint:
    """Links of one kind in a component: the sockets at both ends, the rule of the spec that names parts (-1: none) and the
    length that the longest of them needs in m."""

    a: int
    b: int
    part: int
    length_m: float


@dataclass(frozen=True)
class Component:
    """A kind of component. ``head`` is the end with one cage (``a`` or ``b``), empty when both ends have several.

    ``pair``: one cage faces one other. ``in_rack``: nothing of it leaves its rack.
    """

    joints: tuple[Joint, ...]
    head: str
    pair: bool
    in_rack: bool


@dataclass(frozen=True)
class Rejected:
    """A part that was not taken and why, with the code of the rule that it breaks (empty: none)."""

    name: str
    why: str
    code: str = ""


@dataclass(frozen=True)
class Choice:
    """The parts of a component.

    ``cable`` is a cable with fixed ends (``head`` says which end its head is at), else ``modules`` maps each socket to its
    module and ``cords`` each pair of sockets to its cord (catalog keys). ``medium`` is None when nothing works; ``reason``
    then says why. ``usd`` and ``watts`` are per link and None where unknown.
    """

    medium: str | None
    reason: str
    cable: str | None = None
    head: str = ""
    modules: dict[int, str] = field(default_factory=dict)
    cords: dict[tuple[int, int], str] = field(default_factory=dict)
    usd: float | None = None
    watts: float | None = None
    forced: bool = False
    rejected: tuple[Rejected, ...] = ()
    sockets: tuple[int, ...] = ()


class Chooser:
    """Chooses parts for components of the sockets ``kinds``; keeps what it has worked out."""

    def __init__(self, catalog: Catalog, spec: ClusterSpec, kinds: Sequence[Socket]) -> None:
        self._catalog = catalog
        self._spec = spec
        self._kinds = kinds
        self._plant = Plant.of(spec.cabling)
        self._modules: dict[tuple[int, bool], tuple[list[Optic], list[Rejected]]] = {}
        self._channels: dict[tuple[object, ...], tuple[FibreCable | None, Problem]] = {}

    def choose(self, component: Component) -> Choice:
        """Return the parts of ``component`` with the reasons."""
        forced = self._forced(component)
        if forced is not None and forced.cable is not None:
            return forced
        cables, not_cables = self._cables(component) if forced is None else ([], [])
        optics, not_optics = self._optics(component, forced)
        found = [choice for choice in (*cables, *optics) if choice.medium not in self._spec.cabling.forbid]
        rejected = [
            Rejected(_named(choice), f"the spec forbids {choice.medium}")
            for choice in (*cables, *optics)
            if choice.medium in self._spec.cabling.forbid
        ]
        rejected += sorted([*not_cables, *not_optics], key=lambda item: item.code in UNLIKELY)
        if not found:
            return Choice(None, "no part works: " + _list(rejected, 6), rejected=tuple(rejected))
        best, *others = self._ranked(found)
        beaten = [Rejected(_named(other), self._compared(best, other)) for other in others]
        return self._with_reason(best, beaten, rejected, forced is not None)

    # Cables with fixed ends

    def _cables(self, component: Component) -> tuple[list[Choice], list[Rejected]]:
        """Return the cables with fixed ends that join the component, and the others with reasons."""
        if not component.head and not component.pair:
            return [], [
                Rejected("copper and AOC", "ports of one cage go to several cages at both ends, only fibre parts them")
            ]
        taken, rejected = [], []
        if self._plant.panels and not component.in_rack and not self._twisted_pair(component):
            return [], [Rejected("copper and AOC", "fixed ends do not pass the patch panels between racks")]
        for cable in self._catalog.cables.values():
            if cable.discontinued or not cable.lengths_m:
                continue
            problems = self._cable_problems(component, cable)
            head, found = min(problems.items(), key=lambda item: len(item[1]))
            blocking = [problem for problem in found if problem.blocking]
            if blocking:
                if not any(problem.code in ("RW731", "RW735") for problem in blocking):
                    rejected.append(Rejected(cable.name, blocking[0].text, blocking[0].code))
            else:
                taken.append(self._cable_choice(component, cable, head))
        return taken, rejected

    def _twisted_pair(self, component: Component) -> bool:
        return all(self._kinds[joint.a].is_twisted_pair for joint in component.joints)

    def _cable_problems(self, component: Component, cable: Cable) -> dict[str, list[Problem]]:
        """Return the problems of ``cable`` by the end at which its head is plugged."""
        heads = ("a", "b") if component.pair or not component.head else (component.head,)
        found: dict[str, list[Problem]] = {}
        for head in heads:
            found[head] = []
            for joint in component.joints:
                length = self._length(joint.length_m, cable.lengths_m)
                if np.isnan(length):
                    length = joint.length_m
                    text = f"{cable.name} is sold up to {cable.lengths_m[-1]:g} m, {length:.1f} m are needed"
                    found[head].append(Problem("RW726", text, "a medium of longer reach"))
                ends = (joint.a, joint.b) if head == "a" else (joint.b, joint.a)
                near, far = (self._socket(end, joint.part) for end in ends)
                wheres = ("a", "b") if head == "a" else ("b", "a")
                found[head] += cable_problems(self._catalog, cable, near, far, length, wheres)
        return found

    def _cable_choice(self, component: Component, cable: Cable, head: str) -> Choice:
        ends = (cable.head, cable.tails)
        power = [None if end.power_w is None else end.power_w * end.count for end in ends]
        links = cable.tails.count
        watts = None if None in power else sum(value for value in power if value is not None) / links
        usd = known_price(self._catalog, self._spec, "cables", cable.key)
        return Choice(
            cable.medium,
            "",
            cable=cable.key,
            head=head,
            watts=watts,
            usd=None if usd is None else usd.usd / links,
            sockets=tuple(sorted({end for joint in component.joints for end in (joint.a, joint.b)})),
        )

    # Modules and cords

    def _optics(self, component: Component, forced: Choice | None) -> tuple[list[Choice], list[Rejected]]:
        """Return the ways to join the component by modules and cords, the best of each kind of interface."""
        sockets = sorted({end for joint in component.joints for end in (joint.a, joint.b)})
        if any(self._kinds[socket].is_twisted_pair for socket in sockets):
            return [], []
        linear = any(self._linear(joint.part) for joint in component.joints)
        options, rejected = [], []
        for socket in sockets:
            if forced is not None and socket in forced.modules:
                options.append([self._catalog.optics[forced.modules[socket]]])
                continue
            fitting, others = self._fitting(socket, linear=linear)
            options.append(fitting)
            rejected += others
        taken: dict[tuple[str, ...], Choice] = {}
        for modules in product(*options):
            chosen = dict(zip(sockets, modules, strict=True))
            if not self._one_per_platform(chosen):
                continue
            choice, why = self._joined(component, chosen, forced)
            interfaces = tuple(module.pmd for module in modules)
            if choice is None:
                rejected.append(Rejected(" + ".join(_module_names(modules, why.text)), why.text, why.code))
            elif interfaces not in taken or self._better(choice, taken[interfaces]):
                taken[interfaces] = choice
        return list(taken.values()), _once(rejected)

    def _one_per_platform(self, modules: dict[int, Optic]) -> bool:
        """Return whether cages of a platform that run in different modes get one module: one cage may run in two of them."""
        of: dict[tuple[str, str, str], str] = {}
        for end, optic in modules.items():
            kind = self._kinds[end]
            same = (kind.model, kind.form_factor, kind.direction)
            if kind.kind == "switch" and of.setdefault(same, optic.key) != optic.key:
                return False
        return True

    def _fitting(self, socket: int, *, linear: bool) -> tuple[list[Optic], list[Rejected]]:
        """Return the modules that work in a socket, and those of its form factor that do not, with reasons."""
        if (socket, linear) not in self._modules:
            kind = self._linear_socket(self._kinds[socket], linear=linear)
            fitting, rejected = [], []
            for optic in self._catalog.optics.values():
                problems = [
                    p for p in module_problems(self._catalog, kind, optic, "") if p.blocking or p.code == "RW739"
                ]
                if not problems:
                    fitting.append(optic)
                elif not any(problem.code in ("RW731", "RW732", "RW735") for problem in problems):
                    rejected.append(Rejected(optic.name, problems[0].text, problems[0].code))
            self._modules[socket, linear] = fitting, rejected
        return self._modules[socket, linear]

    def _joined(
        self, component: Component, modules: dict[int, Optic], forced: Choice | None
    ) -> tuple[Choice | None, Problem]:
        cords: dict[tuple[int, int], str] = {}
        medium = ""
        watts: list[float | None] = []
        prices: list[float | None] = []
        for joint in component.joints:
            named = self._part(joint.part)
            held = forced is not None and named is not None and (named.a is not None or named.cable is not None)
            cord, why = self._cord(component, joint, modules[joint.a], modules[joint.b], held=held)
            if cord is None:
                return None, why
            cords[joint.a, joint.b] = cord.key
            medium = max(medium, self._catalog.fibres[cord.fibre].kind)
            prices.append(self._usd("fibre_cables", cord.key, cord.tails))
            for end in (joint.a, joint.b):
                if self._kinds[end].foreign:
                    continue
                optic = modules[end]
                ports = max(1, ports_of(self._catalog, optic, self._kinds[end].gbps))
                prices.append(self._usd("optics", optic.key, ports))
                draw = optic.power_typical_w if optic.power_typical_w is not None else optic.power_max_w
                watts.append(None if draw is None else draw / ports)
        links = len(component.joints)
        return (
            Choice(
                medium,
                "",
                modules={socket: optic.key for socket, optic in modules.items()},
                cords=cords,
                watts=None if None in watts else sum(w for w in watts if w is not None) / links,
                usd=None if None in prices else sum(p for p in prices if p is not None) / links,
            ),
            _NOTHING_WRONG,
        )

    def _cord(
        self, component: Component, joint: Joint, a: Optic, b: Optic, *, held: bool
    ) -> tuple[FibreCable | None, Problem]:
        """Return the cord between two modules, or why there is none. ``held``: the user insists, whatever is wrong."""
        key = (joint, a.key, b.key, component.in_rack, held)
        if key not in self._channels:
            self._channels[key] = self._find_cord(component, joint, a, b, held=held)
        return self._channels[key]

    def _find_cord(
        self, component: Component, joint: Joint, a: Optic, b: Optic, *, held: bool
    ) -> tuple[FibreCable | None, Problem]:
        named = self._part(joint.part)
        if named is not None and named.cable in self._catalog.fibre_cables:
            return self._catalog.fibre_cables[str(named.cable)], _NOTHING_WRONG
        if not held:
            problem = next(pair_problems(self._catalog, a, b), None)
            if problem is not None:
                return None, problem
        ends = (self._kinds[joint.a], a), (self._kinds[joint.b], b)
        plant = self.plant(in_rack=component.in_rack)
        best: tuple[tuple[object, ...], FibreCable] | None = None
        why = Problem("", "no cord of the catalog joins their connectors", "")
        for cord in self._cords(self._catalog.pmds[a.pmd].fibre_kind):
            length = self._length(joint.length_m, cord.lengths_m)
            problems = [p for p in cord_problems(self._catalog, ends, cord, plant, length) if p.blocking]
            if problems and not held:
                continue
            if np.isnan(length):
                problems.append(Problem("RW726", f"{cord.name} is not sold in {joint.length_m:.0f} m", ""))
            else:
                problems += [p for p in channel_problems(self._catalog, a, b, cord, plant, length) if p.blocking]
            if problems:
                why = problems[0]
            rank = (len(problems), 0 if cord.vendor == a.vendor else 1, cord.key)
            if (held or not problems) and (best is None or rank < best[0]):
                best = rank, cord
        return (best[1], _NOTHING_WRONG) if best is not None else (None, why)

    def _cords(self, kind: str) -> Iterator[FibreCable]:
        for cord in self._catalog.fibre_cables.values():
            fibre = self._catalog.fibres[cord.fibre]
            if fibre.kind == kind and not cord.trunk and (kind == "smf" or fibre.key == self._plant.multimode):
                yield cord

    def plant(self, *, in_rack: bool) -> Plant:
        """Return the plant of a channel; what stays in its rack passes no panel."""
        if not in_rack or not self._plant.panels:
            return self._plant
        return Plant(0, 0, self._plant.grade, self._plant.multimode, self._plant.trunk_polarity)

    # Parts that the user names

    def _part(self, number: int) -> Part | None:
        return self._spec.cabling.parts[number] if number >= 0 else None

    def _linear(self, number: int) -> bool:
        named = self._part(number)
        return named is not None and named.linear

    def _socket(self, kind: int, part: int) -> Socket:
        return self._linear_socket(self._kinds[kind], linear=self._linear(part))

    @staticmethod
    def _linear_socket(socket: Socket, *, linear: bool) -> Socket:
        return replace(socket, linear=True) if linear else socket

    def _forced(self, component: Component) -> Choice | None:
        """Return what the user insists on: a cable, or the modules by socket; None when nothing."""
        modules: dict[int, str] = {}
        for joint in component.joints:
            named = self._part(joint.part)
            if named is None:
                continue
            if named.a is not None and named.b is not None:
                modules |= {joint.a: named.a, joint.b: named.b}
            elif named.cable in self._catalog.cables:
                cable = self._catalog.cables[str(named.cable)]
                problems = self._cable_problems(component, cable)
                head = min(problems, key=lambda end: len(problems[end]))
                return Choice(
                    cable.medium, "named in cabling.parts of the spec", cable=cable.key, head=head, forced=True
                )
        return Choice("", "", modules=modules) if modules else None

    # Ranking

    def _usd(self, kind: str, key: str, links: int) -> float | None:
        price = known_price(self._catalog, self._spec, kind, key)
        return None if price is None else price.usd / links

    def _ranked(self, choices: Sequence[Choice]) -> list[Choice]:
        """Return the choices, the best first: the best of each medium by coding and cost, then the media by cost."""
        best: dict[str | None, Choice] = {}
        others = []
        for choice in sorted(choices, key=lambda one: (self._unlike_host(one), *self._cost(one, choices), _names(one))):
            if choice.medium in best:
                others.append(choice)
            else:
                best[choice.medium] = choice
        prefer = self._spec.cabling.prefer
        liked = {medium: prefer.index(medium) if medium in prefer else len(prefer) for medium in MEDIUM_RANK}
        leading = list(best.values())
        return (
            sorted(leading, key=lambda one: (liked[str(one.medium)], *self._cost(one, leading), _names(one))) + others
        )

    def _cost(self, choice: Choice, among: Sequence[Choice]) -> tuple[float, int]:
        """Return what ``choice`` costs over the lifetime where that is known of all, else its power; then its medium's rank."""
        watts = choice.watts if choice.watts is not None else np.inf
        medium = MEDIUM_RANK.index(choice.medium or "smf")
        if choice.usd is not None and all(other.usd is not None and other.watts is not None for other in among):
            return choice.usd + energy_usd(self._spec, watts), medium
        return watts, medium

    def _unlike_host(self, choice: Choice) -> int:
        """Return how many ends are not coded for their host by name: among equals the hosts' own parts come first.

        A box without a vendor in the catalog goes with the hosts that it faces.
        """
        ends = choice.sockets if choice.cable is not None else tuple(choice.modules)
        hosts = {self._kinds[end].vendor for end in ends} - OPEN_VENDORS
        if choice.cable is not None:
            return int(self._catalog.cables[choice.cable].coding not in hosts)
        own = {end: {self._kinds[end].vendor} - OPEN_VENDORS or hosts for end in ends}
        return sum(self._catalog.optics[key].coding not in own[end] for end, key in choice.modules.items())

    def _better(self, one: Choice, other: Choice) -> bool:
        """Return whether ``one`` is better than ``other``, which has the same interfaces."""
        return self._ranked([one, other])[0] is one

    def _compared(self, best: Choice, other: Choice) -> str:
        if best.usd is not None and other.usd is not None:
            return f"${other.usd:,.0f} and {_watts(other.watts)} against ${best.usd:,.0f} and {_watts(best.watts)} per link"
        coding = self._unlike_host(other) - self._unlike_host(best)
        if best.medium == other.medium and coding > 0:
            return f"{_watts(other.watts)} against {_watts(best.watts)} per link, but fewer ends have their host's own coding"
        if other.watts == best.watts:
            return f"{_watts(other.watts)} as well; {best.medium} comes before {other.medium}"
        return f"{_watts(other.watts)} against {_watts(best.watts)} per link"

    def _with_reason(self, best: Choice, beaten: list[Rejected], rejected: list[Rejected], forced: bool) -> Choice:
        if forced:
            reason = "named in cabling.parts of the spec"
        else:
            basis = "price and energy" if best.usd is not None else "power, prices being unknown"
            reason = f"least {basis} ({_watts(best.watts)} per link)"
            if best.medium in self._spec.cabling.prefer:
                reason = f"preferred medium {best.medium} of the spec; {reason}"
            if beaten:
                reason += f"; next {beaten[0].name}: {beaten[0].why}"
            if rejected:
                reason += f"; not feasible: {_list(rejected, 2)}"
        return Choice(
            best.medium,
            reason,
            cable=best.cable,
            head=best.head,
            modules=best.modules,
            cords=best.cords,
            usd=best.usd,
            watts=best.watts,
            forced=forced,
            rejected=(*beaten, *rejected),
        )

    @staticmethod
    def _length(required_m: float, lengths_m: Sequence[float]) -> float:
        """Return the shortest length on sale for ``required_m``; NaN when none is long enough."""
        return float(stock_length(np.array([required_m]), lengths_m)[0])


def connector_ports(catalog: Catalog, optic: str, socket: Socket) -> int:
    """Return how many ports of ``socket`` share a connector of the module ``optic``."""
    return ports_per_connector(catalog, catalog.optics[optic], socket)


def _module_names(modules: Sequence[Optic], why: str) -> list[str]:
    """Return the modules that ``why`` does not name itself, or the first when it names all."""
    return [module.name for module in modules if module.name not in why] or [modules[0].name]


def _names(choice: Choice) -> tuple[str, ...]:
    return (choice.cable or "", *sorted(choice.modules.values()))


def _named(choice: Choice) -> str:
    return choice.cable or f"{choice.medium} with {' + '.join(sorted(set(choice.modules.values())))}"


def _watts(watts: float | None) -> str:
    return "unknown power" if watts is None else f"{watts:.1f} W"


def _once(rejected: Iterable[Rejected]) -> list[Rejected]:
    return list(dict.fromkeys(rejected))


def _list(rejected: Sequence[Rejected], most: int) -> str:
    shown = "; ".join(item.why if item.name in item.why else f"{item.name}: {item.why}" for item in rejected[:most])
    return shown + (f"; and {len(rejected) - most} more" if len(rejected) > most else "")
