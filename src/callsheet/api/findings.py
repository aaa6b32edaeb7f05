"""`Findings`: the diagnostics of a check as a sequence, with access by severity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import overload

from callsheet.api.errors import PlanError
from callsheet.diagnostics import Diagnostic, Severity, Source, render_all, to_json


@dataclass(frozen=True, slots=True)
class Findings(Sequence[Diagnostic]):
    """The findings of a check; empty for a plan without any.

    `source` is the text that they point into, None for a plan that was not parsed from text. `str()` shows
    each finding with its line, a caret and the fix.

    >>> from callsheet import Plan
    >>> findings = Plan.parse('S1: GOTO S7\\nS2: @RESPOND ("Hello")').check()
    >>> findings.ok, [d.code for d in findings.errors]
    (False, ['CHK012'])
    """

    diagnostics: tuple[Diagnostic, ...] = ()
    source: Source | None = field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        """Whether no finding is an error, so that the plan may run."""
        return not self.errors

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The findings that keep the plan from running."""
        return self._of(Severity.ERROR)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The findings that are probably mistakes."""
        return self._of(Severity.WARNING)

    @property
    def hints(self) -> tuple[Diagnostic, ...]:
        """The findings that suggest an improvement."""
        return self._of(Severity.HINT)

    def raise_for_errors(self) -> None:
        """Raise PlanError with all findings if any is an error."""
        if not self.ok:
            raise PlanError(self.diagnostics, self.source)

    def to_json(self) -> list[dict[str, object]]:
        """The findings as JSON data; lines and columns count from 1."""
        return to_json(self.diagnostics, self.source)

    def _of(self, severity: Severity) -> tuple[Diagnostic, ...]:
        return tuple(d for d in self.diagnostics if d.severity is severity)

    def __len__(self) -> int:
        return len(self.diagnostics)

    @overload
    def __getitem__(self, index: int) -> Diagnostic: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Diagnostic]: ...
    def __getitem__(self, index: int | slice) -> Diagnostic | Sequence[Diagnostic]:
        return self.diagnostics[index]

    def __str__(self) -> str:
        return render_all(self.diagnostics, self.source)
