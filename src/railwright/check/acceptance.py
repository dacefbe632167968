"""Acceptance: what the commissioning tests measured against the limits that the plan sets, as findings.

``build.acceptance`` writes tests and limits and judges single outputs; here every output of a folder is judged, and what the
plan asks for and nobody measured is named.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from railwright.build.acceptance import Verdict, cut_short, judge, wanted_results
from railwright.check.configs import config_rule_texts
from railwright.errors import InputError
from railwright.findings import Finding, Severity

_CODES = {"ib_write_bw": "RW032", "nccl": "RW033", "soak": "RW034"}
_MISSING = "RW035"
_CUT_SHORT = "RW036"
_SHOWN = 5


@dataclass(frozen=True)
class Acceptance:
    """``verdicts`` of all outputs read, ``missing`` the outputs that the plan asks for and nobody has, ``cut_short`` those
    that hold less than was asked for, ``findings`` of all three."""

    verdicts: tuple[Verdict, ...]
    missing: tuple[str, ...]
    cut_short: tuple[str, ...]
    findings: tuple[Finding, ...]


def read_results(folder: Path) -> dict[str, str]:
    """Return name → text of every output: ``folder`` is the folder of results or that of the acceptance with ``results/``.

    Raises InputError when there is none or one is not text.
    """
    if not folder.is_dir():
        raise InputError("is not a folder; give the results of build --acceptance", file=folder)
    place = folder / "results" if (folder / "results").is_dir() else folder
    results = {}
    for file in sorted(place.glob("*.txt")):
        try:
            results[file.name] = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot be read: {error}", file=file) from None
    if not results:
        raise InputError("holds no result (*.txt); the scripts of acceptance/ write them to results/", file=place)
    return results


def check_acceptance(files: Mapping[str, str], results: Mapping[str, str]) -> Acceptance:
    """Return the judgement of ``results`` (name → output) by ``files``, those of :func:`build.acceptance.acceptance_files`."""
    limits = json.loads(files["acceptance/limits.json"])
    verdicts = tuple(judge(limits, results))
    missing = tuple(name for name in wanted_results(files) if name not in results)
    short = cut_short(limits, results)
    findings = [_slow(verdict) for verdict in verdicts if not verdict.passed]
    findings += [_finding(_CUT_SHORT, name, f"does not hold {what}") for name, what in short.items()]
    kinds: dict[str, list[str]] = {}
    for name in missing:
        kinds.setdefault(name.partition("-")[0] if name.startswith(("pair-", "mlxlink-")) else "nccl-tests", []).append(
            name
        )
    for kind, names in kinds.items():
        more = " …" if len(names) > _SHOWN else ""
        findings.append(_finding(_MISSING, kind, f"{len(names)} without a result: {', '.join(names[:_SHOWN])}{more}"))
    order = {severity: rank for rank, severity in enumerate(Severity)}
    return Acceptance(
        verdicts, missing, tuple(short), tuple(sorted(findings, key=lambda f: (order[f.severity], f.code, f.subject)))
    )


def _slow(verdict: Verdict) -> Finding:
    side = "above" if verdict.value > verdict.limit else "below"
    message = f"{verdict.value:g} {verdict.unit} is {side} the limit of {verdict.limit:g} {verdict.unit}"
    return _finding(_CODES[verdict.test], verdict.subject, message)


def _finding(code: str, subject: str, message: str) -> Finding:
    text = config_rule_texts()[code]
    return Finding(code, text.severity, subject, message, text.fix, text.source)
