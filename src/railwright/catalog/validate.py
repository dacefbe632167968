"""Is a catalog consistent in itself? Entries that a schema accepts and that still cannot be true.

Each check reads one entry (and what it refers to) and yields findings with a stable code, RW901 and up. The packaged files
have none (a test holds that); for a user's own file they are warnings: an odd entry still plans.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from railwright.catalog.load import KINDS, Catalog
from railwright.catalog.model import Nic, Record, Server, Switch
from railwright.catalog.port_names import FIELDS, port_names
from railwright.errors import nearest
from railwright.findings import Finding, Severity

# GT/s per lane and the share left after line coding: 128b/130b up to generation 5, 242 of 256 bytes per flit in generation 6.
_PCIE_LANE_GBPS = {3: 8 * 128 / 130, 4: 16 * 128 / 130, 5: 32 * 128 / 130, 6: 64 * 242 / 256}

_STANDARDS = {
    "RW901": "the ASIC's capacity and the platform's port list",
    "RW902": "electrical lanes of the cage",
    "RW903": "the catalog's own references",
    "RW904": "PCI Express Base Specification 3.0 to 6.0, lane rates",
    "RW905": "the catalog's own references",
    "RW906": "the operating system's port numbering",
}


def catalog_findings(catalog: Catalog, *, only_user: bool = False) -> list[Finding]:
    """Return the inconsistencies of all entries, or of those that the user's file gives (``only_user``)."""
    keys = catalog.user_keys if only_user else [(kind, key) for kind in KINDS for key in catalog.kind(kind)]
    return [finding for kind, key in keys for finding in _entry_findings(catalog, catalog.kind(kind)[key])]


def _entry_findings(catalog: Catalog, entry: Record) -> Iterator[Finding]:
    if isinstance(entry, Nic):
        yield from _nic(entry)
    elif isinstance(entry, Server):
        yield from _server(catalog, entry)
    elif isinstance(entry, Switch):
        yield from _switch(entry)


def _finding(code: str, subject: str, message: str, fix: str) -> Finding:
    return Finding(code, Severity.WARNING, subject, message, fix, _STANDARDS[code])


def _switch(switch: Switch) -> Iterator[Finding]:
    report = partial(_finding, subject=f"switches.{switch.key}")
    filled = sum(group.count * group.gbps for group in switch.cages if group.purpose != "management")
    if filled != switch.capacity_gbps:
        ports = filled / switch.cages[0].gbps
        expected = switch.capacity_gbps / switch.cages[0].gbps
        yield report(
            "RW901",
            message=f"its cages carry {filled:g} Gb/s at their highest rates, the ASIC {switch.capacity_gbps:g} Gb/s "
            f"({ports:g} cages of {switch.cages[0].gbps:g}G where {expected:g} would fill it)",
            fix="list every cage, or set capacity_gbps to what the platform's ports really take",
        )
    for number, group in enumerate(switch.cages):
        for mode in group.breakouts:
            count, rate = (int(part) for part in mode.split("x"))
            if count > group.lanes or rate * count > group.lanes * group.lane_gbps:
                yield report(
                    "RW902",
                    message=f"breakout {mode} of cages[{number}] does not fit {group.lanes} lanes of {group.lane_gbps:g}G",
                    fix="remove the mode, or mend lanes and lane_gbps",
                )
    for nos in switch.nos:
        problem = _port_name_problem(switch, nos)
        if problem:
            yield report(
                "RW906", message=f"port_name of {nos}: {problem}", fix=f"write a template with {', '.join(FIELDS)}"
            )


def _port_name_problem(switch: Switch, nos: str) -> str | None:
    """Return why the names of ``nos`` do not work, or None: every cage at each of its breakout modes must have its own."""
    if nos not in switch.port_name:
        return "is missing"
    first = 1
    names: list[str] = []
    for group in switch.cages:
        per_cage = max(int(mode.split("x")[0]) for mode in group.breakouts)
        lanes = max(group.lanes // per_cage, 1)
        slots = np.arange(group.count * per_cage)
        try:
            names += port_names(
                switch, first + slots // per_cage, slots % per_cage * lanes, lanes, per_cage, nos
            ).to_list()
        except KeyError as error:
            return f"unknown field {error}{nearest(str(error.args[0]), FIELDS)}"
        first += group.count
    return None if len(set(names)) == len(names) else f"two ports get the same name ({switch.port_name[nos]!r})"


def _nic(nic: Nic) -> Iterator[Finding]:
    report = partial(_finding, subject=f"nics.{nic.key}")
    fastest = max(nic.port_gbps.values())
    lane_gbps = _PCIE_LANE_GBPS.get(nic.pcie_generation)
    if lane_gbps is not None and nic.pcie_lanes * lane_gbps < fastest:
        yield report(
            "RW904",
            message=f"PCIe generation {nic.pcie_generation} with {nic.pcie_lanes} lanes carries "
            f"{nic.pcie_lanes * lane_gbps:.0f} Gb/s, less than one port of {fastest:g}G",
            fix="mend pcie_generation, pcie_lanes or port_gbps",
        )
    if nic.lanes_per_port * max(nic.lane_gbps) < fastest:
        yield report(
            "RW902",
            message=f"a port of {fastest:g}G does not fit {nic.lanes_per_port} lanes of {max(nic.lane_gbps):g}G",
            fix="mend lanes_per_port, lane_gbps or port_gbps",
        )


def _server(catalog: Catalog, server: Server) -> Iterator[Finding]:
    report = partial(_finding, subject=f"servers.{server.key}")
    if server.gpu not in catalog.gpus:
        yield report(
            "RW903",
            message=f"its gpu {server.gpu!r} is not in the catalog{nearest(server.gpu, catalog.gpus)}",
            fix="name a GPU of the catalog or add it under gpus:",
        )
    if server.scale_up_gpus % server.gpus:
        yield report(
            "RW905",
            message=f"a scale-up domain of {server.scale_up_gpus} GPUs is not whole servers of {server.gpus}",
            fix="set scale_up_gpus to a multiple of gpus",
        )
    for purpose in ("backend", "frontend", "storage"):
        group = getattr(server, purpose)
        if group is None:
            continue
        if group.nic not in catalog.nics:
            yield report(
                "RW903",
                message=f"its {purpose} adapter {group.nic!r} is not in the catalog{nearest(group.nic, catalog.nics)}",
                fix="name an adapter of the catalog or add it under nics:",
            )
            continue
        nic = catalog.nics[group.nic]
        if group.gbps > max(nic.port_gbps.values()):
            yield report(
                "RW905",
                message=f"its {purpose} ports of {group.gbps:g}G are faster than those of {nic.key} "
                f"({max(nic.port_gbps.values()):g}G)",
                fix="mend the rate, or name the adapter that has it",
            )
        if group.ports > nic.ports:
            yield report(
                "RW905",
                message=f"it uses {group.ports} ports of each {purpose} adapter, {nic.key} has {nic.ports}",
                fix="mend ports and count, or name the adapter that has them",
            )
