"""The plan for other tools: NetBox, containerlab, InfiniBand topology files, Graphviz."""

from collections.abc import Callable, Mapping
from pathlib import Path

from railwright.build import names
from railwright.build.containerlab import write_containerlab
from railwright.build.graphviz import write_dot
from railwright.build.ibdm_topo import write_topo
from railwright.build.netbox import write_netbox
from railwright.design.plan import Plan
from railwright.errors import InputError, nearest

Writer = Callable[[Plan, Path], list[Path]]

EXPORTS: Mapping[str, Writer] = {
    "netbox": write_netbox,
    "containerlab": write_containerlab,
    "topo": write_topo,
    "dot": write_dot,
}


def write_export(plan: Plan, kind: str, directory: Path) -> list[Path]:
    """Write ``plan`` for the tool ``kind`` (a key of ``EXPORTS``) into ``directory`` and return the files.

    Raises InputError for an unknown kind, for names that a file could read as syntax, and for a plan that the tool has no
    words for.
    """
    check_export(kind)
    names.check_plan(plan)
    return EXPORTS[kind](plan, directory)


def check_export(kind: str) -> None:
    """Raise InputError with the nearest spelling unless there is an export called ``kind``."""
    if kind not in EXPORTS:
        raise InputError(
            f"{kind!r} is no export{nearest(kind, EXPORTS)}; exports: {', '.join(EXPORTS)}", key="--export"
        )
