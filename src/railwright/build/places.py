"""Line numbers of the keys in a structured file: indexed only when a finding needs one, since most files have none."""

import json
import re
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+|\n')

Path = tuple[str, ...]


def json_lines(text: str) -> dict[Path, int]:
    """Return the line (from 1) of every key path of a JSON text that parses."""
    found: dict[Path, int] = {}
    line = 1
    keys: list[str] = []
    kinds: list[str] = []
    waiting: str | None = None
    for match in _PART.finditer(text):
        part = match[0]
        if part == "\n":
            line += 1
        elif part in "{[":
            keys.append(waiting or "")
            kinds.append(part)
            waiting = None
        elif part in "}]":
            keys.pop()
            kinds.pop()
            waiting = None
        elif part == ",":
            waiting = None
        elif part[0] == '"' and kinds and kinds[-1] == "{" and waiting is None:
            waiting = json.loads(part)
            found[(*(key for key in keys if key), waiting)] = line
    return found


def yaml_lines(text: str) -> dict[Path, int]:
    """Return the line (from 1) of every key path of a YAML text that parses; list positions do not count as keys."""
    found: dict[Path, int] = {}
    pending: list[tuple[Path, Any]] = [((), YAML(typ="rt", pure=True).compose(text))]
    while pending:
        path, node = pending.pop()
        if isinstance(node, MappingNode):
            for key, value in node.value:
                if isinstance(key, ScalarNode):
                    own = (*path, str(key.value))
                    found.setdefault(own, key.start_mark.line + 1)
                    pending.append((own, value))
        elif isinstance(node, SequenceNode):
            pending.extend((path, item) for item in node.value)
    return found
