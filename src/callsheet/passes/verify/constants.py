"""Constant propagation: finds variables that hold one known literal wherever they are read.

In: a plan, its control flow, what each step reads. Out: literals by name. Linear in the plan and its texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from callsheet.ir import Call, Literal, Order, Plan, Ref, Step, Template, Value
from callsheet.ir.dominators import NONE
from callsheet.ir.flow import Flow, is_guarded
from callsheet.ir.precedence import Precedence
from callsheet.passes.verify.call_views import literal_text
from callsheet.passes.verify.position import RunPosition, literal_of
from callsheet.passes.verify.read_uses import Reading

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
        if step.output is not None and step.output.cast is None and not is_guarded(step) and _is_format(step)
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
    action = step.action
    if not isinstance(action, Call) or action.tool != "FORMAT":
        return False
    return len(action.positional) + len(action.named) == 1 and all(name == "text" for name, _ in action.named)


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
