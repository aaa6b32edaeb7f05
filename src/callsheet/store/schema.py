"""The tables of a journal file, and how such a file is created, recognised and connected to.

In: a path. Out: SQLite connections, one kind that writes and one that can only read, or a JournalError that
says why this version cannot use the file as a journal.

The primary key of an event is one integer: the run's number in the high bits, its sequence number in the low
ones. So the rows of a run are adjacent and inserts append to a table B-tree, at half the cost of a WITHOUT
ROWID table with the key (run_id, seq). A row is an entry: an event, and as `intents` the calls that follow
from it, which have the sequence numbers after the event's; `covers` is the number of events in all. The view
`log` shows the rows with run ids.

Lists of runs are searched and sorted by the last columns of `runs` (`LISTED`); `store.run_index` says what
they hold. Journals may lack them: the first connection that writes adds them. `indexed` is the number of the
last event that they tell of. Where it is not `head_seq`, a row was written without them, and they are made
from the events before the next list; the partial index `runs_unlisted` finds such rows.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from callsheet.store.errors import JournalError, damaged
from callsheet.store.journal_paths import JournalPaths, place_of, refuse_network_file_system, refuse_special
from callsheet.store.lock import WriteLock, is_alive, is_removed

FileId = tuple[int, int]
"""Device and inode."""
_MARK = ".log-of"
_ASIDE = ".displaced-"


class _Mark(NamedTuple):
    path: Path
    process: int
    database: FileId
    log: FileId


class LogMark:
    """The mark of one writing connection; `write` it under the write lock, `remove` it when it is closed."""

    def __init__(self, place: JournalPaths) -> None:
        self._place = place
        self._path = place.run_locks / f"{os.getpid()}-{os.urandom(4).hex()}{_MARK}"
        self._is_written = False

    def write(self, database: FileId, log: FileId) -> None:
        """Note the pair, and remove the marks of dead processes; if that fails, the log is not recognised."""
        for mark in _marks(self._place):
            if not is_alive(mark.process):
                is_removed(mark.path)
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = os.open(self._path, flags, 0o600)
            try:
                os.write(fd, f"{database[0]} {database[1]} {log[0]} {log[1]}\n".encode())
            finally:
                os.close(fd)
            self._is_written = True

    def remove(self) -> None:
        """Remove it."""
        if self._is_written:
            is_removed(self._path)
            self._is_written = False


def file_at(path: Path) -> FileId | None:
    """The identity of the file at a path; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def log_path(place: JournalPaths) -> Path:
    """Where SQLite has the log of the journal."""
    return place.database.with_name(f"{place.database.name}-wal")


def set_aside_foreign_log(place: JournalPaths) -> None:
    """Rename a log, with its index, if a mark says that it belongs to another database than the present one.

    A process that still writes it has it open, and saves its events when it notices that its journal is gone.
    Raises OSError, or TimeoutError if the write lock cannot be had.
    """
    if not _is_foreign(place):
        return
    lock = WriteLock(place.write_lock)
    try:
        with lock:
            if _is_foreign(place):
                suffix = f"{_ASIDE}{os.urandom(4).hex()}"
                for file in (log_path(place), _index_path(place)):
                    if file.exists():
                        file.rename(file.with_name(file.name + suffix))
    finally:
        lock.close()


def remove_log(place: JournalPaths, log: FileId) -> None:
    """Remove a log and its index, wherever they are, after all that they have was saved."""
    current = log_path(place)
    if file_at(current) == log:
        current.unlink(missing_ok=True)
    for aside in place.database.parent.glob(f"{glob.escape(current.name)}{_ASIDE}*"):
        if file_at(aside) == log:
            aside.unlink(missing_ok=True)
            suffix = aside.name.removeprefix(current.name)
            aside.with_name(_index_path(place).name + suffix).unlink(missing_ok=True)


def _index_path(place: JournalPaths) -> Path:
    return place.database.with_name(f"{place.database.name}-shm")


def _is_foreign(place: JournalPaths) -> bool:
    """Whether the log is marked as that of another database.

    An empty one, as a reader leaves it, holds nothing; its inode may be that of a log that is gone.
    """
    try:
        found = log_path(place).stat()
    except OSError:
        return False
    if not found.st_size:
        return False
    log = found.st_dev, found.st_ino
    database = file_at(place.database)
    owners = {mark.database for mark in _marks(place) if mark.log == log}
    return bool(owners) and database not in owners


def _marks(place: JournalPaths) -> Iterator[_Mark]:
    try:
        names = [name for name in os.listdir(place.run_locks) if name.endswith(_MARK)]
    except OSError:
        return
    for name in names:
        path = place.run_locks / name
        with suppress(OSError, ValueError):
            device, inode, log_device, log_inode = map(int, path.read_text(encoding="ascii").split())
            process = int(name.partition("-")[0])
            yield _Mark(path, process, (device, inode), (log_device, log_inode))


APPLICATION_ID = 0x43414C53
SCHEMA_VERSION = 2
SEQ_BITS = 32
"""An event's id is `run number << SEQ_BITS | seq`."""
PART = "has_part"
"""The name of the SQL function that tells whether a text contains another one, in lower case."""
LISTED = {
    "name": "TEXT",
    "goal": "TEXT",
    "ended": "REAL",
    "failed_step": "TEXT",
    "waits_for": "TEXT",
    "cost": "REAL",
    "tokens": "INTEGER",
    "tags": "TEXT",
    "search": "TEXT",
    "indexed": "INTEGER",
}
"""The columns of a run that lists are searched and sorted by, and their types."""

_BUSY_SECONDS = 10.0
_CHECKPOINT_PAGES = 16_000
_PAGE_BYTES = 1024
"""Small, since a commit writes whole pages and most rows are small."""

_LEAST_BYTES = 64 * 1024
"""The disk space that a new journal needs: its tables, and the index of its log."""

_INDEXES = (
    # has all that lists filter and sort by, so that they need not look at the far longer rows
    "CREATE INDEX IF NOT EXISTS runs_listed"
    " ON runs (created, status, search, failed_step, waits_for, cost, tokens, ended)",
    "CREATE INDEX IF NOT EXISTS runs_by_status ON runs (status)",
    "CREATE INDEX IF NOT EXISTS runs_by_plan ON runs (plan_hash)",
    "CREATE INDEX IF NOT EXISTS runs_unlisted ON runs (number) WHERE indexed IS NOT head_seq",
)
_SCHEMA = f"""
CREATE TABLE plans (
    plan_hash TEXT PRIMARY KEY,
    ir_version INTEGER NOT NULL,
    id TEXT,
    title TEXT,
    body BLOB NOT NULL,
    source BLOB NOT NULL,
    created REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    parent_run TEXT,
    forked_at INTEGER,
    plan_hash TEXT NOT NULL REFERENCES plans,
    core_version TEXT NOT NULL,
    status TEXT NOT NULL,
    owner TEXT,
    epoch INTEGER NOT NULL DEFAULT 0,
    head_seq INTEGER NOT NULL DEFAULT 0,
    head_hash BLOB,
    wake_at REAL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    {", ".join(f"{name} {kind}" for name, kind in LISTED.items())}
);
{";".join(_INDEXES)};
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL,
    type TEXT NOT NULL,
    key TEXT,
    step TEXT,
    idx INTEGER,
    attempt INTEGER,
    ts REAL NOT NULL,
    mono REAL NOT NULL,
    body BLOB,
    blob TEXT,
    covers INTEGER NOT NULL,
    intents BLOB,
    hash BLOB NOT NULL
);
CREATE TABLE blobs (
    hash TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    codec TEXT NOT NULL,
    data BLOB,
    created REAL NOT NULL
);
CREATE TABLE inbox (
    run_id TEXT NOT NULL,
    topic TEXT NOT NULL,
    msg_id TEXT NOT NULL,
    payload BLOB,
    ts REAL NOT NULL,
    PRIMARY KEY (run_id, msg_id)
) WITHOUT ROWID;
CREATE VIEW log AS
    SELECT run_id, events.id - (number << {SEQ_BITS}) AS seq, events.epoch, type, key, step, idx, attempt,
           datetime(ts, 'unixepoch') AS time, CAST(body AS TEXT) AS body, blob,
           CAST(intents AS TEXT) AS intents, lower(hex(hash)) AS hash
    FROM runs JOIN events ON events.id > number << {SEQ_BITS} AND events.id < (number + 1) << {SEQ_BITS};
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""


class Durability(StrEnum):
    """What a committed event survives: SQLite's `synchronous`."""

    FULL = "full"
    """A crash of the system, such as a power failure."""
    NORMAL = "normal"
    """A crash of the process; one of the system may lose the last events, but none before them."""
    OFF = "off"
    """A crash of the process; one of the system may damage the journal."""


def prepare(place: JournalPaths) -> sqlite3.Connection:
    """Create the journal file if there is none, and check that this version can use it; give a reader of it.

    Raises JournalError: JRN008 for another program's file, JRN009 for a newer journal, JRN010 for a path that
    cannot be used, JRN011 for a network file system, JRN012 for a damaged journal, JRN025 for an altered one.
    """
    path = place.database
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_network_file_system(path)
        refuse_special(path)
        set_aside_foreign_log(place)
        if not path.exists() or path.stat().st_size == 0:
            _create(place)
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CLOEXEC)):
            pass
    except (OSError, sqlite3.OperationalError) as error:
        raise unusable(path, error) from error
    connection = connect_reading(path)
    try:
        _check(path, connection)
    except BaseException:
        connection.close()
        raise
    return connection


_OF_THE_DISK = frozenset(
    {
        *(sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN),
        *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_NOLFS),
    }
)
_CUT_OFF = sqlite3.SQLITE_IOERR_SHORT_READ


def is_of_the_disk(error: Exception) -> bool:
    """Whether an SQLite error is about the disk or the location of a file, not about its content."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in _OF_THE_DISK and code != _CUT_OFF


def unusable(path: Path, error: Exception) -> JournalError:
    """The error for a journal that cannot be used because of its disk or its permissions."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if _is_full(path.parent, error):  # SQLite reports an I/O error if it cannot map its index
        return JournalError(
            "JRN010",
            f"the journal {path} cannot be used: no space is left on its disk ({reason})",
            hint="free space, or name a file on another disk: set CALLSHEET_JOURNAL or --journal",
        )
    if _is_broken(error):
        return JournalError(
            "JRN010",
            f"the journal {path} cannot be used, because its disk does not work: {reason}",
            hint="repair the disk, or make it writable again; what was written to the journal is kept",
        )
    return JournalError(
        "JRN010",
        f"the journal {path} cannot be used: {reason}",
        hint="name a file in a folder that you can write: set CALLSHEET_JOURNAL or --journal",
    )


def _is_broken(error: Exception) -> bool:
    """Whether an error is that of a failing or read-only disk."""
    if isinstance(error, OSError):
        return error.errno in (errno.EIO, errno.EROFS)
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF == sqlite3.SQLITE_IOERR and code != _CUT_OFF


def _is_full(folder: Path, error: Exception) -> bool:
    """Whether an error is due to a file system without space for a new journal."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOSPC
    try:
        return shutil.disk_usage(folder).free < _LEAST_BYTES
    except OSError:
        return False


def _create(place: JournalPaths) -> None:
    """Create the file with another name and rename it, so that a crash leaves no incomplete journal."""
    place = place_of(Path(os.path.realpath(place.database)))  # a link stays one
    lock = WriteLock(place.write_lock)
    unfinished = place.database.with_name(f"{place.database.name}.new")
    try:
        with lock:
            if place.database.exists() and place.database.stat().st_size > 0:
                return
            unfinished.unlink(missing_ok=True)
            # Readable by its owner alone; SQLite gives the files beside it the same mode.
            os.close(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            _create_tables(unfinished)
            with unfinished.open("rb") as file:
                os.fsync(file)  # once: only a whole file gets the journal's name
            unfinished.replace(place.database)
    finally:
        lock.close()


def _create_tables(path: Path) -> None:
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA journal_mode = MEMORY").fetchone()
        connection.executescript(f"BEGIN EXCLUSIVE; {_SCHEMA} COMMIT;")
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
    finally:
        connection.close()


def _check(path: Path, connection: sqlite3.Connection) -> None:
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        altered = _altered(connection) if (application, version) == (APPLICATION_ID, SCHEMA_VERSION) else ""
    except sqlite3.OperationalError as error:
        raise unusable(path, error) from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise (damaged(f"{path} cannot be read: {error}") if is_marked(path) else _foreign(path)) from error
    if application != APPLICATION_ID:
        raise _foreign(path)
    if version != SCHEMA_VERSION:
        raise other_format(path, version)
    if altered:
        raise JournalError(
            "JRN025",
            f"the journal {path} was altered by another program: {altered}; events could vanish in it",
            hint="undo that with sqlite3, or name another file; `callsheet runs export` still reads this one",
        )


@lru_cache(maxsize=64)
def _form(definition: str) -> str:
    """A definition without what differs between journals of this format: white space, the added columns."""
    text = re.sub(r"\s*([(),])\s*", r"\1", " ".join(definition.split()))
    for name, kind in reversed(LISTED.items()):
        text = text.removesuffix(f",{name} {kind})") + ")" if text.endswith(f",{name} {kind})") else text
    return text


_TABLES = {
    statement.split()[2]: _form(statement)
    for statement in _SCHEMA.split(";\n")
    if statement.startswith("CREATE TABLE")
}
"""The forms of the definitions of the tables, by name."""


def _altered(connection: sqlite3.Connection) -> str:
    """What another program has changed so that rows that are written may not be there afterwards, or "".

    Tables, views and indexes of other programs change nothing, except an index that refuses rows.
    """
    found: dict[str, str] = {}
    for kind, name, table, text in connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"):
        if kind == "trigger" and table in _TABLES:
            return f"it has a trigger {name} on {table}"
        if kind == "index" and table in _TABLES and (text or "").upper().startswith("CREATE UNIQUE"):
            return f"it has a unique index {name} on {table}"
        if kind in ("table", "view"):
            found[name] = f"{'' if kind == 'table' else 'view '}{_form(text or '')}"
    changed = (name for name, text in _TABLES.items() if found.get(name) != text)
    return next((f"its table {name} is not as it was made" for name in changed), "")


def other_format(path: Path, version: int) -> JournalError:
    """The error for a journal of another format."""
    newer = ", or a newer one" if version > SCHEMA_VERSION else "; for new runs, name another file"
    return JournalError(
        "JRN009",
        f"the journal {path} has format {version}; this version reads format {SCHEMA_VERSION}",
        hint=f"use the version of callsheet that wrote it{newer}",
    )


def _foreign(path: Path) -> JournalError:
    return JournalError(
        "JRN008",
        f"{path} is not a journal of callsheet",
        hint="name another file; callsheet creates a journal if the file does not exist",
    )


def is_marked(path: Path) -> bool:
    """Whether a file that SQLite cannot read begins like a journal."""
    with path.open("rb") as file:
        head = file.read(72)
    return head.startswith(b"SQLite format 3\0") and head[68:] == APPLICATION_ID.to_bytes(4, "big")


def connect_reading(path: Path) -> sqlite3.Connection:
    """A connection that cannot write; any thread may use it, one at a time.

    Damaged text is decoded with surrogates, not an error, so that messages can show it.
    """
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=ro",
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    return connection


def connect_writing(path: Path, durability: Durability) -> sqlite3.Connection:
    """The connection that writes; any thread may use it, one at a time, under the write lock."""
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw",
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute(f"PRAGMA synchronous = {durability.name}")
        connection.execute("PRAGMA foreign_keys = ON")
        if sys.version_info >= (3, 12):  # also those that another program adds while the journal is open
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_TRIGGER, False)
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}").fetchone()
        _add_index(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def has_index(connection: sqlite3.Connection) -> bool:
    """Whether the rows of runs have the columns that lists are searched by."""
    found = {row[1] for row in connection.execute("PRAGMA table_info(runs)")}
    return not found or found.issuperset(LISTED)


def add_index(connection: sqlite3.Connection) -> None:
    """Add the columns and indexes of runs that older journals lack."""
    found = {row[1] for row in connection.execute("PRAGMA table_info(runs)")}
    for name, kind in LISTED.items():
        if name not in found:
            connection.execute(f"ALTER TABLE runs ADD COLUMN {name} {kind}")
    for index in _INDEXES:
        connection.execute(index)
    connection.execute("DROP INDEX IF EXISTS runs_by_time")  # `runs_listed` begins with the same column


def _add_index(connection: sqlite3.Connection) -> None:
    """As `add_index`, in a transaction, if anything is lacking; no other process writes meanwhile."""
    if not has_index(connection):
        connection.execute("BEGIN IMMEDIATE")
        add_index(connection)
        connection.execute("COMMIT")
