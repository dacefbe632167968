"""SONiC's files against the tables of SONiC's YANG models: known tables and fields, shapes of keys, references that resolve.

``facts/sonic_models.csv`` lists, per table, the keys of its lists (``=name`` for a container), the fields, and which fields
and keys refer to which tables (or are a fixed ``=word``), as the models of the named commit say. The whole files were
validated by hand with yanglint against these models (docs/build.md); this test keeps what can be kept without them.
"""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railwright.build.render import render_plan
from railwright.catalog.load import load_catalog
from railwright.design.design import design_plan
from railwright.spec.load import read_spec

EXAMPLES = Path(__file__).parents[2] / "examples"
with (Path(__file__).parent / "facts" / "sonic_models.csv").open(newline="") as stream:
    MODELS = {row["table"]: row for row in csv.DictReader(stream)}
NOT_MODELLED = {"ARS_OBJECT", "ARS_PROFILE", "ARS_INTERFACE"}
"""Tables of releases after that commit; SONiC loads tables without a model unchecked."""
MAPS = ("_MAP", "MAP_PFC_PRIORITY_TO_QUEUE", "CABLE_LENGTH")
"""Tables whose fields are keys of an inner list: any number or port may be a field."""


def violations(db: dict[str, Any]) -> Iterator[str]:
    """Yield what ``db`` has that the models do not."""
    for table, entries in db.items():
        if table in NOT_MODELLED:
            continue
        model = MODELS.get(table)
        if model is None:
            yield f"{table}: no such table"
            continue
        shapes = model["keys"].split()
        references = dict(pair.split(">") for pair in model["references"].split())
        for key, entry in entries.items():
            named = next((s.split("|") for s in shapes if s == f"={key}"), None)
            named = named or next(
                (s.split("|") for s in shapes if s.count("|") == key.count("|") and s[0] != "="), None
            )
            if named is None:
                yield f"{table}|{key}: no key of this shape"
                continue
            if table.endswith(MAPS) and table != "PORT_QOS_MAP":
                continue
            known = [*model["fields"].split(), *named]  # a key may be said again as a field
            yield from (f"{table}|{key}: no field {field}" for field in entry if field not in known)
            if table == "BGP_NEIGHBOR" and entry.get("asn") == "0":
                yield f"{table}|{key}: AS 0"
            values = dict(zip(named, key.split("|"), strict=False)) | entry
            for field, targets in references.items():
                if field in values and not any(_has(db, t, values[field]) for t in targets.split(",")):
                    yield f"{table}|{key}: {field} {values[field]} is in none of {targets}"


def _has(db: dict[str, Any], target: str, value: str) -> bool:
    table = db.get(target, {})
    return target == f"={value}" or value in table or any(key.partition("|")[0] == value for key in table)


def files(example: str) -> dict[str, dict[str, Any]]:
    spec = read_spec(EXAMPLES / f"{example}.yaml")
    made = render_plan(design_plan(spec.checked(load_catalog()), load_catalog()), ("sonic",))
    found = {path: json.loads(text) for path, text in made.files.items() if path.endswith("config_db.json")}
    for path in found:
        found[path] |= json.loads(made.files.get(path.replace("config_db", "fine-grained-ecmp"), "{}"))
    return found


@pytest.mark.parametrize("example", ["rail-only-128", "rail-optimized-1024", "dual-site-frontend"])
def test_every_file_keeps_to_sonics_models(example: str) -> None:
    made = files(example)
    assert len(made) >= 20
    for path, db in made.items():
        assert list(violations(db)) == [], path


@pytest.mark.parametrize(
    ("table", "key", "entry", "said"),
    [
        ("BUFFER_PROFILES", "x", {}, "no such table"),
        ("PORT", "Ethernet0", {"speed_gbps": "400"}, "no field speed_gbps"),
        ("INTERFACE", "Ethernet0|10.0.0.0/31|x", {}, "no key of this shape"),
        ("INTERFACE", "Ethernet9999", {}, "is in none of PORT"),
        ("BUFFER_QUEUE", "Ethernet0|3", {"profile": "absent"}, "profile absent is in none of BUFFER_PROFILE"),
        ("BUFFER_PROFILE", "x", {"pool": "absent", "size": "0", "dynamic_th": "3"}, "is in none of BUFFER_POOL"),
        ("BGP_NEIGHBOR", "10.0.0.1", {"asn": "0", "name": "x"}, "AS 0"),
        ("VLAN_MEMBER", "Vlan999|Ethernet0", {"tagging_mode": "untagged"}, "Vlan999 is in none of VLAN"),
    ],
)
def test_what_yanglint_refuses_is_refused_here(table: str, key: str, entry: dict[str, str], said: str) -> None:
    db = dict(next(iter(files("rail-only-128").values())))
    db[table] = {**db.get(table, {}), key: entry}
    assert any(said in found for found in violations(db))
