"""A full disk: the commit reports it, nothing is lost, and a later commit succeeds."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from callsheet.ir import Plan
from callsheet.store import Durability, EventType, Journal, JournalWriteFailed, RunStatus, RunWriter

Spawn = Callable[[str], "subprocess.Popen[str]"]


def _fill(writer: RunWriter) -> JournalWriteFailed:
    """Append and commit until the disk is full."""
    for _ in range(10_000):
        writer.append(EventType.OK, key=f"S1.{writer.last_seq + 1}.1", body={"v": "x" * 900})
        try:
            writer.commit()
        except JournalWriteFailed as failed:
            return failed
    raise AssertionError("the disk did not fill")


def _check_whole(journal: Journal, last_seq: int) -> None:
    assert [event.seq for event in journal.events("r")] == list(range(1, last_seq + 1))
    assert journal.verify("r") is None


@pytest.fixture
def small(journal: Journal, plan: Plan) -> Iterator[RunWriter]:
    """A writer whose database may not grow beyond 60 pages until `_enlarge`."""
    with journal.create_run("r", plan, "", {}) as writer:
        writer.commit()
        _limit(writer, 60)
        yield writer


def _limit(writer: RunWriter, pages: int) -> None:
    cursor = writer._ledger._connection.cursor  # pyright: ignore[reportPrivateUsage]
    assert cursor is not None
    cursor.execute(f"PRAGMA max_page_count = {pages}").fetchone()


def test_full_disk_loses_nothing(journal: Journal, small: RunWriter) -> None:
    failed = _fill(small)
    assert "full" in failed.reason
    assert small.blocked is failed
    assert small.durable_seq == small.last_seq - 1
    small.append(EventType.END)
    small.set_status(RunStatus.DONE)
    with pytest.raises(JournalWriteFailed, match="JRN006"):
        small.commit()
    assert journal.find_run("r").status is RunStatus.RUNNING
    _limit(small, 1000)
    small.commit()
    assert small.blocked is None
    assert journal.find_run("r").status is RunStatus.DONE
    _check_whole(journal, small.last_seq)


async def test_flush_to_full_disk_loses_nothing(journal: Journal, small: RunWriter) -> None:
    _fill(small)
    small.append(EventType.END, body={"v": "x" * 70_000})
    with pytest.raises(JournalWriteFailed, match="full"):
        await small.flush()
    assert small.blocked is not None
    _limit(small, 1000)
    await small.flush()
    assert small.blocked is None
    _check_whole(journal, small.last_seq)


def test_failed_first_commit_can_be_repeated(journal: Journal, plan: Plan, small: RunWriter) -> None:
    _fill(small)
    with journal.create_run("new", plan, "", {"v": "x" * 50_000}) as writer:
        with pytest.raises(JournalWriteFailed):
            writer.commit()
        assert [info.run_id for info in journal.runs()] == ["r"]
        _limit(small, 1000)
        writer.commit()
    assert [info.run_id for info in journal.runs()] == ["new", "r"]
    assert journal.verify("new") is None


@pytest.mark.parametrize("durability", list(Durability))
def test_file_size_limit_loses_nothing(path: Path, plan: Plan, spawn: Spawn, durability: Durability) -> None:
    child = spawn(f"""
import resource
journal = Journal.open(PATH, Durability.{durability.name})
with journal.create_run("r", PLAN, "", {{}}) as writer:
    writer.commit()
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, resource.RLIM_INFINITY))
    failures = 0
    for n in range(400):
        writer.append(EventType.OK, key=f"S1.{{n}}.1", body={{"v": "x" * 900}})
        try:
            writer.commit()
        except JournalWriteFailed as failed:
            failures += 1
            reason = failed.reason
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    writer.commit()
    print(failures > 0, writer.durable_seq, reason)
journal.close()
""")
    out, _ = child.communicate(timeout=60)
    assert out.startswith("True 401 disk I/O error")
    with Journal.open(path) as journal:
        _check_whole(journal, 401)


@pytest.mark.crash
def test_kill_on_full_disk_keeps_committed_events(path: Path, spawn: Spawn) -> None:
    child = spawn("""
import resource
journal = Journal.open(PATH, Durability.NORMAL)
writer = journal.create_run("r", PLAN, "", {})
writer.commit()
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
while writer.blocked is None:
    writer.append(EventType.OK, key="S1.0.1", body={"v": "x" * 900})
    try:
        writer.commit()
    except JournalWriteFailed:
        print(writer.durable_seq)
        os.kill(os.getpid(), signal.SIGKILL)
""")
    out, _ = child.communicate(timeout=60)
    with Journal.open(path) as journal:
        _check_whole(journal, int(out))
        with journal.claim("r") as writer:
            writer.append(EventType.END)
            writer.commit()
        _check_whole(journal, int(out) + 1)
