"""The QoS contract: profiles, vendors' conventions, thresholds and what it refuses."""

import csv
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from railwright.design.qos import (
    Ecn,
    QosContract,
    TrafficClass,
    convention_contract,
    conventions,
    profile_contract,
    threshold_defaults,
)
from railwright.errors import InputError

FACTS = Path(__file__).parent / "facts"
with (FACTS / "dscp_conventions.csv").open(newline="") as stream:
    ROWS = {row["vendor/platform"]: row for row in csv.DictReader(stream)}

EXPRESSED = {
    "NVIDIA Cumulus NVUE nv set qos roce": ["cumulus"],
    "NVIDIA Onyx roce": ["onyx"],
    "Juniper QFX5240 JVD": ["juniper"],
    "SONiC community default": ["sonic"],
    "SONiC Arista 7060X6 O128": ["sonic-7060x6"],
    "SONiC Mellanox SN5600-C256S1": ["sonic-sn5600-tor", "sonic-sn5600-leaf"],
    "SONiC nexthop 5010": ["sonic-nexthop"],
    "Cisco Nexus 9000 (field template)": ["cisco"],
    "Arista EOS deployment guide": ["arista"],
    "Intel Gaudi 3": ["gaudi3"],
    "Real cluster seen (NCCL #2383)": ["nccl-2383"],
}


def test_every_convention_of_the_table_is_expressed() -> None:
    assert set(EXPRESSED) == set(ROWS)
    assert sorted(key for keys in EXPRESSED.values() for key in keys) == sorted(conventions())


def facts_of(key: str) -> tuple[QosContract, TrafficClass, TrafficClass]:
    contract = convention_contract(key)
    return contract, contract.by_name("roce"), contract.by_name("cnp")


def test_cumulus() -> None:
    _, roce, cnp = facts_of("cumulus")
    assert (roce.dscp, roce.priority, roce.queue, roce.weight, roce.lossless) == ((26,), 3, 3, 50, True)
    assert (cnp.dscp, cnp.priority, cnp.scheduler) == ((48,), 6, "strict")
    assert roce.ecn is not None
    assert roce.ecn.threshold_bytes(400, 8) == roce.ecn.threshold_bytes(100, 8) == (1_501_500, 1_501_500)


def test_onyx() -> None:
    _, roce, cnp = facts_of("onyx")
    assert (roce.priority, roce.weight, cnp.priority, cnp.scheduler) == (3, 50, 6, "strict")
    assert roce.ecn is not None
    assert roce.ecn.threshold_bytes(100, 8) == (150_000, 1_500_000)


def test_juniper_has_pfc_priority_3_on_queue_4_and_shares_of_the_queue() -> None:
    contract, roce, cnp = facts_of("juniper")
    assert (roce.dscp, roce.priority, roce.queue, cnp.dscp, cnp.queue) == ((26,), 3, 4, (48,), 3)
    assert contract.pfc_priorities("backend") == (3,)
    assert roce.ecn is not None
    assert (roce.ecn.kmin, roce.ecn.kmax, roce.ecn.pmax) == (0.55, 0.90, 1.0)
    assert roce.ecn.threshold_bytes(400, 8) is None


def test_sonic_community_default_has_two_lossless_classes_and_dscp_26_is_lossy() -> None:
    contract, roce, cnp = facts_of("sonic")
    assert contract.pfc_priorities("backend") == (3, 4)
    assert (contract.class_of(3).priority, contract.class_of(4).priority) == (3, 4)
    assert (contract.class_of(26).priority, contract.class_of(26).lossless) == (1, False)
    assert (cnp.dscp, cnp.priority) == ((48,), 6)
    assert roce.ecn is not None
    assert (*roce.ecn.threshold_bytes(400, 8), roce.ecn.pmax) == (1_048_576, 2_097_152, 0.05)


@pytest.mark.parametrize(
    ("key", "kmin", "kmax"),
    [
        ("sonic-7060x6", 131_072, 262_144),
        ("sonic-sn5600-tor", 166_912, 282_624),
        ("sonic-sn5600-leaf", 166_912, 239_616),
        ("sonic-nexthop", 2_000_000, 10_000_000),
    ],
)
def test_sonic_platform_thresholds(key: str, kmin: int, kmax: int) -> None:
    ecn = convention_contract(key).by_name("roce").ecn
    assert ecn is not None
    assert (*ecn.threshold_bytes(400, 8), ecn.pmax) == (kmin, kmax, 0.05)


def test_cisco() -> None:
    contract, roce, cnp = facts_of("cisco")
    assert roce.dscp == (24, 26)
    assert (roce.priority, cnp.dscp, cnp.priority, cnp.scheduler) == (3, (48,), 7, "strict")
    assert contract.pfc_priorities("backend") == (3,)
    assert roce.ecn is not None
    assert (*roce.ecn.threshold_bytes(100, 8), roce.ecn.pmax) == (150_000, 3_000_000, 0.07)


def test_arista_gaudi_and_the_cluster_of_nccl_2383() -> None:
    assert convention_contract("arista").class_of(24).priority == 3
    assert convention_contract("gaudi3").class_of(24).priority == 2
    assert convention_contract("gaudi3").class_of(16).priority == 3
    real = convention_contract("nccl-2383").by_name("roce")
    assert (real.dscp, real.priority, real.lossless) == ((59,), 5, True)
    assert real.traffic_class_byte == 236 | 2


def test_dscp_26_is_traffic_class_byte_106() -> None:
    assert profile_contract("dcqcn+pfc").by_name("roce").traffic_class_byte == 106


@pytest.mark.parametrize(
    ("profile", "lossless", "marked", "dcqcn"),
    [
        ("dcqcn+pfc", True, True, True),
        ("ecn-only", False, True, True),
        ("pfc-only", True, False, False),
        ("lossy+spray", False, True, False),
    ],
)
def test_profiles_differ_in_loss_marking_and_rate_control(
    profile: str, lossless: bool, marked: bool, dcqcn: bool
) -> None:
    contract = profile_contract(profile)
    roce = contract.by_name("roce")
    assert (roce.lossless, roce.ecn is not None, contract.dcqcn) == (lossless, marked, dcqcn)
    assert (contract.watchdog is not None) == lossless


def test_infiniband_has_service_levels_and_virtual_lanes() -> None:
    contract = profile_contract("credits")
    assert contract.transport == "infiniband"
    assert {c.name: (c.priority, c.queue) for c in contract.classes} == {
        "rdma": (1, 1),
        "storage": (2, 2),
        "best-effort": (0, 0),
    }


def test_pfc_holds_only_where_the_class_lives() -> None:
    contract = profile_contract("dcqcn+pfc")
    assert contract.pfc_priorities("backend") == (3,)
    assert contract.pfc_priorities("storage") == (2,)
    assert contract.pfc_priorities("frontend") == ()


def test_our_thresholds_stand_beside_the_vendors_and_inside_their_range() -> None:
    table = threshold_defaults(400.0)
    ours = table.row(0, named=True)
    assert (ours["convention"], ours["kmin_bytes"], ours["kmax_bytes"]) == ("railwright", 400_000, 1_600_000)
    assert ours["source"].startswith("ours")
    vendors = table.slice(1)
    assert vendors["kmin_bytes"].min() < ours["kmin_bytes"] < vendors["kmin_bytes"].max()


@given(gbps=st.sampled_from([100.0, 200.0, 400.0, 800.0]), rtt=st.floats(1, 100))
@settings(deadline=None)
def test_rate_rtt_thresholds_are_the_bytes_in_flight(gbps: float, rtt: float) -> None:
    low, high = Ecn(kind="rate-rtt", kmin=1, kmax=4, pmax=0.05).threshold_bytes(gbps, rtt) or (0, 0)
    assert low == pytest.approx(gbps * 1e9 / 8 * rtt * 1e-6, abs=1)
    assert high == pytest.approx(4 * low, abs=4)


@given(dscp=st.integers(0, 63), profile=st.sampled_from(["dcqcn+pfc", "ecn-only", "pfc-only"]))
@settings(deadline=None)
def test_every_dscp_has_exactly_one_class(dscp: int, profile: str) -> None:
    contract = profile_contract(profile)
    assert contract.dscp_to_priority()[dscp] == contract.class_of(dscp).priority


def changed(**change: object) -> dict[str, object]:
    contract = profile_contract("dcqcn+pfc").model_dump()
    for c in contract["classes"]:
        if c["name"] == "roce":
            c.update(change)
    return contract


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dscp": (48,)}, "DSCP 48 belongs to two classes"),
        ({"priority": 6}, "same priority 6"),
        ({"queue": 2}, "same queue 2"),
        ({"weight": 90}, "add up to 130 percent"),
        ({"weight": None}, "needs a weight"),
        ({"dscp": (64,)}, "less than or equal to 63"),
        ({"ecn": {"kind": "bytes", "kmin": 9, "kmax": 3, "pmax": 1}}, "never rise"),
        ({"ecn": {"kind": "fill", "kmin": 0.5, "kmax": 1.5, "pmax": 1}}, "never be reached"),
    ],
)
def test_a_contract_that_contradicts_itself_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        QosContract.model_validate(changed(**change))


def test_unknown_names_get_the_nearest_spelling() -> None:
    with pytest.raises(InputError, match="did you mean 'ecn-only'"):
        profile_contract("ecn_only")
    with pytest.raises(InputError, match="did you mean 'juniper'"):
        convention_contract("junipr")
