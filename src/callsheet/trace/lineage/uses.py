"""For each variable of a plan, the last step that reads it and the last one that sets it.

In: a plan. Out: numbers of steps by variable, if steps run in text order and at most once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from callsheet.ir import Call, Goto, Order, Plan, Replan, Step
from callsheet.ir.expr import names_in, refs_of

NEVER = -1
"""A number below that of any step."""


class LastUses(NamedTuple):
    """The numbers of the last steps that read, and that set, each variable, by name."""

    read: Mapping[str, int]
    made: Mapping[str, int]


def last_uses(plan: Plan) -> LastUses | None:
    """The last uses of variables; None for a plan whose steps may run repeatedly or out of text order."""
    if plan.order is not Order.TEXT or any(map(_may_lead_back, plan.steps)):
        return None
    read: dict[str, int] = {}
    last_use: dict[str, int] = {}
    for number, step in enumerate(plan.steps):
        for name in _read_by(step):
            read[name] = number
        if step.output is not None:
            last_use[step.output.var] = number
    return LastUses(read, last_use)


def _may_lead_back(step: Step) -> bool:
    on_fail = step.on_fail
    return isinstance(step.action, Goto | Replan) or (on_fail is not None and isinstance(on_fail.then, Goto))


def _read_by(step: Step) -> Iterator[str]:
    action = step.action
    if isinstance(action, Call):
        yield from names_in(action.positional)
        yield from names_in([value for _, value in action.named])
    else:
        yield from names_in(step.values())
    if step.foreach is not None:
        yield from names_in((step.foreach.source,))
    if step.condition is not None:
        yield from (ref.name for ref in refs_of(step.condition))
    if step.on_fail is not None:
        yield from names_in(step.failure_values())
