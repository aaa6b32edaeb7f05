"""Compiles a plan into a program: resolves names into numbers and functions before anything runs.

In: a plan, and facts about the tools it calls. Out: a `Program`, or a CallsheetError for a graph that
cannot be run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, count, pairwise
from typing import NamedTuple, overload

from callsheet.ir import (
    Call,
    CallKind,
    Cast,
    Effect,
    Goto,
    Order,
    Place,
    Plan,
    Replan,
    Respond,
    Step,
    Terminate,
    Value,
    call_kind,
)
from callsheet.ir.expr import in_texts, names_in, refs_of
from callsheet.ir.gc_pause import gc_paused
from callsheet.ir.plan import named_arguments
from callsheet.machine.agents.actions import names_its_tools, tools_named
from callsheet.machine.closures import (
    Eval,
    SlotOf,
    compile_arguments,
    compile_condition,
    compile_value,
)
from callsheet.machine.program import (
    NOWHERE,
    CallForm,
    Kind,
    Loop,
    LoopCode,
    Program,
    StepCode,
    ToolFacts,
    compile_graph,
    form_of,
)

_UNKNOWN = ToolFacts()
_ASKING = ToolFacts(Effect.READ, ("prompt", "options", "schema", "timeout", "default"))
_LARGE = 1_000
"""From this many steps on, the cyclic garbage collector is paused during compilation."""


def compile_plan(
    plan: Plan,
    facts: Mapping[str, ToolFacts] | None = None,
    ranks: Mapping[str, int] | None = None,
) -> Program:
    """Compile a plan.

    `facts` are by canonical tool name; a tool without facts is taken to be unsafe. `ranks`, by step id, only
    decide which of the ready steps of a graph starts first. If two steps share an id, a jump finds the first.
    Raises CallsheetError (RUN001) for a graph that cannot be run: a cycle, an unknown or duplicate index.
    """
    with gc_paused(plan.tree is not None or len(plan.steps) >= _LARGE):
        if plan.tree is not None:
            from callsheet.machine.tree.compiling import compile_tree  # noqa: PLC0415 - only for version 2

            return compile_tree(plan, facts or {})
        return _compile(plan, facts or {}, ranks)


def _compile(plan: Plan, known: Mapping[str, ToolFacts], ranks: Mapping[str, int] | None) -> Program:
    slots = defaultdict[str, int](count().__next__)
    slot_of = slots.__getitem__
    for name, _ in plan.variables:
        slot_of(name)
    number_of: dict[str, int] = {}
    for number, step in enumerate(plan.steps):
        number_of.setdefault(step.id, number)
    graph = compile_graph(plan, ranks) if plan.order is Order.DAG else None
    steps = None if graph is None else plan.steps
    names = Names(slot_of, number_of, known, steps, count(NOWHERE - 1, -1), {})
    codes = tuple([compile_step(n, step, names) for n, step in enumerate(plan.steps)])
    for before, code in pairwise(reversed(codes)):
        if code.group != NOWHERE and before.group == code.group:
            code.group_end = before.group_end
    _mark_circles(codes, number_of)
    return Program(plan, codes, number_of, dict(slots), tuple(slots), {}, graph)


class Names(NamedTuple):
    """What the names in a plan refer to."""

    slot_of: SlotOf
    number_of: dict[str, int]
    facts: Mapping[str, ToolFacts]
    graph: Sequence[Step] | None
    """The steps by number, if the plan is a graph; None otherwise."""
    inner: Iterator[int]
    """Numbers for the tools of turn-by-turn operations; no step has them."""
    forms: dict[CallForm, int]
    """The numbers of the forms of calls so far."""

    @property
    def exact(self) -> bool:
        """Whether values are evaluated by the rules for graphs."""
        return self.graph is not None

    def all_of(self, values: tuple[Value, ...]) -> tuple[Eval, ...]:
        """Functions that evaluate these values."""
        return tuple(compile_value(value, self.slot_of, exact=self.exact) for value in values)


def _mark_circles(codes: tuple[StepCode, ...], number_of: dict[str, int]) -> None:
    """Mark the steps that a backward jump can repeat."""
    jumps: list[tuple[int, int]] = []
    for code in codes:
        if code.kind is Kind.GOTO:
            jumps.append((code.target, code.group_end))
        if code.fail_target is not None:
            jumps.append((number_of.get(code.fail_target, NOWHERE), code.group_end))
    for code, recurs in zip(codes, circled(jumps, len(codes)), strict=False):
        code.recurs = recurs
        code.is_plain, code.leaves = code.is_plain and not recurs, code.leaves and not recurs


def circled(jumps: Sequence[tuple[int, int]], count: int) -> Sequence[bool]:
    """For each of `count` steps, whether a backward jump can repeat it: it lies between target and jump.

    `jumps` are pairs of a target and the end of the jumping step's group. Gives an empty sequence if no jump
    leads back.
    """
    edges = [0] * (count + 1)
    for target, end in jumps:
        if NOWHERE < target < end:
            edges[target] += 1
            edges[end] -= 1
    return [around > 0 for around in accumulate(edges[:-1])] if any(edges) else ()


def compile_step(number: int, step: Step, names: Names) -> StepCode:
    """Compile one step; the caller sets `group_end` and `recurs`, which depend on other steps."""
    slot_of = names.slot_of
    code = StepCode(number, step)
    code.identity = names.number_of[step.id]
    if step.foreach is not None:
        code.source = compile_value(step.foreach.source, slot_of)
        code.loop_slot = slot_of(step.foreach.var)
    if step.condition is not None:
        code.condition = compile_condition(step.condition, slot_of)
    if step.output is not None and step.sets is not None:
        code.out_slot = slot_of(step.sets)
        code.cast = step.output.cast
        code.wants_data = code.cast is Cast.LIST or code.cast is Cast.JSON
    if names.graph is not None:
        code.reads = tuple((slot_of(name), name) for name in _unsure(step, names.graph, names.number_of))
    _compile_action(code, step, names)
    code.texts = _references_in_texts(step, names)
    if step.on_fail is not None:
        _compile_failure(code, step, names)
    if code.tool:
        form, code.read_slots = form_of(code.tool, code.retries, code.written, slot_of)
        code.form = names.forms.setdefault(form, len(names.forms))
    code.is_plain = code.kind is Kind.TOOL
    code.leaves = code.is_plain and code.source is None
    return code


def _unsure(step: Step, graph: Sequence[Step], number_of: Mapping[str, int]) -> Iterator[str]:
    """The variables that a step of a graph reads and that may be unset when it starts.

    Its dependencies have succeeded by then; each has set its variable unless it could be skipped.
    """
    read = dict.fromkeys(ref.name for value in step.values() for ref in refs_of(value))
    if not read:
        return
    sure: set[str] = set()
    for before in step.depends_on or ():
        setter = graph[number_of[before]]
        if setter.sets is not None and not setter.is_guarded:
            sure.add(setter.sets)
    yield from (name for name in read if name not in sure)


def _references_in_texts(step: Step, names: Names) -> tuple[tuple[str, Eval], ...]:
    """The references of an action that become a part of a text, as written, each once."""
    values = step.values()
    if step.call is None and len(values) > 1:  # one value alone is the answer, not a part of it
        found = [ref for value in values for ref in refs_of(value)]
    else:
        found = [ref for value in values for ref in in_texts(value)]
    if not found:
        return ()
    return tuple({ref.dotted: compile_value(ref, names.slot_of, exact=names.exact) for ref in found}.items())


def _compile_action(code: StepCode, step: Step, names: Names) -> None:
    match step.action:
        case Call() as call:
            compile_call(code, call, names)
        case Respond(values=values):
            code.kind, code.inputs = Kind.RESPOND, names.all_of(values)
        case Terminate(values=values):
            code.kind, code.inputs = Kind.TERMINATE, names.all_of(values)
        case Replan(values=values):
            code.kind, code.inputs = Kind.REPLAN, names.all_of(values)
        case Goto(target=target):
            code.kind, code.goto_name = Kind.GOTO, target
            code.target = names.number_of.get(target, NOWHERE)


def compile_call(code: StepCode, call: Call, names: Names) -> None:
    """Compile a call into the code of its step: what executes it, its effect, its arguments."""
    code.tool = call.tool
    kind = call.kind
    fact = _ASKING if kind is CallKind.HUMAN else names.facts.get(call.tool, _UNKNOWN)
    code.probes, code.on_in_doubt = fact.effect is Effect.PROBE, fact.on_in_doubt
    code.effect = fact.effect
    if kind is CallKind.MODEL or kind is CallKind.AGENT:
        code.kind = Kind.MODEL if kind is CallKind.MODEL else Kind.AGENT
        code.effect = Effect.LLM if kind is CallKind.MODEL else Effect.UNSAFE
        code.inputs = names.all_of(call.positional)
        code.written = (*[(str(n), value) for n, value in enumerate(call.positional)], *call.named)
        code.arguments = compile_arguments(call.named, names.slot_of, exact=names.exact)
        code.concurrent = code.kind is Kind.MODEL
        if fact.loop is not None:
            code.loop = _compile_loop(code, call, fact.loop, names)
        return
    code.written = named_arguments(call.positional, call.named, fact.parameters)
    code.arguments = compile_arguments(code.written, names.slot_of, exact=names.exact)
    if kind is CallKind.HUMAN:
        code.kind, code.concurrent = Kind.ASK, True
        return
    code.concurrent = fact.effect.only_reads or fact.effect is Effect.IDEMPOTENT


def _compile_loop(code: StepCode, call: Call, loop: Loop, names: Names) -> LoopCode:
    """The tools of an operation: those that its step names and may name, otherwise the default ones."""
    if code.kind is Kind.MODEL:
        return LoopCode({})
    tools = loop.tools
    if names_its_tools(call):
        named = tools_named(call)
        if named is None:
            return LoopCode({}, "tools must be a list of names that are written in the plan")
        tools = tuple(name for name in named if name in tools) if loop.is_most else named
    known = {name: names.facts[name] for name in tools if name in names.facts}
    codes = {name: _code_of_tool(code.id, name, fact, names) for name, fact in known.items()}
    return LoopCode(codes, is_session=loop.is_session)


def _code_of_tool(step: str, name: str, fact: ToolFacts, names: Names) -> StepCode:
    """The code for a tool that the operation of a step may call."""
    tool = StepCode(next(names.inner), Step(step, Call(name)))
    tool.tool, tool.effect = name, fact.effect
    tool.probes, tool.on_in_doubt = fact.effect is Effect.PROBE, fact.on_in_doubt
    is_asking = call_kind(name) is CallKind.HUMAN
    tool.kind = Kind.ASK if is_asking else Kind.TOOL
    tool.concurrent = is_asking or fact.effect.only_reads or fact.effect is Effect.IDEMPOTENT
    return tool


def fact_of(call: Call, facts: Mapping[str, ToolFacts]) -> ToolFacts:
    """The facts about the tool that is called."""
    return _ASKING if call.kind is CallKind.HUMAN else facts.get(call.tool, _UNKNOWN)


def _compile_failure(code: StepCode, step: Step, names: Names) -> None:
    if step.retry is not None:
        code.retries, code.delay, code.backoff = step.retry.count, step.retry.delay, step.retry.backoff
    jump = step.after_failure.jump
    code.fail_target = None if jump is None else jump.target
    code.fail_values = names.all_of(step.failure_values())


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
            for jump in step.jumps():
                yield number_of.get(jump.target, NOWHERE), self._ends.get(number, number + 1)

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
        reads = dict(step.reads())
        for place in Place:
            yield from names_in(reads.get(place, ()))
            if place is Place.SOURCE and step.foreach is not None:
                yield step.foreach.var
            if place is Place.CONDITION and step.sets is not None:
                yield step.sets
