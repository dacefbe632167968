"""InfiniBand fabrics for ``ibdiagnet -t``, ``ibtopodiff`` and ``ibdmchk``: a ``.topo`` file each, and the systems it names.

A topology file speaks of systems (``QM9700``) that the tools must know. The tools of ibutils ship definitions of old systems
only, so an IBNL file per type goes with it: a switch is one node of as many ports, an adapter one node of one (formats: man
pages ``ibdm-topo-file`` and ``ibdm-ibnl-file``). Copy them into the tool's ``ibnl`` folder, or name theirs in
``IBDM_IBNL_PATH``.
"""

from pathlib import Path

import polars as pl

from railwright.build import opensm
from railwright.build.opensm import Fabric
from railwright.design.plan import Plan
from railwright.design.sockets import network_protocol
from railwright.errors import InputError
from railwright.spec.cluster import NetworkName

NETWORKS: tuple[NetworkName, ...] = ("backend", "storage")


def write_topo(plan: Plan, directory: Path) -> list[Path]:
    """Write ``FABRIC.topo`` for every InfiniBand fabric and ``ibnl/TYPE.ibnl`` for every system, and return the files.

    Raises InputError when no network of the plan is InfiniBand.
    """
    fabrics = [
        fabric
        for network in NETWORKS
        if network_protocol(plan.spec, network) == "infiniband"
        and not plan.links.filter(pl.col("network") == network).is_empty()
        for fabric in opensm.fabrics(plan, network)
    ]
    if not fabrics:
        raise InputError("no network of this plan is InfiniBand; a .topo file describes InfiniBand fabrics only")
    (directory / "ibnl").mkdir(parents=True, exist_ok=True)
    texts = {f"{fabric.name}.topo": opensm.topo(fabric) for fabric in fabrics}
    for fabric in fabrics:
        texts |= {f"ibnl/{system}.ibnl": text for system, text in systems(fabric).items()}
    for name, text in texts.items():
        (directory / name).write_text(text, encoding="utf-8")
    return [directory / name for name in texts]


def systems(fabric: Fabric) -> dict[str, str]:
    """Return the IBNL text of every kind of system in ``fabric``, by the name that :func:`opensm.topo` gives it."""
    found = {"HCA_1": _ibnl("HCA_1", "CA", 1)} if "Hca" in fabric.nodes["kind"] else {}
    switches = fabric.nodes.filter(pl.col("kind") == "Switch")
    for model, ports in switches.group_by("model", maintain_order=True).agg(pl.col("radix").max()).iter_rows():
        name = str(model).upper()
        found[name] = _ibnl(name, "SW", ports)
    return found


def _ibnl(name: str, kind: str, ports: int) -> str:
    # The tools take a definition only after a blank line, and with a device name other than the system's, without a hyphen.
    lines = ["", f"TOPSYSTEM {name}", "", f"NODE {kind} {ports} DEV U1"]
    return "\n".join([*lines, *(f"   {port} -> P{port}" for port in range(1, ports + 1)), ""])
