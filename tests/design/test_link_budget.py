"""Link budgets against worked examples and the identities of the standards."""

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railwright.catalog.load import load_catalog
from railwright.design.link_budget import channel_loss, check_channel, mated_pairs, power_budget_db

CATALOG = load_catalog()
with (Path(__file__).parent / "facts" / "link_budgets.csv").open(newline="") as stream:
    WORKED = list(csv.DictReader(stream))


@pytest.mark.parametrize("row", WORKED, ids=lambda row: row["example"])
def test_worked_budgets_to_a_thousandth_of_a_decibel(row: dict[str, str]) -> None:
    budget = check_channel(
        CATALOG,
        (row["pmd"], row["pmd"]),
        row["fibre"],
        float(row["length_m"]),
        CATALOG.connectors[row["connector"]].loss_db,
        int(row["pairs"]),
    )
    assert float(budget.loss_db) == pytest.approx(float(row["loss_db"]), abs=5e-4)
    assert budget.limit_db == pytest.approx(float(row["limit_db"]))
    assert float(budget.margin_db) == pytest.approx(float(row["margin_db"]), abs=5e-4)


def test_the_two_channels_with_standard_connectors_fail_and_the_others_hold() -> None:
    failing = {row["example"] for row in WORKED if float(row["margin_db"]) < 0}
    assert failing == {"B", "F"}


def test_both_sides_of_the_budget_agree_for_dr4() -> None:
    budget = check_channel(CATALOG, ("400g-dr4", "400g-dr4"), "os2", 180, 0.35, 4)
    assert float(budget.power_margin_db) == pytest.approx(float(budget.margin_db), abs=1e-9)


@pytest.mark.parametrize("tdecq_db", [1.4, 2.4, 3.4])
@pytest.mark.parametrize(("pmd", "loss_db", "penalty_db"), [("400g-dr4", 3.0, 0.1), ("400g-fr4", 4.0, 0.3)])
def test_transmitter_less_receiver_is_channel_loss_and_penalty(
    pmd: str, loss_db: float, penalty_db: float, tdecq_db: float
) -> None:
    interface = CATALOG.pmds[pmd]
    oma, sensitivity = interface.oma_min_dbm(tdecq_db), interface.sensitivity_dbm(tdecq_db)
    assert oma is not None
    assert sensitivity is not None
    assert oma - sensitivity == pytest.approx(loss_db + penalty_db)
    assert interface.penalty_db == penalty_db
    assert power_budget_db(interface, interface) == pytest.approx(loss_db + penalty_db)


def test_two_patch_panels_are_four_mated_pairs() -> None:
    assert [mated_pairs(panels) for panels in (0, 2)] == [2, 4]


def test_an_lr4_transmitter_overloads_an_fr4_receiver_without_loss() -> None:
    budget = check_channel(CATALOG, ("400g-fr4", "400g-lr4"), "os2", 10, 0.25, 2)
    assert float(budget.overload_margin_db) == pytest.approx(3.5 - 5.1)


def test_multimode_ends_where_the_bandwidth_does_even_if_light_is_left() -> None:
    budget = check_channel(CATALOG, ("400g-sr4", "400g-sr4"), "om3", np.array([50.0, 70.0]), 0.35, 2)
    assert (budget.margin_db > 0).all()
    assert budget.bandwidth_margin_m.tolist() == [10.0, -10.0]


@given(
    st.lists(st.floats(0, 2000), min_size=1, max_size=20),
    st.integers(0, 8),
    st.integers(0, 4),
    st.sampled_from([0.25, 0.35, 0.5, 0.75]),
)
def test_an_array_of_channels_is_each_channel_alone_and_losses_add(
    lengths: list[float], pairs: int, splices: int, pair_loss: float
) -> None:
    together = channel_loss(np.array(lengths), 0.4, pairs, pair_loss, splices)
    for length, loss in zip(lengths, together, strict=True):
        assert float(channel_loss(length, 0.4, pairs, pair_loss, splices)) == loss
        assert loss == pytest.approx(length * 0.4e-3 + pairs * pair_loss + splices * 0.1)
