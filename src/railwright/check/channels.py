"""The links of a plan as built, held to the rules of ``design.interoperability``: one look per kind of link, not per link."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from railwright.catalog.fibres import FibreCable
from railwright.catalog.interop import optical_match
from railwright.catalog.load import Catalog
from railwright.catalog.optics import Optic
from railwright.check.engine import Hit
from railwright.design.cabling import named_parts
from railwright.design.interoperability import (
    Plant,
    Problem,
    cable_problems,
    channel_problems,
    cord_problems,
    link_fec,
    module_problems,
    pair_problems,
    setting_problems,
)
from railwright.design.plan import Plan
from railwright.design.routes import find_routes
from railwright.design.sockets import Socket, find_sockets
from railwright.spec.cabling import Part
from railwright.units import counted


@dataclass(frozen=True)
class Found:
    """A problem of ``links`` links of one kind; ``a`` and ``b`` are the ends of the longest of them."""

    problem: Problem
    links: int
    a: str
    b: str


_last: tuple[Plan, dict[str, list[Found]]] | None = None


def link_problems(plan: Plan) -> dict[str, list[Found]]:
    """Return the problems of the cabled links of ``plan`` by code of rule; those of the last plan are kept."""
    global _last
    if _last is None or _last[0] is not plan:
        _last = plan, _look(plan)
    return _last[1]


def hits(plan: Plan, code: str) -> Iterator[Hit]:
    """Yield what the rule ``code`` has to say of the links of ``plan``."""
    for found in link_problems(plan).get(code, ()):
        problem = found.problem
        others = f"; {counted(found.links - 1, 'more link', 'more links')} alike" if found.links > 1 else ""
        yield Hit(f"{found.a} - {found.b}", f"{problem.text}{others}", fix=problem.fix or None)


def _look(plan: Plan) -> dict[str, list[Found]]:
    found: dict[str, list[Found]] = defaultdict(list)
    if not len(plan.table("cables")):
        return found
    kinds = find_sockets(plan)
    for row in _link_kinds(plan, kinds.socket).iter_rows(named=True):
        part = plan.spec.cabling.parts[row["named"]] if row["named"] >= 0 else None
        ends = _sockets(kinds.kinds[row["a_socket"]], kinds.kinds[row["b_socket"]], part)
        seen: set[tuple[str, str]] = set()
        problems = list(_problems(plan, row, ends, part))
        links = _links_with(plan, row, ends, part) if problems else Counter()
        for problem in problems:
            if (problem.code, problem.text) not in seen:
                seen.add((problem.code, problem.text))
                found[problem.code].append(Found(problem, links[problem.code], row["a"], row["b"]))
    return found


def _links_with(plan: Plan, row: dict[str, Any], ends: tuple[Socket, Socket], part: Part | None) -> Counter[str]:
    """Return how many links of a kind have each problem (by code): the shorter ones need not have it."""
    links: Counter[str] = Counter()
    for of_length in row["lengths"]:
        alike = row | {"length_m": of_length["length_m"]}
        for code in {problem.code for problem in _problems(plan, alike, ends, part)}:
            links[code] += of_length["count"]
    return links


def _sockets(a: Socket, b: Socket, part: Part | None) -> tuple[Socket, Socket]:
    if part is not None and part.linear:
        return replace(a, linear=True), replace(b, linear=True)
    return a, b


def _link_kinds(plan: Plan, socket: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pl.DataFrame:
    """Return one row per kind of cabled link, with the longest of them: ``part, medium, a_optic, b_optic, a_socket, b_socket,
    in_rack, named, length_m, a, b`` and ``lengths``, the links by ``length_m`` with their ``count``."""
    routes = find_routes(plan)
    modules = plan.table("modules").select("module_id", optic="part")
    ends = plan.table("cable_ends").join(modules, on="module_id", how="left").select("port_id", "optic")
    label = plan.ports.join(
        plan.devices.select("device_id", device="name"), on="device_id", how="left", maintain_order="left"
    ).select("port_id", label=pl.format("{}:{}", "device", "name"), socket=pl.Series(socket))
    known = label.join(ends, on="port_id", how="left")
    links = plan.links.select("a_port", "b_port", "cable_id").with_columns(
        in_rack=pl.Series(routes.in_rack), named=pl.Series(named_parts(plan))
    )
    for side in ("a", "b"):
        links = links.join(
            known.rename(
                {"port_id": f"{side}_port", "label": side, "socket": f"{side}_socket", "optic": f"{side}_optic"}
            ),
            on=f"{side}_port",
            how="left",
            maintain_order="left",
        )
    cabled = links.join(
        plan.table("cables").select("cable_id", "part", "medium", "length_m"), on="cable_id", maintain_order="left"
    ).filter(pl.col("part").is_not_null())
    kind = ["part", "a_optic", "b_optic", "a_socket", "b_socket", "in_rack", "named"]
    longest = pl.col("a", "b").sort_by("length_m", descending=True, maintain_order=True).first()
    return (
        cabled.group_by(kind, maintain_order=True)
        .agg(pl.col("length_m").max(), longest, lengths=pl.col("length_m").value_counts())
        .sort(*kind, nulls_last=False)
    )


def _problems(plan: Plan, row: dict[str, object], ends: tuple[Socket, Socket], part: Part | None) -> Iterator[Problem]:
    catalog, length = plan.catalog, float(str(row["length_m"]))
    a, b = ends
    key = str(row["part"])
    if key in catalog.cables and row["a_optic"] is None and row["b_optic"] is None:
        cable = catalog.cables[key]
        ways = [
            list(cable_problems(catalog, cable, a, b, length)),
            list(cable_problems(catalog, cable, b, a, length, ("b", "a"))),
        ]
        yield from min(ways, key=len)
        if cable.medium != "cat6":
            yield from _settings(link_fec(None, cable.lane_gbps), part, cable.lane_gbps, optical=cable.medium == "aoc")
        return
    cord = catalog.fibre_cables[key]
    optic_a, optic_b = _modules(catalog, cord, row["a_optic"], row["b_optic"])
    if not a.foreign:
        yield from module_problems(catalog, a, optic_a, "a")
    if not b.foreign:
        yield from module_problems(catalog, b, optic_b, "b")
    yield from pair_problems(catalog, optic_a, optic_b)
    plant = _plant(plan, in_rack=bool(row["in_rack"]))
    yield from cord_problems(catalog, ((a, optic_a), (b, optic_b)), cord, plant, length)
    if _comparable(catalog, optic_a.pmd, optic_b.pmd, cord.fibre):
        yield from channel_problems(catalog, optic_a, optic_b, cord, plant, length)
    pmd = catalog.pmds[optic_a.pmd]
    yield from _settings(link_fec(pmd, pmd.lane_gbps), part, pmd.lane_gbps, optical=True)


def _modules(catalog: Catalog, cord: FibreCable, a: object, b: object) -> tuple[Optic, Optic]:
    """Return the modules at both ends; that of somebody else is taken to be one that matches ours at the end of the cord."""
    own = catalog.optics[str(a or b)]
    if a is not None and b is not None:
        return own, catalog.optics[str(b)]
    far = next(
        (
            optic
            for optic in (own, *catalog.optics.values())
            if cord.connector != cord.far_connector
            and {optic.connector, own.connector} == {cord.connector, cord.far_connector}
            and optical_match(catalog, own.pmd, optic.pmd).works
        ),
        own,
    )
    return (own, far) if a is not None else (far, own)


def _comparable(catalog: Catalog, a: str, b: str, fibre: str) -> bool:
    """Return whether a budget makes sense: both interfaces are for this kind of fibre."""
    kind = catalog.fibres[fibre].kind
    return all(catalog.pmds[key].fibre_kind == kind for key in (a, b))


def _plant(plan: Plan, *, in_rack: bool) -> Plant:
    plant = Plant.of(plan.spec.cabling)
    return replace(plant, panels=0, splices=0) if in_rack else plant


def _settings(needed: str, part: Part | None, lane_gbps: float, *, optical: bool) -> Iterator[Problem]:
    if part is not None:
        yield from setting_problems(needed, part.fec_a, part.fec_b, part.autoneg, optical=optical, lane_gbps=lane_gbps)
