"""Compares two matched steps, or the heads of two plans, part by part.

In: the old and new step, and a predicate for whether two ids denote the same step. Out: changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from callsheet.ir.canon import on_fail_to_json
from callsheet.ir.diff.keys import condition_key, encode, value_key
from callsheet.ir.diff.result import Change, Node, Part
from callsheet.ir.expr import Value
from callsheet.ir.plan import Plan
from callsheet.ir.step import Action, Call, Goto, OnFail, Replan, Respond, Retry, Step, Terminate

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
    yield from _action(old.action, new.action, is_same_target)
    yield from _output(old, new)
    yield from _failure(old.on_fail, new.on_fail, is_same_target)
    if not _same_dependencies(old.depends_on, new.depends_on, is_same_target):
        yield Change(Part.AFTER, old.depends_on, new.depends_on)
    if old.title != new.title:
        yield Change(Part.TITLE, old.title, new.title)


def reference_changes(old: Step, new: Step, is_same_target: SameTarget) -> Iterator[Change]:
    """The differences between two steps of equal content: the steps they refer to."""
    if isinstance(old.action, Goto):
        yield from _action(old.action, new.action, is_same_target)
    if old.on_fail is not None and isinstance(old.on_fail.then, Goto):
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


def _action(old: Action, new: Action, is_same_target: SameTarget) -> Iterator[Change]:
    match old, new:
        case Call(), Call():
            if old.tool != new.tool:
                yield Change(Part.TOOL, old.tool, new.tool)
            yield from _listed_changes(old.positional, new.positional)
            yield from _named_changes(old.named, new.named, Part.ARGUMENT, Part.ARGUMENT_ORDER)
        case (Respond(), Respond()) | (Terminate(), Terminate()) | (Replan(), Replan()):
            yield from _listed_changes(old.values, new.values)
        case Goto(), Goto():
            if not is_same_target(old.target, new.target):
                yield Change(Part.TARGET, old.target, new.target)
        case _:
            yield Change(Part.ACTION, old, new)


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
    if not _same_action(before, after, is_same_target):
        reported = True
        yield Change(Part.ON_FAIL, before, after)
    if not reported and (old is None) != (new is None):
        yield Change(Part.ON_FAIL, old, new)


def _retry_key(retry: Retry | None) -> str:
    return "" if retry is None else encode(on_fail_to_json(OnFail(retry)))


def _same_action(
    old: Goto | Terminate | None, new: Goto | Terminate | None, is_same_target: SameTarget
) -> bool:
    match old, new:
        case Goto(), Goto():
            return is_same_target(old.target, new.target)
        case Terminate(), Terminate():
            return [value_key(v) for v in old.values] == [value_key(v) for v in new.values]
        case _:
            return old is None and new is None


def _same_dependencies(
    old: tuple[str, ...] | None, new: tuple[str, ...] | None, is_same_target: SameTarget
) -> bool:
    if old is None or new is None:
        return old is new
    return len(old) == len(new) and all(map(is_same_target, old, new))
