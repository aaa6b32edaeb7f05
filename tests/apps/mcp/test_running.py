"""Running plans for MCP clients: to an end, to a question, to a cancellation; no call twice."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult

from callsheet.api.texts import file_note
from callsheet.apps.operations.reading import plan_text
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import enlist_run
from callsheet.sealing.known import Known
from callsheet.store import Journal
from mcp_room import Room

PLAN = 'S1: @LOOK (what=$what) > $seen\nS2: @SEND (text="$seen") > $sent\nS3: @RESPOND ($sent)'
SLOW = 'S1: @LOOK (what="tea") > $seen\nS2: @SLOW (text=$seen) > $said\nS3: @RESPOND ($said)'
ASKS = 'S1: @ASK_HUMAN ("Which tea?", options=["green", "black"]) > $tea\nS2: @RESPOND ("You want", $tea)'


def answered(**content: Any) -> ElicitResult:
    return ElicitResult(action="accept", content=content)


async def execute(client: Client, text: str, **given: Any) -> CallToolResult:
    return await client.call_tool("plan_execute", {"ltp_text": text, **given})


async def begun(room: Room, line: str) -> None:
    """Wait until a call has reached its tool."""
    async with asyncio.timeout(60):
        while line not in room.calls:  # noqa: ASYNC110 - the tool tells it by a file
            await asyncio.sleep(0.01)


async def test_plan_runs_with_progress_before_result(room: Room, mode: str) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with room.client(mode) as client:
        given = {"ltp_text": PLAN, "variables": {"what": "tea"}}
        answer = await client.call_tool("plan_execute", given, progress_callback=hear)
        heard = list(told)
        data = answer.structured_content
        story = (await client.call_tool("explain_run", {"run_id": data["run_id"]})).structured_content
    assert not answer.is_error
    assert (data["status"], data["response"]) == ("done", "sent seen tea")
    assert room.calls == ["look tea", "send seen tea"]
    assert [(progress, total) for progress, total, _ in heard] == [(1, 3), (2, 3), (3, 3)]
    assert heard[1][2] == "S2 done: @SEND (text=$seen)"
    assert [step["outcome"] for step in story["steps"]] == ["ok", "ok", "ok"]
    assert answer.content[1].uri == f"callsheet://runs/{data['run_id']}/report"


async def test_progress_of_new_plan_excludes_old_steps(room: Room, mode: str) -> None:
    told: list[str | None] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    text = 'S1: @SEND (text="x") > $sent\nS2: RE-PLAN ("once more")'
    async with room.client(mode, model=True) as client:
        await client.call_tool("plan_execute", {"ltp_text": text}, progress_callback=hear)
    assert room.calls == ["send x", "look tea"]
    assert told[0] == 'S1 done: @SEND (text="x")'
    assert told[2:] == ["S1 done", "S2 done"]


async def test_loop_progress_has_no_total_beyond_plan_size(room: Room, mode: str) -> None:
    told: list[tuple[float, float | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total))

    text = 'S1: @CALC ("$n + 1") > $n\nS2: ?IF ($n < 5) THEN GOTO S1\nS3: @RESPOND ($n)'
    async with room.client(mode) as client:
        await client.call_tool(
            "plan_execute", {"ltp_text": text, "variables": {"n": 0}}, progress_callback=hear
        )
    counts = [progress for progress, _ in told]
    assert counts == sorted(set(counts))
    assert counts[-1] > 3
    assert told[-1][1] is None


async def test_failed_plan_is_error_with_run_id(room: Room, mode: str) -> None:
    graph = '{"steps": [{"index": "1", "title": "", "tool": "broken", "args": {}, "depends_on": []}]}'
    async with room.client(mode) as client:
        answer = await execute(client, graph)
    assert answer.is_error
    assert (answer.structured_content["status"], answer.structured_content["ended_at"]) == ("failed", "1")
    assert "it is broken" in answer.content[0].text


async def test_failed_steps_of_continued_plan_are_listed(room: Room, mode: str) -> None:
    async with room.client(mode) as client:
        answer = await execute(client, 'S1: @BROKEN ()\nS2: @RESPOND ("done")')
        listed = await client.call_tool("list_runs", {"status": "done_with_failures"})
    assert not answer.is_error
    assert answer.structured_content["failed_steps"] == ["S1"]
    assert "done with failures: S1 failed and the plan went on" in answer.content[0].text
    assert answer.structured_content["outcome"] == "done_with_failures"
    assert listed.structured_content["runs"][0]["outcome"] == "done_with_failures"


async def test_plan_with_errors_does_not_run(room: Room, mode: str) -> None:
    async with room.client(mode) as client:
        answer = await execute(client, "S1: @NO_SUCH () > $x\nS2: @RESPOND ($x)")
        runs = await client.call_tool("list_runs", {})
    assert answer.is_error
    rows = answer.structured_content["diagnostics"]
    assert [row["code"] for row in rows if row["severity"] == "error"] == ["CHK040"]
    assert runs.structured_content["runs"] == []


def taken_over() -> dict[str, Any]:
    """The arguments for a plan whose first step another program has completed."""
    step = {"title": "Step", "depends_on": []}
    first = {**step, "index": "1", "tool": "look", "args": {"what": "tea"}, "result_variable": "seen"}
    then = {**step, "index": "2", "tool": "send", "args": {"text": "${seen}"}, "depends_on": ["1"]}
    state = {"plan_id": "two", "completed_steps": ["1"], "variables": {"seen": "from before"}}
    return {
        "ltp_text": json.dumps({"id": "two", "title": "Two", "steps": [first, then]}),
        "state": json.dumps(state),
    }


async def test_steps_completed_by_another_program_are_not_run_again(room: Room, mode: str) -> None:
    async with room.client(mode) as client:
        answer = await client.call_tool("plan_execute", taken_over())
    assert answer.structured_content["status"] == "done"
    assert room.calls == ["send from before"]


async def test_results_named_by_client_are_refused_under_policy(room: Room, mode: str) -> None:
    async with room.client(mode, policy="open") as client:
        answer = await client.call_tool("plan_execute", taken_over())
    assert answer.is_error
    assert "PLN028" in answer.content[0].text
    assert room.calls == []


async def test_plan_refused_by_policy_does_not_run(room: Room, mode: str) -> None:
    async with room.client(mode, policy="strict") as client:
        answer = await execute(
            client, 'S1: @EXEC_CODE (code="print(1)", language="python") > $x\nS2: @SEND (text=$x)'
        )
        runs = await client.call_tool("list_runs", {})
    assert answer.is_error
    assert any(row["code"].startswith("POL1") for row in answer.structured_content["diagnostics"])
    assert runs.structured_content["runs"] == []
    assert room.calls == []


async def test_limits_apply_to_every_plan(room: Room, mode: str) -> None:
    from callsheet.machine import Limits

    async with room.client(mode, limits=Limits(max_calls=1)) as client:
        answer = await execute(client, PLAN, variables={"what": "tea"})
    assert answer.is_error
    assert room.calls == ["look tea"]


@pytest.mark.parametrize(
    ("said", "calls", "response"),
    [
        (answered(approve=True), ["look tea", "send seen tea"], "sent seen tea"),
        (answered(approve=False, note="not today"), ["look tea"], "not today"),
        (ElicitResult(action="decline"), ["look tea"], "denied"),
    ],
)
async def test_person_at_client_approves_or_denies_exact_call(
    room: Room, mode: str, said: ElicitResult, calls: list[str], response: str
) -> None:
    async with room.client(mode, lambda _: said, approve=("SEND",)) as client:
        answer = await execute(client, PLAN, variables={"what": "tea"})
    (form,) = room.asked
    assert 'text = "seen tea"' in form.message
    assert "callsheet approve" not in form.message
    assert room.calls == calls
    assert response in answer.structured_content["response"]


async def test_dismissed_form_answers_nothing_and_run_waits(room: Room, mode: str) -> None:
    async with room.client(mode, lambda _: ElicitResult(action="cancel"), approve=("SEND",)) as client:
        answer = await execute(client, PLAN, variables={"what": "tea"})
    assert answer.structured_content["status"] == "waiting"
    assert not answer.is_error
    assert f"callsheet approve {answer.structured_content['run_id']} S2" in answer.content[0].text


async def test_question_offers_options_and_takes_answer(room: Room, mode: str) -> None:
    async with room.client(mode, lambda _: answered(answer="black")) as client:
        answer = await execute(client, ASKS)
    (form,) = room.asked
    assert form.requested_schema["properties"]["answer"]["enum"] == ["green", "black"]
    assert answer.structured_content["response"] == "You want black"


@pytest.mark.parametrize(
    ("schema", "said", "value"),
    [
        ('{"type": "integer", "minimum": 1}', 7, 7),
        (
            '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}',
            '{"n": 3}',
            {"n": 3},
        ),
        ('{"type": "boolean"}', True, True),
    ],
)
async def test_answer_has_kind_requested_by_step(
    room: Room, mode: str, schema: str, said: Any, value: Any
) -> None:
    text = f'S1: @ASK_HUMAN ("How many?", schema={schema}) > $n\nS2: @RESPOND ("ok")'
    async with room.client(mode, lambda _: answered(answer=said)) as client:
        answer = await execute(client, text, show_variables=["n"])
    assert answer.structured_content["variables"]["n"] == value


async def test_consecutive_questions_are_asked_and_steps_reported_once(room: Room, mode: str) -> None:
    told: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    def say(form: ElicitRequestParams) -> ElicitResult:
        return answered(answer="green") if "Which tea" in form.message else answered(approve=True)

    text = 'S1: @ASK_HUMAN ("Which tea?") > $tea\nS2: @SEND (text=$tea) > $sent\nS3: @RESPOND ($sent)'
    async with room.client(mode, say, approve=("SEND",)) as client:
        answer = await client.call_tool("plan_execute", {"ltp_text": text}, progress_callback=hear)
    assert answer.structured_content["response"] == "sent green"
    assert len(room.asked) == 2
    assert told == [1, 2, 3]


async def test_forged_client_continuation_is_refused(room: Room) -> None:
    async with room.client("2026-07-28", lambda _: answered(answer="green")) as client:
        asked = await client.session.call_tool("plan_execute", {"ltp_text": ASKS}, allow_input_required=True)
        state = asked.request_state
        given = {"ltp_text": ASKS, "variables": {"another": 1}}
        for arguments, wrong in (
            ({"ltp_text": ASKS}, "made up"),
            ({"ltp_text": ASKS}, f"{state}x"),
            (given, state),
        ):
            with pytest.raises(MCPError, match="requestState"):
                await client.call_tool("plan_execute", arguments, request_state=wrong)
        (run,) = (await client.call_tool("list_runs", {})).structured_content["runs"]
    assert run["status"] == "waiting"


async def test_result_without_forms_describes_open_question(room: Room, mode: str) -> None:
    async with room.client(mode) as client:
        answer = await execute(client, ASKS)
        names = {tool.name for tool in (await client.list_tools()).tools}
        run_id = answer.structured_content["run_id"]
        with pytest.raises(MCPError):
            await client.call_tool("answer_run", {"run_id": run_id, "key": "S1", "verdict": "approve"})
    (ask,) = answer.structured_content["waiting"]
    assert (ask["prompt"], ask["options"]) == ("Which tea?", ["green", "black"])
    assert f"callsheet approve {run_id}" in answer.content[0].text
    assert "answer_run" not in names


async def test_client_without_forms_answers_by_tool_where_allowed(room: Room, mode: str) -> None:
    async with room.client(mode, lets_clients_answer=True) as client:
        assert "answer_run" in {tool.name for tool in (await client.list_tools()).tools}
        run_id = (await execute(client, ASKS)).structured_content["run_id"]
        given = {"run_id": run_id, "key": "S1", "verdict": "answer", "value": "green"}
        wrong = await client.call_tool("answer_run", given | {"value": "red"})
        taken = await client.call_tool("answer_run", given)
        answer = await client.call_tool("resume_run", {"run_id": run_id})
    assert "RUN031" in wrong.content[0].text
    assert not taken.is_error
    assert answer.structured_content["response"] == "You want green"


async def test_client_with_forms_is_not_offered_answer_tool(room: Room, mode: str) -> None:
    async with room.client(mode, lambda _: answered(), lets_clients_answer=True) as client:
        assert "answer_run" not in {tool.name for tool in (await client.list_tools()).tools}


async def test_cancelled_call_leaves_resumable_run(room: Room, mode: str) -> None:
    async with room.client(mode, lambda _: answered(decision="retry")) as client:
        calling = asyncio.create_task(execute(client, SLOW))
        await begun(room, "slow seen tea")
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        async with asyncio.timeout(60):
            while (await stands(client))["status"] == "running":  # noqa: ASYNC110 - nothing rings
                await asyncio.sleep(0.02)
        room.let_go()
        answer = await client.call_tool("resume_run", {"run_id": "last"})
    (form,) = room.asked
    assert "whether it took place is unknown" in form.message
    assert answer.structured_content["response"] == "slowly seen tea"
    assert room.calls == ["look tea", "slow seen tea", "slow seen tea"]


async def test_run_of_edited_file_is_resumed_only_as_recorded(room: Room, mode: str) -> None:
    file, text = room.folder / "mine.ltp", 'S1: @LOOK (what="tea") > $seen\nS2: @RESPOND ($seen)'
    note = {"setup": room.setup().to_note(), "file": file_note(file, text, None)}
    with Journal.open(room.folder / "journal.db") as journal:
        (await enlist_run(plan_text(text).require(), Known(), Launch(note=note), journal, "mine")).close()
    file.write_text(text.replace("tea", "milk"))
    async with room.client(mode) as client:
        refused = await client.call_tool("resume_run", {"run_id": "mine"})
        assert room.calls == []
        answer = await client.call_tool("resume_run", {"run_id": "mine", "as_recorded": True})
    assert refused.is_error
    assert "JRN024" in refused.content[0].text
    assert "mine.ltp was edited" in refused.content[0].text
    assert answer.structured_content["response"] == "seen tea"
    assert room.calls == ["look tea"]


async def test_run_of_edited_library_plan_is_rerun_only_as_recorded(room: Room, mode: str) -> None:
    async with room.client(mode) as client:
        for what in ("tea", "milk"):
            text = f'S1: @LOOK (what="{what}") > $seen\nS2: @RESPOND ($seen)'
            saved = {"ltp_text": text, "plan_id": "see", "replace": what == "milk"}
            assert not (await client.call_tool("save_plan", saved)).is_error
            if what == "tea":
                await client.call_tool("plan_execute", {"plan_id": "see"})
        given = {"run_id": "last", "step": "S1", "effects": True}
        refused = await client.call_tool("rerun_run", given)
        answer = await client.call_tool("rerun_run", given | {"as_recorded": True})
    assert "the plan see of the library was edited" in refused.content[0].text
    assert "step S1 (argument what)" in refused.content[0].text
    assert answer.structured_content["response"] == "seen tea"
    assert room.calls == ["look tea", "look tea"]


async def stands(client: Client) -> dict[str, Any]:
    (run,) = (await client.call_tool("list_runs", {})).structured_content["runs"]
    return run


@pytest.mark.parametrize(
    ("said", "response"),
    [
        (answered(decision="skip"), ""),
        (answered(decision="it took place", value='"brewed"'), "brewed"),
    ],
)
async def test_person_decides_call_in_doubt(room: Room, mode: str, said: ElicitResult, response: str) -> None:
    async with room.client(mode) as client:
        calling = asyncio.create_task(execute(client, SLOW))
        await begun(room, "slow seen tea")
        calling.cancel()
        await asyncio.wait({calling})
    async with room.client(mode) as client:
        answer = await client.call_tool("resume_run", {"run_id": "last"})
        assert answer.structured_content["status"] == "in_doubt"
        assert "callsheet decide" in answer.content[0].text
    async with room.client(mode, lambda _: said) as client:
        answer = await client.call_tool("resume_run", {"run_id": "last"})
    assert answer.structured_content["response"] == response
    assert room.calls == ["look tea", "slow seen tea"]


async def test_run_continues_without_caller_and_can_be_cancelled(room: Room, mode: str) -> None:
    async with room.client(mode) as client:
        started = await execute(client, SLOW, wait=False)
        assert started.structured_content["status"] == "running"
        await begun(room, "slow seen tea")
        run_id = started.structured_content["run_id"]
        told = await client.call_tool("explain_run", {"run_id": run_id})
        assert told.structured_content["status"] == "running"
        ended = await client.call_tool("cancel_run", {"run_id": run_id, "reason": "enough"})
        again = await client.call_tool("cancel_run", {"run_id": run_id})
    (doubt,) = ended.structured_content["in_doubt"]
    assert (ended.structured_content["status"], doubt["step"]) == ("cancelled", "S2")
    assert ended.content[0].text.endswith("has ended: cancelled: enough")
    assert "JRN032" in again.content[0].text


async def test_run_is_paused_and_goes_on_when_resumed(room: Room, mode: str) -> None:
    plan = 'S1: @SLOW (text="tea") > $a\nS2: @LOOK (what=$a) > $b\nS3: @RESPOND ($b)'
    async with room.client(mode) as client:
        started = await execute(client, plan, wait=False)
        await begun(room, "slow tea")
        run_id = started.structured_content["run_id"]
        pausing = asyncio.create_task(client.call_tool("pause_run", {"run_id": run_id, "reason": "prices"}))
        await asyncio.sleep(0.5)  # until the run is asked: it makes no call then, whatever ends
        room.let_go()
        asked = await pausing
        listed = await client.call_tool("list_runs", {"status": "paused"})
        told = await client.call_tool("explain_run", {"run_id": run_id})
        done = await client.call_tool("resume_run", {"run_id": run_id})
    assert asked.structured_content["pause"]["reason"] == "prices"
    assert [run["run_id"] for run in listed.structured_content["runs"]] == [run_id]
    assert (told.structured_content["status"], "paused by" in told.content[0].text) == ("paused", True)
    assert done.structured_content["response"] == "seen slowly tea"
    assert room.calls == ["slow tea", "look slowly tea"]


async def test_stored_plan_runs_by_id_with_parameters(room: Room, mode: str) -> None:
    async with room.client(mode) as client:
        kept = await client.call_tool("save_plan", {"ltp_text": PLAN, "plan_id": "tell", "goal": "Tell it"})
        taken = await client.call_tool("save_plan", {"ltp_text": PLAN, "plan_id": "tell"})
        listed = await client.call_tool("list_plans", {})
        answer = await client.call_tool("plan_execute", {"plan_id": "tell", "variables": {"what": "tea"}})
    assert not kept.is_error
    assert "PLN003" in taken.content[0].text
    assert [(plan["id"], plan["goal"]) for plan in listed.structured_content["plans"]] == [
        ("tell", "Tell it")
    ]
    assert answer.structured_content["response"] == "sent seen tea"


async def test_secret_is_sealed_and_absent_from_results(room: Room, mode: str) -> None:
    async with room.client(mode) as client:
        given = {"variables": {"what": "hunter2-hunter2"}, "secrets": ["what"], "show_variables": ["all"]}
        answer = await execute(client, PLAN, **given)
        told = await client.call_tool("explain_run", {"run_id": "last", "show_variables": ["all"]})
    assert answer.structured_content["variables"].keys() == {"what", "seen", "sent"}
    assert room.calls[0] == "look hunter2-hunter2"
    assert "hunter2" not in str(answer.structured_content["variables"])
    assert "hunter2" not in str(told.model_dump())


async def test_model_makes_plans_that_are_stored_and_run(room: Room, mode: str) -> None:
    async with room.client(mode, model=True) as client:
        text = await client.call_tool("compile_plan", {"goal": "Look at tea", "save_as": "tea"})
        again = await client.call_tool("compile_plan", {"goal": "Look at tea"})
        made = await client.call_tool("plan_create", {"goal": "Look at tea", "plan_id": "graph"})
        done = await client.call_tool("plan_create_and_execute", {"goal": "Look at tea"})
    assert text.structured_content["saved"] == {"id": "tea", "version": 1}
    assert (text.structured_content["from"], again.structured_content["from"]) == ("model", "library")
    assert [step["does"] for step in made.structured_content["steps"]] == ['@LOOK (what="tea")']
    assert done.structured_content["status"] == "done"
    assert room.calls == ["look tea"]


async def test_compile_without_model_is_error(room: Room, mode: str) -> None:
    async with room.client(mode) as client:
        answer = await client.call_tool("plan_create_and_execute", {"goal": "Look at tea"})
    assert answer.is_error
    assert "PLN011" in answer.content[0].text


FILES = """
schema = 1
[sources]
"file:docs/**" = { conf = "pub", integrity = "T" }
"file:box/**" = { conf = "priv" }
[tools."@SEND"]
destructive = false
returns = "T/pub"
"""


@pytest.mark.parametrize("source", ["box", "docs"])
async def test_proof_uses_labels_of_files_of_earlier_runs(room: Room, mode: str, source: str) -> None:
    for name in ("docs", "box"):
        (room.folder / "work" / name).mkdir(parents=True, exist_ok=True)
        (room.folder / "work" / name / "a.txt").write_text(f"from {name}")
    (room.folder / "files.toml").write_text(FILES)
    copying = f'S1: @READ_FILE ("{source}/a.txt") > $x\nS2: @WRITE_FILE ("docs/copy.txt", $x) > $y'
    sending = 'S1: @READ_FILE ("docs/copy.txt") > $x\nS2: @SEND (text=$x) > $y'
    async with room.client(mode, policy=str(room.folder / "files.toml")) as client:
        copied = await client.call_tool("plan_execute", {"ltp_text": copying})
        assert copied.structured_content["status"] == "done"
        proved = await client.call_tool("verify_plan", {"ltp_text": sending, "policy": "configured"})
    assert proved.structured_content["ok"] is (source == "docs")


async def test_labels_from_earlier_runs_apply_to_compiled_plan(room: Room, mode: str) -> None:
    (room.folder / "work" / "notes.txt").write_text("private")
    (room.folder / "work" / "docs").mkdir()
    (room.folder / "model.py").write_text(
        "def ask(messages):\n"
        '    return \'S1: @read_file (path="docs/new.md") > $v1\\n'
        'S2: @fetch_page (url="https://x.example/$v1") > $v2\\nS3: @respond ($v2)\'\n'
    )
    keeps = 'S1: @READ_FILE (path="notes.txt") > $a\nS2: @WRITE_FILE (path="docs/new.md", content=$a)'
    goal = {"goal": "Fetch what the file names"}
    async with room.client(mode, model=True, policy="workspace") as client:
        assert not (await client.call_tool("compile_plan", goal)).is_error
        kept = await execute(client, keeps)
        assert kept.structured_content["status"] == "done"
        made = await client.call_tool("compile_plan", goal)
    assert made.is_error
    assert "POL103" in [row["code"] for row in made.structured_content["diagnostics"]]
