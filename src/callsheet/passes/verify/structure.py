"""Rejects plans whose structure cannot be verified: ambiguity, endless loops, jumps out of parallel blocks.

In: a prepared plan. Out: violations of the rule STRUCTURE, and of the policy's limit on steps.
"""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.ir import Call, Goto, Order
from callsheet.passes.pipeline import errors
from callsheet.passes.verify.subject import Subject
from callsheet.passes.verify.verdict import Violation
from callsheet.policy.calls import Rule


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
        jumps = step.on_fail is not None and isinstance(step.on_fail.then, Goto)
        if jumps or not isinstance(step.action, Call):
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
        if not isinstance(step.action, Call) or len(step.action.named) < 2:
            continue
        names = [name.casefold() for name, _ in step.action.named]
        if len(set(names)) == len(names):
            continue
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield Violation(step.id, Rule.STRUCTURE, f"the argument {name} is given twice", name)
