"""Growth: what maintenance and lists of a journal do grows with the runs it is about, not with their square.

The steps of SQLite's virtual machine are counted, on every connection that the process has; time is not.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest

from callsheet.apps.hosting.recorded import delete_run
from callsheet.ir import Call, Literal, Plan, Respond, Step
from callsheet.ir.labels import LITERAL
from callsheet.store import EventType, Journal, RunStatus
from callsheet.store.labels import LabelStore, notes_of
from callsheet.store.retention import DAY, due_now, prune
from callsheet.store.schema import Durability

_FEW, _MANY = 120, 480
_UNIT = 50
"""The steps that are counted as one."""
_MOST = 6.0
"""Four times the runs may take so many times the work; a square would take 16 times."""


class Steps:
    """Counts the steps of all connections that are opened while it is used."""

    def __init__(self) -> None:
        self.count = 0

    def step(self) -> None:
        self.count += 1

    def of(self, work: Callable[[], object]) -> int:
        before = self.count
        work()
        return self.count - before


@contextmanager
def _counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    steps, connect = Steps(), sqlite3.connect

    def counted(*args: object, **options: object) -> sqlite3.Connection:
        connection = connect(*args, **options)  # type: ignore[arg-type]
        connection.set_progress_handler(steps.step, _UNIT)
        return connection

    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", counted)
        yield steps


def _plan(number: int) -> Plan:
    read = Call("READ_FILE", named=(("path", Literal(f"{number}.txt")),))
    return Plan((Step("S1", read), Step("S2", Respond((Literal("done"),)))), id=f"plan-{number % 5}")


def _fill(path: Path, runs: int, *, replanned: int) -> None:
    """Runs that ended long ago, each with a plan and a large value of its own, and some with a new plan."""
    with Journal.open(path, Durability.OFF, clock=lambda: 1_000.0) as journal:
        for number in range(runs):
            with journal.create_run(f"run-{number:05}", _plan(number), "", {}, at=1_000.0 + number) as writer:
                if number < replanned:
                    other = writer.add_plan(_plan(100_000 + number), "")
                    writer.append(EventType.PLAN, key="S1.0.1", body={"plan": other, "facts": {}})
                writer.append(EventType.OK, key="S1.1.1", body={"value": f"{number:05}" * 13_200})
                writer.append(EventType.END)
                writer.set_status(RunStatus.DONE)
                writer.commit()


def _work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[Journal], object]) -> list[int]:
    """The steps that a piece of work takes in a journal of few runs, and in one of many."""
    counts: list[int] = []
    for runs in (_FEW, _MANY):
        path = tmp_path / f"{runs}.db"
        _fill(path, runs, replanned=runs)
        with (
            _counting(monkeypatch) as steps,
            Journal.open(path, Durability.OFF, clock=lambda: 365 * DAY) as journal,
        ):
            counts.append(steps.of(lambda opened=journal: work(opened)))
    return counts


def test_pruning_grows_with_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(journal: Journal) -> None:
        assert len(prune(journal.parts, due_now(journal.parts)).runs) in (_FEW, _MANY)
        for table in ("runs", "events", "plans", "blobs"):
            assert journal.parts.reader.select(f"SELECT count(*) FROM {table}") == [(0,)], table

    few, many = _work(tmp_path, monkeypatch, work)
    assert 0 < many < _MOST * few


def test_deleting_a_run_does_not_grow_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do ten, after the first, which makes the indexes."""
    counts: list[int] = []
    for runs in (_FEW, _MANY):
        path = tmp_path / f"{runs}.db"
        _fill(path, runs, replanned=12)
        with _counting(monkeypatch) as steps, Journal.open(path, Durability.OFF) as journal:
            delete_run(journal, journal.find_run("run-00003"))
            infos = [journal.find_run(f"run-{number:05}") for number in range(10, 20)]
            counts.append(steps.of(lambda opened=journal, ten=infos: [delete_run(opened, i) for i in ten]))
            assert len(journal.runs()) == runs - 11
            assert journal.parts.reader.select("SELECT count(*) FROM plans") == [(runs - 2,)]
            assert journal.parts.reader.select("SELECT count(*) FROM blobs") == [(runs - 11,)]
    few, many = counts
    assert 0 < many < 1.5 * few


def test_going_through_the_list_page_by_page_grows_with_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(journal: Journal) -> None:
        seen: list[str] = []
        while page := list(islice(journal.runs_older(seen[-1] if seen else None), 10)):
            seen += [info.run_id for info in page]
        assert seen == [info.run_id for info in journal.runs()]

    few, many = _work(tmp_path, monkeypatch, work)
    assert 0 < many < _MOST * few


def test_runs_of_the_same_moment_are_all_on_some_page(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "journal.db", Durability.OFF) as journal:
        for number in range(250):
            with journal.create_run(f"run-{number}", _plan(0), "", {}, at=5.0) as writer:
                writer.commit()
        assert [i.run_id for i in journal.runs_older()] == [f"run-{n}" for n in reversed(range(250))]
        assert [i.run_id for i in journal.runs_older("run-3")] == ["run-2", "run-1", "run-0"]


def test_forgetting_labels_grows_with_the_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    for runs in (_FEW, _MANY):
        with _counting(monkeypatch) as steps, LabelStore.beside(tmp_path / f"{runs}.db") as store:
            for number in range(runs):
                store.add(notes_of(f"run-{number}"), ("note",), LITERAL, run=f"run-{number}")
            counts.append(
                steps.of(lambda kept=store, n=runs: [kept.forget_notes(f"run-{i}") for i in range(n)])
            )
            assert not store.entries()
    few, many = counts
    assert 0 < many < _MOST * few
