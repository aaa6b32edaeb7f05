"""Collects the diagnostics of a JSON plan, up to a thousand errors."""

from __future__ import annotations

from callsheet.diagnostics import Diagnostic, Fix, Severity, Span

MOST_ERRORS = 1_000


class Unreadable(Exception):
    """The rest of the text cannot be read; the reason is in the report."""


class Report:
    """The diagnostics of one text.

    The error after `MOST_ERRORS` errors is replaced by DAG006 and raises `Unreadable`.
    """

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.errors = 0

    def error(
        self,
        code: str,
        message: str,
        span: Span,
        help_: str | None = None,
        *,
        fix: Fix | None = None,
        step: str | None = None,
    ) -> Unreadable:
        """Record an error; returns the exception that a caller raises if it cannot go on."""
        if self.errors == MOST_ERRORS:
            text = f"more than {MOST_ERRORS:,} errors; the rest of the text was not checked"
            self.diagnostics.append(
                Diagnostic("DAG006", Severity.ERROR, text, span, "repair these first, then check again")
            )
            self.errors += 1
            raise Unreadable
        self.errors += 1
        self.diagnostics.append(Diagnostic(code, Severity.ERROR, message, span, help_, fix, step))
        return Unreadable()

    def warning(
        self, code: str, message: str, span: Span, help_: str | None = None, *, step: str | None = None
    ) -> None:
        """Record a warning: the text is read, but perhaps not as intended."""
        self.diagnostics.append(Diagnostic(code, Severity.WARNING, message, span, help_, None, step))
