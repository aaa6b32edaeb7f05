"""Finds jumps to steps that do not exist."""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.diagnostics import Severity
from callsheet.ir import Goto
from callsheet.ir.flow import Place
from callsheet.passes.finding import Finding, Subject


def missing_targets(subject: Subject) -> Iterator[Finding]:
    """CHK012 for each GOTO and ON_FAIL GOTO whose target is not the id of a step."""
    known = subject.flow.number_of
    for number, step in enumerate(subject.plan.steps):
        failure = step.on_fail.then if step.on_fail is not None else None
        if failure is None and not isinstance(step.action, Goto):
            continue
        for jump, place in ((step.action, None), (failure, Place.FAILURE)):
            if isinstance(jump, Goto) and jump.target not in known:
                word = "GOTO" if place is None else "ON_FAIL GOTO"
                yield Finding(
                    "CHK012",
                    Severity.ERROR,
                    f"{word} leads to {jump.target}, which does not exist",
                    number,
                    jump.span,
                    subject.suggest(jump.target, known),
                    (jump.target,),
                    place,
                )
