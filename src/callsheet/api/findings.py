"""`Findings`, the diagnostics of a check, and the exceptions of the library: `PlanError`, `RunInterrupted`.

All exceptions are CallsheetErrors: they carry diagnostics, and their text is written for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import overload

from callsheet.diagnostics import (
    CallsheetError,
    Diagnostic,
    Severity,
    Source,
    render,
    render_all,
    to_json,
)
from callsheet.lazy import dataclass


class PlanError(CallsheetError):
    """A text that is not a valid plan, or a plan with errors.

    `diagnostics` holds every finding; `source` is the text that they point into. `str()` shows each with
    its line, a caret and the fix: errors first, then warnings.

    >>> from callsheet import Plan, PlanError
    >>> try:
    ...     Plan.parse("S1: @READ_FILE (path=)", name="p.ltp")
    ... except PlanError as error:
    ...     print(error)
    p.ltp:1:22: error LTP022: a value is missing here
      1 | S1: @READ_FILE (path=)
        |                      ^
    """

    def __init__(self, diagnostics: Iterable[Diagnostic], source: Source | None = None) -> None:
        super().__init__(tuple(diagnostics), source)

    @classmethod
    def of(cls, error: CallsheetError) -> PlanError:
        """A PlanError with the diagnostics and source of another error."""
        return cls(error.diagnostics, error.source)

    def __str__(self) -> str:
        errors = [d for d in self.diagnostics if d.is_error]
        warnings = [d for d in self.diagnostics if d.severity is Severity.WARNING]
        return "\n".join(render_all(group, self.source) for group in (errors, warnings) if group)

    def to_json(self) -> list[dict[str, object]]:
        """The diagnostics as JSON data; lines and columns count from 1."""
        return to_json(self.diagnostics, self.source)


class RunInterrupted(CallsheetError):
    """A run that was stopped before its end; `run_id` is its id. A recorded run can be resumed."""

    def __init__(self, run_id: str, *, is_recorded: bool) -> None:
        self.run_id = run_id
        hint = f"resume it: runtime.resume({run_id!r})" if is_recorded else None
        message = f"run {run_id} was interrupted"
        super().__init__([Diagnostic("RUN021", Severity.ERROR, message, help=hint)])

    def __str__(self) -> str:
        return render(self.diagnostics[0])


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
