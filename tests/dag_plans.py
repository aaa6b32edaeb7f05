"""Generated plans of dependencies in JSON form, with their steps in any order."""

from __future__ import annotations

import string
from dataclasses import replace
from functools import cache
from typing import Any

from hypothesis import strategies as st
from tests.strategies import conditions, names, refs, tool_names, values

from callsheet.ir import (
    Call,
    Literal,
    OnFail,
    Order,
    Output,
    Plan,
    Ref,
    Retry,
    Step,
    Template,
    Terminate,
    Value,
)
from callsheet.ir.operations import CONTROL_WORDS

_WAITS = st.none() | st.integers(0, 60) | st.floats(0, 100)
_SAID = st.none() | st.text(max_size=12)


@cache
def variables() -> st.SearchStrategy[str]:
    """Names of variables, some with a dash, which JSON plans allow."""
    return names() | st.builds("{}-{}".format, names(), st.sampled_from(["1", "a"]))


@cache
def _tools() -> st.SearchStrategy[str]:
    return tool_names().filter(lambda name: name not in CONTROL_WORDS)


@cache
def indexes() -> st.SearchStrategy[str]:
    """Indexes of steps: numbers, words, anything that fits on a line."""
    line = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=8)
    odd = line.filter(lambda text: text == text.strip(" ") and text != "")
    return st.integers(0, 99).map(str) | st.text(string.ascii_lowercase, min_size=1, max_size=5) | odd


def _is_message(value: Value) -> bool:
    return isinstance(value, Ref | Template) or (isinstance(value, Literal) and bool(value.value))


@cache
def failures() -> st.SearchStrategy[OnFail]:
    """Failure handling that JSON plans can express."""
    texts = st.builds(Literal, st.text(min_size=1, max_size=8))
    message = (texts | refs()).filter(_is_message).map(lambda value: (value,))
    then = st.builds(Terminate, st.just(()) | message)
    retries = st.builds(Retry, st.integers(0, 20), _WAITS, _WAITS)
    return st.builds(OnFail, retries, st.none() | then) | st.builds(OnFail, st.none(), then)


@cache
def _steps() -> st.SearchStrategy[Step]:
    arguments = st.text(max_size=8).filter(lambda name: "${" not in name)
    named = st.dictionaries(arguments, values(), max_size=3).map(lambda d: tuple(d.items()))
    return st.builds(
        Step,
        st.just("1"),
        st.builds(Call, _tools(), st.just(()), named),
        condition=st.none() | conditions(),
        output=st.none() | st.builds(Output, variables()),
        on_fail=st.none() | failures(),
        title=st.none() | st.text(min_size=1, max_size=12),
        depends_on=st.just(()),
    )


@st.composite
def dag_plans(draw: st.DrawFn, most: int = 4) -> Plan:
    """A plan of dependencies without cycles, its steps in any order."""
    ids = draw(st.lists(indexes(), max_size=most, unique=True))
    steps = [
        replace(
            draw(_steps()),
            id=id_,
            depends_on=tuple(draw(st.sets(st.sampled_from(ids[:at])) if at else st.just(()))),
        )
        for at, id_ in enumerate(ids)
    ]
    constants = st.recursive(
        st.builds(Literal, st.none() | st.booleans() | st.integers() | st.text(max_size=6)), _nested
    )
    known = draw(st.dictionaries(variables(), constants, max_size=2))
    plan_ids = st.none() | st.from_regex(r"[a-z0-9][a-z0-9._-]{0,63}", fullmatch=True)
    return Plan(
        tuple(draw(st.permutations(steps))),
        Order.DAG,
        tuple(known.items()),
        draw(plan_ids),
        draw(_SAID),
        draw(_SAID),
    )


def _nested(inside: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    from callsheet.ir import DictExpr, ListExpr

    pairs = st.dictionaries(st.text(max_size=4), inside, max_size=2).map(lambda d: DictExpr(tuple(d.items())))
    return st.builds(ListExpr, st.lists(inside, max_size=2).map(tuple)) | pairs


def step(index: str, called: str, *after: str, var: str | None = None, **args: Any) -> dict[str, Any]:
    """A step in JSON form that calls a tool after other steps."""
    row = {"index": index, "title": f"Step {index}", "tool": called, "args": args, "depends_on": list(after)}
    return row if var is None else {**row, "result_variable": var}
