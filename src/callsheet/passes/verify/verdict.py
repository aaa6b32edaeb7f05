"""The result types of verification: violations, obligations of the runtime, and labels of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import overload

from callsheet.diagnostics import Span
from callsheet.ir import Order
from callsheet.ir.labels import LITERAL, Label
from callsheet.passes.pipeline import errors
from callsheet.passes.verify.objections import given_twice
from callsheet.passes.verify.outcome import Labels
from callsheet.passes.verify.subject import Subject
from callsheet.policy.calls import CallView, Obligation, Rule


@dataclass(frozen=True, slots=True)
class Violation:
    """One reason to refuse a plan.

    `step` is the id of the step, None for the whole plan. `argument` is the name of the argument, `flow` the
    path of the data as texts (`S2 $a`, `S4 query`, `outside`), `help` the suggested fix.
    """

    step: str | None
    rule: Rule
    message: str
    argument: str | None = None
    flow: tuple[str, ...] = ()
    help: str | None = None
    span: Span | None = None

    def __str__(self) -> str:
        path = f" ({' → '.join(self.flow)})" if self.flow else ""
        return f"{self.step or 'plan'}: {self.message}{path}"


@dataclass(frozen=True, slots=True)
class StepLabels:
    """The labels of a step.

    `reads` are the labels of the variables it reads, `pc` is the label of what controls whether it is
    executed, `result` that of its result. `because` are the ids of the steps whose values it reads directly.
    """

    step: str
    reads: tuple[tuple[str, Label], ...] = ()
    pc: Label = LITERAL
    result: Label = LITERAL
    because: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of verification: the plan may run if it has no violations and the obligations are met.

    `asked` are the calls of a plan of version 2 that need a person's approval, with the labels that their
    arguments can have.
    """

    violations: tuple[Violation, ...] = ()
    obligations: tuple[Obligation, ...] = ()
    steps: Sequence[StepLabels] = ()
    asked: tuple[CallView, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there are no violations."""
        return not self.violations


_MOST_OPERANDS = 8


def explained(labels: Labels) -> Sequence[StepLabels]:
    """The labels of all steps in plan order; the sequence keeps the analysis result alive."""
    return Explained(len(labels.subject.plan.steps), partial(_of_step, labels))


class Explained(Sequence[StepLabels]):
    """The labels of so many steps, each made on access."""

    __slots__ = ("_count", "_of")

    def __init__(self, count: int, of: Callable[[int], StepLabels]) -> None:
        self._count, self._of = count, of

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> StepLabels: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[StepLabels, ...]: ...
    def __getitem__(self, index: int | slice) -> StepLabels | tuple[StepLabels, ...]:
        numbers = range(len(self))[index]
        if isinstance(numbers, int):
            return self._of(numbers)
        return tuple(map(self._of, numbers))

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


def structural(subject: Subject) -> Iterator[Violation]:
    """The violations that are independent of any data."""
    yield from _limits(subject)
    yield from _errors(subject)
    yield from _endless(subject)
    yield from _blocks(subject)
    yield from _twice(subject)


def _limits(subject: Subject) -> Iterator[Violation]:
    most = subject.judge.policy.max_steps
    count = len(subject.plan.steps)
    if most is not None and count > most:
        message = f"the plan has {count} steps, but the policy allows {most}"
        hint = "split it into two plans, or raise the limit: [budgets] max_steps"
        yield Violation(None, Rule.LIMIT, message, help=hint, span=subject.plan.steps[most].span)


def _errors(subject: Subject) -> Iterator[Violation]:
    """Errors of the ordinary checks; a plan with such errors does not run."""
    for finding in errors(subject.plan, subject.plain, inputs=subject.inputs):
        step = None if finding.step is None else subject.plan.steps[finding.step]
        yield Violation(
            None if step is None else step.id,
            Rule.STRUCTURE,
            finding.message,
            help=finding.hint,
            span=finding.span if finding.span is not None or step is None else step.span,
        )


def _endless(subject: Subject) -> Iterator[Violation]:
    """The first reachable step from which the plan cannot end."""
    if subject.plan.order is not Order.TEXT or all(subject.control.can_end):
        return
    for number, step in enumerate(subject.plan.steps):
        if subject.is_reached[number] and not subject.control.can_end[number]:
            message = "the plan cannot end from here"
            hint = "end it, or guard the jump back"
            yield Violation(step.id, Rule.STRUCTURE, message, help=hint, span=step.span)
            return


def _blocks(subject: Subject) -> Iterator[Violation]:
    for step in subject.plan.steps:
        if step.group is None:
            continue
        if step.after_failure.jump is not None or step.course.leaves:
            yield Violation(
                step.id,
                Rule.STRUCTURE,
                "steps of a group run concurrently, so none of them may jump or end the plan",
                help="put the jump or the end after the closing brace",
                span=step.span,
            )


def _twice(subject: Subject) -> Iterator[Violation]:
    """Arguments that are given twice if case is ignored."""
    for step in subject.plan.steps:
        for name in () if step.call is None else given_twice(step.call.named):
            yield Violation(step.id, Rule.STRUCTURE, f"the argument {name} is given twice", name)
