"""People answer the runs of a program: through the inbox, from other programs, or by a function."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from callsheet import (
    Answer,
    CallsheetError,
    PendingAsk,
    PersonAnswered,
    PersonAsked,
    RunEvent,
    RunFailed,
    RunStatus,
    Runtime,
    ScriptedModel,
    tool,
)

SEND = 'S1: @SEND (to=$who) > $sent\nS2: @RESPOND ("$sent")'


@tool(effect="unsafe")
def send(to: str) -> str:
    return f"sent to {to}"


def runtime(tmp_path: Path, **options: object) -> Runtime:
    return Runtime([send], journal=tmp_path / "runs.db", approve=["send"], **options)  # type: ignore[arg-type]


async def test_waiting_run_continues_after_answer_from_elsewhere(tmp_path: Path) -> None:
    result = await runtime(tmp_path).run(SEND, {"who": "ada"}, run_id="mail")
    assert (result.status, result.ok) == (RunStatus.WAITING, False)
    (ask,) = result.waiting
    assert (ask.kind, ask.tool, ask.args) == ("approval", "SEND", {"to": "ada"})
    with pytest.raises(RunFailed, match=r"waits for people to answer S1\.0\.1"):
        result.raise_for_status()
    other = Runtime(journal=tmp_path / "runs.db")
    assert await other.inbox() == [ask]
    await other.answer("last", "S1", Answer.approve(by="Bo"), digest=ask.digest)
    assert await other.inbox() == []
    assert (await runtime(tmp_path).resume("mail")).response == "sent to ada"
    with pytest.raises(CallsheetError, match="approve by Bo"):
        await other.answer("mail", "S1")


async def test_waiting_or_doubtful_result_has_variables_so_far(tmp_path: Path) -> None:
    plan = 'S1: @CALC ("6 * 7") > $n\nS2: @SEND (to=$who) > $sent\nS3: @RESPOND ("$sent")'
    waits = await runtime(tmp_path).run(plan, {"who": "ada"}, run_id="mail")
    assert (waits.variables, waits.steps_executed) == ({"n": 42, "who": "ada"}, 2)

    @tool(effect="unsafe", timeout=0.05)
    async def send(to: str) -> str:
        await asyncio.sleep(5)
        return to

    lost = Runtime([send], journal=tmp_path / "runs.db")
    doubtful = await lost.run(plan, {"who": "ada"}, run_id="lost")
    assert (doubtful.status, doubtful.variables) == (RunStatus.IN_DOUBT, {"n": 42, "who": "ada"})
    assert (await lost.decide("lost", "S2", "retry")).variables == doubtful.variables


async def test_approval_rule_of_start_applies_on_resume_without_one(tmp_path: Path) -> None:
    await runtime(tmp_path).run(SEND, {"who": "ada"}, run_id="mail")
    without = Runtime([send], journal=tmp_path / "runs.db")
    assert (await without.resume("mail")).status is RunStatus.WAITING
    await without.answer("mail", answer=False)
    assert (await without.resume("mail")).response == "denied"


async def test_responder_function_answers_and_events_report_it(tmp_path: Path) -> None:
    async def answer(ask: PendingAsk) -> Answer:
        return Answer.approve(by="rule 7")

    events: list[RunEvent] = []
    async with runtime(tmp_path, on_approval=answer) as open_one, open_one.start(SEND, {"who": "x"}) as run:
        async for event in run:
            events.append(event)
    told = [(type(e), e.text) for e in events if isinstance(e, PersonAsked | PersonAnswered)]
    assert told == [(PersonAsked, "may @SEND be called?"), (PersonAnswered, "approve by rule 7")]
    assert (await run.result()).response == "sent to x"


CONTEXT = """
class Notes:
    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, error, trace):
        await put(line="kept" if kind is None else "taken back")

async def main():
    async with Notes() as notes:
        await send(to="ada")
    return "sent"
"""
CAUGHT = """
async def main():
    try:
        return await send(to="ada")
    except (Exception, Denied) as error:
        await put(line="caught")
    return "not sent"
"""


@pytest.mark.parametrize(("text", "noted"), [(CONTEXT, "taken back"), (CAUGHT, "caught")])
async def test_a_no_is_an_error_of_contexts_and_handlers_that_name_it(text: str, noted: str) -> None:
    lines: list[str] = []

    @tool(effect="unsafe")
    def put(line: str) -> None:
        lines.append(line)

    asked = Runtime([send, put], approve=["SEND"], on_approval=lambda _: False)
    await asked.run(text)
    assert lines == [noted]


async def test_question_is_answered_in_advance(tmp_path: Path) -> None:
    open_one = Runtime(journal=tmp_path / "runs.db")
    plan = """
    S1: @ASK_HUMAN ("first?")
    S2: @ASK_HUMAN ("second?", schema={"type": "integer"}) > $n
    S3: @RESPOND ("$n")
    """
    await open_one.run(plan, run_id="two")
    await open_one.answer_ahead("two", "S2.0.1", Answer.of(7))
    await open_one.answer("two")
    assert (await open_one.resume("two")).response == "7"


def test_people_work_without_event_loop(tmp_path: Path) -> None:
    with runtime(tmp_path) as open_one:
        open_one.run_sync(SEND, {"who": "ada"}, run_id="mail")
        (ask,) = open_one.inbox_sync()
        open_one.answer_sync("mail", ask.key, True, msg_id="slack-1")
        assert open_one.resume_sync("mail").response == "sent to ada"


@pytest.mark.parametrize("said", ["no", "yes", 1, None, {"verdict": "deny"}])
def test_only_bool_is_accepted_as_approval(tmp_path: Path, said: Any) -> None:
    with runtime(tmp_path) as open_one:
        open_one.run_sync(SEND, {"who": "ada"}, run_id="mail")
        with pytest.raises(CallsheetError, match="RUN031: an answer is True, False or an Answer"):
            open_one.answer_sync("mail", answer=said)
        (ask,) = open_one.inbox_sync()
        assert not ask.is_answered


async def test_approval_rule_that_matches_no_step_is_finding(tmp_path: Path) -> None:
    findings = await Runtime([send], approve=["SEMD"]).check(SEND, {"who": "x"})
    assert [d.code for d in findings.warnings] == ["RUN032"]


@pytest.mark.parametrize(("rule", "codes"), [("send", []), ("semd", ["RUN032"])])
async def test_approval_rule_for_agent_tool_is_no_finding(rule: str, codes: list[str]) -> None:
    plan = 'S1: @AGENT_SOLVE (goal="x", tools=["send"]) > $a\nS2: @RESPOND ($a)'
    findings = await Runtime([send], model=ScriptedModel([]), approve=[rule]).check(plan)
    assert [d.code for d in findings.warnings] == codes


def test_approval_rules_must_be_list() -> None:
    with pytest.raises(TypeError, match=r"approve=\['SEND'\]"):
        Runtime([send], approve="SEND")


async def test_inbox_without_journal_is_error() -> None:
    with pytest.raises(ValueError, match="journal"):
        await Runtime([send]).inbox()
    denied = await Runtime([send], approve=["SEND"]).run(SEND, {"who": "x"})
    assert "nobody can be asked" in denied.response
