"""The parts of the search by themselves: ranges, even points, children, front, cost."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railwright.simulate.tune.parameters import PARAMETERS, Range
from railwright.simulate.tune.search import OBJECTIVES, child_units, cost, even_units, front

UNITS = st.floats(0, 1)
NAMES = st.sampled_from(sorted(PARAMETERS))


def usual(name: str) -> Range:
    return Range(name, PARAMETERS[name].low, PARAMETERS[name].high)


@settings(deadline=None)
@given(NAMES, UNITS)
def test_values_are_in_range_and_rounding_is_idempotent(name, unit):
    item = usual(name)
    value = item.at(unit)
    assert item.low <= value <= item.high
    assert item.at(item.unit(value)) == value


@settings(deadline=None)
@given(UNITS, st.floats(1, 20e6))
def test_kmin_never_passes_its_bound(unit, most):
    assert usual("kmin").at(unit, most) <= most


@settings(deadline=None)
@given(NAMES, UNITS)
def test_what_is_shown_reads_back(name, unit):
    parameter, value = PARAMETERS[name], usual(name).at(unit)
    assert parameter.parse(parameter.shown(value)) == pytest.approx(value, rel=5e-3)


@pytest.mark.parametrize("dimensions", [1, 2, 9, 12])
def test_even_points_are_even(dimensions):
    points = even_units(256, dimensions, 7)
    assert (even_units(40, dimensions, 7) == points[:40]).all()
    assert ((points >= 0) & (points < 1)).all()
    for axis in points.T:
        # no eighth of an axis is empty or twice as full as it should be
        counts = np.histogram(axis, bins=8, range=(0, 1))[0]
        assert counts.min() > 16
        assert counts.max() < 64
    assert (even_units(4, dimensions, 8) != points[:4]).all()


@settings(deadline=None)
@given(st.integers(1, 9), st.integers(0, 30), st.integers(0, 2**32))
def test_children_stay_in_the_cube_and_differ_from_their_parent(dimensions, generation, seed):
    parent = [0.5] * dimensions
    children = child_units([parent], generation, 8, seed)
    assert len(children) == 8
    assert all(0 <= value <= 1 for child in children for value in child)
    assert all(child != parent for child in children)


KEYS = [figure for figure, _ in OBJECTIVES.values()]
FIGURES = st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=1, max_size=12)


@settings(deadline=None)
@given(FIGURES)
def test_the_front_is_what_nothing_beats(points):
    runs = [dict(zip(KEYS, map(float, point), strict=True)) for point in points]
    gains = [(-p[0], *p[1:]) for p in points]

    def beaten(own):
        return any(all(a <= b for a, b in zip(o, own, strict=True)) and o != own for o in gains)

    expected = [i for i, own in enumerate(gains) if not beaten(own) and own not in gains[:i]]
    assert front(runs) == expected


def test_cost_is_one_weighted_mean():
    contract = {"time_us": 200.0, "slowdown_p999": 8.0}
    figures = {"time_us": 100.0, "slowdown_p999": 6.0, "pause_share": 0.1, "victims": 3, "flows": 12}
    even = dict.fromkeys(OBJECTIVES, 1.0)
    assert cost(figures, contract, even) == pytest.approx((0.5 + 0.75 + 0.1 + 0.25) / 4)
    assert cost(figures, contract, {"goodput": 3.0, "pause": 1.0}) == pytest.approx((3 * 0.5 + 0.1) / 4)
    assert cost({**figures, "time_us": None}, contract, even) is None
    assert math.isfinite(cost(figures, {"time_us": None, "slowdown_p999": None}, even) or 0.0)
