"""Reads what a command line names as a plan: a file of LTP text or canonical JSON, `-` for stdin.

In: an argument. Out: the text with its plan or with every reason why it is none. Nothing is
run, and no tool is looked at.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from callsheet.api.texts import plan_of_json, read_text, unreadable
from callsheet.diagnostics import CallsheetError, Diagnostic, Source
from callsheet.frontends.ltp import parse
from callsheet.ir import Plan

STDIN = "-"


@dataclass(frozen=True, slots=True)
class PlanText:
    """A text that was read as a plan; `plan` is None where `diagnostics` hold an error.

    `path` is the file, None for standard input. Where there is no plan, `partial` has the steps
    that could be read all the same, and `lost` the text of those that could not.
    """

    path: Path | None
    source: Source
    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...]
    partial: Plan | None = None
    lost: str = ""

    @property
    def is_json(self) -> bool:
        """Whether the plan was given in its canonical JSON form."""
        return _is_json(self.path, self.source.text)

    def require(self) -> Plan:
        """The plan; raises CallsheetError with all that is wrong with the text."""
        if self.plan is None:
            raise CallsheetError(self.diagnostics, self.source)
        return self.plan


def read_plan(argument: str, *, strict: bool = False) -> PlanText:
    """The plan that an argument names; `strict` makes loose spellings errors.

    Raises CallsheetError (CFG012) where there is no text to read; what is wrong inside the text
    stands in the result.
    """
    path = None if argument == STDIN else Path(argument)
    source = Source("<stdin>" if path is None else argument, _read(path))
    if _is_json(path, source.text):
        return _from_json(path, source)
    result = parse(source.text, source.name, strict=strict)
    lost = "\n".join(source.text[span.start : span.end] for span in result.lost)
    return PlanText(path, result.source, result.plan, result.diagnostics, result.partial, lost)


def _read(path: Path | None) -> str:
    name = "standard input" if path is None else str(path)
    way_out = "give a file, or - for standard input"
    try:
        if path is None and sys.stdin is None:
            raise unreadable(name, "it is closed", way_out)
        if path is None:
            return read_text(sys.stdin.buffer, name, way_out)
        with path.open("rb") as file:
            return read_text(file, name, way_out)
    except OSError as error:
        raise unreadable(name, error.strerror or str(error), way_out) from error


def _is_json(path: Path | None, text: str) -> bool:
    return path is not None and path.suffix == ".json" and text.lstrip()[:1] == "{"


def _from_json(path: Path | None, source: Source) -> PlanText:
    try:
        return PlanText(path, source, plan_of_json(source), ())
    except CallsheetError as error:
        return PlanText(path, source, None, error.diagnostics)
