"""Completion in incomplete Micro-CLI, JSON and YAML plans."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.frontends.spelling import Syntax
from callsheet.views.editor.completion import proposals_at
from callsheet.views.editor.document import open_document
from views.editor.marks import KNOWN, opened

MICRO = """fetch "https://h.test/" > page:json
foreach $t in $page.data : classify t "a,b" > kinds
"""
PLAN = """{"title": "x", "variables": {"who": "team"}, "steps": [
  {"index": "1", "title": "Look", "tool": "search_files", "args": {"pattern": "a"}, "depends_on": [],
   "result_variable": "found"},
  {"index": "2", """


YAML = """# a plan
title: x
variables:
  who: team
steps:
  - index: '1'
    title: Look
    tool: search_files
    args: {pattern: a}
    result_variable: found
  - index: '2'
    """


def in_yaml(rest: str) -> list[tuple[str, str]]:
    document, offset = opened(YAML + rest, syntax=Syntax.DAG)
    return [(proposal.label, proposal.insert) for proposal in proposals_at(document, offset, KNOWN)]


def in_micro(line: str) -> list[str]:
    document, offset = opened(MICRO + line, syntax=Syntax.MICRO)
    return [proposal.label for proposal in proposals_at(document, offset, KNOWN)]


def in_json(rest: str) -> list[tuple[str, str]]:
    document, offset = opened(PLAN + rest, syntax=Syntax.DAG)
    return [(proposal.label, proposal.insert) for proposal in proposals_at(document, offset, KNOWN)]


@pytest.mark.parametrize(
    "line", ["‸", "- ‸", "S3: ‸", "su‸", "?if $page empty : ‸", "foreach $i in kinds : ‸"]
)
def test_command_position_completes_verbs_and_tools(line: str) -> None:
    assert {"summarize", "respond", "goto", "@add", "@send"} <= {*in_micro(line)}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("@add ‸", ["a=", "b=", "$kinds", "$page"]),
        ("@add 1 ‸", ["b=", "$kinds", "$page"]),
        ("@add b=1 ‸", ["a=", "$kinds", "$page"]),
        ("@add 1 k‸", ["b=", "$kinds", "$page"]),
        ("@send to=‸", ['"team"', '"me"', "$kinds", "$page"]),
        ("respond $‸", ["$kinds", "$page"]),
        ("foreach $i in kinds : @add $‸", ["$i", "$kinds", "$page"]),
        ('write "a.txt" "so $k‸', ["$kinds", "$page"]),
        ("@add 1 > n:‸", ["int", "float", "bool", "list", "json"]),
        ("goto ‸", ["S1", "S2"]),
        ("?if $page empty : goto S‸", ["S1", "S2", "S3"]),
        ("@add 1 on_fail ‸", ["retry", "goto", "terminate"]),
        ("@add 1 > ‸", []),
        ("respond $page.‸", []),
        ("# about ‸", []),
        ('@send "some ‸', []),
    ],
)
def test_completions_fit_position_in_command(line: str, expected: list[str]) -> None:
    assert in_micro(line) == expected


def test_condition_of_command_completes_variables_and_words() -> None:
    assert {"$page", "empty", "and", "=="} <= {*in_micro("?if $page ‸")}


def test_query_in_command_completes_functions() -> None:
    assert {"sort_by()", "length()"} <= {*in_micro('select $page "so‸')}
    assert "round()" in in_micro('calc "r‸')


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ('"tool": "send", "args": {"‸', [("to", "to"), ("text", "text"), ("now", "now")]),
        ('"tool": "send", "args": {"to": "me", ‸', [("text", '"text": '), ("now", '"now": ')]),
        ('"tool": "send", "args": {"to": "t‸', [("team", "team"), ("me", "me")]),
        ('"tool": "send", "args": {"now": ‸', [("true", "true"), ("false", "false")]),
        ('"args": {"text": "so ${f‸', [("$who", "${who}"), ("$found", "${found}")]),
        ('"depends_on": ["‸', [("1", "1")]),
        ('"depends_on": [‸', [("1", '"1"')]),
        ('"on_fail": {"re‸', [(n, n) for n in ("retry", "delay", "backoff", "terminate")]),
        ('"title": "some ‸', []),
        ('"args": {"a": {"‸', []),
    ],
)
def test_completions_fit_position_in_json_plan(rest: str, expected: list[tuple[str, str]]) -> None:
    assert in_json(rest) == expected


def test_json_step_completes_tools_and_missing_fields() -> None:
    assert {"add", "send", "llm_extract"} <= {label for label, _ in in_json('"tool": "‸')}
    assert [label for label, _ in in_json('"tool": "add", "‸')][:3] == ["title", "args", "depends_on"]


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("tool: send\n    args:\n      ‸", [("to", "to: "), ("text", "text: "), ("now", "now: ")]),
        ("tool: send\n    args:\n      to: me\n      t‸", [("text", "text: "), ("now", "now: ")]),
        ("tool: send\n    args:\n      to: ‸", [("team", '"team"'), ("me", '"me"')]),
        ("tool: send\n    args:\n      to: t‸", [("team", "team"), ("me", "me")]),
        ("tool: send\n    args:\n      now: ‸", [("true", "true"), ("false", "false")]),
        ("args:\n      text: so ${f‸", [("$who", "${who}"), ("$found", "${found}")]),
        ('args: {text: "so ${‸', [("$who", "${who}"), ("$found", "${found}")]),
        ("args:\n      text: |\n        so\n        ${‸", [("$who", "${who}"), ("$found", "${found}")]),
        ("depends_on: [‸", [("1", '"1"')]),
        ("depends_on:\n    - ‸", [("1", '"1"')]),
        ("depends_on:\n      - '‸", [("1", "1")]),
        ("on_fail:\n      re‸", [(n, f"{n}: ") for n in ("retry", "delay", "backoff", "terminate")]),
        ("title: some ‸", []),
        ("title: some\n      ‸", []),
        ("args:\n      a:\n        ‸", []),
        ("depends_on: [] # ‸", []),
    ],
)
def test_completions_fit_position_in_yaml_plan(rest: str, expected: list[tuple[str, str]]) -> None:
    assert in_yaml(rest) == expected


def test_yaml_step_completes_tools_and_missing_fields() -> None:
    assert {"add", "send", "llm_extract"} <= {label for label, _ in in_yaml("tool: ‸")}
    for beginning in ("tool: add\n    ‸", "tool: add\n  - ‸"):
        assert ("title", "title: ") in in_yaml(beginning)
    assert ("steps", "steps: ") not in in_yaml("tool: add\n‸")


@settings(max_examples=60)
@given(st.sampled_from([(MICRO, Syntax.MICRO), (PLAN, Syntax.DAG), (YAML, Syntax.DAG)]), st.data())
def test_completion_ends_at_cursor_on_its_line(spelled, data) -> None:
    text, syntax = spelled
    offset = data.draw(st.integers(0, len(text)))
    half = text[:offset] + data.draw(st.text('"$@?>:={}[] -|\na', max_size=6))
    for proposal in proposals_at(open_document(half, syntax=syntax), len(half), KNOWN):
        assert proposal.span.end == len(half)
        assert "\n" not in half[proposal.span.start :]
