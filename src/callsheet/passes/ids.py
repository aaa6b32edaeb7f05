"""Two steps with one id: a jump finds the first, and nobody can tell which one was meant."""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.diagnostics import Severity
from callsheet.passes.finding import Finding, Subject


def duplicate_ids(subject: Subject) -> Iterator[Finding]:
    """CHK016 for each step whose id an earlier step has."""
    first_of = subject.flow.number_of
    if len(first_of) == len(subject.plan.steps):
        return
    for number, step in enumerate(subject.plan.steps):
        first = first_of[step.id]
        if first != number:
            yield Finding(
                "CHK016",
                Severity.ERROR,
                f"the id {step.id} is taken: step number {first + 1} has it too",
                number,
                help="give every step an id of its own",
                names=(str(first + 1),),
            )
