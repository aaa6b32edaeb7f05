"""A plan text that is being edited: its readable steps, with source positions.

In: a text and its syntax. Out: a `PlanDocument`, for any text.
"""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.diagnostics import Diagnostic, Source, Span
from callsheet.frontends.spelling import Syntax, read_plan_text
from callsheet.ir import Plan, Step


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """A text and its readable steps.

    `plan` is None if the text has an error; `partial` has the readable steps even then. `lost` are the spans
    of unreadable steps. `inputs` are variables that a run gets from outside.
    """

    source: Source
    syntax: Syntax
    plan: Plan | None
    partial: Plan
    diagnostics: tuple[Diagnostic, ...]
    lost: tuple[Span, ...] = ()
    inputs: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The whole text."""
        return self.source.text

    @property
    def steps(self) -> tuple[Step, ...]:
        """The readable steps, in text order."""
        return self.partial.steps

    def number_at(self, offset: int) -> int | None:
        """Returns the number (from 0) of the step whose span contains an offset, both ends included."""
        for number, step in enumerate(self.steps):
            if step.span is not None and step.span.start <= offset <= step.span.end:
                return number
        return None


def open_document(
    text: str, name: str = "<plan>", syntax: Syntax | None = None, inputs: tuple[str, ...] = ()
) -> PlanDocument:
    """Parses a text. Without `syntax`, it is detected; the default is LTP text.

    >>> document = open_document('S1: @READ_FILE ("a.txt") > $a\\nS2: @RESPOND ($a')
    >>> document.plan is None, [step.id for step in document.steps]
    (True, ['S1'])
    """
    reading = read_plan_text(text, name, syntax, variables=inputs)
    result = reading.result
    return PlanDocument(
        result.source,
        syntax or reading.syntax or Syntax.LTP,
        result.plan,
        result.partial,
        result.diagnostics,
        result.lost,
        inputs,
    )
