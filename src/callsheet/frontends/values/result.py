"""What a front end gives back: a plan or the reasons why there is none, never an exception."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.diagnostics import CallsheetError, Diagnostic, Source, Span
from callsheet.ir import Plan


@dataclass(frozen=True, slots=True)
class ParseResult:
    """A text that was read.

    `plan` is None where any error was found. `partial` holds the steps that could be read all
    the same, for editors and for messages; it is not meant to run. `diagnostics` stand in the
    order of the text; their spans point into `source`. `lost` are the stretches of steps that
    could not be read, each from its first character to the place where reading went on.
    """

    plan: Plan | None
    partial: Plan
    diagnostics: tuple[Diagnostic, ...]
    source: Source
    lost: tuple[Span, ...] = ()

    def require(self) -> Plan:
        """The plan. Raises CallsheetError with every diagnostic where there is none."""
        if self.plan is None:
            raise CallsheetError(self.diagnostics, self.source)
        return self.plan
