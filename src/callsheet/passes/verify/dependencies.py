"""Dependencies between the steps of a graph, and which steps a failure that ends the plan may cut off.

In: a plan ordered as a graph. Out: the dependents of each step, and the steps that its failure may cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from callsheet.ir import Plan
from callsheet.ir.labels import Label

_LEAST_WORK = 100_000
_WORK_PER_STEP = 40


@dataclass(slots=True)
class GraphDependencies:
    """The dependencies of a plan in both directions, by step number."""

    before: Sequence[Sequence[int]]
    dependents: Sequence[Sequence[int]]
    _work: int = 0
    _known: dict[Label, _Ends] = field(default_factory=dict[Label, "_Ends"])

    def cut_off(self, number: int, decision: Label) -> list[int]:
        """The steps that may be skipped if this step's failure ends the plan, except those reported for this
        label before.

        These are all steps that the failing step does not depend on. Beyond a work limit the steps it depends
        on are included too, which is conservative.
        """
        known = self._known.get(decision)
        if known is None:
            known = self._known[decision] = _Ends(range(len(self.before)))
        sooner = self._all_before(number, known.ends)
        known.ends.add(number)
        if sooner is None:
            return []
        unordered = [step for step in known.left if step not in sooner]
        known.left = [step for step in known.left if step in sooner]
        return unordered

    def _all_before(self, number: int, ends: set[int]) -> set[int] | None:
        """The step and its transitive dependencies; empty beyond the work limit.

        None if one of `ends` is among them: every remaining step also precedes that one, so nothing new is
        cut off.
        """
        earlier = {number}
        waiting = [number]
        while waiting:
            step = waiting.pop()
            if step in ends:
                return None
            self._work += len(self.before[step])
            waiting.extend(before for before in self.before[step] if before not in earlier)
            earlier.update(self.before[step])
        most = max(_LEAST_WORK, _WORK_PER_STEP * len(self.before))
        return earlier if self._work <= most else set()


@dataclass(slots=True)
class _Ends:
    """The steps known to end the plan for one label, and the steps that precede all of them."""

    left: Sequence[int]
    ends: set[int] = field(default_factory=set[int])


def waiting_of(plan: Plan) -> GraphDependencies:
    """The dependencies of a plan; names of unknown steps are ignored.

    >>> from callsheet.ir import Call, Order, Plan, Step
    >>> from callsheet.ir.labels import LITERAL
    >>> steps = Step("1", Call("A")), Step("2", Call("B"), depends_on=("1",)), Step("3", Call("C"))
    >>> waiting = waiting_of(Plan(steps, order=Order.DAG))
    >>> waiting.dependents[0], waiting.cut_off(1, LITERAL), waiting.cut_off(0, LITERAL)
    ([1], [2], [1])
    """
    number_of = {step.id: number for number, step in enumerate(plan.steps)}
    before = [[number_of[name] for name in step.depends_on or () if name in number_of] for step in plan.steps]
    dependents: list[list[int]] = [[] for _ in plan.steps]
    for number, names in enumerate(before):
        for name in names:
            dependents[name].append(number)
    return GraphDependencies(before, dependents)
