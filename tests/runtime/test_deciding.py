"""Decisions about single calls, probes, settings of whole runs, and keys that survive a crash."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.runtime.tools import Tools, plan_of, ports_for, route_to

from callsheet import Runtime, tool
from callsheet.ir import JSON, Effect, OnInDoubt
from callsheet.machine import Decision, Limits, Result, Status, TookPlace, ToolFacts
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.runtime.doubt import Resolution, RunOutcome, decide_calls
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.launch import Launch, Watch
from callsheet.runtime.local import LocalDriver
from callsheet.runtime.runs import Amendments, resume_run, start_run
from callsheet.store import EventType, Journal, JournalError

GROUP = "@PARALLEL {\nS1: @PAY (n=1) > $a\nS2: @PAY (n=2) > $b\n}\nS3: @RESPOND ($a, $b)"


class Bank:
    """Loses the answers of the first `lost` calls."""

    def __init__(self, lost: int) -> None:
        self.lost = lost
        self.calls: list[tuple[int, str]] = []

    async def pay(self, args: dict[str, Any], context: CallContext) -> JSON:
        self.calls.append((args["n"], context.idempotency_key))
        if len(self.calls) <= self.lost:
            raise ToolFailed("no answer within 1 s", in_doubt=True)
        return f"receipt {args['n']}"


async def start(journal: Journal, text: str, tools: Tools, facts: ToolFacts, **how: Any) -> RunOutcome:
    launch = Launch(facts={"PAY": facts}, limits=Limits(retry_delay=0.0))
    return await start_run(plan_of(text), Ports(route_to(tools)), launch, journal, "pay", **how)


async def resume(journal: Journal, tools: Tools, verdict: Resolution | None = None) -> RunOutcome:
    return await resume_run(journal, "pay", ports_for(tools), Amendments(in_doubt=verdict))


def result(outcome: RunOutcome) -> Result:
    assert outcome.result is not None
    return outcome.result


def refusal(journal: Journal, *names: str, verdict: Resolution = Decision.RETRY) -> JournalError:
    with pytest.raises(JournalError) as caught:
        decide_calls(journal, "pay", names, verdict)
    return caught.value


async def test_calls_in_doubt_are_decided_individually(
    journal: Journal,
) -> None:
    bank = Bank(lost=2)
    outcome = await start(journal, GROUP, {"PAY": Route(bank.pay)}, ToolFacts())
    assert [(c.key, c.attempt, c.why) for c in outcome.in_doubt] == [
        ("S1.0.1", 1, "no answer within 1 s"),
        ("S2.0.1", 1, "no answer within 1 s"),
    ]
    rest = decide_calls(journal, "pay", ["S2"], Decision.RETRY)
    assert [call.key for call in rest.in_doubt] == ["S1.0.1"]
    outcome = await resume(journal, {"PAY": Route(bank.pay)})
    assert [call.key for call in outcome.in_doubt] == ["S1.0.1"]
    assert [n for n, _ in bank.calls] == [1, 2, 2]
    final = decide_calls(journal, "pay", ["S1.0.1"], TookPlace({"id": 7}))
    assert result(final).response == '{"id":7} receipt 2'
    assert result(await resume(journal, {"PAY": Route(bank.pay)})) == result(final)
    assert journal.verify("pay") is None


async def test_call_not_in_doubt_cannot_be_decided(journal: Journal) -> None:
    await start(journal, GROUP, {"PAY": Route(Bank(lost=2).pay)}, ToolFacts())
    assert "no call 'S9' of this run is in doubt" in str(refusal(journal, "S9"))
    decide_calls(journal, "pay", ["S1"], Decision.SKIP)
    assert "S1.0.1 has been decided already: skip" in str(refusal(journal, "S1"))
    assert "JRN030" in str(refusal(journal, "S2", "S1"))
    decide_calls(journal, "pay", ["S2"], Decision.FAIL)
    assert "run pay has ended (done)" in str(refusal(journal, "S2"))
    decided = [e.key for e in journal.events("pay") if e.type is EventType.DECIDED]
    assert decided == ["S1.0.1", "S2.0.1"]


async def test_step_with_several_doubts_needs_key_or_all(journal: Journal) -> None:
    text = "@PARALLEL {\nS1: @PAY (n=1) > $a\nS1: @PAY (n=2) > $b\n}\nS3: @RESPOND ($a, $b)"
    await start(journal, text, {"PAY": Route(Bank(lost=2).pay)}, ToolFacts())
    error = refusal(journal, "S1")
    assert "JRN031" in str(error)
    assert "S1.0.1, S1@2.0.1" in str(error)
    final = decide_calls(journal, "pay", ["S1"], Decision.SKIP, every=True)
    assert result(final).status is Status.DONE


async def test_concurrent_decisions_count_once(journal: Journal) -> None:
    await start(journal, GROUP, {"PAY": Route(Bank(lost=2).pay)}, ToolFacts())
    told: list[str] = []

    def decide(verdict: Decision) -> None:
        with Journal.open(journal.path) as own:
            try:
                decide_calls(own, "pay", ["S1"], verdict)
                told.append("decided")
            except JournalError as error:
                told.append(error.diagnostics[0].code)

    threads = [threading.Thread(target=decide, args=(v,)) for v in (Decision.RETRY, Decision.SKIP)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert sorted(told) == ["JRN030", "decided"]


async def test_retry_policy_repeats_call_under_same_key(journal: Journal) -> None:
    bank = Bank(lost=2)
    facts = ToolFacts(on_in_doubt=OnInDoubt.RETRY)
    outcome = await start(journal, "S1: @PAY (n=1) > $a\nS2: @RESPOND ($a)", {"PAY": Route(bank.pay)}, facts)
    assert result(outcome).response == "receipt 1"
    assert len(bank.calls) == 3
    assert len(set(bank.calls)) == 1


@pytest.mark.parametrize(
    ("found", "calls", "response"),
    [
        (TookPlace("found"), 1, "found"),
        (False, 2, "receipt 1"),
        (None, 1, None),
        (RuntimeError("x"), 1, None),
    ],
)
async def test_probe_resolves_lost_answer_or_leaves_doubt(
    journal: Journal, found: Any, calls: int, response: str | None
) -> None:
    bank = Bank(lost=1)
    asked: list[tuple[int, str]] = []

    async def probe(args: dict[str, Any], context: CallContext) -> Any:
        asked.append((args["n"], context.idempotency_key))
        if isinstance(found, Exception):
            raise found
        return found

    tools = {"PAY": Route(bank.pay, probe=probe)}
    text = "S1: @PAY (n=1) > $a\nS2: @RESPOND ($a)"
    outcome = await start(journal, text, tools, ToolFacts(Effect.PROBE))
    assert len(bank.calls) == calls
    assert asked == [bank.calls[0]]
    assert (outcome.result.response if outcome.result else None) == response
    if response is None:
        assert "probe" in outcome.in_doubt[0].why
        again = await resume(journal, tools)
        assert again.in_doubt
        assert len(asked) == 2  # each time the run is taken up the probe looks again
        assert result(await resume(journal, tools, Decision.SKIP)).status is Status.DONE
        assert len(bank.calls) == 1


async def test_key_of_keyed_call_survives_crash_after_lost_answer(journal: Journal) -> None:
    """Attempt 1 was lost, attempt 2 was in flight when the process ended: one delivery, one key."""
    keys: list[str] = []
    under_way = asyncio.Event()

    async def pay(args: dict[str, Any], context: CallContext) -> JSON:
        keys.append(context.idempotency_key)
        if len(keys) == 1:
            raise ToolFailed("lost", in_doubt=True)
        if len(keys) == 2:
            under_way.set()
            await asyncio.sleep(60)
        return "receipt"

    text = "S1: @PAY (n=1) > $a ON_FAIL @RETRY(2, delay=0)\nS2: @RESPOND ($a)"
    running = asyncio.create_task(start(journal, text, {"PAY": pay}, ToolFacts(Effect.KEYED)))
    await under_way.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert result(await resume(journal, {"PAY": pay})).response == "receipt"
    assert len(keys) == 3
    assert len(set(keys)) == 1


async def test_run_is_cancelled_while_call_is_in_doubt(journal: Journal) -> None:
    drivers: list[LocalDriver] = []

    async def pay(args: dict[str, Any], context: CallContext) -> JSON:
        if args["n"] == 1:
            raise ToolFailed("lost", in_doubt=True)
        asyncio.get_running_loop().call_later(0.01, drivers[0].cancel, "enough")
        await asyncio.sleep(60)
        return None

    outcome = await start(journal, GROUP, {"PAY": pay}, ToolFacts(), watch=Watch(on_driver=drivers.append))
    assert result(outcome).status is Status.CANCELLED
    kinds = [event.type for event in journal.events("pay")]
    assert EventType.INTENT not in kinds[kinds.index(EventType.CANCEL) :]
    assert "has ended (cancelled)" in str(refusal(journal, "S1"))


LIMITED = """# ltp: 2
TRY WITHIN (3600) {
  S1: @PUT (item=1) > $a
  S2: @PUT (item=2) > $b
} ON_FAIL TIMEOUT {
  @RESPOND ("late")
}
"""


@pytest.mark.parametrize(("decision", "sent"), [("skip", [1]), ("retry", [1, 1])])
async def test_after_its_time_a_call_leaves_only_if_a_person_repeats_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decision: Any, sent: list[int]
) -> None:
    begun, is_there = list[int](), asyncio.Event()

    @tool(effect="unsafe")
    async def put(item: int) -> int:
        begun.append(item)
        is_there.set()
        await asyncio.sleep(0 if len(begun) > 1 else 60)
        return item

    task = asyncio.create_task(Runtime([put], journal=tmp_path / "j.db").run(LIMITED, run_id="r"))
    await is_there.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    later = SimpleNamespace(time=lambda: time.time() + 7200)
    monkeypatch.setattr("callsheet.runtime.driving.time", later)
    done = await Runtime([put], journal=tmp_path / "j.db").resume("r", in_doubt=decision)
    assert (done.response, begun) == ("late", sent)
