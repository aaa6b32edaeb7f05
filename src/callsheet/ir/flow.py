"""Builds the control-flow graph of a plan in text order, and the definitions and uses of its variables.

In: a plan. Out: adjacency lists, in linear time. The graph is conservative: it has every edge that some
values of the variables could take.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from callsheet.ir.expr import DictExpr, ListExpr, Literal, Ref, Template, Value, refs_of
from callsheet.ir.graphs import dominator_tree
from callsheet.ir.plan import Plan
from callsheet.ir.step import Call, Goto, Replan, Respond, Step, Terminate


class Place(StrEnum):
    """The part of a step that reads a variable."""

    SOURCE = "source"
    CONDITION = "condition"
    ARGUMENTS = "arguments"
    FAILURE = "failure"


_SOURCE, _CONDITION, _ARGUMENTS, _FAILURE = Place


class Use(NamedTuple):
    """A read of a variable by the step with this number."""

    step: int
    ref: Ref
    place: Place


class Definition(NamedTuple):
    """An assignment of a variable by the step with this number.

    It is visible after the step `committed`: the step itself, or the last of its group. `sure` says whether
    the variable is set on every path through that step.
    """

    step: int
    var: str
    committed: int
    sure: bool


_Tree: TypeAlias = "tuple[list[int], list[int]]"
_Definitions: TypeAlias = "dict[str, list[Definition]]"


@dataclass(frozen=True, slots=True)
class Flow:
    """The control-flow graph of a plan. Its nodes are the steps by number, then `end`, then `entry`.

    Members of a group form a chain; all edges out of the group leave from its last member. `if_empty` has
    the steps that continue with the next one only if an answer is empty.
    """

    plan: Plan
    successors: list[list[int]]
    predecessors: list[list[int]]
    number_of: dict[str, int]
    """The first step with each id."""
    group_end: list[int]
    """The last step of each step's group; the step itself outside of groups."""
    if_empty: frozenset[int]
    goes_back: bool
    """Whether there is a back edge: from a step to itself or to an earlier one."""
    _tree: list[_Tree] = field(default_factory=list["_Tree"], init=False, repr=False, compare=False)
    """The dominator tree, a lazy cache of at most one element."""
    _definitions: list[_Definitions] = field(
        default_factory=list["_Definitions"], init=False, repr=False, compare=False
    )
    """The definitions of each variable, a lazy cache of at most one element."""

    @property
    def end(self) -> int:
        """The exit node."""
        return len(self.plan.steps)

    @property
    def entry(self) -> int:
        """The entry node, before the first step."""
        return len(self.plan.steps) + 1

    @property
    def definitions(self) -> dict[str, list[Definition]]:
        """The definitions of each variable in text order; cached, so callers must not modify them."""
        if not self._definitions:
            self._definitions.append(_definitions_in(self))
        return self._definitions[0]

    def dominators(self) -> _Tree:
        """The reachable nodes, each after its dominators, and the immediate dominator of each node.

        Cached, so callers must not modify them.
        """
        if not self._tree:
            self._tree.append(dominator_tree(self.successors, self.entry))
        return self._tree[0]

    def reachable(self, *, answers_are_empty: bool = True) -> bytearray:
        """Which nodes are reachable from the entry, one byte per node.

        Without `answers_are_empty`, an unguarded RESPOND is taken to end the plan always.
        """
        seen = bytearray(len(self.successors))
        if answers_are_empty or not self.if_empty:
            for node in self.dominators()[0]:
                seen[node] = 1
            return seen
        seen[self.entry] = 1
        stack = [self.entry]
        while stack:
            node = stack.pop()
            skipped = node + 1 if node in self.if_empty else -1
            for following in self.successors[node]:
                if not seen[following] and following != skipped:
                    seen[following] = 1
                    stack.append(following)
        return seen


def flow_of(plan: Plan) -> Flow:
    """The control-flow graph of a plan, in text order even if the plan is a DAG.

    >>> from callsheet.ir import Goto, Plan, Respond, Step
    >>> flow = flow_of(Plan((Step("S1", Goto("S2")), Step("S2", Respond(())))))
    >>> flow.successors
    [[1], [2], [], [0]]
    """
    ids: list[str] = []
    groups: list[int | None] = []
    turning: list[int] = []
    for number, step in enumerate(plan.steps):  # one pass for all three: a large plan exceeds CPU caches
        ids.append(step.id)
        groups.append(step.group)
        if type(step.action) is not Call or (step.on_fail is not None and step.on_fail.then is not None):
            turning.append(number)
    turns = turns_of(plan, ids, groups, turning)
    successors: list[list[int]] = [[number] for number in range(1, len(ids) + 1)]
    successors += ([], [0])
    for number, leads in turns.successors.items():
        successors[number] = leads
    predecessors: list[list[int]] = [[] for _ in successors]
    for node, followers in enumerate(successors):
        for following in followers:
            predecessors[following].append(node)
    return Flow(plan, successors, predecessors, *turns[1:])


class Turns(NamedTuple):
    """The edges that are not a plain fall-through to the next step, and fields of `Flow`."""

    successors: dict[int, list[int]]
    """By the number of the step, or of the last step of its group."""
    number_of: dict[str, int]
    group_end: list[int]
    if_empty: frozenset[int]
    goes_back: bool


def turns_of(plan: Plan, ids: list[str], groups: list[int | None], turning: list[int]) -> Turns:
    """The edges that are not a plain fall-through, for callers that have iterated over the steps already.

    `ids` and `groups` are those of all steps, `turning` the numbers of the steps that may have other edges,
    in ascending order.
    """
    steps = plan.steps
    number_of = _numbers(ids)
    group_end = _group_ends(groups)
    successors: dict[int, list[int]] = {}
    entered = _jump_targets(steps, turning, number_of)
    if_empty: set[int] = set()
    goes_back = False
    passed = -1
    for number in turning:
        last = group_end[number]
        if last == passed:
            continue
        passed = last
        targets, falls, only_if_empty = _exits(plan, _group_to(last, steps), number_of, entered)
        if falls:
            targets.append(last + 1)
            if only_if_empty and targets.count(last + 1) == 1:
                if_empty.add(last)
        successors[last] = list(dict.fromkeys(targets))
        goes_back = goes_back or any(target <= last for target in targets)
    return Turns(successors, number_of, group_end, frozenset(if_empty), goes_back)


def _numbers(ids: list[str]) -> dict[str, int]:
    """The number of the first step with each id."""
    numbers = dict(zip(ids, range(len(ids)), strict=True))
    if len(numbers) < len(ids):
        numbers.clear()
        for number, step_id in enumerate(ids):
            numbers.setdefault(step_id, number)
    return numbers


def _group_to(last: int, steps: tuple[Step, ...]) -> range:
    """The steps of the group whose last step this is, or the step alone."""
    first = last
    group = steps[last].group
    while group is not None and first and steps[first - 1].group == group:
        first -= 1
    return range(first, last + 1)


def _group_ends(groups: list[int | None]) -> list[int]:
    """The last step of each step's group, given the group of each step."""
    ends = list(range(len(groups)))
    if groups.count(None) == len(groups):
        return ends
    following = None
    for number in range(len(groups) - 1, -1, -1):
        group = groups[number]
        if group is not None and group == following:
            ends[number] = ends[number + 1]
        following = group
    return ends


def _jump_targets(steps: tuple[Step, ...], turning: list[int], number_of: dict[str, int]) -> set[int]:
    """The steps that one of the steps `turning` jumps to."""
    targets: set[int] = set()
    for turn in turning:
        step = steps[turn]
        failure = step.on_fail.then if step.on_fail is not None else None
        for jump in (step.action, failure):
            if isinstance(jump, Goto) and jump.target in number_of:
                targets.add(number_of[jump.target])
    return targets


def _exits(
    plan: Plan, members: range, number_of: dict[str, int], entered: set[int]
) -> tuple[list[int], bool, bool]:
    """The jump targets of a step or group, whether it falls through, and whether only if an answer is empty.

    The first control action in text order takes effect, so members after an unconditional one are ignored, up
    to a member at which a jump may enter the group. A RE-PLAN falls through if no new plan can be compiled.
    """
    end = len(plan.steps)
    targets: list[int] = []
    on, on_if_empty = True, False
    for number in members:
        step = plan.steps[number]
        on = on or number in entered
        if not on and not on_if_empty:
            continue
        targets.extend(_targets(step, number_of, end))
        if is_guarded(step) or isinstance(step.action, Call | Replan):
            continue
        skipped = isinstance(step.action, Respond) and number + 1 < end and may_be_empty(step.action)
        on, on_if_empty = False, skipped
    return targets, on or on_if_empty, not on


def _targets(step: Step, number_of: dict[str, int], end: int) -> Iterator[int]:
    """The jump targets of one step; a jump to an unknown id ends the run."""
    if step.on_fail is not None and step.on_fail.then is not None:
        then = step.on_fail.then
        yield number_of.get(then.target, end) if isinstance(then, Goto) else end
    match step.action:
        case Goto(target=target):
            yield number_of.get(target, end)
        case Respond() | Terminate() | Replan():
            yield end
        case Call():
            pass


def is_guarded(step: Step) -> bool:
    """Whether the step's action may be skipped: it has a condition or a loop."""
    return step.condition is not None or step.foreach is not None


def may_be_empty(respond: Respond) -> bool:
    """Whether all values of an answer can be empty, in which case the plan continues."""
    return all(_value_may_be_empty(value) for value in respond.values)


def _value_may_be_empty(value: Value) -> bool:
    match value:
        case Literal(value=scalar):
            return scalar is None or (isinstance(scalar, str) and not scalar.strip())
        case Ref():
            return True
        case Template(parts=parts):
            return not any(isinstance(part, str) and part.strip() for part in parts)
        case ListExpr(items=items):
            return not items
        case DictExpr(items=pairs):
            return not pairs


def _definitions_in(flow: Flow) -> _Definitions:
    """The definitions of each variable; a member of a group before a jump target may be skipped."""
    definitions: _Definitions = {}
    latest_entry: dict[int, int] = {}
    for number, end in enumerate(flow.group_end):
        if end != number or number in latest_entry:
            jumped_to = any(
                before != number - 1 or flow.group_end[before] != end for before in flow.predecessors[number]
            )
            latest_entry[end] = number if jumped_to else latest_entry.get(end, number)
    for number, step in enumerate(flow.plan.steps):
        output = step.output
        if output is None or not isinstance(step.action, Call):
            continue
        end = flow.group_end[number]
        sure = (step.condition is None or step.foreach is not None) and number >= latest_entry.get(
            end, number
        )
        definitions.setdefault(output.var, []).append(Definition(number, output.var, end, sure))
    return definitions


def uses_of(step: Step, number: int) -> list[Use]:
    """The variables that the step reads, in text order.

    Its loop variable, and its output in its failure message, are left out: the step itself sets them.
    """
    uses: list[Use] = []
    own = step.foreach.var if step.foreach is not None else None
    if step.foreach is not None:
        uses += [Use(number, ref, _SOURCE) for ref in refs_of(step.foreach.source)]
    if step.condition is not None:
        uses += [Use(number, r, _CONDITION) for r in refs_of(step.condition) if r.name != own]
    for value in step.values():
        if isinstance(value, Ref):
            if value.name != own:
                uses.append(Use(number, value, _ARGUMENTS))
        elif isinstance(value, Template):
            for part in value.parts:
                if isinstance(part, Ref) and part.name != own:
                    uses.append(Use(number, part, _ARGUMENTS))
        elif not isinstance(value, Literal):
            uses += [Use(number, ref, _ARGUMENTS) for ref in refs_of(value) if ref.name != own]
    if step.on_fail is not None:
        sets = (own, step.output.var if step.output is not None else None)
        for value in step.failure_values():
            uses += [Use(number, ref, _FAILURE) for ref in refs_of(value) if ref.name not in sets]
    return uses


_MOST_FEEDERS = 4


def feeders(plan: Plan) -> list[list[int]]:
    """For each step, the earlier steps whose outputs it may read, at most the 4 nearest per variable.

    Only text order counts, jumps are ignored. Members of a group do not read outputs of the same group.

    >>> from callsheet.ir import Call, Output, Plan, Ref, Respond, Step
    >>> feeders(Plan((Step("S1", Call("X"), output=Output("a")), Step("S2", Respond((Ref("a"),))))))
    [[], [0]]
    """
    setters: dict[str, list[int]] = {}
    enclosing: list[tuple[int, Step]] = []
    feeders_of: list[list[int]] = []
    ends = _group_ends([step.group for step in plan.steps])
    for number, step in enumerate(plan.steps):
        names = dict.fromkeys(use.ref.name for use in uses_of(step, number))
        feeders_of.append(sorted({setter for name in names for setter in setters.get(name, ())}))
        if step.output is not None and isinstance(step.action, Call):
            enclosing.append((number, step))
        if ends[number] == number:
            for setter, member in enclosing:
                _set(setters, setter, member)
            enclosing.clear()
    return feeders_of


def _set(setters: dict[str, list[int]], number: int, step: Step) -> None:
    assert step.output is not None
    if step.condition is None or step.foreach is not None:
        setters[step.output.var] = [number]
        return
    known = setters.setdefault(step.output.var, [])
    known.append(number)
    del known[:-_MOST_FEEDERS]
