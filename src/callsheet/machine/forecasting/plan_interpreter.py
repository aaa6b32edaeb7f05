"""Abstract interpretation of a whole plan: visits every step that may be reached, each once.

In: a plan, its inputs, what is known of the world. Out: a `Forecast`. Both branches of an undecided guard are
followed and joined: a variable that differs between them is unknown from then on, so the work stays nearly
linear in the size of the plan. In a loop, the variables that the loop sets are unknown wherever paths meet,
so that one pass holds for every iteration.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import replace

from callsheet.ir import JSON, Order, Plan
from callsheet.ir.flow import uses_of
from callsheet.ir.gc_pause import gc_paused
from callsheet.ir.graphs import strong_components
from callsheet.ir.plan import flat
from callsheet.machine.closures import compile_value
from callsheet.machine.forecasting.assembling import Observations, Units, assemble, units_of
from callsheet.machine.forecasting.forecast import Begun, Forecast, Standing
from callsheet.machine.forecasting.partial_values import Binding, Foreseen, Knowledge, Merger, VariableTable
from callsheet.machine.forecasting.step_interpreter import (
    Exit,
    ExitCertainty,
    PlanContext,
    StepOutcome,
    interpret_begun,
    interpret_step,
)

_LARGE = 1_000


def foresee(
    plan: Plan, inputs: Mapping[str, JSON] | None = None, knowledge: Knowledge | None = None
) -> Forecast:
    """What the plan would do with these inputs; nothing is called except transforms of known values.

    The plan should be one that the checks found without errors; for another the forecast says what the
    machine would make of it. Raises ValueError if the dependencies of a graph have a cycle, CallsheetError
    for a plan with blocks that cannot be compiled.

    >>> from callsheet.ir import Call, Literal, Output, Plan, Ref, Step
    >>> read = Step("S1", Call("READ", named=(("path", Literal("a")),)), output=Output("text"))
    >>> send = Step("S2", Call("SEND", named=(("text", Ref("text", ("title",))),)))
    >>> for call in foresee(Plan((read, send))).calls():
    ...     print(call.tool, *(f"{name}={value}" for name, value in call.visits[0].arguments))
    READ path=a
    SEND text=<READ result.title>
    """
    with gc_paused(len(plan.steps) >= _LARGE):
        if plan.tree is not None:
            from callsheet.machine.forecasting.tree_interpreter import foresee_tree  # noqa: PLC0415 - version 2

            return foresee_tree(plan, inputs, knowledge)
        return _PlanInterpreter(plan, inputs or {}, knowledge or Knowledge()).forecast()


def foresee_rest(plan: Plan, standing: Standing, knowledge: Knowledge) -> Forecast:
    """What a run that stands there would still do; steps that it does not reach again are never executed.

    The visits of a step that has begun are the items of its FOREACH that it has not started.
    """
    flat(plan, "the forecast of the rest of a run")
    with gc_paused(len(plan.steps) >= _LARGE):
        return _PlanInterpreter(plan, standing.variables, knowledge, standing).forecast()


class _PlanInterpreter:
    """One pass over a plan."""

    def __init__(
        self,
        plan: Plan,
        inputs: Mapping[str, Foreseen],
        knowledge: Knowledge,
        standing: Standing | None = None,
    ) -> None:
        self._begun: Mapping[str, Begun] = {} if standing is None else standing.begun
        self._first = 0 if standing is None else standing.number
        self._original = plan
        self._order = _order_of(plan)
        if plan.order is Order.DAG:
            plan = replace(plan, steps=tuple(plan.steps[n] for n in self._order), order=Order.TEXT)
        self._plan = plan
        slots: dict[str, int] = {}
        for name in _names(plan, inputs):
            slots.setdefault(name, len(slots))
        number_of: dict[str, int] = {}
        for number, step in enumerate(plan.steps):
            number_of.setdefault(step.id, number)
        self._setting = PlanContext(plan, slots, number_of, knowledge)
        self._units: Units = units_of(plan)
        setters: list[list[int]] = [[] for _ in slots]
        for number, step in enumerate(plan.steps):
            if step.sets is not None:
                setters[slots[step.sets]].append(number)
        self._merger = Merger(tuple(slots), setters)
        self._initial = self._initial_table(inputs)
        self._arriving: dict[int, list[VariableTable]] = {}
        self._passages: dict[int, StepOutcome] = {}
        self._edges: dict[int, dict[int, bool]] = {}
        """From unit to unit: whether the edge can be taken without a failure."""

    def forecast(self) -> Forecast:
        """Visit the strongly connected parts in topological order."""
        first = self._units.head_of[self._first] if self._plan.steps else 0
        if self._plan.steps:
            self._arriving[first] = [self._initial]
        successors = self._units.successors
        component_of = strong_components(successors, len(successors) - 1)
        members: dict[int, list[int]] = {}
        for unit in self._units.heads:
            members.setdefault(component_of[unit], []).append(unit)
        for part in sorted((p for p in members if p >= 0), reverse=True):
            units = members[part]
            if len(units) == 1 and units[0] not in successors[units[0]]:
                tables = self._arriving.pop(units[0], None)
                if tables is not None:
                    self._see_unit(units[0], self._merger.join(tables))
            else:
                self._see_loop(units)
        sighting = Observations(
            self._original, self._setting, self._order, self._passages, self._edges, self._units, first
        )
        return assemble(sighting)

    def _see_loop(self, units: list[int]) -> None:
        """Visit the units of a cycle, each once.

        Where paths meet inside, everything that a unit of the cycle sets is unknown; a unit with a single
        predecessor takes over what is known behind that.
        """
        entered = [unit for unit in units if unit in self._arriving]
        if not entered:
            return
        inside = set(units)
        setters: dict[int, set[int]] = {}
        for unit in units:
            for number in self._units.members(unit):
                step = self._plan.steps[number]
                if step.sets is not None:
                    setters.setdefault(self._setting.slots[step.sets], set()).add(number)
        table = self._merger.join([t for unit in entered for t in self._arriving.pop(unit)])
        for slot, numbers in setters.items():
            table = table.having(slot, self._merger.open(slot, {*table[slot].steps, *numbers}))
        waiting = list(entered)
        heapq.heapify(waiting)
        seen: set[int] = set()
        tables_at: dict[int, list[VariableTable]] = {}
        while waiting:
            unit = heapq.heappop(waiting)
            if unit in seen:
                continue
            seen.add(unit)
            is_meeting = self._units.predecessor_counts[unit] > 1 or unit in entered
            self._see_unit(unit, table if is_meeting else self._merger.join(tables_at[unit]))
            for target in self._edges.get(unit, ()):
                if target in inside and target not in seen:
                    tables_at[target] = self._arriving.pop(target)
                    heapq.heappush(waiting, target)
                elif target in inside:
                    self._arriving.pop(target, None)

    def _see_unit(self, unit: int, table: VariableTable) -> None:
        """Visit a step, or the members of a group, which all see the same variables."""
        numbers = self._units.members(unit)
        if len(numbers) == 1:
            passage = self._interpret_step(unit, table)
            self._leave_step(unit, passage, table)
            return
        after = table
        exits: list[Exit] = []
        for number in numbers:
            passage = self._interpret_step(number, table)
            if unit in self._units.partial:
                passage = _left_open(passage)
                self._passages[number] = passage
            after = self._committed(number, passage, after)
            exits += passage.exits
        is_open = True
        for edge in exits:
            self._pass_on(unit, edge.target, after, edge.certainty)
            if edge.certainty is ExitCertainty.SURE:
                is_open = False
                break
        if is_open:
            self._pass_on(unit, numbers[-1] + 1, after, ExitCertainty.SURE)

    def _interpret_step(self, number: int, table: VariableTable) -> StepOutcome:
        begun = self._begun.get(self._plan.steps[number].id) if self._begun else None
        if begun is None:
            passage = interpret_step(self._setting, number, table)
        else:
            passage = interpret_begun(self._setting, number, table, begun)
        self._passages[number] = passage
        return passage

    def _leave_step(self, unit: int, passage: StepOutcome, table: VariableTable) -> None:
        is_open = True
        for edge in passage.exits:
            binding = passage.if_failed if edge.has_failed else passage.binding
            self._pass_on(unit, edge.target, self._bound(unit, binding, table), edge.certainty)
            if edge.certainty is ExitCertainty.SURE:
                is_open = False
        if is_open:
            after = self._bound(unit, passage.binding, table, is_sure=passage.is_sure)
            self._pass_on(unit, unit + 1, after, ExitCertainty.SURE)

    def _bound(
        self, number: int, binding: Binding | None, table: VariableTable, *, is_sure: bool = True
    ) -> VariableTable:
        """The table after a step has bound its variable, or may have."""
        output = self._plan.steps[number].output
        if binding is None or output is None:
            return table
        slot = self._setting.slots[output.var]
        return table.having(slot, binding if is_sure else self._merger(slot, table[slot], binding))

    def _committed(self, number: int, passage: StepOutcome, table: VariableTable) -> VariableTable:
        """The table after a group member's output is stored; a failure does not stop its group."""
        binding = passage.binding
        output = self._plan.steps[number].output
        if binding is not None and passage.if_failed is not None and output is not None:
            certainties = [edge.certainty for edge in passage.exits if edge.has_failed]
            if ExitCertainty.SURE in certainties:
                binding = passage.if_failed
            elif certainties:
                binding = self._merger(self._setting.slots[output.var], binding, passage.if_failed)
        return self._bound(number, binding, table, is_sure=passage.is_sure)

    def _pass_on(self, unit: int, target: int, table: VariableTable, certainty: ExitCertainty) -> None:
        head = self._units.head_of[target] if target < self._setting.end else target
        edges = self._edges.setdefault(unit, {})
        edges[head] = edges.get(head, False) or certainty is not ExitCertainty.FAILURE
        self._arriving.setdefault(head, []).append(table)

    def _initial_table(self, inputs: Mapping[str, Foreseen]) -> VariableTable:
        slots = self._setting.slots
        table = VariableTable.of(len(slots))
        for name, value in self._plan.variables:
            table = table.having(slots[name], Binding(compile_value(value, slots.__getitem__)([])))
        for name, given in inputs.items():
            table = table.having(slots[name], Binding(given))
        return table


def _left_open(passage: StepOutcome) -> StepOutcome:
    """The passage of a group member that a jump into the group may skip."""
    exits = tuple(
        edge._replace(certainty=ExitCertainty.MAYBE) if edge.certainty is ExitCertainty.SURE else edge
        for edge in passage.exits
    )
    visits = tuple(visit._replace(is_sure=False) for visit in passage.visits)
    times = passage.times._replace(least=0)
    return replace(passage, exits=exits, visits=visits, times=times, is_sure=False)


def _names(plan: Plan, inputs: Iterable[str]) -> dict[str, None]:
    """All variables of the plan, in a fixed order."""
    names = dict.fromkeys([*(name for name, _ in plan.variables), *inputs])
    for number, step in enumerate(plan.steps):
        names.update((use.ref.name, None) for use in uses_of(step, number))
        if step.output is not None:
            names[step.output.var] = None
    return names


def _order_of(plan: Plan) -> list[int]:
    """The steps in an order in which each follows its dependencies."""
    if plan.order is Order.TEXT:
        return list(range(len(plan.steps)))
    number_of = {step.id: number for number, step in enumerate(plan.steps)}
    waits = [{number_of[id_] for id_ in step.depends_on or () if id_ in number_of} for step in plan.steps]
    followers: list[list[int]] = [[] for _ in plan.steps]
    for number, before in enumerate(waits):
        for other in before:
            followers[other].append(number)
    ready = [number for number, before in enumerate(waits) if not before]
    unfinished = [len(before) for before in waits]
    order: list[int] = []
    while ready:
        number = heapq.heappop(ready)
        order.append(number)
        for follower in followers[number]:
            unfinished[follower] -= 1
            if not unfinished[follower]:
                heapq.heappush(ready, follower)
    if len(order) < len(plan.steps):
        raise ValueError("steps of the plan wait for one another")
    return order
