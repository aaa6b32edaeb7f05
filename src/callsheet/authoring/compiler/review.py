"""Looks over a plan of version 1 in a model's answer: names of variables, results that would be lost.

Pure. In: a plan. Out: the plan with descriptive names, and with an answer that has what it looked up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from callsheet.ir import (
    SAYING,
    And,
    CallKind,
    Compare,
    Condition,
    DictExpr,
    Ending,
    IsEmpty,
    ListExpr,
    Literal,
    Not,
    NotEmpty,
    Or,
    Plan,
    Ref,
    Respond,
    Step,
    Template,
    Value,
)
from callsheet.ir.expr import names_in

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
        yield from _reads(step)


def _word_for(step: Step) -> str:
    """The name for a step's result: the tool's name without its verb."""
    if step.call is None:
        return "result"
    tool = step.call.tool
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
    return replace(
        step.with_values(lambda value: _value(value, inner)),
        foreach=None if foreach is None else replace(foreach, source=_value(foreach.source, rename)),
        condition=None if step.condition is None else _condition(step.condition, inner),
        output=None if step.output is None else replace(step.output, var=rename(step.output.var)),
    )


def _but(unchanged: str, rename: Rename) -> Rename:
    """The renaming inside a loop, which leaves the loop variable `unchanged`."""
    return lambda name: name if name == unchanged else rename(name)


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
            return replace(value, items=tuple([_value(item, rename) for item in items]))
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


def with_whole_answer(plan: Plan) -> Plan:
    """The plan with an answer at its end that includes the results which would otherwise be lost.

    A plan without an answer gets one with the result of its last call. A result is lost if no later step
    reads it: small models look up two things and answer with one. Only results of reading tools are added,
    and only those of unconditional steps.

    >>> from callsheet.frontends.ltp import format_plan, parse
    >>> plan = parse('S1: @READ_FILE (path="a") > $a\\nS2: @READ_FILE (path="b") > $b').require()
    >>> print(format_plan(with_whole_answer(plan)).splitlines()[4])
    S3: @RESPOND ($a, $b)
    """
    return _with_lost(_with_answer(plan))


def _with_answer(plan: Plan) -> Plan:
    if any(step.course.ends in SAYING and step.condition is None for step in plan.steps):
        return plan
    outputs = [step.output.var for step in plan.steps if step.output is not None]
    ids = {step.id for step in plan.steps}
    number = next(n for n in range(len(ids) + 1, 2 * len(ids) + 3) if f"S{n}" not in ids)
    answer = Ref(outputs[-1]) if outputs else Literal("Done.")
    return replace(plan, steps=(*plan.steps, Step(f"S{number}", Respond((answer,)))))


def _with_lost(plan: Plan) -> Plan:
    last = plan.steps[-1]
    if last.course.ends is not Ending.ANSWER or last.condition is not None:
        return plan
    read = {name for step in plan.steps for name in _reads(step)}
    lost = [step.output.var for step in plan.steps if step.output is not None and _looks_up(step)]
    missing = [name for name in dict.fromkeys(lost) if name not in read]
    if not missing:
        return plan
    names = [step.output.var for step in plan.steps if step.output is not None]
    values = [*last.values(), *map(Ref, missing)]
    if all(isinstance(value, Ref) for value in values):  # in the order of the lookups
        values.sort(
            key=lambda value: (
                names.index(value.name) if isinstance(value, Ref) and value.name in names else -1
            )
        )
    return replace(plan, steps=(*plan.steps[:-1], replace(last, action=Respond(tuple(values)))))


def _looks_up(step: Step) -> bool:
    """Whether a step always runs and looks something up."""
    if step.call is None or step.condition is not None:
        return False
    words = step.call.tool.rpartition("__")[2].lower().split("_")
    return step.call.kind is not CallKind.TOOL or words[0] in READING


def _reads(step: Step) -> Iterator[str]:
    """The names of the variables that a step reads."""
    return (name for _, nodes in step.reads() for name in names_in(nodes))
