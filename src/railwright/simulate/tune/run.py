"""The search behind ``railwright tune``: settings of PFC, ECN and DCQCN for given traffic, judged by the packet engine.

A budget of runs is spent on: the contract as it is; a search (`tune/search`); the best one's parameters moved one at a time,
each down and up by a quarter of its range (the sensitivity: elementary effects with one base point, after Morris,
Technometrics 33, 1991; effects of two parameters together are not seen); the best with those parameters back at the
contract's values that hardly move the cost, which is taken when it costs no more than 1 % more; and the best and the
contract once more with two other seeds of the random marks. Only settings with which ECN marks before PFC can pause (rule
RW311) can be the best; a Kmin above the bound is not tried unless asked for, and flagged then. The result depends on scenario,
ranges, weights, budget and seed, not on the number of processes nor on what was run before.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import Any

import railwright
from railwright.documents import write_yaml
from railwright.errors import InputError
from railwright.simulate.tune.parameters import Range, Sections
from railwright.simulate.tune.scenario import Scenario
from railwright.simulate.tune.search import ELITE, GENERATION, OBJECTIVES, child_units, cost, even_units, front, sides
from railwright.simulate.tune.store import RunStore, key_of

OTHER_SEEDS = 2
"""With so many further seeds of the marks the best setting and the contract run again."""
LEAST_SEARCH = 4
SIMPLER = 3
"""How often fewer changes are tried: all parameters that hardly move the cost go back, then half, then a quarter of them."""
INSENSITIVE = 0.01
"""A parameter that moves the cost by no more than this share of it goes back to the contract's value; ours."""
_MOST_GENERATIONS = 100


@dataclass(frozen=True)
class Run:
    """One run: why it was made, its setting (None: the contract as it is), the seed of its marks, and what came out."""

    number: int
    phase: str
    setting: Mapping[str, float] | None
    seed: int
    marks_first: bool | None
    figures: Mapping[str, Any]
    cost: float | None = None
    parameter: str | None = None

    @property
    def eligible(self) -> bool:
        """Whether it may be the best: it finished, and ECN marks before PFC can pause as far as that is known."""
        return self.cost is not None and self.marks_first is not False

    def as_dict(self) -> dict[str, Any]:
        """Return the run as plain data."""
        return {
            "run": self.number,
            "phase": self.phase,
            "parameters": None if self.setting is None else dict(self.setting),
            "seed": self.seed,
            "cost": self.cost,
            "marks_before_pauses": self.marks_first,
            "figures": dict(self.figures),
        }


def least_budget(parameters: int) -> int:
    """Return the least number of runs with which so many parameters can be searched."""
    return _overhead(parameters) + LEAST_SEARCH


def _overhead(parameters: int) -> int:
    return 1 + 2 * parameters + SIMPLER + 2 * OTHER_SEEDS


def tune(
    scenario: Scenario,
    ranges: Sequence[Range],
    weights: Mapping[str, float],
    *,
    budget: int,
    seed: int,
    store: RunStore,
    jobs: int | None = None,
    late_marks: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Search and return the result as plain data (the keys of ``tune --json``).

    ``weights`` are those of `tune.search.cost`; ``jobs`` runs go side by side (default: one per core); ``late_marks`` lets the
    search try what RW311 forbids. ``tell`` is told how far it is. Raises InputError for a budget that is too small.
    """
    if not ranges:
        raise InputError("this contract has nothing to tune: it neither pauses, marks nor controls rates", key="PLAN")
    needed = least_budget(len(ranges))
    if budget < needed:
        raise InputError(
            f"{budget} runs are too few for {len(ranges)} parameters; at least {needed}, or vary fewer with --vary",
            key="--budget",
        )
    return _Search(scenario, tuple(ranges), weights, budget, seed, store, jobs or _cores(), late_marks, tell).result()


class _Search:
    """The runs of one search in order; each phase adds to them and reads those before."""

    def __init__(
        self,
        scenario: Scenario,
        ranges: tuple[Range, ...],
        weights: Mapping[str, float],
        budget: int,
        seed: int,
        store: RunStore,
        jobs: int,
        late_marks: bool,
        tell: Callable[[str], None],
    ) -> None:
        self._scenario, self._ranges, self._weights = scenario, ranges, weights
        self._budget, self._seed, self._store, self._jobs = budget, seed, store, jobs
        self._late_marks, self._tell = late_marks, tell
        self._runs: list[Run] = []
        self._reused = 0

    def result(self) -> dict[str, Any]:
        """Run all phases and return what they found."""
        contract = self._batch("contract", [None])[0]
        self._explore()
        around = self._best(explicit=True)
        effects = [] if around is None else self._sensitivity(around)
        best = self._simplified(around, effects)
        confirmed = None if best is None else self._confirm(best)
        noise = None if confirmed is None else confirmed["noise"]
        judged = [run for run in self._runs if run.eligible and run.phase != "confirm"]
        sections = Sections() if best is None or best.setting is None else self._scenario.sections(best.setting)
        return {
            "best": None if best is None else {**best.as_dict(), "settings": sections.as_dict()},
            "contract": {**contract.as_dict(), "parameters": dict(self._scenario.base)},
            "front": [judged[i].number for i in front([run.figures for run in judged])],
            "sensitivity": sorted(
                (_effect(one, around, noise) for one in effects if around is not None),
                key=lambda effect: float("-inf") if effect["cost_spread"] is None else -effect["cost_spread"],
            ),
            "confirmed": confirmed,
            "tried": [run.as_dict() for run in self._runs],
            "parameters": [
                {"name": item.name, "low": item.low, "high": item.high, "contract": self._scenario.base.get(item.name)}
                for item in self._ranges
            ],
            "objectives": dict(self._weights),
            "snippet": "" if sections == Sections() else write_yaml(self._scenario.snippet(sections)),
            "scenario": dict(self._scenario.setting),
            "seed": self._seed,
            "budget": self._budget,
            "runs": {"total": len(self._runs), "reused": self._reused},
            "notes": self._notes(best, contract),
            "version": railwright.__version__,
        }

    def _explore(self) -> None:
        """Search: half of the runs evenly over the ranges, the first at the contract's own values, then generations."""
        count = self._budget - _overhead(len(self._ranges))
        even = -(-count // 2)
        here = [item.unit(self._scenario.base.get(item.name, item.low)) for item in self._ranges]
        cube = even_units(even - 1, len(self._ranges), self._seed).tolist()
        self._batch("even", [self._setting(units) for units in (here, *cube)])
        generation = 0
        while self._tried("even", "refine") < count and generation < _MOST_GENERATIONS:
            elite = sorted((r for r in self._runs if r.eligible and r.setting is not None), key=self._order)[:ELITE]
            parents = [self._units(run.setting) for run in elite if run.setting is not None] or [here]
            room = min(GENERATION, count - self._tried("even", "refine"))
            children = child_units(parents, generation, room, self._seed)
            self._batch("refine", [self._setting(units) for units in children])
            generation += 1

    def _sensitivity(self, around: Run) -> list[tuple[str, Run, Run]]:
        assert around.setting is not None  # noqa: S101
        wanted = sides(self._ranges, around.setting)
        runs = self._batch("sensitivity", [setting for _, setting in wanted])
        return [(wanted[i][0], runs[i], runs[i + 1]) for i in range(0, len(runs), 2)]

    def _confirm(self, best: Run) -> dict[str, Any]:
        seeds = [self._seed + 1 + i for i in range(OTHER_SEEDS)]
        contracts, bests = [], []
        for seed in seeds:
            contracts.append(self._batch("confirm", [None], seed)[0])
            bests.append(self._batch("confirm", [best.setting], seed)[0])
        costs = [
            cost(one.figures, contract.figures, self._weights) for one, contract in zip(bests, contracts, strict=True)
        ]
        known = [value for value in (best.cost, *costs) if value is not None]
        return {
            "seeds": seeds,
            "cost": costs,
            "contract_cost": [cost(one.figures, one.figures, self._weights) for one in contracts],
            "noise": max(known) - min(known) if len(known) == 1 + OTHER_SEEDS else None,
        }

    def _setting(self, units: Sequence[float]) -> dict[str, float]:
        """Return the setting at ``units`` (one per range); Kmin stays below the bound of the other parameters."""
        values = {item.name: item.at(unit) for item, unit in zip(self._ranges, units, strict=True)}
        for item, unit in zip(self._ranges, units, strict=True):
            if item.name == "kmin":
                values["kmin"] = item.at(unit, self._most(values))
        return values

    def _units(self, setting: Mapping[str, float]) -> list[float]:
        most = self._most(setting)
        return [item.unit(setting[item.name], most if item.name == "kmin" else None) for item in self._ranges]

    def _most(self, setting: Mapping[str, float]) -> float | None:
        return None if self._late_marks else self._scenario.limit(self._scenario.sections(setting).pfc)

    def _tried(self, *phases: str) -> int:
        return sum(run.phase in phases for run in self._runs)

    def _best(self, *, explicit: bool = False) -> Run | None:
        fit = [r for r in self._runs if r.eligible and r.phase != "confirm" and not (explicit and r.setting is None)]
        return min(fit, key=self._order, default=None)

    def _simplified(self, around: Run | None, effects: Sequence[tuple[str, Run, Run]]) -> Run | None:
        """Return the best run or, when that costs no more (see `INSENSITIVE`), one with fewer changes to the contract."""
        best = self._best()
        if around is None or best is None or best.setting is None or best.cost is None:
            return best
        spreads = {
            name: _spread([down.cost, around.cost, up.cost])
            for name, down, up in effects
            if name in self._scenario.base
        }
        dull = [name for name, spread in spreads.items() if spread is not None and spread <= INSENSITIVE * best.cost]
        dull.sort(key=lambda name: spreads[name] or 0.0)
        for count in dict.fromkeys(len(dull) >> halving for halving in range(SIMPLER)):
            kept = {name: value for name, value in best.setting.items() if name not in dull[:count]}
            plain = self._batch("simplify", [kept or None])[0]
            if plain.eligible and _cost(plain) <= (1 + INSENSITIVE) * best.cost:
                return plain
        return best

    def _order(self, run: Run) -> tuple[float, float, int]:
        """Return what runs are sorted by: cost, then how far they are from the contract (mean share of a range)."""
        if run.setting is None:
            return (_cost(run), 0.0, run.number)
        base = self._scenario.base
        known = [item for item in self._ranges if item.name in run.setting and item.name in base]
        away = sum(abs(item.unit(run.setting[item.name]) - item.unit(base[item.name])) for item in known)
        return (_cost(run), away / len(self._ranges), run.number)

    def _batch(self, phase: str, settings: Sequence[Mapping[str, float] | None], seed: int | None = None) -> list[Run]:
        """Return the runs of ``settings`` in their order; those that are new become runs of ``phase``."""
        number = self._seed if seed is None else seed
        keys = [key_of(setting, number) for setting in settings]
        known = {key_of(run.setting, run.seed): run for run in self._runs}
        new = dict.fromkeys(key for key in keys if key not in known)
        first = {key: settings[keys.index(key)] for key in new}
        todo = {key: setting for key, setting in first.items() if self._store.get(key) is None}
        self._reused += len(new) - len(todo)
        self._simulate(todo, number)
        contract = next((run.figures for run in self._runs if run.phase == "contract"), None)
        for key, setting in first.items():
            figures = self._store.get(key)
            assert figures is not None  # noqa: S101
            sections = self._sections(setting)
            run = Run(len(self._runs), phase, setting, number, self._scenario.marks_first(sections), figures)
            known[key] = replace(run, cost=cost(figures, contract or figures, self._weights))
            self._runs.append(known[key])
        return [known[key] for key in keys]

    def _simulate(self, todo: Mapping[tuple[str, int], Mapping[str, float] | None], seed: int) -> None:
        """Run what is to do, ``jobs`` at a time (the engine releases the interpreter); each is kept as soon as it ends."""
        if self._jobs == 1 or len(todo) < 2:
            for key, setting in todo.items():
                self._store.add(key, self._scenario.run(self._sections(setting), seed))
                self._progress()
            return
        with ThreadPoolExecutor(self._jobs) as pool:
            running = {pool.submit(self._scenario.run, self._sections(value), seed): key for key, value in todo.items()}
            try:
                for future in as_completed(running):
                    self._store.add(running.pop(future), future.result())
                    self._progress()
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                for future, key in running.items():
                    if future.done() and not future.cancelled() and future.exception() is None:
                        self._store.add(key, future.result())
                raise

    def _progress(self) -> None:
        best = self._best()
        cost_so_far = "" if best is None or best.cost is None else f", best cost {best.cost:.3f}"
        self._tell(f"{self._store.finished} of at most {self._budget} runs{cost_so_far}")

    def _sections(self, setting: Mapping[str, float] | None) -> Sections:
        return Sections() if setting is None else self._scenario.sections(setting)

    def _notes(self, best: Run | None, contract: Run) -> list[str]:
        notes = []
        if contract.marks_first is False:
            cheaper = best is not None and _cost(contract) < _cost(best)
            more = "; it costs less, and may not be the best" if cheaper else ""
            notes.append(f"with the contract as it is PFC can pause before ECN marks (RW311){more}")
        if contract.marks_first is None and "kmin" in self._scenario.base and "alpha" in self._scenario.base:
            notes.append(
                "whether ECN marks before PFC pauses is not known: no pool or alpha of these switches is known"
            )
        if not any(run.figures["ecn_marks"] or run.figures["pause_frames"] for run in self._runs):
            notes.append("this traffic reaches no threshold: in no run ECN marked or PFC paused; load it more")
        if best is None:
            notes.append("no setting that was tried let all flows finish with ECN marking before PFC pauses")
        elif best.setting is None:
            notes.append("no setting that was tried is better than the contract")
        else:
            notes += self._scenario.notes(self._scenario.sections(best.setting))
        return notes


def _cost(run: Run) -> float:
    return float("inf") if run.cost is None else run.cost


def _effect(effect: tuple[str, Run, Run], around: Run, noise: float | None) -> dict[str, Any]:
    """Return how far the objectives and the cost move when one parameter of ``around`` moves down and up."""
    name, down, up = effect
    three = (down, around, up)
    spread = _spread([run.cost for run in three])
    setting = [run.setting[name] if run.setting is not None else None for run in three]
    return {
        "parameter": name,
        "values": setting,
        "cost": [run.cost for run in three],
        "marks_before_pauses": [run.marks_first for run in three],
        "spread": {key: _spread([run.figures[figure] for run in three]) for key, (figure, _) in OBJECTIVES.items()},
        "cost_spread": spread,
        "sensitive": None
        if noise is None
        else spread is None or spread > max(noise, INSENSITIVE * (around.cost or 0.0)),
    }


def _spread(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(max(known) - min(known)) if len(known) == len(values) else None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
