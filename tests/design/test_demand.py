"""The closed forms from demand to rates, boxes and links, against values worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railwright.design import demand as sizing
from railwright.spec.cluster import Demand, Site


def test_the_entrance_carries_requests_in_and_responses_out_with_headroom() -> None:
    # 100,000/s of 4 kB in and 40 kB out is 3.2 and 32 Gb/s; ingest of 1 GB/s adds 8 Gb/s in; half as much again is planned.
    demand = Demand(requests=100e3, request_bytes=4e3, response_bytes=40e3, ingest=1e9, headroom=1.5)
    load = sizing.entrance(demand)
    assert load.inbound_gbps == pytest.approx((3.2 + 8) * 1.5)
    assert load.outbound_gbps == pytest.approx(32 * 1.5)
    assert load.line_gbps == pytest.approx(48)
    assert load.inspected_gbps == pytest.approx(48 + 16.8)
    assert load.requests_per_s == pytest.approx(150e3)


def test_half_of_the_demand_is_half_of_every_rate() -> None:
    demand = Demand(requests=100e3, ingest=1e9)
    whole, half = sizing.entrance(demand), sizing.entrance(demand, 0.5)
    assert half.line_gbps == pytest.approx(whole.line_gbps / 2)
    assert half.requests_per_s == pytest.approx(whole.requests_per_s / 2)


@pytest.mark.parametrize(
    ("load", "capacity", "boxes"),
    [(0, 400, 2), (1, 400, 2), (400, 400, 2), (400.5, 400, 3), (1200, 400, 4), (1201, 400, 5)],
)
def test_pools_are_what_the_load_needs_and_one_more(load: float, capacity: float, boxes: int) -> None:
    assert sizing.n_plus_one(load, capacity) == boxes


@given(st.floats(0, 1e5), st.floats(1, 1e3))
def test_a_pool_that_loses_one_box_still_carries_the_load(load: float, capacity: float) -> None:
    boxes = sizing.n_plus_one(load, capacity)
    assert (boxes - 1) * capacity >= load * (1 - 1e-6) - 1e-6
    assert boxes >= 2


@given(st.floats(0, 1e4), st.sampled_from([100.0, 400.0]), st.integers(1, 8))
def test_links_carry_the_load_when_one_of_their_switches_is_lost(load: float, gbps: float, ends: int) -> None:
    links = sizing.redundant_links(load, gbps, ends)
    assert links % ends == 0
    left = links - links // ends if ends > 1 else links
    assert left * gbps >= load * (1 - 1e-6) - 1e-6


def test_two_sites_with_anycast_are_each_sized_for_everything() -> None:
    assert sizing.planned_shares([0.5, 0.5], anycast=True) == [1.0, 1.0]
    assert sizing.planned_shares([0.5, 0.5], anycast=False) == [0.5, 0.5]


def test_three_equal_sites_with_anycast_take_half_each_when_one_is_lost() -> None:
    assert sizing.planned_shares([1 / 3] * 3, anycast=True) == pytest.approx([0.5] * 3)


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=6))
def test_anycast_sites_that_remain_carry_all_of_the_demand(weights: list[float]) -> None:
    shares = [weight / sum(weights) for weight in weights]
    planned = sizing.planned_shares(shares, anycast=True)
    for lost in range(len(shares)):
        assert sum(part for site, part in enumerate(planned) if site != lost) >= 1 - 1e-9


def test_sites_without_a_share_split_what_is_left() -> None:
    sites = [Site(name="a", share=0.5), Site(name="b"), Site(name="c")]
    assert sizing.site_shares(sites) == [0.5, 0.25, 0.25]


@given(st.integers(0, 1000), st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_splitting_by_share_loses_nothing_and_is_never_off_by_more_than_one(total: int, shares: list[float]) -> None:
    parts = sizing.split_by_share(total, shares)
    assert sum(parts) == total
    if sum(shares) > 0:
        assert all(abs(part - total * share / sum(shares)) <= 1 for part, share in zip(parts, shares, strict=True))


def test_head_nodes_are_the_four_of_the_published_127_system_design() -> None:
    assert [sizing.head_nodes(servers) for servers in (0, 1, 127, 1024, 1025)] == [0, 4, 4, 4, 8]


def test_storage_reads_for_the_larger_of_dataset_and_restart_and_writes_checkpoints() -> None:
    # 5 TB load in 5 min: 16.7 GB/s, less than the 250 GB/s of the dataset; 5 TB are written in 2 min: 41.7 GB/s.
    demand = Demand(dataset_read=250e9, checkpoint=5e12, checkpoint_time=120e6, restart_load_time=300e6)
    load = sizing.storage_load(demand, servers=127)
    assert load.read_bytes_s == pytest.approx(250e9)
    assert load.write_bytes_s == pytest.approx(5e12 / 120)
    assert sizing.appliances_needed(load, 80e9, 40e9, 100e9) == 5  # ceil(250/80) + 1 = 5 > ceil(41.7/40) + 1 = 3


def test_a_restart_that_every_replica_reads_can_be_the_larger_need() -> None:
    demand = Demand(dataset_read=10e9, checkpoint=1e12, restart_bytes=16e12, restart_load_time=100e6)
    assert sizing.storage_load(demand, servers=16).read_bytes_s == pytest.approx(160e9)


def test_without_a_demand_storage_has_the_published_guideline_per_server() -> None:
    # 40 GB/s read and 20 GB/s write for 32 systems.
    load = sizing.storage_load(Demand(), servers=32)
    assert (load.read_bytes_s, load.write_bytes_s) == (40e9, 20e9)
    assert "unverified" in load.read_why


def test_an_appliance_is_no_faster_than_its_links() -> None:
    load = sizing.StorageLoad(100e9, 1e9, "", "")
    assert sizing.appliances_needed(load, 80e9, 40e9, 25e9) == 5
