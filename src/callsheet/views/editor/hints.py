"""Inlay hints: which steps may run concurrently, and the labels of results.

In: a `PlanDocument`, knowledge. Out: hints with their offsets. Two steps may run concurrently if, in the
schedule, neither waits for the other, directly or transitively.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from callsheet.diagnostics import Span
from callsheet.ir import Call, CallKind, Effect, Order, Step
from callsheet.ir.precedence import Precedence
from callsheet.machine.ahead.waits import StepSchedule
from callsheet.views.editor.document import PlanDocument
from callsheet.views.editor.knowledge import Knowledge

_MOST_STEPS = 2_000
"""Longer plans have no hints of concurrency, whose cost is quadratic in their length."""
_MOST_NAMES = 3


class About(StrEnum):
    """The subject of a hint."""

    ORDER = "order"
    LABEL = "label"


class Hint(NamedTuple):
    """A short text at an offset, and its tooltip."""

    offset: int
    text: str
    about: About
    tip: str


def hints_in(document: PlanDocument, known: Knowledge, within: Span | None = None) -> tuple[Hint, ...]:
    """Returns the hints in a range, in text order; none if the plan has an error.

    >>> from callsheet.views.editor.document import open_document
    >>> from callsheet.machine.ahead.waits import schedule_of
    >>> document = open_document("S1: @LLM_EXTRACT ($a) > $x\\nS2: @LLM_EXTRACT ($b) > $y")
    >>> known = Knowledge(schedule={s.step: s for s in schedule_of(document.partial, {})})
    >>> [hint.text for hint in hints_in(document, known)]
    ['∥ S2', '∥ S1']
    """
    if document.plan is None:
        return ()
    stretch = within or Span(0, len(document.text))
    hints = [*_labels(document, known, stretch), *_order(document, known, stretch)]
    return tuple(sorted(hints, key=lambda hint: hint.offset))


def concurrent_steps(document: PlanDocument, known: Knowledge) -> list[list[int]]:
    """Returns for each step the numbers of those that may run at the same time."""
    count = len(document.steps)
    before = _waited_for(document, known.schedule)
    together: list[list[int]] = [[] for _ in range(count)]
    for number in range(count):
        for other in range(number):
            if not before[number] >> other & 1 and not before[other] >> number & 1:
                together[number].append(other)
                together[other].append(number)
    return together


def _waited_for(document: PlanDocument, schedule: Mapping[str, StepSchedule]) -> list[int]:
    """Returns for each step the bit set of the steps that it waits for, directly or transitively."""
    steps = document.steps
    number_of = {step.id: number for number, step in reversed([*enumerate(steps)])}
    sets: list[int] = [0] * len(steps)
    for number in _in_order(document):
        planned = schedule.get(steps[number].id)
        if planned is None or planned.turn:
            sets[number] = (1 << _group_start(document, number)) - 1
            continue
        for wait in planned.waits:
            other = number_of.get(wait.step)
            if other is not None and other != number:
                sets[number] |= sets[other] | 1 << other
    return sets


def _in_order(document: PlanDocument) -> list[int]:
    """Returns the steps in topological order."""
    if document.partial.order is Order.TEXT:
        return [*range(len(document.steps))]
    return [number for level in Precedence.of(document.partial).levels() for number in level]


def _group_start(document: PlanDocument, number: int) -> int:
    group = document.steps[number].group
    while group is not None and number and document.steps[number - 1].group == group:
        number -= 1
    return number


def _order(document: PlanDocument, known: Knowledge, stretch: Span) -> Iterator[Hint]:
    steps = document.steps
    together: list[list[int]] = [[] for _ in steps]
    if known.schedule and len(steps) <= _MOST_STEPS:
        together = concurrent_steps(document, known)
    for step, others in zip(steps, together, strict=True):
        if step.span is None or not _inside(step.span.end, stretch):
            continue
        names = [steps[other].id for other in others[:_MOST_NAMES]]
        more = [f"+{len(others) - _MOST_NAMES}"] if len(others) > _MOST_NAMES else []
        items = ["items"] if _runs_items_together(step, known) else []
        if names or items:
            planned = known.schedule.get(step.id)
            tip = "may run concurrently" + (f"; {planned.describe()}" if planned is not None else "")
            yield Hint(step.span.end, "∥ " + ", ".join([*items, *names, *more]), About.ORDER, tip)


def _runs_items_together(step: Step, known: Knowledge) -> bool:
    """Whether the items of a loop may run concurrently."""
    if step.foreach is None or not isinstance(step.action, Call):
        return False
    if step.action.kind in (CallKind.MODEL, CallKind.HUMAN):
        return True
    spec = known.tools.get(step.action.tool)
    return spec is not None and (spec.effect.only_reads or spec.effect is Effect.IDEMPOTENT)


def _labels(document: PlanDocument, known: Knowledge, stretch: Span) -> Iterator[Hint]:
    for step in document.steps:
        label = known.result_label(step.id)
        output = step.output
        if label is None or output is None or output.span is None or not isinstance(step.action, Call):
            continue
        if _inside(output.span.end, stretch):
            tip = f"the label of ${output.var} under the policy {known.policy}"
            yield Hint(output.span.end, str(label), About.LABEL, tip)


def _inside(offset: int, stretch: Span) -> bool:
    return stretch.start <= offset <= stretch.end
