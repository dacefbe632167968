"""Is a catalog consistent in itself? Entries that a schema accepts and that still cannot be true.

Each check reads one entry (and what it refers to) and yields problems with a stable code, RW911 and up. The packaged files
have none (a test holds that); for a user's own file they are warnings: an odd entry still plans.
"""

from collections.abc import Iterator

import numpy as np

from railwright.catalog.load import KINDS, Catalog
from railwright.catalog.model import Nic, NicGroup, Record, Server, Switch
from railwright.catalog.port_names import FIELDS, port_names
from railwright.catalog.validate_parts import Problem, inconsistency, part_problems, unknown
from railwright.errors import nearest
from railwright.findings import Finding


def catalog_findings(catalog: Catalog, *, only_user: bool = False) -> list[Finding]:
    """Return the inconsistencies of all entries, or of those that the user's file gives (``only_user``)."""
    keys = catalog.user_keys if only_user else [(kind, key) for kind in KINDS for key in catalog.kind(kind)]
    return [
        inconsistency(f"{kind}.{key}", problem)
        for kind, key in keys
        for problem in _problems(catalog, catalog.kind(kind)[key])
    ]


def _problems(catalog: Catalog, entry: Record) -> Iterator[Problem]:
    if isinstance(entry, Nic):
        yield from unknown(catalog, "form_factors", [entry.form_factor], "form factor")
        yield from _nic(entry)
    elif isinstance(entry, Server):
        yield from _server(catalog, entry)
    elif isinstance(entry, Switch):
        yield from unknown(catalog, "form_factors", {group.form_factor for group in entry.cages}, "form factor")
        yield from _switch(entry)
    else:
        yield from part_problems(catalog, entry)


def _switch(switch: Switch) -> Iterator[Problem]:
    filled = sum(group.count * group.gbps for group in switch.cages if group.purpose != "management")
    if filled != switch.capacity_gbps:
        cage_gbps = switch.cages[0].gbps
        message = (
            f"its cages carry {filled:g} Gb/s at their highest rates, the ASIC {switch.capacity_gbps:g} Gb/s "
            f"({filled / cage_gbps:g} cages of {cage_gbps:g}G where {switch.capacity_gbps / cage_gbps:g} would fill it)"
        )
        yield "RW911", message, "list every cage, or set capacity_gbps to what the platform's ports really take"
    for number, group in enumerate(switch.cages):
        for mode in group.breakouts:
            count, rate = (int(part) for part in mode.split("x"))
            if count > group.lanes or rate * count > group.lanes * group.lane_gbps:
                message = f"breakout {mode} of cages[{number}] does not fit {group.lanes} lanes of {group.lane_gbps:g}G"
                yield "RW912", message, "remove the mode, or mend lanes and lane_gbps"
    for nos in switch.nos:
        problem = _port_name_problem(switch, nos)
        if problem:
            yield "RW916", f"port_name of {nos}: {problem}", f"write a template with {', '.join(FIELDS)}"


def _port_name_problem(switch: Switch, nos: str) -> str | None:
    """Return why the names of ``nos`` do not work, or None: every cage split as far as it goes must keep them apart."""
    if nos not in switch.port_name:
        return "is missing"
    first = 1
    names: list[str] = []
    for group in switch.cages:
        per_cage = max(int(mode.split("x")[0]) for mode in group.breakouts)
        lanes = max(group.lanes // per_cage, 1)
        slots = np.arange(group.count * per_cage)
        cages = first + slots // per_cage
        try:
            names += port_names(switch, cages, slots % per_cage * lanes, lanes, per_cage, nos).to_list()
        except KeyError as error:
            return f"unknown field {error}{nearest(str(error.args[0]), FIELDS)}"
        first += group.count
    return None if len(set(names)) == len(names) else f"two ports get the same name ({switch.port_name[nos]!r})"


def _nic(nic: Nic) -> Iterator[Problem]:
    fastest = max(nic.port_gbps.values())
    slot_gbps = nic.host_gbps()
    if slot_gbps is not None and slot_gbps < fastest:
        message = (
            f"PCIe generation {nic.pcie_generation} with {nic.pcie_lanes} lanes carries {slot_gbps:.0f} Gb/s, "
            f"less than one port of {fastest:g}G"
        )
        yield "RW914", message, "mend pcie_generation, pcie_lanes or port_gbps"
    if nic.lanes_per_port * max(nic.lane_gbps) < fastest:
        message = f"a port of {fastest:g}G does not fit {nic.lanes_per_port} lanes of {max(nic.lane_gbps):g}G"
        yield "RW912", message, "mend lanes_per_port, lane_gbps or port_gbps"


def _server(catalog: Catalog, server: Server) -> Iterator[Problem]:
    yield from unknown(catalog, "gpus", [server.gpu], "gpu")
    if server.scale_up_gpus % server.gpus:
        message = f"a scale-up domain of {server.scale_up_gpus} GPUs is not whole servers of {server.gpus}"
        yield "RW915", message, "set scale_up_gpus to a multiple of gpus"
    for purpose in ("backend", "frontend", "storage"):
        group: NicGroup | None = getattr(server, purpose)
        if group is not None:
            yield from unknown(catalog, "nics", [group.nic], f"{purpose} adapter")
            yield from unknown(catalog, "form_factors", [group.form_factor], f"{purpose} form factor")
            if group.nic in catalog.nics:
                yield from _nic_group(catalog.nics[group.nic], group, purpose)


def _nic_group(nic: Nic, group: NicGroup, purpose: str) -> Iterator[Problem]:
    fastest = max(nic.port_gbps.values())
    if group.gbps > fastest:
        message = f"its {purpose} ports of {group.gbps:g}G are faster than those of {nic.key} ({fastest:g}G)"
        yield "RW915", message, "mend the rate, or name the adapter that has it"
    if group.ports > nic.ports:
        message = f"it uses {group.ports} ports of each {purpose} adapter, {nic.key} has {nic.ports}"
        yield "RW915", message, "mend ports and count, or name the adapter that has them"
    if group.form_factor != nic.form_factor:
        message = f"its {purpose} cages are {group.form_factor}, those of {nic.key} are {nic.form_factor}"
        yield "RW915", message, "mend the form factor, or name the adapter that has it"
