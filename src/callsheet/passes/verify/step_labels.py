"""Lazily assembles the labels of each step for display, since most callers of a verdict never read them.

In: the labels of a plan. Out: a sequence that builds its entries on access.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from callsheet.passes.verify.outcome import Labels
from callsheet.passes.verify.subject import Subject
from callsheet.passes.verify.verdict import StepLabels

_MOST_OPERANDS = 8


def explained(labels: Labels) -> Sequence[StepLabels]:
    """The labels of all steps in plan order; the sequence keeps the analysis result alive."""
    return _Explained(labels)


class _Explained(Sequence[StepLabels]):
    """A sequence of step labels that builds each entry on access."""

    __slots__ = ("_labels",)

    def __init__(self, labels: Labels) -> None:
        self._labels = labels

    def __len__(self) -> int:
        return len(self._labels.subject.plan.steps)

    @overload
    def __getitem__(self, index: int) -> StepLabels: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[StepLabels, ...]: ...
    def __getitem__(self, index: int | slice) -> StepLabels | tuple[StepLabels, ...]:
        numbers = range(len(self))[index]
        if isinstance(numbers, int):
            return _of_step(self._labels, numbers)
        return tuple(_of_step(self._labels, number) for number in numbers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


def _of_step(labels: Labels, number: int) -> StepLabels:
    subject = labels.subject
    names = subject.readings[number].names()
    reads = tuple((name, labels.label_of(number, name)) for name in names)
    step = subject.plan.steps[number].id
    return StepLabels(step, reads, labels.pc(number), labels.results[number], _because(subject, number))


def _because(subject: Subject, number: int) -> tuple[str, ...]:
    """The steps whose values a step reads directly."""
    web = subject.web
    reasons: dict[str, None] = {}
    for value in web.seen[number].values():
        for node in (value, *web.operands.get(value, ())[:_MOST_OPERANDS]):
            if web.values[node].step >= 0:
                reasons[subject.plan.steps[web.values[node].step].id] = None
    return tuple(reasons)
