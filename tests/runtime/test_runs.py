"""Journaled runs: events are written before anything depends on them; runs are resumed."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.tools import QUICK, Tools, launch, plan_of, ports_for, route_to

from callsheet.ir import JSON, Effect, Plan
from callsheet.machine import Compile, Cut, Decision, Fact, Limits, Result, Status, ToolFacts
from callsheet.machine.notes import Note, NoteKind
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.gateway import Ports
from callsheet.runtime.launch import Launch, Watch, check_pins
from callsheet.runtime.runs import Amendments, resume_run, start_run
from callsheet.store import EventType, Journal, JournalError, RunStatus
from callsheet.store.replay import fold
from callsheet.store.start import Start


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.open(tmp_path / "journal.db") as opened:
        yield opened


async def start(journal: Journal, text: str, tools: Tools, how: Launch | None = None) -> RunOutcome:
    return await start_run(plan_of(text), Ports(route_to(tools)), how or launch(), journal, "run")


async def interrupted(
    journal: Journal, text: str, tools: Tools, at: asyncio.Event, how: Launch | None = None
) -> None:
    """Start a run and interrupt its process once `at` is set."""
    driving = asyncio.create_task(start(journal, text, tools, how))
    async with asyncio.timeout(60):
        await at.wait()
        await asyncio.sleep(0)
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving


async def resume(journal: Journal, tools: Tools, in_doubt: Decision | None = None) -> RunOutcome:
    return await resume_run(journal, "run", ports_for(tools), Amendments(in_doubt=in_doubt))


def types(journal: Journal) -> list[EventType]:
    return [event.type for event in journal.events("run")]


def ended(outcome: RunOutcome) -> Result:
    assert outcome.result is not None
    return outcome.result


def never(args: dict[str, Any]) -> JSON:
    raise AssertionError("this call was made before")


class Stuck:
    """A tool that counts its calls and hangs the first time until it is cancelled."""

    def __init__(self) -> None:
        self.calls: list[CallContext] = []
        self.under_way = asyncio.Event()

    def tool(self) -> Any:
        async def call(args: dict[str, Any], context: CallContext) -> JSON:
            self.calls.append(context)
            self.under_way.set()
            if len(self.calls) == 1:
                await asyncio.sleep(60)
            return "answered"

        return call


async def test_run_is_recorded_in_journal(journal: Journal) -> None:
    outcome = await start(journal, "S1: @A () > $a\nS2: @RESPOND ($a)", {"A": "x"})
    assert ended(outcome).response == "x"
    assert types(journal) == [EventType.START, EventType.INTENT, EventType.OK, EventType.END]
    assert journal.find_run("run").status is RunStatus.DONE
    assert journal.verify("run") is None


async def test_intent_is_on_disk_during_call(journal: Journal) -> None:
    seen: list[list[str]] = []

    async def look(args: dict[str, Any], context: CallContext) -> JSON:
        with Journal.open_to_read(journal.path) as reader:
            seen.append([str(e.key) for e in reader.events("run") if e.type is EventType.INTENT])
        return None

    await start(journal, "S1: @WRITE (1)\nS2: @WRITE (2)", {"WRITE": look})
    assert seen == [["S1.0.1"], ["S1.0.1", "S2.0.1"]]


async def test_outcome_is_on_disk_before_dependents(journal: Journal) -> None:
    seen: list[list[str]] = []

    async def look(args: dict[str, Any], context: CallContext) -> JSON:
        with closing(sqlite3.connect(f"file:{journal.path}?mode=ro", uri=True)) as reader:
            rows = reader.execute("SELECT key FROM events WHERE type = 'ok'").fetchall()
        seen.append([key for (key,) in rows])
        return None

    await start(journal, "S1: @WRITE (1) > $a\nS2: @WRITE ($a)", {"WRITE": look})
    assert seen == [[], ["S1.0.1"]]


async def test_ended_run_returns_result_without_call(journal: Journal) -> None:
    first = await start(journal, 'S1: @A () > $a\nS2: TERMINATE ("end $a")', {"A": [1]})
    assert ended(await resume(journal, {"A": never})) == ended(first)
    assert types(journal).count(EventType.END) == 1


async def test_failed_run_returns_failure_again(journal: Journal) -> None:
    first = await start(journal, "S1: GOTO S9", {})
    again = await resume(journal, {})
    assert (ended(again), ended(again).status) == (ended(first), Status.FAILED)
    assert journal.find_run("run").status is RunStatus.FAILED


async def test_finished_calls_are_not_repeated(journal: Journal) -> None:
    stuck = Stuck()
    text = 'S1: @WRITE (1) > $a\nS2: @READ (2) > $b\nS3: @RESPOND ("$a $b")'
    await interrupted(journal, text, {"WRITE": "written", "READ": stuck.tool()}, stuck.under_way)
    outcome = await resume(journal, {"WRITE": never, "READ": stuck.tool()})
    assert ended(outcome).response == "written answered"


@pytest.mark.parametrize("tool", ["READ", "KEYED"])
async def test_started_repeatable_call_is_repeated_under_its_key(journal: Journal, tool: str) -> None:
    stuck = Stuck()
    await interrupted(journal, f"S1: @{tool} (1) > $a", {tool: stuck.tool()}, stuck.under_way)
    outcome = await resume(journal, {tool: stuck.tool()})
    assert ended(outcome).variables == {"a": "answered"}
    first, again = stuck.calls
    assert (first.key, first.idempotency_key) == (again.key, again.idempotency_key)


IN_DOUBT = (
    'S1: @WRITE (x=7) > $a ON_FAIL @RETRY(2) GOTO S3\nS2: @RESPOND ("went on <$a>")\nS3: @RESPOND ("failed")'
)


async def in_doubt(journal: Journal) -> Stuck:
    stuck = Stuck()
    await interrupted(journal, IN_DOUBT, {"WRITE": stuck.tool()}, stuck.under_way)
    return stuck


async def test_started_write_is_in_doubt_and_not_repeated(journal: Journal) -> None:
    before = time.time()
    await in_doubt(journal)
    outcome = await resume(journal, {"WRITE": never})
    assert outcome.result is None
    (call,) = outcome.in_doubt
    assert (call.key, call.step, call.tool, call.args) == ("S1.0.1", "S1", "WRITE", {"x": 7})
    assert before <= call.since <= time.time()
    assert journal.find_run("run").status is RunStatus.IN_DOUBT


async def test_doubt_is_recorded_once(journal: Journal) -> None:
    await in_doubt(journal)
    assert (await resume(journal, {})) == (await resume(journal, {}))
    assert types(journal).count(EventType.IN_DOUBT) == 1


async def test_retry_repeats_call_in_doubt(journal: Journal) -> None:
    stuck = await in_doubt(journal)
    outcome = await resume(journal, {"WRITE": stuck.tool()}, Decision.RETRY)
    assert ended(outcome).response == "went on <answered>"
    assert [call.key for call in stuck.calls] == ["S1.0.1", "S1.0.1"]


async def test_skip_continues_without_result(journal: Journal) -> None:
    await in_doubt(journal)
    assert ended(await resume(journal, {"WRITE": never}, Decision.SKIP)).response == "went on <>"


async def test_fail_follows_failure_path_without_call(journal: Journal) -> None:
    await in_doubt(journal)
    assert ended(await resume(journal, {"WRITE": never}, Decision.FAIL)).response == "failed"


async def test_decision_is_recorded_in_run(journal: Journal) -> None:
    await in_doubt(journal)
    decided = await resume(journal, {"WRITE": never}, Decision.SKIP)
    assert EventType.DECIDED in types(journal)
    assert await resume(journal, {"WRITE": never}) == decided


async def test_call_repeated_by_decision_can_be_in_doubt_again(journal: Journal) -> None:
    await in_doubt(journal)
    stuck = Stuck()
    again = asyncio.create_task(resume(journal, {"WRITE": stuck.tool()}, Decision.RETRY))
    await stuck.under_way.wait()
    again.cancel()
    with pytest.raises(asyncio.CancelledError):
        await again
    assert [call.key for call in (await resume(journal, {})).in_doubt] == ["S1.0.1"]


async def test_only_started_writes_are_in_doubt_after_crash(journal: Journal) -> None:
    stuck = Stuck()
    text = "@PARALLEL {\n S1: @WRITE (1) > $a\n S2: @READ (2) > $b\n S3: @QUICK () > $c\n}\nS4: @WRITE (4)"
    tools = {"WRITE": stuck.tool(), "READ": stuck.tool(), "QUICK": 3}
    await interrupted(journal, text, tools, stuck.under_way)
    assert [call.key for call in (await resume(journal, {})).in_doubt] == ["S1.0.1"]


async def test_call_answered_during_interruption_is_not_in_doubt(journal: Journal) -> None:
    under_way = asyncio.Event()

    async def careful(args: dict[str, Any], context: CallContext) -> JSON:
        under_way.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "finished its write"
        return "never"

    text = "@PARALLEL {\n S1: @WRITE (1) > $a\n S2: @READ (2) > $b\n}\nS3: @RESPOND ($a, $b)"
    stuck = Stuck()
    await interrupted(journal, text, {"WRITE": careful, "READ": stuck.tool()}, under_way)
    outcome = await resume(journal, {"WRITE": never, "READ": stuck.tool()})
    assert ended(outcome).response == "finished its write answered"


async def test_cancelled_run_has_final_end(journal: Journal) -> None:
    stuck = Stuck()
    drivers: list[Any] = []
    plan, ports = plan_of("S1: @WRITE (1)"), Ports(route_to({"WRITE": stuck.tool()}))
    watch = Watch(on_driver=drivers.append)
    driving = asyncio.create_task(start_run(plan, ports, launch(), journal, "run", watch))
    await stuck.under_way.wait()
    drivers[0].cancel("enough")
    assert ended(await driving).status is Status.CANCELLED
    assert ended(await resume(journal, {"WRITE": never})).error == "enough"
    assert journal.find_run("run").status is RunStatus.CANCELLED
    assert types(journal)[-2:] == [EventType.CANCEL, EventType.END]


async def test_run_owned_elsewhere_cannot_be_resumed(journal: Journal) -> None:
    stuck = Stuck()
    driving = asyncio.create_task(start(journal, "S1: @READ (1)", {"READ": stuck.tool()}))
    await stuck.under_way.wait()
    with pytest.raises(JournalError, match="JRN004"):
        await resume(journal, {})
    driving.cancel()
    await asyncio.wait([driving])
    assert ended(await resume(journal, {"READ": 1})).status is Status.DONE


async def test_missing_run_cannot_be_resumed(journal: Journal) -> None:
    with pytest.raises(JournalError, match="JRN002"):
        await resume_run(journal, "nobody", ports_for({}))


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The requested waits in seconds, independent of the load of the machine."""
    asked: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float, result: Any = None) -> Any:
        if seconds > 0:
            asked.append(seconds)
        return await sleep(seconds, result)

    monkeypatch.setattr(asyncio, "sleep", noted)
    return asked


async def interrupted_in_wait(journal: Journal) -> float:
    """A run whose process ends in the five minutes before a retry; gives the wall time at which they end."""

    async def fail(args: dict[str, Any], context: CallContext) -> JSON:
        raise RuntimeError("no")

    def dues() -> list[float]:
        events = journal.events("run") if journal.runs() else ()
        return [e.body["due"] for e in events if e.type is EventType.TIMER and e.body]

    text = "S1: @READ (1) > $a ON_FAIL @RETRY(1, delay=300)"
    driving = asyncio.create_task(start(journal, text, {"READ": fail}))
    async with asyncio.timeout(60):
        while not dues():  # noqa: ASYNC110 - nothing tells of what is written
            await asyncio.sleep(0.01)
    driving.cancel()
    await asyncio.wait([driving])
    (due,) = dues()
    return due


async def test_wait_continues_with_remaining_time(
    journal: Journal, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    due = await interrupted_in_wait(journal)
    monkeypatch.setattr(time, "time", lambda: due - 0.4)
    waits.clear()
    assert ended(await resume(journal, {"READ": "later"})).variables == {"a": "later"}
    assert sum(waits) == pytest.approx(0.4, abs=1e-3)


async def test_expired_wait_does_not_restart(
    journal: Journal, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    due = await interrupted_in_wait(journal)
    monkeypatch.setattr(time, "time", lambda: due + 1)  # as if the process had been away
    waits.clear()
    assert ended(await resume(journal, {"READ": "later"})).variables == {"a": "later"}
    assert waits == []


async def test_resumed_run_keeps_inputs_facts_and_limits(journal: Journal) -> None:
    stuck = Stuck()
    limits = Limits(max_steps=3, retry_delay=0.0)
    ports = Ports(route_to({"READ": stuck.tool()}))
    plan = plan_of("S1: @READ ($in) > $a\nS2: GOTO S1")
    driving = asyncio.create_task(start_run(plan, ports, launch(limits, **{"in": 5}), journal, "run"))
    await stuck.under_way.wait()
    driving.cancel()
    await asyncio.wait([driving])
    result = ended(await resume(journal, {"READ": lambda args: args["x"]}))
    assert (result.status, result.steps_executed) == (Status.FAILED, 3)
    assert result.variables == {"in": 5, "a": 5}


@pytest.mark.parametrize("unfit", [object(), 10**5000], ids=["object", "long"])
async def test_unstorable_result_fails_its_call(journal: Journal, unfit: object) -> None:
    first = await start(journal, 'S1: @A () > $a ON_FAIL TERMINATE ("no: $a")', {"A": lambda args: unfit})
    assert ended(first).response.startswith("no: ")
    assert ended(await resume(journal, {})) == ended(first)


async def test_new_plan_is_recorded_and_never_compiled_again(journal: Journal) -> None:
    stuck = Stuck()
    reasons: list[str] = []

    async def compiler(command: Compile, _context: CallContext) -> tuple[Plan, dict[str, ToolFacts]]:
        reasons.append(command.reason)
        return plan_of('S1: @NEW ($a) > $n\nS2: @RESPOND ("new $n")'), {"NEW": ToolFacts(Effect.READ, ("p",))}

    plan = plan_of('S1: @A () > $a\nS2: RE-PLAN ("because $a")')
    ports = Ports(route_to({"A": 1, "NEW": stuck.tool()}), None, None, compiler)
    driving = asyncio.create_task(start_run(plan, ports, launch(), journal, "run"))
    await stuck.under_way.wait()
    driving.cancel()
    await asyncio.wait([driving])
    outcome = await resume(journal, {"NEW": stuck.tool()})
    assert (ended(outcome).response, ended(outcome).steps_executed) == ("new answered", 4)
    assert reasons == ["because 1"]
    assert [call.key for call in stuck.calls] == ["r1/S1.0.1", "r1/S1.0.1"]


async def test_notes_are_repeated_on_resume(journal: Journal) -> None:
    stuck = Stuck()
    text = "S1: @READ (1) > $a\nS2: @READ (2) > $b"
    how = launch(replace(QUICK, schedule="sequential"))
    await interrupted(journal, text, {"READ": stuck.tool()}, stuck.under_way, how)
    notes: list[Note] = []
    tools = {"READ": stuck.tool()}
    await resume_run(journal, "run", ports_for(tools), watch=Watch(observer=notes.append))
    assert [(note.kind, note.step) for note in notes] == [
        (NoteKind.STARTED, "S1"),
        (NoteKind.FINISHED, "S1"),
        (NoteKind.STARTED, "S2"),
        (NoteKind.FINISHED, "S2"),
        (NoteKind.ENDED, ""),
    ]


async def test_truncation_is_journaled_and_noted_again(journal: Journal) -> None:
    cut = Cut("rows", 2, None, "rows")

    async def tool(args: dict[str, Any], context: CallContext) -> JSON:
        if args["x"] != "plain":
            context.remark(cut, Fact("isolation", "limits"))
        if args["x"] == "bad":
            raise ToolFailed("no")
        return args["x"]

    told: list[Note] = []
    plan = plan_of('S1: @READ ("cut")\nS2: @READ ("plain")\nS3: @READ ("bad")')
    ports = Ports(route_to({"READ": tool}))
    await start_run(plan, ports, launch(), journal, "run", Watch(observer=told.append))
    rows = [
        {"cut": "rows", "kept": 2, "whole": None, "unit": "rows"},
        {"fact": "isolation", "text": "limits"},
    ]
    bodies = [e.body for e in journal.events("run") if e.type in (EventType.OK, EventType.ERR)]
    assert bodies == [
        {"value": "cut", "remarks": rows},
        {"value": "plain"},
        {"error": "no", "remarks": rows},
    ]
    again: list[Note] = []
    fold(plan, journal.events("run"), journal.plan_of, again.append)
    assert again == told
    assert [(n.kind, n.step) for n in told if n.kind in (NoteKind.CUT, NoteKind.FACT)] == [
        (NoteKind.CUT, "S1"),
        (NoteKind.FACT, "S1"),
        (NoteKind.CUT, "S3"),
        (NoteKind.FACT, "S3"),
    ]


def test_tools_changed_since_start_are_refused() -> None:
    begun = Start({}, {}, Limits(), {"A": "1", "B": "1"}, {})
    check_pins(begun, {"A": "1", "C": "2"})
    with pytest.raises(JournalError, match="@B") as refused:
        check_pins(begun, {"A": "1", "B": "2"})
    assert "JRN021" in str(refused.value)


@pytest.mark.parametrize("days", [1, -1])
async def test_clock_jump_extends_no_wait_and_reorders_no_event(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, waits: list[float], days: int
) -> None:
    """If the clock is set forward, the wait is over; if set back, it lasts its delay and no longer."""
    await interrupted_in_wait(journal)

    async def at_once(seconds: float, result: Any = None) -> Any:
        waits.extend([seconds] if seconds > 0 else [])
        return result

    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + days * 86_400)
    path = journal.path
    journal.close()
    with Journal.open(path, clock=time.time) as later:
        waits.clear()
        monkeypatch.setattr(asyncio, "sleep", at_once)
        assert ended(await resume(later, {"READ": "later"})).variables == {"a": "later"}
        assert waits == ([] if days > 0 else [300.0])
        kinds = [event.type for event in later.events("run")]
        assert kinds.count(EventType.FIRED) == 1
        assert kinds[-1] is EventType.END
        assert later.verify("run") is None
