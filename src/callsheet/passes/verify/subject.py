"""Prepares a plan for the label analysis: control flow, control dependence, and what each step reads and
writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, cast

from callsheet.ir import (
    JSON,
    Call,
    DictExpr,
    ListExpr,
    Literal,
    Onward,
    Order,
    Plan,
    Ref,
    Step,
    Template,
    Value,
)
from callsheet.ir.control import Control, control_of
from callsheet.ir.expr import names_in, refs_of, tests_of
from callsheet.ir.flow import Flow, flow_of
from callsheet.ir.graphs import NONE, Precedence
from callsheet.ir.labels import LITERAL, Label
from callsheet.ir.plan import flat
from callsheet.ir.tree_flow import Region
from callsheet.passes.verify.call_views import ViewContext, call_views, literal_text, tool_of
from callsheet.passes.verify.objections import Parameters, parameters_known
from callsheet.passes.verify.persisted_labels import NOTHING_LEFT, PersistedLabels
from callsheet.passes.verify.places import CODE, NOTHING, Access, access_of
from callsheet.passes.verify.values import Kind, ValueGraph, Write, web_of
from callsheet.policy.calls import bare
from callsheet.policy.judge import Judge, Prepared
from callsheet.policy.rules.attachments import NAMES, sends_files
from callsheet.policy.rules.files import FILE_NAMES, keeps_files
from callsheet.policy.rules.opened_files import seen_by


class Reading(NamedTuple):
    """The variables that a step reads, each once per use.

    `contents` are tested by content, `emptiness` only for being empty. `failure` are those of the failure
    message. Reading the loop variable `loop` means reading `source`.
    """

    arguments: tuple[str, ...]
    contents: tuple[str, ...]
    emptiness: tuple[str, ...]
    source: tuple[str, ...]
    failure: tuple[str, ...]
    loop: str | None

    def names(self) -> tuple[str, ...]:
        """All variables that are read, each once."""
        arguments, contents, emptiness, source, failure, _ = self
        if not (contents or emptiness or source or failure):
            return arguments
        return tuple(dict.fromkeys((*arguments, *contents, *emptiness, *source, *failure)))

    def outer(self, names: Iterable[str]) -> Iterable[str]:
        """The names with the loop variable replaced by the variables of its source."""
        if self.loop is None:
            return names
        return [outer for name in names for outer in (self.source if name == self.loop else (name,))]


def reading_of(step: Step) -> Reading:
    """Classify what a step reads."""
    arguments = _names(step.values())
    loop: str | None = None
    source: tuple[str, ...] = ()
    if step.foreach is not None:
        loop, source = step.foreach.var, _names((step.foreach.source,))
    contents, emptiness = ([], []) if step.condition is None else tests_of(step.condition)
    failure: tuple[str, ...] = ()
    if step.on_fail is not None:
        own_output = step.output.var if step.output is not None else None
        failure = tuple(name for name in _names(step.failure_values()) if name != own_output)
    tested, asked = (
        tuple(dict.fromkeys(names_in(contents))) if contents else (),
        _names(emptiness) if emptiness else (),
    )
    return bare(Reading, (arguments, tested, asked, source, failure, loop))


def _names(values: Iterable[Value]) -> tuple[str, ...]:
    names: list[str] = []
    for value in values:
        if isinstance(value, Ref):
            names.append(value.name)
        elif isinstance(value, Template):
            names += [part.name for part in value.parts if isinstance(part, Ref)]
        elif not isinstance(value, Literal):
            names += [ref.name for ref in refs_of(value)]
    return tuple(names) if len(names) < 2 else tuple(dict.fromkeys(names))


@dataclass(frozen=True, slots=True)
class RunPosition:
    """The state of a run in progress.

    `next` is the number of the next step; in a graph it is 0 and `done` are the finished steps. `pcs` are by
    step number the pc labels of earlier decisions, `presence` by variable the labels of decisions that
    determine whether it is set, `values` the values of variables.
    """

    next: int = 0
    done: frozenset[int] = frozenset()
    pcs: Mapping[int, Label] = field(default_factory=dict[int, Label])
    presence: Mapping[str, Label] = field(default_factory=dict[str, Label])
    values: Mapping[str, JSON] = field(default_factory=dict[str, JSON])


AT_THE_START = RunPosition()


@dataclass(frozen=True, slots=True)
class TreePosition:
    """The state of a run in progress of a plan with blocks.

    `done` are the ids of the statements of the main plan to which nothing leads back: they are walked, but
    not judged. The labels are those that the run itself has found, and the proof goes below none of them:
    `labels` of the variables of the main plan, `decided` of what governs its regions, `clock` of the time.
    """

    done: frozenset[str] = frozenset()
    labels: Mapping[str, Label] = field(default_factory=dict[str, Label])
    decided: tuple[tuple[Region, Label], ...] = ()
    clock: Label = LITERAL


TREE_START = TreePosition()


def entered_at(flow: Flow, position: RunPosition) -> Flow:
    """The control flow with its entry moved to where the run stands."""
    if position.next == 0:
        return flow
    successors, predecessors = list(flow.successors), list(flow.predecessors)
    successors[flow.entry] = [position.next]
    predecessors[0] = [node for node in predecessors[0] if node != flow.entry]
    predecessors[position.next] = [*predecessors[position.next], flow.entry]
    return replace(flow, successors=successors, predecessors=predecessors)


def literal_of(value: JSON) -> Value | None:
    """A value as an expression of a plan: a scalar or a list of scalars; None for others."""
    if not isinstance(value, list | dict):
        return Literal(value)
    items = cast("list[JSON]", value) if isinstance(value, list) else [value]
    if any(isinstance(item, list | dict) for item in items):
        return None
    return ListExpr(tuple(Literal(item) for item in items if not isinstance(item, list | dict)))


_LONGEST = 20_000
"""Maximum length in characters of a text composed of known texts, since composing them can grow
exponentially.
"""


def constants_of(
    flow: Flow,
    readings: Sequence[Reading],
    inputs: Iterable[str],
    position: RunPosition,
    is_reached: bytearray,
) -> dict[str, Value]:
    """The variables that hold one literal at each step that reads them, with that literal.

    These are initial variables that nothing sets again, results of FORMAT steps made only of known texts, and
    variables that a run in progress has set and will not set again.
    """
    plan = flow.plan
    known = _initial(plan, inputs)
    formats = _formats(plan, inputs)
    if formats:
        late: set[int] = set()
        if plan.order is Order.TEXT:
            order = flow.dominators()[0]
            late = _too_late(flow, readings, formats, is_reached)
        else:  # a graph in which a step does not wait for what it reads is refused
            order = sorted(range(len(plan.steps)), key=Precedence.of(plan).level.__getitem__)
        setters = {number: name for name, number in formats.items() if number not in late}
        for number in order:
            if number in setters and (text := _text(plan.steps[number], known)) is not None:
                known[setters[number]] = text
    return {**known, **_held(plan, position, is_reached)}


def _initial(plan: Plan, inputs: Iterable[str]) -> dict[str, Value]:
    """Initial variables that no step sets and no input overrides."""
    if not plan.variables:
        return {}
    set_again = {*inputs, *(name for step in plan.steps for name in _set_by(step))}
    return {name: value for name, value in plan.variables if name not in set_again}


def _formats(plan: Plan, inputs: Iterable[str]) -> dict[str, int]:
    """The unguarded FORMAT steps that are the only writers of their variable, by its name."""
    formats = [
        (step.output.var, number)
        for number, step in enumerate(plan.steps)
        if step.output is not None and step.output.cast is None and not step.is_guarded and _is_format(step)
    ]
    if not formats:
        return {}
    given = {*inputs, *(name for name, _ in plan.variables)}
    once: dict[str, int] = {}
    for step in plan.steps:
        for name in _set_by(step):
            once[name] = once.get(name, 0) + 1
    return {name: number for name, number in formats if once[name] == 1 and name not in given}


def _is_format(step: Step) -> bool:
    call = step.call
    if call is None or call.tool != "FORMAT":
        return False
    return len(call.positional) + len(call.named) == 1 and all(name == "text" for name, _ in call.named)


def _set_by(step: Step) -> Iterator[str]:
    if step.output is not None:
        yield step.output.var
    if step.foreach is not None:
        yield step.foreach.var


def _text(step: Step, known: Mapping[str, Value]) -> Literal | None:
    """The text that a FORMAT step gives, if it is made only of known texts."""
    (value,) = step.values()
    parts = value.parts if isinstance(value, Template) else (value,)
    texts: list[str] = []
    for part in parts:
        literal = known.get(part.name) if isinstance(part, Ref) and not part.path else part
        if isinstance(literal, Literal):
            literal = literal_text(literal)
        if not isinstance(literal, str):
            return None
        texts.append(literal)
    text = "".join(texts)
    return Literal(text) if len(parts) == 1 or len(text) <= _LONGEST else None


def _too_late(
    flow: Flow, readings: Sequence[Reading], setters: Mapping[str, int], is_reached: bytearray
) -> set[int]:
    """The setters that do not surely run before every reader of their variable.

    A setter runs before what it dominates; members of a group read what was there before the group.
    """
    order, above = flow.dominators()
    below: dict[int, list[int]] = {}
    for node in order:
        if above[node] != NONE:
            below.setdefault(above[node], []).append(node)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    stack = [flow.entry]
    while stack:
        node = stack.pop()
        if node < 0:
            last[~node] = len(first)
            continue
        first[node] = len(first)
        stack.append(~node)
        stack += below.get(node, ())
    late: set[int] = set()
    for reader, reading in enumerate(readings):
        if not is_reached[reader]:
            continue
        for name in reading.names():
            setter = setters.get(name)
            if setter is None:
                continue
            is_below = setter in first and first[setter] < first[reader] < last[setter]
            if not is_below or flow.group_end[setter] == flow.group_end[reader]:
                late.add(setter)
    return late


def _held(plan: Plan, position: RunPosition, is_reached: bytearray) -> dict[str, Value]:
    """The variables of a run in progress that no remaining step sets again, with their values."""
    if not position.values:
        return {}
    left = (step for number, step in enumerate(plan.steps) if is_reached[number])
    set_again = {name for step in left for name in _set_by(step)}
    known = {name: literal_of(value) for name, value in position.values.items() if name not in set_again}
    return {name: value for name, value in known.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Subject:
    """A plan as the analysis sees it; sequences are indexed by step number."""

    plan: Plan
    judge: Judge
    plain: Flow
    """The control flow of the plan from its start."""
    flow: Flow
    """The control flow that is verified: entered where the run stands, and assuming that any answer may be
    empty.
    """
    control: Control
    """The control dependences. An answer that cannot be empty ends the plan, unless the steps behind it would
    then never be reached: those are verified as well.
    """
    inputs: Mapping[str, Label]
    constants: Mapping[str, Value]
    parameters: Parameters
    prepared: Sequence[Prepared]
    readings: Sequence[Reading]
    accesses: Sequence[Access]
    web: ValueGraph
    is_reached: bytearray
    position: RunPosition = AT_THE_START
    left: PersistedLabels = NOTHING_LEFT

    def surroundings(self, label_of: Callable[[str], Label]) -> ViewContext:
        """The context for building the step's calls, with these labels."""
        return bare(ViewContext, (label_of, self.constants, self.judge.policy.planner, self.parameters))

    @property
    def says_its_texts_alone(self) -> bool:
        """Whether the plan's literals are public and no variable has a known constant value."""
        return not self.constants and self.judge.policy.planner.is_public

    def leads_by_failure(self, number: int) -> bool:
        """Whether a failure of the step changes what is executed next; in a graph, dependents are skipped."""
        return self.plan.steps[number].leads_by_failure(in_graph=self.plan.order is Order.DAG)


def subject_of(
    plan: Plan,
    judge: Judge,
    inputs: Mapping[str, Label],
    parameters: Mapping[str, Sequence[str]],
    position: RunPosition = AT_THE_START,
    left: PersistedLabels = NOTHING_LEFT,
) -> Subject:
    """Prepare a plan for the analysis, from its start or from where a run in progress stands."""
    plain = flow_of(flat(plan, "the proof under a policy"))
    loose = _with_empty_answers(plain)
    flow = entered_at(loose, position)
    decided = flow
    if loose is not plain:
        ends = entered_at(plain, position).reachable()
        decided = entered_at(_with_empty_answers(plain, ends), position)
    is_reached = flow.reachable()
    for number in position.done:
        is_reached[number] = 0
    readings = [reading_of(step) for step in plan.steps]
    constants = constants_of(flow, readings, inputs, position, is_reached)
    by_name = parameters_known(judge, parameters)
    around = ViewContext(_unlabelled, constants, LITERAL, by_name)
    entered = _entered_groups(flow)
    prepared = [judge.prepared(tool_of(step)) for step in plan.steps]
    accesses: list[Access] = []
    reads: list[tuple[str, ...]] = []
    writes: list[list[Write]] = []
    for step, rules, reading, end in zip(plan.steps, prepared, readings, flow.group_end, strict=True):
        access = _access(step, rules, judge, around)
        accesses.append(access)
        reads.append(reading.names() + access.reads)
        writes.append(_writes(step, access, end not in entered))
    return Subject(
        plan=plan,
        judge=judge,
        plain=plain,
        flow=flow,
        control=control_of(decided),
        inputs=inputs,
        constants=constants,
        parameters=by_name,
        prepared=prepared,
        readings=readings,
        accesses=accesses,
        web=web_of(flow, reads, writes, in_order=plan.order is Order.TEXT),
        is_reached=is_reached,
        position=position,
        left=left,
    )


def _unlabelled(_name: str) -> Label:
    return LITERAL


def _with_empty_answers(flow: Flow, is_reached: bytearray | None = None) -> Flow:
    """The flow in which every answer may be empty, so that execution falls through to the following step.

    With `is_reached` this holds only for answers whose following step is not reached otherwise.
    """
    steps = flow.plan.steps
    ended = [
        number
        for number, step in enumerate(steps[:-1])
        if step.course.onward is Onward.IF_EMPTY
        and step.group is None
        and number + 1 not in flow.successors[number]
        and (is_reached is None or not is_reached[number + 1])
    ]
    if not ended:
        return flow
    successors, predecessors = list(flow.successors), list(flow.predecessors)
    for number in ended:
        successors[number] = [*successors[number], number + 1]
        predecessors[number + 1] = [*predecessors[number + 1], number]
    return replace(flow, successors=successors, predecessors=predecessors)


def _access(step: Step, prepared: Prepared, judge: Judge, around: ViewContext) -> Access:
    if step.call is None:
        return NOTHING
    tool, traits = prepared.tool, prepared.traits
    if traits is None or (
        traits.path is None
        and tool not in PLACES
        and not (sends_files(tool, traits) and _may_name(step.call))
        and not (keeps_files(tool, traits) and _names_file(step.call))
    ):
        return NOTHING
    seen = partial(seen_by, judge.setting, tool)
    calls = partial(call_views, step, around, LITERAL)
    return access_of(tool, traits, calls, judge.setting.agent_tools, seen)


def _may_name(action: Call) -> bool:
    """Whether a named argument of a call may name a file; positional ones are refused elsewhere."""
    return any(
        name.casefold() in NAMES or isinstance(value, DictExpr | ListExpr) for name, value in action.named
    )


def _names_file(action: Call) -> bool:
    """Whether an argument of a call may name a file."""
    return bool(action.positional) or any(name.casefold() in FILE_NAMES for name, _ in action.named)


PLACES = CODE | {"QUERY_MEMORY", "MEMORY_STATS", "STORE_FACT", "SET_WM", "GET_WM", "AGENT_SOLVE"}


def _entered_groups(flow: Flow) -> frozenset[int]:
    """The groups, by their last step, that a jump may enter after their first member."""
    if flow.group_end == list(range(len(flow.group_end))):
        return frozenset()
    groups: set[int] = set()
    for number, end in enumerate(flow.group_end):
        inside = number > 0 and flow.group_end[number - 1] == end
        if inside and any(before != number - 1 for before in flow.predecessors[number]):
            groups.add(end)
    return frozenset(groups)


_RESULT, _STORED = Kind.RESULT, Kind.STORED


def _sets_or_ends(step: Step) -> bool:
    """Whether no step runs after this one without its result: a failure ends the plan or is the result."""
    return step.after_failure.jump is None


def _writes(step: Step, access: Access, whole: bool) -> list[Write]:
    writes: list[Write] = []
    places = access.writes
    is_sure = whole and _sets_or_ends(step)
    if step.sets is not None:
        writes.append(bare(Write, (step.sets, _RESULT, is_sure and step.sets_always)))
    if places:
        is_sure = is_sure and not step.is_guarded
        for place in places:
            writes.append(bare(Write, (place, _STORED, is_sure and place in access.overwrites)))
    return writes
