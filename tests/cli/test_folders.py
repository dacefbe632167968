"""Files and folders appear whole or not at all, and nothing of others is replaced."""

from pathlib import Path

import pytest

from railwright.cli.folders import RUN_ENTRIES, check_folder, new_folder, write_file
from railwright.errors import InputError


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def make_run(folder: Path, text: str) -> None:
    with new_folder(folder, RUN_ENTRIES, "plan/plan.yaml") as partial:
        (partial / "plan").mkdir()
        (partial / "plan" / "plan.yaml").write_text(text)


def test_a_folder_appears_when_the_block_ends(tmp_path):
    with new_folder(tmp_path / "a" / "b", RUN_ENTRIES, "plan/plan.yaml") as partial:
        (partial / "report.html").write_text("x")
        assert not (tmp_path / "a" / "b").exists()
    assert names(tmp_path) == ["a", "a/b", "a/b/report.html"]


def test_a_failure_leaves_nothing_not_even_parents(tmp_path):
    with pytest.raises(ZeroDivisionError), new_folder(tmp_path / "a" / "b", RUN_ENTRIES, "plan/plan.yaml"):
        raise ZeroDivisionError
    assert names(tmp_path) == []


def test_a_failure_leaves_the_older_folder_as_it_was(tmp_path):
    make_run(tmp_path / "out", "old")
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "out", RUN_ENTRIES, "plan/plan.yaml") as partial:
        (partial / "report.html").write_text("new")
        raise KeyboardInterrupt
    assert names(tmp_path) == ["out", "out/plan", "out/plan/plan.yaml"]
    assert (tmp_path / "out" / "plan" / "plan.yaml").read_text() == "old"


def test_an_older_folder_is_replaced_as_a_whole(tmp_path):
    make_run(tmp_path / "out", "old")
    (tmp_path / "out" / "report.html").write_text("old")
    make_run(tmp_path / "out", "new")
    assert names(tmp_path) == ["out", "out/plan", "out/plan/plan.yaml"]
    assert (tmp_path / "out" / "plan" / "plan.yaml").read_text() == "new"


def test_a_folder_with_things_of_others_is_refused(tmp_path):
    make_run(tmp_path / "out", "old")
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"holds 'thesis\.tex', which is not railwright's"):
        make_run(tmp_path / "out", "new")
    assert (tmp_path / "out" / "thesis.tex").read_text() == "years of work"


def test_a_folder_that_only_looks_alike_is_refused(tmp_path):
    (tmp_path / "results").mkdir()
    with pytest.raises(InputError, match=r"not empty and has no plan/plan\.yaml"):
        check_folder(tmp_path, RUN_ENTRIES, "plan/plan.yaml")


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "out").write_text("x")
    with pytest.raises(InputError, match="is a file; give a folder"):
        check_folder(tmp_path / "out", RUN_ENTRIES, "plan/plan.yaml")


def test_an_empty_folder_is_taken(tmp_path):
    (tmp_path / "out").mkdir()
    make_run(tmp_path / "out", "new")
    assert (tmp_path / "out" / "plan" / "plan.yaml").read_text() == "new"


def test_a_file_is_not_replaced_unless_forced(tmp_path):
    file = tmp_path / "deep" / "cluster.yaml"
    write_file(file, "one", force=False)
    with pytest.raises(InputError, match="exists already; choose another name with -o, or replace it with --force"):
        write_file(file, "two", force=False)
    assert file.read_text() == "one"
    write_file(file, "two", force=True)
    assert file.read_text() == "two"
    assert names(tmp_path) == ["deep", "deep/cluster.yaml"]


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(InputError, match="is a directory"):
        write_file(tmp_path, "x", force=True)
