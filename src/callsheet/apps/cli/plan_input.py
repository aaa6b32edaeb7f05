"""Reads a plan argument of the command line: a file, or `-` for standard input.

In: an argument. Out: its text as `operations.reading` reads it. Nothing is run, and no tool is looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from callsheet.api.texts import read_text, unreadable
from callsheet.apps.operations.reading import PlanText, text_of
from callsheet.diagnostics import CallsheetError, Source
from callsheet.frontends.spelling import Syntax

STDIN = "-"


def read_plan(
    argument: str,
    *,
    syntax: Syntax | None = None,
    strict: bool = False,
    variables: Iterable[str] = (),
) -> PlanText:
    """The plan that an argument names.

    `syntax` is the spelling, None where the file's suffix or its text tells; `strict` makes loose
    spellings errors; `variables` are those that the run will be given.

    Raises CallsheetError (CFG012) where there is no text to read; what is wrong inside the text
    stands in the result.
    """
    path = None if argument == STDIN else Path(argument)
    source = Source("<stdin>" if path is None else argument, _read(path))
    return text_of(path, source, syntax=syntax, strict=strict, variables=variables)


def try_read_plan(
    argument: str, *, syntax: Syntax | None = None, strict: bool = False, variables: Iterable[str] = ()
) -> PlanText:
    """As `read_plan`; that there is no text to read is a finding in the result."""
    try:
        return read_plan(argument, syntax=syntax, strict=strict, variables=variables)
    except CallsheetError as error:
        return PlanText(None, Source(argument, ""), None, error.diagnostics)


def _read(path: Path | None) -> str:
    name = "standard input" if path is None else str(path)
    help_text = "give a file, or - for standard input"
    try:
        if path is None and sys.stdin is None:
            raise unreadable(name, "it is closed", help_text)
        if path is None:
            return read_text(sys.stdin.buffer, name, help_text)
        with path.open("rb") as file:
            return read_text(file, name, help_text)
    except IsADirectoryError as error:
        files = "name its files: the shell makes them of " + str(Path(name) / "*.ltp")
        raise unreadable(name, "it is a folder", files) from error
    except OSError as error:
        raise unreadable(name, error.strerror or str(error), help_text) from error
