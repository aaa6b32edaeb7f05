"""What stands around a plan: its two markers, and prose, which is gone over.

In: stretches of a text that are no part of its plan. Out: what is said of them. Whether one is prose, or a
step that is wrong, may be known only once markers and steps have been read, so they are kept until then.
"""

from __future__ import annotations

from callsheet.diagnostics import Diagnostic, Edit, Fix, Severity, Span
from callsheet.frontends.values.reader import Reader


class Surroundings:
    """The lines that may be prose, of which nothing has been said yet: neighbouring ones are one `span`."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.spans: list[Span] = []

    def add(self, span: Span) -> None:
        """Take in a line that is not part of the plan."""
        if self.spans and not self._reader.text[self.spans[-1].end : span.start].strip():
            self.spans[-1] = self.spans[-1].to(span)
        else:
            self.spans.append(span)

    def taken(self) -> list[Span]:
        """All that has been taken in, and is no more."""
        spans, self.spans = self.spans, []
        return spans

    def note(self, span: Span) -> None:
        """Say that this is prose."""
        self._reader.loose("LTP103", "this is no part of the plan and is not read", *span, "")

    def warn(self, span: Span) -> None:
        """Warn of a step outside the markers."""
        self._reader.warning(
            "LTP005",
            "this looks like a step, but stands outside PLAN_START and PLAN_END: it is not read",
            *span,
            help="put it between the markers if it belongs to the plan",
        )


def missing_markers(plan: Span, line: int, *, lacks_start: bool, lacks_end: bool) -> Diagnostic | None:
    """The hint that a plan stands without one of its markers, or both; None for one that has them.

    `plan` reaches from its first step to the end of all that belongs to it, `line` is where its line begins.
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
