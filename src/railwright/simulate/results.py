"""What a simulation gives, whatever the engine: the same tables, and one summary with the stable keys of ``--json``.

A key that an engine cannot know is None, never 0: the analytic and the flow engine have no queues, so they say nothing of
pauses and marks.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

import railwright
from railwright import tables
from railwright.errors import RailwrightError
from railwright.workload.background import JOB as BACKGROUND

QUANTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1.0}


@dataclass(frozen=True)
class Diagnosis:
    """Why operations are left: a stable ``code``, a sentence, and the places (lanes of a cycle, or operation ids)."""

    code: str
    message: str
    places: list[str]


@dataclass(frozen=True)
class EngineResult:
    """Tables ``flows``, ``links_used`` and ``steps``; ``counters`` of the engine; ``why``: sentences that explain the result.

    ``finish_us`` is when the last operation ended, NaN when some did not: ``diagnosis`` says why. ``counters`` has at least
    cpu_s and wall_s. ``details`` are further tables of one engine (pauses, buffers, queues over time), kept as CSV.
    """

    finish_us: float
    flows: pl.DataFrame
    links_used: pl.DataFrame
    counters: Mapping[str, float | None]
    why: tuple[str, ...] = ()
    steps: pl.DataFrame = field(default_factory=lambda: tables.empty("steps"))
    diagnosis: Diagnosis | None = None
    details: Mapping[str, pl.DataFrame] = field(default_factory=dict)

    def finished(self) -> "EngineResult":
        """Return this result; raises RailwrightError with the diagnosis when operations are left."""
        if self.diagnosis is not None:
            raise RailwrightError(self.diagnosis.message)
        return self


@dataclass(frozen=True)
class SimulationResult:
    """One collective on one network. Its times and bandwidths are NaN when the engine gives a diagnosis (None in JSON).

    ``algbw_gbytes_s = size / time`` and ``busbw = algbw * bus factor``, both decimal GB/s as in nccl-tests. ``setting`` says
    what was simulated (engine, algorithm, paths, failures, seed), ``bottleneck`` names the links that held it up.
    """

    setting: Mapping[str, Any]
    time_us: float
    algbw_gbytes_s: float
    busbw_gbytes_s: float
    engine: EngineResult
    bottleneck: tuple[Mapping[str, Any], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the summary with the keys that ``simulate --json`` promises."""
        counters = self.engine.counters
        own = self._own_flows()
        return {
            "time_us": _known(self.time_us),
            "algbw_GBps": _known(self.algbw_gbytes_s),
            "busbw_GBps": _known(self.busbw_gbytes_s),
            "jitter_us": self._jitter_us(),
            "fct_us": _spread(own["fct_us"]),
            "slowdown": _spread(own["fct_us"] / own["ideal_us"]),
            "by_class": self._by_class(),
            "iterations": self._iterations(),
            "latency_budget": self.engine.details.get("budget", pl.DataFrame()).to_dicts(),
            "pfc": {"pause_frames": counters.get("pause_frames"), "paused_us": counters.get("paused_us")},
            "ecn": {"marks": counters.get("ecn_marks")},
            "drops": counters.get("drops"),
            "drop_reasons": {
                name.removeprefix("drops_"): count for name, count in counters.items() if name.startswith("drops_")
            },
            "bottleneck": [dict(link) for link in self.bottleneck],
            "engine": {
                "name": self.setting.get("engine"),
                "events": counters.get("events"),
                "data_packet_hops": counters.get("data_packet_hops"),
                "cpu_s": counters.get("cpu_s"),
                "wall_s": counters.get("wall_s"),
            },
            "setting": dict(self.setting),
            "diagnosis": None if self.engine.diagnosis is None else asdict(self.engine.diagnosis),
            "why": list(self.engine.why),
            "version": railwright.__version__,
        }

    def _own_flows(self) -> pl.DataFrame:
        """Return the flows that are no background."""
        return self.engine.flows.filter(~pl.col("job").fill_null("").str.starts_with(BACKGROUND))

    def _by_class(self) -> list[dict[str, Any]]:
        """Return completion times and slowdowns of every job and class, where there are several."""
        groups = self.engine.flows.group_by("job", "class", maintain_order=True)
        rows = [
            {
                "job": job,
                "class": name,
                "flows": flows.height,
                "fct_us": _spread(flows["fct_us"]),
                "slowdown": _spread(flows["fct_us"] / flows["ideal_us"]),
            }
            for (job, name), flows in groups
        ]
        return rows if len(rows) > 1 else []

    def _iteration_us(self) -> pl.Series:
        """Return the time of each iteration of the first job."""
        steps = self.engine.steps.filter(pl.col("job") == pl.col("job").first())
        return steps["finish_us"] - steps["start_us"]

    def _iterations(self) -> dict[str, Any]:
        """Return how many iterations there were, every one's time, and how they spread."""
        times = self._iteration_us()
        return {"count": times.len(), "time_us": _spread(times), "each_us": times.to_list()}

    def _jitter_us(self) -> float | None:
        """Return the standard deviation of the times of iterations where there are several, of all flows otherwise."""
        times = self._iteration_us()
        times = times if times.len() > 1 else self._own_flows()["fct_us"]
        known = times.drop_nulls()
        return None if known.is_empty() else float(known.std(ddof=0) or 0.0)  # type: ignore[arg-type]

    def save(self, directory: Path) -> Path:
        """Write ``flows``, ``links_used``, ``steps``, the engine's details that have rows, and ``result.json``."""
        directory.mkdir(parents=True, exist_ok=True)
        for name in tables.RESULT_TABLES:
            tables.write(name, getattr(self.engine, name), directory)
        for name, table in self.engine.details.items():
            if not table.is_empty():
                table.write_csv(directory / f"{name}.csv")
        file = directory / "result.json"
        partial = file.with_suffix(".json.partial")
        partial.write_text(json.dumps(self.as_dict(), indent=2) + "\n", encoding="utf-8")
        partial.replace(file)
        return file


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _spread(values: pl.Series) -> dict[str, float | None]:
    known = values.drop_nulls().filter(values.drop_nulls().is_finite())
    found = {name: known.quantile(share, interpolation="nearest") for name, share in QUANTILES.items()}
    return {name: None if value is None else float(value) for name, value in found.items()}
