"""`tune` on an incast whose right answer the closed forms give, and what must not change its result."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.simulate.tune.conftest import ALPHA, BOUND, FREE, PAUSE_AT, SENDERS

from railwright.errors import InputError
from railwright.simulate.tune.parameters import Sections, parse_ranges
from railwright.simulate.tune.run import tune
from railwright.simulate.tune.scenario import Scenario
from railwright.simulate.tune.search import OBJECTIVES, parse_objectives
from railwright.simulate.tune.store import RUNS, RunStore
from railwright.spec.congestion import Pausing


def search(
    scenario: Scenario, vary: list[str], objective: str = "pause", *, folder: Path | None = None, **options: Any
) -> dict[str, Any]:
    asked = {"budget": 22, "jobs": 1, **options}
    ranges = parse_ranges(vary, scenario.parameters)
    store = RunStore(folder, scenario.setting)
    return tune(scenario, ranges, parse_objectives([objective]), seed=3, store=store, **asked)


def runs_of(result: dict[str, Any]) -> list[tuple[float, dict[str, Any]]]:
    base = result["contract"]["parameters"]["kmin"]
    return [((run["parameters"] or {}).get("kmin", base), run["figures"]) for run in result["tried"]]


def test_marks_above_the_pause_point_come_never_and_pauses_do(incast):
    tried = runs_of(search(incast, ["kmin=100KB:1900KB", "pmax=50%:100%"], late_marks=True))
    above = [figures for kmin, figures in tried if kmin > 1.02 * PAUSE_AT]
    assert len(above) >= 3
    assert all(figures["pause_frames"] > 0 and figures["ecn_marks"] == 0 for figures in above)


def test_quick_notifications_from_half_the_pause_point_on_keep_pauses_away(incast):
    tried = runs_of(search(incast, ["kmin=100KB:1900KB", "kmax_ratio=1:1.05"], late_marks=True))
    below = [figures for kmin, figures in tried if kmin < PAUSE_AT / 2]
    assert len(below) >= 3
    assert all(figures["pause_frames"] == 0 and figures["ecn_marks"] > 0 for figures in below)


def test_the_best_marks_first_and_nothing_above_the_bound_is_tried(incast):
    result = search(incast, ["kmin=10KB:1900KB", "kmax_ratio=1:2"])
    assert result["best"]["figures"]["pause_share"] == 0
    assert result["contract"]["figures"]["pause_share"] > 0.1
    searched = [run for run in result["tried"] if run["phase"] in ("even", "refine")]
    assert all(run["parameters"]["kmin"] <= BOUND and run["marks_before_pauses"] for run in searched)
    assert result["contract"]["marks_before_pauses"] is False
    assert any("RW311" in note for note in result["notes"])


def test_settings_that_mark_late_are_flagged_and_never_best_nor_on_the_front(incast):
    result = search(incast, ["kmin=10KB:1900KB", "pmax=50%:100%"], "goodput", late_marks=True)
    flagged = {run["run"] for run in result["tried"] if run["marks_before_pauses"] is False}
    assert all(
        (run["run"] in flagged) == ((run["parameters"] or {"kmin": 1.4e6})["kmin"] > BOUND) for run in result["tried"]
    )
    assert flagged
    assert result["best"]["run"] not in flagged
    assert flagged.isdisjoint(result["front"])


def test_the_bound_follows_alpha_and_a_fixed_threshold(incast):
    assert incast.limit(None) == pytest.approx(BOUND)
    one = 1.0 * FREE / ((SENDERS + 1) * (1 + 1.0))
    assert incast.limit(Pausing(alpha=1.0)) == pytest.approx(one)
    assert incast.limit(Pausing(xoff=400e3)) == pytest.approx(400e3 / (SENDERS + 1))
    assert incast.base["alpha"] == ALPHA


def test_a_fixed_threshold_pauses_earlier_the_lower_it_is(incast):
    high = incast.run(Sections(pfc=Pausing(xoff=140e3)), 3)
    low = incast.run(Sections(pfc=Pausing(xoff=20e3)), 3)
    assert low["queue_max_bytes"] < high["queue_max_bytes"]
    # q/7 stands behind each ingress: the queue reaches seven thresholds and what the headroom takes
    assert SENDERS * 20e3 <= low["queue_max_bytes"] <= SENDERS * (20e3 + 50e3)
    assert SENDERS * 140e3 <= high["queue_max_bytes"] <= SENDERS * (140e3 + 50e3)


def plain(result: dict[str, Any]) -> str:
    return json.dumps({key: value for key, value in result.items() if key != "runs"})


VARY = ["kmin=10KB:40KB", "increase_timer=10us:200us"]


def test_the_number_of_processes_does_not_change_the_result(incast):
    alone = search(incast, VARY, "goodput")
    assert plain(search(incast, VARY, "goodput", jobs=3)) == plain(alone)
    assert alone["runs"] == {"total": len(alone["tried"]), "reused": 0}


def test_a_stopped_search_keeps_what_was_finished_and_goes_on(incast, tmp_path):
    whole = search(incast, VARY, "goodput")
    told: list[str] = []

    def stop(text: str) -> None:
        told.append(text)
        if len(told) == 6:
            raise KeyboardInterrupt

    folder = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        search(incast, VARY, "goodput", folder=folder, tell=stop)
    assert len((folder / RUNS).read_text().splitlines()) == 6
    with (folder / RUNS).open("a") as stream:
        stream.write('{"setting": {"kmin": 1')
    again = search(incast, VARY, "goodput", folder=folder, jobs=2)
    assert plain(again) == plain(whole)
    assert again["runs"]["reused"] == 6
    third = search(incast, VARY, "goodput", folder=folder)
    assert plain(third) == plain(whole)
    assert third["runs"]["reused"] == third["runs"]["total"]


def test_a_larger_budget_begins_with_the_same_runs(incast, tmp_path):
    first = search(incast, VARY, "goodput", folder=tmp_path / "out")
    more = search(incast, VARY, "goodput", folder=tmp_path / "out", budget=32)
    even = [run["parameters"] for run in first["tried"] if run["phase"] == "even"]
    assert [run["parameters"] for run in more["tried"] if run["phase"] == "even"][: len(even)] == even
    assert more["runs"]["reused"] >= len(even)
    assert more["best"]["cost"] <= first["best"]["cost"] * 1.01


def test_runs_of_another_scenario_are_not_mixed_in(incast, tmp_path):
    RunStore(tmp_path, incast.setting)
    with pytest.raises(InputError, match=r"another scenario \(seed differ\)"):
        RunStore(tmp_path, {**incast.setting, "seed": 4})
    (tmp_path / RUNS).write_text("[1]\n")
    with pytest.raises(InputError, match="is not a run of tune") as caught:
        RunStore(tmp_path, incast.setting)
    assert caught.value.line == 1


def test_the_budget_is_kept_and_every_setting_is_in_its_range(incast):
    result = search(incast, VARY, "goodput", budget=26)
    assert len(result["tried"]) <= 26
    limits = {item["name"]: (item["low"], item["high"]) for item in result["parameters"]}
    for run in result["tried"]:
        for name, value in (run["parameters"] or {}).items():
            assert limits[name][0] <= value <= limits[name][1]
    assert {effect["parameter"] for effect in result["sensitivity"]} == set(limits)


def test_the_front_holds_every_best_of_one_objective(incast):
    result = search(incast, VARY, "goodput")
    judged = [r for r in result["tried"] if r["marks_before_pauses"] and r["phase"] != "confirm"]
    chosen = [r for r in judged if r["run"] in result["front"]]
    for figure, more in OBJECTIVES.values():
        best = (max if more else min)(r["figures"][figure] for r in judged)
        assert best in [r["figures"][figure] for r in chosen]


def test_too_few_runs_is_an_error_that_says_how_many(incast):
    with pytest.raises(InputError, match="at least 16"):
        search(incast, VARY, budget=15)
