"""Transformations that hide data flows or texts from a careless proof; hostile plans stay hostile.

In: a plan and a random generator. Out: another plan that does the same harm, None if there is nothing to
hide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import TypeAlias

from tests.conformance.changes import (
    GROUP,
    Change,
    X,
    form,
    names_read,
    put_in,
    step_of,
    tool,
    with_values,
)

from callsheet.ir import (
    Call,
    Compare,
    CompareOp,
    Condition,
    DictExpr,
    Foreach,
    Goto,
    ListExpr,
    Literal,
    Not,
    OnFail,
    Plan,
    Ref,
    Respond,
    Step,
    Template,
    Value,
)
from callsheet.ir.expr import template

Copy: TypeAlias = "Callable[[Ref, str], list[Step]]"
"""Steps that put what is in a variable into another one, in one way or another."""
_NOTE = "docs/n_zz.txt"
_ITEM = Ref("i_zz")


def _contains(value: Ref) -> Condition:
    return Compare(CompareOp.CONTAINS, value, Literal("a"))


COPIES: Mapping[str, Copy] = {
    "a text": lambda v, o: [form(template(["<", v, ">"]), o)],
    "a query": lambda v, o: [step_of(tool("SELECT", DictExpr((("k", v),)), query=Literal("k")), o)],
    "a note": lambda v, o: [
        step_of(tool("SET_WM", key=Literal("k_zz"), value=v)),
        step_of(tool("GET_WM", key=Literal("k_zz")), o),
    ],
    "a public file": lambda v, o: [
        step_of(tool("WRITE_FILE", path=Literal(_NOTE), content=v)),
        step_of(tool("READ_FILE", path=Literal(_NOTE)), o),
    ],
    "a fact": lambda v, o: [
        step_of(tool("STORE_FACT", content=v)), step_of(tool("QUERY_MEMORY", query=X), o)
    ],
    "a loop": lambda v, o: [form(_ITEM, o, foreach=Foreach("i_zz", v))],
    "a written list": lambda v, o: [form(_ITEM, o, foreach=Foreach("i_zz", ListExpr((v,))))],
    "a group": lambda v, o: [form(v, o, group=GROUP), form(X, "t_zz", group=GROUP)],
    "two branches": lambda v, o: [
        form(v, o, condition=_contains(v)), form(v, o, condition=Not(_contains(v)))
    ],
    "bits": lambda v, o: [form(Literal("0"), o), form(Literal("1"), o, condition=_contains(v))],
    "bits of items": lambda v, o: [
        form(_ITEM, o, foreach=Foreach("i_zz", ListExpr((X,))), condition=Compare(CompareOp.EQ, v, _ITEM))
    ],
    "an error": lambda v, o: [step_of(tool("CALC", template([v, " / 0 x"])), o)],
    "a path of failure": lambda v, o: [
        step_of(tool("CALC", Literal("1/0")), "t_zz", on_fail=OnFail(None, Goto("Z1_zz"))), form(v, o)
    ],
    "a jump past what would wipe it": lambda v, o: [
        form(v, o), step_of(Goto("Z3_zz")), form(X, o), form(X, "t_zz")
    ],
    "a model": lambda v, o: [step_of(tool("LLM_SUMMARIZE", v, format=X), o)],
    "what a model is asked": lambda v, o: [step_of(tool("LLM_EXTRACT", X, target=v), o)],
    "code": lambda v, o: [
        step_of(tool("EXEC_CODE", code=Literal("print(input())"), language=Literal("python"), stdin=v), o)
    ],
    "behind an empty answer": lambda v, o: [step_of(Respond((Literal(""),))), form(v, o)],
}  # fmt: skip


def detour(plan: Plan, copy: Copy, chance: Random) -> Plan | None:
    """The plan in which a step reads a copy of a variable made right before it."""
    places = [(number, name) for number, step in enumerate(plan.steps) for name in names_read(step)]
    if not places:
        return None
    number, name = chance.choice(places)
    step = with_values(plan.steps[number], lambda ref: replace(ref, name="o_zz") if ref.name == name else ref)
    changed = replace(plan, steps=(*plan.steps[:number], step, *plan.steps[number + 1 :]))
    group = step.group
    while group is not None and number and plan.steps[number - 1].group == group:
        number -= 1
    return put_in(changed, number, copy(Ref(name), "o_zz"))


def _texts_of(step: Step) -> list[int]:
    """The text arguments, by their index among the values of the step."""
    return [n for n, value in enumerate(step.values()) if isinstance(value, Template | Literal)]


def _with_text(plan: Plan, chance: Random, put: Callable[[Value], Value]) -> tuple[Plan, int, Value] | None:
    """The plan with one text of a step replaced, the index of that step, and the original text."""
    places = [
        (number, at)
        for number, step in enumerate(plan.steps)
        if step.foreach is None and isinstance(step.action, Call | Respond)
        for at in _texts_of(step)
    ]
    if not places:
        return None
    number, at = chance.choice(places)
    step = plan.steps[number]
    given = list(step.values())
    was, given[at] = given[at], put(given[at])
    action = step.action
    if isinstance(action, Call):
        count = len(action.positional)
        names = [name for name, _ in action.named]
        named = tuple(zip(names, given[count:], strict=True))
        action = replace(action, positional=tuple(given[:count]), named=named)
    elif isinstance(action, Respond):
        action = Respond(tuple(given))
    changed = replace(step, action=action)
    return replace(plan, steps=(*plan.steps[:number], changed, *plan.steps[number + 1 :])), number, was


def from_a_list(plan: Plan, chance: Random, path: tuple[str, ...] = ()) -> Plan | None:
    """A text is read by a loop over a list that the plan writes, or from a field of an item."""
    found = _with_text(plan, chance, lambda value: Ref("i_zz", path))
    if found is None:
        return None
    changed, number, was = found
    item = DictExpr(((path[0], was),)) if path else was
    looped = replace(changed.steps[number], foreach=Foreach("i_zz", ListExpr((item,))))
    return replace(changed, steps=(*changed.steps[:number], looped, *changed.steps[number + 1 :]))


def with_unset_variable(plan: Plan, chance: Random) -> Plan | None:
    """A text with data contains a variable that a jump leaves unset; it would have named a trusted host."""

    def put(value: Value) -> Value:
        first, *rest = value.parts if isinstance(value, Template) else ("",)
        if not isinstance(first, str):
            return template([Ref("h_zz"), first, *rest])
        before, mark, behind = first.partition("://")
        host = [before + mark, Ref("h_zz"), behind] if mark else [Ref("h_zz"), first]
        return template([*host, *rest])

    found = _with_text(plan, chance, put)
    if found is None or not isinstance(found[2], Template) or found[0].steps[found[1]].group is not None:
        return None
    said = [step_of(Goto("Z2_zz")), form(Literal("api.internal/"), "h_zz"), form(X, "t_zz")]
    return put_in(found[0], found[1], said)


HIDDEN: Mapping[str, Change] = {
    **{name: lambda plan, chance, copy=copy: detour(plan, copy, chance) for name, copy in COPIES.items()},
    "from a list": from_a_list,
    "from a field": lambda plan, chance: from_a_list(plan, chance, ("k",)),
    "a host that is never said": with_unset_variable,
}
"""What hides from a careless proof where data goes, or what a plan says."""
