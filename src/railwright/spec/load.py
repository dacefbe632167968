"""From ``cluster.yaml`` to a ``ClusterSpec`` and back.

Reading is strict and reports every mistake at once, each with file, line, column, key, value and what would be right.
Comments of the form ``# railwright: ignore RW101 because REASON`` anywhere in the file waive a rule.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from pydantic import ValidationError

from railwright.catalog.load import Catalog, load_catalog
from railwright.documents import Comment, Document, parse_document, read_document, write_yaml
from railwright.errors import InputError, InputErrors
from railwright.spec.cluster import ClusterSpec, Ignore
from railwright.spec.consistency import contradictions
from railwright.spec.references import check_references
from railwright.validation import sort_errors, validate

_DIRECTIVE = re.compile(r"^#+\s*railwright\s*:\s*(\S+)\s*(.*)$", re.IGNORECASE)
_IGNORE = re.compile(r"^(RW\d{3}(?:\s*(?:,|and|\s)\s*RW\d{3})*)(?:\s+because\s+(.*\S))?$")


@dataclass(frozen=True)
class SpecFile:
    """A spec together with the document that it was read from."""

    spec: ClusterSpec
    document: Document

    def catalog(self) -> Catalog:
        """Return the catalog with the user's own file; raises InputError at ``catalog:`` when that is not there."""
        if self.spec.catalog is None:
            return load_catalog()
        user_file = Path(self.document.file).parent / self.spec.catalog
        if not user_file.is_file():
            what = "is a directory" if user_file.is_dir() else "does not exist"
            raise self.document.error(
                ("catalog",), f"{self.spec.catalog!r} {what}; give a YAML file, relative to the folder of this file"
            )
        return load_catalog(user_file)

    def checked(self, catalog: Catalog) -> ClusterSpec:
        """Return the spec; raises InputErrors when it contradicts itself or does not fit ``catalog``."""
        errors = [self.document.error(path, message) for path, message in contradictions(self.spec)]
        raise_all([*errors, *check_references(self.spec, catalog, self.document)])
        return self.spec


def load_spec(path: Path) -> ClusterSpec:
    """Read, check and return the spec in ``path``; raises InputError or InputErrors with every mistake."""
    file = read_spec(path)
    return file.checked(file.catalog())


def read_spec(path: Path) -> SpecFile:
    """Return the spec in ``path``, its shape and values checked but not what it refers to; raises InputErrors."""
    return _from_document(read_document(path, what="a spec (cluster.yaml)"))


def parse_spec(text: str, name: str = "spec") -> SpecFile:
    """Return the spec in ``text`` like :func:`read_spec`; ``name`` stands for the file in errors."""
    return _from_document(parse_document(text, name))


def dump_spec(spec: ClusterSpec) -> str:
    """Return ``spec`` as YAML, defaults included, quantities with their units; it loads back to an equal spec."""
    return write_yaml(spec.model_dump(mode="json", exclude_none=True))


def raise_all(errors: Iterable[InputError]) -> None:
    """Raise the errors, if any, in the order of the file."""
    found = sort_errors(list(errors))
    if found:
        raise InputErrors(found)


def _from_document(document: Document) -> SpecFile:
    waived, errors = _waivers(document)
    try:
        spec = validate(ClusterSpec, document)
    except InputErrors as invalid:
        errors += invalid.errors
    raise_all(errors)
    return SpecFile(spec.model_copy(update={"ignore": (*spec.ignore, *waived)}), document)


def _waivers(document: Document) -> tuple[list[Ignore], list[InputError]]:
    """Return the waivers in the comments and an error for every comment that looks like one and is not."""
    waived: list[Ignore] = []
    errors: list[InputError] = []
    for comment in document.comments:
        directive = _DIRECTIVE.match(comment.text)
        if not directive or not get_close_matches(directive[1].lower(), ["ignore"]):
            continue
        match = _IGNORE.match(directive[2]) if directive[1] == "ignore" else None
        if match and match[2]:
            try:
                waived += [Ignore(code=code, reason=match[2]) for code in re.findall(r"RW\d{3}", match[1])]
            except ValidationError:
                errors.append(_at(document, comment, f"the reason {match[2]!r} is too short to say why"))
        elif match:
            errors.append(_at(document, comment, f"{match[1]} is waived without a reason; end it with: because …"))
        else:
            errors.append(
                _at(
                    document,
                    comment,
                    f"{comment.text!r} is not understood; write: # railwright: ignore RW101 because …",
                )
            )
    return waived, errors


def _at(document: Document, comment: Comment, message: str) -> InputError:
    return InputError(message, file=document.file, line=comment.place.line, column=comment.place.column, key="ignore")
