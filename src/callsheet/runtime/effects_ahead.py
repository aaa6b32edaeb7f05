"""Predicts the side effects of a run that branches off, from its plan and its parent's calls.

In: the new run at its beginning, and the parent's calls that it does not inherit. Out: an entry for each step
that calls a tool with side effects. Nothing is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from callsheet.ir import JSON, Call, CallKind, Effect, Order, Plan, Replan, Step
from callsheet.ir.flow import flow_of
from callsheet.machine import CallTool, Machine, RunAgent, ToolFacts
from callsheet.machine.keys import parse_key
from callsheet.store.branch import KnownCall, generation_of
from callsheet.store.folded import Folded

REPLAN = "RE-PLAN"


@dataclass(frozen=True, slots=True)
class AheadCall:
    """A predicted call with known arguments.

    `event` is the number of the parent's event at which it left; None for a call that is certain and never
    left. `in_doubt` means that it had left when the run branched off, with unknown outcome.
    """

    key: str
    args: Mapping[str, JSON]
    event: int | None = None
    in_doubt: bool = False


@dataclass(frozen=True, slots=True)
class EffectAhead:
    """A step that may have side effects in the new run.

    `effect` is that of its tool; for agents and new plans it is `unsafe`, and `may_call` are the tools with
    side effects that they may call, as far as known.
    """

    step: str
    tool: str
    effect: Effect
    calls: tuple[AheadCall, ...] = ()
    may_call: tuple[str, ...] = ()


def effects_ahead(
    folded: Folded, later: Iterable[KnownCall], *, has_secrets: bool = False
) -> tuple[EffectAhead, ...]:
    """The steps that may have side effects when the run goes on, in plan order.

    `later` are the parent's calls that the new run will repeat if it takes the same course. In a run that
    `has_secrets`, only their arguments as the journal has them are shown.
    """
    machine, facts = folded.machine, folded.facts
    if machine.result is not None:
        return ()
    calls = tuple(later)
    generation = generation_of(machine)
    mine = [c for c in calls if parse_key(c.key).generation == generation]
    known = _known_calls(folded, mine, has_secrets)
    effects: list[EffectAhead] = []
    for number in _steps_ahead(machine):
        step = machine.program.plan.steps[number]
        effect = _effect_of(step, facts)
        if effect is not None:
            earlier = known.get((step.id, _tool_of(step)), {})
            inner = _inner(step, facts)
            effects.append(EffectAhead(step.id, _tool_of(step), effect, tuple(earlier.values()), inner))
    return (*effects, *_of_new_plans(facts, [c for c in calls if parse_key(c.key).generation > generation]))


def _of_new_plans(facts: Mapping[str, ToolFacts], calls: Iterable[KnownCall]) -> Iterator[EffectAhead]:
    """The side effects of the parent's later re-plans; the new run may make other plans."""
    by_step: dict[tuple[str, str], list[AheadCall]] = {}
    for call in calls:
        if not facts.get(call.tool, ToolFacts()).effect.only_reads:
            place = f"r{parse_key(call.key).generation}/{call.step}", call.tool
            by_step.setdefault(place, []).append(AheadCall(call.key, call.args, call.seq))
    for (step, tool), earlier in by_step.items():
        yield EffectAhead(step, tool, facts.get(tool, ToolFacts()).effect, tuple(earlier))


def _known_calls(
    folded: Folded, later: Iterable[KnownCall], has_secrets: bool
) -> dict[tuple[str, str], dict[str, AheadCall]]:
    """The calls with known arguments, by step and tool, then by key."""
    doubtful, facts = folded.in_doubt(), folded.facts
    known: dict[tuple[str, str], dict[str, AheadCall]] = {}
    for call in later:
        if not facts.get(call.tool, ToolFacts()).effect.only_reads:
            known.setdefault((call.step, call.tool), {})[call.key] = AheadCall(call.key, call.args, call.seq)
    for key, command in folded.waiting.items():
        if isinstance(command, CallTool | RunAgent) and not folded.effect_of(command).only_reads:
            of_step = known.setdefault((command.step, command.tool), {})
            before = of_step.get(key)
            args = before.args if has_secrets and before is not None else _arguments(command, has_secrets)
            of_step[key] = AheadCall(key, args, before.event if before else None, key in doubtful)
    return known


def _arguments(command: CallTool | RunAgent, has_secrets: bool) -> Mapping[str, JSON]:
    if has_secrets:
        return dict.fromkeys(command.args, "…")
    return dict(command.args) if isinstance(command, CallTool) else {"inputs": command.inputs, **command.args}


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
    reached = _reached(plan, machine.pc)
    busy = None if machine.group is None else machine.group
    for number in sorted(reached):
        # of the current block, only members without an outcome
        if busy is not None and machine.pc <= number < busy.end and _is_out(machine, number, reached):
            continue
        yield number


def _reached(plan: Plan, start: int) -> set[int]:
    """The steps that are reachable from a step, itself included."""
    flow = flow_of(plan)
    seen, stack = {start}, [start]
    while stack:
        for following in flow.successors[stack.pop()]:
            if following < len(plan.steps) and following not in seen:
                seen.add(following)
                stack.append(following)
    return seen


def _is_out(machine: Machine, number: int, reached: set[int]) -> bool:
    """Whether a member of the current block has its outcome and cannot be reached again."""
    plan = machine.program.plan
    if any(s in reached and plan.steps[s].group is None for s in range(number)):
        return False  # a jump back may reach it
    frame = next((frame for frame in machine.members() if frame.code.number == number), None)
    return frame is not None and not frame.open


def _effect_of(step: Step, facts: Mapping[str, ToolFacts]) -> Effect | None:
    """The effect of a step; None if it has no side effects."""
    match step.action:
        case Call(kind=CallKind.HUMAN):
            return None
        case Call(kind=CallKind.AGENT, tool=tool):
            known = facts.get(tool)
            inner = _inner(step, facts)
            is_harmless = known is not None and known.loop is not None and not inner
            return None if is_harmless else Effect.UNSAFE
        case Call(kind=CallKind.MODEL):
            return None
        case Call(tool=tool):
            effect = facts.get(tool, ToolFacts()).effect
            return None if effect.only_reads else effect
        case Replan():
            return Effect.UNSAFE
        case _:
            return None


def _tool_of(step: Step) -> str:
    return step.action.tool if isinstance(step.action, Call) else REPLAN


def _inner(step: Step, facts: Mapping[str, ToolFacts]) -> tuple[str, ...]:
    """The tools with side effects that an agent may call."""
    known = facts.get(step.action.tool) if isinstance(step.action, Call) else None
    if known is None or known.loop is None:
        return ()
    return tuple(t for t in known.loop.tools if not facts.get(t, ToolFacts()).effect.only_reads)
