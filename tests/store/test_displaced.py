"""A journal whose file is removed, renamed or replaced while a run writes it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import forked
from tests.machine.driving import plan_of

from callsheet.store import Durability, EventType, Journal, RunStatus, RunWriter
from callsheet.store.connections import WriteConnection
from callsheet.store.errors import JournalDisplaced
from callsheet.store.journal_paths import place_of
from callsheet.store.schema import set_aside_foreign_log

PLAN = plan_of("S1: @A ()")
LARGE = "x" * 300_000


def started(journal: Journal, run_id: str = "r") -> RunWriter:
    start: dict[str, dict[str, object]] = {"inputs": {}, "facts": {}, "limits": {}, "pins": {}, "launch": {}}
    writer = journal.create_run(run_id, PLAN, "S1: @A ()", start)
    writer.commit()
    return writer


def note(writer: RunWriter, value: object) -> None:
    writer.append(EventType.OK, key="S1.0.1", body={"value": value})
    time.sleep(0.002)  # the place is looked at once in a millisecond
    writer.commit()


def values(path: Path, run_id: str = "r") -> list[object]:
    with Journal.open(path) as journal:
        assert journal.verify(run_id) is None
        return [
            event.body["value"]
            for event in journal.events(run_id)
            if event.type is EventType.OK and event.body
        ]


def remove(path: Path) -> None:
    path.unlink()


def rename(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def replace(path: Path) -> None:
    with Journal.open(path.with_name("other.db")) as other:
        started(other, "another").close()
    path.with_name("other.db").replace(path)


@pytest.mark.parametrize("durability", [Durability.FULL, Durability.OFF])
@pytest.mark.parametrize("displace", [remove, rename, replace])
def test_run_ends_with_error_and_events_are_saved(
    tmp_path: Path, displace: Callable[[Path], None], durability: Durability
) -> None:
    path = tmp_path / "journal.db"
    journal = Journal.open(path, durability)
    writer = started(journal)
    for n in range(200):
        writer.append(EventType.OK, key="S1.0.1", body={"value": n})
        writer.commit()
    note(writer, LARGE)
    displace(path)
    with pytest.raises(JournalDisplaced) as refused:
        note(writer, "last")
    (found,) = refused.value.diagnostics
    assert found.code == "JRN019"
    what = "was replaced by another file" if displace is replace else "was removed or renamed"
    assert what in found.message
    writer.close()
    journal.close()
    (saved,) = tmp_path.glob("journal.db.saved-*[0-9]")
    assert str(saved) in found.message
    assert saved.stat().st_mode & 0o777 == 0o600
    assert values(saved) == [*range(200), LARGE, "last"]
    if displace is replace:
        assert values(path, "another") == []
    else:
        assert found.help is not None
        assert f"mv {saved} {path}" in found.help
        saved.rename(path)
        assert values(path) == [*range(200), LARGE, "last"]


def test_each_run_of_the_process_is_told_and_saved(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with Journal.open(path) as journal, started(journal, "a") as a, started(journal, "b") as b:
        path.unlink()
        for writer in (a, b):
            with pytest.raises(JournalDisplaced):
                note(writer, writer.run_id)
    (saved,) = tmp_path.glob("journal.db.saved-*[0-9]")
    assert (values(saved, "a"), values(saved, "b")) == (["a"], ["b"])


def test_flush_reports_displaced_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with Journal.open(path) as journal, started(journal) as writer:
        path.unlink()
        time.sleep(0.002)
        writer.append(EventType.OK, key="S1.0.1", body={"value": 1})
        with pytest.raises(JournalDisplaced):
            asyncio.run(writer.flush())
    (saved,) = tmp_path.glob("journal.db.saved-*[0-9]")
    assert values(saved) == [1]


def flush(writer: RunWriter) -> None:
    asyncio.run(writer.flush())


@pytest.mark.parametrize("commit", [RunWriter.commit, flush])
def test_last_commit_of_a_run_looks_however_soon_it_comes(
    tmp_path: Path, commit: Callable[[RunWriter], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callsheet.store.connections._BETWEEN_LOOKS", 60.0)
    path = tmp_path / "journal.db"
    with Journal.open(path) as journal, started(journal) as writer:
        note(writer, 1)
        path.unlink()
        writer.append(EventType.END, body={"outcome": "done"})
        writer.set_status(RunStatus.DONE)
        with pytest.raises(JournalDisplaced):
            commit(writer)
    (saved,) = tmp_path.glob("journal.db.saved-*[0-9]")
    with Journal.open(saved) as journal:
        assert journal.find_run("r").status is RunStatus.DONE


def test_removed_folder_is_created_again(tmp_path: Path) -> None:
    path = tmp_path / "data" / "journal.db"
    with Journal.open(path) as journal, started(journal) as writer:
        shutil.rmtree(path.parent)
        with pytest.raises(JournalDisplaced):
            note(writer, 1)
    (saved,) = path.parent.glob("journal.db.saved-*[0-9]")
    assert values(saved) == [1]


def test_log_of_replacing_journal_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = Journal.open(path)
    writer = started(journal)
    for file in tmp_path.glob("journal.db*"):
        if file.is_file():
            file.unlink()
    with Journal.open(path) as other, started(other, "another") as others:
        log = path.with_name("journal.db-wal")
        assert log.exists()
        with pytest.raises(JournalDisplaced):
            note(writer, 1)
        writer.close()
        journal.close()
        assert log.exists()
        note(others, 2)
    assert values(path, "another") == [2]


OTHER_PROCESS = """
import sys
from pathlib import Path
from tests.store.test_displaced import note, started
from callsheet.store import Journal
with Journal.open(Path(sys.argv[1])) as journal:
    print(*sorted(run.run_id for run in journal.runs()))
    with started(journal, "other") as writer:
        note(writer, "theirs")
"""


@pytest.mark.parametrize("displace", [remove, rename, replace])
def test_next_process_does_not_mix_journals(tmp_path: Path, displace: Callable[[Path], None]) -> None:
    path = tmp_path / "journal.db"
    with Journal.open(path) as journal, started(journal) as writer:
        for n in range(30):
            note(writer, n)
        displace(path)
        root = Path(__file__).parents[2]
        line = [sys.executable, "-c", OTHER_PROCESS, str(path)]
        other = forked.run(line, capture_output=True, text=True, cwd=root, check=True)
        assert other.stdout.split() == (["another"] if displace is replace else [])
        with pytest.raises(JournalDisplaced):
            note(writer, "last")
    (saved,) = tmp_path.glob("journal.db.saved-*[0-9]")
    assert values(saved) == [*range(30), "last"]
    assert values(path, "other") == ["theirs"]
    assert not [*tmp_path.glob("*displaced*")]


def test_log_of_killed_process_is_not_applied_to_other_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    killed = f"""
import os
from pathlib import Path
from tests.store.test_displaced import note, started
from callsheet.store import Journal
writer = started(Journal.open(Path({str(path)!r})))
note(writer, 1)
os._exit(9)
"""
    root = Path(__file__).parents[2]
    assert forked.run([sys.executable, "-c", killed], cwd=root, check=False).returncode == 9
    replace(path)
    with Journal.open_to_read(path) as journal:
        assert [run.run_id for run in journal.runs()] == ["another"]


def test_log_is_marked_once_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    Journal.open(path).close()
    place = place_of(path)
    connection = WriteConnection(place, Durability.NORMAL)
    connection.connected()
    assert len([*place.run_locks.glob("*.log-of")]) == 1
    connection.close()
    assert not [*place.run_locks.glob("*.log-of")]


def test_only_log_with_content_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    Journal.open(path).close()
    place, log = place_of(path), tmp_path / "journal.db-wal"
    log.touch()
    database, found = path.stat(), log.stat()
    place.run_locks.mkdir(exist_ok=True)
    mark = place.run_locks / "999999999-0.log-of"
    mark.write_text(f"{database.st_dev} {database.st_ino + 1} {found.st_dev} {found.st_ino}\n")
    set_aside_foreign_log(place)
    assert log.exists()
    log.write_bytes(b"frames")
    set_aside_foreign_log(place)
    assert not log.exists()


def test_copied_journal_keeps_its_log(tmp_path: Path) -> None:
    path = tmp_path / "there" / "journal.db"
    with Journal.open(path) as journal, started(journal) as writer:
        note(writer, 1)
        shutil.copytree(path.parent, tmp_path / "copy")
    assert values(tmp_path / "copy" / "journal.db") == [1]


def test_failed_copy_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.db"
    with Journal.open(path) as journal, started(journal) as writer:
        path.unlink()
        full = OSError(28, os.strerror(28))

        def refuse(*_: object) -> None:
            raise full

        monkeypatch.setattr("callsheet.store.connections.WriteConnection.move_to", refuse)
        with pytest.raises(JournalDisplaced, match="could not be saved: No space left on device"):
            note(writer, 1)
