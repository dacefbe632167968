"""Max-min fair rates: small cases by hand, the optimality condition, and a slow implementation to compare with."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulate.flow.reference import Path, fair_rates

from railwright import _native


def rates_of(
    capacity: list[float],
    paths: list[Path],
    weight: list[float] | None = None,
    cap: list[float] | None = None,
    priority: list[int] | None = None,
) -> list[float]:
    count = len(paths)
    return _native.max_min_rates(
        np.asarray(capacity, float),
        np.concatenate([[0], np.cumsum([len(path) for path in paths])]).astype(np.int64),
        np.asarray([link for path in paths for link, _ in path], np.int32),
        np.asarray([share for path in paths for _, share in path], float),
        np.asarray(weight or [1.0] * count, float),
        np.asarray(cap or [math.inf] * count, float),
        np.asarray(priority or [0] * count, np.uint8),
    ).tolist()


def test_flows_on_one_link_share_it_equally() -> None:
    assert rates_of([12.0], [[(0, 1.0)]] * 3) == pytest.approx([4.0] * 3)


def test_a_long_flow_gets_the_share_of_its_fullest_link_and_others_the_rest() -> None:
    # Bertsekas and Gallager, Data Networks, figure 6.12: one long flow over three links.
    paths: list[Path] = [[(0, 1.0), (1, 1.0), (2, 1.0)], [(0, 1.0)], [(1, 1.0)], [(1, 1.0)], [(2, 1.0)]]
    assert rates_of([1.0, 1.0, 2.0], paths) == pytest.approx([1 / 3, 2 / 3, 1 / 3, 1 / 3, 5 / 3])


def test_weights_divide_a_link_in_proportion() -> None:
    assert rates_of([12.0], [[(0, 1.0)]] * 2, weight=[1.0, 3.0]) == pytest.approx([3.0, 9.0])


def test_what_a_cap_leaves_goes_to_the_others() -> None:
    assert rates_of([12.0], [[(0, 1.0)]] * 3, cap=[2.0, math.inf, math.inf]) == pytest.approx([2.0, 5.0, 5.0])


def test_a_class_of_lower_priority_gets_what_is_left() -> None:
    paths: list[Path] = [[(0, 1.0), (1, 1.0)], [(0, 1.0)], [(1, 1.0)]]
    assert rates_of([10.0, 4.0], paths, priority=[0, 1, 1]) == pytest.approx([4.0, 6.0, 0.0])


def test_a_sprayed_flow_loads_each_link_with_its_share() -> None:
    # Half of the flow on each of two links of 3; the other flow is alone with half of the first.
    assert rates_of([3.0, 3.0], [[(0, 0.5), (1, 0.5)], [(0, 1.0)]]) == pytest.approx([2.0, 2.0])


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[float], list[Path], list[float], list[float], list[int]]:
    links = draw(st.integers(1, 8))
    capacity = draw(
        st.lists(st.sampled_from([1.0, 2.0, 3.0, 10.0]) | st.floats(0.1, 100.0), min_size=links, max_size=links)
    )
    paths: list[Path] = []
    for _ in range(draw(st.integers(1, 14))):
        on = draw(st.lists(st.integers(0, links - 1), min_size=1, max_size=4, unique=True))
        paths.append([(link, draw(st.sampled_from([1.0, 1.0, 0.5, 0.25, 2.0]))) for link in on])
    count = len(paths)
    weight = draw(st.lists(st.sampled_from([1.0, 1.0, 2.0, 0.3]), min_size=count, max_size=count))
    cap = draw(st.lists(st.sampled_from([math.inf, math.inf, 0.5, 3.0]), min_size=count, max_size=count))
    priority = draw(st.lists(st.sampled_from([0, 0, 0, 1, 2]), min_size=count, max_size=count))
    return capacity, paths, weight, cap, priority


@given(cases())
@settings(max_examples=300, deadline=None)
def test_rates_are_those_of_progressive_filling(
    case: tuple[list[float], list[Path], list[float], list[float], list[int]],
) -> None:
    capacity, paths, weight, cap, priority = case
    assert rates_of(capacity, paths, weight, cap, priority) == pytest.approx(
        fair_rates(capacity, paths, weight, cap, priority), rel=1e-9, abs=1e-9
    )


@given(cases())
@settings(max_examples=300, deadline=None)
def test_every_flow_has_a_bottleneck_where_nobody_gets_more(
    case: tuple[list[float], list[Path], list[float], list[float], list[int]],
) -> None:
    capacity, paths, weight, cap, _ = case
    rates = rates_of(capacity, paths, weight, cap)
    load = [0.0] * len(capacity)
    most = [0.0] * len(capacity)
    for path, rate, w in zip(paths, rates, weight, strict=True):
        for link, share in path:
            load[link] += rate * share
            most[link] = max(most[link], rate / w)
    close = 1e-9
    assert all(used <= limit * (1 + close) for used, limit in zip(load, capacity, strict=True))
    for path, rate, w, limit in zip(paths, rates, weight, cap, strict=True):
        capped = rate >= limit * (1 - close)
        assert capped or any(
            load[link] >= capacity[link] * (1 - close) and rate / w >= most[link] * (1 - close) for link, _ in path
        )
