"""The linter's engine: rules are functions from a plan to hits, their texts are data.

``data/rules.yaml`` holds title, severity, what, why, fix and source of every code; a rule function is registered under its
code and yields a ``Hit`` for each place where the rule is broken. One page of documentation per code is written from the
same data (``docs/rules``).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module, resources
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from ruamel.yaml import YAML

from railwright.catalog.validate import catalog_findings
from railwright.design.plan import Plan
from railwright.errors import InputError, nearest
from railwright.findings import Finding, Severity

RULE_MODULES = (
    "fabric",
    "availability",
    "transport",
    "storage",
    "management",
    "addresses",
    "physical",
    "optics",
    "interop",
    "hosts",
    "money",
)


class RuleText(BaseModel):
    """What a rule says of itself: the page of documentation behind a code."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    severity: Severity
    what: str
    why: str
    fix: str
    source: Annotated[str, Field(min_length=3)]


@dataclass(frozen=True, slots=True)
class Hit:
    """One place where a rule is broken. ``fix`` and ``severity`` replace the rule's own where this place needs another."""

    subject: str
    message: str
    fix: str | None = None
    severity: Severity | None = None


RuleFunction = Callable[[Plan], Iterator[Hit]]
_FUNCTIONS: dict[str, RuleFunction] = {}


def rule(code: str) -> Callable[[RuleFunction], RuleFunction]:
    """Register a function as the rule ``code``; the code must have a text in ``data/rules.yaml``."""

    def register(function: RuleFunction) -> RuleFunction:
        if code in _FUNCTIONS:
            raise KeyError(f"two functions for rule {code}")
        if code not in rule_texts():
            raise KeyError(f"rule {code} has no text")
        _FUNCTIONS[code] = function
        return function

    return register


@cache
def rule_texts() -> dict[str, RuleText]:
    """Return the text of every code, in order of the codes."""
    text = resources.files("railwright.check").joinpath("data/rules.yaml").read_text(encoding="utf-8")
    loaded = TypeAdapter(dict[str, RuleText]).validate_python(YAML(typ="safe", pure=True).load(text))
    return dict(sorted(loaded.items()))


@cache
def rule_functions() -> dict[str, RuleFunction]:
    """Return every registered rule, in order of the codes."""
    for module in RULE_MODULES:
        import_module(f"railwright.check.{module}")
    return dict(sorted(_FUNCTIONS.items()))


def check_plan(plan: Plan) -> list[Finding]:
    """Run every rule over ``plan``, and the consistency checks of the catalog over the user's own entries.

    Returns findings ordered by severity, code and subject. A finding whose code the spec waives
    (``# railwright: ignore RW101 because …``) stays in the list and carries the reason; it no longer counts. Raises
    InputError when the spec waives a code that does not exist.
    """
    waived = {item.code: item.reason for item in plan.spec.ignore}
    for code in waived:
        if code not in rule_texts():
            raise InputError(f"there is no rule {code}{nearest(code, rule_texts())}", key="ignore")
    findings = [
        Finding(
            code=code,
            severity=hit.severity or text.severity,
            subject=hit.subject,
            message=hit.message,
            fix=hit.fix or text.fix,
            source=text.source,
            ignored=waived.get(code),
        )
        for code, function in rule_functions().items()
        for text in (rule_texts()[code],)
        for hit in function(plan)
    ]
    findings += catalog_findings(plan.catalog, only_user=True)
    order = {severity: rank for rank, severity in enumerate(Severity)}
    return sorted(findings, key=lambda f: (f.ignored is not None, order[f.severity], f.code, f.subject))
