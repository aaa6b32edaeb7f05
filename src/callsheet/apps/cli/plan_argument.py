"""The plan that an argument names: a file, standard input, a folder of plans, or a plan of the library."""

from __future__ import annotations

import errno
import os
import re
import shlex
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet import lazy
from callsheet.api.texts import read_text, unreadable
from callsheet.apps.cli.output import to_stderr
from callsheet.apps.operations.library import text_of_stored
from callsheet.apps.operations.reading import PlanText, text_of
from callsheet.diagnostics import CallsheetError, Source

if TYPE_CHECKING:
    from callsheet.frontends.spelling import Syntax
    from callsheet.store.library import PlanLibrary

_ID = lazy.pattern(r"(?!.*\.(?:ltp|micro|json|ya?ml)\Z)[a-z0-9][a-z0-9._-]*(?:@.*)?\Z", re.ASCII)
"""The syntax of a plan id: no slash, and no suffix of a plan file."""
STDIN = "-"
PLAN_SUFFIXES = (".ltp", ".micro", ".dag.json", ".dag.yaml", ".dag.yml")
"""How the names of files end that are plans in a folder."""


@dataclass(frozen=True, slots=True)
class NamedPlan:
    """A plan named on the command line: a file, `-`, or an id of the library in the folder.

    If `syntax` is set, the name is always that of a file.
    """

    plan: str
    syntax: Syntax | None
    plans_folder: Path | None = None

    def read(self, variables: Iterable[str] = ()) -> PlanText:
        """The text with its plan, if it is valid. Raises CallsheetError (CFG012) if it cannot be read."""
        if self.syntax is None and _ID.match(self.plan):
            return read_named(self.plan, self.plans_folder, variables)
        return read_plan(self.plan, syntax=self.syntax, variables=variables)


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
    source = Source("<stdin>" if path is None else argument, _read_plan_input(path))
    return text_of(path, source, syntax=syntax, strict=strict, variables=variables)


def plan_files(names: Iterable[str], project: Iterable[str] = ()) -> tuple[str, ...]:
    """The files of plans that arguments name: a folder stands for all plans in it, a pattern for its matches.

    Without arguments these are the plans of the `project`. A folder or pattern without plans stands for
    itself, which cannot be read. Raises click.UsageError if there is nothing to take.
    """
    given = tuple(names) or tuple(project)
    if not given:
        raise click.UsageError('missing argument PLAN; a project names its plans: plans = ["plans"]')
    return tuple(dict.fromkeys(file for name in given for file in _plans_at(name)))


def _plans_at(name: str) -> list[str]:
    found: list[str] = []
    if os.path.isdir(name):
        files = (path for path in Path(name).rglob("*") if path.name.endswith(PLAN_SUFFIXES))
        found = sorted(str(path) for path in files if path.is_file())
    elif any(char in name for char in "*?[") and not os.path.isfile(name):
        import glob  # noqa: PLC0415 - only for patterns that the shell has left

        found = sorted(path for path in glob.glob(name, recursive=True) if os.path.isfile(path))
    return found or [name]


def try_read_plan(
    argument: str, *, syntax: Syntax | None = None, strict: bool = False, variables: Iterable[str] = ()
) -> PlanText:
    """As `read_plan`, but a text that cannot be read is a diagnostic in the result."""
    try:
        return read_plan(argument, syntax=syntax, strict=strict, variables=variables)
    except CallsheetError as error:
        return PlanText(None, Source(argument, ""), None, error.diagnostics)


def _read_plan_input(path: Path | None) -> str:
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


def open_library(folder: Path | None) -> PlanLibrary:
    """The library in a folder; by default the user's."""
    from callsheet.store import library  # noqa: PLC0415 - not for --help

    return library.open_library(folder)


def read_named(name: str, folder: Path | None, variables: Iterable[str] = ()) -> PlanText:
    """The plan of a name, which is that of a file or an id of the library; a file has precedence.

    Raises CallsheetError: CFG012 if it is neither, and the errors of the library.
    """
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
