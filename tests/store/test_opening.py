"""Creating and opening journals: formats, owners, and files that are no journal."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from callsheet.ir import Plan
from callsheet.store import Durability, Journal, JournalError
from callsheet.store.journal_paths import place_of
from callsheet.store.schema import APPLICATION_ID, SCHEMA_VERSION, connect_writing


def test_new_journal_names_its_format(journal: Journal) -> None:
    connection = sqlite3.connect(journal.path)
    try:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    finally:
        connection.close()


def test_journal_is_readable_by_owner_only(journal: Journal) -> None:
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(journal.path.parent.stat().st_mode) == 0o700


def test_empty_file_becomes_journal_and_a_link_to_it_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real.db").touch()
    (tmp_path / "j.db").symlink_to("real.db")
    with Journal.open(tmp_path / "j.db") as journal:
        assert journal.runs() == []
    assert (tmp_path / "j.db").is_symlink()


def test_leftovers_of_crashed_creation_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "j.db.new").write_bytes(b"half a journal")
    with Journal.open(tmp_path / "j.db") as journal:
        assert journal.runs() == []


@pytest.mark.parametrize(("durability", "level"), [("FULL", 2), ("NORMAL", 1), ("OFF", 0)])
def test_durability_sets_sqlite_synchronous(journal: Journal, durability: str, level: int) -> None:
    connection = connect_writing(journal.path, Durability[durability])
    try:
        assert connection.execute("PRAGMA synchronous").fetchone() == (level,)
        assert connection.execute("PRAGMA foreign_keys").fetchone() == (1,)
    finally:
        connection.close()


@pytest.mark.parametrize(("difference", "way"), [(1, "or a newer one"), (-1, "name another file")])
def test_other_format_is_refused_with_a_way_that_fits(path: Path, difference: int, way: str) -> None:
    Journal.open(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + difference}")
    connection.close()
    with pytest.raises(JournalError, match=r"JRN009.*format 2") as refused:
        Journal.open(path)
    (diagnostic,) = refused.value.diagnostics
    assert diagnostic.help is not None
    assert way in diagnostic.help


def test_database_of_other_program_is_refused_and_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "theirs.db"
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE t (x)")
    connection.commit()
    connection.close()
    before = file.read_bytes()
    with pytest.raises(JournalError, match="JRN008"):
        Journal.open(file)
    assert file.read_bytes() == before
    assert os.listdir(tmp_path) == ["theirs.db"]


def test_non_database_file_is_refused_and_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "photo.jpg"
    file.write_bytes(b"\xff\xd8 a picture" * 100)
    with pytest.raises(JournalError, match="JRN008"):
        Journal.open(file)
    assert file.read_bytes() == b"\xff\xd8 a picture" * 100


@pytest.mark.parametrize("opened", [Journal.open, Journal.open_to_read], ids=["to write", "to read"])
def test_truncated_journal_is_damaged_and_unchanged(
    journal: Journal, opened: Callable[[Path], Journal]
) -> None:
    path = journal.path
    journal.close()
    half = path.read_bytes()[:2048]
    path.write_bytes(half)
    with pytest.raises(JournalError, match="JRN012") as raised:
        opened(path)
    assert "for another journal: --journal" in (raised.value.diagnostics[0].help or "")
    assert path.read_bytes() == half


def test_full_disk_is_named_at_creation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", no_room)
    with pytest.raises(JournalError, match="no space is left on its disk") as raised:
        Journal.open(tmp_path / "j.db")
    assert (raised.value.diagnostics[0].help or "").startswith("free space")


def test_folder_at_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="JRN010"):
        Journal.open(tmp_path)


def test_file_in_place_of_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(JournalError, match="JRN010"):
        Journal.open(tmp_path / "data" / "journal.db")


def test_unwritable_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    if os.access(folder, os.W_OK):  # permissions do not bind root, but the kernel's own folders do
        folder = Path("/proc/self")
    with pytest.raises(JournalError, match="JRN010"):
        Journal.open(folder / "journal.db")


def test_reading_opens_no_writing_connection(journal: Journal) -> None:
    assert journal.runs() == []
    assert not place_of(journal.path).run_locks.exists()
    assert not journal.path.with_name("journal.db-wal").exists() or (
        journal.path.with_name("journal.db-wal").stat().st_size == 0
    )


def test_reader_never_checkpoints(path: Path, plan: Plan) -> None:
    with Journal.open(path, Durability.NORMAL) as writing:
        with writing.create_run("r", plan, "", {}) as writer:
            writer.commit()
        wal = path.with_name("journal.db-wal")
        size = wal.stat().st_size
        reader = Journal.open(path)
        assert len(reader.runs()) == 1
        reader.close()
        assert wal.stat().st_size == size > 0


def test_closed_journal_is_one_file(path: Path, plan: Plan) -> None:
    with Journal.open(path, Durability.NORMAL) as journal, journal.create_run("r", plan, "", {}) as writer:
        writer.commit()
        assert path.with_name("journal.db-wal").exists()
    assert sorted(os.listdir(path.parent)) == ["journal.db", "journal.db.runs", "journal.db.write-lock"]
    assert os.listdir(path.with_name("journal.db.runs")) == []


_ALTERED = [
    "CREATE TRIGGER gone BEFORE INSERT ON events BEGIN SELECT RAISE(IGNORE); END",
    "CREATE TRIGGER gone AFTER INSERT ON events BEGIN DELETE FROM events WHERE id = new.id; END",
    "CREATE UNIQUE INDEX gone ON inbox (topic)",
    "ALTER TABLE runs ADD COLUMN more TEXT",
    "ALTER TABLE events RENAME TO other; CREATE VIEW events AS SELECT * FROM other",
    "DROP TABLE inbox",
]


@pytest.mark.parametrize("change", _ALTERED)
def test_journal_in_which_events_could_vanish_is_not_written(path: Path, plan: Plan, change: str) -> None:
    with Journal.open(path) as journal, journal.create_run("r", plan, "", {}) as writer:
        writer.commit()
    with closing(sqlite3.connect(path)) as foreign:
        foreign.executescript(change)
    with pytest.raises(JournalError, match=r"JRN025.* altered by another program: it"):
        Journal.open(path)
    with Journal.open_to_read(path) as journal:
        assert [event.seq for event in journal.events("r")] == [1]


def test_tables_views_and_plain_indexes_of_others_do_no_harm(path: Path, plan: Plan) -> None:
    Journal.open(path).close()
    with closing(sqlite3.connect(path)) as foreign:
        foreign.executescript(
            "CREATE TABLE mine (a); CREATE VIEW seen AS SELECT * FROM events;"
            " CREATE INDEX by_time ON events (ts); ANALYZE; VACUUM;"
            " CREATE TRIGGER own AFTER INSERT ON mine BEGIN SELECT 1; END"
        )
    with Journal.open(path) as journal, journal.create_run("r", plan, "", {}) as writer:
        writer.commit()
        assert journal.verify("r") is None
        assert journal.runs()[0].events == 1
