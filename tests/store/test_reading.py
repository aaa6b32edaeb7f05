"""Reading journals: events in order, lists of runs, ids by prefix."""

from __future__ import annotations

import sqlite3
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.ir import Plan, plan_hash
from callsheet.machine import Failed
from callsheet.machine import events as machine_events
from callsheet.store import EventType, Journal, JournalError, RunStatus
from callsheet.store.events import CallPart, decode_body, encode_body
from callsheet.store.records import TAKEN, event_of


def _run(journal: Journal, plan: Plan, run_id: str, events: int = 1) -> None:
    with journal.create_run(run_id, plan, "", {}) as writer:
        for n in range(2, events + 1):
            writer.append(EventType.OK, key=f"S1.{n}.1", body={"n": n})
        writer.commit()


def test_events_are_in_order_across_pages(journal: Journal, plan: Plan) -> None:
    _run(journal, plan, "a", 1203)
    _run(journal, plan, "b", 3)
    assert [event.seq for event in journal.events("a")] == list(range(1, 1204))
    assert [event.seq for event in journal.events("a", after=1200)] == [1201, 1202, 1203]
    assert list(journal.events("a", after=1203)) == []
    assert [event.run_id for event in journal.events("b")] == ["b"] * 3


def test_paused_reader_sees_later_events(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {}) as writer:
        writer.commit()
        events = journal.events("r")
        assert next(events).seq == 1
        writer.append(EventType.END)
        writer.commit()
        assert next(events).seq == 2


def test_runs_are_listed_newest_first(journal: Journal, plan: Plan) -> None:
    for run_id in ("c", "a", "b"):
        _run(journal, plan, run_id)
    assert [info.run_id for info in journal.runs()] == ["b", "a", "c"]
    assert [info.run_id for info in journal.runs(limit=2)] == ["b", "a"]
    assert journal.runs(limit=0) == []


def test_runs_are_filtered_by_status(journal: Journal, plan: Plan) -> None:
    _run(journal, plan, "a")
    with journal.create_run("b", plan, "", {}) as writer:
        writer.append(EventType.END)
        writer.set_status(RunStatus.DONE)
        writer.commit()
    assert [info.run_id for info in journal.runs(status=RunStatus.DONE)] == ["b"]
    assert [info.run_id for info in journal.runs(status=RunStatus.RUNNING)] == ["a"]
    assert RunStatus.DONE.is_final
    assert not RunStatus.IN_DOUBT.is_final


def test_list_has_event_count_and_last_change(journal: Journal, plan: Plan) -> None:
    _run(journal, plan, "r", 5)
    (info,) = journal.runs()
    *_, last = journal.events("r")
    assert (info.events, info.head_hash, info.updated) == (5, last.hash, last.ts)
    assert info.created <= info.updated


@pytest.mark.parametrize(
    ("text", "found"), [("alpha", "alpha"), ("alphabet", "alphabet"), ("be", "beta"), ("last", "gamma.1")]
)
def test_run_is_found(journal: Journal, plan: Plan, text: str, found: str) -> None:
    for run_id in ("alpha", "alphabet", "beta", "gamma.1"):
        _run(journal, plan, run_id)
    assert journal.find_run(text).run_id == found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("alph", "more than one run starts with alph: alpha, alphabet"),
        ("bate", "no run 'bate'"),
        ("BETA", "no run 'BETA'"),
        ("../x", "no run"),
        ("", "no run"),
        ("\ud800", "no run"),
        ("b%", "no run"),
    ],
)
def test_missing_or_ambiguous_run_is_refused(journal: Journal, plan: Plan, text: str, says: str) -> None:
    for run_id in ("alpha", "alphabet", "beta"):
        _run(journal, plan, run_id)
    with pytest.raises(JournalError, match=f"JRN002: .*{says}"):
        journal.find_run(text)


def test_nearest_id_is_suggested(journal: Journal, plan: Plan) -> None:
    _run(journal, plan, "nightly")
    for ask in (journal.find_run, journal.claim, journal.verify, lambda text: list(journal.events(text))):
        with pytest.raises(JournalError) as refused:
            ask("nihgtly")
        assert refused.value.diagnostics[0].help == "did you mean nightly?"


def test_last_of_empty_journal_is_no_run(journal: Journal) -> None:
    with pytest.raises(JournalError, match="JRN002"):
        journal.find_run("last")


def test_unknown_plan_is_refused(journal: Journal) -> None:
    with pytest.raises(JournalError, match="JRN014"):
        journal.plan("0" * 64)


def _change(journal: Journal, statement: str) -> None:
    connection = sqlite3.connect(journal.path)
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_modified_plan_is_refused(journal: Journal, plan: Plan) -> None:
    _run(journal, plan, "r")
    _change(journal, "UPDATE plans SET body = replace(body, 'done', 'dome')")
    with pytest.raises(JournalError, match="JRN012"):
        journal.plan(plan_hash(plan))


@pytest.mark.parametrize("change", ["body = x'7b'", "body = x'ff'", "type = 'party'", "blob = 'gone'"])
def test_unreadable_event_is_named(journal: Journal, plan: Plan, change: str) -> None:
    _run(journal, plan, "r", 4)
    _change(journal, f"UPDATE events SET {change} WHERE key = 'S1.3.1'")
    events = journal.events("r")
    assert [next(events).seq, next(events).seq] == [1, 2]
    with pytest.raises(JournalError, match=r"JRN012: .*event 3 of run r"):
        next(events)


def test_corrupt_database_is_reported_damaged(journal: Journal, plan: Plan) -> None:
    _run(journal, plan, "r", 400)
    path = journal.path
    journal.close()
    data = bytearray(path.read_bytes())
    for page in range(40, len(data) // 1024):
        data[page * 1024 : page * 1024 + 200] = b"\xff" * 200
    path.write_bytes(data)
    with Journal.open(path) as damaged, pytest.raises(JournalError, match="JRN012"):
        list(damaged.events("r"))


@given(
    st.recursive(
        st.text(st.characters())
        | st.text('"\\/\x00\n{}:,va é\ud800', max_size=12)
        | st.integers()
        | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=4,
    ),
    st.booleans(),
)
def test_bodies_round_trip(value: Any, has_more: bool) -> None:
    """Including texts without escapes, and those that look like the end of one."""
    body = {"value": value, "remarks": "r"} if has_more else {"value": value}
    assert decode_body(encode_body("ok", body)) == body


@pytest.mark.parametrize(
    ("told", "rule"), [({}, ""), ({"forbidden": True}, "flow"), ({"forbidden": "path"}, "path")]
)
def test_refused_call_names_rule_even_in_older_journals(told: dict[str, Any], rule: str) -> None:
    """Journals written before rules had names only record that data flow was refused."""
    event = event_of(EventType.ERR, "S1.0.1", {"error": "no", **told}, pytest.fail)
    assert isinstance(event, Failed)
    assert event.forbidden == rule


def test_each_event_of_machine_has_one_row_in_table_of_events() -> None:
    names = {name.strip() for name in cast("str", machine_events.Event).split("|")}
    assert sorted(taken.of.__name__ for taken in TAKEN.values()) == sorted(names)
    for kind in EventType:
        assert isinstance(kind.word, str), f"{kind} is not described"
        assert kind.is_of_one_run <= (kind not in TAKEN)
        if kind.answers or kind.part in (CallPart.FIRES, CallPart.DOUBTS):
            assert kind in TAKEN
