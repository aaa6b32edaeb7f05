"""A plan compiled for running: steps by number, variables by slot, values as functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from callsheet.diagnostics import CallsheetError
from callsheet.ir import (
    Call,
    CallKind,
    Cast,
    Effect,
    Goto,
    OnInDoubt,
    Order,
    Plan,
    Replan,
    Respond,
    Step,
    Terminate,
    Value,
)
from callsheet.ir.collecting import collector_rests
from callsheet.machine.closures import (
    Eval,
    SlotOf,
    Slots,
    Test,
    compile_arguments,
    compile_condition,
    compile_value,
)

NOWHERE = -1
"""The number of a step or slot that does not exist."""


class ToolFacts(NamedTuple):
    """What running a plan needs to know of a tool, recorded with the run.

    `parameters` are the names that positional arguments take, in order; `on_in_doubt` is what
    becomes of a call that may have happened.
    """

    effect: Effect = Effect.UNSAFE
    parameters: tuple[str, ...] = ()
    on_in_doubt: OnInDoubt = OnInDoubt.ASK


_UNKNOWN = ToolFacts()
_ASKING = ToolFacts(Effect.READ, ("prompt", "options", "schema", "timeout", "default"))
_LARGE = 1_000
"""From this many steps on the cyclic collector rests."""


class Kind(IntEnum):
    """What a step does, as a number."""

    TOOL = 0
    MODEL = 1
    AGENT = 2
    RESPOND = 3
    TERMINATE = 4
    GOTO = 5
    REPLAN = 6
    ASK = 7


class StepCode:
    """A step ready to run. Made by `compile_plan`, then only read."""

    __slots__ = (
        "arguments",
        "backoff",
        "cast",
        "concurrent",
        "condition",
        "delay",
        "fail_message",
        "fail_target",
        "goto_name",
        "group",
        "group_end",
        "id",
        "identity",
        "inputs",
        "kind",
        "loop_slot",
        "may_skip",
        "number",
        "on_in_doubt",
        "out_slot",
        "prefix",
        "probes",
        "retries",
        "source",
        "target",
        "tool",
        "wants_data",
    )

    def __init__(self, number: int, step: Step) -> None:
        self.number = number
        self.id = step.id
        self.identity = number
        self.prefix = f"{step.id}."
        self.may_skip = step.condition is not None or isinstance(step.action, Respond)
        self.kind = Kind.TOOL
        self.tool = ""
        self.arguments: Callable[[Slots], dict[str, Any]] = lambda slots: {}
        self.inputs: tuple[Eval, ...] = ()
        self.condition: Test | None = None
        self.source: Eval | None = None
        self.loop_slot = NOWHERE
        self.concurrent = False
        self.out_slot = NOWHERE
        self.cast: Cast | None = None
        self.wants_data = False
        self.probes = False
        self.on_in_doubt = OnInDoubt.ASK
        self.retries = 0
        self.delay: float | None = None
        self.backoff: float | None = None
        self.fail_target: str | None = None
        self.fail_message: tuple[Eval, ...] | None = None
        self.goto_name = ""
        self.target = NOWHERE
        self.group = NOWHERE if step.group is None else step.group
        self.group_end = number + 1


class Program(NamedTuple):
    """A plan ready to run."""

    plan: Plan
    steps: tuple[StepCode, ...]
    number_of: dict[str, int]
    slot_of: dict[str, int]
    names: tuple[str, ...]
    """The variables' names in the order of their slots."""


def compile_plan(plan: Plan, facts: Mapping[str, ToolFacts] | None = None) -> Program:
    """The program of a plan of text order.

    `facts` tell effects and parameter names by canonical tool name; a tool that is not there
    may do anything. Of two steps with one id a jump finds the first. Raises CallsheetError
    (RUN001) for a plan of another order.
    """
    if plan.order is not Order.TEXT:
        raise CallsheetError.single(
            "RUN001",
            "this plan is a graph of dependencies, and only plans of text order can be run",
            help="write the plan as LTP text, with @PARALLEL { } around steps that may run together",
        )
    with collector_rests(len(plan.steps) >= _LARGE):
        return _compile(plan, facts or {})


def _compile(plan: Plan, known: Mapping[str, ToolFacts]) -> Program:
    slots: dict[str, int] = {}

    def slot_of(name: str) -> int:
        return slots.setdefault(name, len(slots))

    for name, _ in plan.variables:
        slot_of(name)
    number_of: dict[str, int] = {}
    for number, step in enumerate(plan.steps):
        number_of.setdefault(step.id, number)
    codes = tuple(_compile_step(n, step, slot_of, number_of, known) for n, step in enumerate(plan.steps))
    for code in reversed(codes):
        follower = codes[code.number + 1] if code.number + 1 < len(codes) else None
        if code.group != NOWHERE and follower is not None and follower.group == code.group:
            code.group_end = follower.group_end
    return Program(plan, codes, number_of, slots, tuple(slots))


def _compile_step(
    number: int, step: Step, slot_of: SlotOf, number_of: dict[str, int], facts: Mapping[str, ToolFacts]
) -> StepCode:
    code = StepCode(number, step)
    code.identity = number_of[step.id]
    if step.foreach is not None:
        code.source = compile_value(step.foreach.source, slot_of)
        code.loop_slot = slot_of(step.foreach.var)
    if step.condition is not None:
        code.condition = compile_condition(step.condition, slot_of)
    if step.output is not None and isinstance(step.action, Call):
        code.out_slot = slot_of(step.output.var)
        code.cast = step.output.cast
        code.wants_data = code.cast is Cast.LIST or code.cast is Cast.JSON
    _compile_action(code, step, slot_of, number_of, facts)
    _compile_failure(code, step, slot_of)
    return code


def _compile_action(
    code: StepCode, step: Step, slot_of: SlotOf, number_of: dict[str, int], facts: Mapping[str, ToolFacts]
) -> None:
    def all_of(values: tuple[Value, ...]) -> tuple[Eval, ...]:
        return tuple(compile_value(value, slot_of) for value in values)

    match step.action:
        case Call() as call:
            _compile_call(code, call, slot_of, facts)
        case Respond(values=values):
            code.kind, code.inputs = Kind.RESPOND, all_of(values)
        case Terminate(values=values):
            code.kind, code.inputs = Kind.TERMINATE, all_of(values)
        case Replan(values=values):
            code.kind, code.inputs = Kind.REPLAN, all_of(values)
        case Goto(target=target):
            code.kind, code.goto_name = Kind.GOTO, target
            code.target = number_of.get(target, NOWHERE)


def _compile_call(code: StepCode, call: Call, slot_of: SlotOf, facts: Mapping[str, ToolFacts]) -> None:
    code.tool = call.tool
    fact = fact_of(call, facts)
    code.probes, code.on_in_doubt = fact.effect is Effect.PROBE, fact.on_in_doubt
    kind = call.kind
    if kind is CallKind.MODEL or kind is CallKind.AGENT:
        code.kind = Kind.MODEL if kind is CallKind.MODEL else Kind.AGENT
        code.inputs = tuple(compile_value(value, slot_of) for value in call.positional)
        code.arguments = compile_arguments(call.named, slot_of)
        code.concurrent = code.kind is Kind.MODEL
        return
    code.arguments = compile_arguments(named_arguments(call, fact), slot_of)
    if kind is CallKind.HUMAN:
        code.kind, code.concurrent = Kind.ASK, True
        return
    code.concurrent = fact.effect.only_reads or fact.effect is Effect.IDEMPOTENT


def fact_of(call: Call, facts: Mapping[str, ToolFacts]) -> ToolFacts:
    """What is known of what a call calls."""
    return _ASKING if call.kind is CallKind.HUMAN else facts.get(call.tool, _UNKNOWN)


def named_arguments(call: Call, fact: ToolFacts) -> tuple[tuple[str, Value], ...]:
    """All arguments of a call of a tool by name, the positional ones first."""
    if not call.positional:
        return call.named
    return (*zip(_positional_names(call, fact), call.positional, strict=True), *call.named)


def _positional_names(call: Call, fact: ToolFacts) -> list[str]:
    """The parameters that positional arguments fill: those in order that no name is given for."""
    given = {name for name, _ in call.named}
    names = [name for name in fact.parameters if name not in given][: len(call.positional)]
    return names + [f"arg{i}" for i in range(len(names), len(call.positional))]


def _compile_failure(code: StepCode, step: Step, slot_of: SlotOf) -> None:
    if step.on_fail is None:
        return
    if step.on_fail.retry is not None:
        code.retries = step.on_fail.retry.count
        code.delay = step.on_fail.retry.delay
        code.backoff = step.on_fail.retry.backoff
    match step.on_fail.then:
        case Goto(target=target):
            code.fail_target = target
        case Terminate(values=values):
            code.fail_message = tuple(compile_value(value, slot_of) for value in values)
        case None:
            pass
