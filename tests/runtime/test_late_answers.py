"""A tool's answer after its timeout is journaled as `late`, and changes nothing."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plans import FACTS, INPUTS, plan_of, plan_texts
from tests.runtime.test_drivers_agree import ports_of
from tests.runtime.tools import launch, route_to

from callsheet import RunResult, RunStatus, Runtime, tool
from callsheet.apps.cli.main import main
from callsheet.ir import JSON
from callsheet.machine import Failed, Limits, Started, Succeeded
from callsheet.ports.calls import CallContext
from callsheet.runtime.gateway import Ports
from callsheet.runtime.launch import Launch
from callsheet.runtime.recording import JournalRecorder
from callsheet.runtime.runs import start_run
from callsheet.store import Durability, EventType, Journal
from callsheet.store.archive import export_run, import_runs
from callsheet.store.events import Event
from callsheet.store.replay import begin, fold
from callsheet.store.start import Start

ODD = Path(__file__).parents[1] / "crash" / "servers" / "odd.py"
PLAN = """S1: @GIVE ("too late") > $a ON_FAIL GOTO S2
S2: @SLOW () > $b
S3: @RESPOND ("$a", "$b")"""


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when a late answer has been recorded."""
    late, seen = JournalRecorder.late, asyncio.Event()

    def note(self: JournalRecorder, event: Succeeded | Failed) -> None:
        late(self, event)
        seen.set()

    monkeypatch.setattr(JournalRecorder, "late", note)
    return seen


def slow_until(noted: asyncio.Event, free: threading.Event | None = None) -> Any:
    """A tool that releases the late one, and ends when the late answer has been recorded."""

    @tool(effect="read", name="slow")
    async def slow() -> str:
        if free is not None:
            free.set()
        await asyncio.wait_for(noted.wait(), 60)
        return "done"

    return slow


def events(path: Path, run_id: str = "r") -> list[Event]:
    with Journal.open(path) as journal:
        assert journal.verify(run_id) is None
        return list(journal.events(run_id))


def late_of(path: Path, run_id: str = "r") -> list[tuple[str | None, dict[str, Any] | None]]:
    return [(event.key, event.body) for event in events(path, run_id) if event.type is EventType.LATE]


@pytest.mark.servers
async def test_very_late_server_answer_is_noted_and_changes_nothing(
    tmp_path: Path, noted: asyncio.Event
) -> None:
    path = tmp_path / "journal.db"
    effects = {"effects": {"give": "read"}}
    command = [str(ODD), str(tmp_path / "notes")]
    server = {"odd": {"command": sys.executable, "args": command, "timeout": 0.1, "callsheet": effects}}
    async with Runtime([slow_until(noted)], mcp=server, journal=path) as runtime:
        result = await runtime.run(PLAN, run_id="r")
        again = await runtime.resume("r")
    assert result.status is RunStatus.DONE
    assert result.response == again.response == "no answer within 0.1 s done"
    assert late_of(path) == [("S1.0.1", {"outcome": "ok", "value": "late"})]
    kinds = [event.type for event in events(path)]
    assert kinds.index(EventType.ERR) < kinds.index(EventType.LATE) < kinds.index(EventType.END)
    shown = json.loads(CliRunner().invoke(main, ["show", "r", "--json", "--journal", str(path)]).stdout)
    (late,) = shown["late"]
    assert (late["key"], late["step"], late["outcome"]) == ("S1.0.1", "S1", "ok")
    assert "late" in late["preview"]
    text = CliRunner().invoke(main, ["show", "r", "--journal", str(path)]).stdout
    assert "late: S1.0.1 answered at " in text
    listed = CliRunner().invoke(main, ["show", "r", "--events", "--journal", str(path)]).stdout
    assert sum(line.split()[2] == "late" for line in listed.splitlines()) == 1


def answer_to(what: str) -> str:
    if what == "failure":
        raise ValueError("out of ink")
    return "late"


def result_in_thread(free: threading.Event, effect: str = "read") -> Any:
    @tool(effect=effect, name="give", timeout=0.1)
    def give(what: str) -> str:
        assert free.wait(60)
        return answer_to(what)

    return give


def result_despite_cancellation(free: threading.Event) -> Any:
    @tool(effect="read", name="give", timeout=0.1)
    async def give(what: str) -> str:
        while not free.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
        return answer_to(what)

    return give


@pytest.mark.parametrize("giving", [result_in_thread, result_despite_cancellation])
@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("value", {"outcome": "ok", "value": "late"}),
        ("failure", {"outcome": "err", "error": "ValueError: out of ink"}),
    ],
)
async def test_function_exceeding_its_timeout_is_noted(
    tmp_path: Path,
    noted: asyncio.Event,
    giving: Callable[[threading.Event], Any],
    what: str,
    body: dict[str, JSON],
) -> None:
    path, free = tmp_path / "journal.db", threading.Event()
    slow = slow_until(noted, free)
    async with Runtime([giving(free), slow], journal=path) as runtime:
        result: RunResult = await runtime.run(PLAN.replace("too late", what), run_id="r")
    assert result.response == "no answer within 0.1 s done"
    assert late_of(path) == [("S1.0.1", body)]


async def test_late_answer_is_durable_during_next_call(tmp_path: Path) -> None:
    """A crash during a long call does not lose it."""
    path, free = tmp_path / "journal.db", threading.Event()

    @tool(effect="read", name="slow")
    async def slow() -> str:
        free.set()
        async with asyncio.timeout(60):
            while not late_of(path):  # noqa: ASYNC110 - as others see it
                await asyncio.sleep(0.01)
        return "done"

    async with Runtime([result_in_thread(free), slow], journal=path) as runtime:
        result = await runtime.run(PLAN, run_id="r")
    assert result.response == "no answer within 0.1 s done"
    assert late_of(path) == [("S1.0.1", {"outcome": "ok", "value": "late"})]


async def test_answer_after_end_of_run_is_not_noted(tmp_path: Path) -> None:
    path, free = tmp_path / "journal.db", threading.Event()
    async with Runtime([result_in_thread(free)], journal=path) as runtime:
        result = await runtime.run(PLAN.replace("@SLOW ()", '@CALC ("1+1")'), run_id="r")
        assert result.status is RunStatus.DONE
        free.set()
        await asyncio.sleep(0.2)
    assert late_of(path) == []
    assert events(path)[-1].type is EventType.END


async def test_call_in_doubt_stays_in_doubt_on_late_answer(tmp_path: Path, noted: asyncio.Event) -> None:
    """The answer is shown to the person who decides; it decides nothing."""
    path, free = tmp_path / "journal.db", threading.Event()
    plan = '@PARALLEL {\n S1: @GIVE ("x") > $a\n S2: @SLOW () > $b\n}\nS3: @RESPOND ("$a", "$b")'

    @tool(effect="read", name="slow")
    async def slow() -> str:
        async with asyncio.timeout(60):
            while not any(event.type is EventType.IN_DOUBT for event in events(path)):  # noqa: ASYNC110 - as others see it
                await asyncio.sleep(0.02)
            free.set()
            await noted.wait()
        return "done"

    async with Runtime([result_in_thread(free, "unsafe"), slow], journal=path) as runtime:
        result = await runtime.run(plan, run_id="r")
        assert result.status is RunStatus.IN_DOUBT
        assert late_of(path) == [("S1.0.1", {"outcome": "ok", "value": "late"})]
        assert (await runtime.resume("r")).status is RunStatus.IN_DOUBT
        await runtime.decide("r", "S1", "fail")
        ended = await runtime.resume("r")
    assert "it was decided to fail it" in str(ended.variables["a"])


async def test_second_outcome_of_call_is_noted_as_late(tmp_path: Path) -> None:
    """For any source: the journal shows which outcome counts, and a note need not be JSON."""
    plan = plan_of('S1: @READ ("x") > $a\nS2: @READ ("y") > $b\nS3: @RESPOND ("$a", "$b")')
    with Journal.open(tmp_path / "journal.db") as journal:
        folded = begin(plan, Start({}, dict(FACTS), Limits(), {}, {}))
        with journal.create_run("r", plan, "", folded.start.to_json(), core_version="0") as writer:
            recorder = JournalRecorder(writer, journal.durability, folded=folded)
            folded.machine.feed(Started({}))
            for said in ("once", "twice"):
                folded.machine.feed(recorder.event(Succeeded("S1.0.1", said)))
            recorder.late(Succeeded("S1.0.1", float("nan")))
            recorder.late(Failed("S1.0.1", "thrice"))
            assert folded.machine.variables()["a"] == "once"
            recorder.commit()
        again = fold(plan, journal.events("r"), lambda name: plan)
        assert again.machine.variables()["a"] == "once"
    first, second, third = (body for _, body in late_of(tmp_path / "journal.db"))
    assert first == {"outcome": "ok", "value": "twice"}
    assert second is not None
    assert "JSON" in second["error"]
    assert third == {"outcome": "err", "error": "thrice"}


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Journal.open(tmp_path_factory.mktemp("late") / "journal.db", Durability.OFF) as opened:
        yield opened


BODIES: list[dict[str, JSON]] = [
    {"outcome": "ok", "value": [1] * 100},
    {"outcome": "err", "error": "late"},
]


@given(plan_texts(), st.integers(0, 2**32 - 1), st.data())
@settings(max_examples=60, deadline=None)
def test_late_answers_in_journal_change_no_fold(
    journal: Journal, text: str, world: int, data: st.DataObject
) -> None:
    plan = plan_of(text)
    run_id = f"run-{len(journal.runs())}"
    limits = Limits(max_steps=25, window=3, retry_delay=0.0)
    started = Launch(facts=FACTS, inputs=INPUTS, limits=limits, source=text)
    asyncio.run(start_run(plan, ports_of(world), started, journal, run_id))
    rows = list(journal.events(run_id))
    keys = sorted({row.key for row in rows if row.key}) or ["S1.0.1"]
    mixed = list(rows)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(1, len(mixed)))
        body = data.draw(st.sampled_from(BODIES))
        before = mixed[at - 1]
        mixed.insert(at, _late(before, data.draw(st.sampled_from(keys)), body))

    def told(events: list[Event]) -> Any:
        folded = fold(plan, events, journal.plan_of)
        machine = folded.machine
        return (
            folded.waiting,
            machine.result,
            repr(machine.variables()),
            machine.steps_executed,
            machine.open_keys(),
            folded.side_record.launched,
            folded.side_record.asked,
            folded.ended,
            machine.usage(),
        )

    assert told(mixed) == told(rows)
    upto = data.draw(st.integers(1, len(rows)))
    prefix = mixed[: mixed.index(rows[upto - 1]) + 1]
    assert told(prefix) == told(rows[:upto])


def _late(before: Event, key: str, body: dict[str, JSON]) -> Event:
    row_step = key.partition(".")[0]
    return Event(
        before.run_id, before.seq, before.epoch, EventType.LATE, key, row_step, None, None,
        before.ts, before.mono, body, b"",
    )  # fmt: skip


async def test_late_answer_is_exported_imported_and_hashed(tmp_path: Path) -> None:
    path, other = tmp_path / "journal.db", tmp_path / "other.db"

    async def twice(args: dict[str, Any], context: CallContext) -> JSON:
        context.came_late("x" * 200_000)
        return 1

    with Journal.open(path) as journal:
        ports = Ports(route_to({"READ": twice}))
        await start_run(plan_of('S1: @READ ("x") > $a'), ports, launch(), journal, "r")
        lines = list(export_run(journal.parts, "r"))
    with Journal.open(other) as journal:
        import_runs(journal.parts, lines)
    assert late_of(other) == late_of(path) == [("S1.0.1", {"outcome": "ok", "value": "x" * 200_000})]
