"""Exceptions of the library: `PlanError` for an invalid plan, `RunInterrupted` for a stopped run.

Both are CallsheetErrors: they carry diagnostics, and their text is written for people.
"""

from __future__ import annotations

from collections.abc import Iterable

from callsheet.diagnostics import (
    CallsheetError,
    Diagnostic,
    Severity,
    Source,
    render,
    render_all,
    to_json,
)


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
