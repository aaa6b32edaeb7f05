"""Changes that preserve the meaning of a plan: its result and its verdict stay the same.

In: a plan or its text, and a random generator. Out: another plan of the same meaning, None if there is
nothing to change. Names that the changes introduce end in `_zz`, which no case uses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any, TypeAlias

from callsheet.frontends.ltp import format_plan, parse
from callsheet.frontends.micro import format_micro, parse_micro
from callsheet.ir import (
    And,
    Call,
    Compare,
    CompareOp,
    Condition,
    DictExpr,
    Foreach,
    Goto,
    IsEmpty,
    ListExpr,
    Literal,
    Not,
    NotEmpty,
    OnFail,
    Or,
    Output,
    Plan,
    Ref,
    Step,
    Template,
    Terminate,
    Value,
)
from callsheet.ir.expr import template

Change: TypeAlias = "Callable[[Plan, Random], Plan | None]"
GROUP = 9_000


def read(text: Any) -> Plan | None:
    """The plan of a case; None if it has errors or is not LTP text."""
    if not isinstance(text, str):
        return None
    found = parse(text)
    return None if any(d.is_error for d in found.diagnostics) else found.plan


# ---------------------------------------------------------------- names


def with_values(step: Step, put: Callable[[Ref], Ref]) -> Step:
    """The step with other references; the variable of its own loop is kept."""
    loop = step.foreach
    own = None if loop is None else loop.var

    def inside(ref: Ref) -> Ref:
        return ref if ref.name == own else put(ref)

    action, then = step.action, step.on_fail.then if step.on_fail is not None else None
    if isinstance(action, Call):
        named = tuple((name, _value(value, inside)) for name, value in action.named)
        action = replace(action, positional=_values(action.positional, inside), named=named)
    elif not isinstance(action, Goto):
        action = replace(action, values=_values(action.values, inside))
    if isinstance(then, Terminate) and step.on_fail is not None:
        on_fail: OnFail | None = replace(step.on_fail, then=Terminate(_values(then.values, inside)))
    else:
        on_fail = step.on_fail
    return replace(
        step,
        action=action,
        on_fail=on_fail,
        foreach=None if loop is None else replace(loop, source=_value(loop.source, put)),
        condition=None if step.condition is None else _condition(step.condition, inside),
    )


def _values(values: Iterable[Value], put: Callable[[Ref], Ref]) -> tuple[Value, ...]:
    return tuple(_value(value, put) for value in values)


def _value(value: Value, put: Callable[[Ref], Ref]) -> Value:
    match value:
        case Ref():
            return put(value)
        case Template(parts=parts):
            return template([part if isinstance(part, str) else put(part) for part in parts])
        case ListExpr(items=items):
            return ListExpr(_values(items, put))
        case DictExpr(items=pairs):
            return DictExpr(tuple((key, _value(item, put)) for key, item in pairs))
        case _:
            return value


def _condition(condition: Condition, put: Callable[[Ref], Ref]) -> Condition:
    match condition:
        case Compare(op=op, left=left, right=right):
            return Compare(op, _value(left, put), _value(right, put))
        case IsEmpty(value=value):
            return IsEmpty(_value(value, put))
        case NotEmpty(value=value):
            return NotEmpty(_value(value, put))
        case Not(condition=inner):
            return Not(_condition(inner, put))
        case And(conditions=inner):
            return And(tuple(_condition(one, put) for one in inner))
        case Or(conditions=inner):
            return Or(tuple(_condition(one, put) for one in inner))


def names_read(step: Step) -> list[str]:
    """The variables that a step reads, except that of its own loop."""
    found: dict[str, None] = {}

    def note(ref: Ref) -> Ref:
        found[ref.name] = None
        return ref

    with_values(step, note)
    return list(found)


def renamed(plan: Plan, chance: Random) -> Plan:
    """Every variable renamed."""
    number = chance.randrange(100)

    def other(name: str) -> str:
        return f"{name}_{number}_zz"

    def step(one: Step) -> Step:
        alone = with_values(replace(one, foreach=None), lambda ref: replace(ref, name=other(ref.name)))
        loop, output = one.foreach, one.output
        if loop is not None:
            source = _value(loop.source, lambda ref: replace(ref, name=other(ref.name)))
            loop = Foreach(other(loop.var), source)
        return replace(
            alone, foreach=loop, output=None if output is None else replace(output, var=other(output.var))
        )

    return replace(plan, steps=tuple(step(one) for one in plan.steps))


# ---------------------------------------------------------------- steps that tell nothing


def step_of(action: Any, output: str | None = None, **more: Any) -> Step:
    """A step with a unique id derived from the names that it sets and reads."""
    return Step("zz", action, output=None if output is None else Output(output), **more)


def form(value: Value, output: str, **more: Any) -> Step:
    """A step that makes a text from a value."""
    return step_of(Call("FORMAT", (value,)), output, **more)


def tool(name: str, *given: Value, **named: Value) -> Call:
    """A call with these arguments."""
    return Call(name, given, tuple(named.items()))


ALWAYS, NEVER = (Compare(CompareOp.EQ, Literal("a"), Literal(text)) for text in "ab")
X = Literal("x")
_NOTHING: Mapping[str, Callable[[], list[Step]]] = {
    "a text": lambda: [form(X, "t_zz")],
    "a step that is left out": lambda: [form(X, "t_zz", condition=NEVER)],
    "a group": lambda: [form(X, "t_zz", group=GROUP), form(X, "u_zz", group=GROUP)],
    "a loop": lambda: [form(Ref("i_zz"), "t_zz", foreach=Foreach("i_zz", ListExpr((X, X))))],
}


def _beside(make: Callable[[], list[Step]]) -> Change:
    def change(plan: Plan, chance: Random) -> Plan | None:
        steps = plan.steps
        places = [
            n for n, one in enumerate(steps) if n == 0 or one.group is None or one.group != steps[n - 1].group
        ]
        return put_in(plan, chance.choice(places), make())

    return change


def put_in(plan: Plan, place: int, steps: list[Step]) -> Plan:
    """The plan with these steps inserted before the one at an index; jumps to that one lead to them."""
    apart = [replace(step, id=f"Z{number}_zz") for number, step in enumerate(steps)]
    target = plan.steps[place].id

    def led(step: Step) -> Step:
        action, then = step.action, step.on_fail.then if step.on_fail is not None else None
        if isinstance(action, Goto) and action.target == target:
            action = Goto(apart[0].id)
        if isinstance(then, Goto) and then.target == target and step.on_fail is not None:
            return replace(step, action=action, on_fail=replace(step.on_fail, then=Goto(apart[0].id)))
        return replace(step, action=action)

    before, behind = plan.steps[:place], plan.steps[place:]
    return replace(plan, steps=(*map(led, before), *apart, *map(led, behind)))


# ---------------------------------------------------------------- other forms


def with_equivalent_conditions(plan: Plan, chance: Random) -> Plan | None:
    """Swapped comparisons, negated opposites, and De Morgan's laws."""

    def said(condition: Condition) -> Condition:
        match condition:
            case Compare(op=op, left=left, right=right) if op in _FLIPPED:
                opposite = _OPPOSITE.get(op)
                if opposite is not None and chance.random() < 0.5:
                    return Not(Compare(opposite, left, right))
                return Compare(_FLIPPED[op], right, left)
            case Compare():
                return Not(Not(condition))
            case IsEmpty(value=value):
                return Not(NotEmpty(value))
            case NotEmpty(value=value):
                return Not(IsEmpty(value))
            case Not(condition=inner):
                return Not(said(inner))
            case And(conditions=inner):
                return Not(Or(tuple(Not(said(one)) for one in inner)))
            case Or(conditions=inner):
                return Not(And(tuple(Not(said(one)) for one in inner)))

    if all(step.condition is None for step in plan.steps):
        return None
    return replace(
        plan,
        steps=tuple(
            step if step.condition is None else replace(step, condition=said(step.condition))
            for step in plan.steps
        ),
    )


_OPPOSITE = {CompareOp.EQ: CompareOp.NE, CompareOp.NE: CompareOp.EQ}
_FLIPPED = {
    CompareOp.EQ: CompareOp.EQ,
    CompareOp.NE: CompareOp.NE,
    CompareOp.GT: CompareOp.LT,
    CompareOp.LT: CompareOp.GT,
    CompareOp.GE: CompareOp.LE,
    CompareOp.LE: CompareOp.GE,
}


def guarded_by_true_condition(plan: Plan, chance: Random) -> Plan:
    """One more step under a condition that always holds."""
    place = chance.randrange(len(plan.steps))
    step = plan.steps[place]
    both = step.condition
    condition = (
        ALWAYS if both is None else And((ALWAYS, *(both.conditions if isinstance(both, And) else (both,))))
    )
    return replace(
        plan, steps=(*plan.steps[:place], replace(step, condition=condition), *plan.steps[place + 1 :])
    )


def in_own_group(plan: Plan, chance: Random) -> Plan | None:
    """A call without jumps, in its own group."""
    places = [
        number
        for number, step in enumerate(plan.steps)
        if step.group is None
        and isinstance(step.action, Call)
        and (step.on_fail is None or step.on_fail.then is None)
    ]
    if not places:
        return None
    place = chance.choice(places)
    grouped = replace(plan.steps[place], group=GROUP)
    return replace(plan, steps=(*plan.steps[:place], grouped, *plan.steps[place + 1 :]))


def as_shorthand(plan: Plan, chance: Random) -> Plan | None:
    """The plan written in Micro-CLI and read again, if its ids are those of Micro-CLI."""
    if [step.id for step in plan.steps] != [f"S{number}" for number in range(1, len(plan.steps) + 1)]:
        return None
    return parse_micro(format_micro(plan)).require()


FORMS: Mapping[str, Change] = {
    "conditions in other words": with_equivalent_conditions,
    "a condition that holds": guarded_by_true_condition,
    "a group of one": in_own_group,
    "shorthand": as_shorthand,
    "canonical": lambda plan, chance: read(format_plan(plan)),
}
NEUTRAL: Mapping[str, Change] = {**FORMS, "renamed": renamed, **{n: _beside(m) for n, m in _NOTHING.items()}}


# ---------------------------------------------------------------- texts

_STEP = re.compile(r"\s*(?:[A-Za-z_][\w-]*:|@PARALLEL|\}|PLAN_|#|\?|$)")

_TOOL = re.compile(r"@(?!PARALLEL|RETRY)[A-Z_]+(?= ?\()")


def _lines(change: Callable[[str], str]) -> Callable[[str], str | None]:
    """A change of each line, for plans with one step per line."""

    def of_text(text: str) -> str | None:
        lines = text.split("\n")
        plain = all(_STEP.match(line) and line.count('"') % 2 == 0 for line in lines) and '"""' not in text
        return "\n".join(map(change, lines)) if plain else None

    return of_text


TEXTS: Mapping[str, Callable[[str], str | None]] = {
    "other ends of lines": _lines(lambda line: line + "\r"),
    "blanks behind": _lines(lambda line: line + "  "),
    "tabs in front": _lines(lambda line: "\t" + line),
    "empty lines": _lines(lambda line: line + "\n"),
    "comments": _lines(lambda line: line if line.strip() == "PLAN_START" else f"# S9: @HOST_EXEC\n{line}"),
    "small letters": _lines(lambda line: _TOOL.sub(lambda found: found[0].lower(), line)),
    "a byte order mark": lambda text: "\ufeff" + text,
    "a fence": lambda text: f"```ltp\n{text}\n```",
}  # fmt: skip
