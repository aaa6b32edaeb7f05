"""Reads a plan argument of the command line: a file, or `-` for standard input.

Input: an argument. Output: its text as read by `operations.reading`. Nothing is executed, and tools are not
checked.
"""

from __future__ import annotations

import shlex
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

    `syntax` is the syntax, None to detect it from the suffix or the text. `strict` makes loose spellings
    errors. `variables` are the names of variables that the run will be given.

    Raises CallsheetError (CFG012) if the text cannot be read. Errors in the text are part of the result.
    """
    path = None if argument == STDIN else Path(argument)
    source = Source("<stdin>" if path is None else argument, _read(path))
    return text_of(path, source, syntax=syntax, strict=strict, variables=variables)


def try_read_plan(
    argument: str, *, syntax: Syntax | None = None, strict: bool = False, variables: Iterable[str] = ()
) -> PlanText:
    """As `read_plan`, but a text that cannot be read is a diagnostic in the result."""
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
        files = f"name its files, for example with the pattern {shlex.quote(name)}/*.ltp"
        raise unreadable(name, "it is a folder", files) from error
    except OSError as error:
        raise unreadable(name, error.strerror or str(error), help_text) from error
