"""Tails: unsynced commits are buffered; none is lost or seen twice."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callsheet.ir import Plan
from callsheet.store import Durability, EventType, Journal, JournalError, RunStatus
from callsheet.store.journal_paths import place_of
from callsheet.store.lock import let_go_in_child
from callsheet.store.tail import TAIL_BYTES, left_tails

Spawn = Callable[[str], "subprocess.Popen[str]"]


def _rows(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT count(*) FROM events").fetchone()[0]


def _tails(path: Path) -> list[Path]:
    return sorted(place_of(path).run_locks.glob("*.tail"))


def _killed(path: Path, spawn: Spawn, events: int) -> None:
    """Leave a run whose writer was killed after this many commits."""
    child = spawn(f"""
journal = Journal.open(PATH, Durability.NORMAL)
writer = journal.create_run("r", PLAN, "", {{}})
writer.commit()
for n in range({events}):
    writer.append(EventType.OK, key=f"S1.{{n}}.1", body={{"value": n}})
    writer.intend(f"S2.{{n}}.1", "DO")
    writer.commit()
os.kill(os.getpid(), signal.SIGKILL)
""")
    assert child.wait(timeout=60) == -9


def test_small_commit_waits_in_tail_until_read(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {}) as writer:
        writer.commit()
        for n in range(20):
            writer.append(EventType.OK, key=f"S1.{n}.1", body={"value": n})
            writer.commit()
        assert writer.has_tail
        assert (writer.durable_seq, _rows(journal.path)) == (21, 1)
        assert [event.key for event in journal.events("r")] == [None, *(f"S1.{n}.1" for n in range(20))]
        assert not writer.has_tail
        assert _rows(journal.path) == 21
    assert journal.verify("r") is None


def test_large_body_is_written_once(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {}) as writer:
        writer.commit()
        writer.append(EventType.OK, key="S1.0.1", body={"value": 1})
        writer.commit()
        writer.append(EventType.OK, key="S2.0.1", body={"value": "x" * 5_000})
        writer.commit()
        assert not writer.has_tail
        assert _rows(journal.path) == 3


def test_tail_length_is_bounded(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {}) as writer:
        writer.commit()
        for n in range(1_000):
            writer.append(EventType.OK, key=f"S1.{n}.1", body={"value": n})
            writer.commit()
            assert writer.last_seq - _rows(journal.path) < 256


def test_nothing_is_pending_after_end_or_close(journal: Journal, plan: Plan) -> None:
    for name, status in (("ended", RunStatus.DONE), ("closed", None)):
        with journal.create_run(name, plan, "", {}) as writer:
            writer.commit()
            writer.append(EventType.OK, key="S1.0.1", body={"value": 1})
            writer.commit()
            if status is not None:
                writer.append(EventType.END)
                writer.set_status(status)
                writer.commit()
    assert _rows(journal.path) == 5
    journal.close()
    assert _tails(journal.path) == []


@pytest.mark.crash
def test_tail_of_killed_process_is_imported_by_any_reader(path: Path, spawn: Spawn) -> None:
    _killed(path, spawn, 30)
    assert _rows(path) == 1
    with Journal.open_to_read(path) as journal:
        assert journal.find_run("r").events == 61
        assert journal.verify("r") is None
        (*_, last) = journal.events("r")
        assert (last.type, last.key, last.body) == (EventType.INTENT, "S2.29.1", {"tool": "DO"})
    assert _tails(path) == []
    assert _rows(path) == 31


@pytest.mark.crash
def test_tail_may_repeat_events_of_database(path: Path, spawn: Spawn) -> None:
    _killed(path, spawn, 200)
    assert 1 < _rows(path) < 201
    with Journal.open_to_read(path) as journal:
        assert journal.find_run("r").events == 401
        assert journal.verify("r") is None


def test_tail_may_name_deleted_run_with_reused_number(journal: Journal, plan: Plan) -> None:
    copied = journal.path.with_name("copied")
    copied.mkdir()
    for name in ("gone", "new"):
        with journal.create_run(name, plan, "", {}) as writer:
            writer.commit()
            for n in range(3):
                writer.append(EventType.OK, key="S1.0.1", body={"value": n})
                writer.commit()
            if name == "new":
                for file in journal.path.parent.glob("journal.db*"):
                    (shutil.copytree if file.is_dir() else shutil.copy)(file, copied / file.name)
        if name == "gone":
            journal.parts.ledger.maintain(lambda cursor: cursor.execute("DELETE FROM events"))
            journal.parts.ledger.maintain(lambda cursor: cursor.execute("DELETE FROM runs"))
    with Journal.open(copied / "journal.db") as left_behind:
        assert left_behind.find_run("new").events == 4
        assert left_behind.verify("new") is None


def test_tail_keeps_its_size_and_overflow_goes_into_database(journal: Journal, plan: Plan) -> None:
    with ExitStack() as opened:
        writers = [opened.enter_context(journal.create_run(f"r{run}", plan, "", {})) for run in range(8)]
        for writer in writers:
            writer.commit()
        for n in range(40):
            for writer in writers:
                writer.append(EventType.OK, key=f"S1.{n}.1", body={"value": "x" * 900})
                writer.commit()
        assert 8 < _rows(journal.path) < 8 * 41
        assert [tail.stat().st_size for tail in _tails(journal.path)] == [TAIL_BYTES]
    for run in range(8):
        assert len(list(journal.events(f"r{run}"))) == 41
        assert journal.verify(f"r{run}") is None


@pytest.mark.crash
def test_resuming_killed_run_continues_after_tail(path: Path, spawn: Spawn) -> None:
    _killed(path, spawn, 10)
    with Journal.open(path, Durability.NORMAL) as journal:
        with journal.claim("r") as writer:
            assert writer.last_seq == 21
            writer.append(EventType.OK, key="S2.0.1", body={"value": 1})
            writer.commit()
        assert [event.key for event in journal.events("r", 21)] == ["S2.0.1"]
        assert journal.verify("r") is None


@pytest.mark.crash
def test_already_imported_tail_changes_nothing(path: Path, spawn: Spawn) -> None:
    _killed(path, spawn, 5)
    (tail,) = _tails(path)
    copy = tail.with_name("copy")
    shutil.copy(tail, copy)
    with Journal.open_to_read(path) as journal:
        before = [event.hash for event in journal.events("r")]
    copy.rename(tail)
    with Journal.open(path) as journal:
        assert [event.hash for event in journal.events("r")] == before
        assert journal.verify("r") is None
    assert _tails(path) == []


@pytest.mark.crash
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_torn_or_flipped_tail_yields_events_before_damage(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("torn")
    path = folder / "journal.db"
    whole = _left_behind(path)
    (tail,) = _tails(path)
    content = tail.read_bytes()
    part = data.draw(st.integers(0, 10_000))  # times are in it, so its length is not always the same
    at = len(content.rstrip(b"\0")) * part // 10_000
    if data.draw(st.booleans()):
        tail.write_bytes(content[:at])
    else:
        bit = 1 << data.draw(st.integers(0, 7))
        tail.write_bytes(content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :])
    with Journal.open(path, Durability.NORMAL) as journal:
        assert journal.verify("r") is None
        found = [event.hash for event in journal.events("r")]
        assert found == whole[: len(found)]
        with journal.claim("r") as writer:
            writer.append(EventType.END)
            writer.commit()
        assert journal.verify("r") is None


def _left_behind(path: Path) -> list[bytes]:
    """A journal whose process died with eight events in its tail; returns their hashes."""
    copied = path.with_name("source") / "journal.db"
    with (
        Journal.open(copied, Durability.NORMAL) as journal,
        journal.create_run("r", Plan(()), "", {}) as writer,
    ):
        writer.commit()
        for n in range(8):
            writer.append(EventType.OK, key=f"S1.{n}.1", body={"value": "é" * n})
            writer.commit()
        path.parent.mkdir(exist_ok=True)
        for file in copied.parent.glob("journal.db*"):
            (shutil.copytree if file.is_dir() else shutil.copy)(file, path.parent / file.name)
        return [event.hash for event in journal.events("r")]


@pytest.mark.crash
def test_events_not_following_database_are_dropped(path: Path, spawn: Spawn) -> None:
    """Like a power loss that truncated the database and kept the tail."""
    _killed(path, spawn, 10)
    (tail,) = _tails(path)
    content = tail.read_bytes()
    first = int.from_bytes(content[:4], "big") + 4
    tail.write_bytes(content[first:])
    with Journal.open(path) as journal:
        assert journal.find_run("r").events == 1
        assert journal.verify("r") is None


def test_tail_of_live_process_is_unchanged(path: Path, plan: Plan, spawn: Spawn) -> None:
    child = spawn("""
journal = Journal.open(PATH, Durability.NORMAL)
writer = journal.create_run("r", PLAN, "", {})
writer.commit()
writer.append(EventType.OK, key="S1.0.1", body={"value": 1})
writer.commit()
print("ready")
sys.stdin.readline()
writer.append(EventType.OK, key="S2.0.1", body={"value": 2})
writer.commit()
writer.close()
journal.close()
""")
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    with Journal.open_to_read(path) as journal:
        assert journal.find_run("r").events == 1
        assert left_tails(place_of(path).run_locks) == []
        child.communicate("\n", timeout=60)
        assert [event.key for event in journal.events("r")] == [None, "S1.0.1", "S2.0.1"]
        assert journal.verify("r") is None


@pytest.mark.crash
def test_tail_is_readable_without_write_permission(
    path: Path, spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    _killed(path, spawn, 10)
    path.chmod(0o400)
    monkeypatch.setattr("os.access", lambda *_: False)  # who runs the tests may be the superuser
    with Journal.open_to_read(path) as journal:
        assert journal.find_run("r").events == 21
        assert journal.verify("r") is None
    assert len(_tails(path)) == 1


@pytest.mark.parametrize("then", ["writer closed again", "run taken over", "journal closed"])
def test_run_with_unimportable_tail_stays_owned(journal: Journal, path: Path, plan: Plan, then: str) -> None:
    writer = journal.create_run("r", plan, "", {})
    writer.commit()
    for n in range(20):
        writer.append(EventType.OK, key=f"S1.{n}.1", body={"value": "x" * 900})
        writer.commit()
    cursor = writer._ledger._connection.cursor  # pyright: ignore[reportPrivateUsage]
    assert cursor is not None
    (pages,) = cursor.execute("PRAGMA page_count").fetchone()
    cursor.execute(f"PRAGMA max_page_count = {pages}").fetchone()
    writer.close()
    assert writer.has_tail
    with pytest.raises(JournalError, match="JRN004"):
        journal.claim("r")
    if then == "journal closed":
        journal.close()
        with Journal.open(path) as other, other.claim("r") as again:
            assert again.last_seq == 21
        assert not list(place_of(path).run_locks.iterdir())
        return
    cursor.execute("PRAGMA max_page_count = 100000").fetchone()
    if then == "writer closed again":
        writer.close()
        assert not writer.has_tail
    with journal.claim("r") as again:
        assert again.last_seq == 21


@pytest.mark.crash
def test_unimportable_tail_blocks_no_other(path: Path, spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    _killed(path, spawn, 5)
    with Journal.open(path, Durability.NORMAL) as journal:
        with monkeypatch.context() as patched:
            patched.setattr("callsheet.store.ledger.insert_left", _full)
            assert journal.find_run("r").events == 1
        (left,) = left_tails(place_of(path).run_locks)
        left.close(is_done=False)
        assert journal.find_run("r").events == 11


def _full(*_: object) -> None:
    raise sqlite3.OperationalError("database or disk is full")


def test_nothing_is_buffered_without_space_for_tail(
    journal: Journal, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with journal.create_run("r", plan, "", {}) as writer:
        writer.commit()
        with monkeypatch.context() as patched:
            patched.setattr("callsheet.store.tail.os.posix_fallocate", full)
            writer.append(EventType.OK, key="S1.0.1", body={"value": 1})
            writer.commit()
            assert not writer.has_tail
            assert _tails(journal.path) == []
            assert _rows(journal.path) == 2
        writer.append(EventType.OK, key="S2.0.1", body={"value": 2})
        writer.commit()
        assert writer.has_tail
    assert [event.key for event in journal.events("r")] == [None, "S1.0.1", "S2.0.1"]


@pytest.mark.crash
@pytest.mark.parametrize("pages", [0, 1, 6])
def test_disk_failure_under_tail_loses_no_committed_event(path: Path, spawn: Spawn, pages: int) -> None:
    """The kernel kills a process that writes to a mapping whose disk fails, within an entry."""
    child = spawn(f"""
import mmap, resource
from callsheet.store import tail
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
mapped = tail._mapped
def failing(fd):
    memory = mapped(fd)
    os.ftruncate(fd, {pages} * mmap.PAGESIZE)
    return memory
tail._mapped = failing
journal = Journal.open(PATH, Durability.NORMAL)
writer = journal.create_run("r", PLAN, "", {{}})
writer.commit()
for n in range(60):
    writer.append(EventType.OK, key=f"S1.{{n}}.1", body={{"value": "x" * 700}})
    writer.commit()
    print(writer.durable_seq, flush=True)
""")
    out, _ = child.communicate(timeout=60)
    assert child.returncode == -signal.SIGBUS
    committed = int(out.split()[-1]) if out else 1
    assert bool(pages) == (committed > 1)
    with Journal.open(path, Durability.NORMAL) as journal:
        assert journal.verify("r") is None
        assert journal.find_run("r").events == committed
        with journal.claim("r") as writer:
            writer.append(EventType.END)
            writer.commit()
        assert journal.verify("r") is None


@pytest.mark.crash
def test_old_entries_after_last_one_are_ignored(path: Path, spawn: Spawn) -> None:
    child = spawn("""
journal = Journal.open(PATH, Durability.NORMAL)
writer = journal.create_run("r", PLAN, "", {})
writer.commit()
for n in range(20):
    writer.append(EventType.OK, key=f"S1.{n}.1", body={"value": "x" * n})
    writer.commit()
writer.settle()
writer.append(EventType.OK, key="S2.0.1", body={"value": 1})
writer.commit()
os.kill(os.getpid(), signal.SIGKILL)
""")
    assert child.wait(timeout=60) == -9
    (tail,) = _tails(path)
    assert len(tail.read_bytes().rstrip(b"\0")) > 1_000
    (left,) = left_tails(tail.parent)
    assert [kept.row[3] for kept in left.entries()] == ["S2.0.1"]
    left.close(is_done=False)
    with Journal.open_to_read(path) as journal:
        assert journal.find_run("r").events == 22
        assert journal.verify("r") is None


def test_forked_process_keeps_no_tail(journal: Journal, plan: Plan) -> None:
    class Lost:
        def close_copy(self) -> None:
            raise OSError(errno.EBADF, "Bad file descriptor")

    lost = [Lost() for _ in range(50)]  # whatever the order of closing, some come before the tail
    for each in lost:
        let_go_in_child(each)
    with journal.create_run("r", plan, "", {}) as writer:
        writer.commit()
        writer.append(EventType.OK, key="S1.0.1", body={"value": 1})
        writer.commit()
        (tail,) = _tails(journal.path)
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                held = [fd for fd in os.listdir("/proc/self/fd") if _names(fd, tail)]
                os.write(write, str(len(held)).encode())
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        assert os.read(read, 10) == b"0"
        for end in (read, write):
            os.close(end)


def _names(fd: str, path: Path) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{fd}") == str(path)
    except OSError:
        return False
