"""The forms that ask the person at an MCP client: what each says and what it lets be answered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from callsheet.apps.mcp.elicitation import forms_of
from callsheet.ir import JSON
from callsheet.runtime.answers import PendingAsk
from callsheet.runtime.doubt import RunOutcome

CALL = PendingAsk("r1", "S1.0.1", "S1", "approval", "d", 0.0, tool="NOTE", args={"line": "a"})


@pytest.mark.parametrize(
    ("answer", "title", "asked"),
    [
        ((), "Call it with exactly this", "may @NOTE be called with exactly this?"),
        (("done",), "Use this answer", "may the answer of @NOTE be used?"),
    ],
)
def test_approval_form_shows_call_or_result(answer: tuple[JSON, ...], title: str, asked: str) -> None:
    outcome = RunOutcome("r1", None, waiting=(replace(CALL, answer=answer),))

    (form,) = forms_of(outcome, {}, {}).values()

    assert form.schema["properties"]["approve"]["title"] == title
    assert asked in form.message
