"""How many switches a folded Clos needs: integers in, integers out, no tables.

Three rules carry all of it. A switch's ports split between down and up by the wanted oversubscription. A tier above is the
smallest count that offers enough ports *and* divides the uplinks of each switch below, so that parallel links come out equal
(this rule reproduces the published tables of NVIDIA's SuperPODs, docs/topologies.md). Three tiers are pods of two, joined by
core groups: spine i of every pod meets core group i.
"""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class ClosCount:
    """Endpoints, switches and links between switches of a full Clos."""

    endpoints: int
    switches: int
    links: int


def two_tier_clos(radix: int) -> ClosCount:
    """Return the largest non-blocking leaf-spine fabric of ``radix``-port switches: k²/2 endpoints, 3k/2 switches, k²/2 links.

    Source: DeepSeek-V3 hardware paper (ISCA 2025), table 3, column FT2.
    """
    return ClosCount(radix * radix // 2, 3 * radix // 2, radix * radix // 2)


def three_tier_clos(radix: int) -> ClosCount:
    """Return the largest non-blocking three-tier fabric: k³/4 endpoints, 5k²/4 switches, k³/2 links (column FT3)."""
    return ClosCount(radix**3 // 4, 5 * radix**2 // 4, radix**3 // 2)


def ceil_div(amount: int, size: int) -> int:
    """Return how many parts of ``size`` hold ``amount``."""
    return -(-amount // size)


def upper_switches(lower: int, uplinks: int, down_ports: int) -> int | None:
    """Return how many switches of ``down_ports`` ports stand above ``lower`` switches of ``uplinks`` uplinks each.

    The smallest count >= ceil(lower·uplinks / down_ports) that divides ``uplinks``; None when there is none, which is exactly
    when one upper switch cannot have a port for every lower one (lower > down_ports).
    """
    least = max(1, ceil_div(lower * uplinks, down_ports))
    return next((count for count in range(least, uplinks + 1) if uplinks % count == 0), None)


@dataclass(frozen=True)
class PortSplit:
    """Ports of one switch toward the endpoints and toward the core."""

    down: int
    up: int


def split_cages(
    cages: int, down_per_cage: int, down_gbps: float, up_per_cage: int, up_gbps: float, ratio: float
) -> PortSplit:
    """Split ``cages`` that can carry either direction so that down capacity is at most ``ratio`` times up capacity.

    As many cages as possible face down; ``up`` is only what these need.
    """
    wanted = Fraction(ratio).limit_denominator(10_000)
    down_cage = down_per_cage * Fraction(down_gbps)
    up_cage = up_per_cage * Fraction(up_gbps) * wanted
    down_cages = int(cages * up_cage / (down_cage + up_cage))
    down = down_cages * down_per_cage
    return PortSplit(down, uplinks_needed(down, down_gbps, up_gbps, ratio))


def uplinks_needed(down: int, down_gbps: float, up_gbps: float, ratio: float) -> int:
    """Return the smallest number of uplinks that keeps ``down`` ports within the oversubscription ``ratio``."""
    wanted = Fraction(ratio).limit_denominator(10_000)
    needed = down * Fraction(down_gbps) / (Fraction(up_gbps) * wanted)
    return int(-(-needed // 1))


@dataclass(frozen=True)
class Shape:
    """One fabric: a scalable unit is ``leaves_per_unit`` leaves that share ``servers_per_unit`` servers.

    ``units`` and ``pods`` are what is built; port counts and the numbers of spines and cores are those of the size that is
    reserved. ``leaf_down`` ports come before the uplinks on a leaf, ``spine_down`` before those of a spine. One tier has no
    ``leaf_up`` and no spines, two have no ``spine_up`` and no cores. ``spine_total`` and ``core_total`` are counts that the
    user insists on and that do not divide into pods and groups: links then go round robin over them. ``scattered`` says that
    the given number of leaves does not divide into units: NICs go round robin over leaves.
    """

    tiers: int
    units: int
    leaves_per_unit: int
    servers_per_unit: int
    leaf_down: int
    leaf_up: int = 0
    pod_units: int = 1
    spines_per_pod: int = 0
    spine_down: int = 0
    spine_up: int = 0
    cores_per_group: int = 0
    spine_total: int | None = None
    core_total: int | None = None
    scattered: bool = False

    @property
    def leaves(self) -> int:
        """Leaf switches."""
        return self.units * self.leaves_per_unit

    @property
    def pods(self) -> int:
        """Pods; 1 unless there are three tiers."""
        return ceil_div(self.units, self.pod_units) if self.tiers == 3 else 1

    @property
    def spines(self) -> int:
        """Spine switches of all pods."""
        return self.pods * self.spines_per_pod if self.spine_total is None else self.spine_total

    @property
    def cores(self) -> int:
        """Core switches of all groups."""
        return self.spines_per_pod * self.cores_per_group if self.core_total is None else self.core_total


def largest_units(leaves_per_unit: int, spine_down: int, pods: int = 1) -> int:
    """Return the most units that spines with ``spine_down`` ports toward leaves can join, in ``pods`` pods.

    Two tiers end when a spine has no port left for one more leaf; three when a core has none for one more pod.
    """
    return spine_down // leaves_per_unit * pods
