"""Plans as folders and as figures."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from railwright.catalog.load import load_catalog
from railwright.design.design import design_plan
from railwright.design.plan import PLAN_FILE, Plan, load_plan
from railwright.design.summary import summarise
from railwright.errors import InputError
from railwright.spec.cluster import ClusterSpec

BACKEND_ONLY = {network: {"enabled": False} for network in ("frontend", "storage", "management")}


def _spec(**changes: object) -> ClusterSpec:
    return ClusterSpec.model_validate(
        {
            "name": "test",
            "cluster": {"gpus": 1024, "server": "hgx-h100"},
            "backend": {"topology": "rail-optimized"},
            **changes,
        }
    )


def test_a_saved_plan_is_read_back_as_it_was(tmp_path: Path) -> None:
    plan = design_plan(_spec(), load_catalog())
    again = load_plan(plan.save(tmp_path / "plan"))
    assert again.spec == plan.spec
    assert again.facts == plan.facts
    assert again.reasons == plan.reasons
    assert all(again.tables[name].equals(frame) for name, frame in plan.tables.items())
    assert summarise(again) == summarise(plan)


def test_the_same_spec_gives_the_same_bytes(tmp_path: Path) -> None:
    folders = [design_plan(_spec(), load_catalog()).save(tmp_path / name) for name in ("one", "two")]
    files = [{file.name: file.read_bytes() for file in folder.iterdir()} for folder in folders]
    assert files[0] == files[1]


def test_saving_replaces_an_older_plan_but_never_another_folder(tmp_path: Path) -> None:
    plan = design_plan(_spec(), load_catalog())
    plan.save(tmp_path / "plan")
    assert plan.save(tmp_path / "plan").is_dir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="not a plan"):
        plan.save(tmp_path / "other")
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


@pytest.mark.parametrize("missing", [PLAN_FILE, "links.parquet"])
def test_a_folder_that_is_not_a_whole_plan_is_named(missing: str, tmp_path: Path) -> None:
    folder = design_plan(_spec(), load_catalog()).save(tmp_path / "plan")
    (folder / missing).unlink()
    with pytest.raises(InputError, match=missing.removesuffix(".parquet")):
        load_plan(folder)


def test_summary_of_rail_only_128(backend_plan: Callable[..., Plan]) -> None:
    figures = summarise(backend_plan(16))
    backend = figures["networks"]["backend"]
    assert backend["topology"] == "rail-only"
    assert backend["endpoints"] == 128
    assert backend["switches"] == {"leaf": 8, "spine": 0, "core": 0}
    assert (backend["links"], backend["cables"], backend["tiers"], backend["planes"]) == (128, 128, 1, 1)
    assert backend["oversubscription"] == 1.0


def test_an_unknown_price_makes_the_total_unknown_and_is_counted(backend_plan: Callable[..., Plan]) -> None:
    totals = summarise(backend_plan(16))["totals"]
    assert totals["price_usd"] is None
    assert totals["unpriced"] == 8  # the switches; the catalog has a dated price of the servers
    assert totals["known_price_usd"] == 16 * 310_000


def test_prices_of_the_spec_add_up() -> None:
    price = {"date": "2025-01", "source": "quote"}
    prices = {"hgx-h100": {"usd": 310000, **price}, "sn5600": {"usd": 50000, **price}}
    spec = _spec(cluster={"gpus": 128, "server": "hgx-h100"}, backend={}, economics={"prices": prices}, **BACKEND_ONLY)
    totals = summarise(design_plan(spec, load_catalog()))["totals"]
    assert totals["price_usd"] == 16 * 310000 + 8 * 50000
    assert totals["unpriced"] == 0


def test_an_oversubscribed_leaf_is_reported_as_built(backend_plan: Callable[..., Plan]) -> None:
    plan = backend_plan(144, topology="rail-optimized", switch="generic-64x400", oversubscription={"leaf": 3.0})
    assert summarise(plan)["networks"]["backend"]["oversubscription_by_tier"] == {"leaf": 3.0}


def test_servers_come_first_and_gpus_count_through_them(backend_plan: Callable[..., Plan]) -> None:
    plan = backend_plan(4)
    servers = plan.devices.filter(pl.col("role") == "server")
    ports = plan.ports.filter(pl.col("direction") == "host").sort("device_id", "gpu")
    assert servers["device_id"].to_list() == [0, 1, 2, 3]
    assert (ports["device_id"].cast(pl.Int64) * 8 + ports["gpu"].cast(pl.Int64)).to_list() == list(range(32))


def test_every_choice_has_a_reason(backend_plan: Callable[..., Plan]) -> None:
    plan = backend_plan(512, "dgx-h100", topology="rail-optimized", transport="infiniband")
    assert {"topology", "tiers", "spines", "cores", "load_balancing"} <= {r["what"] for r in plan.reasons}
    assert all(r["why"] for r in plan.reasons)


def test_a_plan_whose_spec_was_edited_to_another_size_is_refused(tmp_path: Path) -> None:
    folder = design_plan(_spec(cluster={"servers": 8, "server": "hgx-h100"}), load_catalog()).save(tmp_path / "plan")
    head = folder / PLAN_FILE
    head.write_text(head.read_text(encoding="utf-8").replace("servers: 8", "servers: 16"), encoding="utf-8")
    with pytest.raises(InputError, match="asks for 16 servers, but the plan's tables have 8"):
        load_plan(folder)
