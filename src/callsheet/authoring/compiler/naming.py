"""Gives descriptive names to the variables of a plan that are called v1, v2, ….

Pure. In: a plan. Out: the plan with other names for variables that its own steps set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from callsheet.ir import (
    Action,
    And,
    Call,
    Compare,
    Condition,
    DictExpr,
    IsEmpty,
    ListExpr,
    Literal,
    Not,
    NotEmpty,
    Or,
    Plan,
    Ref,
    Replan,
    Respond,
    Step,
    Template,
    Terminate,
    Value,
)
from callsheet.ir.expr import refs_of

_CANONICAL = re.compile(r"v\d{1,3}")
_LONGEST = 24
_BY_TOOL = {
    "LLM_EXTRACT": "extract",
    "LLM_CLASSIFY": "kind",
    "LLM_SUMMARIZE": "summary",
    "LLM_TRANSLATE": "translation",
    "LLM_EVALUATE": "verdict",
    "LLM_ANALYZE": "analysis",
    "LLM_GENERATE": "text",
    "CALC": "number",
    "SELECT": "selection",
    "FORMAT": "text",
    "ASK_HUMAN": "answer",
}
READING = frozenset(["get", "read", "list", "fetch", "find", "search", "load", "show", "look", "query"])
"""The verbs at the beginning of tool names that look something up."""
_VERBS = READING | {"create", "make", "run"}

Rename = Callable[[str], str]


def with_telling_names(plan: Plan, taken: Collection[str] = ()) -> Plan:
    """The plan with descriptive names for its variables v1, v2, …; other variables stay.

    `taken` are names that already mean something, such as variables given to the run.

    >>> from callsheet.frontends.ltp import format_plan, parse
    >>> text = 'S1: @READ_FILE (path="a") > $v1\\nS2: @RESPOND ("Here: $v1")'
    >>> print(format_plan(with_telling_names(parse(text).require())).splitlines()[2])
    S1: @READ_FILE (path="a") > $file
    """
    used = {*taken, *_mentioned(plan.steps)}
    names: dict[str, str] = {}
    for step in plan.steps:
        if step.output is None or not _is_canonical(step.output.var) or step.output.var in taken:
            continue
        if step.output.var not in names:
            names[step.output.var] = _free(_word_for(step), used)
            used.add(names[step.output.var])
    if not names:
        return plan
    return replace(
        plan, steps=tuple(renamed(step, lambda name: names.get(name, name)) for step in plan.steps)
    )


def _is_canonical(name: str) -> bool:
    return _CANONICAL.fullmatch(name) is not None


def _mentioned(steps: Iterable[Step]) -> Iterator[str]:
    """The names of all variables that steps set or read."""
    for step in steps:
        if step.output is not None:
            yield step.output.var
        if step.foreach is not None:
            yield step.foreach.var
            yield from (ref.name for ref in refs_of(step.foreach.source))
        if step.condition is not None:
            yield from (ref.name for ref in refs_of(step.condition))
        for value in (*step.values(), *step.failure_values()):
            yield from (ref.name for ref in refs_of(value))


def _word_for(step: Step) -> str:
    """The name for a step's result: the tool's name without its verb."""
    if not isinstance(step.action, Call):
        return "result"
    tool = step.action.tool
    if tool in _BY_TOOL:
        return _BY_TOOL[tool]
    words = [word for word in tool.rpartition("__")[2].lower().split("_") if word]
    if len(words) > 1 and words[0] in _VERBS:
        words = words[1:]
    word = "_".join(words)[:_LONGEST].strip("_")
    return word if re.match(r"[a-z_]", word) and not _is_canonical(word) else "result"


def _free(word: str, used: Collection[str]) -> str:
    name, number = word, 1
    while name in used:
        number += 1
        name = f"{word}_{number}"
    return name


def renamed(step: Step, rename: Rename) -> Step:
    """A step with its variables renamed, except its own loop variable."""
    inner = rename if step.foreach is None else _but(step.foreach.var, rename)
    foreach = step.foreach
    on_fail = step.on_fail
    if on_fail is not None and isinstance(on_fail.then, Terminate):
        action = replace(on_fail.then, values=_values(on_fail.then.values, inner))
        on_fail = replace(on_fail, then=action)
    return replace(
        step,
        action=_action(step.action, inner),
        foreach=None if foreach is None else replace(foreach, source=_value(foreach.source, rename)),
        condition=None if step.condition is None else _condition(step.condition, inner),
        output=None if step.output is None else replace(step.output, var=rename(step.output.var)),
        on_fail=on_fail,
    )


def _but(unchanged: str, rename: Rename) -> Rename:
    """The renaming inside a loop, which leaves the loop variable `unchanged`."""
    return lambda name: name if name == unchanged else rename(name)


def _action(action: Action, rename: Rename) -> Action:
    match action:
        case Call(positional=positional, named=named):
            pairs = tuple((name, _value(value, rename)) for name, value in named)
            return replace(action, positional=_values(positional, rename), named=pairs)
        case Respond() | Terminate() | Replan():
            return replace(action, values=_values(action.values, rename))
        case _:
            return action


def _values(values: Iterable[Value], rename: Rename) -> tuple[Value, ...]:
    return tuple(_value(value, rename) for value in values)


def _value(value: Value, rename: Rename) -> Value:
    match value:
        case Literal():
            return value
        case Ref(name=name):
            return replace(value, name=rename(name))
        case Template(parts=parts):
            result = (
                replace(part, name=rename(part.name)) if isinstance(part, Ref) else part for part in parts
            )
            return replace(value, parts=tuple(result))
        case ListExpr(items=items):
            return replace(value, items=_values(items, rename))
        case DictExpr(items=pairs):
            return replace(value, items=tuple((key, _value(item, rename)) for key, item in pairs))


def _condition(condition: Condition, rename: Rename) -> Condition:
    match condition:
        case Compare(left=left, right=right):
            return replace(condition, left=_value(left, rename), right=_value(right, rename))
        case IsEmpty() | NotEmpty():
            return replace(condition, value=_value(condition.value, rename))
        case Not(condition=inner):
            return replace(condition, condition=_condition(inner, rename))
        case And() | Or():
            return replace(condition, conditions=tuple(_condition(c, rename) for c in condition.conditions))
