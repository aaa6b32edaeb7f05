"""Completion at a position in an incomplete text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.frontends.ltp import format_plan
from callsheet.views.editor.completion import proposals_at
from callsheet.views.editor.document import open_document
from strategies import plans
from views.editor.marks import KNOWN, opened

HEAD = """PLAN_START
S1: @FETCH_PAGE (url="https://h.test/") > $page:json
S2: ?FOREACH ($t IN $page.data) THEN @LLM_CLASSIFY ($t, categories=["a", "b"]) > $kinds
"""


def labels(line: str) -> list[str]:
    document, offset = opened(HEAD + line)
    return [proposal.label for proposal in proposals_at(document, offset, KNOWN)]


@pytest.mark.parametrize(
    "line", ["‸", "S3: ‸", "  S3: @S‸", "S3: ?IF ($page == 1) THEN ‸", "S3: ?IF ($a) THEN @‸"]
)
def test_action_position_completes_tools_and_operations(line: str) -> None:
    assert {"@ADD", "@SEND", "@LLM_EXTRACT", "@RESPOND"} <= {*labels(line)}


def test_new_line_completes_next_step_or_group() -> None:
    assert labels("‸")[:4] == ["S3:", "@PARALLEL", "?IF", "?FOREACH"]
    assert "S3:" not in labels("S3: ‸")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("S3: @ADD (‸", ["a=", "b=", "$kinds", "$page"]),
        ("S3: @ADD (1, ‸", ["b=", "$kinds", "$page"]),
        ("S3: @ADD (b=1, ‸", ["a=", "$kinds", "$page"]),
        ("S3: @ADD (\n  b=1,\n  ‸", ["a=", "$kinds", "$page"]),
        ("S3: @SEND (to=‸", ['"team"', '"me"', "$kinds", "$page"]),
        ('S3: @SEND (to="‸', ["team", "me"]),
        ("S3: @SEND (to='te‸')", ["team", "me"]),
        ('S3: @SEND (to="$k‸', ["$kinds", "$page"]),
        ('S3: @SEND (text="‸', []),
        ("S3: @SEND (now=‸", ["true", "false", "$kinds", "$page"]),
        ("S3: @ADD (a=[1, ‸", ["$kinds", "$page"]),
        ('S3: @SEND (text="so $‸', ["$kinds", "$page"]),
        ("S3: @RESPOND ($k‸)", ["$kinds", "$page"]),
        ("S3: ?FOREACH ($i IN $kinds) THEN @ADD ($‸", ["$i", "$kinds", "$page"]),
        ("S3: @ADD (1) > $n:‸", ["int", "float", "bool", "list", "json"]),
        ("S3: GOTO ‸", ["S1", "S2", "S3"]),
        ("S3: @ADD (1) ON_FAIL ‸", ["@RETRY", "GOTO", "TERMINATE"]),
        ("S3: @ADD (1) ON_FAIL GOTO S‸", ["S1", "S2", "S3"]),
        ("S3: @ADD (1) ‸", ["ON_FAIL"]),
        ("S3: @ADD (1) > $‸", []),
        ("# about $‸", []),
        ("S3: @RESPOND ($page.‸", []),
        ('S3: @SEND (text="some @‸', []),
    ],
)
def test_completions_fit_position(line: str, expected: list[str]) -> None:
    assert labels(line) == expected


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ('S3: @SEND (to="‸', 'S3: @SEND (to="team"'),
        ('S3: @SEND (to="t‸")', 'S3: @SEND (to="team")'),
        ("S3: @SEND (to='no such ‸", "S3: @SEND (to='team'"),
    ],
)
def test_value_of_an_opened_string_replaces_its_text_and_closes_it_once(line: str, completed: str) -> None:
    document, offset = opened(HEAD + line)
    proposal = proposals_at(document, offset, KNOWN)[0]
    text = document.text
    assert text[: proposal.span.start] + proposal.insert + text[proposal.span.end :] == HEAD + completed


def test_condition_completes_variables_tests_and_operators() -> None:
    found = labels("S3: ?IF ($page ‸")
    assert {"$page", "IS_EMPTY", "NOT", "==", "contains", "AND", "THEN"} <= {*found}
    assert "@ADD" not in found


def test_query_and_expression_complete_functions() -> None:
    assert {"sort_by()", "group_by()"} <= {*labels('S3: @SELECT ($page, query="so‸')}
    assert {"round()", "avg()"} <= {*labels('S3: @CALC ("r‸')}
    assert labels('S3: @SEND (text="so‸') == []


def test_group_members_do_not_see_results_of_one_another() -> None:
    assert labels("@PARALLEL {\n  S3: @ADD (1) > $n\n  S4: @ADD ($‸") == ["$kinds", "$page"]
    assert labels("@PARALLEL {\n  S3: @ADD (1) > $n\n}\nS4: @ADD ($‸") == ["$n", "$kinds", "$page"]


def test_variable_completions_have_details_and_include_given_ones() -> None:
    document, offset = opened(HEAD + "S3: @RESPOND (${‸", inputs=("city",))
    found = {p.label: (p.insert, p.detail) for p in proposals_at(document, offset)}
    assert found["$page"] == ("${page}", "JSON value")
    assert found["$kinds"] == ("${kinds}", 'list, for each item: one of "a", "b"')
    assert found["$city"] == ("${city}", "input of the run")


def test_tool_completion_has_placeholders_for_required_arguments() -> None:
    document, offset = opened(HEAD + "S3: @SE‸")
    (send,) = [p for p in proposals_at(document, offset, KNOWN) if p.label == "@SEND"]
    assert send.snippet == '@SEND (to=$1, text="$2")$0'
    assert "> Sends a text." in send.about


@settings(max_examples=60)
@given(plans(), st.data())
def test_completion_replaces_typed_text(plan, data) -> None:
    """At any position of any text a completion replaces a range that ends at the cursor, on its line."""
    text = format_plan(plan)
    offset = data.draw(st.integers(0, len(text)))
    half = text[:offset]
    document = open_document(half)
    for proposal in proposals_at(document, offset, KNOWN):
        assert proposal.span.end == offset
        assert "\n" not in half[proposal.span.start : offset]
