"""Builds the control-flow graph of a plan in text order, and the definitions and uses of its variables.

In: a plan. Out: adjacency lists, in linear time. The graph is conservative: it has every edge that some
values of the variables could take.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import TypeAlias

from callsheet.ir.expr import DictExpr, ListExpr, Literal, Ref, Template, Value, refs_of
from callsheet.ir.graphs import dominator_tree
from callsheet.ir.plan import Plan, flat
from callsheet.ir.step import Course, Onward, Place, Step
from callsheet.lazy import NamedTuple, dataclass


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
    turning: list[int]
    """The steps from which control may go elsewhere than to the next one, in text order."""
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
    flat(plan, "the analysis of the order of steps")
    ids: list[str] = []
    groups: list[int | None] = []
    turning: list[int] = []
    for number, step in enumerate(plan.steps):  # one pass for all three: a large plan exceeds CPU caches
        ids.append(step.id)
        groups.append(step.group)
        if step.turns:
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
    return Flow(plan, successors, predecessors, *turns[1:], turning)


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
        targets.update(number_of[j.target] for j in steps[turn].jumps() if j.target in number_of)
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
        for course in (step.after_failure, step.course):
            targets.extend(_targets(course, number_of, end))
        onward = step.course.onward
        if step.is_guarded or onward is Onward.ALWAYS or onward is Onward.IF_NO_PLAN:
            continue
        skipped = onward is Onward.IF_EMPTY and number + 1 < end and may_be_empty(step.values())
        on, on_if_empty = False, skipped
    return targets, on or on_if_empty, not on


def _targets(course: Course, number_of: dict[str, int], end: int) -> Iterator[int]:
    """Where a course leads except to the next step; a jump to an unknown id ends the run."""
    if course.jump is not None:
        yield number_of.get(course.jump.target, end)
    if course.ends is not None:
        yield end


def may_be_empty(answer: Iterable[Value]) -> bool:
    """Whether all values of an answer can be empty, in which case the plan continues."""
    return all(map(_value_may_be_empty, answer))


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
        name = step.sets
        if name is None:
            continue
        end = flow.group_end[number]
        sure = step.sets_always and number >= latest_entry.get(end, number)
        definitions.setdefault(name, []).append(Definition(number, name, end, sure))
    return definitions


def uses_of(step: Step, number: int) -> list[Use]:
    """The variables that the step reads, in text order.

    Its loop variable, and its output in its failure message, are left out: the step itself sets them.
    """
    uses: list[Use] = []
    for place, nodes in step.reads():
        own = step.own_names(place)
        for node in nodes:
            if isinstance(node, Ref):
                if node.name not in own:
                    uses.append(Use(number, node, place))
            elif isinstance(node, Template):
                for part in node.parts:
                    if isinstance(part, Ref) and part.name not in own:
                        uses.append(Use(number, part, place))
            elif not isinstance(node, Literal):
                uses += [Use(number, ref, place) for ref in refs_of(node) if ref.name not in own]
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
        if step.sets is not None:
            enclosing.append((number, step))
        if ends[number] == number:
            for setter, member in enclosing:
                _set(setters, setter, member)
            enclosing.clear()
    return feeders_of


def _set(setters: dict[str, list[int]], number: int, step: Step) -> None:
    assert step.sets is not None
    if step.sets_always:
        setters[step.sets] = [number]
        return
    known = setters.setdefault(step.sets, [])
    known.append(number)
    del known[:-_MOST_FEEDERS]
