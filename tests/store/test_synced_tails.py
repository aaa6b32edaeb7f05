"""Synced tails: bursts of synced commits survive a power failure."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from callsheet.ir import Plan
from callsheet.store import Durability, EventType, Journal, RunWriter
from callsheet.store.journal_paths import place_of
from callsheet.store.ledger import ENOUGH, NEAR
from callsheet.store.tail import SYNCED_BYTES

Spawn = Callable[[str], "subprocess.Popen[str]"]


class Clock:
    """A clock that only advances when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def journal(path: Path, clock: Clock) -> Iterator[Journal]:
    with Journal.open(path, Durability.FULL, monotonic=clock) as journal:
        yield journal


@pytest.fixture
def writer(journal: Journal, plan: Plan) -> Iterator[RunWriter]:
    """The writer of a run in the journal."""
    with journal.create_run("r", plan, "", {}) as writer:
        writer.commit()
        yield writer


def _rows(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT count(*) FROM events").fetchone()[0]


def _tails(path: Path) -> list[Path]:
    return sorted(place_of(path).run_locks.glob("*.tail"))


def _commit(writer: RunWriter, value: object) -> None:
    writer.append(EventType.OK, key=f"S1.{writer.last_seq}.1", body={"value": value})
    writer.commit()


def _commit_many(writer: RunWriter, count: int) -> None:
    for n in range(count):
        _commit(writer, n)


def test_few_commits_go_into_database(writer: RunWriter, path: Path) -> None:
    _commit_many(writer, ENOUGH - 1)
    assert not writer.has_tail
    assert (_rows(path), _tails(path)) == (ENOUGH, [])


def test_many_quick_commits_wait_in_tail(writer: RunWriter, path: Path) -> None:
    _commit_many(writer, ENOUGH + 20)
    assert writer.has_tail
    assert (_rows(path), writer.durable_seq) == (ENOUGH, ENOUGH + 21)
    assert [tail.stat().st_size for tail in _tails(path)] == [SYNCED_BYTES]
    writer.settle()
    assert (_rows(path), writer.has_tail) == (ENOUGH + 21, False)


def test_distant_commits_are_written_at_once(writer: RunWriter, path: Path, clock: Clock) -> None:
    for n in range(2 * ENOUGH):
        clock.now += 2 * NEAR
        _commit(writer, n)
        assert _rows(path) == writer.durable_seq
    assert _tails(path) == []


def test_late_commit_flushes_tail(writer: RunWriter, path: Path, clock: Clock) -> None:
    _commit_many(writer, ENOUGH + 5)
    clock.now += 2 * NEAR
    _commit(writer, "late")
    assert not writer.has_tail
    assert _rows(path) == writer.durable_seq


def test_close_leaves_no_tail(writer: RunWriter, journal: Journal, path: Path) -> None:
    _commit_many(writer, ENOUGH + 5)
    writer.close()
    journal.close()
    assert (_rows(path), _tails(path)) == (ENOUGH + 6, [])


def test_power_loss_after_any_commit_loses_no_event(
    writer: RunWriter, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tail keeps the content of its last sync, the database everything: transactions are synced."""
    synced: dict[str, bytes] = {}
    fdatasync = os.fdatasync

    def sync(fd: int) -> None:
        fdatasync(fd)
        for tail in _tails(path):
            synced[tail.name] = tail.read_bytes()

    monkeypatch.setattr("os.fdatasync", sync)
    was_filled = waits = 0
    for n in range(160):
        waited = writer.has_tail
        _commit(writer, "x" * (n * 7 % 900))
        was_filled += waited and not writer.has_tail
        waits += writer.has_tail
        left = tmp_path / f"after-{n}" / "journal.db"
        left.parent.mkdir()
        for file in path.parent.glob("journal.db*"):
            if file.is_file():
                shutil.copy(file, left.parent)
        place_of(left).run_locks.mkdir()
        for name, content in synced.items():
            (place_of(left).run_locks / name).write_bytes(content)
        with Journal.open(left, Durability.FULL) as found:
            assert found.find_run("r").events == writer.durable_seq
            assert found.verify("r") is None
    assert was_filled, "entries that had no room went into the database with those that waited"
    assert waits > 100


def test_tail_and_its_name_are_on_disk_before_use(
    writer: RunWriter, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[Path, bytes]] = []
    fsync = os.fsync

    def sync(fd: int) -> None:
        fsync(fd)
        synced.append((Path(f"/proc/self/fd/{fd}").readlink(), b"".join(map(Path.read_bytes, _tails(path)))))

    _commit_many(writer, ENOUGH - 1)
    monkeypatch.setattr("os.fsync", sync)
    _commit(writer, 1)
    (tail,) = _tails(path)
    assert synced == [(place, bytes(SYNCED_BYTES)) for place in (tail, tail.parent, path.parent)]


@pytest.mark.crash
def test_tail_of_killed_process_is_imported_by_any_reader(path: Path, spawn: Spawn) -> None:
    child = spawn("""
journal = Journal.open(PATH, Durability.FULL, monotonic=lambda: 0.0)
writer = journal.create_run("r", PLAN, "", {})
writer.commit()
for n in range(60):
    writer.append(EventType.OK, key=f"S1.{n}.1", body={"value": n})
    writer.intend(f"S2.{n}.1", "DO")
    writer.commit()
os.kill(os.getpid(), signal.SIGKILL)
""")
    assert child.wait(timeout=60) == -signal.SIGKILL
    assert _rows(path) == ENOUGH
    with Journal.open_to_read(path) as journal:
        assert journal.find_run("r").events == 121
        assert journal.verify("r") is None
    assert _tails(path) == []


@pytest.mark.parametrize("durability", ["FULL", "NORMAL"])
def test_taking_over_run_after_its_lock_is_lost_keeps_all_commits(
    path: Path, spawn: Spawn, durability: str
) -> None:
    """Otherwise it would repeat calls of its owner; the owner is fenced."""
    child = spawn(f"""
journal = Journal.open(PATH, Durability.{durability}, monotonic=lambda: 0.0)
writer = journal.create_run("r", PLAN, "", {{}})
writer.commit()
for n in range(60):
    writer.append(EventType.OK, key=f"S1.{{n}}.1", body={{"value": n}})
    writer.intend(f"S2.{{n}}.1", "DO")
    writer.commit()
print(writer.has_tail, flush=True)
sys.stdin.readline()
writer.append(EventType.OK, key="S1.0.1", body={{"value": 1}})
try:
    writer.commit()
except Fenced:
    print("fenced", flush=True)
""")
    assert child.stdout is not None
    assert child.stdout.readline() == "True\n"
    assert _rows(path) < 61
    (place_of(path).run_locks / "r.lock").unlink()
    with Journal.open(path, Durability.FULL) as journal, journal.claim("r") as writer:
        assert writer.last_seq == 121
        out, _ = child.communicate("\n", timeout=60)
        assert out == "fenced\n"
        _commit(writer, "mine")
        assert [event.seq for event in journal.events("r")] == list(range(1, 123))
        assert journal.verify("r") is None


def test_lost_lock_after_tail_sync_writes_to_database(
    writer: RunWriter, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has taken over the run has read the tail before that."""
    _commit_many(writer, ENOUGH + 5)
    fdatasync = os.fdatasync

    def sync(fd: int) -> None:
        (place_of(path).run_locks / "r.lock").unlink()
        fdatasync(fd)

    monkeypatch.setattr("os.fdatasync", sync)
    _commit(writer, "seen by all")
    assert not writer.has_tail
    assert _rows(path) == writer.durable_seq == ENOUGH + 7


def _refused(*_: object) -> int:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize(
    ("call", "given"), [("fdatasync", _refused), ("pwrite", _refused), ("pwrite", lambda *_: 1)]
)
def test_commits_refused_by_disk_and_later_ones_go_into_database(
    writer: RunWriter,
    journal: Journal,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    given: Callable[..., int],
) -> None:
    _commit_many(writer, ENOUGH + 5)
    assert writer.has_tail
    with monkeypatch.context() as failing:
        failing.setattr(f"os.{call}", given)
        _commit(writer, "refused")
    assert (writer.has_tail, _rows(path)) == (False, ENOUGH + 7)
    _commit_many(writer, ENOUGH + 5)
    assert not writer.has_tail
    assert _rows(path) == writer.durable_seq == 2 * ENOUGH + 12
    assert journal.verify("r") is None


@pytest.mark.parametrize("call", ["pwrite", "fsync"])
def test_uncreatable_tail_leaves_no_file(
    writer: RunWriter, path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    _commit_many(writer, ENOUGH - 1)
    monkeypatch.setattr(f"os.{call}", _refused)
    _commit_many(writer, 5)
    assert (_rows(path), _tails(path)) == (ENOUGH + 5, [])
