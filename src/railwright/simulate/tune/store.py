"""Finished runs of `tune`, kept as they end: one JSON line each, so that an interrupt loses only what was running.

``scenario.json`` says what the runs are of; a folder is continued only with the same scenario. A line that was cut short is
cut off. Runs are found again by their setting and seed, so a larger budget, other ranges or other weights reuse them.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from railwright.errors import InputError

RUNS = "runs.jsonl"
SCENARIO = "scenario.json"
Key = tuple[str, int]


def key_of(setting: Mapping[str, float] | None, seed: int) -> Key:
    """Return the name of a run: its setting (None: the contract as it is) as canonical text, and its seed."""
    return json.dumps(None if setting is None else dict(sorted(setting.items()))), seed


class RunStore:
    """Figures of finished runs by key, in memory and, with a ``folder``, in its file ``runs.jsonl``.

    Raises InputError when the folder holds runs of another scenario, or what is no list of runs.
    """

    def __init__(self, folder: Path | None, scenario: Mapping[str, Any]) -> None:
        self._runs: dict[Key, dict[str, Any]] = {}
        self._file = None if folder is None else folder / RUNS
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        _claim(folder / SCENARIO, scenario)
        if self._file is not None and self._file.exists():
            self._load(self._file)

    @property
    def finished(self) -> int:
        """How many runs are finished."""
        return len(self._runs)

    def get(self, key: Key) -> dict[str, Any] | None:
        """Return the figures of a finished run, None when it is still to do."""
        return self._runs.get(key)

    def add(self, key: Key, figures: dict[str, Any]) -> None:
        """Keep a finished run, on the disk before this returns."""
        self._runs[key] = figures
        if self._file is None:
            return
        line = json.dumps({"setting": json.loads(key[0]), "seed": key[1], "figures": figures}, allow_nan=False)
        with self._file.open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")
            stream.flush()
            os.fsync(stream.fileno())

    def _load(self, file: Path) -> None:
        text = file.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):
            os.truncate(file, len(whole))
        for number, line in enumerate(whole.decode("utf-8", errors="replace").splitlines(), 1):
            try:
                run = json.loads(line)
                self._runs[key_of(run["setting"], int(run["seed"]))] = dict(run["figures"])
            except (ValueError, KeyError, TypeError, AttributeError):
                raise InputError(
                    "is not a run of tune; take the line out, or choose another folder", file=file, line=number
                ) from None


def _claim(file: Path, scenario: Mapping[str, Any]) -> None:
    """Write ``scenario`` as ``file``, or compare it with what is there."""
    if not file.exists():
        partial = file.with_suffix(".json.partial")
        partial.write_text(json.dumps(scenario, indent=2) + "\n", encoding="utf-8")
        partial.replace(file)
        return
    try:
        there = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        raise InputError("is not JSON; choose another folder", file=file) from None
    wanted = json.loads(json.dumps(scenario))
    if there != wanted:
        known = there if isinstance(there, dict) else {}
        names = [name for name in (*known, *wanted) if known.get(name) != wanted.get(name)]
        differs = ", ".join(dict.fromkeys(names)) or "all"
        raise InputError(f"the runs there are of another scenario ({differs} differ); choose another folder", file=file)
