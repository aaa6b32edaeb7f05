"""Casts and paths that cannot work."""

from __future__ import annotations

import pytest

from callsheet.frontends.ltp import parse
from callsheet.passes import check


def codes(text: str) -> list[str]:
    plan = parse(text).plan
    assert plan is not None
    return [d.code for d in check(plan) if d.code in ("CHK030", "CHK031", "CHK032")]


@pytest.mark.parametrize(
    ("output", "path", "reported"),
    [
        (":int", ".a", True),
        (":float", ".0", True),
        (":bool", ".a.b", True),
        (":json", ".a", False),
        (":list", ".0", False),
        (":list", ".name", True),
        ("", ".a", False),
        (":int", "", False),
    ],
)
def test_path_needs_value_with_parts(output: str, path: str, reported: bool) -> None:
    assert (codes(f"S1: @A () > $v{output}\nS2: @RESPOND ($v{path})") == ["CHK030"]) is reported


def test_loop_results_are_list_for_any_item_cast() -> None:
    loop = "S1: ?FOREACH ($i IN [1]) THEN @A ($i) > $v:int\n"
    assert codes(loop + "S2: @RESPOND ($v.0)") == []
    assert codes(loop + "S2: @RESPOND ($v.name)") == ["CHK030"]


def test_variable_set_twice_has_common_shape_only() -> None:
    assert codes("S1: @A () > $v:int\nS2: @B () > $v\nS3: @RESPOND ($v.a)") == []
    assert codes("S1: @A () > $v:int\nS2: @B () > $v:int\nS3: @RESPOND ($v.a)") == ["CHK030"]


@pytest.mark.parametrize(
    ("call", "cast", "reported"),
    [
        ('@LLM_EVALUATE ($a, condition="c")', "bool", False),
        ('@LLM_EVALUATE ($a, condition="c")', "int", True),
        ('@LLM_EVALUATE ($a, condition="c")', "json", True),
        ('@LLM_CLASSIFY ($a, categories=["bug", "feature"])', "int", True),
        ('@LLM_CLASSIFY ($a, categories=["bug", "feature"])', "bool", True),
        ('@LLM_CLASSIFY ($a, categories=["bug", "feature"])', "list", False),
        ('@LLM_CLASSIFY ($a, categories=["1", "2"])', "int", False),
        ('@LLM_CLASSIFY ($a, categories=["yes", "no"])', "bool", False),
        ("@LLM_CLASSIFY ($a, categories=$a)", "int", False),
        ('@LLM_EXTRACT ($a, target="n")', "int", False),
    ],
)
def test_cast_must_be_possible(call: str, cast: str, reported: bool) -> None:
    text = f"S1: @A () > $a\nS2: {call} > $v:{cast}\nS3: @RESPOND ($v)"
    assert (codes(text) == ["CHK031"]) is reported
