"""Finds unreachable steps, and steps reached only if an answer is empty."""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.diagnostics import Severity
from callsheet.ir import word_of
from callsheet.passes.finding import Finding, Subject

_MOST_NAMED = 3


def unreachable_steps(subject: Subject) -> Iterator[Finding]:
    """CHK010: never reached; CHK011: only after an empty answer. One per run of steps, with all their ids."""
    flow, steps = subject.flow, subject.plan.steps
    ever = flow.reachable()
    surely = flow.reachable(answers_are_empty=False)
    number = 0
    while number < len(steps):
        if surely[number]:
            number += 1
            continue
        start, possible = number, ever[number]
        while number < len(steps) and not surely[number] and ever[number] == possible:
            number += 1
        ids = tuple(step.id for step in steps[start:number])
        yield _empty_answer(subject, start, ids) if possible else _never(subject, start, ids)


def _named(ids: tuple[str, ...]) -> str:
    shown = ", ".join(ids[:_MOST_NAMED])
    return shown if len(ids) <= _MOST_NAMED else f"{shown} and {len(ids) - _MOST_NAMED} more"


def _are(ids: tuple[str, ...]) -> str:
    return "is" if len(ids) == 1 else "are"


def _never(subject: Subject, start: int, ids: tuple[str, ...]) -> Finding:
    steps = subject.plan.steps
    before = steps[start - 1] if start else None
    because = f": {before.id} ({word_of(before.action)}) never goes on to the next step" if before else ""
    return Finding(
        "CHK010",
        Severity.WARNING,
        f"{_named(ids)} {_are(ids)} never reached{because}",
        start,
        help="guard the step before with ?IF, jump here with GOTO, or delete the unreachable steps",
        names=ids,
    )


def _empty_answer(subject: Subject, start: int, ids: tuple[str, ...]) -> Finding:
    before = subject.plan.steps[start - 1]
    return Finding(
        "CHK011",
        Severity.WARNING,
        f"{_named(ids)} {_are(ids)} reached only if the answer of {before.id} is empty",
        start,
        help=f"if that is intended, guard {before.id} with ?IF (NOT_EMPTY($…)) THEN",
        names=ids,
    )
