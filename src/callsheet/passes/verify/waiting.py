"""Who waits for whom in a plan of dependencies, and whom the end of such a plan leaves out.

In: a plan whose order is a graph. Out: the steps behind each step, and those that its failure may cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from callsheet.ir import Plan
from callsheet.ir.labels import Label

_LEAST_WORK = 100_000
_WORK_PER_STEP = 40


@dataclass(slots=True)
class Waiting:
    """The dependencies of a plan, both ways, by the numbers of its steps."""

    before: Sequence[Sequence[int]]
    dependents: Sequence[Sequence[int]]
    _work: int = 0
    _known: dict[Label, _Ends] = field(default_factory=dict[Label, "_Ends"])

    def cut_off(self, number: int, decision: Label) -> list[int]:
        """The steps that a failure which ends the plan may leave out, those that were not told so yet.

        These are all that need not be done before the step. Where looking for the others would be too much
        work, they count too.
        """
        known = self._known.get(decision)
        if known is None:
            known = self._known[decision] = _Ends(range(len(self.before)))
        sooner = self._all_before(number, known.ends)
        known.ends.add(number)
        if sooner is None:
            return []
        found = [step for step in known.left if step not in sooner]
        known.left = [step for step in known.left if step in sooner]
        return found

    def _all_before(self, number: int, ends: set[int]) -> set[int] | None:
        """The step, and all that it waits for; nothing where that is too much work.

        None where one of `ends` is among them: whatever is left comes before that one, too.
        """
        found = {number}
        waiting = [number]
        while waiting:
            step = waiting.pop()
            if step in ends:
                return None
            self._work += len(self.before[step])
            waiting.extend(before for before in self.before[step] if before not in found)
            found.update(self.before[step])
        most = max(_LEAST_WORK, _WORK_PER_STEP * len(self.before))
        return found if self._work <= most else set()


@dataclass(slots=True)
class _Ends:
    """The steps that end the plan by one label, and those that come before all of them."""

    left: Sequence[int]
    ends: set[int] = field(default_factory=set[int])


def waiting_of(plan: Plan) -> Waiting:
    """The dependencies of a plan; those on no step of it are left out.

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
    return Waiting(before, dependents)
