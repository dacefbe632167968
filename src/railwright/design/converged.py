"""Boxes on the backend's own leaves, where the user lets another network share it: they take ports that no GPU has.

Servers reach them through their backend NICs. The linter reports such a plan; here it only has to be built soundly: every box
on different leaves, from the last free cages up, so that the ports next to the servers stay free for more of them.
"""

from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.catalog.model import Switch
from railwright.design.attach import Boxes, add_boxes
from railwright.design.backend import design_backend
from railwright.design.context import Context, numbered, start_context
from railwright.design.entrance import EXTERNAL_ROUTERS, plan_entrances
from railwright.design.server_ports import converged_host, per_cage, port_rate
from railwright.design.storage_boxes import appliance_boxes
from railwright.design.wiring import Ends, Ids, cage_group
from railwright.errors import InputError
from railwright.spec.cluster import Counts

Index = NDArray[np.int64]
MOST_TRIALS = 16


def leave_room(context: Context) -> Context:
    """Return ``context`` with fewer servers per unit where the backend's leaves must also carry another network.

    Only where the user left the size of a unit open: the backend is designed with ever smaller units until all boxes find
    ports. Without such a size the first design that lacks ports says so.
    """
    spec, backend = context.spec, context.spec.backend
    if "backend" not in spec.converge or backend.servers_per_unit is not None or backend.counts != Counts():
        return context
    shapes = (backend.topology, "rail-optimized") if backend.topology == "auto" else (backend.topology,)
    for topology in shapes:
        size: int | None = None
        for _ in range(MOST_TRIALS):
            section = backend.model_copy(update={"servers_per_unit": size, "topology": topology})
            trial = start_context(spec.model_copy(update={"backend": section}), context.catalog)
            try:
                design_backend(trial)
                size = int(str(trial.decisions["backend"].facts["servers_per_unit"]))
                _stand_all(trial)
            except InputError:
                if size is None or size == 1:
                    break
                size -= max(1, size // MOST_TRIALS)
                continue
            if section.servers_per_unit is not None:
                context.decisions["backend"].choose(
                    "servers_per_unit",
                    section.servers_per_unit,
                    "smaller units than the leaves could hold: boxes of the networks that share the backend need ports",
                )
            return replace(context, spec=trial.spec)
    return context


def _stand_all(context: Context) -> None:
    """Stand every box that shares the backend on it."""
    if converged_host(context, "frontend") == "backend" and context.spec.frontend.enabled:
        frontend_on_backend(context)
    storage_on_backend(context)


def frontend_on_backend(context: Context) -> None:
    """Stand the entrance and the CPU nodes on backend leaves; raises InputError when ports or sites are too few."""
    if len(context.spec.sites) > 1:
        raise InputError(
            "a frontend of several sites needs switches of its own; take 'frontend' or 'backend' out of converge",
            key="converge",
        )
    platform = _leaf_platform(context)
    context.decisions["frontend"].choose(
        "topology",
        "on the backend",
        "asked for (converge): boxes of the entrance hang on free ports of backend leaves, servers use their backend NICs",
    )
    entrance = plan_entrances(context, platform)[0]
    site = context.spec.sites[0].name
    routers = min(EXTERNAL_ROUTERS, entrance.external_links)
    if routers:
        ids = context.wiring.add_devices(
            numbered("external{}", routers), role="external", network="frontend", site=site, model="external-router"
        )
        link = np.arange(entrance.external_links)
        leaf, slot = _free_ports(context, platform, entrance.external_gbps, len(link))
        context.wiring.connect(
            Ends(device=leaf, slot=slot, direction="up", platform=platform),
            Ends(device=ids[link % routers], slot=link // routers, direction="down"),
            network="frontend",
            tier="border",
            speed_gbps=entrance.external_gbps,
        )
    for boxes in (*entrance.doors, *entrance.nodes):
        stand_on_backend(context, boxes, site)


def storage_on_backend(context: Context) -> None:
    """Stand the storage appliances on backend leaves; raises InputError when ports are too few."""
    context.decisions["storage"].choose(
        "topology",
        "on the backend",
        "asked for (converge): appliances hang on free ports of backend leaves, servers use their backend NICs",
    )
    for site, boxes in appliance_boxes(context, "backend").items():
        stand_on_backend(context, boxes, context.spec.sites[site].name)


def stand_on_backend(context: Context, boxes: Boxes, site: str) -> None:
    """Add ``boxes`` and connect their ports to free ports of backend leaves, each port of a box on another leaf."""
    if not boxes.count:
        return
    platform = _leaf_platform(context)
    gbps = port_rate(platform, boxes.gbps)
    ids = add_boxes(context, boxes, site, f"{site}-" if len(context.spec.sites) > 1 else "")
    box, port = (axis.ravel() for axis in np.indices((boxes.count, boxes.all_ports)))
    leaf, slot = _free_ports(context, platform, gbps, len(box))
    context.wiring.connect(
        Ends(device=ids[box], slot=port, direction="host", name=boxes.port_name),
        Ends(device=leaf, slot=slot, direction="down", platform=platform),
        network=boxes.network,
        tier="service",
        speed_gbps=gbps,
    )


def _leaf_platform(context: Context) -> Switch:
    leaves = context.wiring.finish()["devices"].filter((pl.col("role") == "leaf") & (pl.col("network") == "backend"))
    return context.catalog.switch(leaves["model"][0])


def _free_ports(context: Context, platform: Switch, gbps: float, wanted: int) -> tuple[Ids, Index]:
    """Return leaf and slot of ``wanted`` free ports of ``gbps``, one leaf after the other, the last free cages first."""
    built = context.wiring.finish()
    leaves = (
        built["devices"].filter((pl.col("role") == "leaf") & (pl.col("network") == "backend"))["device_id"].to_numpy()
    )
    group, before = cage_group(platform, gbps, "fabric")
    used = built["ports"].filter(pl.col("device_id").is_in(leaves)).select("device_id", "cage").unique()
    taken = np.zeros((len(leaves), group.count), dtype=bool)
    cage = used["cage"].to_numpy().astype(np.int64) - 1 - before
    inside = (cage >= 0) & (cage < group.count)
    taken[np.searchsorted(leaves, used["device_id"].to_numpy()[inside]), cage[inside]] = True
    leaf, free = np.nonzero(~taken[:, ::-1])
    split = per_cage(platform, gbps)
    leaf, free = np.repeat(leaf, split), np.repeat(free, split)
    lane = np.tile(np.arange(split), len(leaf) // split)
    nth = np.arange(len(leaf)) - np.searchsorted(leaf, leaf, side="left")
    order = np.lexsort((leaf, nth))
    if len(order) < wanted:
        raise InputError(
            f"{wanted} ports of {gbps:g}G are needed on backend leaves and {len(order)} are free; take 'backend' out of "
            "converge, or leave room on the leaves (fewer servers_per_unit, a larger leaf_switch)",
            key="converge",
        )
    chosen = order[:wanted]
    return leaves[leaf[chosen]].astype(np.uint32), (group.count - 1 - free[chosen]) * split + lane[chosen]
