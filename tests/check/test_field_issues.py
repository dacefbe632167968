"""Every public field issue has one row in the docs, and what the row names exists."""

import re
from pathlib import Path

import pytest

from railwright.check.configs import config_rule_texts
from railwright.check.engine import rule_texts

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (FI\d\d) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$")
ROWS = [
    match.groups()
    for line in (ROOT / "docs" / "field-issues.md").read_text(encoding="utf-8").splitlines()
    if (match := ROW.match(line))
]


def test_each_of_the_sixty_two_issues_has_one_row() -> None:
    assert [row[0] for row in ROWS] == [f"FI{number:02}" for number in range(1, 63)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_a_row_names_exists(row: tuple[str, ...]) -> None:
    by, how = row[2].strip(), row[3].strip()
    if by == "limit":
        assert len(how.split()) > 5
        return
    codes = re.findall(r"RW\d{3}", by)
    tests = re.findall(r"`(tests/[^`]+)`", by)
    assert codes or tests
    assert set(codes) <= set(rule_texts()) | set(config_rule_texts())
    assert all((ROOT / name).is_file() for name in tests)
    assert set(re.findall(r"RW\d{3}", how)) <= set(rule_texts()) | set(config_rule_texts())
