"""Optics, cables, fibres and cages against published behaviour."""

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railwright.catalog.cables import lane_masks
from railwright.catalog.interop import cage_accepts, cage_rule, host_match, optical_match
from railwright.catalog.load import load_catalog

CATALOG = load_catalog()
FACTS = Path(__file__).parent / "facts"


def rows(name: str) -> list[dict[str, str]]:
    with (FACTS / name).open(newline="") as stream:
        return list(csv.DictReader(stream))


# The published matrix is over modules; a twin-port module is legs of a PMD.
PMD_OF = {
    "400G-SR8": "400g-sr8",
    "400G-SR4": "400g-sr4",
    "400G-VR4": "400g-vr4",
    "400G-SR4.2": "400g-sr4.2",
    "400G-DR4": "400g-dr4",
    "400G-XDR4": "400g-xdr4",
    "400G-FR4": "400g-fr4",
    "400G-LR4": "400g-lr4",
    "400G-FR8": "400g-fr8",
    "400G-LR8": "400g-lr8",
    "800G-2xSR4": "400g-sr4",
    "800G-2xDR4": "400g-dr4",
    "800G-DR8": "800g-dr8",
    "800G-2xFR4": "400g-fr4",
    "800G-2xLR4": "400g-lr4",
    "800G-DR4(200G)": "800g-dr4",
    "800G-FR4(200G)": "800g-fr4",
    "1.6T-2xDR4": "800g-dr4",
    "1.6T-2xFR4": "800g-fr4",
    "800G-2xDR4-LPO": "400g-dr4-lpo",
}


@pytest.mark.parametrize("row", rows("interop_matrix.csv"), ids=lambda row: f"{row['a']}~{row['b']}")
def test_the_published_interoperability_matrix(row: dict[str, str]) -> None:
    verdict = optical_match(CATALOG, PMD_OF[row["a"]], PMD_OF[row["b"]])
    assert verdict.works == (row["verdict"] != "N")
    if row["verdict"] != "Y":
        assert verdict.reason


@given(st.sampled_from(list(CATALOG.pmds)), st.sampled_from(list(CATALOG.pmds)))
def test_two_ends_light_up_in_both_directions_or_in_none(a: str, b: str) -> None:
    forward, backward = optical_match(CATALOG, a, b), optical_match(CATALOG, b, a)
    assert forward.works == backward.works
    assert forward.works == (a == b) or forward.reason


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ("400g-sr8", "400g-sr4", "lane rates differ (50G and 100G)"),
        ("400g-dr4", "400g-fr4", "wavelengths differ"),
        ("400g-sr4", "400g-dr4", "fibre differs (mmf and smf)"),
        ("800g-dr4", "400g-dr4", "lane rates differ (200G and 100G)"),
        ("400g-fr8", "400g-fr4", "lane rates differ (50G and 100G)"),
        ("100g-lr4", "400g-lr8", "lane rates differ (25G and 50G)"),
    ],
)
def test_a_pair_that_cannot_work_says_why(a: str, b: str, reason: str) -> None:
    assert reason in optical_match(CATALOG, a, b).reason


@pytest.mark.parametrize("tdecq_db", [1.4, 2.4, 3.4])
@pytest.mark.parametrize(("pmd", "difference_db"), [("400g-dr4", 3.1), ("800g-dr8", 3.1), ("400g-fr4", 4.3)])
def test_transmitter_and_receiver_are_one_channel_and_its_penalty_apart(
    pmd: str, difference_db: float, tdecq_db: float
) -> None:
    entry = CATALOG.pmds[pmd]
    least, sensitivity = entry.oma_min_dbm(tdecq_db), entry.sensitivity_dbm(tdecq_db)
    assert least is not None
    assert sensitivity is not None
    assert least - sensitivity == pytest.approx(difference_db, abs=1e-9)
    assert entry.channel_loss_db["os2"] + (entry.penalty_db or 0) == pytest.approx(difference_db, abs=1e-9)


@pytest.mark.parametrize("row", rows("link_budgets.csv"), ids=lambda row: row["example"])
def test_the_losses_and_limits_of_the_worked_link_budgets(row: dict[str, str]) -> None:
    fibre, connector = CATALOG.fibres[row["fibre"]], CATALOG.connectors[row["connector"]]
    (per_km,) = fibre.attenuation_db_per_km.values()
    loss_db = per_km * float(row["length_m"]) / 1000 + connector.loss_db * int(row["pairs"])
    limit_db = CATALOG.pmds[row["pmd"]].channel_loss_db[row["fibre"]]
    assert loss_db == pytest.approx(float(row["loss_db"]), abs=1e-3)
    assert limit_db - loss_db == pytest.approx(float(row["margin_db"]), abs=1e-3)


def test_every_breakout_gives_each_lane_to_one_leg_and_equal_legs_follow_the_rule() -> None:
    for breakout in CATALOG.breakouts.values():
        hosts = [leg.host_lanes for leg in breakout.legs]
        assert sum(hosts) == (1 << breakout.host_lanes) - 1 if hosts and breakout.host_lanes else not hosts
        if len({mask.bit_count() for mask in hosts}) == 1:
            assert hosts == lane_masks(breakout.host_lanes or 0, len(hosts))


@given(st.integers(1, 16), st.integers(1, 16))
def test_lane_masks_share_out_all_lanes(width: int, ports: int) -> None:
    masks = lane_masks(width * ports, ports)
    assert sum(masks) == (1 << (width * ports)) - 1
    assert {mask.bit_count() for mask in masks} == {width}
    assert masks == sorted(masks)


def test_lanes_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="8 lanes do not divide over 3 ports"):
        lane_masks(8, 3)


@pytest.mark.parametrize(
    ("device", "cage", "module", "works", "reason"),
    [
        ("qm9700", "osfp-ihs", "osfp-ihs", True, ""),
        ("qm9700", "osfp-ihs", "osfp-rhs", False, "needs a finned top"),
        ("qm9700", "osfp-ihs", "osfp-rhs-single", False, "twin-port"),
        ("sn5400", "qsfp-dd", "qsfp112", False, "lanes stop at 50G"),
        ("connectx-7-osfp", "osfp-rhs-single", "osfp-ihs", False, "flat top"),
        ("connectx-7-qsfp112", "qsfp112", "qsfp28", True, ""),
        ("bluefield-3-b3240", "qsfp112", "qsfp56", True, ""),
        ("bluefield-3-b3240", "qsfp112", "qsfp28", False, "25G lanes"),
        ("connectx-7-cedar", "osfp-rhs", "osfp-ihs", False, "flat top"),
        ("p1400gd", "qsfp112-dd", "qsfp-dd", True, ""),
        ("generic-64x400", "qsfp-dd", "qsfp56", True, ""),
        ("generic-64x400", "qsfp-dd", "osfp-ihs", False, "qsfp-dd cages take qsfp-dd, qsfp56, qsfp28, not osfp-ihs"),
        ("n9364e-sg2", "osfp-ihs", "osfp-rhs", False, "osfp-ihs cages take osfp-ihs, not osfp-rhs"),
    ],
)
def test_which_cage_takes_which_module(device: str, cage: str, module: str, works: bool, reason: str) -> None:
    verdict = cage_accepts(CATALOG, device, cage, module)
    assert verdict.works == works
    assert reason in verdict.reason


def test_a_module_of_eight_50g_lanes_does_not_run_in_a_cage_of_four_100g_lanes() -> None:
    optic = CATALOG.optics["generic-400g-dr4-qsfp-dd"]
    rule = cage_rule(CATALOG, "connectx-8-c8240", "qsfp112")
    assert rule is not None
    assert "needs lanes of 50G, the cage runs 100G" in host_match(CATALOG, optic, rule.lane_gbps, rule.lanes).reason
    assert host_match(CATALOG, optic, (50.0, 25.0), 4).reason == "the module needs 8 lanes, the cage has 4"
    assert host_match(CATALOG, optic, (50.0, 25.0), 8).works


def test_a_linear_module_needs_a_qualified_port() -> None:
    optic = CATALOG.optics["generic-800g-2xdr4-lpo-osfp-ihs"]
    assert "qualified" in host_match(CATALOG, optic, (100.0,), 8).reason


def test_every_cage_of_a_switch_or_adapter_has_a_module_or_cable_that_fits() -> None:
    cages = {(switch.key, group.form_factor) for switch in CATALOG.switches.values() for group in switch.cages}
    cages |= {(nic.key, nic.form_factor) for nic in CATALOG.nics.values()}
    shapes = {optic.form_factor for optic in CATALOG.optics.values()}
    for cable in CATALOG.cables.values():
        shapes |= {*cable.head.form_factors, *cable.tails.form_factors}
    missing = {
        (device, cage)
        for device, cage in cages
        if not any(cage_accepts(CATALOG, device, cage, shape).works for shape in shapes)
    }
    assert {cage for _, cage in missing} <= {"sfp-plus"}


@pytest.mark.parametrize(("lane_gbps", "straight_m"), [(50, 3), (100, 2), (200, 1)])
def test_passive_copper_reaches_by_its_lane_rate(lane_gbps: float, straight_m: float) -> None:
    passive = [cable for cable in CATALOG.cables.values() if cable.medium == "dac" and cable.lane_gbps == lane_gbps]
    straight = [cable for cable in passive if cable.tails.count == 1] or passive
    assert max(cable.reach_m or 0 for cable in straight) == straight_m


def test_nothing_multimode_and_no_active_optical_cable_exists_at_200g_lanes() -> None:
    fast = [CATALOG.pmds[key] for key in CATALOG.pmds if CATALOG.pmds[key].lane_gbps == 200]
    assert {pmd.fibre_kind for pmd in fast} == {"smf"}
    assert not [cable for cable in CATALOG.cables.values() if cable.medium == "aoc" and cable.lane_gbps == 200]


def test_only_retimed_copper_joins_lanes_of_different_rates() -> None:
    assert {cable.medium for cable in CATALOG.cables.values() if cable.gearbox} == {"aec"}


@pytest.mark.parametrize(
    ("kind", "key", "reach_m"),
    [
        ("optics", "clight-1.6t-2dr4-rhs", 500),
        ("optics", "clight-1.6t-2fr4-rhs", 2000),
        ("cables", "clight-800g-dac", 2),
        ("cables", "clight-800g-aec", 7),
        ("cables", "clight-800g-aoc", 100),
        ("cables", "clight-400g-dac", 2),
        ("cables", "clight-400g-aec", 7),
        ("cables", "clight-400g-aoc", 100),
    ],
)
def test_c_light_products_come_with_what_a_buyer_must_settle(kind: str, key: str, reach_m: float) -> None:
    part = CATALOG.kind(kind)[key]
    assert {"device-model", "form-factor", "coding", "protocol", "distance"} <= set(part.buyer_checks)
    assert (part.reach_m["os2"] if kind == "optics" else part.reach_m) == reach_m
    assert "protocols" in part.unverified


def test_the_order_numbers_of_the_published_superpod_are_parts_of_the_catalog() -> None:
    numbers = {
        number
        for kind in ("optics", "cables", "fibre_cables")
        for part in CATALOG.kind(kind).values()
        for number in part.order_numbers
    } | {switch.part_number for switch in CATALOG.switches.values()}
    published = {
        "980-9I510-00NS00",
        "980-9I51A-00NS00",
        "980-9I51S-00NS00",
        "980-9I570-00N030",
        "980-9I557-00N030",
        "980-9I693-00NS00",
        "980-9I440-00H030",
        "980-9I13N-00C030",
        "980-9I54C-00V001",
        "920-9B210-00FN-0M0",
        "920-9N302-00F7-0C2",
        "920-9N110-00F1-0C0",
    }
    assert published <= numbers


def test_parallel_optics_need_an_odd_number_of_flips() -> None:
    assert [key for key, polarity in CATALOG.polarities.items() if polarity.parallel_optics] == ["type-b"]
    assert CATALOG.polarities["type-b"].flips % 2 == 1


def test_cords_are_female_and_trunks_and_modules_male() -> None:
    for cable in CATALOG.fibre_cables.values():
        if cable.connector.startswith("mpo"):
            assert cable.gender == ("male" if cable.trunk else "female")
    assert {optic.gender for optic in CATALOG.optics.values() if optic.connector.startswith("mpo")} == {"male"}


def test_a_price_without_a_date_or_from_a_claim_is_not_used_by_default_unless_it_is_all_there_is() -> None:
    for price in CATALOG.prices.values():
        assert price.usd > 0
        assert not (price.default and price.quality == "claim")
        if price.default and price.date is None:
            rivals = [other for other in CATALOG.prices.values() if set(other.items) & set(price.items)]
            assert rivals == [price]


def test_one_thing_has_at_most_one_default_price() -> None:
    items = [item for price in CATALOG.prices.values() if price.default for item in price.items]
    assert len(items) == len(set(items))


def test_the_diagnostics_rule_gives_the_thresholds_that_a_100g_dr_module_reports() -> None:
    rule, pmd, dump = CATALOG.ddm["generic"].rx_offset_db, CATALOG.pmds["100g-dr"], CATALOG.ddm["100g-dr-qsfp28"].rx_dbm
    assert rule is not None
    assert dump is not None
    least, most = pmd.rx_average_min_dbm or 0, pmd.rx_average_max_dbm or 0
    assert least + (rule.low_alarm or 0) == pytest.approx(dump.low_alarm, abs=0.05)
    assert least + (rule.low_warn or 0) == pytest.approx(dump.low_warn, abs=0.05)
    assert most + (rule.high_warn or 0) == pytest.approx(dump.high_warn, abs=0.05)
    assert most + (rule.high_alarm or 0) == pytest.approx(dump.high_alarm, abs=0.05)
