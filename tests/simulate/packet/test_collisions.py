"""Unpinned ECMP: how many flows share an uplink, against balls thrown into bins."""

import math

import numpy as np
import pytest

from railwright.simulate.packet.engine import simulate_packets
from railwright.simulate.packet.options import rocev2

SEEDS = range(20)
FLOWS, SPINES = 32, 16


def loads(leaf_spine, sends, paths: str) -> np.ndarray:
    """Flows per spine of a permutation between two leaves, one row per seed: bytes of the uplinks over those of a flow."""
    net = leaf_spine(2, FLOWS, SPINES)
    uplinks = 2 * FLOWS + np.arange(SPINES)
    found = []
    for seed in SEEDS:
        rows = sends(*((h, FLOWS + h, 4096.0) for h in range(FLOWS)))
        used = simulate_packets(net, rows, rocev2(paths=paths), seed).links_used
        forward = used["bytes"].to_numpy()[0::2][uplinks]
        found.append(np.rint(forward / 4178.0))
    return np.array(found)


def test_hashed_flows_fall_like_balls_into_bins(leaf_spine, sends) -> None:
    counted = loads(leaf_spine, sends, "ecmp")
    assert (counted.sum(axis=1) == FLOWS).all()
    p = 1 / SPINES
    binomial = np.array([math.comb(FLOWS, k) * p**k * (1 - p) ** (FLOWS - k) for k in range(FLOWS + 1)])
    groups = [[0], [1], [2], [3], [4], list(range(5, FLOWS + 1))]
    expected = np.array([binomial[group].sum() for group in groups]) * counted.size
    seen = np.array([np.isin(counted, group).sum() for group in groups])
    chi_square = ((seen - expected) ** 2 / expected).sum()
    assert chi_square < 20.5  # 5 degrees of freedom, 0.1 %
    empty = SPINES * (1 - p) ** FLOWS
    assert (counted == 0).sum(axis=1).mean() == pytest.approx(empty, abs=4 * math.sqrt(empty / len(SEEDS)))


def test_seeds_give_different_collisions(leaf_spine, sends) -> None:
    assert len({tuple(row) for row in loads(leaf_spine, sends, "ecmp")}) == len(SEEDS)


def test_the_slowest_flow_of_a_collision_shares_its_uplink(leaf_spine, sends) -> None:
    """Uplinks as fast as hosts: without congestion control the last flow takes as long as the fullest uplink has flows."""
    net = leaf_spine(2, 16, 16)
    rows = sends(*((h, 16 + h, 4096.0 * 200) for h in range(16)))
    for seed in SEEDS:
        result = simulate_packets(net, rows, rocev2(congestion_control="none"), seed)
        up = result.links_used["bytes"].to_numpy()[0::2][32:48]
        fullest = round(up.max() / (200 * 4178))
        alone = 200 * 4178 * 8 / 400e3
        assert result.flows["fct_us"].max() == pytest.approx(fullest * alone, rel=0.1)
