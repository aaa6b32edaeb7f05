"""The coverage of a plan by its tests: of its steps, branches, items of loops, and failures that it handles.

In: a plan, and the marks of the runs that its tests have made: a step that was executed, a condition that
held, a loop without items, a failure that was handled. Out: what can happen in it, and which of that has
happened.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from callsheet.api.plan import Plan
from callsheet.diagnostics import Span
from callsheet.ir.step import Step
from callsheet.machine import Machine, Program
from callsheet.machine.decision_log import DecisionKind, DecisionLog
from callsheet.machine.notes import Note, NoteKind

if TYPE_CHECKING:
    from callsheet.machine import Command
    from callsheet.machine.run import Run
    from callsheet.machine.tree.activations import Activation
    from callsheet.machine.tree.interpreter import CarryOut, TreeRun
    from callsheet.machine.tree.program import Operation


class Aspect(StrEnum):
    """What can happen at a step. Those with numbers are followed by one: `holds 0` is a first condition."""

    EXECUTED = "executed"
    HOLDS = "holds"
    """Its condition is true; of an ?IF of version 2, the condition with this number."""
    FAILS_TO_HOLD = "does not hold"
    """Its condition is false; of an ?IF of version 2, all of its conditions."""
    ITEMS = "items"
    """A loop with items."""
    NO_ITEMS = "no items"
    REPEATED = "repeated"
    """A failed attempt is made again, or a REPEAT goes on after its first round."""
    FAILS = "fails"
    """It fails for good, and what its plan says about that is done."""
    HANDLED = "handled"
    """The handler with this number is executed."""


class Mark(NamedTuple):
    """Something that can happen at a step of a plan: `number` counts the conditions or handlers of it."""

    step: str
    aspect: Aspect
    number: int = 0


class Walk:
    """Records the marks of one run: `prepare` its program, `attend` its machine, give it each `note`."""

    def __init__(self) -> None:
        self.marks: set[Mark] = set()
        self._log: DecisionLog | None = None
        self._ids: tuple[str, ...] = ()
        self._last: dict[str, int] = {}
        """The number of the last condition of each ?IF of version 2."""
        self._skipping: set[str] = set()
        """The loops of version 2 that leave failed items out."""

    def prepare(self, program: Program) -> None:
        """Take part in the decisions of a program, which no other run may use."""
        if program.tree is None:
            self._log = DecisionLog(notes=True)
            self._log.lead(program)
            self._ids = tuple(code.id for code in program.steps)
        elif program.plan.tree is not None:
            from callsheet.ir import tree  # noqa: PLC0415 - only for plans with blocks

            for one in tree.all_statements(program.plan.tree):
                if isinstance(one, tree.If):
                    self._last[one.id] = len(one.branches) - 1
                elif isinstance(one, tree.Foreach):
                    recovery = tree.recovery_of(one)
                    if recovery is not None and isinstance(recovery.remedy, tree.Skip):
                        self._skipping.add(one.id)

    def attend(self, machine: Machine) -> None:
        """Stand between the machine of a plan with blocks and its operations."""
        tree = machine.tree
        if tree is not None:
            tree.carry_out = {
                kind: partial(self._carry_out, execute) for kind, execute in tree.carry_out.items()
            }

    def note(self, note: Note) -> None:
        """Take a note of the machine."""
        step = own_id(note.step)
        match note.kind:
            case NoteKind.STARTED:
                self._mark(step, Aspect.EXECUTED)
                if note.at is not None:
                    self._mark(step, Aspect.ITEMS if note.at.items else Aspect.NO_ITEMS)
            case NoteKind.RETRYING:
                self._mark(step, Aspect.REPEATED)
            case NoteKind.FAILED:
                self._mark(step, Aspect.FAILS)
            case NoteKind.FINISHED:
                if note.is_failure:
                    self._mark(step, Aspect.FAILS)
            case NoteKind.CUT if step in self._skipping:
                self._mark(step, Aspect.FAILS)
            case _:
                pass

    def end(self) -> None:
        """Take in the decisions of a run that has ended."""
        for kind, number, outcome in () if self._log is None else self._log.taken():
            if not isinstance(number, int):
                continue
            if kind is DecisionKind.HOLDS:
                self._mark(self._ids[number], Aspect.HOLDS if outcome else Aspect.FAILS_TO_HOLD)
            elif kind is DecisionKind.ITEMS:
                self._mark(self._ids[number], Aspect.ITEMS if outcome else Aspect.NO_ITEMS)

    def _mark(self, step: str, aspect: Aspect, number: int = 0) -> None:
        self.marks.add(Mark(step, aspect, number))

    def _carry_out(
        self,
        execute: CarryOut,
        tree: TreeRun,
        run: Run,
        act: Activation,
        operation: Operation,
        out: list[Command],
    ) -> int:
        """Execute an operation of a plan with blocks, and mark what it has come to."""
        from callsheet.machine.tree.activations import STAY  # noqa: PLC0415 - only for plans with blocks
        from callsheet.machine.tree.program import BranchOp, CatchOp, UntilOp  # noqa: PLC0415 - as above

        at, failure = act.pc, act.failure
        code = getattr(operation, "code", None)
        step = str(getattr(operation, "id", "") if code is None else code.id)
        if step and not isinstance(operation, CatchOp):
            self._mark(step, Aspect.EXECUTED)
        signal = execute(tree, run, act, operation, out)
        match operation:
            case BranchOp(branch=number, otherwise=otherwise):
                if signal != STAY or act.pc != otherwise:
                    self._mark(step, Aspect.HOLDS, number)
                elif number == self._last[step]:
                    self._mark(step, Aspect.FAILS_TO_HOLD)
            case UntilOp() if not (signal == STAY and act.pc == at + 1):
                self._mark(step, Aspect.REPEATED)
            case CatchOp(handlers=handlers) if act.failure is not failure:  # else it is attempted again
                taken = [number for number, (_, _, first) in enumerate(handlers) if first == act.pc]
                if taken:
                    self._mark(step, Aspect.HANDLED, taken[0])
                else:
                    self._mark(step, Aspect.FAILS)
            case _:
                pass
        return signal


def own_id(path: str) -> str:
    """The id of a statement, of the path that names a visit of it: `S2[4]/S5` is one of S5."""
    return path.rpartition("/")[2].partition("[")[0]


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
