"""Journals recorded by earlier builds replay to the same state, command by command, and their runs go on.

A file of `recorded/` is an export or a journal, and is never rewritten; `format-2-without-index.db.gz` is of
a build that had no index of runs. If one of these tests fails, the meaning of plans has changed: the version
of the machine has to be raised.
"""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.runtime.tools import launch, plan_of, ports_for

from callsheet import Answer, RunFilter, Runtime, tool
from callsheet.machine import Limits
from callsheet.machine.keys import MACHINE_VERSION
from callsheet.runtime.cancelling import cancel_now
from callsheet.runtime.doubt import decide_calls
from callsheet.runtime.gateway import Ports
from callsheet.runtime.runs import resume_run, start_run
from callsheet.store import EventType, Journal, JournalError
from callsheet.store.archive import import_runs
from callsheet.store.records import result_body
from callsheet.store.replay import fold

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.jsonl"))
_BEGINNINGS = (EventType.INTENT, EventType.TIMER, EventType.ASK)


def test_at_least_five_recorded_journals_are_tested() -> None:
    assert len(RECORDED) >= 5


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_recorded_events_replay_to_recorded_state(file: Path, tmp_path: Path) -> None:
    with Journal.open(tmp_path / "journal.db") as journal:
        with file.open("rb") as lines:
            import_runs(journal.parts, lines)
        runs = journal.runs()
        assert runs
        for info in runs:
            plan = journal.plan_of(info.plan_hash)
            rows = list(journal.events(info.run_id))
            assert info.core_version == MACHINE_VERSION

            def plan_by(name: str) -> object:
                return journal.plan_of(name)

            for number, row in enumerate(rows):
                if row.type in _BEGINNINGS:
                    asked = fold(plan, rows[:number], plan_by).waiting  # type: ignore[arg-type]
                    assert row.key in asked, f"event {row.seq}: {row.type} {row.key}"
            whole = fold(plan, rows, plan_by)  # type: ignore[arg-type]
            if rows[-1].type is EventType.END:
                assert whole.machine.result is not None
                told = result_body(whole.machine.result)
                body = dict(rows[-1].body or {})
                for each in (told, body):
                    del each["usage"]["seconds"]
                # Later versions count and name more than was recorded then.
                if "failed_steps" not in body:
                    told.pop("failed_steps", None)
                told["usage"] = {name: told["usage"][name] for name in body["usage"]}
                assert told == body
            else:
                assert whole.machine.result is None
                assert whole.waiting


async def test_run_of_other_version_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with Journal.open(path) as journal:
        plan = plan_of('S1: @ASK_HUMAN ("go on?") > $a')
        outcome = await start_run(plan, Ports(lambda name: None), launch(Limits()), journal, "r")
        assert outcome.waiting
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE runs SET core_version = '99'")
    connection.close()
    with Journal.open(path) as journal:
        before = journal.find_run("r")
        with pytest.raises(JournalError, match=r"JRN022.*version 99"):
            await resume_run(journal, "r", ports_for({}))
        with pytest.raises(JournalError, match="JRN022"):
            decide_calls(journal, "r", ["S1"], "retry")  # type: ignore[arg-type]
        with pytest.raises(JournalError, match="JRN022"):
            cancel_now(journal, "r", "enough")
        assert journal.find_run("r").events == before.events
        assert journal.find_run("r").status == before.status


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """The journal of an earlier build, with a run that is done and one that waits for a person."""
    path = tmp_path / "journal.db"
    path.write_bytes(gzip.decompress(RECORDED[0].with_name("format-2-without-index.db.gz").read_bytes()))
    return path


def test_journal_of_earlier_build_gets_its_index_and_stays_intact(earlier: Path) -> None:
    with Journal.open(earlier) as journal:
        assert {info.run_id: journal.verify(info.run_id) for info in journal.runs()} == {
            "blocks": None,
            "waits": None,
        }
        assert journal.find_run("blocks").events == 24
    (done,) = Runtime(journal=earlier).runs_sync(where=RunFilter(failed_step="S1"))
    assert done.run_id == "blocks"


async def test_run_that_waits_in_journal_of_earlier_build_goes_on(earlier: Path) -> None:
    made: list[str] = []

    @tool(effect="read")
    def look(n: int) -> int:
        made.append(f"look {n}")
        return n * 2

    @tool
    def write(n: int, text: str) -> str:
        made.append(f"write {n}")
        return f"w{n} {text}"

    runtime = Runtime([look, write], journal=earlier)
    (ask,) = await runtime.inbox()
    await runtime.answer("waits", ask.key, Answer.of("yes"))
    result = await runtime.resume("waits")
    assert result.answer == [["w0 first", 0], ["w1 first", 2], ["w2 first", 4]]
    assert made == ["look 1"]
