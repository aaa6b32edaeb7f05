"""Branching and deleting runs over MCP: previewed first, and only done with a confirmation."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp_types import ElicitResult

from mcp_room import Answering, Room

PLAN = 'S1: @LOOK (what=$what) > $seen\nS2: @SEND (text="$seen") > $sent\nS3: @RESPOND ($sent)'
TEA = {"ltp_text": PLAN, "variables": {"what": "tea"}}
PUBLIC = {"ltp_text": 'S1: @CALC ("1 + 1") > $seen\nS2: @CALC ("$seen * 2") > $b\nS3: @RESPOND ("$b")'}
BRANCHES = [
    ("rerun_run", {"step": "S2"}, "sent seen tea"),
    ("fork_run", {"before": "S2", "variables": {"seen": "milk"}}, "sent milk"),
    ("fork_run", {"before": "S2", "arguments": [{"step": "S2", "name": "text", "value": "ale"}]}, "sent ale"),
    ("fork_run", {"before": "S2", "steps": {"S2": 'S2: @SEND (text="gin") > $sent'}}, "sent gin"),
]


async def call(client: Client, tool: str, **given: Any) -> Any:
    return await client.call_tool(tool, given)


async def done(client: Client) -> str:
    answer = await call(client, "plan_execute", **TEA)
    assert answer.structured_content["status"] == "done"
    return answer.structured_content["run_id"]


async def test_dry_run_lists_calls_and_makes_none(room: Room, mode: str) -> None:
    async with room.client(mode) as client:
        told = await call(client, "dry_run_plan", **TEA)
        supposed = await call(client, "dry_run_plan", **TEA, assume={"S1": "leaves"})
        await call(client, "save_plan", ltp_text=PLAN, plan_id="tell")
        kept = await call(client, "dry_run_plan", plan_id="tell", variables={"what": "tea"})
        neither = await call(client, "dry_run_plan", variables={"what": "tea"})
        runs = await call(client, "list_runs")
    assert [answer.is_error for answer in (told, supposed, kept, neither)] == [False, False, False, True]
    assert 'what: "tea"' in told.content[0].text
    assert "leaves" in supposed.content[0].text
    assert kept.structured_content["steps"] == told.structured_content["steps"]
    assert "MCP001" in neither.content[0].text
    assert room.calls == []
    assert runs.structured_content["runs"] == []


async def test_dry_run_reports_policy_refusal(room: Room, mode: str) -> None:
    text = 'S1: @EXEC_CODE (code="print(1)", language="python") > $x\nS2: @SEND (text=$x)'
    async with room.client(mode, policy="strict") as client:
        told = await call(client, "dry_run_plan", ltp_text=text)
    assert told.structured_content["ok"] is False
    assert any(row["code"].startswith("POL1") for row in told.structured_content["diagnostics"])


@pytest.mark.parametrize(("tool", "given", "response"), BRANCHES)
async def test_run_branches_when_call_confirms_effects(
    room: Room, mode: str, tool: str, given: dict[str, Any], response: str
) -> None:
    told: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    async with room.client(mode) as client:
        run_id = await done(client)
        refused = await call(client, tool, run_id=run_id, **given)
        before = room.calls
        agreed = {"run_id": run_id, "effects": True, **given}
        answer = await client.call_tool(tool, agreed, progress_callback=hear)
        story = await call(client, "explain_run", run_id=answer.structured_content["run_id"])
    assert "JRN083" in refused.content[0].text
    assert f'"{response.removeprefix("sent ")}"' in refused.content[0].text
    assert before == ["look tea", "send seen tea"]
    assert answer.structured_content["response"] == response
    assert len(room.calls) == 3
    assert room.calls[0] == "look tea"
    assert story.structured_content["from"]["run_id"] == run_id
    assert told[-1] == 3


AGREES = ElicitResult(action="accept", content={"agree": True})


@pytest.mark.parametrize(
    ("said", "calls"),
    [
        (AGREES, 3),
        (ElicitResult(action="accept", content={"agree": False}), 2),
        (ElicitResult(action="decline"), 2),
        (ElicitResult(action="cancel"), 2),
    ],
)
async def test_person_at_client_confirms_effects(
    room: Room, mode: str, said: ElicitResult, calls: int
) -> None:
    async with room.client(mode, lambda _: said) as client:
        run_id = await done(client)
        answer = await call(client, "rerun_run", run_id=run_id, step="S2")
    (form,) = room.asked
    assert "S2  @SEND (unsafe)\n      next, as at event 4 of" in form.message
    assert 'text="seen tea"' in form.message
    assert answer.is_error is (calls == 2)
    assert len(room.calls) == calls


async def test_question_of_new_run_is_answered_in_same_call(room: Room, mode: str) -> None:
    text = 'S1: @LOOK (what="tea") > $a\nS2: @ASK_HUMAN ("Which?") > $b\nS3: @SEND (text=$b) > $c'

    def say(form: Any) -> ElicitResult:
        if "Which?" in form.message:
            return ElicitResult(action="accept", content={"answer": "green"})
        return AGREES

    answering: Answering = say
    async with room.client(mode, answering) as client:
        run = (await call(client, "plan_execute", ltp_text=text)).structured_content
        again = await call(client, "rerun_run", run_id=run["run_id"], step="S2")
    assert room.asked[1].message.endswith('text="green" → <ASK_HUMAN result>')
    assert len(room.asked) == 3
    assert again.structured_content["status"] == "done"
    assert room.calls == ["look tea", "send green", "send green"]


@pytest.mark.parametrize("asks", [True, False])
async def test_run_is_undone_with_consent_and_an_undoing_goes_on(room: Room, mode: str, asks: bool) -> None:
    async with room.client(mode, (lambda _: AGREES) if asks else None) as client:
        run_id = await done(client)
        answer = await call(client, "undo_run", run_id=run_id, **({} if asks else {"effects": True}))
        again = await call(client, "undo_run", run_id=run_id, effects=True)
    assert answer.structured_content["response"] == f"1 call of run {run_id} undone"
    assert room.calls == ["look tea", "send seen tea", "unsend seen tea"]
    assert "JRN086" in again.content[0].text
    if asks:
        assert '@UNSEND (text="seen tea")' in room.asked[0].message


async def test_undoing_is_refused_with_its_calls_without_consent(room: Room, mode: str) -> None:
    async with room.client(mode, lambda _: ElicitResult(action="decline")) as client:
        run_id = await done(client)
        refused = await call(client, "undo_run", run_id=run_id)
    assert refused.is_error
    assert "JRN083" in refused.content[0].text
    assert '@UNSEND (text="seen tea")' in refused.content[0].text
    assert room.calls == ["look tea", "send seen tea"]


async def test_failed_items_run_again_and_consent_names_what_is_kept(room: Room, mode: str) -> None:
    text = 'S1: ?FOREACH ($n IN ["a", 1, "b"]) THEN @SEND (text=$n) > $rows\nS2: @SEND (text="end") > $x'
    async with room.client(mode, lambda _: AGREES) as client:
        run = (await call(client, "plan_execute", ltp_text=text)).structured_content
        again = await call(client, "rerun_run", run_id=run["run_id"], failed_items=True)
    (form,) = room.asked
    assert "failed items of S1: 1 of 3: [1]\nkept: 2 calls: S1 (2)" in form.message
    assert "text=1" in form.message
    assert 'text="a"' not in form.message
    assert again.structured_content["outcome"] == "done_with_failures"
    assert room.calls == ["send a", "send b", "send end"]


TREE = """# ltp: 2
S1: @SEND (text="one") > $a
S2: @SEND (text="two") > $b
@RESPOND ("${a}, ${b}")
"""


@pytest.mark.parametrize("tool", ["rerun_run", "resume_run"])
async def test_edited_plan_keeps_finished_calls_and_consent_names_them(
    room: Room, mode: str, tool: str
) -> None:
    edited = TREE.replace('"two"', '"three"')
    async with room.client(mode, lambda _: AGREES) as client:
        first = (await call(client, "plan_execute", ltp_text=TREE)).structured_content["run_id"]
        second = await call(client, tool, run_id=first, plan=edited)
        wrong = await call(client, tool, run_id=first, plan=edited.replace("@RESPOND", "@RESPONT"))
    assert second.structured_content["response"] == "sent one, sent three"
    (form,) = room.asked
    assert "kept: 1 call: S1" in form.message
    assert 'text="three"' in form.message
    assert room.calls == ["send one", "send two", "send three"]
    assert wrong.is_error


async def test_fork_needs_one_position(room: Room, mode: str) -> None:
    async with room.client(mode) as client:
        run_id = await done(client)
        for given in ({}, {"before": "S2", "at": 3}):
            answer = await call(client, "fork_run", run_id=run_id, **given)
            assert "MCP001" in answer.content[0].text
        nowhere = await call(client, "fork_run", run_id=run_id, before="S9")
    assert "JRN081" in nowhere.content[0].text


async def test_ended_runs_are_deleted_and_others_are_not(room: Room, mode: str) -> None:
    async with room.client(mode) as client:
        first, second = await done(client), await done(client)
        waits = await call(client, "plan_execute", ltp_text='S1: @ASK_HUMAN ("Which?") > $tea')
        waiting = waits.structured_content["run_id"]
        answer = await call(client, "delete_runs", run_ids=[first, waiting, "no-such", second[:6]])
        left = (await call(client, "list_runs")).structured_content["runs"]
    assert answer.is_error
    assert answer.structured_content["deleted"] == [first]
    assert [row["code"] for row in answer.structured_content["diagnostics"]] == ["API030", "JRN002", "JRN002"]
    assert {row["run_id"] for row in left} == {second, waiting}


async def test_subscribed_client_is_notified_of_new_plans_and_runs(room: Room, tmp_path: Path) -> None:
    async with room.client("2026-07-28") as client:
        run_id = await waiting(client)
        uri = f"callsheet://runs/{run_id}/summary"
        async with (
            asyncio.timeout(60),
            client.listen(resources_list_changed=True, resource_subscriptions=[uri]) as told,
        ):
            heard = told.__aiter__()
            await call(client, "save_plan", ltp_text=PLAN, plan_id="tell")
            assert type(await anext(heard)).__name__ == "ResourcesListChanged"
            (tmp_path / "plans" / "by-hand.ltp").write_text("S1: @LOOK (what=1) > $a\n")
            assert type(await anext(heard)).__name__ == "ResourcesListChanged"
            await call(client, "cancel_run", run_id=run_id)
            changed: Any = await anext(heard)
            assert changed.uri == uri


async def waiting(client: Client) -> str:
    answer = await call(client, "plan_execute", ltp_text='S1: @ASK_HUMAN ("Which?") > $tea')
    return answer.structured_content["run_id"]


async def test_older_client_is_notified_after_listing(room: Room) -> None:
    heard = asyncio.Event()

    async def hear(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/list_changed":
            heard.set()

    async with room.client("legacy", hearing=hear) as client:
        assert client.server_capabilities.resources.list_changed
        await client.list_resources()
        await done(client)
        async with asyncio.timeout(60):
            await heard.wait()


@pytest.mark.parametrize("under", ["", "open"])
@pytest.mark.parametrize(("tool", "given"), [(tool, given) for tool, given, _ in BRANCHES])
async def test_run_outside_server_policy_cannot_branch(
    room: Room, mode: str, under: str, tool: str, given: dict[str, Any]
) -> None:
    """A run in the journal may belong to anybody and need not be under the policy of this client."""
    async with room.client(mode, policy=under) as client:
        run_id = (await call(client, "plan_execute", **(PUBLIC if under else TEA))).structured_content[
            "run_id"
        ]
    before = room.calls
    async with room.client(mode, policy="workspace") as client:
        answer = await call(client, tool, run_id=run_id, effects=True, **given)
        runs = (await call(client, "list_runs")).structured_content["runs"]
    assert answer.is_error
    assert "API020" in answer.content[0].text
    assert room.calls == before
    assert [run["run_id"] for run in runs] == [run_id]


async def test_run_branches_under_server_policy(room: Room, mode: str) -> None:
    async with room.client(mode, policy="workspace") as client:
        run_id = (await call(client, "plan_execute", **PUBLIC)).structured_content["run_id"]
    async with room.client(mode, policy="workspace") as client:
        answer = await call(client, "rerun_run", run_id=run_id, step="S1", effects=True)
        other = await call(
            client, "fork_run", run_id=run_id, before="S2", variables={"seen": 3}, effects=True
        )
    assert answer.structured_content["response"] == "4"
    assert other.structured_content["response"] == "6"
