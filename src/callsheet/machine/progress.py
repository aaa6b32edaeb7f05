"""Where a graph stands that is to be planned anew, and the new steps among those that were there.

In: a plan, which of its steps are done and which have failed. Out: what a planner is told; and of the
planner's steps the same with indexes that no earlier step has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from callsheet.ir import Plan, Step


class Progress(NamedTuple):
    """Where a graph stands: its steps that are done, that failed and why, and that were not started."""

    plan: Plan
    completed: tuple[Step, ...]
    failed: tuple[tuple[Step, str], ...]
    remaining: tuple[Step, ...]


def progress_of(plan: Plan, done: Collection[int], failures: Mapping[int, str]) -> Progress:
    """Where a plan stands, by the numbers of its steps."""
    steps = list(enumerate(plan.steps))
    return Progress(
        plan,
        tuple(step for number, step in steps if number in done),
        tuple((step, failures[number]) for number, step in steps if number in failures),
        tuple(step for number, step in steps if number not in done and number not in failures),
    )


def with_own_ids(plan: Plan, before: Plan, generation: int) -> Plan:
    """A planner's plan whose indexes no step of the plan before it has.

    A step of index 1 in the first new plan becomes `r1-1`. What waits for a step that was done before
    waits for it no more: it is done.

    >>> from callsheet.ir import Call, Order
    >>> old = Plan((Step("1", Call("A"), depends_on=()),), Order.DAG)
    >>> new = Plan((Step("2", Call("B"), depends_on=("1",)), Step("3", Call("C"), depends_on=("2",))), Order.DAG)
    >>> [(step.id, step.depends_on) for step in with_own_ids(new, old, 1).steps]
    [('r1-2', ()), ('r1-3', ('r1-2',))]
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
    known = {step.id for step in before.steps}
    steps = tuple(
        replace(
            step,
            id=names[step.id],
            depends_on=tuple(
                names.get(name, name) for name in step.depends_on or () if name in names or name not in known
            ),
        )
        for step in plan.steps
    )
    return replace(plan, steps=steps)


_LONGEST = 64
"""Characters of an index."""
