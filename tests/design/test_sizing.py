"""Sizing rules on integers."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railwright.design.sizing import (
    ceil_div,
    largest_units,
    split_cages,
    three_tier_clos,
    two_tier_clos,
    uplinks_needed,
    upper_switches,
)


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300))
def test_upper_switches_are_the_smallest_count_that_fits_and_divides(lower: int, uplinks: int, ports: int) -> None:
    count = upper_switches(lower, uplinks, ports)
    fits = [n for n in range(1, uplinks + 1) if uplinks % n == 0 and n * ports >= lower * uplinks]
    assert count == (fits[0] if fits else None)
    assert (count is None) == (lower > ports)


@given(st.integers(2, 128), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]), st.integers(1, 8))
def test_a_split_uses_no_more_cages_than_there_are_and_keeps_the_ratio(
    cages: int, down_per_cage: int, up_per_cage: int, ratio: int
) -> None:
    down_gbps, up_gbps = 800.0 / down_per_cage, 800.0 / up_per_cage
    split = split_cages(cages, down_per_cage, down_gbps, up_per_cage, up_gbps, float(ratio))
    used = ceil_div(split.down, down_per_cage) + ceil_div(split.up, up_per_cage)
    assert used <= cages
    assert split.down * down_gbps <= ratio * split.up * up_gbps
    assert split.down // down_per_cage == cages * ratio // (ratio + 1)


@pytest.mark.parametrize("radix", [32, 64, 128])
def test_two_tiers_of_full_units_are_the_closed_form(radix: int) -> None:
    half = radix // 2
    leaves = largest_units(1, radix)
    spines = upper_switches(leaves, half, radix)
    assert leaves * half == two_tier_clos(radix).endpoints
    assert spines is not None
    assert leaves + spines == two_tier_clos(radix).switches


@pytest.mark.parametrize("radix", [32, 64])
def test_three_tiers_of_full_pods_are_the_closed_form(radix: int) -> None:
    half = radix // 2
    pods = radix
    spines = upper_switches(half, half, half)
    cores = upper_switches(pods, half, radix)
    assert spines is not None
    assert cores is not None
    assert pods * half * half == three_tier_clos(radix).endpoints
    assert pods * (half + spines) + spines * cores == three_tier_clos(radix).switches


@given(st.integers(1, 512), st.sampled_from([100.0, 200.0, 400.0]), st.sampled_from([400.0, 800.0]), st.integers(1, 15))
def test_uplinks_needed_is_the_smallest_number(down: int, down_gbps: float, up_gbps: float, ratio: int) -> None:
    up = uplinks_needed(down, down_gbps, up_gbps, float(ratio))
    wanted = Fraction(down) * Fraction(down_gbps) / ratio
    assert up * Fraction(up_gbps) >= wanted > (up - 1) * Fraction(up_gbps)
