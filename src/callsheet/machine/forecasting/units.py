"""The control-flow graph of a plan by units: a unit is a @PARALLEL group, or a single step.

In: a plan in text order. Out: the graph of its units, each named by the number of its first step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from callsheet.ir import Goto, Plan, Step
from callsheet.ir.flow import flow_of


@dataclass(frozen=True, slots=True)
class Units:
    """The graph of units. Its nodes are steps by number, then the end, then the entry.

    Only heads of units have edges. `partial` has the groups that a jump may enter behind their first member;
    `predecessor_counts` has the number of predecessors of each unit.
    """

    heads: tuple[int, ...]
    head_of: list[int]
    successors: list[list[int]]
    predecessor_counts: list[int]
    partial: frozenset[int]
    last_of: dict[int, int]

    def members(self, head: int) -> range:
        """The numbers of the unit's steps."""
        return range(head, self.last_of[head] + 1)


def units_of(plan: Plan) -> Units:
    """The units of a plan.

    >>> from callsheet.ir import Call, Step
    >>> steps = (Step("A", Call("X"), group=0), Step("B", Call("X"), group=0), Step("C", Goto("B")))
    >>> units = units_of(Plan(steps))
    >>> units.heads, units.successors, units.partial
    ((0, 2), [[2, 3], [], [0], [], [0]], frozenset({0}))
    """
    flow = flow_of(plan)
    count = len(plan.steps)
    heads: list[int] = []
    head_of: list[int] = []
    last_of: dict[int, int] = {}
    for number in range(count):
        if not heads or number > last_of[heads[-1]]:
            heads.append(number)
            last_of[number] = flow.group_end[number]
        head_of.append(heads[-1])
    jumps = {target for step in plan.steps for target in _targets(step, flow.number_of, count)}
    partial = frozenset(head_of[n] for n in jumps if n < count and head_of[n] != n)
    successors: list[list[int]] = [[] for _ in range(count + 2)]
    successors[count + 1] = [0]
    predecessor_counts = [0] * (count + 2)
    for head in heads:
        last = last_of[head]
        targets = list(flow.successors[last])
        if head in partial:
            targets += [
                t for n in range(head, last + 1) for t in _targets(plan.steps[n], flow.number_of, count)
            ]
            targets += [last + 1, count]
        successors[head] = list(dict.fromkeys(head_of[t] if t < count else t for t in targets))
        for target in successors[head]:
            predecessor_counts[target] += 1
    return Units(tuple(heads), head_of, successors, predecessor_counts, partial, last_of)


def _targets(step: Step, number_of: dict[str, int], end: int) -> Iterator[int]:
    """The steps to which a step may jump."""
    then = step.on_fail.then if step.on_fail is not None else None
    for jump in (step.action, then):
        if isinstance(jump, Goto):
            yield number_of.get(jump.target, end)
