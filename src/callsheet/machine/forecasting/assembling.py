"""Makes a forecast from the passages of a plan's steps: whether and how often each step acts.

A step is certain to be reached if it dominates the end, that is, every path from the first step to the end
goes through it. Paths that begin with a failure are ignored: what only they reach happens on failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from callsheet.ir import Call, CallKind, Effect, Ending, Order, Plan, Step
from callsheet.ir.flow import flow_of
from callsheet.ir.graphs import NONE, Precedence, immediate_dominators, strong_components
from callsheet.machine.agents.actions import (
    MAX_AT_ONCE,
    MAX_TURNS,
    names_its_tools,
    read_allowance,
    tools_named,
)
from callsheet.machine.forecasting.forecast import AgentUse, Forecast, StepForecast, Times, Visit, When
from callsheet.machine.forecasting.partial_values import (
    Fields,
    Foreseen,
    Items,
    Knowledge,
    ModelUse,
    Text,
    Unknown,
    is_known,
)
from callsheet.machine.forecasting.step_interpreter import PlanContext, StepOutcome


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

    >>> from callsheet.ir import Call, Goto, Step
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
    return (number_of.get(jump.target, end) for jump in step.jumps())


_MOST_WAITED_FOR = 50
_NEW_PLAN = ModelUse(least=1, most=2, tokens=0, is_whole=False)
"""What RE-PLAN asks of a model each time: the question, and a repair where the new plan is wrong."""


class Observations(NamedTuple):
    """All that was seen of a plan.

    `order` has the original number of each step that was looked at, `first` is the unit where the run stands.
    """

    plan: Plan
    setting: PlanContext
    order: Sequence[int]
    passages: Mapping[int, StepOutcome]
    edges: Mapping[int, Mapping[int, bool]]
    units: Units
    first: int = 0


class _Reached(NamedTuple):
    """How each unit is reached, and which of them may be reached again."""

    when: dict[int, When]
    again: frozenset[int]


def assemble(sighting: Observations) -> Forecast:
    """The forecast of what was seen: in text order, in a graph by levels as its pictures are."""
    reached = _reached(sighting)
    steps = [_step(sighting, place, reached) for place in range(sighting.setting.end)]
    if sighting.plan.order is Order.DAG:
        level = Precedence.of(sighting.plan).level
        steps.sort(key=lambda step: (level[step.number], step.number))
    else:
        steps.sort(key=lambda step: step.number)
    return Forecast(sighting.plan, tuple(steps), tuple(unforeseen_in(steps, sighting.setting.knowledge)))


def _reached(sighting: Observations) -> _Reached:
    end = sighting.setting.end
    entry = end + 1
    every: list[list[int]] = [[] for _ in range(end + 2)]
    usual: list[list[int]] = [[] for _ in range(end + 2)]
    every[entry] = usual[entry] = [sighting.first] if end else []
    for unit, edges in sighting.edges.items():
        every[unit] = list(edges)
        usual[unit] = [target for target, is_usual in edges.items() if is_usual]
    above = immediate_dominators(usual, entry)
    when: dict[int, When] = {}
    for unit in sighting.units.heads:
        if unit not in sighting.edges:
            when[unit] = When.NEVER
        else:
            when[unit] = When.ON_FAILURE if above[unit] == NONE else When.MAYBE
    dominator = above[end]
    while dominator not in (NONE, entry):
        when[dominator] = When.ALWAYS
        dominator = above[dominator]
    component_of = strong_components(every, entry)
    sizes: dict[int, int] = {}
    for component in component_of:
        sizes[component] = sizes.get(component, 0) + 1
    again = frozenset(
        unit for unit, edges in sighting.edges.items() if sizes[component_of[unit]] > 1 or unit in edges
    )
    return _Reached(when, again)


def _step(sighting: Observations, place: int, reached: _Reached) -> StepForecast:
    setting, number = sighting.setting, sighting.order[place]
    step = setting.plan.steps[place]
    head = sighting.units.head_of[place]
    passage = sighting.passages.get(place)
    if passage is None:
        return StepForecast(
            number=number,
            step=step,
            when=When.NEVER,
            times=Times(),
            total=Times(),
            why_not="nothing leads to it",
        )
    when = _when(reached.when[head], passage)
    repeats = head in reached.again
    retries = step.retries
    knowledge = setting.knowledge
    may_fail = passage.may_fail or step.course.ends is Ending.NEW_PLAN
    tries = None if repeats else 1 + (retries if may_fail else 0)
    effect, is_declared = effect_of_step(step, knowledge)
    has_result = passage.binding is not None
    return StepForecast(
        number=number,
        step=step,
        when=when,
        times=passage.times,
        total=passage.times.by(1 if reached.when[head] is When.ALWAYS else 0, tries),
        visits=passage.visits,
        items=passage.items,
        is_per_item=passage.is_per_item,
        repeats=repeats,
        depends_on=_depends_on(sighting, step, passage),
        effect=effect,
        is_declared=is_declared,
        models=models_of_step(step, passage, knowledge),
        agent=None if step.call is None else agent_of_call(step.call, passage, knowledge),
        needs_approval=step.call is not None and knowledge.needs_approval(step.call.tool, step.id),
        is_assumed=step.id in knowledge.assumed,
        is_computed=passage.is_computed and step.id not in knowledge.assumed,
        result=passage.binding.value if passage.binding is not None else None,
        has_result=has_result,
        why_not=passage.why_not if when is When.NEVER else None,
    )


def _when(reached: When, passage: StepOutcome) -> When:
    if passage.times.most == 0:
        return When.NEVER
    return When.MAYBE if reached is When.ALWAYS and not passage.times.least else reached


def effect_of_step(step: Step, knowledge: Knowledge) -> tuple[Effect | None, bool]:
    """The effect of the step's call, and whether it was declared."""
    if step.call is None:
        return None, True
    match step.call.kind:
        case CallKind.MODEL:
            return Effect.LLM, True
        case CallKind.TRANSFORM:
            return Effect.PURE, True
        case CallKind.AGENT:
            tools = _tools_of_agent(step.call, knowledge)
            reads = tools is not None and all(knowledge.facts[name].effect.only_reads for name in tools)
            return (Effect.READ, True) if reads else (Effect.UNSAFE, tools is not None)
        case CallKind.HUMAN:
            return Effect.READ, True
        case CallKind.TOOL:
            fact = knowledge.facts.get(step.call.tool)
            return (Effect.UNSAFE, False) if fact is None else (fact.effect, True)


def _depends_on(sighting: Observations, step: Step, passage: StepOutcome) -> tuple[str, ...]:
    steps = sighting.setting.plan.steps
    read = [steps[number].id for number in passage.depends_on]
    return tuple(dict.fromkeys([*(step.depends_on or ())[:_MOST_WAITED_FOR], *read]))


def models_of_step(step: Step, passage: StepOutcome, knowledge: Knowledge) -> ModelUse | None:
    """What one visit asks of a model, estimated from the first visit."""
    if step.course.ends is Ending.NEW_PLAN:
        return _NEW_PLAN
    call = step.call
    if call is None or call.kind not in (CallKind.MODEL, CallKind.AGENT) or not passage.visits:
        return None
    visit = passage.visits[0]
    inputs = [_known_part(value) for value in visit.inputs]
    arguments = {name: _known_part(value) for name, value in visit.arguments}
    use = knowledge.ask_model(call.tool, inputs, arguments, _is_whole(visit))  # pyright: ignore[reportArgumentType]
    if _tools_of_agent(call, knowledge) is None:
        return use
    return use._replace(most=_turns_of_agent(call, arguments))


def _tools_of_agent(call: Call, knowledge: Knowledge) -> tuple[str, ...] | None:
    """The tools that an agent driven by the machine may call; None for any other operation."""
    fact = knowledge.facts.get(call.tool)
    if call.kind is not CallKind.AGENT or fact is None or fact.loop is None:
        return None
    named = tools_named(call) if names_its_tools(call) else fact.loop.tools
    return tuple(name for name in named or () if name in knowledge.facts)


def agent_of_call(call: Call, passage: StepOutcome, knowledge: Knowledge) -> AgentUse | None:
    """What an agent may call in one visit, estimated from the first; its last turn can only answer."""
    tools = _tools_of_agent(call, knowledge)
    if tools is None or not passage.visits:
        return None
    arguments = {name: _known_part(value) for name, value in passage.visits[0].arguments}
    read = read_allowance(tools, {name: arguments.get(name) for name in ("max_calls", "parallel")})  # pyright: ignore[reportArgumentType]
    at_once = MAX_AT_ONCE if _is_given_unknown(call, arguments, "parallel") else read.at_once
    most = (_turns_of_agent(call, arguments) - 1) * at_once if tools and not read.fault else 0
    most = most if read.calls is None else min(most, read.calls)
    return AgentUse(tuple((name, knowledge.facts[name].effect) for name in tools), most)


def _is_given_unknown(call: Call, arguments: Mapping[str, Foreseen], name: str) -> bool:
    return name in dict(call.named) and arguments.get(name) is None


def _turns_of_agent(call: Call, arguments: Mapping[str, Foreseen]) -> int:
    """How often the model of an agent driven by the machine is asked at most."""
    if _is_given_unknown(call, arguments, "max_turns"):
        return MAX_TURNS
    read = read_allowance((), {"max_turns": arguments.get("max_turns")})  # pyright: ignore[reportArgumentType]
    return 1 if read.fault else read.turns


def _is_whole(visit: Visit) -> bool:
    return all(map(is_known, visit.inputs)) and all(is_known(value) for _, value in visit.arguments)


def _known_part(value: Foreseen) -> Foreseen:
    """The value with unknown parts replaced by null, or left out of texts."""
    match value:
        case Unknown():
            return None
        case Text(parts=parts):
            return "".join(part for part in parts if isinstance(part, str))
        case Items(items=items):
            return [_known_part(item) for item in items]  # pyright: ignore[reportReturnType]
        case Fields(pairs=pairs):
            return {key: _known_part(part) for key, part in pairs}  # pyright: ignore[reportReturnType]
        case _:
            return value


def unforeseen_in(steps: Sequence[StepForecast], knowledge: Knowledge) -> list[str]:
    """What may happen in addition to the steps' own calls, in words."""
    names: list[str] = []
    for step in steps:
        if step.when is When.NEVER:
            continue
        if step.step.course.ends is Ending.NEW_PLAN:
            names.append(f"{step.step.id}: what the new plan of RE-PLAN does")
        elif step.step.call is not None and step.step.call.kind is CallKind.AGENT:
            tools = _tools_of_agent(step.step.call, knowledge)
            what = f"{step.step.id}: what the agent of @{step.step.call.tool} calls"
            among = ", ".join(f"@{name}" for name in tools or ()) or "no tool"
            names.append(what if tools is None else f"{what}, of {among}")
    return names
