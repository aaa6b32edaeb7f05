"""Prepares a plan for the label analysis: control flow, control dependence, and what each step reads and
writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from callsheet.ir import Call, DictExpr, ListExpr, Order, Plan, Respond, Step, Terminate, Value
from callsheet.ir.control import Control, control_of
from callsheet.ir.flow import Flow, flow_of, is_guarded
from callsheet.ir.labels import LITERAL, Label
from callsheet.passes.verify.call_views import ViewContext, call_views, tool_of
from callsheet.passes.verify.constants import constants_of
from callsheet.passes.verify.persisted_labels import NOTHING_LEFT, PersistedLabels
from callsheet.passes.verify.places import CODE, NOTHING, Access, access_of
from callsheet.passes.verify.position import AT_THE_START, RunPosition, entered_at
from callsheet.passes.verify.read_uses import Reading, reading_of
from callsheet.passes.verify.values import Kind, ValueGraph, Write, web_of
from callsheet.policy.builtins import fold
from callsheet.policy.calls import bare
from callsheet.policy.judge import Judge, Prepared
from callsheet.policy.rules.attachments import NAMES, sends_files
from callsheet.policy.rules.files import FILE_NAMES, keeps_files
from callsheet.policy.rules.opened_files import seen_by

Parameters = Callable[[str], tuple[str, ...]]


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
        step = self.plan.steps[number]
        if step.on_fail is not None and step.on_fail.then is not None:
            return True
        return self.plan.order is Order.DAG and isinstance(step.action, Call)


def subject_of(
    plan: Plan,
    judge: Judge,
    inputs: Mapping[str, Label],
    parameters: Mapping[str, Sequence[str]],
    position: RunPosition = AT_THE_START,
    left: PersistedLabels = NOTHING_LEFT,
) -> Subject:
    """Prepare a plan for the analysis, from its start or from where a run in progress stands."""
    plain = flow_of(plan)
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
    by_name = _parameters(judge, parameters)
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
        if type(step.action) is Respond
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


def _parameters(judge: Judge, given: Mapping[str, Sequence[str]]) -> Parameters:
    known: dict[str, tuple[str, ...]] = {fold(name): tuple(names) for name, names in given.items()}

    @cache
    def names(tool: str) -> tuple[str, ...]:
        traits = judge.traits(tool)
        return known.get(fold(tool), ()) or (traits.parameters if traits is not None else ())

    return names


def _access(step: Step, prepared: Prepared, judge: Judge, around: ViewContext) -> Access:
    if not isinstance(step.action, Call):
        return NOTHING
    tool, traits = prepared.tool, prepared.traits
    if traits is None or (
        traits.path is None
        and tool not in _PLACES
        and not (sends_files(tool, traits) and _may_name(step.action))
        and not (keeps_files(tool, traits) and _names_file(step.action))
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


_PLACES = CODE | {"QUERY_MEMORY", "MEMORY_STATS", "STORE_FACT", "SET_WM", "GET_WM", "AGENT_SOLVE"}


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


def _writes(step: Step, access: Access, whole: bool) -> list[Write]:
    writes: list[Write] = []
    output, places = step.output, access.writes
    then = None if step.on_fail is None else step.on_fail.then
    is_sure = whole and (then is None or isinstance(then, Terminate))
    if output is not None and isinstance(step.action, Call):
        sure = is_sure and (step.condition is None or step.foreach is not None)
        writes.append(bare(Write, (output.var, _RESULT, sure)))
    if places:
        is_sure = is_sure and not is_guarded(step)
        for place in places:
            writes.append(bare(Write, (place, _STORED, is_sure and place in access.overwrites)))
    return writes
