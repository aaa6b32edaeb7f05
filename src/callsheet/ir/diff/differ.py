"""Computes the diff of two plans: matched steps part by part, and the heads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeAlias, TypeVar

from callsheet.ir.canon import on_fail_to_json
from callsheet.ir.diff.matching import (
    Identified,
    Matching,
    condition_key,
    encode,
    match_steps,
    staying,
    value_key,
)
from callsheet.ir.expr import Condition, Value
from callsheet.ir.gc_pause import gc_paused
from callsheet.ir.plan import Plan
from callsheet.ir.step import (
    Action,
    Foreach,
    Handling,
    OnFail,
    Retry,
    Step,
    course_after_failure,
    operands_of,
)


class Part(StrEnum):
    """The changed part of the plan's head or of a step."""

    ID = "id"
    TITLE = "title"
    """Of the plan or of a step."""
    GOAL = "goal"
    ORDER = "order"
    """How the execution order is determined."""
    VARIABLE = "variable"
    """An initial variable, by its name."""
    VARIABLE_ORDER = "variable order"
    ACTION = "action"
    """Another kind of action, such as an answer instead of a call."""
    TOOL = "tool"
    ARGUMENT = "argument"
    """By its name, or by its number from 1."""
    ARGUMENT_ORDER = "argument order"
    TARGET = "goto"
    CONDITION = "condition"
    FOREACH = "foreach"
    """A loop that is added or removed."""
    LOOP_VARIABLE = "loop variable"
    LOOP_SOURCE = "loop source"
    OUTPUT = "output"
    CAST = "cast"
    RETRY = "retry"
    ON_FAIL = "on_fail"
    """Where a failure continues."""
    GROUP = "group"
    AFTER = "after"
    """The dependencies of a step in a DAG."""


Node: TypeAlias = (
    "Value | Condition | Action | Handling | Foreach | OnFail | Retry | tuple[str, ...] | str | int | None"
)
"""One side of a change; None if the part is absent there."""


@dataclass(frozen=True, slots=True)
class Change:
    """A changed part; `name` is that of an argument or variable, or an argument's number from 1."""

    part: Part
    old: Node
    new: Node
    name: str | int | None = None


_Item = TypeVar("_Item", bound=Identified)
_Changed = TypeVar("_Changed")


@dataclass(frozen=True, slots=True)
class Pair(Generic[_Item, _Changed]):
    """A pair of matched steps or other parts of two plans, or an added or removed one.

    `old` is None for an added one, `new` for a removed one; `old_index` and `new_index` count from 0.
    `moved` says that its position among those of both plans has changed.
    """

    old: _Item | None
    new: _Item | None
    old_index: int | None
    new_index: int | None
    changes: tuple[_Changed, ...] = ()
    moved: bool = False

    @property
    def is_added(self) -> bool:
        """Whether only the new plan has it."""
        return self.old is None

    @property
    def is_removed(self) -> bool:
        """Whether only the old plan has it."""
        return self.new is None

    @property
    def is_renamed(self) -> bool:
        """Whether both plans have it with different ids."""
        return self.old is not None and self.new is not None and self.old.id != self.new.id

    @property
    def is_same(self) -> bool:
        """Whether it has no differences."""
        both = self.old is not None and self.new is not None
        return both and not (self.changes or self.moved or self.is_renamed)


@dataclass(frozen=True, slots=True)
class StepDiff(Pair[Step, Change]):
    """A pair of matched steps, or an added or removed one."""


_Pair = TypeVar("_Pair", bound="Pair[Any, Any]")


@dataclass(frozen=True, slots=True)
class Diff(Generic[_Pair]):
    """The diff of two plans: changes of the head, and all steps, or declarations and statements.

    `steps` are in the order of the new plan; a removed one comes after what it followed.
    """

    old: Plan
    new: Plan
    head: tuple[Change, ...]
    steps: tuple[_Pair, ...]

    @property
    def is_same(self) -> bool:
        """Whether the plans have no differences."""
        return not self.head and all(step.is_same for step in self.steps)

    def different(self) -> Iterator[_Pair]:
        """The steps with differences."""
        return (step for step in self.steps if not step.is_same)


@dataclass(frozen=True, slots=True)
class PlanDiff(Diff[StepDiff]):
    """The diff of two plans of version 1."""


SameTarget: TypeAlias = "Callable[[str, str], bool]"
"""Whether an id of the old plan and one of the new plan denote the same step."""

Named: TypeAlias = "Sequence[tuple[str, Value]]"


def head_changes(old: Plan, new: Plan) -> Iterator[Change]:
    """The differences between two plans apart from their steps."""
    for part, was, now in (
        (Part.ID, old.id, new.id),
        (Part.TITLE, old.title, new.title),
        (Part.GOAL, old.goal, new.goal),
        (Part.ORDER, str(old.order), str(new.order)),
    ):
        if was != now:
            yield Change(part, was, now)
    yield from _named_changes(old.variables, new.variables, Part.VARIABLE, Part.VARIABLE_ORDER)


def step_changes(old: Step, new: Step, is_same_target: SameTarget) -> Iterator[Change]:
    """The differences between two steps except for their ids and groups."""
    yield from _loop(old, new)
    if condition_key(old.condition) != condition_key(new.condition):
        yield Change(Part.CONDITION, old.condition, new.condition)
    yield from _action(old, new, is_same_target)
    yield from _output(old, new)
    yield from _failure(old.on_fail, new.on_fail, is_same_target)
    if not _same_dependencies(old.depends_on, new.depends_on, is_same_target):
        yield Change(Part.AFTER, old.depends_on, new.depends_on)
    if old.title != new.title:
        yield Change(Part.TITLE, old.title, new.title)


def reference_changes(old: Step, new: Step, is_same_target: SameTarget) -> Iterator[Change]:
    """The differences between two steps of equal content: the steps they refer to."""
    if old.course.jump is not None:
        yield from _action(old, new, is_same_target)
    if old.after_failure.jump is not None:
        yield from _failure(old.on_fail, new.on_fail, is_same_target)
    if not _same_dependencies(old.depends_on, new.depends_on, is_same_target):
        yield Change(Part.AFTER, old.depends_on, new.depends_on)


def _loop(old: Step, new: Step) -> Iterator[Change]:
    was, now = old.foreach, new.foreach
    if was is None or now is None:
        if was is not now:
            yield Change(Part.FOREACH, was, now)
        return
    if was.var != now.var:
        yield Change(Part.LOOP_VARIABLE, was.var, now.var)
    if value_key(was.source) != value_key(now.source):
        yield Change(Part.LOOP_SOURCE, was.source, now.source)


def _action(old: Step, new: Step, is_same_target: SameTarget) -> Iterator[Change]:
    was, now = old.call, new.call
    if type(old.action) is not type(new.action):
        yield Change(Part.ACTION, old.action, new.action)
    elif was is not None and now is not None:
        if was.tool != now.tool:
            yield Change(Part.TOOL, was.tool, now.tool)
        yield from _listed_changes(was.positional, now.positional)
        yield from _named_changes(was.named, now.named, Part.ARGUMENT, Part.ARGUMENT_ORDER)
    else:
        left, leaves = old.course.jump, new.course.jump
        if left is not None and leaves is not None and not is_same_target(left.target, leaves.target):
            yield Change(Part.TARGET, left.target, leaves.target)
        yield from _listed_changes(old.values(), new.values())


def _listed_changes(old: Sequence[Value], new: Sequence[Value]) -> Iterator[Change]:
    """Changes of positional values; a common prefix and suffix are left out.

    A removed value has its old number, an added one its new number.
    """
    was, now = [value_key(v) for v in old], [value_key(v) for v in new]
    start = 0
    while start < min(len(was), len(now)) and was[start] == now[start]:
        start += 1
    end = 0
    while end < min(len(was), len(now)) - start and was[-1 - end] == now[-1 - end]:
        end += 1
    for place in range(start, max(len(was), len(now)) - end):
        before: Node = old[place] if place < len(was) - end else None
        after: Node = new[place] if place < len(now) - end else None
        if before is None or after is None or was[place] != now[place]:
            yield Change(Part.ARGUMENT, before, after, place + 1)


def _named_changes(old: Named, new: Named, part: Part, order: Part) -> Iterator[Change]:
    was, now = dict(old), dict(new)
    for name, value in was.items():
        if name not in now:
            yield Change(part, value, None, name)
        elif value_key(value) != value_key(now[name]):
            yield Change(part, value, now[name], name)
    for name, value in now.items():
        if name not in was:
            yield Change(part, None, value, name)
    common = [name for name in was if name in now]
    expected = [*common, *(name for name in now if name not in was)]
    if expected != list(now):
        yield Change(order, tuple(was), tuple(now))


def _output(old: Step, new: Step) -> Iterator[Change]:
    was, now = old.output, new.output
    before, after = was.var if was else None, now.var if now else None
    if before != after:
        yield Change(Part.OUTPUT, before, after)
    old_cast = str(was.cast) if was and was.cast else None
    new_cast = str(now.cast) if now and now.cast else None
    if old_cast != new_cast:
        yield Change(Part.CAST, old_cast, new_cast)


def _failure(old: OnFail | None, new: OnFail | None, is_same_target: SameTarget) -> Iterator[Change]:
    reported = False
    was, now = old.retry if old else None, new.retry if new else None
    if _retry_key(was) != _retry_key(now):
        reported = True
        yield Change(Part.RETRY, was, now)
    before, after = old.then if old else None, new.then if new else None
    if not _same_handling(before, after, is_same_target):
        reported = True
        yield Change(Part.ON_FAIL, before, after)
    if not reported and (old is None) != (new is None):
        yield Change(Part.ON_FAIL, old, new)


def _retry_key(retry: Retry | None) -> str:
    return "" if retry is None else encode(on_fail_to_json(OnFail(retry)))


def _same_handling(old: Handling | None, new: Handling | None, is_same_target: SameTarget) -> bool:
    if old is None or new is None:
        return old is new
    was, now = course_after_failure(old), course_after_failure(new)
    if was.jump is not None and now.jump is not None:
        return is_same_target(was.jump.target, now.jump.target)
    mine, other = operands_of(old), operands_of(new)
    return type(old) is type(new) and list(map(value_key, mine)) == list(map(value_key, other))


def _same_dependencies(
    old: tuple[str, ...] | None, new: tuple[str, ...] | None, is_same_target: SameTarget
) -> bool:
    if old is None or new is None:
        return old is new
    return len(old) == len(new) and all(map(is_same_target, old, new))


_LARGE = 2_000
"""From this many steps of both plans on the cyclic collector is paused: no reference cycles arise here."""


def diff_steps(old: Plan, new: Plan) -> PlanDiff:
    """The differences between two plans of version 1."""
    with gc_paused(len(old.steps) + len(new.steps) >= _LARGE):
        return _diff(old, new)


def _diff(old: Plan, new: Plan) -> PlanDiff:
    matching = match_steps(old.steps, new.steps)
    references = _References.of(matching)
    groups = _groups(matching)
    pairs = sorted(matching.partner.items())
    stay = staying([j for _, j in pairs])
    moved = {i for position, (i, _) in enumerate(pairs) if position not in stay}
    sides: dict[int, StepDiff] = {}
    for i, j in pairs:
        was, now = old.steps[i], new.steps[j]
        changes = (*_step_changes(matching, i, j, references), *_group_change(was, now, groups))
        sides[j] = StepDiff(was, now, i, j, changes, i in moved)
    return PlanDiff(old, new, tuple(head_changes(old, new)), tuple(in_order(matching, sides, StepDiff)))


def _step_changes(matching: Matching[Step], i: int, j: int, references: _References) -> Iterator[Change]:
    old, new = matching.old[i], matching.new[j]
    is_equal = matching.old_keys[i].content == matching.new_keys[j].content
    changes = reference_changes if is_equal else step_changes
    return changes(old, new, references.are_same)


def in_order(
    matching: Matching[_Item],
    sides: dict[int, _Pair],
    alone: Callable[[_Item | None, _Item | None, int | None, int | None], _Pair],
) -> Iterator[_Pair]:
    """All pairs in the order of the new plan; removed ones come after what they followed.

    `sides` are those of which both plans have a side, by their number in the new one; `alone` makes others.
    """
    behind: dict[int, list[int]] = {}
    anchor = -1
    for i in range(len(matching.old)):
        if i in matching.partner:
            anchor = matching.partner[i]
        else:
            behind.setdefault(anchor, []).append(i)

    def removed(after: int) -> Iterator[_Pair]:
        return (alone(matching.old[i], None, i, None) for i in behind.get(after, ()))

    yield from removed(-1)
    for j, item in enumerate(matching.new):
        yield sides.get(j) or alone(None, item, None, j)
        yield from removed(j)


@dataclass(frozen=True, slots=True)
class _References:
    """Resolves ids to steps: an id denotes the first step that has it."""

    old: dict[str, int]
    new: dict[str, int]
    partner: dict[int, int]

    @classmethod
    def of(cls, matching: Matching[Step]) -> _References:
        return cls(_first_of(matching.old), _first_of(matching.new), matching.partner)

    def are_same(self, old: str, new: str) -> bool:
        """Whether two ids denote matching steps; an unresolved id matches only itself."""
        now, was = self.new.get(new), self.old.get(old)
        if now is None:
            return old == new and was not in self.partner
        return was is not None and self.partner.get(was) == now


def _first_of(steps: Sequence[Step]) -> dict[str, int]:
    places: dict[str, int] = {}
    for place, step in enumerate(steps):
        places.setdefault(step.id, place)
    return places


def _groups(matching: Matching[Step]) -> dict[int, int]:
    """Maps groups of the old plan to those of the new one, greedily by the number of shared steps."""
    shared: Counter[tuple[int, int]] = Counter()
    for i, j in sorted(matching.partner.items()):
        was, now = matching.old[i].group, matching.new[j].group
        if was is not None and now is not None:
            shared[was, now] += 1
    known: dict[int, int] = {}
    taken: set[int] = set()
    for (was, now), _ in sorted(shared.items(), key=lambda item: (-item[1], item[0])):
        if was not in known and now not in taken:
            known[was] = now
            taken.add(now)
    return known


def _group_change(old: Step, new: Step, groups: dict[int, int]) -> Iterator[Change]:
    same = old.group is new.group is None or (
        old.group is not None and new.group is not None and groups.get(old.group) == new.group
    )
    if not same:
        yield Change(Part.GROUP, old.group, new.group)
