"""Direct links between the two boxes of a pair: leaves of the frontend, and subnet managers.

Leaves of a pair can have links to each other (inter-switch links), as the published DGX SuperPOD designs order them for their
in-band switches (RA-11333-001: passive copper of 100G, part 980-9I54C-00V001). They take the last cages of a leaf, behind its
uplinks, and are routed like these: the way out of a leaf that has lost its spines. Subnet managers in high availability
replicate their database and watch each other over a cord of their own (NVIDIA UFM high-availability guide 6.2, back-to-back
connectivity; the same bill of materials has one cord per pair of appliances).
"""

import numpy as np

from railwright.catalog.model import Switch
from railwright.design.context import Context
from railwright.design.sizing import ceil_div
from railwright.design.wiring import Ends, Ids, cage_group
from railwright.errors import InputError

PAIR = 2
MANAGER_GBPS = 1.0
NO_CAGE = 0


def set_apart(platform: Switch, gbps: float, links: int) -> Switch:
    """Return ``platform`` without the cages at the end of its ports of ``gbps`` that ``links`` peer links take.

    The cages keep their numbers: those taken are left as a group that carries no traffic. Raises InputError when there are
    fewer cages.
    """
    if not links:
        return platform
    group, _ = cage_group(platform, gbps, "fabric")
    taken = ceil_div(links, group.ports_at(gbps))
    if taken >= group.count:
        raise InputError(
            f"{links} links of {gbps:g}G to the other leaf of a pair fill the {group.count} cages of {platform.key}",
            key="frontend.peer_links",
        )
    place = platform.cages.index(group)
    parts = (
        group.model_copy(update={"count": group.count - taken}),
        group.model_copy(update={"count": taken, "purpose": "management"}),
    )
    return platform.model_copy(update={"cages": (*platform.cages[:place], *parts, *platform.cages[place + 1 :])})


def connect_leaf_pairs(context: Context, platform: Switch, leaves: Ids, gbps: float, links: int) -> None:
    """Join leaf 2n and 2n + 1 of ``leaves`` by ``links`` links of ``gbps`` in the last cages of ``platform``.

    A last leaf without a partner gets none.
    """
    if not links:
        return
    group, _ = cage_group(platform, gbps, "fabric")
    first_cage = group.count - ceil_div(links, group.ports_at(gbps)) + 1
    pair, slot = (axis.ravel() for axis in np.indices((len(leaves) // PAIR, links)))
    context.wiring.connect(
        Ends(device=leaves[PAIR * pair], slot=slot, direction="peer", platform=platform, first_cage=first_cage),
        Ends(device=leaves[PAIR * pair + 1], slot=slot, direction="peer", platform=platform, first_cage=first_cage),
        network="frontend",
        tier="peer",
        speed_gbps=gbps,
    )


def connect_managers(context: Context, managers: Ids) -> None:
    """Join subnet manager 2n and 2n + 1 of one fabric by 1G cords; one without a partner gets none."""
    section = context.spec.management
    links = section.manager_links if section.enabled else 0
    pair, slot = (axis.ravel() for axis in np.indices((len(managers) // PAIR, links)))
    if not len(pair):
        return
    ends = (
        Ends(
            device=managers[PAIR * pair + side],
            slot=slot,
            direction="peer",
            first_cage=NO_CAGE,
            ports_per_cage=links + 1,
            name="ha{}",
        )
        for side in range(PAIR)
    )
    context.wiring.connect(*ends, network="management", tier="peer", speed_gbps=MANAGER_GBPS)
