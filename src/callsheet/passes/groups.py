"""Finds data races between the members of a @PARALLEL group."""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.diagnostics import Severity
from callsheet.ir import Call
from callsheet.ir.flow import uses_of
from callsheet.passes.finding import Finding, Subject


def group_members(subject: Subject) -> Iterator[Finding]:
    """CHK020: a member reads another member's output; CHK021: two members set the same variable."""
    ends = subject.flow.group_end
    start = 0
    while start < len(ends):
        end = ends[start]
        if end > start:
            yield from _group(subject, range(start, end + 1))
        start = end + 1


def _group(subject: Subject, members: range) -> Iterator[Finding]:
    steps = subject.plan.steps
    setters: dict[str, list[int]] = {}
    for number in members:
        step = steps[number]
        if step.output is not None and isinstance(step.action, Call):
            setters.setdefault(step.output.var, []).append(number)
    for number in members:
        step = steps[number]
        reported: set[str] = set()
        for use in uses_of(step, number):
            name = use.ref.name
            other = next((s for s in setters.get(name, ()) if s != number), None)
            if other is None or name in reported:
                continue
            reported.add(name)
            yield Finding(
                "CHK020",
                Severity.ERROR,
                f"{step.id} reads ${name}, which {steps[other].id} of the same group sets",
                number,
                use.ref.span,
                "steps of a group run concurrently; move this one after the closing brace",
                (name, steps[other].id),
                use.place,
            )
        first = setters[step.output.var][0] if step.output and step.output.var in setters else number
        if step.output is not None and isinstance(step.action, Call) and first != number:
            yield Finding(
                "CHK021",
                Severity.WARNING,
                f"{steps[first].id} and {step.id} of one group both set ${step.output.var}; the last one is "
                "kept",
                number,
                step.output.span,
                "give each its own variable",
                (step.output.var, steps[first].id),
            )
