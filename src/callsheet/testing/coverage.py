"""The coverage of a plan by its tests: of its steps, branches, items of loops, and failures that it handles.

In: a plan, and the marks of the runs that its tests have made. Out: what can happen in it, and which of that
has happened.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from callsheet.api.plan import Plan
from callsheet.diagnostics import Span
from callsheet.ir.step import Step
from callsheet.testing.walk import Aspect, Mark


class Part(StrEnum):
    """The kinds of what tests cover."""

    STEPS = "steps"
    BRANCHES = "branches"
    ITEMS = "items"
    FAILURES = "failures"


class Point(NamedTuple):
    """Something that can happen in a plan, where it stands, and in words."""

    mark: Mark
    part: Part
    words: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Coverage:
    """What can happen in a plan, and what has."""

    plan: Plan
    points: tuple[Point, ...]
    met: frozenset[Mark]

    @property
    def missed(self) -> tuple[Point, ...]:
        """What no test has come by, in the order of the text."""
        return tuple(point for point in self.points if point.mark not in self.met)

    def count(self, part: Part | None = None) -> tuple[int, int]:
        """How many points were met, and how many there are."""
        points = [point for point in self.points if part in (None, point.part)]
        return sum(point.mark in self.met for point in points), len(points)

    @property
    def percent(self) -> float:
        """The share of the points that were met, in percent; 100 for a plan in which nothing can happen."""
        met, of = self.count()
        return 100.0 if of == 0 else 100.0 * met / of

    def line_of(self, point: Point) -> int:
        """The line of a point in the text of the plan; 0 if it is not known."""
        source = self.plan.source
        return 0 if source is None or point.span is None else source.position(point.span.start).line


def coverage_of(plan: Plan, marks: Collection[Mark], cannot: Collection[str] = ()) -> Coverage:
    """The coverage of a plan by runs with these marks, without the points whose words are in `cannot`."""
    points = _in_steps(plan) if plan.ir.tree is None else _in_tree(plan)
    return Coverage(plan, tuple(point for point in points if point.words not in cannot), frozenset(marks))


def _in_steps(plan: Plan) -> Iterator[Point]:
    for step in plan.steps:
        span = step.span
        yield Point(Mark(step.id, Aspect.EXECUTED), Part.STEPS, f"{step.id} is executed", span)
        if step.condition is not None:
            yield Point(
                Mark(step.id, Aspect.HOLDS), Part.BRANCHES, f"the condition of {step.id} is true", span
            )
            yield Point(
                Mark(step.id, Aspect.FAILS_TO_HOLD),
                Part.BRANCHES,
                f"the condition of {step.id} is false",
                span,
            )
        if step.foreach is not None:
            yield Point(Mark(step.id, Aspect.ITEMS), Part.ITEMS, f"{step.id} with items", span)
            yield Point(Mark(step.id, Aspect.NO_ITEMS), Part.ITEMS, f"{step.id} without items", span)
        yield from _failures_of(step)


def _failures_of(step: Step) -> Iterator[Point]:
    if step.retries:
        yield Point(
            Mark(step.id, Aspect.REPEATED), Part.FAILURES, f"{step.id} fails and is repeated", step.span
        )
    if step.handling is not None:
        yield Point(Mark(step.id, Aspect.FAILS), Part.FAILURES, f"{step.id} fails for good", step.span)


def _in_tree(plan: Plan) -> Iterator[Point]:
    from callsheet.ir.tree import (  # noqa: PLC0415 - only for plans with blocks
        Foreach,
        If,
        Parallel,
        Repeat,
        Skip,
        Try,
        all_statements,
        recovery_of,
    )

    assert plan.ir.tree is not None
    for one in all_statements(plan.ir.tree):
        span = one.span
        if not isinstance(one, If | Try | Parallel):
            yield Point(Mark(one.id, Aspect.EXECUTED), Part.STEPS, f"{one.id} is executed", span)
        match one:
            case If(branches=branches):
                for number, branch in enumerate(branches):
                    which = "condition" if len(branches) == 1 else f"condition {number + 1}"
                    words = f"the {which} of {one.id} is true"
                    mark = Mark(one.id, Aspect.HOLDS, number)
                    yield Point(mark, Part.BRANCHES, words, branch.span or span)
                words = f"no condition of {one.id} is true"
                yield Point(Mark(one.id, Aspect.FAILS_TO_HOLD), Part.BRANCHES, words, span)
            case Foreach():
                yield Point(Mark(one.id, Aspect.ITEMS), Part.ITEMS, f"{one.id} with items", span)
                yield Point(Mark(one.id, Aspect.NO_ITEMS), Part.ITEMS, f"{one.id} without items", span)
            case Repeat(until=until) if until is not None:
                yield Point(Mark(one.id, Aspect.REPEATED), Part.ITEMS, f"{one.id} goes round again", span)
            case _:
                pass
        recovery = recovery_of(one)
        if recovery is None:
            continue
        if recovery.again is not None:
            words = f"{one.id} fails and is repeated"
            yield Point(Mark(one.id, Aspect.REPEATED), Part.FAILURES, words, span)
        if recovery.remedy is not None:
            words = "leaves failed items out" if isinstance(recovery.remedy, Skip) else "fails for good"
            yield Point(Mark(one.id, Aspect.FAILS), Part.FAILURES, f"{one.id} {words}", span)
        for number, handler in enumerate(recovery.handlers):
            kinds = f" with {' or '.join(handler.kinds)}" if handler.kinds else ""
            mark = Mark(one.id, Aspect.HANDLED, number)
            yield Point(mark, Part.FAILURES, f"{one.id} fails{kinds}", handler.span or span)
