"""The switches of a site that face the outside, and the links that leave it: to external routers and to the other sites.

These are border leaves or, without any, the spines. Links to the outside take the cages just below the uplinks, the same on
every switch, and the boxes at the entrance fill the cages from the first on; a few are left for what comes later.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from railwright.catalog.model import Switch
from railwright.design import demand as sizing
from railwright.design.attach import Bench
from railwright.design.cages import SIDES, CageBook
from railwright.design.context import Context, numbered
from railwright.design.entrance import EXTERNAL_ROUTERS, EntrancePlan
from railwright.design.server_ports import Switching, per_cage, port_rate
from railwright.design.sizing import ceil_div
from railwright.design.topology.pairs import LeafGroup, PairFabric
from railwright.design.wiring import Ends, Ids, cage_group
from railwright.errors import InputError

Index = NDArray[np.int64]
UPLINK_SHARE = 4
"""One cage of so many of a border leaf is for uplinks."""
SPARE_CAGES = 8
"""Cages that boxes leave free on a border leaf for links that come later (another site, more outside)."""
ACCESS_PORTS = 48
MANAGED_PER_SERVER = 3
"""Out-of-band ports per GPU server that room for their switches' uplinks is kept for: BMC, PDUs, its part of the switches."""


@dataclass(frozen=True)
class Border:
    """The switches toward the outside. ``book`` has their free cages, ``group`` (None: the spines) what they are built from.

    ``outside`` has the first cages (0-based) of the external links and of the links to other sites.
    """

    platform: Switch
    book: CageBook
    group: LeafGroup | None
    outside: tuple[int, int]
    switches: Ids

    @property
    def bench(self) -> Bench:
        """Where boxes of the entrance stand."""
        return Bench(self.switches, self.platform, self.book.width)


def spare_cages(context: Context, platform: Switch, switches: int) -> int:
    """Return the cages that each of ``switches`` toward the outside keeps free for links that come later.

    Where the out-of-band switches end here, that is room for their uplinks, by an estimate of their number.
    """
    management = context.spec.management
    if not management.enabled or management.isolation == "physical":
        return SPARE_CAGES
    access = ceil_div(context.reserved_servers * MANAGED_PER_SERVER, ACCESS_PORTS)
    return SPARE_CAGES + ceil_div(
        access * management.oob_uplinks, switches * per_cage(platform, port_rate(platform, 100))
    )


def spine_ports_kept(context: Context, entrance: EntrancePlan, switching: Switching, far_links: int) -> int:
    """Return the ports of a spine that stay free of leaves where spines face the outside."""
    spine = switching.spine
    cages = sum(_cages_outside(entrance, spine, SIDES, far_links)) + spare_cages(context, spine, SIDES)
    return cages * per_cage(spine, switching.uplink_gbps)


def plan_border(context: Context, entrance: EntrancePlan, switching: Switching, far_links: int) -> Border | None:
    """Return border leaves with the cages for links to the outside set apart; None when the spines do their work.

    ``far_links`` are the links of other sites that end here.
    """
    if not entrance.borders:
        return None
    platform, uplink = switching.leaf, switching.uplink_gbps
    cages = cage_group(platform, uplink, "fabric")[0]
    first_up = cages.count - cages.count // UPLINK_SHARE + 1
    up = sizing.redundant_links(entrance.load.line_gbps, uplink, entrance.borders) // entrance.borders
    group = LeafGroup(
        "border",
        "border",
        platform,
        entrance.borders,
        entrance.borders,
        max(2, up + up % 2),
        (cages.count - first_up + 1) * cages.ports_at(uplink),
        first_up,
    )
    width = SIDES if entrance.borders >= SIDES else 1
    book = CageBook(0, first_up - 1, entrance.borders // width, width)
    outside = _set_apart(book, entrance, platform, entrance.borders, far_links)
    book.reserve_last(min(spare_cages(context, platform, entrance.borders), book.end - book.start))
    return Border(platform, book, group, outside, np.empty(0, dtype=np.uint32))


def stand_border(
    planned: Border | None,
    entrance: EntrancePlan,
    fabric: PairFabric,
    leaves: Ids | None,
    switching: Switching,
    far_links: int,
) -> Border:
    """Return the border as built on ``leaves``, or on the spines of the first pod when none was planned."""
    if planned is not None and leaves is not None:
        planned.book.end = planned.outside[1]
        return replace(planned, switches=leaves)
    spine, spines = switching.spine, fabric.spines[0]
    start, end = fabric.free_spine_cages(per_cage(spine, switching.uplink_gbps))
    book = CageBook(start, end, len(spines), 1)
    outside = _set_apart(book, entrance, spine, len(spines), far_links)
    return Border(spine, book, None, outside, spines)


def connect_external(context: Context, entrance: EntrancePlan, border: Border, site: str, prefix: str) -> None:
    """Add the routers of the outside and the links to them, dealt over borders and routers."""
    links = entrance.external_links
    if not links or not len(border.switches):
        return
    routers = context.wiring.add_devices(
        numbered(f"{prefix}external{{}}", min(EXTERNAL_ROUTERS, links)),
        role="external",
        network="frontend",
        site=site,
        model="external-router",
    )
    turn, switch, router = take_turns(links, len(border.switches), len(routers))
    context.wiring.connect(
        Ends(
            device=border.switches[switch],
            slot=border.outside[0] * per_cage(border.platform, entrance.external_gbps) + turn,
            direction="up",
            platform=border.platform,
        ),
        Ends(device=routers[router], slot=ordinals(router), direction="down"),
        network="frontend",
        tier="border",
        speed_gbps=entrance.external_gbps,
    )


def connect_sites(context: Context, entrances: list[EntrancePlan], borders: list[Border | None]) -> None:
    """Connect every further site to the first one: the borders of both sides take turns. A site may have nothing (None)."""
    first = borders[0]
    if first is None:
        return
    used = np.zeros(len(first.switches), dtype=np.int64)
    for entrance, border in zip(entrances[1:], borders[1:], strict=True):
        links = entrance.site_links
        if not links or border is None or not len(border.switches) or not len(first.switches):
            continue
        turn, far, dealt = take_turns(links, len(border.switches), len(first.switches))
        near = (int(np.argmin(used)) + dealt) % len(first.switches)
        gbps = entrance.site_gbps
        context.wiring.connect(
            Ends(
                device=border.switches[far],
                slot=border.outside[1] * per_cage(border.platform, gbps) + turn,
                direction="peer",
                platform=border.platform,
            ),
            Ends(
                device=first.switches[near],
                slot=first.outside[1] * per_cage(first.platform, gbps) + used[near] + ordinals(near),
                direction="peer",
                platform=first.platform,
            ),
            network="frontend",
            tier="peer",
            speed_gbps=gbps,
        )
        used += np.bincount(near, minlength=len(used))


def take_turns(links: int, ours: int, theirs: int) -> tuple[Index, Index, Index]:
    """Return (turn, our box, their box) of each of ``links`` dealt over ``ours`` and ``theirs`` boxes, all numbered from 0.

    ``turn`` counts the links of our box. Pairs shift by one only when every box has had the same number of links: then no box
    has more than one link above any other of its side, and links between the same two boxes come last.
    """
    link = np.arange(links)
    turn, box = np.divmod(link, ours)
    return turn, box, (link + link // math.lcm(ours, theirs)) % theirs


def ordinals(values: Index) -> Index:
    """Return for each element how many equal ones stand before it."""
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    start = np.concatenate(([True], ranked[1:] != ranked[:-1]))
    first = np.maximum.accumulate(np.where(start, np.arange(len(ranked)), 0))
    found = np.empty_like(order)
    found[order] = np.arange(len(ranked)) - first
    return found


def _cages_outside(entrance: EntrancePlan, platform: Switch, switches: int, far_links: int) -> tuple[int, int]:
    """Return the cages of each switch for external links and for links between sites."""
    if not switches:
        return 0, 0
    external = ceil_div(entrance.external_links, switches)
    between = ceil_div(max(entrance.site_links, far_links), switches) + (1 if far_links else 0)
    return (
        ceil_div(external, per_cage(platform, entrance.external_gbps)),
        ceil_div(between, per_cage(platform, entrance.site_gbps)),
    )


def _set_apart(
    book: CageBook, entrance: EntrancePlan, platform: Switch, switches: int, far_links: int
) -> tuple[int, int]:
    """Reserve the cages for external and inter-site links and return the first of each; raises InputError without room."""
    external, between = _cages_outside(entrance, platform, switches, far_links)
    found = book.reserve_last(external), book.reserve_last(between)
    if book.end < book.start:
        raise InputError(
            f"{entrance.external_links} external links and {max(entrance.site_links, far_links)} to other sites find no room on "
            f"{switches} x {platform.key}; plan more border_leaves",
            key="frontend.external_links",
        )
    return found
