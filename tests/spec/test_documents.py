"""The strict YAML reader: what it takes, what it refuses and where it says that the mistake is."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railwright.documents import dotted, parse_document, read_document, write_yaml
from railwright.errors import InputError, InputErrors

LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("a:\n\t- b\n", 2, 1, "a tab cannot indent"),
        ("a: [1, 2\n", 2, 1, "expected ',' or ']'"),
        ("a: b: c\n", 1, 5, "a second ':'"),
        ("a: 1\n---\nb: 2\n", 2, 1, "a second YAML document"),
        ("a: 'x\n", 2, 1, "unexpected end of stream"),
        ("a: \x01\n", 1, 4, "not allowed in YAML"),
        ("- a\n- b\n", 1, 1, "not a mapping"),
        ("just text\n", 1, 1, "not a mapping"),
        ("a: 1\nb: 2\na: 3\n", 3, 1, "already given in line 1"),
        ("a: !!python/object/apply:os.system [id]\n", 1, 4, "the tag"),
        ("<<: {a: 1}\n", 1, 1, "merge keys"),
        ("? [a, b]\n: 1\n", 1, 3, "a key must be plain text"),
        (": 1\n", 1, 1, "a key is missing"),
        ("a: *b\n", 1, 4, "has no finished anchor"),
        ("a: &b\n  c: *b\n", 2, 6, "has no finished anchor"),
        ("a: " + "[" * 50 + "]" * 50, 1, 36, "nested more than 32 levels"),
        ("a: " + "[" * 20000, 1, 36, "nested more than 32 levels"),
        (LAUGHS, 4, 29, "aliases repeat more than"),
        ('a: "\\ud800"\n', 1, 4, "half of a surrogate pair"),
        ("%YAML 3.0\n---\na: 1\n", 1, 1, "incompatible YAML"),
    ],
)
def test_what_is_not_a_plain_mapping_is_refused_at_its_place(text, line, column, says):
    with pytest.raises(InputError) as caught:
        parse_document(text, "f.yaml")
    assert (caught.value.line, caught.value.column) == (line, column)
    assert says in str(caught.value)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "\n\n"])
def test_an_empty_file_is_refused(text):
    with pytest.raises(InputError, match=r"f\.yaml: is empty"):
        parse_document(text, "f.yaml")


def test_every_duplicate_key_is_reported():
    with pytest.raises(InputErrors) as caught:
        parse_document("a: 1\nb: {c: 1, c: 2}\na: 2\nb: {c: 1}\n", "f.yaml")
    assert [(error.line, error.key) for error in caught.value.errors] == [(2, "b.c"), (3, "a"), (4, "b")]


def test_scalars_follow_yaml_1_2_whatever_the_file_claims():
    document = parse_document(
        "%YAML 1.1\n---\na: yes\nb: 3:1\nc: 0o17\nd: 1e3\ne: 2024-01-01\nf: ~\ng: True\nh: 012\n", "f"
    )
    assert document.data == {
        "a": "yes",
        "b": "3:1",
        "c": 15,
        "d": 1000.0,
        "e": "2024-01-01",
        "f": None,
        "g": True,
        "h": 12,
    }


def test_aliases_are_written_out_and_keep_their_places():
    document = parse_document("a: &x {k: 1}\nb: *x\n", "f")
    assert document.data["b"] == {"k": 1}
    assert document.error(("b", "k"), "m").line == 2


def test_only_comments_are_comments():
    text = "# one\na: 'x # no'  # two\nb: |\n  text # no\nc: x#no\nd: [1, # three\n  2]\n"
    document = parse_document(text, "f")
    assert [(c.place.line, c.text) for c in document.comments] == [(1, "# one"), (2, "# two"), (6, "# three")]


def test_an_error_without_a_line_of_its_own_points_at_the_section_above_it():
    document = parse_document("a:\n  b:\n    c: 1\n", "f")
    error = document.error(("a", "b", "d"), "is missing")
    assert (error.line, error.column, error.key) == (2, 3, "a.b.d")


def test_an_empty_value_stands_at_its_key():
    error = parse_document("a: 1\nb:\n\n\nc: 2\n", "f").error(("b",), "m")
    assert (error.line, error.column) == (2, 1)


def test_key_paths_are_shown_with_dots_and_positions():
    assert dotted(("sites", 0, "racks", "power")) == "sites[0].racks.power"


def test_files_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "cluster.yaml").write_text("a: 1\n")
    with pytest.raises(InputError, match=r"no such file \(did you mean 'cluster.yaml'\?\)"):
        read_document(tmp_path / "clutser.yaml")
    with pytest.raises(InputError, match="is a directory"):
        read_document(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        read_document(tmp_path / "nowhere" / "x.yaml")


def test_bytes_that_are_not_utf_8_are_named_with_their_place(tmp_path):
    file = tmp_path / "latin.yaml"
    file.write_bytes("a: 1\nb: café\n".encode("latin-1"))
    with pytest.raises(InputError, match="byte 0xe9 is not UTF-8") as caught:
        read_document(file)
    assert (caught.value.line, caught.value.column) == (2, 7)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path):
    file = tmp_path / "bom.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_document(file).data == {"a": 1}


def test_an_endless_file_is_refused():
    with pytest.raises(InputError, match="larger than"):
        read_document(Path("/dev/zero"))


@given(text=st.text(max_size=200) | st.text(alphabet="ab:-[]{}&*!#|>'\"\\\n \t%@,?", max_size=60))
def test_any_text_is_a_mapping_or_an_input_error(text):
    try:
        assert isinstance(parse_document(text, "f").data, dict)
    except InputError as error:
        assert str(error)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
KEYS = TEXTS.filter(lambda key: key not in ("", "<<"))
DATA = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20
)


@given(data=st.dictionaries(KEYS, DATA, min_size=1, max_size=5))
def test_data_that_is_written_reads_back_equal(data):
    assert parse_document(write_yaml(data), "f").data == data
