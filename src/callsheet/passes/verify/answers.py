"""Finds the implicit answer of a plan that ends without an answer step: the last value that was set.

In: a prepared plan. Out: numbers of the steps whose result may be that answer.
"""

from __future__ import annotations

from callsheet.ir import Call, Order, Respond
from callsheet.passes.verify.subject import Subject


def last_values(subject: Subject) -> list[int]:
    """The steps whose result may be the plan's answer; none if the plan always answers explicitly."""
    steps, last = subject.plan.steps, len(subject.plan.steps) - 1
    if last < 0:
        return []
    if subject.plan.order is Order.DAG:
        says_one = any(isinstance(step.action, Respond) and step.condition is None for step in steps)
        return [] if says_one or not _sets(subject, last) else [last]
    if not _falls(subject, last):
        return []
    values: list[int] = []
    seen, stack = {last}, [last]
    while stack:
        number = stack.pop()
        if _sets(subject, number):
            values.append(number)
            if steps[number].condition is None and steps[number].group is None:
                continue
        for before in subject.flow.predecessors[number]:
            if before <= last and before not in seen and subject.is_reached[before]:
                seen.add(before)
                stack.append(before)
    return sorted(values)


def _sets(subject: Subject, number: int) -> bool:
    step = subject.plan.steps[number]
    return isinstance(step.action, Call) and step.output is not None and bool(subject.is_reached[number])


def _falls(subject: Subject, last: int) -> bool:
    """Whether control may fall off the end of the plan, after its last step or group, without an answer."""
    if not subject.is_reached[last]:
        return False
    first = last
    while first > 0 and subject.flow.group_end[first - 1] == subject.flow.group_end[last]:
        first -= 1
    return all(
        isinstance(step.action, Call) or step.condition is not None or step.foreach is not None
        for step in subject.plan.steps[first : last + 1]
    )
