"""Counts the single-bit implicit flows of a plan: whether private data is empty, or processing it fails.

In: the labels of a plan, computed with single bits let through. Out: how many of its steps leak a bit. A few
are tolerated; many of them could spell out the data.
"""

from __future__ import annotations

from callsheet.ir import Call, Order, Respond
from callsheet.ir.labels import Label
from callsheet.passes.verify.outcome import Labels
from callsheet.passes.verify.subject import Subject
from callsheet.policy.model import Implicit

MOST_BITS = 16
"""The number of bits that may leak to an observer of the plan's actions."""


def leaked_bits(labels: Labels) -> int:
    """The number of steps that leak a bit of private data which their own label does not cover."""
    subject = labels.subject
    if subject.judge.policy.implicit is Implicit.STRICT:
        return 0
    return sum(_reveals_bit(labels, number) for number in _asking(subject))


def _asking(subject: Subject) -> list[int]:
    """The steps that may leak a bit: by an emptiness test, an answer, or a failure."""
    may_fail = subject.plan.order is Order.DAG
    return [
        number
        for number, (step, reading) in enumerate(zip(subject.plan.steps, subject.readings, strict=True))
        if may_fail or reading.emptiness or step.on_fail is not None or isinstance(step.action, Respond)
    ]


def _reveals_bit(labels: Labels, number: int) -> bool:
    subject = labels.subject
    if not subject.is_reached[number] or labels.counts(number):
        return False
    step, reading = subject.plan.steps[number], subject.readings[number]
    if reading.emptiness and _is_more(labels, number, reading.emptiness):
        return True
    if isinstance(step.action, Respond):
        return _is_more(labels, number, reading.arguments)
    can_jump = isinstance(step.action, Call) and subject.leads_by_failure(number)
    computes = can_jump and not labels.seen(number, reading.arguments).is_public
    return computes and not _is_fully_shown(labels.results[number], labels.present[number])


def _is_more(labels: Labels, number: int, names: tuple[str, ...]) -> bool:
    return not _is_fully_shown(labels.seen(number, names), labels.shown(number, names))


def _is_fully_shown(data: Label, shown: Label) -> bool:
    """Whether the label of what is shown has the readers of the data, so that no bit is let through."""
    return data.is_public or data.as_told().readers == shown.as_told().readers
