"""The shortcuts of the proof give the same result as the full computation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.ir import Call, Literal, Ref, Step, Template, Value
from callsheet.ir.labels import LITERAL, UNKNOWN, Label
from callsheet.passes.verify.call_views import ViewContext, call_views, is_plain, stands_apart
from callsheet.policy import links
from callsheet.policy.judge import Judge
from callsheet.policy.model import Policy

TEXTS = st.text(st.sampled_from("a.:/?#<>()[]!= \n\"'\u00a0w"), max_size=12) | st.sampled_from(
    ["http://a.example/", "![x](", "<img src=", "www.a", "mailto:", "join(", "url(", "a.example/?q=", "]: "]
)
NAMES = st.sampled_from(["a", "b", "query", "url", "code"])
REFS = st.builds(Ref, NAMES)
PARTS = st.lists(TEXTS | st.sampled_from([" ", ", ", ": ", ". ", "="]) | REFS, min_size=1, max_size=5)
VALUES: st.SearchStrategy[Value] = st.one_of(
    st.builds(Literal, TEXTS | st.floats(allow_nan=False)), REFS, st.builds(Template, PARTS.map(tuple))
)
TOOLS = st.sampled_from(["LLM_ANALYZE", "SELECT", "FETCH_PAGE", "EXEC_CODE", "STRANGE", "FORMAT"])
STEPS = st.builds(
    Step,
    st.just("S1"),
    st.builds(
        Call,
        TOOLS,
        st.lists(VALUES, max_size=2).map(tuple),
        st.dictionaries(NAMES, VALUES, max_size=2).map(lambda named: tuple(named.items())),
    ),
)
JUDGE = Judge(Policy())


def _unknown(_name: str) -> Label:
    return UNKNOWN


def _parameters(_tool: str) -> tuple[str, ...]:
    return ("query",)


@given(STEPS)
def test_step_of_plain_values_makes_no_links(step: Step):
    if not is_plain(step):
        return
    assert isinstance(step.action, Call)
    around = ViewContext(_unknown, {}, LITERAL, _parameters)
    traits = JUDGE.traits(step.action.tool)
    assert not any(JUDGE.makes_links(traits, call, UNKNOWN) for call in call_views(step, around, LITERAL))


@settings(max_examples=400)
@given(STEPS)
def test_separate_values_form_no_address_with_data(step: Step):
    if not stands_apart(step):
        return
    assert isinstance(step.action, Call)
    around = ViewContext(_unknown, {}, LITERAL, _parameters)
    traits = JUDGE.traits(step.action.tool)
    for call in call_views(step, around, LITERAL):
        assert not JUDGE.makes_links(traits, call, UNKNOWN)
        assert not JUDGE.links_data(call)


def test_plain_values_are_recognized():
    plain = Call("LLM_ANALYZE", (Ref("a"),), (("task", Literal("compare: 1/2")),))
    assert is_plain(Step("S1", plain))
    assert not is_plain(Step("S1", Call("LLM_ANALYZE", (Literal("see https://a.example"),))))
    assert not is_plain(Step("S1", Call("LLM_ANALYZE", (Template(("for:", Ref("a"))),))))


@pytest.mark.parametrize(
    ("parts", "is_apart"),
    [
        (("fact 1: ", Ref("a")), True),
        ((Ref("a"), ", ", Ref("b"), "!"), True),
        ((Ref("a"), Ref("b")), False),
        ((Ref("a"), "=", Ref("b")), False),
        (("www.", Ref("a")), False),
        (("mailto:", Ref("a")), False),
        (("see //", Ref("a")), False),
        (("url( ", Ref("a")), False),
        (("<a href=", Ref("a")), False),
        (("[x]: ", Ref("a")), False),
        ((Ref("a"), "%2f"), False),
    ],
)
def test_blank_separated_values_without_address_text_are_separate(
    parts: tuple[str | Ref, ...], is_apart: bool
):
    assert stands_apart(Step("S1", Call("STORE_FACT", (Template(parts),)))) == is_apart


@given(st.lists(TEXTS, max_size=4).map("".join))
def test_address_search_is_skipped_where_impossible(text: str):
    patterns = (links._BARE, links._DOMAIN, links._MARKDOWN, links._TAG)  # pyright: ignore[reportPrivateUsage]
    found = any(pattern.search(text) for pattern in patterns)
    assert links._is_address(text, "", is_own=True) == found  # pyright: ignore[reportPrivateUsage]
