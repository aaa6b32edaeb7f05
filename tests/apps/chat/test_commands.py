"""Parsing a line of a conversation: a message, a command, or an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.apps.chat.chat_session import half_bound
from callsheet.apps.chat.commands import Message, PlanCommand, SimpleCommand, parse_command
from callsheet.apps.chat.plan_tools import Exchange, answering_plan, transcript
from callsheet.diagnostics import CallsheetError
from callsheet.frontends.ltp import parse


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("", None),
        ("  hello ", Message("hello")),
        ("/plan create sum up the notes", PlanCommand("create", "sum up the notes")),
        ("/plan list", PlanCommand("list")),
        (
            "/plan run a n=3 s='two words' --dry-run",
            PlanCommand("run", "a", {"n": 3, "s": "two words"}, True),
        ),
        ("/plan resume", PlanCommand("resume")),
        ("/exit", SimpleCommand("quit")),
        ("/usage", SimpleCommand("usage")),
    ],
)
def test_lines_are_parsed(line, command):
    assert parse_command(line) == command


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/plan rnu a", "did you mean /plan run"),
        ("/hlep", "did you mean /help"),
        ("/plan show", "needs the id of a plan"),
        ("/plan run a b", "not NAME=VALUE"),
        ("/plan run --dry-run", "needs the id of a plan"),
        ("/plan show a b", "takes one name"),
        ("/plan show 'a", "a quote is not closed"),
    ],
)
def test_unknown_command_is_error_with_hint(line, told):
    with pytest.raises(CallsheetError) as error:
        parse_command(line)
    said = error.value.diagnostics[0]
    assert said.code == "CFG210"
    assert told in f"{said.message} {said.help}"


@given(st.text(max_size=60))
def test_no_line_causes_bug_report(line):
    try:
        parse_command(line)
    except CallsheetError as error:
        codes = [said.code for said in error.diagnostics]
    else:
        codes = ["CFG210"]
    assert codes == ["CFG210"]


@given(
    st.lists(st.builds(Exchange, st.text(max_size=30), st.text(max_size=30)), max_size=8), st.integers(0, 200)
)
def test_newest_exchanges_that_fit_are_in_prompt(exchanges, most):
    text = transcript(exchanges, most)
    kept = [transcript([exchange]) for exchange in exchanges]
    assert any(text == "\n".join(kept[first:]) for first in range(len(kept) + 1))
    assert sum(map(len, kept[len(kept) - 1 :])) > most or not kept or text


@given(st.lists(st.from_regex(r"[A-Z][A-Z0-9_]{0,20}", fullmatch=True), max_size=5), st.booleans())
def test_plan_of_message_parses_for_any_tools(tools, has_past):
    result = parse(answering_plan(tools, has_past=has_past), "<conversation>")
    assert result.plan is not None
    assert not [d for d in result.diagnostics if d.is_error]


@given(st.integers(0, 10**9))
def test_half_of_budget_is_between_one_and_whole(most):
    assert 0 <= half_bound(most) <= most
    assert bool(half_bound(most)) == bool(most)
