"""Reduces a plan to its effect: its calls, what flows into each, under which condition, how often.

In: a plan and the calls that count. Out: an `Outline` without the names of variables, the ids of steps, and
calls that only pass data on (model operations, transforms).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from callsheet.ir import (
    And,
    Call,
    Compare,
    CompareOp,
    Condition,
    DictExpr,
    Goto,
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
    Terminate,
    Value,
)
from callsheet.passes import ToolSignature

Origins: TypeAlias = frozenset[int]
"""The numbers of the counted calls (from 0) whose results something is made of."""
Atom: TypeAlias = tuple[Any, ...]
NOWHERE: Origins = frozenset()
_HOLE = "\0"
"""Stands for a reference in a text."""
_NEGATED = {
    CompareOp.EQ: CompareOp.NE,
    CompareOp.NE: CompareOp.EQ,
    CompareOp.GT: CompareOp.LE,
    CompareOp.LE: CompareOp.GT,
    CompareOp.LT: CompareOp.GE,
    CompareOp.GE: CompareOp.LT,
}
_WORDS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Given:
    """An argument or an answer: its text with gaps, the source of its data, and the last key of the path."""

    text: str
    origins: Origins
    path: str = ""


@dataclass(frozen=True, slots=True)
class Deed:
    """A call that counts."""

    tool: str
    step: str
    args: Mapping[str, Given]
    positional: Origins
    when: frozenset[Atom]
    each: Origins
    group: int | None
    retries: int
    gives_up: str | None
    """The words with which the plan ends when the call fails; None where it does not end so."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a plan may end."""

    given: Given
    when: frozenset[Atom]


@dataclass(slots=True)
class Outline:
    """The calls that count in the order of the text, and the answers."""

    deeds: list[Deed] = field(default_factory=list[Deed])
    answers: list[Answer] = field(default_factory=list[Answer])


def called(plan: Plan) -> list[str]:
    """The names of all calls of a plan, in the order of its text."""
    return [step.action.tool for step in plan.steps if isinstance(step.action, Call)]


def outline(plan: Plan, tools: Mapping[str, ToolSignature], counted: Collection[str]) -> Outline:
    """The outline of a plan; `counted` names the operations that count in addition to the tools."""
    found = Outline()
    origins: dict[str, Origins] = {}
    ended: frozenset[Atom] = frozenset()
    for step in plan.steps:
        known = dict(origins)
        each = NOWHERE
        if step.foreach is not None:
            each = _given([step.foreach.source], origins).origins
            known[step.foreach.var] = each
        own = _atoms(step.condition, known) if step.condition is not None else frozenset[Atom]()
        when = own | ended
        match step.action:
            case Call() as call:
                made = _deed(step, call, known, when, each, tools, plan)
                if call.tool in tools or call.tool in counted:
                    made_of = frozenset({len(found.deeds)})
                    found.deeds.append(made)
                else:
                    made_of = made.positional.union(each, *(arg.origins for arg in made.args.values()))
                if step.output is not None:
                    before = origins.get(step.output.var, NOWHERE) if own else NOWHERE
                    origins[step.output.var] = made_of | before
            case Respond(values=values) | Terminate(values=values):
                found.answers.append(Answer(_given(values, known), when))
                if own and step.foreach is None:
                    ended |= _negated(own)
            case _:
                pass
    return found


def _deed(
    step: Step,
    call: Call,
    known: Mapping[str, Origins],
    when: frozenset[Atom],
    each: Origins,
    tools: Mapping[str, ToolSignature],
    plan: Plan,
) -> Deed:
    names = tools[call.tool].parameters if call.tool in tools else ()
    args = {name: _given([value], known) for name, value in call.named}
    loose = list(call.positional)
    for name in names:
        if loose and name not in args:
            args[name] = _given([loose.pop(0)], known)
    retry = step.on_fail.retry.count if step.on_fail is not None and step.on_fail.retry else 0
    rest = _given(loose, known).origins
    return Deed(call.tool, step.id, args, rest, when, each, step.group, retry, _giving_up(step, plan, known))


def _giving_up(step: Step, plan: Plan, known: Mapping[str, Origins]) -> str | None:
    match step.on_fail.then if step.on_fail is not None else None:
        case Terminate(values=values):
            return _given(values, known).text
        case Goto(target=target):
            there = plan.step(target)
            if there is not None and isinstance(there.action, Respond | Terminate):
                return _given(there.action.values, known).text
            return None
        case None:
            return None


def _given(values: Iterable[Value], known: Mapping[str, Origins]) -> Given:
    """The outline of values; the path is that of a value that is a single reference."""
    made: Origins = NOWHERE
    texts: list[str] = []
    all_values = list(values)
    for value in all_values:
        text, origins = _text(value, known)
        texts.append(text)
        made |= origins
    only = all_values[0] if len(all_values) == 1 else None
    path = str(only.path[-1]) if isinstance(only, Ref) and only.path else ""
    return Given(" ".join(texts), made, path.lower())


def _text(value: Value, known: Mapping[str, Origins]) -> tuple[str, Origins]:
    match value:
        case Literal(value=literal):
            return literal if isinstance(literal, str) else json.dumps(literal), NOWHERE
        case Ref(name=name):
            return _HOLE, known.get(name, NOWHERE)
        case Template(parts=parts):
            made = NOWHERE.union(*(known.get(p.name, NOWHERE) for p in parts if isinstance(p, Ref)))
            return "".join(p if isinstance(p, str) else _HOLE for p in parts), made
        case ListExpr(items=items):
            return _joined([_text(item, known) for item in items])
        case DictExpr(items=items):
            return _joined([_text(item, known) for _, item in items])


def _joined(parts: list[tuple[str, Origins]]) -> tuple[str, Origins]:
    return " ".join(text for text, _ in parts), NOWHERE.union(*(origins for _, origins in parts))


# ------------------------------------------------------------ conditions


def _atoms(condition: Condition, known: Mapping[str, Origins]) -> frozenset[Atom]:
    """A condition as normalised facts that must all hold."""
    if isinstance(condition, And):
        return frozenset[Atom]().union(*(_atoms(part, known) for part in condition.conditions))
    return frozenset({_atom(condition, known)})


def _atom(condition: Condition, known: Mapping[str, Origins]) -> Atom:
    match condition:
        case Compare(op=op, left=left, right=right):
            a, b = _given([left], known), _given([right], known)
            if op in (CompareOp.EQ, CompareOp.NE) and b.text in ("", "[]") and not b.origins:
                return ("empty" if op is CompareOp.EQ else "not", a.origins, "")
            said = _WORDS.get(b.text.lower(), b.text.lower())
            if said is False and op in (CompareOp.EQ, CompareOp.NE):
                op, said = _NEGATED[op], True
            return (str(op), a.origins, a.path, said, b.origins)
        case IsEmpty(value=value):
            return ("empty", _given([value], known).origins, "")
        case NotEmpty(value=value):
            return ("not", _given([value], known).origins, "")
        case Not(condition=inner):
            return _opposite(_atom(inner, known))
        case Or(conditions=parts):
            return ("or", frozenset(_atoms(part, known) for part in parts))
        case And():
            return ("and", _atoms(condition, known))


def _opposite(atom: Atom) -> Atom:
    if atom[0] in ("empty", "not"):
        return ("not" if atom[0] == "empty" else "empty", *atom[1:])
    for op, other in _NEGATED.items():
        if atom[0] == str(op):
            return (str(other), *atom[1:])
    return atom[1] if atom[0] == "no" else ("no", atom)


def _negated(atoms: frozenset[Atom]) -> frozenset[Atom]:
    """The negation of the conjunction of these facts."""
    if len(atoms) == 1:
        return frozenset({_opposite(next(iter(atoms)))})
    return frozenset({("no", ("and", atoms))})
