"""The result of a front end: a plan, or the errors why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.diagnostics import CallsheetError, Diagnostic, Source, Span
from callsheet.ir import Plan


@dataclass(frozen=True, slots=True)
class ParseResult:
    """The result of parsing a text.

    `plan` is None if there is any error. `partial` has the steps that could be read nevertheless,
    for editors and messages; it is not meant to be run. `diagnostics` are in the order of the
    text; their spans refer to `source`. `lost` has the spans of steps that could not be read,
    each from its first character to the point of recovery.
    """

    plan: Plan | None
    partial: Plan
    diagnostics: tuple[Diagnostic, ...]
    source: Source
    lost: tuple[Span, ...] = ()

    def require(self) -> Plan:
        """The plan. Raises CallsheetError with all diagnostics if there is none."""
        if self.plan is None:
            raise CallsheetError(self.diagnostics, self.source)
        return self.plan
