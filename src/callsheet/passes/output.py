"""Finds plans without an answer, and output variables of steps that have no result."""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.diagnostics import Severity
from callsheet.ir import Call, Order, Respond, Terminate, word_of
from callsheet.passes.finding import Finding, Subject


def missing_answer(subject: Subject) -> Iterator[Finding]:
    """CHK015 for a text-ordered plan with neither RESPOND nor TERMINATE."""
    plan = subject.plan
    if plan.order is Order.TEXT and not any(isinstance(s.action, Respond | Terminate) for s in plan.steps):
        yield Finding(
            "CHK015",
            Severity.WARNING,
            "the plan has neither @RESPOND nor TERMINATE: its answer is whatever was stored last",
            help='end it with a step such as @RESPOND ("Done:", $result)',
        )


def empty_outputs(subject: Subject) -> Iterator[Finding]:
    """CHK032 for an output variable of a step that has no result (GOTO, @RESPOND …)."""
    for number, step in enumerate(subject.plan.steps):
        if step.output is not None and not isinstance(step.action, Call):
            yield Finding(
                "CHK032",
                Severity.WARNING,
                f"{word_of(step.action)} has no result, so ${step.output.var} is never set",
                number,
                step.output.span,
                f"delete `> ${step.output.var}`",
                (step.output.var,),
            )
