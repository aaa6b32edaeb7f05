"""Resolves a plan named on the command line: a file, or the id of a plan in the library."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from callsheet.apps.cli.output import to_stderr
from callsheet.apps.operations.library import text_of_stored
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from callsheet.apps.operations.reading import PlanText
    from callsheet.store.library import PlanLibrary


def open_library(folder: Path | None) -> PlanLibrary:
    """The library in a folder; by default the user's."""
    from callsheet.store import library  # noqa: PLC0415 - not for --help

    return library.open_library(folder)


def read_named(name: str, folder: Path | None, variables: Iterable[str] = ()) -> PlanText:
    """The plan of a name, which is that of a file or an id of the library; a file has precedence.

    Raises CallsheetError: CFG012 if it is neither, and the errors of the library.
    """
    from callsheet.apps.cli.options import read_plan  # noqa: PLC0415 - not for --help

    if _is_file(name):
        if not Path(name).suffix and name in open_library(folder).ids():
            to_stderr(f"{name} is a file; to run the plan of the library: callsheet plan run {name}")
        return read_plan(name, variables=variables)
    try:
        stored = open_library(folder).load(name)
    except CallsheetError as error:
        if error.diagnostics[0].code not in ("PLN001", "PLN002"):
            raise
        raise _not_found(name, error) from error
    return text_of_stored(stored, variables)


def _is_file(name: str) -> bool:
    """Whether the name is that of a file, even one without read permission: reading it reports the reason."""
    try:
        return not stat.S_ISDIR(os.stat(name).st_mode)
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR)
    except ValueError:  # a null character, which file names cannot contain
        return False


def _not_found(name: str, error: CallsheetError) -> CallsheetError:
    diagnostic = error.diagnostics[0]
    more = f"; {diagnostic.help}" if diagnostic.code == "PLN002" and diagnostic.help else ""
    help_text = f"give a file, the id of a plan of the library, or - for standard input{more}"
    if diagnostic.message.startswith("more than one"):
        return CallsheetError.single(
            "CFG012", f"{name} is not a file, and {diagnostic.message}", help=help_text
        )
    message = f"{name} cannot be read: there is no such file, and no plan of this id in the library"
    return CallsheetError.single("CFG012", message, help=help_text)
