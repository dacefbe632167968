"""What ports, buses, congestion control and acknowledgements leave of a link, as the flow engine takes it."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from railwright.catalog.load import load_catalog
from railwright.design.design import design_plan
from railwright.simulate.flow.engine import FlowOptions, simulate_flows
from railwright.simulate.goodput import calibrated
from railwright.simulate.network import HOST, SWITCH
from railwright.simulate.plan_network import network_from_plan
from railwright.spec.cluster import ClusterSpec
from railwright.tables import conform

LOSSY = calibrated("lossy+spray", "spray")


def test_senders_that_meet_at_an_endpoint_lose_what_congestion_control_leaves_unused(star, sends) -> None:
    options = FlowOptions(calibration=LOSSY)
    both = simulate_flows(star(3), sends((0, 2, 1e6), (1, 2, 1e6)), options).finish_us
    assert both == pytest.approx(2e6 / 50_000 / LOSSY.incast_share)
    alone = simulate_flows(star(3), sends((0, 2, 1e6), (0, 1, 1e6)), options).finish_us
    assert alone == pytest.approx(2e6 / 50_000)


def test_only_full_links_between_switches_lose_what_spraying_leaves_unused(leaf_spine, sends) -> None:
    options = FlowOptions(calibration=LOSSY, paths="spray")
    network = leaf_spine(2, 4, 4)
    full = simulate_flows(network, sends(*[(h, h + 4, 1e6) for h in range(4)]), options).finish_us
    assert full == pytest.approx(1e6 / 50_000 / LOSSY.spread_share)
    half = simulate_flows(network, sends(*[(h, h + 4, 1e6) for h in range(2)]), options).finish_us
    assert half == pytest.approx(1e6 / 50_000)


def test_endpoints_lose_as_much_as_the_fabric_only_where_it_is_as_busy(leaf_spine, sends) -> None:
    row = calibrated("dcqcn+pfc", "spray")
    assert row.incast_share == 1 > row.spread_share
    options = FlowOptions(calibration=row, paths="spray")
    network = leaf_spine(2, 2, 2)
    exchange = sends(*[(a, b, 1e6) for a in (0, 1) for b in (2, 3)])
    assert simulate_flows(network, exchange, options).finish_us == pytest.approx(2e6 / 50_000 / row.spread_share)
    incast = sends((0, 2, 1e6), (1, 2, 1e6))
    assert simulate_flows(network, incast, options).finish_us == pytest.approx(2e6 / 50_000)
    below_one_leaf = sends((0, 1, 1e6), (2, 1, 1e6), (2, 3, 1e5))
    assert simulate_flows(network, below_one_leaf, options).flows["finish_us"][0] == pytest.approx(
        2e6 / 50_000, rel=0.05
    )


@pytest.mark.parametrize("fold", [True, False])
def test_acknowledgements_take_their_share_of_a_direction_by_what_goes_the_other_way(star, sends, fold: bool) -> None:
    row = calibrated("dcqcn+pfc", "ecmp")
    options = FlowOptions(calibration=row, acknowledged=True, fold=fold)
    ring = simulate_flows(star(3), sends((0, 1, 1e6), (1, 2, 1e6), (2, 0, 1e6)), options)
    assert ring.finish_us == pytest.approx(1e6 / 50_000 * (1 + row.ack_share))
    uneven = simulate_flows(star(2), sends((0, 1, 1e6), (1, 0, 5e5)), options).flows["finish_us"].to_list()
    assert uneven[0] == pytest.approx(1e6 / 50_000 * (1 + row.ack_share / 2))


def test_scale_up_links_have_a_share_of_their_own_and_no_acknowledgements(rail_only, sends) -> None:
    options = FlowOptions(scale_up_goodput=0.8, calibration=LOSSY, acknowledged=True)
    result = simulate_flows(rail_only(2, 2, inner_gbps=1600.0), sends((0, 1, 1e6), (1, 0, 1e6)), options)
    assert result.finish_us == pytest.approx(1e6 / (1600 * 125 * 0.8))


def test_the_bus_of_an_adapter_that_gpus_share_holds_their_flows_back() -> None:
    spec = {
        "name": "shared",
        "cluster": {"gpus": 32, "server": "hgx-h100", "nics_per_server": 4},
        "backend": {"topology": "rail-only"},
    }
    network = network_from_plan(design_plan(ClusterSpec.model_validate(spec), load_catalog()))
    slot = (network.node_kind[network.link_src] == HOST) & (network.node_kind[network.link_dst] == SWITCH)
    slower = np.where(slot | slot[np.arange(slot.size) ^ 1], 100.0, network.link_gbps)
    traffic = pl.DataFrame({"op_id": [0], "src": [0], "dst": [8], "bytes": [1e6]}).with_columns(
        kind=pl.lit("send"), start_us=pl.lit(0.0), repeat=pl.lit(1), job=pl.lit("a"), **{"class": pl.lit("data")}
    )
    table = conform("traffic", traffic)
    fast, slow = (simulate_flows(net, table).finish_us for net in (network, replace(network, link_gbps=slower)))
    assert slow - fast == pytest.approx(1e6 / (100 * 125) - 1e6 / 50_000, rel=0.02)
