"""What commands are given: a spec, the folder of a plan, or the folder of a run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from railwright.errors import InputError, InputErrors

if TYPE_CHECKING:
    from railwright.design.plan import Plan
    from railwright.spec.load import SpecFile


def design_spec(
    path: Path, seed: int | None = None, progress: Callable[[str], None] | None = None, *, shorten: bool = False
) -> "Plan":
    """Return the whole plan of the spec in ``path``, cabled and with its QoS; ``seed`` replaces the spec's own.

    Errors of the design get their lines. ``shorten`` searches better places for switches and racks before cabling.
    """
    from railwright.design.cabling import cable_plan
    from railwright.design.design import design_plan
    from railwright.design.qos_table import contracts_for, qos_table
    from railwright.spec.load import read_spec

    file = read_spec(path)
    catalog = file.catalog()
    spec = file.checked(catalog)
    if seed is not None:
        spec = spec.model_copy(update={"seed": seed})
    with placed(file):
        plan = design_plan(spec, catalog, progress)
        if shorten:
            from railwright.design.placement_search import search_placement

            plan, _ = search_placement(plan, progress)
        plan = cable_plan(plan, progress)
        return plan.with_tables(qos=qos_table(plan, contracts_for(plan)))


def open_plan(path: Path, seed: int | None = None) -> "Plan":
    """Return the plan in the folder ``path`` (of a plan or of a run), or that of the spec in the file ``path``."""
    if not path.is_dir():
        return design_spec(path, seed)
    from railwright.design.plan import load_plan

    return load_plan(path / "plan" if (path / "plan" / "plan.yaml").is_file() else path)


def check_backend(text: str) -> None:
    """Raise InputError unless the backend of the spec ``text``, which is no file yet, can be built."""
    from railwright.design.backend import design_backend
    from railwright.design.context import start_context
    from railwright.spec.load import parse_spec

    file = parse_spec(text)
    catalog = file.catalog()
    design_backend(start_context(file.checked(catalog), catalog))


@contextmanager
def placed(file: "SpecFile") -> Iterator[None]:
    """Give the input errors of the block that know their key but not their file the line of that key in ``file``."""
    try:
        yield
    except InputError as error:
        raise InputErrors(_placed(single, file) for single in error.flat()) from None


def _placed(error: InputError, file: "SpecFile") -> InputError:
    document = file.document
    if error.file is not None:
        return error
    path = document.path_of(error.key)
    found = document.error(path, error.message)
    line, column = (found.line, found.column) if path else (None, None)
    return InputError(error.message, file=document.file, line=line, column=column, key=error.key)
