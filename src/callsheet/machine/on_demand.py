"""A program whose steps are compiled lazily, for when only a part of a long plan is needed.

In: a plan in text order, and facts about its tools. Out: the same program as from `compile_plan`, at a third
of the cost if few of its steps are reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import overload

from callsheet.ir import Call, Goto, Order, Plan, Step
from callsheet.ir.expr import names_in, refs_of
from callsheet.ir.gc_pause import gc_paused
from callsheet.machine.compiling import Names, circled, compile_plan, compile_step
from callsheet.machine.program import NOWHERE, Program, StepCode, ToolFacts

_WORTH = 1_000
"""The fewest steps of a plan that is compiled lazily."""


def program_on_demand(plan: Plan, facts: Mapping[str, ToolFacts]) -> Program:
    """As `compile_plan`, but lazy; short plans and graphs are compiled at once.

    To run all of a plan, `compile_plan` is better, since access to its steps is faster.
    """
    if plan.order is not Order.TEXT or len(plan.steps) < _WORTH:
        return compile_plan(plan, facts)
    with gc_paused(True):
        slots = {name: n for n, name in enumerate(dict.fromkeys(_variables_of(plan)))}
        number_of: dict[str, int] = {}
        for number, step in enumerate(plan.steps):
            number_of.setdefault(step.id, number)
        names = Names(slots.__getitem__, number_of, facts, None, count(NOWHERE - 1, -1), {})
        return Program(plan, _Codes(plan, names), number_of, slots, tuple(slots), {})


class _Codes(Sequence[StepCode]):
    """The steps of a plan, each compiled when it is first accessed."""

    __slots__ = ("_codes", "_ends", "_names", "_recur", "_steps")

    def __init__(self, plan: Plan, names: Names) -> None:
        self._steps = plan.steps
        self._names = names
        self._codes: list[StepCode | None] = [None] * len(plan.steps)
        self._ends = _group_ends(plan.steps)
        self._recur = circled(list(self._jumps()), len(plan.steps))

    def _jumps(self) -> Iterator[tuple[int, int]]:
        """The target of each jump, with the end of the jumping step's group."""
        number_of = self._names.number_of
        for number, step in enumerate(self._steps):
            if isinstance(step.action, Goto):
                yield number_of.get(step.action.target, NOWHERE), self._ends.get(number, number + 1)
            if step.on_fail is not None and isinstance(step.on_fail.then, Goto):
                yield number_of.get(step.on_fail.then.target, NOWHERE), self._ends.get(number, number + 1)

    def __len__(self) -> int:
        return len(self._codes)

    @overload
    def __getitem__(self, index: int) -> StepCode: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[StepCode]: ...
    def __getitem__(self, index: int | slice) -> StepCode | Sequence[StepCode]:
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(len(self)))]
        found = self._codes[index]
        return self._make(range(len(self))[index]) if found is None else found

    def _make(self, number: int) -> StepCode:
        code = self._codes[number] = compile_step(number, self._steps[number], self._names)
        code.group_end = self._ends.get(number, number + 1)
        code.recurs = bool(self._recur) and self._recur[number]
        if code.recurs:
            code.is_plain = code.leaves = False
        return code


def _group_ends(steps: Sequence[Step]) -> dict[int, int]:
    """For each step in a group, the number behind the last step of it."""
    ends: dict[int, int] = {}
    for number in range(len(steps) - 1, -1, -1):
        group = steps[number].group
        if group is not None:
            is_last = number + 1 == len(steps) or steps[number + 1].group != group
            ends[number] = number + 1 if is_last else ends[number + 1]
    return ends


def _variables_of(plan: Plan) -> Iterator[str]:
    """The variables of a plan in text order, with repetitions, in the order of their slots."""
    for name, _ in plan.variables:
        yield name
    for step in plan.steps:
        if step.foreach is not None:
            yield from names_in((step.foreach.source,))
            yield step.foreach.var
        if step.condition is not None:
            yield from (ref.name for ref in refs_of(step.condition))
        action = step.action
        if isinstance(action, Call):
            if step.output is not None:
                yield step.output.var
            if action.positional:
                yield from names_in(action.positional)
            yield from names_in([value for _, value in action.named])
        else:
            yield from names_in(step.values())
        if step.on_fail is not None:
            yield from names_in(step.failure_values())
