"""Does this cable work between these two sockets? One set of rules for the choice of parts and for the linter.

A problem carries the code of the linter's rule that it breaks, what is wrong and how to mend it. The choice of parts takes
nothing that has a ``blocking`` problem, and keeps the text as the reason; the linter runs the same functions over what a plan
has, so that parts the user insists on are held to the same rules.

Sources: the catalog's entries with theirs; the rules are those of NVIDIA's LinkX and structured cabling guides, IEEE 802.3
and the field issues listed in docs/field-issues.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from railwright.catalog.cables import Cable, CableEnd
from railwright.catalog.fibres import FibreCable
from railwright.catalog.interop import cage_accepts, host_match, optical_match
from railwright.catalog.load import Catalog
from railwright.catalog.model import Entry
from railwright.catalog.optics import Optic, Pmd
from railwright.design.link_budget import Budget, check_channel, mated_pairs
from railwright.design.sockets import Socket
from railwright.spec.cabling import Cabling
from railwright.units import counted

THIN_MARGIN_DB = {"smf": 0.5, "mmf": 0.3}
"""Margin below which ageing, repair and dirt can end a link (from memory, unverified)."""
FAST_LANE_GBPS = 100.0
"""Lane rate from which plants are held to the structured cabling rules for NDR and 400G."""
SHORT_COPPER_M = 1.0
"""Passive copper of 100G lanes up to this length links without link training (SONiC pull 925)."""
OPEN_VENDORS = frozenset({"any", "generic", "OEM"})
"""Makers of hosts that are not known to look at the coding of a part."""
FEC_OF_LANE = {25.0: "rs528", 50.0: "rs544", 100.0: "rs544", 200.0: "rs544"}
"""What copper of a lane rate needs (IEEE 802.3 clauses 91, 119, 134, 161)."""


@dataclass(frozen=True)
class Problem:
    """A rule that is broken. ``where`` is ``a``, ``b`` or empty for the link as a whole."""

    code: str
    text: str
    fix: str
    where: str = ""
    blocking: bool = True


@dataclass(frozen=True)
class Plant:
    """The fibre plant of a channel: patch panels, splices, grade of connectors, class of multimode, polarity of trunks."""

    panels: int
    splices: int
    grade: str
    multimode: str
    trunk_polarity: str

    @classmethod
    def of(cls, cabling: Cabling) -> "Plant":
        """Return the plant of the spec."""
        return cls(
            panels=cabling.patch_panels,
            splices=cabling.splices,
            grade=cabling.connectors,
            multimode=cabling.multimode,
            trunk_polarity=cabling.trunk_polarity,
        )

    def pair_loss_db(self, catalog: Catalog, family: str) -> float:
        """Return the loss of a mated pair of ``family`` in the plant's grade (or the only grade there is)."""
        found = [entry for entry in catalog.connectors.values() if entry.family == family]
        graded = [entry for entry in found if entry.grade == self.grade]
        return max((entry.loss_db for entry in graded or found), default=0.0)


def ports_of(catalog: Catalog, optic: Optic, gbps: float) -> int:
    """Return how many logical ports of ``gbps`` the module gives.

    These are whole legs, the lower rates that it names, and the splits of its interface as far as the electrical lanes follow
    them: any split without a gearbox, single lanes with one.
    """
    pmd = catalog.pmds[optic.pmd]
    if gbps == pmd.gbps:
        return optic.legs
    parts = int(pmd.gbps // gbps)
    if gbps > pmd.gbps or pmd.gbps % gbps:
        return 0
    splits = f"{parts}x{gbps:g}" in pmd.splits and (gbps == pmd.lane_gbps or optic.host_lane_gbps == pmd.lane_gbps)
    return optic.legs * parts if splits or gbps in optic.lower_gbps else 0


def ports_per_connector(catalog: Catalog, optic: Optic, socket: Socket) -> int:
    """Return how many logical ports of ``socket`` share one connector of the module."""
    return max(1, -(-socket.ports // optic.connectors))


def power_w(part: Optic) -> float | None:
    """Return the most that a module draws, the typical draw where the most is not known."""
    return part.power_max_w if part.power_max_w is not None else part.power_typical_w


def module_problems(catalog: Catalog, socket: Socket, optic: Optic, where: str) -> Iterator[Problem]:
    """Yield what keeps ``optic`` from working in ``socket``."""
    fits = cage_accepts(catalog, socket.device, socket.form_factor, optic.form_factor)
    if not fits.works:
        yield Problem(
            "RW731", f"{optic.name} does not fit {socket}: {fits.reason}", "take a module of the cage's kind", where
        )
    electrical = host_match(catalog, optic, socket.lane_gbps, socket.lanes)
    if not electrical.works:
        yield Problem(
            "RW732",
            f"{socket} cannot drive {optic.name}: {electrical.reason}",
            "take a module with the electrical lanes of the cage",
            where,
        )
    offered = ports_of(catalog, optic, socket.gbps)
    if offered < socket.ports:
        yield Problem(
            "RW737",
            f"{optic.name} has no application for {socket.mode}G in {socket}"
            + (
                f" (it gives {offered}x{socket.gbps:g}G)"
                if offered
                else f" (it carries {optic.legs}x{optic.gbps / optic.legs:g}G)"
            ),
            "choose a breakout mode that the module advertises, or another module",
            where,
        )
    draw = power_w(optic)
    if socket.limit_w is not None and draw is not None and draw > socket.limit_w:
        yield Problem(
            "RW711",
            f"{optic.name} draws {draw:g} W, {socket} gives {socket.limit_w:g} W",
            "take a module of less power, or a cage with a higher limit",
            where,
        )
    if catalog.pmds[optic.pmd].linear and not socket.linear:
        yield Problem(
            "RW738",
            f"{socket} is not known to be qualified for linear modules, and {optic.name} leaves the signal to the host",
            "take a retimed module, or qualify the port (cages.linear in your catalog file)",
            where,
        )
    yield from _protocol(socket, optic.protocols, optic.name, where)
    yield from _coding(socket, optic, optic.coding, where)


def pair_problems(catalog: Catalog, a: Optic, b: Optic) -> Iterator[Problem]:
    """Yield what keeps two modules from lighting up against each other."""
    one, other = catalog.pmds[a.pmd], catalog.pmds[b.pmd]
    match = optical_match(catalog, a.pmd, b.pmd)
    if not match.works:
        fast = 200 in (one.lane_gbps, other.lane_gbps) and one.lane_gbps != other.lane_gbps
        yield Problem(
            "RW734" if fast else "RW733",
            f"{a.name} ({one.name}) does not link with {b.name} ({other.name}): {match.reason}"
            + ("; modules of 200G lanes do not downshift" if fast else ""),
            f"take the same interface at both ends, for example {one.name}",
        )
    if one.fec != other.fec:
        yield Problem(
            "RW736",
            f"{one.name} runs {one.fec} and {other.name} {other.fec}",
            "take interfaces with the same error correction",
        )


def cord_problems(
    catalog: Catalog,
    ends: tuple[tuple[Socket, Optic], tuple[Socket, Optic]],
    cord: FibreCable,
    plant: Plant,
    length_m: float,
) -> Iterator[Problem]:
    """Yield what keeps ``cord`` from joining two modules; its head (the side with one connector) may be at either end."""
    (socket_a, a), (socket_b, b) = ends
    pmds = catalog.pmds[a.pmd], catalog.pmds[b.pmd]
    kind = catalog.fibres[cord.fibre].kind
    for optic, pmd, where in ((a, pmds[0], "a"), (b, pmds[1], "b")):
        if pmd.fibre_kind != kind:
            yield Problem(
                "RW745",
                f"{optic.name} needs {pmd.fibre_kind} fibre, {cord.name} is {kind}",
                "take the fibre of the module",
                where,
            )
    shared = ports_per_connector(catalog, a, socket_a), ports_per_connector(catalog, b, socket_b)
    head, tail = (a, b) if shared[0] >= shared[1] else (b, a)
    if {head.connector, tail.connector} != {cord.connector, cord.far_connector} or (
        cord.tails > 1 and (head.connector, tail.connector) != (cord.connector, cord.far_connector)
    ):
        yield Problem(
            "RW743",
            f"{cord.name} has {cord.connector} and {cord.far_connector}, the modules {head.connector} and {tail.connector}",
            "take a cord or harness with the connectors of both modules",
        )
    else:
        yield from _faces(a, b, cord)
    wanted = max(shared)
    if min(shared) > 1:
        yield Problem(
            "RW747",
            f"{wanted} ports share a connector at both ends; a cord can split toward one end only",
            "use a breakout with one port per connector at one end",
        )
    elif cord.tails != wanted:
        yield Problem(
            "RW747",
            f"{wanted} ports share one connector of {head.name}, {cord.name} has {cord.tails} far end(s)",
            "take straight cords for one port per connector, splitters for two: one kind in a whole module",
        )
    if cord.tails > 1 and any(len(pmd.wavelengths_nm.split(",")) > 1 or "bidi" in pmd.wavelength_plan for pmd in pmds):
        yield Problem(
            "RW749",
            f"{cord.name} splits fibres, {pmds[0].name} carries its lanes as wavelengths in one fibre",
            "take a parallel interface (DR4, SR4) for a breakout",
        )
    limit = catalog.fibres[cord.fibre].plant_reach_m.get("splitter")
    if cord.tails > 1 and limit is not None and length_m > limit and cord.connector == cord.far_connector:
        yield Problem(
            "RW748",
            f"a splitter of {length_m:.0f} m; the plant allows {limit:g} m",
            "place the ends nearer, or split by switch ports",
        )
    if cord.connector.startswith("mpo"):
        yield from _polarity(catalog, cord, plant)


def _faces(a: Optic, b: Optic, cord: FibreCable) -> Iterator[Problem]:
    for optic, where in ((a, "a"), (b, "b")):
        mixed = cord.connector != cord.far_connector
        if not (mixed and optic.connector == cord.far_connector) and optic.polish != cord.polish:
            yield Problem(
                "RW742",
                f"{optic.name} has a face of {optic.polish.upper()}, {cord.name} one of {cord.polish.upper()}",
                "take a cord with the face of the module: APC and UPC never mate",
                where,
            )
        if optic.gender != "none" and cord.gender == optic.gender and optic.connector.startswith("mpo"):
            yield Problem(
                "RW744",
                f"{optic.name} and {cord.name} are both {cord.gender}",
                "modules are male (with pins), so take a female cord; trunks are male",
                where,
            )


def _polarity(catalog: Catalog, cord: FibreCable, plant: Plant) -> Iterator[Problem]:
    cords = 1 if plant.panels == 0 else 2
    trunks = max(0, plant.panels - 1)
    flips = cords * catalog.polarities[cord.polarity].flips + trunks * catalog.polarities[plant.trunk_polarity].flips
    if flips % 2 == 0:
        trunk = f" and {trunks} trunk of {plant.trunk_polarity}" if trunks else ""
        yield Problem(
            "RW741",
            f"{counted(cords, 'cord', 'cords')} of {cord.polarity}{trunk} flip the fibres {counted(flips, 'time', 'times')}, so "
            "that transmitters face transmitters",
            "an odd number of flips: type B end to end, with no panel or two (a channel of one panel needs one type A cord)",
        )


def reach_m(catalog: Catalog, a: Optic, b: Optic, cord: FibreCable) -> tuple[float, str]:
    """Return how far a channel reaches and what limits it: the shortest of both modules, their pair, the cord and the plant."""
    fibre, limits = catalog.fibres[cord.fibre], dict[str, float]()
    for optic in (a, b):
        pmd = catalog.pmds[optic.pmd]
        limits[optic.name] = optic.reach_m.get(fibre.key, pmd.reach_m.get(fibre.key, 0.0))
    pair = next((p for p in catalog.interop.values() if {a.pmd, b.pmd} == set(p.pmds) and a.pmd != b.pmd), None)
    if pair is not None and fibre.key in pair.reach_m:
        limits[pair.name] = pair.reach_m[fibre.key]
    if cord.reach_m is not None:
        limits[cord.name] = cord.reach_m
    kind = "duplex" if cord.connector == "lc-duplex" else "straight"
    if catalog.pmds[a.pmd].lane_gbps >= FAST_LANE_GBPS and fibre.kind == "mmf" and kind in fibre.plant_reach_m:
        limits[f"the {fibre.name} plant"] = fibre.plant_reach_m[kind]
    limiting = min(limits, key=lambda name: limits[name])
    return limits[limiting], limiting


def channel_budget(catalog: Catalog, a: Optic, b: Optic, cord: FibreCable, plant: Plant, length_m: float) -> Budget:
    """Return the link budget of a channel of ``length_m``; the connector with the larger loss counts for all pairs."""
    losses = [plant.pair_loss_db(catalog, family) for family in {cord.connector, cord.far_connector}]
    return check_channel(
        catalog, (a.pmd, b.pmd), cord.fibre, length_m, max(losses), mated_pairs(plant.panels), plant.splices
    )


def channel_problems(
    catalog: Catalog, a: Optic, b: Optic, cord: FibreCable, plant: Plant, length_m: float
) -> Iterator[Problem]:
    """Yield what keeps a channel of ``length_m`` from carrying light enough: reach and the checks A to D."""
    reach, limiting = reach_m(catalog, a, b, cord)
    if length_m > reach:
        yield Problem(
            "RW726",
            f"{length_m:.1f} m is beyond the {reach:g} m of {limiting}",
            "the shorter end counts: take parts of longer reach at both ends, or place the ends nearer",
        )
    budget = channel_budget(catalog, a, b, cord, plant, length_m)
    loss, margin, power = float(budget.loss_db), float(budget.margin_db), float(budget.power_margin_db)
    pairs = mated_pairs(plant.panels)
    of = f"{loss:.3f} dB over {length_m:.0f} m with {pairs} {plant.grade} pairs"
    if margin < 0:
        yield Problem(
            "RW721",
            f"{of}, the channel may lose {budget.limit_db:g} dB",
            "low-loss connectors, fewer panels, or a longer-reach interface",
        )
    if power < 0:
        yield Problem(
            "RW722",
            f"{of}, transmitter and receiver leave {loss + power:.2f} dB",
            "low-loss connectors, fewer panels, or a longer-reach interface",
        )
    kind = catalog.fibres[cord.fibre].kind
    if 0 <= np.fmin(margin, power) < THIN_MARGIN_DB[kind]:
        yield Problem(
            "RW723",
            f"{of} leaves {np.fmin(margin, power):.3f} dB, less than {THIN_MARGIN_DB[kind]:g} dB for ageing, repair and dirt",
            "low-loss connectors, fewer panels, or a longer-reach interface",
            blocking=False,
        )
    if float(budget.bandwidth_margin_m) < 0:
        yield Problem(
            "RW724",
            f"{length_m:.0f} m of {cord.fibre} is {-float(budget.bandwidth_margin_m):.0f} m more than its bandwidth allows",
            "a better multimode class, or single-mode",
        )
    if float(budget.overload_margin_db) < 0:
        yield Problem(
            "RW725",
            f"a strong transmitter overloads the receiver by up to {-float(budget.overload_margin_db):.1f} dB on a short channel",
            "an attenuator, or the same reach class at both ends",
            blocking=False,
        )


def cable_problems(
    catalog: Catalog, cable: Cable, head: Socket, tail: Socket, length_m: float, wheres: tuple[str, str] = ("a", "b")
) -> Iterator[Problem]:
    """Yield what keeps a cable with fixed ends from joining ``head`` and ``tail`` over ``length_m``."""
    for socket, end, where in ((head, cable.head, wheres[0]), (tail, cable.tails, wheres[1])):
        yield from _plug(catalog, cable, socket, end, where)
        yield from _protocol(socket, cable.protocols, cable.name, where)
        yield from _coding(socket, cable, cable.coding, where)
    if head.ports != cable.head.count * cable.tails.count or tail.ports != 1:
        straight = cable.tails.count == 1 and head.ports == tail.ports
        if not straight:
            yield Problem(
                "RW737",
                f"{cable.name} joins one cage to {cable.tails.count}, the ports are {head.mode}G and {tail.mode}G per cage",
                "take a cable with as many far ends as the cage has ports",
            )
    ports = head.ports
    if cable.gbps != ports * head.gbps and cable.medium != "cat6":
        yield Problem(
            "RW737",
            f"{cable.name} carries {cable.gbps:g}G, the cage {head.mode}G",
            "take a cable of the cage's whole rate",
        )
    rates = ((head, cable.lane_gbps, wheres[0]), (tail, cable.tail_lane_gbps or cable.lane_gbps, wheres[1]))
    for socket, rate, where in rates:
        if cable.medium != "cat6" and rate not in socket.copper_rates:
            runs = " or ".join(f"{value:g}G" for value in socket.copper_rates) or "no lane rate for it"
            yield Problem(
                "RW732",
                f"{cable.name} has lanes of {rate:g}G, {socket} runs {runs}; copper has no gearbox",
                "the same lane rate at both ends (CR8 never links with CR4), retimed copper with a gearbox, or optics",
                where,
            )
    reach = cable.reach_m if cable.reach_m is not None else max(cable.lengths_m, default=0.0)
    if length_m > reach:
        yield Problem(
            "RW726",
            f"{length_m:.1f} m is beyond the {reach:g} m of {cable.name}; it is not made so long",
            "take its name out of cabling.parts so that a part is chosen, name one of longer reach, or place the ends nearer",
        )
    if cable.medium == "dac" and cable.lane_gbps >= FAST_LANE_GBPS and length_m > SHORT_COPPER_M:
        yield Problem(
            "RW753",
            f"{cable.name} runs lanes of {cable.lane_gbps:g}G over {length_m:.1f} m; both ends need link training",
            "turn auto-negotiation and link training on at both ends",
            blocking=False,
        )


def _plug(catalog: Catalog, cable: Cable, socket: Socket, end: CableEnd, where: str) -> Iterator[Problem]:
    fits = [cage_accepts(catalog, socket.device, socket.form_factor, plug) for plug in end.form_factors]
    if not any(fit.works for fit in fits):
        yield Problem(
            "RW731",
            f"{cable.name} has no plug for {socket}: {fits[0].reason}",
            "take a cable with the cage's plug",
            where,
        )
    if socket.limit_w is not None and end.power_w is not None and end.power_w > socket.limit_w:
        yield Problem(
            "RW711",
            f"a plug of {cable.name} draws {end.power_w:g} W, {socket} gives {socket.limit_w:g} W",
            "take a cable of less power",
            where,
        )


def _protocol(socket: Socket, protocols: tuple[str, ...], name: str, where: str) -> Iterator[Problem]:
    if socket.protocol not in protocols and not socket.is_twisted_pair:
        yield Problem(
            "RW735",
            f"{name} runs {' and '.join(protocols)} only, {socket} is {socket.protocol}",
            "take a part for the link layer of the network (parts with -T are for Ethernet)",
            where,
        )


def _coding(socket: Socket, part: Entry, coding: str, where: str) -> Iterator[Problem]:
    if coding not in ("any", "as ordered", socket.vendor) and socket.vendor not in OPEN_VENDORS:
        yield Problem(
            "RW739",
            f"{part.name} is coded for {coding}, {socket} is by {socket.vendor} and may refuse it",
            "order the part coded for the host",
            where,
        )


def link_fec(pmd: Pmd | None, lane_gbps: float) -> str:
    """Return the error correction that a link needs: that of its interface, or by lane rate on copper."""
    return pmd.fec if pmd is not None else FEC_OF_LANE.get(lane_gbps, "none")


def setting_problems(
    needed: str, fec_a: str | None, fec_b: str | None, autoneg: bool | None, *, optical: bool, lane_gbps: float
) -> Iterator[Problem]:
    """Yield what is wrong with the error correction and auto-negotiation that the spec sets for a link."""
    set_a, set_b = fec_a or needed.partition("+")[0], fec_b or needed.partition("+")[0]
    if set_a != set_b:
        yield Problem("RW736", f"the ends are set to {set_a} and {set_b}", f"set {needed} at both ends")
    for fec, where in ((set_a, "a"), (set_b, "b")):
        if fec != needed.partition("+")[0]:
            yield Problem(
                "RW751", f"set to {fec}, lanes of {lane_gbps:g}G of this link need {needed}", f"set {needed}", where
            )
    if optical and autoneg:
        yield Problem("RW752", "auto-negotiation is on over optics, which cannot negotiate", "turn it off at both ends")
    if not optical and autoneg is False and lane_gbps >= FAST_LANE_GBPS:
        yield Problem(
            "RW752",
            f"auto-negotiation is off on copper of {lane_gbps:g}G lanes, so the link cannot train",
            "turn auto-negotiation and link training on at both ends",
        )
