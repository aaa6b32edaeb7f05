"""MCP tools on texts: as documented, with results that match their schemas, in both protocols."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp.shared.exceptions import MCPError

from mcp_room import Room

GOOD = 'S1: @LOOK (what="tea") > $seen\nS2: @RESPOND ($seen)'
BAD = "S1: @LOOK (what=)\nS2: GOTO S9"


SAYING = {"type", "anyOf", "$ref", "enum", "const", "oneOf", "allOf"}
"""Of these a schema needs one: clients refuse, or warn of, one that says nothing."""


def _properties(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """All properties of a schema, including nested ones."""
    if isinstance(schema, dict):
        for key, inner in schema.items():
            if key == "properties":
                yield from inner.items()
            yield from _properties(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _properties(inner)


async def test_all_tools_are_declared_with_schemas_and_hints(room: Room, mode: str) -> None:
    async with room.client(mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert {"parse_plan", "validate_plan", "visualize_plan", "format_plan", "verify_plan", "compile_plan",
            "plan_create", "plan_execute", "plan_create_and_execute", "resume_run", "explain_run",
            "lctl_check", "list_plans", "list_runs", "cancel_run"} <= tools.keys()  # fmt: skip
    for tool in tools.values():
        assert tool.description
        assert tool.output_schema is not None
        assert tool.annotations is not None
        Draft202012Validator.check_schema(tool.input_schema)
        Draft202012Validator.check_schema(tool.output_schema)
        for schema in (tool.input_schema, tool.output_schema):
            assert [name for name, said in _properties(schema) if not said.keys() & SAYING] == []
    for name in ("plan_execute", "dry_run_plan", "resume_run"):  # what only the operator decides
        offered = tools[name].input_schema["properties"].keys()
        assert not offered & {"policy", "approve", "approved", "limits", "accept_changed_tools", "name"}
    for name in ("parse_plan", "validate_plan", "visualize_plan"):
        assert tools[name].input_schema["required"] == ["ltp_text"]
        assert tools[name].annotations.read_only_hint is True
    assert tools["plan_execute"].annotations.read_only_hint is False
    assert tools["plan_execute"].annotations.destructive_hint is True


async def test_declarations_leave_room_in_context(room: Room) -> None:
    async with room.client("auto") as client:
        tools = (await client.list_tools()).tools
    said = json.dumps([tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools])
    assert len(said) < 58_000


@pytest.mark.parametrize(
    ("name", "given", "is_error", "says"),
    [
        ("parse_plan", {"ltp_text": GOOD}, False, 'S1: @LOOK (what="tea") > $seen'),
        ("parse_plan", {"ltp_text": BAD}, True, "<plan>:1:"),
        ("parse_plan", {"ltp_text": ""}, True, "this text is empty"),
        ("validate_plan", {"ltp_text": GOOD}, False, "ok: 2 steps"),
        ("validate_plan", {"ltp_text": BAD}, False, "this plan has errors and cannot run"),
        ("validate_plan", {"ltp_text": "S1: @LOK (what=1) > $x\nS2: @RESPOND ($x)"}, False, "CHK040"),
        ("visualize_plan", {"ltp_text": GOOD}, False, "```mermaid\ngraph TD"),
        ("visualize_plan", {"ltp_text": GOOD, "format": "terminal"}, False, "○ S1"),
        ("visualize_plan", {"ltp_text": BAD}, True, "error"),
        ("format_plan", {"ltp_text": GOOD}, False, "PLAN_START\nS1:"),
        ("format_plan", {"ltp_text": "look tea", "to": "dag"}, True, "error"),
        ("format_plan", {"ltp_text": 'S1: @LOOK ("tea") > $s', "to": "dag"}, False, '"what": "tea"'),
        ("verify_plan", {"ltp_text": GOOD, "policy": "open"}, False, "proved against open"),
        (
            "verify_plan",
            {"ltp_text": 'fetch "http://a.b/" > x\nrespond x'},
            False,
            "not proved against strict",
        ),
        ("verify_plan", {"ltp_text": GOOD, "approved": ["S7"]}, False, "S7"),
        ("explain_code", {"code": "chk040"}, False, "# CHK040"),
        ("explain_code", {"code": "CHK999"}, True, "CFG015"),
        ("lctl_check", {"blocks": ["no block"]}, False, "LCTL rules are violated"),
        ("parse_plan", {"text": GOOD}, True, "did you mean ltp_text?"),
        ("parse_plan", {"ltp_text": 7}, True, "MCP001"),
        ("lctl_check", {"blocks": "no list"}, True, "blocks: input should be a list"),
        (
            "plan_execute",
            {"ltp_text": GOOD, "variables": []},
            True,
            "variables: input should be a JSON object",
        ),
        ("plan_execute", {}, True, "either plan_id or ltp_text"),
        ("show_plan", {"plan_id": "../../etc/passwd"}, True, "PLN001"),
        ("show_plan", {"plan_id": "no-such-plan"}, True, "PLN002"),
        ("explain_run", {"run_id": "no-such-run"}, True, "JRN002"),
        ("list_plans", {}, False, "no plans are saved yet"),
        ("list_runs", {"status": "done"}, False, "there are no such runs"),
    ],
)
async def test_result_text_and_structured_content_match_schema(
    room: Room, mode: str, name: str, given: dict[str, Any], is_error: bool, says: str
) -> None:
    async with room.client(mode) as client:
        (tool,) = [tool for tool in (await client.list_tools()).tools if tool.name == name]
        answer = await client.call_tool(name, given)
    assert says in answer.content[0].text
    assert bool(answer.is_error) is is_error
    Draft202012Validator(tool.output_schema).validate(answer.structured_content)
    if is_error:
        rows = answer.structured_content["diagnostics"]
        assert rows
        assert all({"code", "severity", "message"} <= row.keys() for row in rows)


async def test_missing_variable_hint_is_for_mcp(room: Room, mode: str) -> None:
    async with room.client(mode) as client:
        answer = await client.call_tool("validate_plan", {"ltp_text": "S1: @RESPOND ($x)"})
    (said,) = [row for row in answer.structured_content["diagnostics"] if row["code"] == "CHK001"]
    assert said["help"].startswith("it is null here; give x in `variables` of the run (`inputs` where")
    assert said["help"] in answer.content[0].text


async def test_unknown_tool_is_protocol_error(room: Room, mode: str) -> None:
    async with room.client(mode) as client:
        with pytest.raises(MCPError, match="there is no tool"):
            await client.call_tool("rm_rf", {})


async def test_documented_messages_accompany_diagnostics(room: Room, mode: str) -> None:
    async with room.client(mode) as client:
        told = await client.call_tool("validate_plan", {"ltp_text": "S3: @RESPOND ($foo)", "tools": False})
    assert told.structured_content["problems"] == ["[S3] Undefined variable $foo in @RESPOND args"]


async def test_server_uses_configured_policy(room: Room, mode: str) -> None:
    async with room.client(mode, policy="open") as client:
        told = await client.call_tool("verify_plan", {"ltp_text": GOOD})
    assert told.structured_content["policy"] == "open"


async def test_bug_is_error_result_and_server_continues(
    room: Room, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*_: object) -> None:
        raise KeyError("x")

    async with room.client(mode) as client:
        with monkeypatch.context() as patched:
            patched.setattr("callsheet.apps.table.texts.check_blocks", wrong)
            told = await client.call_tool("lctl_check", {"blocks": ["x"]})
        assert told.is_error
        assert "MCP009" in told.content[0].text
        assert not (await client.call_tool("parse_plan", {"ltp_text": GOOD})).is_error
