"""A journal that cannot be written: the run stops making calls, and continues once it can."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.tools import FACTS, QUICK, plan_of, ports_for, route_to

from callsheet.api.plan import Plan
from callsheet.machine import Machine, Started, Status, compile_plan
from callsheet.runtime import recording
from callsheet.runtime.gateway import Gateway, Ports
from callsheet.runtime.launch import Launch
from callsheet.runtime.local import LocalDriver
from callsheet.runtime.recording import JournalRecorder
from callsheet.runtime.runs import resume_run, start_run
from callsheet.store import Durability, EventType, Journal, JournalWriteFailed, RunWriter
from callsheet.store.mailbox import Mailbox
from callsheet.store.start import Start
from callsheet.trace.search import finder, search

TEXT = "S1: @WRITE (1) > $a\nS2: @WRITE (2) > $b\nS3: @RESPOND ($a, $b)"


@pytest.fixture(params=[Durability.FULL, Durability.NORMAL])
def journal(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Journal]:
    with Journal.open(tmp_path / "journal.db", request.param) as opened:
        yield opened


class Disk:
    """A disk that refuses the writes with these numbers, counted from 1."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, refused: set[int]) -> None:
        self.refused, self.writes = refused, 0
        self.flush, self.commit = RunWriter.flush, RunWriter.commit
        disk = self

        async def flush(writer: RunWriter) -> None:
            disk.check(writer)
            await disk.flush(writer)

        def commit(writer: RunWriter) -> None:
            disk.check(writer)
            disk.commit(writer)

        monkeypatch.setattr(RunWriter, "flush", flush)
        monkeypatch.setattr(RunWriter, "commit", commit)
        monkeypatch.setattr(recording, "_PAUSE", 0.002)

    def check(self, writer: RunWriter) -> None:
        self.writes += 1
        if self.writes in self.refused:
            raise JournalWriteFailed(writer.run_id, "No space left on device")


async def drive(journal: Journal, tools: dict[str, Any], patience: float, blocked: list[Any]) -> Any:
    plan = plan_of(TEXT)
    start = Start({}, FACTS, QUICK, {}, {})
    with journal.create_run("run", plan, TEXT, start.to_json()) as writer:
        recorder = JournalRecorder(writer, journal.durability, patience, blocked.append)
        machine = Machine(compile_plan(plan, FACTS), QUICK)
        driver = LocalDriver(machine, Gateway(Ports(route_to(tools)), "run"), recorder)
        result = await driver.run(machine.feed(Started({})))
        recorder.end(result)
        unsettled = recorder.commit()
        if unsettled is not None:
            await unsettled
    return result


async def test_run_continues_when_journal_is_writable_again(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    blocked: list[JournalWriteFailed] = []
    disk = Disk(monkeypatch, {2, 3, 4})

    def write(args: dict[str, Any]) -> int:
        assert disk.writes not in disk.refused
        calls.append(args["x"])
        return args["x"]

    result = await drive(journal, {"WRITE": write}, 5.0, blocked)
    assert (result.response, calls, len(blocked)) == ("1 2", [1, 2], 1)
    assert journal.verify("run") is None


async def test_permanently_unwritable_journal_stops_run_with_error(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    Disk(monkeypatch, set(range(2, 10_000)))
    with pytest.raises(JournalWriteFailed, match="No space left"):
        await drive(journal, {"WRITE": lambda args: calls.append(args["x"])}, 0.02, [])
    assert calls == [1]


async def test_calls_unrecorded_because_of_full_disk_are_in_doubt(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        Disk(full, set(range(2, 10_000)))
        with pytest.raises(JournalWriteFailed):
            await drive(journal, {"WRITE": 1}, 0.02, [])
    assert [e.type for e in journal.events("run")] == [EventType.START, EventType.INTENT]
    outcome = await resume_run(journal, "run", ports_for({}))
    assert [call.key for call in outcome.in_doubt] == ["S1.0.1"]


async def test_unwritable_start_prevents_run(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    Disk(monkeypatch, set(range(1, 10_000)))
    with pytest.raises(JournalWriteFailed):
        await drive(journal, {"WRITE": lambda args: calls.append(1)}, 0.02, [])
    assert calls == []


async def test_concurrent_runs_share_journal(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "journal.db") as journal:
        ports = Ports(route_to({"WRITE": lambda args: args["x"]}))
        outcomes = await asyncio.gather(
            *(start_run(plan_of(TEXT), ports, Launch(facts=FACTS), journal, f"run-{n}") for n in range(8))
        )
        assert all(o.result is not None and o.result.status is Status.DONE for o in outcomes)
        assert all(journal.verify(f"run-{n}") is None for n in range(8))


async def test_burst_of_commits_is_visible_during_call(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits in a tail, but not for the end of the call that the burst leads to.

    The journal is not read meanwhile, for that would bring it into the database as well.
    """
    monkeypatch.setattr(Mailbox, "unread", lambda *_: [])
    steps = [f"S{n}: @WRITE ({n}) > $a" for n in range(1, 31)]
    plan = plan_of("\n".join([*steps, "S31: @WAIT () > $b"]))

    def others_see() -> bytes:
        with closing(sqlite3.connect(journal.path)) as database:
            return b"".join(row for (row,) in database.execute("SELECT intents FROM events") if row)

    async def wait(args: dict[str, Any]) -> str:
        async with asyncio.timeout(60):
            while b"WAIT" not in others_see():  # noqa: ASYNC110 - it happens in a file
                await asyncio.sleep(0.01)
        return "seen"

    ports = Ports(route_to({"WRITE": lambda args: args["x"], "WAIT": wait}))
    outcome = await start_run(plan, ports, Launch(facts=FACTS), journal, "run")
    assert outcome.result is not None
    assert outcome.result.variables["b"] == "seen"


async def test_each_read_of_a_group_is_recorded_before_what_follows_it_leaves(journal: Journal) -> None:
    most, made, behind = 4, list[int](), list[int]()

    def recorded(type_: EventType) -> int:
        return sum(event.type == type_ for event in journal.events("run"))

    def read(args: dict[str, Any]) -> int:
        made.append(args["x"])
        assert recorded(EventType.INTENT) >= len(made)
        behind.append(len(made) - recorded(EventType.OK))
        return args["x"]

    loop = f"S1: ?FOREACH ($x IN $xs) TOGETHER MAX {most} {{\n  S2: @READ ($x) > $a\n}}\n"
    plan = Plan.parse(f"# ltp: 2\nINPUT $xs: list[int]\n{loop}", inputs=["xs"]).ir
    launch = Launch(facts=FACTS, inputs={"xs": [*range(200)]})
    await start_run(plan, Ports(route_to({"READ": read})), launch, journal, "run")
    assert (made, max(behind)) == ([*range(200)], most)


@pytest.mark.parametrize(
    ("size", "told"), [(50_000, {"event": 3}), (9, "needle in hay hay hay")], ids=["long", "short"]
)
async def test_long_answer_from_call_is_stored_once(
    journal: Journal, size: int, told: str | dict[str, int]
) -> None:
    answer = "needle in" + " hay" * (size // 3)
    plan = plan_of("S1: @READ (1) > $a\nS2: @RESPOND ($a)")
    ports = Ports(route_to({"READ": lambda args: answer}))
    outcome = await start_run(plan, ports, Launch(facts=FACTS), journal, "run")
    *_, given, end = journal.events("run")
    assert (given.seq, given.body, (end.body or {})["response"]) == (3, {"value": answer}, told)
    again = await resume_run(journal, "run", ports_for({}))
    assert outcome.result == again.result
    assert again.result is not None
    assert again.result.response == answer
    found = search(plan, journal.events("run"), journal.plan_of, finder("needle"))
    assert [(match.seq, match.what) for match in found] == [(3, "result"), (4, "response")]


async def test_answer_from_template_is_in_end_event(journal: Journal) -> None:
    plan = plan_of('S1: @READ (1) > $a\nS2: @RESPOND ("so: $a")')
    ports = Ports(route_to({"READ": lambda args: "x" * 5_000}))
    await start_run(plan, ports, Launch(facts=FACTS), journal, "run")
    *_, end = journal.events("run")
    assert (end.body or {})["response"] == "so: " + "x" * 5_000


async def test_long_answer_equal_to_result_text_is_stored_once(journal: Journal) -> None:
    value = {"z": ["é\n"] * 500, "a": 1.5}
    plan = plan_of("S1: @READ (1) > $a")
    ports = Ports(route_to({"READ": lambda args: value}))
    outcome = await start_run(plan, ports, Launch(facts=FACTS), journal, "run")
    *_, given, end = journal.events("run")
    assert (given.body, (end.body or {})["response"]) == ({"value": value}, {"event": given.seq})
    again = await resume_run(journal, "run", ports_for({}))
    assert again.result is not None
    assert json.loads(again.result.response) == value
    assert again.result == outcome.result
