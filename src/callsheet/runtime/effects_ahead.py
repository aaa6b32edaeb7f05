"""Predicts the side effects of a run that branches off: exactly the calls that it will make.

In: the new run as folded at its beginning, which is the one that will go on, and the parent's calls that it
does not inherit. Out: an entry for each step that calls a tool with side effects. Open calls are those of the
folded machine; later ones come from a forecast that begins where it stands, so an argument is exact or a
placeholder. The parent's calls are only compared with them. Nothing is called.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from callsheet.ir import Call, CallKind, Effect, Ending, Goto, Order, Plan, Replan, Respond, Step, Terminate
from callsheet.ir.flow import flow_of
from callsheet.ir.plan import named_arguments
from callsheet.machine import Machine, ToolFacts
from callsheet.machine.compiling import fact_of
from callsheet.machine.forecasting import (
    Begun,
    Foreseen,
    Knowledge,
    Standing,
    StepForecast,
    Unknown,
    Visit,
    When,
    foresee_rest,
)
from callsheet.machine.forecasting.partial_values import list_of
from callsheet.machine.forecasting.step_interpreter import evaluate
from callsheet.machine.keys import parse_key
from callsheet.machine.program import StepCode
from callsheet.ports.transforms import work_out
from callsheet.runtime.effects import (
    REPLAN,
    AheadCall,
    EarlierCall,
    EffectAhead,
    OpenCall,
    ParentCalls,
    calls_that_are_open,
    effect_of,
    inner_tools,
)
from callsheet.store.branch import generation_of
from callsheet.store.folded import Folded

_MOST_VISITS = 1_000


def effects_ahead(folded: Folded, parent: ParentCalls) -> tuple[EffectAhead, ...]:
    """The steps that may have side effects when the run goes on, in plan order."""
    if folded.machine.result is not None:
        return ()
    if folded.machine.tree is not None:
        from callsheet.runtime.tree_effects import tree_effects_ahead  # noqa: PLC0415 - only for version 2

        return tree_effects_ahead(folded, parent)
    return tuple(_Preview(folded, parent).effects())


class _Preview:
    """What lies ahead of one run."""

    def __init__(self, folded: Folded, parent: ParentCalls) -> None:
        self._folded = folded
        self._machine = machine = folded.machine
        self._facts = folded.facts
        self._parent = parent
        generation = generation_of(machine)
        self._calls = {c.key: c for c in parent.calls if parse_key(c.key).generation == generation}
        self._later = [c for c in parent.calls if parse_key(c.key).generation > generation]
        self._variables = self._shown_variables()
        self._begun = _begun_steps(machine, hides=parent.shown is not None)
        self._open: dict[tuple[str, str], list[OpenCall]] = {}
        for call in calls_that_are_open(folded):
            self._open.setdefault((call.step, call.tool), []).append(call)

    def effects(self) -> Iterator[EffectAhead]:
        """An entry for each step ahead that may have side effects."""
        machine = self._machine
        numbers = list(_steps_ahead(machine))
        forecast = self._forecast(numbers)
        for number in numbers:
            step, code = machine.program.plan.steps[number], machine.program.steps[number]
            seen, effect = forecast[step.id], _effect_of(step, self._facts)
            if effect is not None and (step.id in self._begun or seen.when is not When.NEVER):
                yield self._of_step(step, code, seen, effect)
            yield from self._of_agent(step)
        yield from self._of_new_plans()

    def _forecast(self, numbers: Collection[int]) -> Mapping[str, StepForecast]:
        machine, plan = self._machine, self._machine.program.plan
        knowledge = Knowledge(facts=self._facts, compute=work_out, most_visits=_MOST_VISITS)
        number = machine.pc
        if plan.order is Order.DAG:
            number = 0
            plan = replace(plan, steps=tuple(plan.steps[n] for n in sorted(numbers)))
        elif number >= len(plan.steps):
            return {}
        forecast = foresee_rest(plan, Standing(number, self._variables, self._begun), knowledge)
        return {each.step.id: each for each in forecast.steps}

    def _of_step(self, step: Step, code: StepCode, seen: StepForecast, effect: Effect) -> EffectAhead:
        tool, has_begun = _tool_of(step), step.id in self._begun
        calls = [self._open_call(call, step) for call in self._open.get((step.id, tool), ())]
        taken = {call.key for call in calls}
        visits, more = self._visits(step, code, seen)
        calls += [call for call in visits if not call.key or call.key not in taken]
        repeats = seen.repeats or (seen.is_per_item and not has_begun)
        named = {call.earlier.event for call in calls if call.earlier is not None}
        earlier = ()
        if repeats or more is None or more or not calls or not all(call.is_known for call in calls):
            mine = (c for c in self._calls.values() if c.step == step.id and c.seq not in named)
            earlier = tuple(map(self._parent.earlier, mine))
        return EffectAhead(
            step=step.id,
            tool=tool,
            effect=effect,
            parent=self._parent.run_id,
            calls=tuple(calls),
            may_call=inner_tools(tool, step, self._facts),
            more=more,
            repeats=seen.repeats,
            on_failure=seen.when is When.ON_FAILURE and not has_begun,
            earlier=earlier,
        )

    def _visits(self, step: Step, code: StepCode, seen: StepForecast) -> tuple[list[AheadCall], int | None]:
        """The calls of the step that have not begun, and how many more there are, None if any number."""
        begun = self._begun.get(step.id)
        prefix = self._machine.prefix(code) if begun is not None else self._next_prefix(code)
        calls: list[AheadCall] = []
        for visit in seen.visits:
            args = _arguments(visit, step)
            if seen.is_per_item:
                calls.append(AheadCall("", args))
                continue
            key = f"{prefix}{visit.item or 0}.1"
            is_sure = visit.is_sure and (begun is not None or seen.when is When.ALWAYS)
            ahead = AheadCall(key, args, is_sure=is_sure)
            calls.append(self._parent.compared(ahead, _tool_of(step), self._calls.get(key), args))
        if begun is not None:
            unseen = step.foreach is not None and begun.items is None
            return calls, None if unseen else 0
        if seen.is_per_item:
            return calls, 0
        return calls, max(0, (seen.times.most or 0) - len(calls))

    def _next_prefix(self, code: StepCode) -> str:
        visit = self._machine.visits[code.identity] + 1
        return self._machine.generation + (code.prefix if visit == 1 else f"{code.prefix[:-1]}@{visit}.")

    def _open_call(self, call: OpenCall, step: Step) -> AheadCall:
        return self._parent.with_open(call, self._calls.get(call.key), lambda: self._planned(call, step))

    def _of_agent(self, step: Step) -> Iterator[EffectAhead]:
        """The open calls of an agent, with other tools than the step's."""
        for (name, tool), calls in self._open.items():
            effect = self._facts.get(tool, ToolFacts()).effect
            if name == step.id and tool != _tool_of(step) and not effect.only_reads:
                ahead = tuple(self._open_call(call, step) for call in calls)
                yield EffectAhead(name, tool, effect, self._parent.run_id, ahead)

    def _of_new_plans(self) -> Iterator[EffectAhead]:
        """The side effects of the parent's later re-plans; the new run may make other plans."""
        by_step: dict[tuple[str, str], list[EarlierCall]] = {}
        for call in self._later:
            if not self._facts.get(call.tool, ToolFacts()).effect.only_reads:
                place = f"r{parse_key(call.key).generation}/{call.step}", call.tool
                by_step.setdefault(place, []).append(self._parent.earlier(call))
        for (step, tool), earlier in by_step.items():
            effect = self._facts.get(tool, ToolFacts()).effect
            yield EffectAhead(step, tool, effect, self._parent.run_id, earlier=tuple(earlier))

    # ------------------------------------------------------------ what may be shown

    def _shown_variables(self) -> Mapping[str, Foreseen]:
        values, hidden = self._machine.variables(), self._parent.hidden
        return {
            name: Unknown(f"secret ${name}") if hidden is None or name in hidden else value
            for name, value in values.items()
        }

    def _planned(self, call: OpenCall, step: Step) -> Mapping[str, Foreseen]:
        """The arguments of an open call as far as variables that may be shown make them."""
        action = step.call
        if action is None or action.tool != call.tool:
            return {}
        loop = None if step.foreach is None else step.foreach.var

        def scope(name: str) -> Foreseen:
            return Unknown(f"item ${name}") if name == loop else self._variables.get(name)

        parameters = fact_of(action, self._facts).parameters
        given = named_arguments(action.positional, action.named, parameters)
        return {name: evaluate(value, scope) for name, value in given}


def _arguments(visit: Visit, step: Step) -> Mapping[str, Foreseen]:
    match step.action:
        case Call(kind=CallKind.TOOL | CallKind.TRANSFORM):
            return dict(visit.arguments)
        case Call():
            return {"inputs": list_of(visit.inputs), **dict(visit.arguments)}
        case Respond() | Terminate() | Goto() | Replan():
            return {"reason": list_of(visit.inputs)}


# ---------------------------------------------------------------- where the run stands


def _begun_steps(machine: Machine, *, hides: bool) -> dict[str, Begun]:
    """The steps that have begun and whose outcome is not in, by id."""
    begun: dict[str, Begun] = {}
    if machine.group is not None:  # its members are decided together
        for number in range(machine.pc, machine.group.end):
            begun[machine.program.steps[number].id] = Begun()
    attempts = [*machine.calls(), *machine.asleep.values(), *machine.compiling.values()]
    attempts += [attempt for attempt, _ in machine.asking.open()]
    attempts += machine.inner.values()
    frames = [*(attempt.frame for attempt in attempts), *machine.members()]
    for frame in frames:
        items = None if frame.items is None or hides else [*frame.items]
        begun[frame.code.id] = Begun(items, len(items or ()) if frame.stopped else frame.next)
    return begun


def _steps_ahead(machine: Machine) -> Iterator[int]:
    """The numbers of the steps that may still be executed, in plan order."""
    plan = machine.program.plan
    if plan.order is Order.DAG:
        assert machine.schedule is not None
        done = machine.schedule.numbers_done() | machine.schedule.failures.keys() | machine.schedule.dropped
        yield from (number for number in range(len(plan.steps)) if number not in done)
        return
    if machine.pc >= len(plan.steps):
        return
    group, again = machine.group, frozenset[int]()
    if group is not None:
        again = frozenset(_reached(plan, flow_of(plan).successors[group.end - 1]))
    for number in sorted(_reached(plan, [machine.pc])):
        # of the current block, only members without an outcome, and those that a jump back reaches
        is_member = group is not None and machine.pc <= number < group.end
        if not is_member or number in again or not _is_out(machine, number):
            yield number


def _reached(plan: Plan, starts: Iterable[int]) -> set[int]:
    """The steps that are reachable from these steps, themselves included."""
    successors, end = flow_of(plan).successors, len(plan.steps)
    stack = [start for start in starts if start < end]
    seen = set(stack)
    while stack:
        for following in successors[stack.pop()]:
            if following < end and following not in seen:
                seen.add(following)
                stack.append(following)
    return seen


def _is_out(machine: Machine, number: int) -> bool:
    """Whether a member of the current block has its outcome."""
    frame = next((frame for frame in machine.members() if frame.code.number == number), None)
    return frame is not None and not frame.open


def _effect_of(step: Step, facts: Mapping[str, ToolFacts]) -> Effect | None:
    """The effect of a step; None if it has no side effects."""
    acts = step.call is not None or step.course.ends is Ending.NEW_PLAN
    return effect_of(_tool_of(step), step, facts) if acts else None


def _tool_of(step: Step) -> str:
    return step.call.tool if step.call is not None else REPLAN
