"""Writing without harm: files and folders appear whole under their name or not at all, and nothing of others is replaced."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from railwright.errors import InputError

PLAN_ENTRIES = ("plan.yaml", "catalog.yaml", "*.parquet")
RESULT_ENTRIES = ("*.parquet", "*.csv", "*.svg", "result.json", "trace.json")
RUN_ENTRIES = ("plan", "results", "findings.json", "report.html")


def check_file(file: Path, *, force: bool) -> None:
    """Raise InputError when ``file`` is a folder, or exists and may not be replaced (``force``)."""
    if file.is_dir():
        raise InputError("is a directory; give the name of a file", file=file)
    if file.exists() and not force:
        raise InputError("exists already; choose another name with -o, or replace it with --force", file=file)


def write_file(file: Path, text: str, *, force: bool) -> None:
    """Write ``text`` as ``file`` in one go; raises InputError like :func:`check_file`."""
    check_file(file, force=force)
    made = _make_parents(file)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        partial = Path(name)
        partial.chmod(0o666 & ~_umask())
        partial.replace(file)
    except BaseException:
        _forget(made)
        raise


def check_folder(target: Path, entries: Sequence[str], proof: str) -> None:
    """Raise InputError unless ``target`` is missing, empty, or a folder of railwright's that holds nothing else.

    ``entries`` are the names (patterns) that such a folder has; ``proof`` is a path in it that says that it is one.
    """
    if target.exists() and not target.is_dir():
        raise InputError("is a file; give a folder", file=target)
    present = sorted(entry.name for entry in target.iterdir()) if target.exists() else []
    foreign = [name for name in present if not any(fnmatch(name, pattern) for pattern in entries)]
    if foreign:
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        raise InputError(f"holds {foreign[0]!r}{more}, which is not railwright's; choose another folder", file=target)
    if present and not (target / proof).exists():
        raise InputError(f"is not empty and has no {proof}: not a folder of railwright's; choose another", file=target)


@contextmanager
def new_folder(target: Path, entries: Sequence[str], proof: str) -> Iterator[Path]:
    """Yield a folder under a temporary name that becomes ``target`` when the block ends well; an older one is replaced.

    Raises InputError like :func:`check_folder`. When the block fails, ``target`` is as it was.
    """
    check_folder(target, entries, proof)
    target = target.resolve()
    made = _make_parents(target)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield partial
        partial.chmod(0o777 & ~_umask())
        _swap(partial, target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        _forget(made)
        raise


def _swap(new: Path, target: Path) -> None:
    if not target.exists():
        new.replace(target)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    target.replace(old)
    try:
        new.replace(target)
    except OSError:
        old.replace(target)
        raise
    shutil.rmtree(old)


def _make_parents(path: Path) -> list[Path]:
    """Make the folders above ``path`` and return those that were missing, the innermost first."""
    missing = [parent for parent in path.parents if not parent.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    return missing


def _forget(made: list[Path]) -> None:
    for folder in made:
        try:
            folder.rmdir()
        except OSError:
            return


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
