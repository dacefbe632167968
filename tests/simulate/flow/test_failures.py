"""Failures: what the texts mean, what is wrong with wrong ones, and what a run makes of them."""

import numpy as np
import pytest

from railwright.errors import InputError, RailwrightError
from railwright.simulate.failures import broken, condition, describe, parse_failures
from railwright.simulate.flow.engine import FlowOptions, simulate_flows


def test_a_switch_takes_its_links_along(leaf_spine) -> None:
    network = leaf_spine(2, 2, 2)
    state = condition(network, parse_failures(["spine:s6"], network))
    assert state.failed_nodes.tolist() == [6]
    dead = (network.link_src == 6) | (network.link_dst == 6)
    assert np.array_equal(state.gbps == 0, dead)


def test_a_link_is_named_by_id_or_by_its_ends_and_may_run_at_part_of_its_rate(leaf_spine) -> None:
    network = leaf_spine(2, 2, 2)
    by_id, by_ends = (condition(network, parse_failures([text], network)) for text in ("link:4@25%", "link:s4--s6@25%"))
    assert np.array_equal(by_id.gbps, by_ends.gbps)
    assert by_id.gbps[8:10].tolist() == [100.0, 100.0]
    assert by_id.failed_links.size == 0


def test_random_takes_the_share_of_cables_between_switches_and_depends_on_the_seed(leaf_spine) -> None:
    network = leaf_spine(10, 2, 10)
    drawn = [parse_failures(["random:7%"], network, seed)[0].cables for seed in (0, 0, 1)]
    assert drawn[0].size == 7
    assert (drawn[0] >= 20).all()
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


def test_an_adapter_at_half_rate_is_a_straggler(star, sends) -> None:
    traffic = sends(*((h, (h + 1) % 4, 1e5) for h in range(4)), repeat=6, group=0)
    healthy = simulate_flows(star(4), traffic)
    slow = simulate_flows(star(4), traffic, FlowOptions(fail=("nic:h2@50%",)))
    assert slow.finish_us == pytest.approx(2 * healthy.finish_us)


def test_slower_links_reach_the_packet_engine_through_the_network(star) -> None:
    network = star(3)
    slower = broken(network, parse_failures(["nic:h1@10%", "nic:h2"], network))
    assert slower.link_gbps.tolist() == [400.0, 400.0, 40.0, 40.0, 400.0, 400.0]


def test_the_table_counts_endpoints_that_are_cut_off(rail_only) -> None:
    network = rail_only(3, 2)
    rows = describe(parse_failures(["switch:s6", "nic:h1@5ms"], network), network)
    assert rows["endpoints"].to_list() == [3, 1]
    assert rows["at_us"].to_list() == [0.0, 5000.0]


def test_a_flow_moves_to_another_spine_when_its_own_breaks(leaf_spine, sends) -> None:
    network = leaf_spine(2, 1, 2)
    both = sends((0, 1, 2e6))
    used = simulate_flows(network, both).links_used["bytes"].to_numpy()[4::2][:2]
    spine = f"s{4 + int(np.argmax(used))}"
    result = simulate_flows(network, both, FlowOptions(fail=(f"spine:{spine}@10us",), reroute_us=5.0))
    assert result.finish_us == pytest.approx(40.0 + 5.0)
    carried = result.links_used["bytes"].to_numpy()[4::2][:2]
    assert sorted(carried.tolist()) == pytest.approx([0.5e6, 1.5e6])


def test_sprayed_flows_lose_the_broken_share_of_the_fabric(leaf_spine, sends) -> None:
    network = leaf_spine(2, 4, 4)
    traffic = sends(*((h, h + 4, 1e6) for h in range(4)))
    result = simulate_flows(network, traffic, FlowOptions(paths="spray", fail=("spine:s10@10us",)))
    assert result.finish_us == pytest.approx(10.0 + 10.0 * 4 / 3)


def test_a_link_that_slows_down_during_the_run_stretches_what_is_left(star, sends) -> None:
    result = simulate_flows(star(2), sends((0, 1, 1e6)), FlowOptions(fail=("nic:h1@25%@10us",)))
    assert result.finish_us == pytest.approx(10.0 + 40.0)


def test_operations_without_a_way_are_named(star, sends) -> None:
    with pytest.raises(RailwrightError, match=r"1 operations never finish.*operation 0 \(h0 → h1\)"):
        simulate_flows(star(2), sends((0, 1, 1e6)), FlowOptions(fail=("switch:s2@10us",)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("laef:s4", "did you mean 'leaf'"),
        ("s4", "is not a failure"),
        ("leaf:s44", "there is no leaf 's44'"),
        ("leaf:h0", "is not a switch"),
        ("link:99", "there is no link 99; ids are from 0 to 7"),
        ("link:h0--h1", "no cable joins h0 and h1"),
        ("link:h0", "write link:ID or link:NAME--NAME"),
        ("nic:s4", "is a switch"),
        ("random:0%", "above 0% and below 100%"),
        ("random:many", "is not a share"),
        ("leaf:s4@50%", "only a link or an adapter"),
        ("link:1@110%", "a share is from 0% to below 100%"),
        ("link:1@soon", "is not a time"),
        ("plane:2", "this network has no planes"),
    ],
)
def test_a_wrong_text_is_told_what_would_be_right(leaf_spine, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        parse_failures([text], leaf_spine(2, 2, 2))
    assert error.value.key == "fail"


def test_random_needs_cables_between_switches(star) -> None:
    with pytest.raises(InputError, match="no cable between switches"):
        parse_failures(["random:2%"], star(3))


def test_the_link_that_sets_the_pace_is_named_and_not_the_busy_ones(star, sends) -> None:
    traffic = sends(*((h, (h + 1) % 6, 1e5) for h in range(6)), repeat=10, group=0)
    result = simulate_flows(star(6), traffic, FlowOptions(fail=("nic:h2@50%",)))
    worst = result.details["pace"].sort("pace", descending=True).row(0, named=True)
    assert (worst["link_id"], worst["forward"]) == (2, True)
    assert worst["pace"] == pytest.approx(1.0)
    assert any("h2 → s6" in sentence for sentence in result.why)
    assert any("1 cable at 50% of the rate" in sentence for sentence in result.why)
