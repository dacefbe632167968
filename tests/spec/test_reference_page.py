"""``docs/spec.md`` has every key of the models, as they are."""

from pathlib import Path

from railwright.spec.reference import reference_tables, spec_keys

PAGE = Path(__file__).parents[2] / "docs" / "spec.md"


def test_the_page_holds_the_tables_made_from_the_models():
    assert PAGE.read_text(encoding="utf-8").endswith(reference_tables()), (
        "write the tables again: python -m railwright.spec.reference"
    )


def test_every_key_and_section_is_described():
    assert [key.path for key in spec_keys() if len(key.description) < 10] == []


def test_keys_know_their_values_and_defaults():
    keys = {key.path: key for key in spec_keys()}
    assert keys["cluster.server"].default is None
    assert keys["backend.planes"].default == ""
    assert (keys["frontend.oversubscription"].kind, keys["frontend.oversubscription"].default) == (
        "ratio: `3:1`",
        "3:1",
    )
    assert (keys["demand.checkpoint_interval"].kind, keys["demand.checkpoint_interval"].default) == (
        "time: `30 s`",
        "30 min",
    )
    assert keys["economics.prices.KEY.date"].kind == "date: `2025-03`"
    assert keys["sites[].racks.feeds"].kind == "`1`, `2`, `3`"
