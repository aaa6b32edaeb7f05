"""Finds loop variables that shadow another variable."""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.diagnostics import Severity
from callsheet.passes.finding import Finding, Subject


def shadowing(subject: Subject) -> Iterator[Finding]:
    """CHK005 for a FOREACH whose loop variable is also set by a step or given to the plan."""
    given = subject.given
    definitions = subject.flow.definitions
    steps = subject.plan.steps
    for number, step in enumerate(steps):
        if step.foreach is None:
            continue
        name = step.foreach.var
        setters = definitions.get(name)
        if name in given or setters:
            where = f"that {steps[setters[0].step].id} sets" if setters else "given to the plan"
            yield Finding(
                "CHK005",
                Severity.WARNING,
                f"the loop variable ${name} hides the ${name} {where}",
                number,
                step.foreach.span,
                "give the loop variable a name of its own",
                (name,),
            )
