"""Hostile schemas of servers cannot keep a check or a call from ending."""

from __future__ import annotations

from time import monotonic
from typing import Any

import pytest

from callsheet import RunStatus, Runtime
from callsheet.ports.calls import ToolFailed
from callsheet.ports.mcp.content import check_declared

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
ENDLESS = {"type": "string", "pattern": "(a+)+$"}
"""A minute of work for 30 letters, as Python tries patterns, and twice as much for each further one."""
ITSELF = {"$ref": "#/$defs/d"}
PLAN = 'S1: @LOOK (thing="x") > $a'


def declared(**fields: Any) -> dict[str, Any]:
    return {"name": "look", "inputSchema": {"type": "object", "properties": {"thing": {}}}, **fields}


async def run(changeling: Any, tmp_path: Any, result: Any, schema: Any) -> Any:
    changeling.declare(declared(outputSchema=schema))
    changeling.answer(look={"content": [], "structuredContent": result})
    begin = monotonic()
    runtime = Runtime(mcp=[changeling.config()], data=tmp_path, journal=tmp_path / "journal.db")
    outcome = await runtime.run(PLAN)
    assert monotonic() - begin < 20
    return outcome


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"b": ENDLESS}},
        {"type": "object", "patternProperties": {"(a+)+$": {"type": "string"}}},
        {"type": "object", "unevaluatedProperties": False, "patternProperties": {"(a+)+$": {}}},
        {"type": "object", "properties": {"a": {"$schema": DRAFT_7, "not": ENDLESS}}},
        {"type": "object", "properties": {"a": ITSELF}, "$defs": {"d": {"allOf": [ITSELF] * 9}}},
        {"type": "object", "$ref": "#"},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        {"type": "object", "$ref": "http://127.0.0.1:9/schema"},
    ],
)
async def test_hostile_result_schema_blocks_no_call(changeling, tmp_path, schema):
    result = {"a": "a" * 30 + "!", "a" * 30 + "!": 1, "b": "!" + "a" * 30}
    outcome = await run(changeling, tmp_path, result, schema)
    assert (outcome.status, outcome.variables["a"]) == (RunStatus.DONE, result)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": ENDLESS}},
        {"type": "object", "patternProperties": {"(b+)+$": {}}, "additionalProperties": False},
        {"type": "object", "propertyNames": {"pattern": "(b+)+$"}},
    ],
)
async def test_result_not_matching_hostile_pattern_is_in_doubt(changeling, tmp_path, schema):
    outcome = await run(changeling, tmp_path, {"a": "a" * 30 + "!"}, schema)
    assert outcome.status is RunStatus.IN_DOUBT


async def test_result_violating_declared_schema_is_in_doubt(changeling, tmp_path):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    outcome = await run(changeling, tmp_path, {"n": "many"}, schema)
    assert outcome.status is RunStatus.IN_DOUBT
    said = "the MCP server 'hall' answered with an invalid result: its structured content.n should be integer"
    assert outcome.in_doubt[0].why == said


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"structured_content": {}}, "its structured content.n is missing"),
        ({"structured_content": {"n": 1, "m": 2}}, "its structured content.m is undeclared"),
        ({}, "it declares structured content and returned none"),
    ],
)
def test_schema_violation_of_result_is_named(answer, said):
    from mcp_types import CallToolResult

    schema = {"properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    with pytest.raises(ToolFailed, match=said) as caught:
        check_declared(CallToolResult(content=[], **answer), schema)
    assert caught.value.in_doubt
    check_declared(CallToolResult(content=[], is_error=True, **answer), schema)


@pytest.mark.parametrize("word", ["allOf", "anyOf", "oneOf"])
async def test_hostile_argument_schema_blocks_no_check(changeling, tmp_path, word):
    schema = {"type": "object", "properties": {"thing": ITSELF}, "$defs": {"d": {word: [ITSELF] * 9}}}
    changeling.declare(declared(inputSchema=schema))
    begin = monotonic()
    outcome = await Runtime(mcp=[changeling.config()], data=tmp_path).run(PLAN)
    assert outcome.status is RunStatus.DONE
    assert monotonic() - begin < 20


async def test_unreadable_tool_is_reported_with_reason(changeling, tmp_path, caplog):
    changeling.declare(declared(description=5))
    found = await Runtime(mcp=[changeling.config()], data=tmp_path).check(PLAN)
    assert "no tool is called @LOOK" in found.errors[0].message
    assert "TOL018: the tool 'look' of the MCP server 'hall'" in caplog.text
    assert "description: input should be a valid string" in caplog.text
