"""The errors that a user can cause, each with the exit code that the command line gives it.

A message names the file, line or key, the value found and what would be right. Anything else that is raised is a defect.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any


class RailwrightError(Exception):
    """Base of every error shown to the user without a stack trace."""

    exit_code = 1


class InputError(RailwrightError):
    """The user's input is wrong: exit code 2.

    ``file``, ``line`` and ``column`` (both from 1) say where, ``key`` is the dotted path of the key inside the file.
    """

    exit_code = 2

    def __init__(
        self,
        message: str,
        *,
        file: Path | str | None = None,
        line: int | None = None,
        column: int | None = None,
        key: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.line = line
        self.column = column
        self.key = key

    def __str__(self) -> str:
        place = str(self.file) if self.file is not None else ""
        if self.line is not None:
            place += f":{self.line}" if place else f"line {self.line}"
            if self.column is not None:
                place += f":{self.column}"
        parts = [part for part in (place, self.key) if part]
        return ": ".join([*parts, self.message])

    def flat(self) -> "list[InputError]":
        """Return the single errors that this one is made of."""
        return [self]

    def as_dict(self) -> dict[str, Any]:
        """Return the error as plain data with stable keys; null where it has no place."""
        file = None if self.file is None else str(self.file)
        return {"file": file, "line": self.line, "column": self.column, "key": self.key, "message": self.message}


class InputErrors(InputError):
    """Several input errors at once, so that a user mends a file in one go."""

    def __init__(self, errors: Iterable[InputError]) -> None:
        self.errors = [single for error in errors for single in error.flat()]
        super().__init__("\n".join(str(error) for error in self.errors))

    def flat(self) -> list[InputError]:
        """Return the single errors that this one is made of."""
        return self.errors


class MissingError(RailwrightError):
    """Something that the machine needs is not installed; the message says how to install it: exit code 3."""

    exit_code = 3


def nearest(word: str, allowed: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)`` for the closest allowed spelling, or an empty string when none is close."""
    match = get_close_matches(word, list(allowed), n=1, cutoff=0.6)
    return f" (did you mean {match[0]!r}?)" if match else ""
