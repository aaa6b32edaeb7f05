"""A line without an id parses as the same line with an id, or is an error with a fix."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from callsheet.diagnostics import render_all
from callsheet.frontends.ltp import parse
from callsheet.frontends.values import ParseResult

VALUES = ["", '("x")', ' ("x")', ' "x"', " 'x'", " $v", " 5", " [1]", ' r"x"', ' message="x"', "  # why"]
TARGETS = [
    " S2",
    "(S2)",
    " (S2)",
    ' "S2"',
    " S2  # why",
    " S2 > $x",
    ' S2 ON_FAIL TERMINATE ("x")',
    "",
    " $x",
]
WORDS = ["respond", "terminate", "re-plan", "replan", "re_plan"]
CASES = [str.upper, str.lower, str.capitalize]

CONTROLS = [
    at + case(word) + rest
    for words, tails in ((WORDS, VALUES), (["goto"], TARGETS))
    for word, case, at, rest in product(words, CASES, ("", "@"), tails)
]
GUARDS = [
    q + case(guard) + action
    for q, case in product(("?", ""), CASES)
    for guard, action in [
        ("if ($v == 1) then ", 'RESPOND ("x")'),
        ("if $v == 1 then ", "goto S2"),
        ("if (is_empty($v)) then ", "TERMINATE"),
        ("if (not ($v > 1)) then ", "@T ($v)"),
        ("if ((5 > $v) and ($v > 1)) then ", "@T ($v)"),
        ("foreach ($x in $v) then ", "@T ($x)"),
        ("foreach x in $v then ", "@T ($x)"),
    ]
]
FRAMES = {"markers": "PLAN_START\n{}PLAN_END\n", "no markers": "{}", "a group": "@PARALLEL {{\n{}}}\n"}


def read(line: str, frame: str = "{}") -> ParseResult:
    return parse(frame.format(f'S1: @T ("a") > $v\n{line}\nS2: @RESPOND ("end")\n'))


def codes(result: ParseResult) -> set[str]:
    return {d.code for d in result.diagnostics} - {"LTP102"}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_step_with_and_without_id_is_equal(frame: str) -> None:
    for line in (*CONTROLS, *GUARDS, '@t ("x")', "@T", '@T ("x") > $y'):
        bare, named = read(line, frame), read(f"S3: {line}", frame)
        assert bare.partial == named.partial, line + render_all(bare.diagnostics, bare.source)
        assert codes(bare) == codes(named), line
        assert (bare.plan is None) == (named.plan is None), line


def test_assigned_id_is_reported_with_fix() -> None:
    results = {line: read(line) for line in (*CONTROLS, *GUARDS)}
    valid = {line: result for line, result in results.items() if result.plan is not None}
    assert len(valid) > 200
    for line, result in valid.items():
        (said,) = [d for d in result.diagnostics if d.code == "LTP102"]
        assert said.step == "S3", line
        assert said.fix is not None, line
        (edit,) = said.fix.edits
        text = result.source.text
        repaired = parse(text[: edit.span.start] + edit.text + text[edit.span.end :])
        assert repaired.plan == result.plan, line
        assert "LTP102" not in {d.code for d in repaired.diagnostics}, line


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("respond x", "write @RESPOND (values)"),
        ("Terminate the plan here", "write TERMINATE (values)"),
        ("replan because", "write RE-PLAN (values)"),
        ("goto S2 please", "write GOTO S5"),
        ('fetch_page ("x")', "did you mean @FETCH_PAGE (…)? A call begins with @"),
        (
            "@PARALLEL",
            "write @PARALLEL { before the steps that run concurrently, and } on a line after them",
        ),
    ],
)
def test_invalid_step_line_has_hint(line: str, hint: str) -> None:
    result = read(line, "PLAN_START\n{}PLAN_END\n")
    (error,) = [d for d in result.diagnostics if d.is_error]
    assert (error.code, error.help) == ("LTP002", hint)
    assert f"  | {'^' * len(line)}" in render_all([error], result.source)


@pytest.mark.parametrize("word", ["RE_PLAN", "re_plan", "REPLAN"])
def test_no_spelling_of_replan_calls_tool(word: str) -> None:
    assert parse(f'S1: @{word} ("why")').plan == parse('S1: RE-PLAN ("why")').plan


@pytest.mark.parametrize(
    "prose",
    [
        "Respond to me if that is not what you want.",
        "If you like, I can go on.",
        "Foreach item in the list I made a step.",
        "Goto is not used.",
        "Terminate at any time with Ctrl-C.",
    ],
)
def test_sentence_around_plan_is_prose(prose: str) -> None:
    for text in (f'{prose}\n\nS1: @RESPOND ("x")\n', f'S1: @RESPOND ("x")\n\n{prose}\n'):
        result = parse(text)
        assert result.plan is not None
        assert replace(result.plan, comments=()) == parse('S1: @RESPOND ("x")').plan
        assert "LTP103" in {d.code for d in result.diagnostics}
