"""Hypothesis strategies for plans, values and conditions in normal form, for tests of any layer.

`plans()` draws plans in text order that LTP text can express; ids are unique, groups are numbered in the
order of the text, and every step may have guards, an output, failure handling and comments.
"""

from __future__ import annotations

import string
from dataclasses import replace
from functools import cache

from hypothesis import strategies as st

from callsheet.ir import (
    Action,
    And,
    Call,
    Cast,
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
    Replan,
    Respond,
    Retry,
    Step,
    Template,
    Terminate,
    Value,
)
from callsheet.ir.expr import template

_LETTERS = string.ascii_letters + "_"
_RESERVED = {
    "RESPOND", "TERMINATE", "GOTO", "REPLAN", "RE_PLAN", "PARALLEL", "RETRY", "IF", "FOREACH", "ELSE", "THEN",
    "ON_FAIL",
}  # fmt: skip


_PIECES = (
    '"', "'", '"""', "\\", "$", "$$", "$a", "${a}", "${", "\n", "\r\n", "\t", "#", ")", "}", " THEN ",
    "PLAN_END", "S2: @X (", "\nS3: @Y ()\n", "  ", "é", "東", "\u202e", "\x00", "\ud800", "\udc00", ".x",
    "[0]", "u0041",
)  # fmt: skip


@cache
def names() -> st.SearchStrategy[str]:
    """Names of variables and arguments."""
    return st.builds(str.__add__, st.sampled_from(_LETTERS), st.text(_LETTERS + string.digits, max_size=5))


@cache
def ids() -> st.SearchStrategy[str]:
    """Ids of steps."""
    usual = st.integers(1, 99).map(lambda n: f"S{n}")
    return usual | st.builds(str.__add__, names(), st.sampled_from(["", "-a", "_1", "-"]))


@cache
def tool_names() -> st.SearchStrategy[str]:
    """Canonical names of tools and model operations."""
    other = st.text(string.ascii_uppercase + string.digits + "_", min_size=1, max_size=8)
    usual = st.sampled_from(["WEB_SEARCH", "READ_FILE", "LLM_EXTRACT", "AGENT_SOLVE", "SELECT"])
    return usual | other.filter(lambda name: name not in _RESERVED)


@cache
def texts() -> st.SearchStrategy[str]:
    """Texts with difficult content: quotes, dollars, lines that look like steps, anything."""
    pieces = st.sampled_from(_PIECES)
    mixed = st.lists(pieces | st.text(max_size=3), max_size=6).map("".join)
    return st.text(max_size=12) | mixed


@cache
def literals() -> st.SearchStrategy[Literal]:
    """Scalars, texts among them."""
    numbers = (
        st.integers() | st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False)
    )
    return st.builds(Literal, st.none() | st.booleans() | numbers | texts())


@cache
def refs() -> st.SearchStrategy[Ref]:
    """References, with fields, indexes and odd keys."""
    part = (
        names() | st.integers(-3, 1_000) | texts() | st.sampled_from(["0", "007", "a key", "größe", "it's"])
    )
    return st.builds(Ref, names(), st.lists(part, max_size=3).map(tuple))


@cache
def templates() -> st.SearchStrategy[Template]:
    """Texts with references in them, in normal form."""
    drawn = st.lists(texts() | refs(), min_size=2, max_size=5).map(template)
    return drawn.filter(lambda value: isinstance(value, Template))


@cache
def values() -> st.SearchStrategy[Value]:
    """Any value."""

    def nested(inside: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
        pairs = st.dictionaries(texts(), inside, max_size=3).map(lambda d: DictExpr(tuple(d.items())))
        return st.builds(ListExpr, st.lists(inside, max_size=3).map(tuple)) | pairs

    return st.recursive(literals() | refs() | templates(), nested, max_leaves=4)


@cache
def conditions() -> st.SearchStrategy[Condition]:
    """Any condition in normal form: no AND right inside an AND, no OR right inside an OR."""
    simple = (
        st.builds(Compare, st.sampled_from(CompareOp), values(), values())
        | st.builds(IsEmpty, values())
        | st.builds(NotEmpty, values())
    )

    def combined(inside: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
        def junction(kind: type[And] | type[Or]) -> st.SearchStrategy[Condition]:
            others = inside.filter(lambda c: not isinstance(c, kind))
            return st.builds(kind, st.lists(others, min_size=2, max_size=3).map(tuple))

        return st.builds(Not, inside) | junction(And) | junction(Or)

    return st.recursive(simple, combined, max_leaves=3)


@cache
def _value_tuples(most: int = 3) -> st.SearchStrategy[tuple[Value, ...]]:
    return st.lists(values(), max_size=most).map(tuple)


@cache
def calls() -> st.SearchStrategy[Call]:
    """Calls with positional and named arguments, some of their names odd."""
    argument_names = names() | st.sampled_from(["max-results", "$filter", "größe", "a b"])
    named = st.dictionaries(argument_names, values(), max_size=3).map(lambda d: tuple(d.items()))
    return st.builds(Call, tool_names(), _value_tuples(), named)


@cache
def failures() -> st.SearchStrategy[OnFail]:
    """Failure handling: retries, then perhaps a jump or the end."""
    wait = st.none() | st.integers(0, 60) | st.floats(0, 100)
    retries = st.builds(Retry, st.integers(0, 20), wait, wait)
    then = st.builds(Goto, ids()) | st.builds(Terminate, _value_tuples(2))
    return st.builds(OnFail, retries, st.none() | then) | st.builds(OnFail, st.none(), then)


@cache
def comments() -> st.SearchStrategy[tuple[str, ...]]:
    """Comment lines that a text can contain: without line ends and outer blanks."""
    line = st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)), max_size=10)
    return st.lists(line.map(str.rstrip), max_size=2).map(tuple)


@cache
def actions() -> st.SearchStrategy[Action]:
    """Any action."""
    return (
        calls()
        | st.builds(Respond, _value_tuples())
        | st.builds(Terminate, _value_tuples())
        | st.builds(Replan, _value_tuples())
        | st.builds(Goto, ids())
    )


@cache
def steps() -> st.SearchStrategy[Step]:
    """One step, `S1`, outside any group, with everything that a step can have."""
    return st.builds(
        Step,
        st.just("S1"),
        actions(),
        foreach=st.none() | st.builds(Foreach, names(), values()),
        condition=st.none() | conditions(),
        output=st.none() | st.builds(Output, names(), st.none() | st.sampled_from(Cast)),
        on_fail=st.none() | failures(),
        comments=comments(),
        remark=comments().map(lambda lines: lines[0] if lines else None),
    )


_SEEN = st.characters(exclude_characters="\r", exclude_categories=("Cs", "Cf"))
_SAID = st.none() | st.text(_SEEN, max_size=12)
_PLACES = st.sampled_from(["alone", "alone", "new group", "same group"])


@st.composite
def plans(draw: st.DrawFn, max_steps: int = 4) -> Plan:
    """A plan in text order that LTP text can express."""
    step_ids = draw(st.lists(ids(), min_size=1, max_size=max_steps, unique=True))
    drawn: list[Step] = []
    group = -1
    current: int | None = None
    for step_id in step_ids:
        match draw(_PLACES):
            case "alone":
                current = None
            case "new group":
                group += 1
                current = group
            case _:
                pass
        drawn.append(replace(draw(steps()), id=step_id, group=current))
    return Plan(tuple(drawn), id=draw(_SAID), title=draw(_SAID), goal=draw(_SAID), comments=draw(comments()))
