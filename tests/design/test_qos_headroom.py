"""PFC headroom against SONiC's worked examples and the tables that vendors ship."""

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railwright.catalog import qos
from railwright.design.headroom import STEP_BYTES, formula_headroom, link_headroom, pool_use

FACTS = Path(__file__).parent / "facts"
EXAMPLES = pl.read_csv(FACTS / "pfc_headroom_examples.csv")
SN5600 = pl.read_csv(FACTS / "acs_sn5600_table.csv")


def ports(model: str, speed: float, length: float | None, lanes: int | None = None) -> pl.DataFrame:
    return pl.DataFrame(
        {"model": [model], "speed_gbps": [float(speed)], "cable_m": [length], "lanes": [lanes]},
        schema={"model": pl.String, "speed_gbps": pl.Float64, "cable_m": pl.Float64, "lanes": pl.UInt8},
    )


def test_every_worked_example_of_the_formula_is_exact() -> None:
    frame = EXAMPLES.select(
        speed_gbps=pl.col("speed_mbps") / 1000, cable_m=pl.col("cable_m").cast(pl.Float64), lanes=pl.lit(None, pl.UInt8)
    )
    ours = formula_headroom(frame, qos.headroom_formulas()["spectrum-4"])
    assert ours["xoff_bytes"].to_list() == EXAMPLES["xoff"].to_list()
    assert ours["xon_bytes"].to_list() == EXAMPLES["xon"].to_list()
    assert ours["size_bytes"].to_list() == EXAMPLES["size"].to_list()
    for column, fact in (
        ("bytes_on_cable", "bytes_on_cable_roundtrip"),
        ("peer_response_bytes", "peer_response_bytes"),
        ("propagation_bytes", "propagation_bytes"),
        ("cell_occupancy", "cell_occupancy"),
    ):
        assert (ours[column] - EXAMPLES[fact]).abs().max() <= 1.0  # the examples print whole bytes


def test_sn5600_has_all_24_cells_of_the_shipped_table_within_one_step() -> None:
    frame = SN5600.select(
        speed_gbps=pl.col("speed_gbps").cast(pl.Float64),
        cable_m=pl.col("cable_m").cast(pl.Float64),
        model=pl.lit("sn5600"),
        lanes=pl.lit(None, pl.UInt8),
    )
    ours = link_headroom(frame)
    assert len(ours) == 24
    below = (SN5600["xoff"] - ours["xoff_bytes"].cast(pl.Int64)) / STEP_BYTES
    assert set(below) == {0.0, 1.0}
    assert (below == 0).sum() == 15
    size_below = (SN5600["size"] - ours["size_bytes"].cast(pl.Int64)) / STEP_BYTES
    assert set(size_below) <= {-1.0, 0.0, 1.0}
    assert ours["xon_bytes"].to_list() == SN5600["xon"].to_list()


@pytest.mark.parametrize(
    ("speed", "length", "xoff"), [(400, 40, 283_648), (400, 300, 677_888), (800, 40, 362_496), (400, 5, 230_400)]
)
def test_sn5600_worked_cells(speed: int, length: int, xoff: int) -> None:
    assert link_headroom(ports("sn5600", speed, length))["xoff_bytes"].item() == xoff


@pytest.mark.parametrize(
    ("model", "speed", "length", "xoff"),
    [
        ("z9864f", 800, 5, 729_488),
        ("z9864f", 800, 40, 835_406),
        ("z9864f", 800, 300, 1_621_536),
        ("7060x6-64pe", 400, 5, 612_140),
        ("7060x6-64pe", 400, 40, 612_140),
        ("7060x6-64pe", 400, 150, 612_140),
        ("7060x6-64pe", 200, 5, 300_990),
        ("sn5640", 400, 30, 99_328),
    ],
)
def test_other_platforms_follow_the_table_their_vendor_ships(model: str, speed: int, length: int, xoff: int) -> None:
    assert link_headroom(ports(model, speed, length))["xoff_bytes"].item() == xoff


def test_a_length_between_two_rows_takes_the_next_longer_row() -> None:
    row = link_headroom(ports("z9864f", 800, 41))
    assert row["xoff_bytes"].item() == 1_621_536
    assert row["basis"].item() == "table Dell-Z9864f-O64, row 300 m"


def test_a_length_beyond_the_table_is_unknown_not_extrapolated() -> None:
    row = link_headroom(ports("7060x6-64pe", 400, 151))
    assert row["xoff_bytes"].item() is None
    assert "no row" in row["basis"].item()


def test_a_platform_without_a_source_has_no_headroom() -> None:
    row = link_headroom(ports("generic-64x400", 400, 5))
    assert row["headroom_bytes"].item() is None
    assert row["basis"].item().startswith("unknown")


def test_an_unknown_length_counts_as_100_m_and_says_so() -> None:
    unknown, given_length = link_headroom(ports("sn5600", 400, None)), link_headroom(ports("sn5600", 400, 100.0))
    assert unknown["xoff_bytes"].item() == given_length["xoff_bytes"].item()
    assert "assumed" in unknown["basis"].item()


def test_eight_lanes_double_the_resume_threshold() -> None:
    assert link_headroom(ports("sn5400", 400, 5, 8))["xon_bytes"].item() == 38_912
    assert link_headroom(ports("sn5400", 400, 5, 4))["xon_bytes"].item() == 19_456


def test_128_ports_of_400g_at_40_m_take_38_8_mb_of_the_sn5600_pool() -> None:
    frame = link_headroom(pl.concat([ports("sn5600", 400, 40)] * 128)).with_columns(device_id=pl.lit(0, pl.UInt32))
    use = pool_use(frame)
    assert use["reserved_bytes"].item() == 128 * 303_104
    assert use["pool_bytes"].item() == 158_229_504
    two_classes = pool_use(pl.concat([frame, frame]))
    assert two_classes["share"].item() == pytest.approx(77_594_624 / 158_229_504)


def test_512_ports_of_400g_at_300_m_do_not_fit() -> None:
    frame = link_headroom(pl.concat([ports("sn5600", 400, 300)] * 512)).with_columns(device_id=pl.lit(0, pl.UInt32))
    assert pool_use(frame)["share"].item() > 1


@given(
    speed=st.sampled_from([10.0, 25.0, 40.0, 50.0, 100.0, 200.0, 400.0, 800.0]),
    model=st.sampled_from(["sn5600", "z9864f", "sn4700"]),
    lengths=st.tuples(st.floats(0, 300), st.floats(0, 300)),
)
@settings(deadline=None)
def test_headroom_never_falls_with_length(speed: float, model: str, lengths: tuple[float, float]) -> None:
    short, long = sorted(lengths)
    frame = link_headroom(pl.concat([ports(model, speed, short), ports(model, speed, long)]))
    if frame["xoff_bytes"].null_count() == 0:
        assert frame["xoff_bytes"][0] <= frame["xoff_bytes"][1]


def test_rows_keep_their_order() -> None:
    frame = pl.concat(
        [ports("z9864f", 800, 40), ports("sn5600", 400, 40), ports("none", 400, 1), ports("z9864f", 800, 5)]
    )
    assert link_headroom(frame)["model"].to_list() == ["z9864f", "sn5600", "none", "z9864f"]
