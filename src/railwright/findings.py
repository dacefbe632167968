"""Findings: what a rule, a comparison or a diagnosis has to say, in one shape for the whole product."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How much a finding matters; ``error`` makes the answer of a command "no" (exit code 1)."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """One statement about a plan, a configuration or a running network.

    ``code`` is stable (``RW101``), ``subject`` is a name out of the plan, ``source`` is the standard, paper or datasheet
    that the rule rests on, ``ignored`` is the user's reason when the spec waives the rule.
    """

    code: str
    severity: Severity
    subject: str
    message: str
    fix: str
    source: str
    ignored: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as plain data with stable keys."""
        return {**asdict(self), "severity": self.severity.value}


def count_by_severity(findings: list[Finding]) -> dict[str, int]:
    """Return ``{"error": n, "warning": n, "info": n, "ignored": n}``; waived findings count only as ignored."""
    counts = {severity.value: 0 for severity in Severity} | {"ignored": 0}
    for finding in findings:
        counts["ignored" if finding.ignored is not None else finding.severity.value] += 1
    return counts
