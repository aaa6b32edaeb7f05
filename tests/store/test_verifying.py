"""The chain detects every change that does not rewrite everything after it."""

from __future__ import annotations

import sqlite3

import pytest

from callsheet.ir import Plan
from callsheet.store import EventType, Journal, RunStatus

_BASE = "(SELECT number << 32 FROM runs WHERE run_id = 'r')"


@pytest.fixture
def ended(journal: Journal, plan: Plan) -> Journal:
    """Another run, and the run `r` of 6 events; the fourth is large, the last is its end."""
    for run_id in ("other", "r"):
        with journal.create_run(run_id, plan, "", {"inputs": {"a": 1}}) as writer:
            writer.append(EventType.INTENT, key="S1.0.1")
            writer.append(EventType.OK, key="S1.0.1", body={"value": "abc"})
            writer.append(EventType.OK, key="S2.0.1", body={"value": "x" * 70_000})
            writer.append(EventType.INTENT, key="S3.0.1")
            writer.append(EventType.END)
            writer.set_status(RunStatus.DONE)
            writer.commit()
    return journal


def _change(journal: Journal, *statements: str) -> None:
    connection = sqlite3.connect(journal.path)
    for statement in statements:
        assert connection.execute(statement.replace(":r", _BASE)).rowcount == 1
    connection.commit()
    connection.close()


def test_intact_chain_is_verified(ended: Journal) -> None:
    assert ended.verify("r") is None


@pytest.mark.parametrize(
    "change",
    [
        "type = 'err'",
        "key = 'S1.0.2'",
        "key = NULL",
        "key = CAST(x'53ff' AS TEXT)",
        "step = 'S2'",
        "step = '', key = key || 'S1'",
        "idx = 1",
        "idx = NULL",
        "attempt = 2",
        "ts = ts + 0.001",
        "mono = mono + 1",
        "epoch = 2",
        "body = replace(body, 'abc', 'abd')",
        "body = NULL",
        "body = 'text'",
        "ts = 'soon'",
        "epoch = -1",
        "hash = zeroblob(32)",
        "blob = (SELECT hash FROM blobs LIMIT 1), body = NULL",
    ],
)
def test_edited_field_is_detected(ended: Journal, change: str) -> None:
    _change(ended, f"UPDATE events SET {change} WHERE id = :r + 3")
    bad = ended.verify("r")
    assert bad is not None
    assert bad.seq == 3
    assert ended.verify("other") is None


@pytest.mark.parametrize("seq", [1, 2, 6])
def test_deleted_event_is_detected(ended: Journal, seq: int) -> None:
    _change(ended, f"DELETE FROM events WHERE id = :r + {seq}")
    bad = ended.verify("r")
    assert bad is not None
    assert bad.seq == seq
    assert "missing" in bad.why


def test_swapped_events_are_detected(ended: Journal) -> None:
    _change(
        ended,
        "UPDATE events SET id = :r + 99 WHERE id = :r + 2",
        "UPDATE events SET id = :r + 2 WHERE id = :r + 5",
        "UPDATE events SET id = :r + 5 WHERE id = :r + 99",
    )
    bad = ended.verify("r")
    assert bad is not None
    assert bad.seq == 2


def test_event_of_other_run_is_detected(ended: Journal) -> None:
    _change(
        ended,
        "DELETE FROM events WHERE id = :r + 2",
        "UPDATE events SET id = :r + 2 WHERE id = (SELECT number << 32 FROM runs WHERE run_id = 'other') + 2",
    )
    bad = ended.verify("r")
    assert bad is not None
    assert bad.seq == 2


@pytest.mark.parametrize("change", ["DELETE FROM blobs", "UPDATE blobs SET data = zeroblob(70000)"])
def test_changed_large_value_is_detected(ended: Journal, change: str) -> None:
    _change(ended, change)
    bad = ended.verify("r")
    assert bad is not None
    assert bad.seq == 4


def test_small_value_beside_large_one_is_detected(ended: Journal) -> None:
    """Readers of many events would use the small one, and the hash is that of the large one."""
    _change(ended, 'UPDATE events SET body = CAST(\'{"value":"forged"}\' AS BLOB) WHERE id = :r + 4')
    bad = ended.verify("r")
    assert bad is not None
    assert bad.seq == 4


def test_head_outside_chain_is_detected(ended: Journal) -> None:
    _change(ended, "UPDATE runs SET head_hash = zeroblob(32) WHERE run_id = 'r'")
    bad = ended.verify("r")
    assert bad is not None
    assert bad.seq == 6


def test_end_status_needs_end_event(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {}) as writer:
        writer.set_status(RunStatus.DONE)
        writer.commit()
    bad = journal.verify("r")
    assert bad is not None
    assert bad.seq == 2
    assert "end event" in bad.why


def test_truncated_tail_of_unended_run_is_detected(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {}) as writer:
        writer.append(EventType.INTENT, key="S1.0.1")
        writer.append(EventType.OK, key="S1.0.1", body={"value": 1})
        writer.set_status(RunStatus.WAITING)
        writer.commit()
    assert journal.verify("r") is None
    _change(journal, "DELETE FROM events WHERE id = :r + 3")
    bad = journal.verify("r")
    assert bad is not None
    assert (bad.seq, bad.why) == (3, "it is missing: the run recorded 3 events")


def test_unknown_status_is_detected(ended: Journal) -> None:
    _change(ended, "UPDATE runs SET status = 'fine' WHERE run_id = 'r'")
    bad = ended.verify("r")
    assert bad is not None
    assert "'fine'" in bad.why
    assert ended.find_run("r").status is RunStatus.CORRUPT


def test_every_flipped_bit_of_row_is_detected(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {"a": "bcd"}) as writer:
        writer.commit()
    (event,) = journal.events("r")
    for at in range(len(event.hash) + len(b'{"a":"bcd"}')):
        _flip(journal, at, len(event.hash))
        bad = journal.verify("r")
        assert bad is not None
        assert bad.seq == 1
        _flip(journal, at, len(event.hash))
    assert journal.verify("r") is None


def _flip(journal: Journal, at: int, hash_length: int) -> None:
    column, at = ("hash", at) if at < hash_length else ("body", at - hash_length)
    connection = sqlite3.connect(journal.path)
    (data,) = connection.execute(f"SELECT {column} FROM events").fetchone()
    flipped = data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]
    connection.execute(f"UPDATE events SET {column} = ?", (flipped,))
    connection.commit()
    connection.close()


@pytest.fixture
def launching(journal: Journal, plan: Plan) -> Journal:
    """The run `r` of 7 events in 3 entries: a start with a call, an outcome with three, an end."""
    with journal.create_run("r", plan, "", {}) as writer:
        writer.intend("S1.0.1", "A")
        writer.append(EventType.OK, key="S1.0.1", body={"value": 1})
        for item in range(3):
            writer.intend(f"S2.{item}.1", "B" if item else None)
        writer.append(EventType.END)
        writer.commit()
    return journal


def test_intents_are_stored_beside_causing_event(launching: Journal) -> None:
    assert launching.verify("r") is None
    events = list(launching.events("r"))
    assert [(e.seq, e.type.value, e.key) for e in events] == [
        (1, "start", None),
        (2, "intent", "S1.0.1"),
        (3, "ok", "S1.0.1"),
        (4, "intent", "S2.0.1"),
        (5, "intent", "S2.1.1"),
        (6, "intent", "S2.2.1"),
        (7, "end", None),
    ]
    assert [e.body for e in events[3:6]] == [None, {"tool": "B"}, {"tool": "B"}]
    assert launching.find_run("r").events == 7
    for after in range(8):
        assert [e.seq for e in launching.events("r", after)] == list(range(after + 1, 8))


@pytest.mark.parametrize(
    "change",
    [
        "intents = replace(CAST(intents AS TEXT), 'B', 'C')",
        "intents = NULL",
        "intents = NULL, covers = 1",
        "covers = 3",
        "covers = 'many'",
        "covers = 0",
    ],
)
def test_edited_intent_is_detected(launching: Journal, change: str) -> None:
    _change(launching, f"UPDATE events SET {change} WHERE id = :r + 3")
    bad = launching.verify("r")
    assert bad is not None
    assert bad.seq == 3


def test_head_inside_entry_is_detected(launching: Journal) -> None:
    _change(launching, "UPDATE runs SET head_seq = 5, head_hash = zeroblob(32) WHERE run_id = 'r'")
    bad = launching.verify("r")
    assert bad is not None
    assert bad.seq == 6
