"""The data for planning a failed graph anew: its progress for the planner, and fresh ids for the new steps.

In: a plan, and which of its steps are done or have failed; the planner's plan. Out: a `Progress`; the
planner's plan with ids that no earlier step has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from callsheet.ir import Plan, Step
from callsheet.lazy import NamedTuple
from callsheet.machine.frames import End


class Planning(NamedTuple):
    """An open request to a planner: its key, how the run ends if it fails, and why it is repeated."""

    key: str
    end: End
    refused: str = ""


class Progress(NamedTuple):
    """The progress of a graph: its completed steps, failed ones with their errors, and remaining ones.

    `number` counts the new plans of the run from 1; `refused` says why the planner's last answer was refused.
    """

    plan: Plan
    completed: tuple[Step, ...]
    failed: tuple[tuple[Step, str], ...]
    remaining: tuple[Step, ...]
    number: int = 1
    refused: str = ""


def progress_of(
    plan: Plan, done: Collection[int], failures: Mapping[int, str], number: int = 1, refused: str = ""
) -> Progress:
    """The progress of a plan, from the numbers of its steps that are done or failed."""
    steps = list(enumerate(plan.steps))
    return Progress(
        plan,
        tuple(step for n, step in steps if n in done),
        tuple((step, failures[n]) for n, step in steps if n in failures),
        tuple(step for n, step in steps if n not in done and n not in failures),
        number,
        refused,
    )


def with_own_ids(plan: Plan, before: Plan, generation: int) -> Plan:
    """A planner's plan with ids that no step of the plan before it has.

    >>> from callsheet.ir import Call
    >>> steps = Step("1", Call("A"), depends_on=()), Step("2", Call("B"), depends_on=("1",))
    >>> [(step.id, step.depends_on) for step in with_own_ids(Plan(steps), Plan(steps), 1).steps]
    [('r1-1', ()), ('r1-2', ('r1-1',))]
    """
    taken = {step.id for step in before.steps}
    names: dict[str, str] = {}
    for step in plan.steps:
        wished = f"r{generation}-{step.id}"[:_LONGEST].rstrip()
        name, number = wished, len(taken)
        while name in taken:
            name, number = f"r{generation}-{number}", number + 1
        taken.add(name)
        names.setdefault(step.id, name)
    steps = (
        replace(
            step, id=names[step.id], depends_on=tuple(names.get(name, name) for name in step.depends_on or ())
        )
        for step in plan.steps
    )
    return replace(plan, steps=tuple(steps))


def without_past(plan: Plan, progress: Progress) -> Plan:
    """A planner's plan without dependencies on steps that were completed before."""
    own = {step.id for step in plan.steps}
    past = {step.id for step in progress.completed} - own
    if not any(past.intersection(step.depends_on or ()) for step in plan.steps):
        return plan
    steps = (
        replace(step, depends_on=tuple(name for name in step.depends_on or () if name not in past))
        for step in plan.steps
    )
    return replace(plan, steps=tuple(steps))


_LONGEST = 64
"""The most characters of a new id."""
