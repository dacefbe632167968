"""Which optical interfaces light up against each other, and which cages take which modules.

Two interfaces of the same PMD work. Of the others only the pairs of ``data/interop.yaml`` do; for the rest the reason is read
off their properties (lane rate, modulation, wavelengths, fibre, lanes). Legs of twin-port modules count one by one.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from railwright.catalog.form_factors import CageRule
from railwright.catalog.load import Catalog
from railwright.catalog.optics import Optic, Pmd


@dataclass(frozen=True, slots=True)
class Verdict:
    """Does a pair work? ``reason`` says why not, or under which condition it does (empty: without any)."""

    works: bool
    reason: str = ""


def optical_match(catalog: Catalog, a: str, b: str) -> Verdict:
    """Return whether one port of PMD ``a`` lights up against one port of PMD ``b``, with the condition or the reason."""
    if a == b:
        return Verdict(True)
    pair = next((pair for pair in catalog.interop.values() if {a, b} == set(pair.pmds)), None)
    if pair is not None:
        return Verdict(True, pair.condition)
    return Verdict(False, "; ".join(_differences(catalog.pmds[a], catalog.pmds[b])) or "this pair is not known to work")


def _differences(a: Pmd, b: Pmd) -> Iterator[str]:
    if a.lane_gbps != b.lane_gbps:
        yield f"lane rates differ ({a.lane_gbps:g}G and {b.lane_gbps:g}G)"
    elif a.modulation != b.modulation:
        yield f"modulation differs ({a.modulation} and {b.modulation})"
    if a.fibre_kind != b.fibre_kind:
        yield f"fibre differs ({a.fibre_kind} and {b.fibre_kind})"
    elif a.wavelength_plan != b.wavelength_plan:
        yield f"wavelengths differ ({a.wavelengths_nm} nm and {b.wavelengths_nm} nm)"
    if a.lanes != b.lanes:
        yield f"lanes differ ({a.lanes} and {b.lanes})"
    elif a.fibres != b.fibres:
        yield f"fibre counts differ ({a.fibres} and {b.fibres})"
    if a.fec != b.fec:
        yield f"FEC differs ({a.fec} and {b.fec})"


def cage_accepts(catalog: Catalog, device: str, cage: str, module: str) -> Verdict:
    """Return whether the cages of form factor ``cage`` on ``device`` take modules of form factor ``module``.

    ``device`` is the key of a switch or an adapter; the rules of ``data/cage_compatibility.yaml`` for it come first, then
    what the cage's form factor takes.
    """
    rule = cage_rule(catalog, device, cage)
    accepted = rule.accepts if rule else (cage, *catalog.form_factors[cage].accepts)
    if module in accepted:
        return Verdict(True)
    reason = rule.rejects.get(module) if rule else None
    return Verdict(False, reason or f"{cage} cages take {', '.join(accepted)}, not {module}")


def cage_rule(catalog: Catalog, device: str, cage: str) -> CageRule | None:
    """Return the rule for the cages of ``device`` with form factor ``cage``, or None when only the form factor speaks."""
    rules = catalog.cage_compatibility.values()
    return next((rule for rule in rules if device in rule.devices and rule.cage == cage), None)


def host_match(catalog: Catalog, optic: Optic, lane_gbps: tuple[float, ...], lanes: int) -> Verdict:
    """Return whether a cage of ``lanes`` lanes that run at any of ``lane_gbps`` drives the electrical side of ``optic``."""
    if optic.host_lane_gbps not in lane_gbps:
        rates = ", ".join(f"{rate:g}G" for rate in lane_gbps)
        return Verdict(False, f"the module needs lanes of {optic.host_lane_gbps:g}G, the cage runs {rates}")
    if optic.host_lanes > lanes:
        return Verdict(False, f"the module needs {optic.host_lanes} lanes, the cage has {lanes}")
    if catalog.pmds[optic.pmd].linear:
        return Verdict(True, "linear module: the port must be qualified for it and the host must do RS(544,514)")
    return Verdict(True)
