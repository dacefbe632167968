"""Background load: every kind offers what was asked, arrives as it says, and stays what it is whatever comes beside it."""

import numpy as np
import polars as pl
import pytest

from railwright.errors import InputError
from railwright.workload.background import (
    KINDS,
    WEB_SEARCH,
    background_traffic,
    gateways_of,
    parse_load,
)

ENDPOINTS = 64
EDGE = np.full(ENDPOINTS, 400.0)
GATEWAYS = np.arange(0, ENDPOINTS, 16)
UNTIL_US = 200_000.0


def load_of(*loads: str, seed: int = 1, until_us: float = UNTIL_US) -> pl.DataFrame:
    return background_traffic(loads, EDGE, until_us=until_us, seed=seed)


def offered_share(table: pl.DataFrame) -> float:
    capacity = GATEWAYS.size * 400e9 / 8 * UNTIL_US * 1e-6
    return float((table["bytes"] * table["repeat"]).sum()) / capacity


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_offers_the_share_that_was_asked(kind) -> None:
    share = {"management": 0.0005}.get(kind, 0.2)  # management is small messages: a fifth of the rate is millions
    table = load_of(f"{kind}:{share}")
    flows = table.height if KINDS[kind].arrives == "poisson" else 1e9
    size, cdf = np.array(KINDS[kind].sizes.up_to_bytes), np.array(KINDS[kind].sizes.share)
    second = (np.diff(cdf) * (size[1:] ** 2 + size[1:] * size[:-1] + size[:-1] ** 2) / 3).sum()
    spread = np.sqrt(second) / KINDS[kind].sizes.mean_bytes / np.sqrt(flows)  # of a compound Poisson sum
    assert offered_share(table) == pytest.approx(share, rel=max(0.01, 4 * spread))


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.arrives == "poisson"])
def test_open_loop_arrivals_are_a_poisson_process(kind) -> None:
    share = {"management": 0.0002, "requests": 0.5, "ingest": 0.9}.get(kind, 0.2)
    start = load_of(f"{kind}:{share}", until_us=500_000.0)["start_us"].to_numpy()
    gaps = np.diff(start)
    assert (gaps >= 0).all()
    assert gaps.size > 1000
    # Exponential gaps: standard deviation equals the mean, and e^-1 of them are longer than the mean.
    assert gaps.std() / gaps.mean() == pytest.approx(1, abs=5 / np.sqrt(gaps.size))
    assert (gaps > gaps.mean()).mean() == pytest.approx(np.exp(-1), abs=4 * 0.48 / np.sqrt(gaps.size))
    # Counts in equal windows: variance equals the mean.
    counts = np.histogram(start, bins=100)[0]
    assert 0.5 < counts.var() / counts.mean() < 1.7


def test_request_sizes_follow_the_published_distribution() -> None:
    sizes = WEB_SEARCH.draw(200_000, np.random.default_rng(1))
    for limit, share in zip(WEB_SEARCH.up_to_bytes[1:], WEB_SEARCH.share[1:], strict=True):
        assert (sizes <= limit).mean() == pytest.approx(share, abs=0.005)
    assert WEB_SEARCH.mean_bytes == pytest.approx(sizes.mean(), rel=0.01)
    assert pytest.approx(1.71e6, rel=0.02) == WEB_SEARCH.mean_bytes  # HPCC's WebSearch table


def test_a_checkpoint_is_everyone_writing_at_one_moment() -> None:
    table = load_of("checkpoint:10%")
    assert table["start_us"].n_unique() == 1
    clients = np.setdiff1d(np.arange(ENDPOINTS), GATEWAYS)
    assert np.array_equal(np.unique(table["src"]), clients)
    assert np.ptp(np.bincount(table["src"])[clients]) <= 1
    assert set(table["dst"]) == set(GATEWAYS)
    assert set(table["direction"].cast(pl.String)) == {"storage"}


def test_a_backup_is_one_part_after_another_through_the_run() -> None:
    table = load_of("backup:30%")
    assert table["repeat"].min() > 1
    assert table["start_us"].max() < 0.01 * UNTIL_US
    assert table["src"].n_unique() == table.height


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_go_the_way_they_say(kind) -> None:
    share = 0.001 if kind == "management" else 0.1
    table = load_of(f"{kind}:{share}")
    outward = KINDS[kind].between == "from-gateway"
    gateways, clients = (table["src"], table["dst"]) if outward else (table["dst"], table["src"])
    assert np.isin(gateways, GATEWAYS).all()
    assert not np.isin(clients, GATEWAYS).any()
    assert table["job"].unique().to_list() == [f"background:{kind}"]
    assert KINDS[kind].source


def test_the_same_seed_gives_the_same_rows_and_another_one_others() -> None:
    loads = ("requests:10%", "storage-reads:10%", "backup:5%", "checkpoint:2%")
    assert load_of(*loads).equals(load_of(*loads))
    assert not load_of(*loads).equals(load_of(*loads, seed=2))


def test_a_kind_beside_it_changes_nothing() -> None:
    alone = load_of("requests:10%")
    beside = load_of("ingest:20%", "requests:10%").filter(pl.col("job") == "background:requests")
    assert alone.drop("op_id").equals(beside.drop("op_id"))


def test_groups_keep_to_themselves() -> None:
    group = np.arange(ENDPOINTS) % 4
    table = background_traffic(["requests:50%", "checkpoint:5%"], EDGE, until_us=UNTIL_US, seed=3, groups=group)
    assert (group[table["src"].to_numpy()] == group[table["dst"].to_numpy()]).all()
    assert np.array_equal(np.bincount(group[gateways_of(group)]), [1, 1, 1, 1])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("request:10%", "did you mean 'requests'"),
        ("requests", "KIND:SHARE"),
        ("requests:0%", "above 0%"),
        ("requests:120%", "up to 100%"),
        ("requests:some", "some"),
    ],
)
def test_a_wrong_load_is_named(text, says) -> None:
    with pytest.raises(InputError, match=says):
        parse_load(text)


def test_too_many_flows_and_clients_without_a_gateway_are_named() -> None:
    with pytest.raises(InputError, match="5,000,000 are allowed"):
        load_of("management:100%", until_us=1e7)
    with pytest.raises(InputError, match="a gateway that each of them reaches"):
        background_traffic(
            ["requests:1%"], EDGE, until_us=10.0, gateways=np.array([0]), groups=np.arange(ENDPOINTS) % 2
        )
