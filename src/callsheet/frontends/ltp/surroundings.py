"""Reports text around a plan: prose that is skipped, and missing markers.

Whether a line is prose or an invalid step may be known only when all markers and steps have been read, so
candidate lines are kept until then.
"""

from __future__ import annotations

from callsheet.diagnostics import Diagnostic, Edit, Fix, Severity, Span
from callsheet.frontends.values.reader import Reader


class Surroundings:
    """The lines that may be prose and are not reported yet; adjacent ones are merged to one span."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.spans: list[Span] = []

    def add(self, span: Span) -> None:
        """Adds a line that may not be part of the plan."""
        if self.spans and not self._reader.text[self.spans[-1].end : span.start].strip():
            self.spans[-1] = self.spans[-1].to(span)
        else:
            self.spans.append(span)

    def taken(self) -> list[Span]:
        """Returns and clears the kept spans."""
        spans, self.spans = self.spans, []
        return spans

    def note(self, span: Span) -> None:
        """Reports a span as skipped prose (LTP103)."""
        self._reader.loose("LTP103", "this is not part of the plan and is ignored", *span, "")

    def warn(self, span: Span) -> None:
        """Warns of a step outside the markers (LTP005)."""
        self._reader.warning(
            "LTP005",
            "this looks like a step, but is outside PLAN_START and PLAN_END: it is ignored",
            *span,
            help="put it between the markers if it belongs to the plan",
        )


def missing_markers(plan: Span, line: int, *, lacks_start: bool, lacks_end: bool) -> Diagnostic | None:
    """The hint (LTP101) that one or both markers are missing; None if neither is.

    `plan` is the span from the first step to the end of the plan, `line` the offset of its first line.
    """
    edits: list[Edit] = []
    missing: list[str] = []
    if lacks_start:
        missing.append("PLAN_START")
        edits.append(Edit(Span(line, line), "PLAN_START\n"))
    if lacks_end:
        missing.append("PLAN_END")
        end = max(plan.end, line)
        edits.append(Edit(Span(end, end), "\nPLAN_END"))
    if not missing:
        return None
    words = " and ".join(missing)
    message = f"{words} {'is' if len(missing) == 1 else 'are'} missing"
    fix = Fix(f"insert {words}", tuple(edits))
    return Diagnostic("LTP101", Severity.HINT, message, Span(plan.start, plan.start), None, fix)
