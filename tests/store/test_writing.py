"""Writing journals: commits, odd values, statuses, and errors that change nothing."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from callsheet.ir import Plan, plan_hash
from callsheet.store import (
    Durability,
    EventType,
    Journal,
    JournalError,
    NotStorable,
    RunStatus,
)


def test_run_is_in_journal_after_first_commit(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "S1: ...", {"inputs": {"a": 1}}) as writer:
        assert journal.runs() == []
        writer.commit()
        (info,) = journal.runs()
        (start,) = journal.events("r")
    assert (info.run_id, info.status, info.events, info.epoch) == ("r", RunStatus.RUNNING, 1, 1)
    assert (info.plan_hash, info.plan_id, info.title) == (plan_hash(plan), "reading", "Read a file")
    assert (start.seq, start.type, start.body) == (1, EventType.START, {"inputs": {"a": 1}})


def test_uncommitted_events_are_dropped(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {}) as writer:
        writer.commit()
        writer.append(EventType.INTENT, key="S1.0.1")
    with journal.claim("r") as writer:
        assert writer.last_seq == 1


def test_fields_round_trip(path: Path, plan: Plan) -> None:
    with (
        Journal.open(path, Durability.OFF, clock=lambda: 1795302119.25, monotonic=lambda: 7) as journal,
        journal.create_run("r", plan, "", {}) as writer,
    ):
        writer.append(EventType.OK, key="S1.3.2", body={"value": [None, 1.5]})
        writer.append(EventType.CANCEL)
        writer.commit()
        _, ok, cancel = journal.events("r")
    assert (ok.key, ok.step, ok.index, ok.attempt) == ("S1.3.2", "S1", 3, 2)
    assert (ok.ts, ok.mono, ok.epoch, ok.body) == (1795302119.25, 7.0, 1, {"value": [None, 1.5]})
    assert (cancel.key, cancel.step, cancel.index, cancel.attempt, cancel.body) == (None,) * 5


@pytest.mark.parametrize(
    "body",
    [
        {"v": "lone \ud800 surrogate"},
        {"v": "\0"},
        {"v": 10**100},
        {"v": -0.0},
        {"": {}},
        {},
        {"v": "é\u2028𝄞"},
    ],
)
def test_unusual_values_round_trip(journal: Journal, plan: Plan, body: dict[str, object]) -> None:
    with journal.create_run("r", plan, "", {}) as writer:
        writer.append(EventType.OK, body=body)
        writer.commit()
        *_, event = journal.events("r")
    assert repr(event.body) == repr(body)
    assert journal.verify("r") is None


def _nested(depth: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(depth):
        value = {"v": value}
    return value


@pytest.mark.parametrize(
    "body",
    [
        {"v": float("nan")},
        {"v": [float("-inf")]},
        {"v": object()},
        {"v": b"x"},
        _nested(100_000),
    ],
    ids=["nan", "infinity", "object", "bytes", "too deep"],
)
def test_non_json_value_is_refused_and_changes_nothing(
    journal: Journal, plan: Plan, body: dict[str, object]
) -> None:
    with journal.create_run("r", plan, "", {}) as writer:
        writer.append(EventType.INTENT, key="S1.0.1")
        before = (writer.last_seq, writer.head_hash)
        with pytest.raises(NotStorable, match="JRN007"):
            writer.append(EventType.OK, body=body)
        assert (writer.last_seq, writer.head_hash) == before
        writer.append(EventType.OK, body={"v": 1})
        writer.commit()
    assert [event.seq for event in journal.events("r")] == [1, 2, 3]
    assert journal.verify("r") is None


def test_non_unicode_key_is_refused(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {}) as writer:
        with pytest.raises(NotStorable):
            writer.append(EventType.OK, key="\ud800.0.1")
        writer.commit()
        assert writer.last_seq == 1


def test_unstorable_start_leaves_no_lock(journal: Journal, plan: Plan) -> None:
    with pytest.raises(NotStorable):
        journal.create_run("r", plan, "", {"v": float("nan")})
    with journal.create_run("r", plan, "", {}) as writer:
        writer.commit()


def test_status_changes_with_commit(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {}) as writer:
        writer.commit()
        writer.set_status(RunStatus.WAITING, wake_at=99.5)
        assert journal.runs()[0].status is RunStatus.RUNNING
        writer.commit()
        assert (journal.runs()[0].status, journal.runs()[0].wake_at) == (RunStatus.WAITING, 99.5)
        writer.set_status(RunStatus.RUNNING)
        writer.commit()
        assert (journal.runs()[0].status, journal.runs()[0].wake_at) == (RunStatus.RUNNING, None)


def test_empty_commit_is_skipped(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {}) as writer:
        writer.commit()
        wal = journal.path.with_name("journal.db-wal")
        size = wal.stat().st_size
        writer.commit()
        assert wal.stat().st_size == size


def test_second_run_of_id_is_refused(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {}) as writer:
        writer.commit()
    with pytest.raises(JournalError, match="JRN003"):
        journal.create_run("r", plan, "", {})


def test_invalid_id_reaches_no_path(journal: Journal, plan: Plan) -> None:
    for refused in (lambda: journal.create_run("../r", plan, "", {}), lambda: journal.claim("../r")):
        with pytest.raises(JournalError, match="JRN001"):
            refused()
    assert not journal.path.with_name("journal.db.runs").exists()


def test_closed_writer_refuses(journal: Journal, plan: Plan) -> None:
    writer = journal.create_run("r", plan, "", {})
    writer.close()
    writer.close()
    for refused in (
        writer.commit,
        lambda: writer.append(EventType.END),
        lambda: writer.set_status(RunStatus.DONE),
        lambda: writer.add_plan(plan, ""),
    ):
        with pytest.raises(ValueError, match="closed"):
            refused()


def test_plans_are_stored_once_with_their_source(journal: Journal, plan: Plan) -> None:
    other = Plan(plan.steps[1:], title="after \ud800 the re-plan")
    with journal.create_run("a", plan, "the text", {}) as first:
        assert first.add_plan(other, "lone \ud800") == plan_hash(other)
        first.commit()
    with journal.create_run("b", plan, "the same plan, other spelling", {}) as second:
        second.commit()
    assert journal.plan(plan_hash(plan)) == (plan, "the text")
    assert journal.plan(plan_hash(other)) == (other, "lone \ud800")


def test_head_is_recorded_periodically(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {}) as writer:
        for _ in range(600):
            writer.append(EventType.OK, key="S1.0.1", body={})
            writer.commit()
    connection = sqlite3.connect(journal.path)
    try:
        (head,) = connection.execute("SELECT head_seq FROM runs").fetchone()
    finally:
        connection.close()
    assert 600 - 256 < head <= 601
    assert journal.verify("r") is None


def test_log_view_shows_run_ids_and_sequence_numbers(journal: Journal, plan: Plan) -> None:
    for run_id in ("a", "b"):
        with journal.create_run(run_id, plan, "", {"inputs": {}}) as writer:
            writer.append(EventType.END)
            writer.commit()
    connection = sqlite3.connect(journal.path)
    try:
        rows = connection.execute("SELECT run_id, seq, type, body FROM log ORDER BY run_id, seq").fetchall()
    finally:
        connection.close()
    assert rows == [
        ("a", 1, "start", '{"inputs":{}}'),
        ("a", 2, "end", None),
        ("b", 1, "start", '{"inputs":{}}'),
        ("b", 2, "end", None),
    ]
