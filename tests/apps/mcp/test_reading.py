"""Resources, prompts and completion: reading plans and runs, writing plans, completing ids."""

from __future__ import annotations

import json

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceTemplateReference

from mcp_room import Room

PLAN = 'S1: @LOOK (what="tea") > $seen\nS2: @RESPOND ($seen)'


async def test_plans_and_runs_are_resources(room: Room, mode: str) -> None:
    async with room.client(mode) as client:
        await client.call_tool("save_plan", {"ltp_text": PLAN, "plan_id": "tea"})
        done = await client.call_tool("plan_execute", {"plan_id": "tea"})
        run = f"callsheet://runs/{done.structured_content['run_id']}"
        uris = [each.uri for each in (await client.list_resources()).resources]
        assert uris == ["callsheet://plans/tea", f"{run}/summary"]
        read = {
            uri: (await client.read_resource(uri)).contents[0]
            for uri in (*uris, f"{run}/journal", f"{run}/report", f"{run}/lctl")
        }
    plan, summary, journal, report, lctl = read.values()
    assert plan.text.strip() == PLAN
    assert "S1     ok" in summary.text
    assert json.loads(journal.text)["response"] == "seen tea"
    assert report.mime_type == "text/html"
    assert report.text.startswith("<!doctype html>")
    assert lctl.text.startswith("lctl:")


@pytest.mark.parametrize(
    "uri",
    [
        "callsheet://plans/../../etc/passwd",
        "callsheet://plans/none",
        "callsheet://runs/none/report",
        "callsheet://runs/last/nothing",
        "callsheet://nothing",
        "file:///etc/passwd",
    ],
)
async def test_missing_resources_are_refused_with_diagnostics(room: Room, mode: str, uri: str) -> None:
    async with room.client(mode) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
    (row,) = caught.value.error.data["diagnostics"]
    assert row["severity"] == "error"
    assert row["code"] in str(caught.value)


async def test_prompt_has_language_tools_and_goal(room: Room, mode: str) -> None:
    async with room.client(mode) as client:
        names = {prompt.name for prompt in (await client.list_prompts()).prompts}
        written = await client.get_prompt("write_plan", {"goal": "Look at tea and send it"})
        repaired = await client.get_prompt("repair_plan", {"ltp_text": "S1: GOTO S9"})
        with pytest.raises(MCPError, match="write_plan needs goal"):
            await client.get_prompt("write_plan", {})
        with pytest.raises(MCPError, match="there is no prompt"):
            await client.get_prompt("sing", {})
    assert names == {"write_plan", "repair_plan", "explain_run"}
    text = written.messages[0].content.text
    for part in (
        "You turn a goal into a plan",
        "async def look(",
        "Look at tea and send it",
        "validate_plan",
    ):
        assert part in text
    assert "CHK012" in repaired.messages[0].content.text


async def test_run_is_explained_from_journal(room: Room, mode: str) -> None:
    async with room.client(mode) as client:
        await client.call_tool("plan_execute", {"ltp_text": PLAN})
        told = await client.get_prompt("explain_run", {"run_id": "last"})
    assert "S1     ok" in told.messages[0].content.text


async def test_ids_are_completed(room: Room, mode: str) -> None:
    async with room.client(mode) as client:
        for name in ("tea", "teapot", "coffee"):
            await client.call_tool("save_plan", {"ltp_text": PLAN, "plan_id": name})
        ref = ResourceTemplateReference(uri="callsheet://plans/{plan_id}")
        found = await client.complete(ref, {"name": "plan_id", "value": "te"})
    assert found.completion.values == ["tea", "teapot"]
