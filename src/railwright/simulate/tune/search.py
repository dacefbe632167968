"""Which settings `tune` tries next, and how runs are compared. All of it follows from the seed and the runs before.

Half of the search covers the ranges evenly: Halton's sequence with its digits permuted at random, place by place (Owen, "A
randomized Halton algorithm in R", 2017). The other half refines the best so far in generations of a fixed size, whatever
the number of processes: a parent among the `ELITE` best, some of its parameters moved by a normal step that shrinks from
generation to generation (an evolution strategy in its plainest form; Beyer and Schwefel, Natural Computing 1, 2002).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from railwright.errors import InputError, nearest
from railwright.simulate.tune.parameters import Range

OBJECTIVES: dict[str, tuple[str, bool]] = {
    "goodput": ("goodput_gbps", True),
    "p999": ("slowdown_p999", False),
    "pause": ("pause_share", False),
    "victims": ("victims", False),
}
"""Objective → its figure, and whether more is better."""

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
_FINEST = 1e-9
GENERATION = 8
ELITE = 4
STEP = 0.25
"""First standard deviation of a step, as a share of the range; also how far the sensitivity looks to either side."""
SHRINK = 0.7


def parse_objectives(texts: Sequence[str]) -> dict[str, float]:
    """Return the weight of each objective from ``NAME`` or ``NAME:WEIGHT``; none given: all, alike. Raises InputError."""
    if not texts:
        return dict.fromkeys(OBJECTIVES, 1.0)
    found: dict[str, float] = {}
    for text in texts:
        name, colon, weight = text.partition(":")
        if name not in OBJECTIVES:
            raise InputError(
                f"{name!r} is no objective{nearest(name, OBJECTIVES)}; objectives are {', '.join(OBJECTIVES)}",
                key="--objective",
            )
        try:
            value = float(weight) if colon else 1.0
        except ValueError:
            value = math.nan
        if not 0 < value < 1e6:
            raise InputError(f"{text!r}: write NAME or NAME:WEIGHT with a weight above 0", key="--objective")
        if name in found:
            raise InputError(f"{name} is named twice", key="--objective")
        found[name] = value
    return found


def cost(figures: Mapping[str, Any], contract: Mapping[str, Any], weights: Mapping[str, float]) -> float | None:
    """Return what a run costs, the less the better; None for a run that did not finish.

    The weighted mean of: time over the contract's, slowdown at p99.9 over the contract's, share of link time paused, and
    share of flows that are victims. Where the contract's own run did not finish, times count in us and slowdowns as they are.
    """
    if figures["time_us"] is None:
        return None
    terms = {
        "goodput": figures["time_us"] / (contract["time_us"] or 1.0),
        "p999": figures["slowdown_p999"] / (contract["slowdown_p999"] or 1.0),
        "pause": figures["pause_share"],
        "victims": figures["victims"] / max(figures["flows"], 1),
    }
    return float(sum(weight * terms[name] for name, weight in weights.items()) / sum(weights.values()))


def front(runs: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the positions of the runs (their figures) that no other beats in one objective and equals in the rest.

    Of runs that are equal in all objectives only the first is there.
    """
    values = np.array(
        [[-float(run[key]) if more else float(run[key]) for key, more in OBJECTIVES.values()] for run in runs]
    ).reshape(len(runs), len(OBJECTIVES))
    firsts = np.sort(np.unique(values, axis=0, return_index=True)[1]) if len(runs) else np.empty(0, np.int64)
    return [int(i) for i in firsts if not ((values <= values[i]).all(axis=1) & (values < values[i]).any(axis=1)).any()]


def even_units(count: int, dimensions: int, seed: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return ``count`` points of the unit cube (float64, count x dimensions); more points begin with the same ones."""
    chance = np.random.default_rng([seed, dimensions])
    points = np.zeros((count, dimensions))
    for axis, base in enumerate(PRIMES[:dimensions]):
        left, place = np.arange(count), 1.0 / base
        while place > _FINEST:
            points[:, axis] += chance.permutation(base)[left % base] * place
            left, place = left // base, place / base
    return points


def child_units(parents: Sequence[Sequence[float]], generation: int, count: int, seed: int) -> list[list[float]]:
    """Return ``count`` points of the unit cube near ``parents``; each differs from its parent in at least one coordinate."""
    chance = np.random.default_rng([seed, 1, generation])
    children = []
    for _ in range(count):
        parent = np.asarray(parents[int(chance.integers(len(parents)))], np.float64)
        moved = chance.random(parent.size) < 0.5
        moved[int(chance.integers(parent.size))] = True
        there = parent + np.where(moved, chance.normal(0.0, STEP * SHRINK**generation, parent.size), 0.0)
        children.append(np.abs(1.0 - np.abs(1.0 - there) % 2.0).clip(0.0, 1.0).tolist())
    return children


def sides(ranges: Sequence[Range], setting: Mapping[str, float]) -> list[tuple[str, dict[str, float]]]:
    """Return the settings that differ from ``setting`` in one parameter, by `STEP` of its range down and up."""
    found = []
    for item in ranges:
        here = item.unit(setting[item.name])
        for side in (-STEP, STEP):
            value = item.at(min(1.0, max(0.0, here + side)))
            found.append((item.name, {**setting, item.name: value}))
    return found
