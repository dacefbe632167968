"""A quick reader for the plain block YAML that network operating systems write: mappings by indentation, one scalar a line.

A full YAML parser in Python needs seconds for the files of one fabric. What this reader does not know for certain (flow
style, anchors, tags, comments behind values, folded text) makes it give up with None, and the full parser takes over.
"""

import re
from typing import Any

_LINE = re.compile(r"( *)(- )?('(?:[^']|'')*'|[A-Za-z0-9_][^\s:#'\"{}\[\]]*(?::[^\s:#'\"{}\[\]]+)*):(?: (.*))?")
_PLAIN = re.compile(r"[A-Za-z0-9_./+-][A-Za-z0-9_./+,-]*")
_NUMBER = re.compile(r"(?:0|[1-9][0-9]*)")
_WORDS = {"true": True, "false": False}
_DOUBTFUL = {"null", "~", "yes", "no"}

Lines = dict[tuple[str, ...], int]


def read_block(text: str) -> tuple[list[dict[str, Any]], Lines] | None:
    """Return the top-level mappings (one per ``- `` item, or a single one) and the line of every key path; None if unsure.

    Values are text, whole numbers, booleans, or mappings. Paths count from the top of each item.
    """
    items: list[dict[str, Any]] = []
    lines: Lines = {}
    stack: list[tuple[int, dict[str, Any], tuple[str, ...]]] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        if not raw.strip() or raw.startswith(("#", "---")):
            continue
        match = _LINE.fullmatch(raw.rstrip())
        if match is None:
            return None
        indent, dash, key, value = len(match[1]), match[2], _unquoted(match[3]), match[4]
        if dash:
            if indent:
                return None
            indent = 2
            items.append({})
            stack = [(indent, items[-1], ())]
        elif not stack:
            items.append({})
            stack = [(indent, items[-1], ())]
        while stack and indent < stack[-1][0]:
            stack.pop()
        if not stack or (indent > stack[-1][0] and not _opens(stack, indent)):
            return None
        here, path = stack[-1][1], (*stack[-1][2], key)
        if key in here:
            return None
        lines.setdefault(path, number)
        if value is None or value == "":
            here[key] = {}
            stack.append((indent + 1, here[key], path))
        else:
            known, parsed = _value(value)
            if not known:
                return None
            here[key] = parsed
    return items, lines


def _opens(stack: list[tuple[int, dict[str, Any], tuple[str, ...]]], indent: int) -> bool:
    """Fix the indentation of a mapping by its first key; say whether ``indent`` can be that of the innermost mapping."""
    _, here, path = stack[-1]
    if here:
        return False
    stack[-1] = (indent, here, path)
    return True


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'") if text.startswith("'") else text


def _value(text: str) -> tuple[bool, Any]:
    if text == "{}":
        return True, {}
    if text.startswith("'") and re.fullmatch(r"'(?:[^']|'')*'", text):
        return True, _unquoted(text)
    if text.lower() in _WORDS:
        return True, _WORDS[text.lower()]
    if _NUMBER.fullmatch(text):
        return True, int(text)
    return bool(_PLAIN.fullmatch(text)) and text.lower() not in _DOUBTFUL and not text[0].isdigit(), text
