"""Backs a journal up into one file, and salvages the intact parts of a damaged one.

A backup is a tar file whose last member has the digests of the others. The database is copied in one piece,
as it was at one moment; large values are copied after it, so that all that it names are there. Salvaging
keeps of each run the entries from its start up to the first that is missing, changed or unreadable; a run
that loses its end in this way is unfinished again.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
import tarfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from gzip import BadGzipFile
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

from callsheet.diagnostics import CallsheetError
from callsheet.sealing.keys import read_key
from callsheet.store.archive import Row, Source, entries_of, lines_of, run_row
from callsheet.store.blobs import DROPPED, blob_path
from callsheet.store.chain import check, verify
from callsheet.store.errors import JournalError
from callsheet.store.events import GENESIS, EventType
from callsheet.store.inserts import insert_left
from callsheet.store.journal import Journal, Parts
from callsheet.store.journal_paths import JournalPaths, is_absent, place_of
from callsheet.store.labels import LabelStore
from callsheet.store.reader import Reader
from callsheet.store.schema import APPLICATION_ID, SCHEMA_VERSION, other_format, unusable
from callsheet.store.seal_keys import KeyStore
from callsheet.store.tail import SUFFIX as TAIL_SUFFIX
from callsheet.store.tail import read_tails
from callsheet.store.writer import RunStatus

VERSION = 1
_DATABASE, _LABELS, _KEYS, _DIGESTS = "journal.db", "labels.db", "seal.key", "backup.json"
_VALUES = "values/"
_PRIVATE = 0o600


class BackedUp(NamedTuple):
    """What is in a backup."""

    runs: int
    values: int
    has_labels: bool
    has_keys: bool
    bytes: int


def back_up(journal: Path, file: Path, keys: KeyStore | None = None, *, with_keys: bool = True) -> BackedUp:
    """Write a backup of the journal at a path; the file appears complete or not at all.

    `keys` are those of the user by default. Raises JournalError: JRN010 if there is no journal, JRN012 if it
    is damaged, JRN017 if the file cannot be written, or is one that is backed up.
    """
    ring = (keys or KeyStore()).path
    for own in (place_of(journal).database, LabelStore.path_beside(journal), ring):
        with suppress(OSError):
            if file.samefile(own):
                raise JournalError("JRN017", f"{file} is what is backed up, not written", "name another file")
    unfinished = Path(f"{file}.{os.getpid()}.new")
    try:
        with TemporaryDirectory(dir=file.absolute().parent, prefix=".backup-") as scratch:
            copy = Path(scratch) / _DATABASE
            _copy_database(journal, copy)
            names, runs = _content(copy)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
            with os.fdopen(os.open(unfinished, flags, _PRIVATE), "wb") as raw:
                with tarfile.open(fileobj=raw, mode="w:gz", compresslevel=1) as tar:
                    digests = {_DATABASE: _add(tar, _DATABASE, copy)}
                    if not is_absent(labels := LabelStore.path_beside(journal)):
                        _copy_sqlite(labels, Path(scratch) / _LABELS)
                        digests[_LABELS] = _add(tar, _LABELS, Path(scratch) / _LABELS)
                    for name in names:
                        member = f"{_VALUES}{name}"
                        try:
                            digests[member] = _add(tar, member, blob_path(place_of(journal).blobs, name))
                        except FileNotFoundError as error:
                            raise _missing(name) from error
                    if with_keys and ring.is_file():
                        digests[_KEYS] = _add(tar, _KEYS, ring)
                    told = json.dumps({"callsheet": "backup", "version": VERSION, "sha256": digests}).encode()
                    head = tarfile.TarInfo(_DIGESTS)
                    head.size, head.mode = len(told), _PRIVATE
                    tar.addfile(head, io.BytesIO(told))
                raw.flush()
                os.fsync(raw.fileno())
            unfinished.replace(file)
    except (OSError, sqlite3.DatabaseError) as error:
        raise JournalError(
            "JRN017", f"the backup {file} could not be written: {error}", "free space, or name another file"
        ) from error
    finally:
        with suppress(OSError):
            unfinished.unlink()
    return BackedUp(runs, len(names), _LABELS in digests, _KEYS in digests, file.stat().st_size)


def _missing(name: str) -> JournalError:
    return JournalError(
        "JRN017",
        f"the file of the large value {name[:12]} is gone: its run was deleted meanwhile, or it is lost",
        "repeat the backup; `callsheet runs verify` names runs that lack a value",
    )


def _copy_database(journal: Path, copy: Path) -> None:
    """Copy the database as it is at one moment, with the entries that are still in tails of processes."""
    waiting = list(read_tails(place_of(journal).run_locks))  # first: they may move while the rest is copied
    with Journal.open_to_read(journal) as opened, opened.parts.reader.reading() as connection:
        os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE))
        with closing(sqlite3.connect(copy)) as target:
            connection.backup(target)
            insert_left(target.cursor(), waiting)
            target.commit()


def _copy_sqlite(source: Path, copy: Path) -> None:
    os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE))
    address = f"{source.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as connection, closing(sqlite3.connect(copy)) as target:
        connection.backup(target)


def _content(copy: Path) -> tuple[list[str], int]:
    """The large values that have files, and the number of runs."""
    with closing(sqlite3.connect(copy)) as connection:
        names = connection.execute(
            "SELECT hash FROM blobs WHERE data IS NULL AND codec != ? ORDER BY hash", (DROPPED,)
        ).fetchall()
        ((runs,),) = connection.execute("SELECT count(*) FROM runs")
    return [name for (name,) in names], runs


def _add(tar: tarfile.TarFile, name: str, path: Path) -> str:
    """Add a file; returns its SHA-256."""
    member = tarfile.TarInfo(name)
    member.mode = _PRIVATE
    with path.open("rb") as file:
        member.size = os.fstat(file.fileno()).st_size
        reading = _Digesting(file.read, member.size)
        tar.addfile(member, cast("Any", reading))
    return reading.digest.hexdigest()


class _Digesting:
    """A file that is read to a size, with the digest of what was read."""

    def __init__(self, read: Any, size: int) -> None:
        self._read, self._left, self.digest = read, size, sha256()

    def read(self, most: int = -1) -> bytes:
        """The next bytes."""
        data: bytes = self._read(self._left if most < 0 else min(most, self._left))
        self._left -= len(data)
        self.digest.update(data)
        return data


class Restored(NamedTuple):
    """What was restored; `keys` is the number of keys that the user did not have."""

    runs: int
    values: int
    keys: int


def restore(file: Path, journal: Path, keys: KeyStore | None = None) -> Restored:
    """Make a journal from a backup, where there is none, and add the keys that the user lacks.

    Everything is checked before the journal appears. Raises JournalError: JRN016 for a file that is no backup
    or is damaged, JRN010 if there is a journal already or it cannot be written.
    """
    place = place_of(journal)
    labels, log = LabelStore.path_beside(journal), Path(f"{place.database}-wal")
    if not (is_absent(place.database) and is_absent(labels)) or (not is_absent(log) and log.stat().st_size):
        raise _occupied(place)
    place.database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with TemporaryDirectory(dir=place.database.parent, prefix=".restore-") as scratch:
        folder = Path(scratch)
        try:
            names = list(_unpacked(file, folder))
            runs = _checked_runs(file, folder / _DATABASE)
            added = _add_keys(folder / _KEYS, keys or KeyStore()) if _KEYS in names else 0
            _put_in_place(folder, place, labels, names)
        except FileExistsError as error:
            raise _occupied(place) from error
        except (*_DAMAGES, sqlite3.DatabaseError) as error:
            raise _no_backup(file, str(error)) from error
        except OSError as error:
            raise JournalError(
                "JRN010", f"{error.filename or file}: {error.strerror}", "name another"
            ) from error
    return Restored(runs, sum(name.startswith(_VALUES) for name in names), added)


_DAMAGES = (tarfile.TarError, EOFError, BadGzipFile, zlib.error, KeyError, ValueError, RecursionError)
"""What reading a damaged file raises."""


def _checked_runs(file: Path, database: Path) -> int:
    """The number of runs in the database, which is ready to be used then; raises JournalError (JRN009)."""
    with closing(sqlite3.connect(database)) as connection:
        ((application,),) = connection.execute("PRAGMA application_id")
        ((version,),) = connection.execute("PRAGMA user_version")
        if application != APPLICATION_ID:
            raise ValueError("its database is not that of a journal")
        if version != SCHEMA_VERSION:
            raise other_format(file, version)
        ((verdict,),) = connection.execute("PRAGMA quick_check(1)")
        if verdict != "ok":
            raise ValueError(f"its database is damaged: {verdict}")
        ((runs,),) = connection.execute("SELECT count(*) FROM runs")
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
    return runs


def _unpacked(file: Path, folder: Path) -> Iterator[str]:
    """Write the members into a folder, check their digests, and give their names."""
    found: dict[str, str] = {}
    wanted: dict[str, str] | None = None
    with tarfile.open(file, "r:gz") as tar:
        for member in tar:
            source = tar.extractfile(member) if member.isfile() else None
            if source is None or not _is_ours(member.name) or member.name in found:
                raise ValueError(f"it has {member.name[:60]!r}, and no backup has that twice or at all")
            if member.name == _DIGESTS:
                told = json.loads(source.read())
                if not isinstance(told, dict):
                    raise ValueError("it has no digests")
                head = cast("dict[str, Any]", told)
                if head.get("callsheet") != "backup" or head.get("version") != VERSION:
                    raise ValueError("another version of callsheet wrote it")
                wanted = head["sha256"]
                continue
            path, digest = folder / member.name, sha256()
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "wb") as target:
                while data := source.read(1 << 20):
                    digest.update(data)
                    target.write(data)
                target.flush()
                os.fsync(target.fileno())
            found[member.name] = digest.hexdigest()
    if wanted is None or wanted != found or _DATABASE not in found:
        raise ValueError("it is cut off or was changed")
    yield from found


def _is_ours(name: str) -> bool:
    value = name.removeprefix(_VALUES)
    is_value = name.startswith(_VALUES) and len(value) == 2 * sha256().digest_size and value.isalnum()
    return is_value or name in (_DATABASE, _LABELS, _KEYS, _DIGESTS)


def _put_in_place(folder: Path, place: JournalPaths, labels: Path, names: list[str]) -> None:
    """Move all into place, the database last: until then there is no journal.

    Raises FileExistsError if there is one by now.
    """
    for name in names:
        if name.startswith(_VALUES):
            target = blob_path(place.blobs, name.removeprefix(_VALUES))
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.move(folder / name, target)
    if _LABELS in names:
        os.link(folder / _LABELS, labels)  # unlike a move, it replaces nothing
    os.link(folder / _DATABASE, place.database)


def _add_keys(saved: Path, keys: KeyStore) -> int:
    """Append the keys that the user's file lacks; the first one, which seals, stays the first."""
    own = keys.path
    text = own.read_text("utf-8") if own.is_file() else ""
    known = {read_key(line).name for line in _lines_of_keys(text)}
    lacking = {read_key(line).name: line for line in _lines_of_keys(saved.read_text("utf-8"))}
    for name in known:
        lacking.pop(name, None)
    if lacking:
        own.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(own, flags, _PRIVATE), "w") as file:
            file.write("" if text.endswith("\n") or not text else "\n")
            file.write("".join(f"{line}\n" for line in lacking.values()))
            file.flush()
            os.fsync(file.fileno())
    return len(lacking)


def _lines_of_keys(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def _occupied(place: JournalPaths) -> JournalError:
    return JournalError(
        "JRN010",
        f"there is a journal at {place.database} already, or a part of one; nothing was restored",
        "name another place: --journal PATH, or move that one away, with the files beside it",
    )


def _no_backup(file: Path, why: str) -> JournalError:
    return JournalError(
        "JRN016", f"{file} cannot be restored: {why}", "name a file of `callsheet runs backup`"
    )


_HEADER = 100
_ENDS = "the file is damaged, or ends there"


class Salvaged(NamedTuple):
    """The intact part of a run; `lost` says why it ends there, None if the whole run is intact."""

    run_id: str
    events: int
    lost: str | None
    lines: tuple[bytes, ...]
    """Its export; empty if nothing can be saved."""


def run_ids(reader: Reader) -> list[str]:
    """The ids of runs that can be found, oldest first; raises JournalError if not even the first can be."""
    ids: list[str] = []
    number = 0
    while True:
        try:
            rows = reader.select(
                "SELECT number, run_id FROM runs NOT INDEXED WHERE number > ? ORDER BY number LIMIT 1",
                (number,),
            )
        except JournalError:
            try:
                rows = reader.select(
                    "SELECT number, run_id FROM runs NOT INDEXED WHERE number = ?", (number + 1,)
                )
            except JournalError:
                if not ids:
                    raise
                return ids
        if not rows or rows[0][0] <= number:  # a page of zeros gives rows without a number
            return ids
        number = rows[0][0]
        ids.append(str(rows[0][1]))


def lists_all(reader: Reader) -> bool:
    """Whether the complete list of runs can be read, so that `run_ids` misses none."""
    try:
        rows = reader.select("SELECT number, length(run_id) FROM runs NOT INDEXED")
    except JournalError:
        return False
    return all(number > 0 for number, _ in rows)


def salvage(parts: Parts, run_id: str) -> Salvaged:
    """The intact part of a run; raises JournalError (JRN002) for an unknown one."""
    number, run = run_row(parts.reader, run_id)
    intact, lost = _intact_entries(parts.reader, run_id, number)
    events = intact[-1][0] + intact[-1][1][10] - 1 if intact else 0
    if lost is None:
        lost = _lost_beyond(parts.reader, run_id, events)
    if not intact:
        return Salvaged(run_id, 0, lost or "it has no events", ())
    try:
        lines = tuple(lines_of(parts, Source(_unfinished(run, intact), intact)))
    except CallsheetError as error:
        return Salvaged(run_id, 0, error.diagnostics[0].message, ())
    return Salvaged(run_id, events, lost, lines)


def _intact_entries(reader: Reader, run_id: str, number: int) -> tuple[list[tuple[int, Row]], str | None]:
    """The entries before the first bad one, and what is wrong with that; None if there is no bad one."""
    intact: list[tuple[int, Row]] = []
    expected, prev = 1, GENESIS
    try:
        for seq, row in _one_by_one(reader, number):
            if seq < 1:
                return intact, f"event {expected}: {_ENDS}"
            bad = check(reader, run_id, expected, prev, (seq, *row))
            if bad is not None:
                return intact, f"event {bad.seq}: {bad.why}"
            intact.append((seq, row))
            expected, prev = seq + row[10], row[-1]
    except JournalError as error:
        is_told_by_sqlite = isinstance(error.__cause__, sqlite3.DatabaseError)
        why = f"{_ENDS} ({error.__cause__})" if is_told_by_sqlite else error.diagnostics[0].message
        return intact, f"event {expected}: {why}"
    return intact, None


def _lost_beyond(reader: Reader, run_id: str, events: int) -> str | None:
    """What is wrong after the last intact event of a run; None if nothing is."""
    try:
        bad = verify(reader, run_id)
    except JournalError:
        return f"event {events + 1}: {_ENDS}"
    return None if bad is None else f"event {bad.seq}: {bad.why}"


def _one_by_one(reader: Reader, number: int) -> Iterator[tuple[int, Row]]:
    """The entries, read one at a time, so that a bad page loses no entry before it."""
    return entries_of(reader, number, page=1)


def _unfinished(run: dict[str, Any], intact: list[tuple[int, Row]]) -> dict[str, Any]:
    """The row of a run that has only these entries: as running if its end is lost, unless it is paused."""
    has_ended = any(row[1] == EventType.END for _, row in intact)
    status = run["status"] if run["status"] in {*RunStatus} else RunStatus.RUNNING
    if status == RunStatus.PAUSED or (RunStatus(status).is_final and has_ended):
        return run
    return run | {"status": str(RunStatus.RUNNING), "wake_at": None}


@contextmanager
def opened(path: Path) -> Generator[Journal]:
    """The journal at `path`, for salvaging; if the file was truncated, a temporary copy of it.

    SQLite reads no file that is shorter than its header says. The copy is filled up with zeros, which are not
    valid pages, so everything that can be read was written so. The original is not changed. Raises
    JournalError as `Journal.open_to_read` does.
    """
    try:
        journal = Journal.open_to_read(path)
    except JournalError as error:
        if error.diagnostics[0].code != "JRN012" or not _is_cut_off(path):
            raise
    else:
        with journal:
            yield journal
        return
    with TemporaryDirectory(prefix="callsheet-salvage-") as folder:
        try:
            copy = _filled_up(place_of(path), Path(folder) / path.name)
        except OSError as error:
            raise unusable(path, error) from error
        with _open_copy(copy, path) as journal:
            yield journal


def _open_copy(copy: Path, path: Path) -> Journal:
    journal = None
    try:
        journal = Journal.open_to_read(copy)
        run_ids(journal.parts.reader)
    except JournalError as error:
        if journal is not None:
            journal.close()
        size = path.stat().st_size
        raise JournalError(
            "JRN012",
            f"the journal {path} was cut off after {size} bytes, before its list of runs",
            "nothing can be salvaged: restore it from a copy or an export",
        ) from error
    return journal


def _filled_up(place: JournalPaths, copy: Path) -> Path:
    """A copy of a journal's files with zeros for what is missing at the end of its database."""
    shutil.copyfile(place.database, copy)
    with copy.open("r+b") as file:
        file.truncate(_length_in_header(file.read(_HEADER)))
    log = place.database.with_name(f"{place.database.name}-wal")
    if log.exists():
        shutil.copyfile(log, copy.with_name(f"{copy.name}-wal"))
    copy_place = place_of(copy)
    if place.blobs.is_dir():
        copy_place.blobs.symlink_to(place.blobs, target_is_directory=True)
    copy_place.run_locks.mkdir()
    for tail in place.run_locks.glob(f"*{TAIL_SUFFIX}"):
        shutil.copyfile(tail, copy_place.run_locks / tail.name)
    return copy


def _is_cut_off(path: Path) -> bool:
    """Whether a database is shorter than its header says."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER)
        return len(head) == _HEADER and path.stat().st_size < _length_in_header(head)
    except OSError:
        return False


def _length_in_header(head: bytes) -> int:
    """The size of a database in bytes by its header: page size times number of pages."""
    page = int.from_bytes(head[16:18], "big")
    return (65_536 if page == 1 else page) * int.from_bytes(head[28:32], "big")
