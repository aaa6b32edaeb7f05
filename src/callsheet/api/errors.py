"""What the library raises: a plan that is none or must not run, a run that was interrupted.

All are CallsheetErrors: they carry diagnostics, and their text is what a person is meant to read.
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
    """A text that is no plan, or a plan that must not run, with all that is wrong with it.

    `diagnostics` holds every finding, `source` the text they point into. The error's text shows
    each with its line, a caret and the way out: first the errors, then the warnings.

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
        """The same findings as a PlanError."""
        return cls(error.diagnostics, error.source)

    def __str__(self) -> str:
        errors = [d for d in self.diagnostics if d.is_error]
        warnings = [d for d in self.diagnostics if d.severity is Severity.WARNING]
        return "\n".join(render_all(told, self.source) for told in (errors, warnings) if told)

    def to_json(self) -> list[dict[str, object]]:
        """The diagnostics as JSON data, with lines and columns from 1."""
        return to_json(self.diagnostics, self.source)


class RunInterrupted(CallsheetError):
    """A run that was stopped on its way without an end; `run_id` is its id."""

    def __init__(self, run_id: str, *, is_recorded: bool) -> None:
        self.run_id = run_id
        way_out = f"carry it on: runtime.resume({run_id!r})" if is_recorded else None
        message = f"run {run_id} was interrupted"
        super().__init__([Diagnostic("RUN021", Severity.ERROR, message, help=way_out)])

    def __str__(self) -> str:
        return render(self.diagnostics[0])
