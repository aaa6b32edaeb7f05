"""Hypothesis strategies for plans within the grammar of plans."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st
from tests.strategies import names, texts

from callsheet.frontends.values import format_text
from callsheet.ir import (
    And,
    Call,
    Cast,
    Compare,
    CompareOp,
    Condition,
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
    Replan,
    Respond,
    Retry,
    Step,
    Template,
    Terminate,
    Value,
)
from callsheet.ir.expr import template

MOST_STEPS = 7
_SAYABLE = re.compile(r'"(?:[^"\\$]|\\["\\nt$])*"|r"[^"$]*\$?"')
_ENDS_REFERENCE = re.compile(r"[^\w.\[\"\\$]|\Z")

plain_texts = texts().filter(lambda text: _SAYABLE.fullmatch(format_text(text)) is not None)
some_texts = plain_texts.filter(bool)


def _is_plain(text: str) -> bool:
    """Whether a text may be next to references: no `$`, no escape that a grammar lacks."""
    return _SAYABLE.fullmatch(format_text(text)) is not None and "$" not in text and "\\" not in text


@st.composite
def _refs(draw: st.DrawFn, bound: Sequence[str]) -> Ref:
    part = names() | st.integers(0, 99)
    return Ref(draw(st.sampled_from(bound)), tuple(draw(st.lists(part, max_size=3))))


@st.composite
def _texts(draw: st.DrawFn, bound: Sequence[str], *, least: int = 0) -> Value:
    """A text, perhaps with references separated from the words around them."""
    if not bound or draw(st.booleans()):
        return Literal(draw(some_texts if least else plain_texts))
    parts: list[str | Ref] = [draw(plain_texts.filter(_is_plain))]
    for _ in range(draw(st.integers(1, 4))):
        after = draw(st.sampled_from(["", " ", ", ", ": ", ") ", ". ", "-", "x", "[", "°"]))
        parts += [
            draw(_refs(bound)),
            after + draw(st.just("") | plain_texts.filter(_is_plain)) if after else "",
        ]
    value = template(parts)
    return value if isinstance(value, Literal | Ref) or _can_be_said(value) else Literal("a")


def _can_be_said(value: Template) -> bool:
    """Whether each reference is followed by an ASCII character or the end."""
    following = [
        part for before, part in zip(value.parts, value.parts[1:], strict=False) if isinstance(before, Ref)
    ]
    return all(isinstance(part, Ref) or part[:1].isascii() or part[:1] == "°" for part in following)


def _data(bound: Sequence[str]) -> st.SearchStrategy[Value]:
    return _texts(bound, least=1) | _refs(bound) if bound else _texts(bound, least=1)


@st.composite
def _calls(draw: st.DrawFn, bound: Sequence[str]) -> Call:
    refs = [_refs(bound)] if bound else []
    kind = draw(st.integers(0, 4 if bound else 3))
    if kind == 0:
        return Call("READ_FILE", (), (("path", draw(st.one_of(_texts(bound, least=1), *refs))),))
    if kind == 1:
        number = st.integers(1, 250).map(Literal)
        state = st.sampled_from(["open", "closed", "$v1", 'odd "one"', 3, None]).map(Literal)
        repo = plain_texts.filter(lambda text: len(text) <= 12).map(Literal)
        named: list[tuple[str, Value]] = [("repo", draw(st.one_of(repo, *refs))), ("state", draw(state))]
        if draw(st.booleans()):
            named.append(("limit", draw(st.one_of(number, *refs))))
        if draw(st.booleans()):
            named.append(("since", draw(st.one_of(_texts(bound), st.just(Literal(None)), *refs))))
        return Call("LIST_ISSUES", (), tuple(named))
    if kind == 2:
        items = st.lists(st.one_of(_texts(bound), *refs), min_size=1, max_size=3)
        at = st.integers(1, 999_999).map(lambda number: Literal(float(f"0.{number:06}")))
        at = at.filter(lambda value: "e" not in repr(value.value))
        return Call("SEND", (), (("to", ListExpr(tuple(draw(items)))), ("created-at", draw(at))))
    if kind == 3:
        return Call("MEMORY_STATS")
    data = draw(st.lists(_data(bound), min_size=1, max_size=3))
    return Call("LLM_EXTRACT", tuple(data), (("target", draw(_texts(bound, least=1))),))


@st.composite
def _conditions(draw: st.DrawFn, bound: Sequence[str]) -> Condition:
    right = plain_texts.filter(lambda text: format_text(text).startswith('"')).map(Literal)
    right |= st.integers(-99, 99).map(Literal) | st.booleans().map(Literal) | _refs(bound)
    test: st.SearchStrategy[Condition] = (
        st.builds(Compare, st.sampled_from(CompareOp), _refs(bound), right)
        | st.builds(IsEmpty, _refs(bound))
        | st.builds(NotEmpty, _refs(bound))
    )
    single = test | st.builds(Not, test)
    several = st.lists(single, min_size=2, max_size=3).map(tuple)
    return draw(single | st.builds(And, several) | st.builds(Or, several))


@st.composite
def _failures(draw: st.DrawFn, bound: Sequence[str]) -> OnFail | None:
    retry = draw(st.none() | st.integers(1, 5).map(Retry))
    then = Terminate((draw(_texts(bound, least=1)),)) if draw(st.booleans()) else None
    return OnFail(retry, then) if retry is not None or then is not None else None


@st.composite
def _steps(draw: st.DrawFn, bound: Sequence[str], var: str | None) -> Step:
    """One calling step; the plan sets its id."""
    inside, foreach = list(bound), None
    if draw(st.integers(0, 3)) == 0:
        literal = ListExpr(tuple(draw(st.lists(_texts([], least=1), min_size=1, max_size=8))))
        source: Value = draw(_refs(bound)) if bound and draw(st.booleans()) else literal
        is_covered = isinstance(source, Ref) or all(
            isinstance(item, Literal) and format_text(str(item.value)).startswith('"')
            for item in literal.items
        )
        foreach = Foreach("item", source if is_covered else ListExpr((Literal(1),)))
        inside.append("item")
    condition = draw(_conditions(inside)) if inside and draw(st.booleans()) else None
    output = None if var is None else Output(var, draw(st.none() | st.sampled_from(Cast)))
    return Step("S1", draw(_calls(inside)), foreach, condition, output, draw(_failures(bound)))


def _ends(bound: Sequence[str]) -> st.SearchStrategy[Respond | Terminate]:
    said = st.lists(_data(bound), min_size=1, max_size=4).map(tuple)
    why = st.tuples(_texts(bound, least=1))
    return st.builds(Respond, said) | st.builds(Terminate, why) | st.builds(Replan, why)


@st.composite
def covered_plans(draw: st.DrawFn) -> Plan:
    """A plan of supported constructs only: outputs v1, v2, … in order, a certain end."""
    steps: list[Step] = []
    bound: list[str] = []
    group = 0
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["call", "call", "bare", "end", "group", "over", "failing", "again"]))
        number, result = len(steps) + 1, f"v{len(bound) + 1}"
        if kind == "end" and bound:
            steps.append(Step("S1", draw(_ends(bound)), None, draw(_conditions(bound))))
        elif kind == "group" and len(steps) < MOST_STEPS - 3:
            members = [draw(_steps(list(bound), f"v{len(bound) + number}")) for number in (1, 2)]
            steps += [replace(member, group=group) for member in members]
            group += 1
            bound += [f"v{len(bound) + 1}", f"v{len(bound) + 2}"]
        elif kind == "over" and bound and len(steps) < MOST_STEPS - 3:
            steps.append(Step("S1", Goto(f"S{number + 2}"), None, draw(_conditions(bound))))
            steps.append(draw(_steps(bound, result)))
        elif kind == "failing" and len(steps) < MOST_STEPS - 3:
            failure = OnFail(draw(st.none() | st.just(Retry(2))), Goto(f"S{number + 2}"))
            steps.append(replace(draw(_steps(bound, result)), on_fail=failure))
            bound.append(result)
            steps.append(draw(_steps(bound, f"v{len(bound) + 1}")))
        elif kind == "again" and len(steps) < MOST_STEPS - 3:
            steps.append(draw(_steps(bound, result)))
            bound.append(result)
            steps.append(Step("S1", Goto(f"S{number}"), None, draw(_conditions(bound))))
        elif kind == "bare":
            steps.append(draw(_steps(bound, None)))
        else:
            steps.append(draw(_steps(bound, result)))
            bound.append(result)
    steps.append(Step("S1", draw(_ends(bound))))
    return Plan(tuple(replace(step, id=f"S{number}") for number, step in enumerate(steps, 1)))
