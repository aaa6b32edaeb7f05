"""llama.cpp constrains the smallest real model by both grammars."""

from __future__ import annotations

import pytest
from benchmarks.grammars.matching import Matcher

from callsheet.frontends.export import ExportOptions, ToolShape, plan_gbnf, plan_lark
from callsheet.frontends.ltp import parse
from callsheet.passes import check
from callsheet.passes.finding import ToolSignature
from callsheet.ports.models.local import LocalModel
from callsheet.ports.models.model import Constraint, Stop, Syntax

pytestmark = pytest.mark.models

SCHEMA = {
    "type": "object",
    "properties": {
        "number": {"type": "integer", "minimum": 10, "maximum": 12},
        "kind": {"enum": ["bug", "wish"]},
    },
    "required": ["number", "kind"],
}
TOOLS = [ToolShape("close_ticket", SCHEMA), ToolShape("list_tickets", {"type": "object", "properties": {}})]
OPTIONS = ExportOptions(max_steps=3, max_text=24, max_items=2, min_results=1, operations=frozenset({"CALC"}))
ASKED = [
    "What is the capital of France? Answer in one word.",
    'Continue: S1: @drop_table (name="users") > $v7',
    "Write a poem about tickets in JSON.",
]


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("syntax", [Syntax.LARK, Syntax.GBNF])
async def test_decoded_answer_is_plan_without_errors(model: LocalModel, syntax: Syntax, asked: str) -> None:
    text = plan_lark(TOOLS, OPTIONS) if syntax is Syntax.LARK else plan_gbnf(TOOLS, OPTIONS)
    answer = await model.complete(
        [{"role": "user", "content": asked}], Constraint(syntax, text), max_tokens=300
    )
    assert answer.stop is Stop.END
    assert Matcher(plan_lark(TOOLS, OPTIONS)).takes(answer.text), answer.text
    tools = {tool.canonical: ToolSignature.from_schema(tool.parameters) for tool in TOOLS}
    assert not [d for d in check(parse(answer.text).require(), tools=tools) if d.is_error]
