"""What a simulation gives, whatever the engine: the same tables, and one summary with the stable keys of ``--json``.

A key that an engine cannot know is None, never 0: the analytic and the flow engine have no queues, so they say nothing of
pauses and marks.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

import railwright
from railwright import tables

QUANTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1.0}


@dataclass(frozen=True)
class EngineResult:
    """Tables ``flows``, ``links_used`` and ``steps``; ``counters`` of the engine; ``why``: sentences that explain the result.

    ``finish_us`` is when the last operation ended. ``counters`` has at least cpu_s and wall_s.
    """

    finish_us: float
    flows: pl.DataFrame
    links_used: pl.DataFrame
    counters: Mapping[str, float | None]
    why: tuple[str, ...] = ()
    steps: pl.DataFrame = field(default_factory=lambda: tables.empty("steps"))


@dataclass(frozen=True)
class SimulationResult:
    """One collective on one network.

    ``algbw_gbytes_s = size / time`` and ``busbw = algbw * bus factor``, both decimal GB/s as in nccl-tests. ``setting`` says
    what was simulated (engine, algorithm, paths, failures, seed), ``bottleneck`` names the most used links.
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
        fct = self.engine.flows["fct_us"].drop_nulls()
        spread = {name: _quantile(fct, share) for name, share in QUANTILES.items()}
        return {
            "time_us": self.time_us,
            "algbw_GBps": self.algbw_gbytes_s,
            "busbw_GBps": self.busbw_gbytes_s,
            "jitter_us": None if fct.is_empty() else float(fct.std(ddof=0) or 0.0),  # type: ignore[arg-type]
            "fct_us": spread,
            "pfc": {"pause_frames": counters.get("pause_frames"), "paused_us": counters.get("paused_us")},
            "ecn": {"marks": counters.get("ecn_marks")},
            "drops": counters.get("drops"),
            "bottleneck": [dict(link) for link in self.bottleneck],
            "engine": {
                "name": self.setting.get("engine"),
                "events": counters.get("events"),
                "data_packet_hops": counters.get("data_packet_hops"),
                "cpu_s": counters.get("cpu_s"),
                "wall_s": counters.get("wall_s"),
            },
            "setting": dict(self.setting),
            "why": list(self.engine.why),
            "version": railwright.__version__,
        }

    def save(self, directory: Path) -> Path:
        """Write ``flows``, ``links_used``, ``steps`` and ``result.json`` into ``directory``."""
        directory.mkdir(parents=True, exist_ok=True)
        for name in tables.RESULT_TABLES:
            tables.write(name, getattr(self.engine, name), directory)
        file = directory / "result.json"
        partial = file.with_suffix(".json.partial")
        partial.write_text(json.dumps(self.as_dict(), indent=2) + "\n", encoding="utf-8")
        partial.replace(file)
        return file


def _quantile(values: pl.Series, share: float) -> float | None:
    value = values.quantile(share, interpolation="nearest")
    return None if value is None else float(value)
