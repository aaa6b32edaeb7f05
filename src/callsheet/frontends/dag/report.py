"""What is noted while a plan is read: diagnostics with their places, up to a thousand errors."""

from __future__ import annotations

from callsheet.diagnostics import Diagnostic, Fix, Severity, Span

MOST_ERRORS = 1_000


class Unreadable(Exception):
    """The text cannot be read on from here; the reason stands in the report."""


class Report:
    """The findings of one text.

    After `MOST_ERRORS` errors it notes DAG006 and raises `Unreadable`: more would help nobody.
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
        """Note an error; gives what a caller raises that cannot go on."""
        if self.errors == MOST_ERRORS:
            said = f"more than {MOST_ERRORS:,} errors; the rest of the text was not looked at"
            self.diagnostics.append(
                Diagnostic("DAG006", Severity.ERROR, said, span, "repair these first, then check again")
            )
            self.errors += 1
            raise Unreadable
        self.errors += 1
        self.diagnostics.append(Diagnostic(code, Severity.ERROR, message, span, help_, fix, step))
        return Unreadable()

    def warning(
        self, code: str, message: str, span: Span, help_: str | None = None, *, step: str | None = None
    ) -> None:
        """Note what is read, though perhaps not as it was meant."""
        self.diagnostics.append(Diagnostic(code, Severity.WARNING, message, span, help_, None, step))
