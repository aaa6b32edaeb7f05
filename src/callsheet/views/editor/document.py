"""A plan text that is being edited: what could be parsed of it, with source positions.

In: a text and its spelling. Out: a `PlanDocument`, whatever the text.
"""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.diagnostics import Diagnostic, Source, Span
from callsheet.frontends.spelling import Syntax, read_plan_text
from callsheet.ir import Plan, Step


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """A text with the steps that could be read.

    `plan` is None where the text has an error; `partial` holds the readable steps all the same. `lost` are
    the stretches of steps that could not be read. `inputs` are variables that a run is given from outside.
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
        """The steps that could be read, in the order of the text."""
        return self.partial.steps

    def number_at(self, offset: int) -> int | None:
        """The number of the step in whose text an offset lies, its ends included."""
        for number, step in enumerate(self.steps):
            if step.span is not None and step.span.start <= offset <= step.span.end:
                return number
        return None


def open_document(
    text: str, name: str = "<plan>", syntax: Syntax | None = None, inputs: tuple[str, ...] = ()
) -> PlanDocument:
    """Read a text; where nobody says its spelling, the text does, and LTP text it is in doubt.

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
