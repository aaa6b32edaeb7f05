"""Runs on a real Temporal server: same machine, same results, same journal."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from temporalio.client import WorkflowHistory
from tests.runtime.engines.temporal.conftest import World, read

from callsheet.apps.cli.main import main
from callsheet.diagnostics import CallsheetError
from callsheet.ir import Effect
from callsheet.machine import Decision, Status, TookPlace, ToolFacts
from callsheet.machine.notes import Note
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.runtime.answers import Answer, PendingAsk
from callsheet.runtime.engines.temporal import client, pending
from callsheet.runtime.engines.temporal.history import run_history
from callsheet.runtime.engines.temporal.run_order import workflow_id
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.launch import Launch, Watch
from callsheet.runtime.runs import start_run
from callsheet.store.events import Event, EventType
from callsheet.store.listing import ENGINE

READ = Effect.READ
FACTS = {
    "ADD": ToolFacts(READ, ("a", "b")),
    "FAIL": ToolFacts(READ, ("text",)),
    "FLAKY": ToolFacts(READ, ()),
    "BULK": ToolFacts(Effect.UNSAFE, ("size",)),
    "ODD": ToolFacts(Effect.UNSAFE, ()),
}


class Tools:
    """Tools that count their calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def add(self, args: dict[str, Any], context: CallContext) -> Any:
        self.calls.append(context.key)
        return int(args["a"]) + int(args.get("b", 1))

    async def fail(self, args: dict[str, Any], context: CallContext) -> Any:
        raise ToolFailed(str(args["text"]))

    async def flaky(self, args: dict[str, Any], context: CallContext) -> Any:
        self.calls.append(context.key)
        if context.key != "S1.0.3":
            raise ToolFailed("not yet")
        return "at last"

    async def bulk(self, args: dict[str, Any], context: CallContext) -> Any:
        self.calls.append(context.key)
        return "ä" * int(args["size"])

    async def odd(self, args: dict[str, Any], context: CallContext) -> Any:
        self.calls.append(context.key)
        return {"b": 1, "a": "\udc80 \x00", "z": None}

    def ports(self) -> Ports:
        names = ("add", "fail", "flaky", "bulk", "odd")
        routes = {name.upper(): Route(getattr(self, name)) for name in names}
        return Ports(routes.get)


CHAIN = 'S1: @ADD ($n, b=2) > $x\nS2: @ADD ($x, b=3) > $y\nS3: @RESPOND ("$y")'
LOOP = 'S1: ?FOREACH ($i IN $items) THEN @ADD ($i, b=10) > $sums\nS2: @RESPOND ("$sums")'
EVERYTHING = """S1: @FLAKY () > $x ON_FAIL @RETRY(5, delay=0.01)
S2: @FAIL ('no') > $f ON_FAIL GOTO S4
S3: @RESPOND ("never")
S4: @ODD () > $o
S5: ?IF ($n > 9) THEN @ADD ($n) > $y
S6: ?FOREACH ($i IN $items) THEN @ADD ($i, b=10) > $sums
@PARALLEL {
S7: @ADD ($n) > $a
}
S8: TERMINATE ("$x $f $o $sums $a")
"""
INPUTS: dict[str, Any] = {"n": 1, "items": [1, 2, 3, 4, 5]}


async def test_journal_and_notes_equal_those_of_local_engine(world: World) -> None:
    text, heard_there, heard_here = EVERYTHING, list[Note](), list[Note]()
    in_order = {name: ToolFacts(Effect.UNSAFE, fact.parameters) for name, fact in FACTS.items()}
    async with world.worker(Tools().ports()), asyncio.timeout(60):
        there = await world.start(text, INPUTS, in_order)
        await client.wait_for(world.temporal_run(there), observer=heard_there.append)
    start, *_, end = world.journal.events(there)
    assert end.body is not None
    assert end.body["response"].endswith('"z":null} [11,12,13,14,15] 2')
    launch, watch = Launch(facts=in_order, inputs=INPUTS), Watch(heard_here.append)
    here = (await start_run(read(text), Tools().ports(), launch, world.journal, "here", watch)).run_id
    assert heard_there == heard_here
    assert [_told(e) for e in world.journal.events(there)] == [_told(e) for e in world.journal.events(here)]
    assert start.ts <= world.journal.find_run(there).updated


def _told(event: Event) -> tuple[Any, ...]:
    body = {name: value for name, value in (event.body or {}).items() if name not in ("usage", "due")}
    return event.seq, event.type, event.key, event.step, event.index, event.attempt, body


async def test_large_result_is_made_once_and_stored_outside_history(world: World, tmp_path: Path) -> None:
    tools = Tools()
    async with world.worker(tools.ports()):
        outcome = await world.run('S1: @BULK ($size) > $x\nS2: @RESPOND ("done")', {"size": 1_500_000}, FACTS)
    assert outcome.result is not None
    assert outcome.result.variables["x"] == "ä" * 1_500_000
    assert tools.calls == ["S1.0.1"]
    (blob,) = (path for path in (tmp_path / "blobs").glob("??/*") if path.is_file())
    assert blob.stat().st_size > 3_000_000
    history = await world.temporal_run(outcome.run_id).handle.fetch_history()
    assert sum(event.ByteSize() for event in history.events) < 20_000


async def test_question_is_answered_by_signal_even_in_advance(world: World) -> None:
    text = "S1: @ADD ($n) > $x\nS2: @ASK_HUMAN ('which?', options=['a', 'b']) > $y\nS3: @RESPOND (\"$y\")"
    async with world.worker(Tools().ports()):
        outcome = await world.run(text, INPUTS, FACTS)
        (ask,) = outcome.waiting
        assert (ask.key, ask.prompt, str(world.journal.find_run(ask.run_id).status)) == (
            "S2.0.1", "which?", "waiting",
        )  # fmt: skip
        await client.answer(world.temporal_run(ask.run_id), Answer.of("b", by="Ada"), None)
        outcome = await world.wait(ask.run_id)
        assert outcome.result is not None
        assert outcome.result.response == "b"


async def test_call_needing_approval_waits_and_denial_fails_it(world: World) -> None:
    tools = Tools()
    async with world.worker(tools.ports()):
        outcome = await world.run(CHAIN, INPUTS, FACTS, approve=("ADD",))
        assert [ask.tool for ask in outcome.waiting] == ["ADD"]
        await client.answer(world.temporal_run(outcome.run_id), Answer.approve(), "S1")
        outcome = await world.wait(outcome.run_id)
        assert tools.calls == ["S1.0.1"]
        await client.answer(world.temporal_run(outcome.run_id), Answer.deny(note="no"), None)
        outcome = await world.wait(outcome.run_id)
    assert outcome.result is not None
    assert outcome.result.status is Status.DONE
    assert tools.calls == ["S1.0.1"]


async def test_second_answer_without_worker_is_reported_as_late(
    world: World,
) -> None:
    tools = Tools()
    async with world.worker(tools.ports()):
        outcome = await world.run(CHAIN, INPUTS, FACTS, approve=("ADD",))
    run_id = outcome.run_id
    await client.answer(world.temporal_run(run_id), Answer.deny(by="Ada"), "S1")
    with pytest.raises(CallsheetError, match=r"RUN030.*answered"):
        await client.answer(world.temporal_run(run_id), Answer.approve(by="Bob"), "S1")
    async with world.worker(tools.ports()):
        await world.wait(run_id)
    assert tools.calls == []
    (signal,) = (e.body for e in world.journal.events(run_id) if e.type == "signal")
    assert (signal["by"], signal["verdict"]) == ("Ada", "deny")


async def test_run_without_worker_is_cancelled_when_worker_starts(world: World) -> None:
    note = {ENGINE: world.reached.settings.to_note()}
    run_id = await world.start("S1: @ADD (1) > $x", note=note)
    line = ["cancel", run_id, "--patience", "1", "--reason", "enough", "--journal", str(world.journal.path)]
    told = await asyncio.to_thread(CliRunner().invoke, main, line)
    assert told.exit_code == 1
    assert "no worker has carried it out yet" in told.stderr
    assert f"(callsheet worker); then: callsheet show {run_id} --journal" in told.stderr
    tools = Tools()
    async with world.worker(tools.ports()):
        outcome = await world.wait(run_id)
    assert outcome.result is not None
    assert (outcome.result.status, outcome.result.error) == (Status.CANCELLED, "enough")
    assert tools.calls == []


async def test_late_answers_of_same_moment_are_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_PATIENCE", 60.0)  # the workers share two cores with other tests
    tools, people = Tools(), ("Ada", "Bob", "Eve")
    async with world.worker(tools.ports()):
        run_id = (await world.run(CHAIN, INPUTS, FACTS, approve=("ADD",))).run_id
        outcomes = await asyncio.gather(
            *(client.answer(world.temporal_run(run_id), Answer.approve(by=who), "S1") for who in people),
            return_exceptions=True,
        )
        await world.wait(run_id)
    taken = [who for who, outcome in zip(people, outcomes, strict=True) if isinstance(outcome, PendingAsk)]
    late = [outcome for outcome in outcomes if not isinstance(outcome, PendingAsk)]
    assert [signal["by"] for signal in _signals(world, run_id)] == taken
    assert [isinstance(error, CallsheetError) and error.diagnostics[0].code for error in late] == [
        "RUN030",
        "RUN030",
    ]


def _signals(world: World, run_id: str) -> list[Any]:
    return [event.body for event in world.journal.events(run_id) if event.type == "signal"]


async def test_signal_for_no_question_is_not_first_answer(world: World) -> None:
    async with world.worker(Tools().ports()):
        run_id = (await world.run(CHAIN, INPUTS, FACTS, approve=("ADD",))).run_id
    await world.temporal_run(run_id).handle.signal("answer", args=["S1.0.1", "x", {"digest": "y"}])
    await client.answer(world.temporal_run(run_id), Answer.approve(by="Ada"), "S1")
    async with world.worker(Tools().ports()):
        await world.wait(run_id)
    assert [signal["by"] for signal in _signals(world, run_id)] == ["Ada"]


async def test_unanswered_question_takes_default(world: World) -> None:
    text = "S1: @ASK_HUMAN ('which?', timeout=0.2, default='c') > $y\nS2: @RESPOND (\"$y\")"
    async with world.worker(Tools().ports()):
        outcome = await world.wait(await world.start(text), waits=True)
    assert outcome.result is not None
    assert outcome.result.response == "c"


async def test_run_is_cancelled_during_call(world: World) -> None:
    began = asyncio.Event()

    async def hang(args: dict[str, Any], context: CallContext) -> Any:
        began.set()
        await asyncio.sleep(3_600)

    async with world.worker(Ports({"HANG": Route(hang)}.get)):
        run_id = await world.start('S1: @HANG () > $x\nS2: @RESPOND ("$x")')
        await asyncio.wait_for(began.wait(), 60)
        await client.cancel(world.temporal_run(run_id), "enough")
        outcome = await world.wait(run_id)
    assert outcome.result is not None
    assert (outcome.result.status, outcome.result.error) == (Status.CANCELLED, "enough")
    assert [call.key for call in outcome.in_doubt] == ["S1.0.1"]


async def test_unsafe_call_of_lost_worker_is_in_doubt_until_decided(world: World) -> None:
    calls: list[str] = []
    began = asyncio.Event()

    async def once(args: dict[str, Any], context: CallContext) -> Any:
        calls.append(context.key)
        began.set()
        if len(calls) == 1:
            await asyncio.sleep(3_600)
        return "done"

    ports = Ports({"ONCE": Route(once)}.get)
    async with world.worker(ports):
        run_id = await world.start('S1: @ONCE () > $x\nS2: @RESPOND ("$x")')
        await asyncio.wait_for(began.wait(), 60)
    async with world.worker(ports):
        outcome = await world.wait(run_id)
        assert calls == ["S1.0.1"]
        (call,) = outcome.in_doubt
        assert (call.key, str(world.journal.find_run(run_id).status)) == ("S1.0.1", "in_doubt")
        await client.decide(world.temporal_run(run_id), ["S1"], Decision.RETRY)
        outcome = await world.wait(run_id)
    assert outcome.result is not None
    assert outcome.result.response == "done"
    assert len(calls) == 2


async def test_unsafe_call_that_a_starved_worker_had_not_sent_is_in_no_doubt(world: World) -> None:
    """The server misses heartbeats and gives the call up before its worker comes to it."""
    made: list[str] = []

    async def hog(args: dict[str, Any], context: CallContext) -> Any:
        made.append("hog")
        if made.count("hog") == 1:
            time.sleep(4)  # noqa: ASYNC251 - it starves all that this worker does
        return "had"

    async def once(args: dict[str, Any], context: CallContext) -> Any:
        made.append("once")
        return "done"

    text = '@PARALLEL {\nS1: @HOG () > $h\nS2: @ONCE () > $x\n}\nS3: @RESPOND ("$x")'
    ports = Ports({"HOG": Route(hog), "ONCE": Route(once)}.get)
    async with world.worker(ports):
        outcome = await world.run(text, facts={"HOG": ToolFacts(READ)})
    assert outcome.in_doubt == ()
    assert outcome.result is not None
    assert (outcome.result.response, made.count("once")) == ("done", 1)
    kinds = [event.type for event in world.journal.events(outcome.run_id)]
    assert EventType.IN_DOUBT not in kinds


async def test_read_only_call_of_lost_worker_is_repeated(world: World) -> None:
    keys: list[str] = []
    began = asyncio.Event()

    async def look(args: dict[str, Any], context: CallContext) -> Any:
        keys.append(context.idempotency_key)
        began.set()
        if len(keys) == 1:
            await asyncio.sleep(3_600)
        return "seen"

    ports = Ports({"LOOK": Route(look)}.get)
    async with world.worker(ports):
        run_id = await world.start('S1: @LOOK () > $x\nS2: @RESPOND ("$x")', facts={"LOOK": ToolFacts(READ)})
        await asyncio.wait_for(began.wait(), 60)
    drives, makes_calls = world.worker(ports, tools=False, models=False), world.worker(ports, plans=False)
    async with drives, makes_calls:
        outcome = await world.wait(run_id)
    assert outcome.result is not None
    assert outcome.result.response == "seen"
    assert len(keys) == 2
    assert keys[0] == keys[1]


async def test_worker_that_drives_a_run_makes_its_first_calls_and_no_more_at_a_time_than_it_may(
    world: World,
) -> None:
    """The server starts three with the task that asks for them; the others are offered to all workers."""
    under_way, most = 0, 0

    async def look(args: dict[str, Any], context: CallContext) -> Any:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.05)
        under_way -= 1
        return "seen"

    steps = "\n".join(f"S{n}: @LOOK () > $x{n}" for n in range(1, 6))
    async with world.worker(Ports({"LOOK": Route(look)}.get), calls=2):
        outcome = await world.run(
            f"@PARALLEL {{\n{steps}\n}}\nS6: @RESPOND ($x5)", facts={"LOOK": ToolFacts(READ)}
        )
    assert outcome.result is not None
    assert (outcome.result.response, most) == ("seen", 2)
    history = await world.temporal_run(outcome.run_id).handle.fetch_history()
    asked = [e.activity_task_scheduled_event_attributes for e in history.events]
    queue = world.reached.settings.queue
    queues = Counter(each.task_queue.name for each in asked if each.activity_id)
    assert queues == {queue: 3, f"{queue}-tools": 2}


@pytest.mark.parametrize("effect", [READ, Effect.UNSAFE])
async def test_call_that_waits_for_a_driver_that_makes_none_goes_to_others(
    world: World, monkeypatch: pytest.MonkeyPatch, effect: Effect
) -> None:
    """So does one of a worker that is lost between asking for a call and making it."""
    calls: list[str] = []

    async def once(args: dict[str, Any], context: CallContext) -> Any:
        calls.append(context.key)
        return "done"

    ports = Ports({"ONCE": Route(once)}.get)
    monkeypatch.setattr(pending.workflow, "extern_functions", lambda: {pending.AT_HAND: bool})
    drives, makes_calls = world.worker(ports, tools=False, models=False), world.worker(ports, plans=False)
    async with drives, makes_calls:
        outcome = await world.run('S1: @ONCE () > $x\nS2: @RESPOND ("$x")', facts={"ONCE": ToolFacts(effect)})
    assert outcome.result is not None
    assert (outcome.result.response, calls) == ("done", ["S1.0.1"])
    assert EventType.IN_DOUBT not in [event.type for event in world.journal.events(outcome.run_id)]


async def test_long_run_continues_as_new_with_complete_journal(world: World) -> None:
    text = (
        "S1: ?FOREACH ($i IN $items) THEN @ADD ($i, b=1) > $sums\n"
        'S2: @ASK_HUMAN ("go on?", options=["yes", "no"]) > $word\n'
        "S3: ?FOREACH ($i IN $sums) THEN @ADD ($i, b=1) > $more\nS4: @RESPOND ($word)"
    )
    tools = Tools()
    async with world.worker(tools.ports()):
        run_id = await world.start(text, {"items": list(range(40))}, FACTS, turn_over=40)
        assert [ask.key for ask in (await world.wait(run_id)).waiting] == ["S2.0.1"]
        await client.answer(world.temporal_run(run_id), Answer.of("yes"), None)
        outcome = await world.wait(run_id)
    assert outcome.result is not None
    assert outcome.result.variables["more"] == list(range(2, 42))
    assert (len(tools.calls), len(set(tools.calls))) == (80, 80)
    assert await histories(world, run_id) >= 3
    assert world.journal.verify(run_id) is None
    kinds = Counter(event.type for event in world.journal.events(run_id))
    assert kinds == {"start": 1, "intent": 80, "ok": 80, "ask": 1, "signal": 1, "end": 1}


async def histories(world: World, run_id: str) -> int:
    """The number of successive histories of a run."""
    count = 1
    history = await world.temporal_run(run_id).handle.fetch_history()
    while before := history.events[0].workflow_execution_started_event_attributes.continued_execution_run_id:
        handle = world.reached.client.get_workflow_handle(workflow_id(run_id), run_id=before)
        history, count = await handle.fetch_history(), count + 1
    return count


async def test_stored_history_replays_to_same_result(world: World) -> None:
    async with world.worker(Tools().ports()):
        outcome = await world.run(LOOP, INPUTS, FACTS)
    history = await world.temporal_run(outcome.run_id).handle.fetch_history()
    stored = WorkflowHistory.from_json(history.workflow_id, history.to_json())
    told = await run_history(stored, world.reached.client.data_converter, world.reached.claims)
    assert told.happened[-1]["body"]["response"] == "[11,12,13,14,15]"
    assert [row["key"] for row in told.happened] == [e.key for e in world.journal.events(outcome.run_id)][1:]


async def test_different_decisions_of_same_moment_are_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_PATIENCE", 60.0)  # the workers share two cores with other tests
    began = asyncio.Event()
    send = getattr(client, "_signal")  # noqa: B009 - what this delays for one decision

    async def hang(args: dict[str, Any], context: CallContext) -> Any:
        began.set()
        await asyncio.sleep(3_600)

    async def signal(run: client.TemporalRun, name: str, *arguments: Any) -> Any:
        if arguments[-1]["decision"] == Decision.FAIL:
            await world.wait(run.run_id)
        return await send(run, name, *arguments)

    monkeypatch.setattr(client, "_signal", signal)
    async with world.worker(Ports({"ONCE": Route(hang)}.get)):
        run_id = await world.start('S1: @ONCE () > $x\nS2: @RESPOND ("$x")')
        await asyncio.wait_for(began.wait(), 60)
    async with world.worker(Ports({"ONCE": Route(hang)}.get)):
        assert (await world.wait(run_id)).in_doubt
        verdicts = [TookPlace("done"), TookPlace("not done"), Decision.FAIL, TookPlace("done")]
        outcomes = await asyncio.gather(
            *(client.decide(world.temporal_run(run_id), ["S1"], verdict) for verdict in verdicts),
            return_exceptions=True,
        )
        await world.wait(run_id)
    (body,) = (event.body for event in world.journal.events(run_id) if event.type == "decided")
    agreed: list[object] = []
    for verdict, outcome in zip(verdicts, outcomes, strict=True):
        sent = ("value", verdict.value) if isinstance(verdict, TookPlace) else (str(verdict), None)
        if sent == (body["decision"], body.get("value")):
            agreed.append(outcome)
        else:
            assert isinstance(outcome, CallsheetError)
            assert outcome.diagnostics[0].code == "JRN030"
    assert None in agreed


async def test_call_that_its_probe_keeps_missing_waits_for_a_person(world: World) -> None:
    sent = list[str]()

    async def lose(args: dict[str, Any], context: CallContext) -> Any:
        sent.append(context.key)
        raise ToolFailed("the connection is gone", in_doubt=True)

    async def finds_nothing(args: dict[str, Any], context: CallContext) -> Any:
        return False

    async with world.worker(Ports({"PUT": Route(lose, probe=finds_nothing)}.get)):
        facts = {"PUT": ToolFacts(Effect.PROBE)}
        run_id = await world.start('S1: @PUT () > $x\nS2: @RESPOND ("$x")', {}, facts)
        (call,) = (await world.wait(run_id)).in_doubt
        assert (call.step, len(sent)) == ("S1", 4)
        await client.decide(world.temporal_run(run_id), ["S1"], TookPlace("put"))
        outcome = await world.wait(run_id)
    assert outcome.result is not None
    assert outcome.result.response == "put"
