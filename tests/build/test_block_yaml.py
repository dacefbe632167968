"""The quick YAML reader says what the full parser says, or nothing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from railwright.build import nvue
from railwright.build.block_yaml import read_block
from railwright.build.places import yaml_lines

KEYS = st.text("abz019-_./: 'y", min_size=1, max_size=8)
SCALARS = st.one_of(
    st.integers(0, 10**6), st.text("abz019-_./: '#on", max_size=8), st.sampled_from(["on", "off", "true", "null"])
)
TREES = st.recursive(
    st.dictionaries(KEYS, SCALARS, max_size=3), lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=12
)


def same(ours: object, theirs: object) -> bool:
    if isinstance(theirs, dict):
        return (
            isinstance(ours, dict)
            and [*map(str, theirs)] == [*ours]
            and all(same(ours[str(k)], v) for k, v in theirs.items())
        )
    return type(ours) is type(theirs) and ours == theirs


@given(tree=TREES)
@settings(deadline=None)
def test_what_it_reads_is_what_the_full_parser_reads(tree: dict[str, object]) -> None:
    text = "\n".join(["- set:", *nvue._yaml(tree, 4), ""])
    found = read_block(text)
    if found is not None:
        items, lines = found
        expected = YAML(typ="safe", pure=True).load(text)
        assert same(items[0]["set"] or None, expected[0]["set"])
        assert lines == yaml_lines(text)


DOUBTFUL = (
    "a: [1, 2]\n",
    "a: {b: 1}\n",
    "a: &x 1\n",
    "a: 1 # no\n",
    "a: |\n  text\n",
    "a:\n  - b\n",
    "a: null\n",
    "a: 1\na: 2\n",
    "a: 1.5\n",
    '"a": 1\n',
)


@pytest.mark.parametrize("text", DOUBTFUL)
def test_it_gives_up_where_it_is_not_sure(text: str) -> None:
    assert read_block(text) is None


def test_a_file_with_comments_is_read_by_the_full_parser() -> None:
    port = "      swp1:\n        link:\n          mtu: 9216\n        type: swp\n"
    plain = f"- set:\n    system:\n      hostname: leaf1\n    interface:\n{port}"
    noted = plain.replace("mtu: 9216", "mtu: 9216  # jumbo").replace("swp1:", "swp1-2:")
    first = nvue.read("leaf1", {"leaf1/startup.yaml": plain}).view.ports
    reading = nvue.read("leaf1", {"leaf1/startup.yaml": noted})
    assert [p.name for p in reading.view.ports] == ["swp1", "swp2"]
    assert reading.view.ports[0].mtu == first[0].mtu == 9216
    assert reading.place("port/swp2/mtu").line == 7
