"""Stores the labels of what runs leave behind: files of a workspace, facts in memory, notes of runs.

They are stored beside the journal, or in a database that machines share. The label of a write, joined with
the old label of its place, is recorded before the write is issued, so that no crash leaves a file with
too low a label. The old label is removed only by a write that overlapped no other and is known to have
replaced the content; and not if the place has been written under another spelling, which may be another file
on this system (`Notes.md`, `notes.md`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from callsheet.ir.labels import LITERAL, Label, join, read_label
from callsheet.policy.paths import file_key, with_folders
from callsheet.store.database import Database, SqliteDatabase
from callsheet.store.journal_paths import beside_journal


class Nesting(NamedTuple):
    """Another workspace: it contains this one at the path `above`, or is inside this one at the path `below`.

    The other path is empty.
    """

    root: str
    above: str = ""
    below: str = ""

    def there(self, names: Iterable[str]) -> list[str]:
        """The names in the other workspace of those places of this one that are in it.

        >>> Nesting("/w", above="docs").there(["a.md"]), Nesting("/w/x", below="x").there(["x/a.md", "b.md"])
        (['docs/a.md'], ['a.md'])
        """
        if self.above:
            return [f"{self.above}/{name}" if name else self.above for name in names]
        return [name[len(self.below) + 1 :] for name in names if name.startswith(f"{self.below}/")]

    def folder(self, name: str) -> str | None:
        """What a folder of this workspace has of the other one: a folder, "" for all, None for nothing."""
        if self.above:
            return f"{self.above}/{name}" if name else self.above
        if not name or self.below == name or self.below.startswith(f"{name}/"):
            return ""
        return name[len(self.below) + 1 :] if name.startswith(f"{self.below}/") else None

    def here(self, name: str) -> str | None:
        """The name in this workspace of a place of the other one; "" if it contains all of this one.

        >>> Nesting("/w", above="docs").here("docs/a.md"), Nesting("/w", above="docs").here("docs")
        ('a.md', '')
        >>> Nesting("/w/x", below="x").here("a.md"), Nesting("/w/x", below="x").here("")
        ('x/a.md', 'x')
        """
        if self.below:
            return f"{self.below}/{name}" if name else self.below
        if not name or self.above == name or self.above.startswith(f"{name}/"):
            return ""
        return name[len(self.above) + 1 :] if name.startswith(f"{self.above}/") else None


def near(root: str, roots: Iterable[str]) -> Iterator[Nesting]:
    """The folders that contain `root` or are inside it.

    >>> list(near("/w/x", ["/w", "/w/x", "/w/x/y/z", "/w/xy"]))
    [Nesting(root='/w', above='x', below=''), Nesting(root='/w/x/y/z', above='', below='y/z')]
    """
    own = _parts(root)
    for other in roots:
        parts = _parts(other)
        if len(parts) < len(own) and own[: len(parts)] == parts:
            yield Nesting(other, above="/".join(own[len(parts) :]))
        elif len(parts) > len(own) and parts[: len(own)] == own:
            yield Nesting(other, below="/".join(parts[len(own) :]))


def _parts(root: str) -> list[str]:
    return [part for part in file_key(root).split("/") if part]


EVERYWHERE = ""
"""The name of a whole workspace, for writes that may have gone anywhere in it."""
NOTES = "run "
"""The prefix of the roots of notes."""
_TABLE = """
CREATE TABLE IF NOT EXISTS label (
    root TEXT NOT NULL, name TEXT NOT NULL, label TEXT NOT NULL,
    open INTEGER NOT NULL DEFAULT 0, writes INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (root, name)
)
"""
_LEFT = """
CREATE TABLE IF NOT EXISTS left_by (
    run TEXT NOT NULL, root TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (run, root, name)
)
"""
LEFT_AT = "CREATE INDEX IF NOT EXISTS left_at ON left_by (root, name)"
"""Without it, forgetting a place reads what all runs have left."""
_SPELLED = """
CREATE TABLE IF NOT EXISTS spelled (
    root TEXT NOT NULL, name TEXT NOT NULL, spelling TEXT NOT NULL, PRIMARY KEY (root, name, spelling)
)
"""
_FOLDER = "CREATE TABLE IF NOT EXISTS folder (root TEXT NOT NULL PRIMARY KEY)"
"""The roots that are folders: workspaces, of which there are few."""
_FOLDERS_BEFORE = """
INSERT INTO folder SELECT DISTINCT root FROM label WHERE substr(root, 1, 1) = '/'
ON CONFLICT DO NOTHING
"""
_LIMITED = """
CREATE TABLE IF NOT EXISTS limited (
    name TEXT NOT NULL, made DOUBLE PRECISION NOT NULL, amount DOUBLE PRECISION NOT NULL
)
"""
"""The calls that a policy counts across runs, as long as it looks back on them."""
TABLES = (_TABLE, _LEFT, _SPELLED, _FOLDER, _LIMITED)
_PATIENCE = 10.0
"""Seconds to wait for the write of another process."""
_AT_ONCE = 500


class Noted(NamedTuple):
    """The label of a place. `root` is a folder for files, empty for facts, `run ID` for the notes of a run.

    `name` is the normalised path of a file, empty for the whole folder, the digest of a fact, or the key of a
    note.
    """

    root: str
    name: str
    label: Label


class Writing(NamedTuple):
    """A write in progress: its place, its label, and its number among the writes to the place.

    `was_alone` is whether no other write to the place was in progress when it began, `spelling` the path as
    it was written.
    """

    root: str
    name: str
    label: Label
    number: int
    was_alone: bool
    spelling: str = ""


class LabelStore:
    """The labels in one database, for use by one thread; several processes may have it open.

    Every method raises one of `UNAVAILABLE` if the database cannot be used.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._near: dict[str, tuple[int, list[Nesting]]] = {}
        """The enclosing and nested workspaces of a workspace, with the number of folders at that time."""
        for table in TABLES:
            database.execute(table)
        if database.execute("SELECT 1 FROM folder LIMIT 1").fetchone() is None:
            database.execute(_FOLDERS_BEFORE)

    @staticmethod
    def path_beside(journal: Path) -> Path:
        """The file of the store that belongs to a journal."""
        return beside_journal(journal, "labels")

    @classmethod
    def beside(cls, journal: Path) -> Self:
        """The store that belongs to the journal in this file; created if it does not exist."""
        path = cls.path_beside(journal)
        connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            connection.execute("PRAGMA synchronous = FULL")
            store = cls(SqliteDatabase(connection))
            connection.execute(LEFT_AT)  # not in every store: PostgreSQL would wait here for all who write
            return store
        except BaseException:
            connection.close()
            raise

    @classmethod
    def in_memory(cls) -> Self:
        """A store in memory."""
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        return cls(SqliteDatabase(connection))

    def begin(self, root: str, name: str, label: Label, run: str = "", spelling: str = "") -> Writing:
        """Record that a run is about to write data with this label to a place; durable when this returns."""
        with self._changing(root, name):
            self._found(root)
            if spelling:
                self._database.execute(
                    "INSERT INTO spelled VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (root, name, spelling)
                )
            if run:
                self._database.execute(
                    "INSERT INTO left_by VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (run, root, name)
                )
            row = self._database.execute(
                "SELECT label, open, writes FROM label WHERE root = ? AND name = ?", (root, name)
            ).fetchone()
            before, under_way, writes = (
                (LITERAL, 0, 0) if row is None else (read_label(row[0]), row[1], row[2])
            )
            self._database.execute(
                "INSERT INTO label VALUES (?, ?, ?, 1, 1) ON CONFLICT (root, name) DO UPDATE"
                " SET label = excluded.label, open = label.open + 1, writes = label.writes + 1",
                (root, name, str(before.join(label))),
            )
        return Writing(root, name, label, writes + 1, under_way == 0, spelling)

    def end(self, writing: Writing, *, replaced: bool) -> None:
        """Record that a write has ended; `replaced` says that nothing of the former content is left."""
        place = writing.root, writing.name
        with self._changing(*place):
            if replaced and writing.was_alone:
                self._database.execute(
                    "UPDATE label SET label = ? WHERE root = ? AND name = ? AND open = 1 AND writes = ?"
                    " AND NOT EXISTS"
                    " (SELECT 1 FROM spelled WHERE root = ? AND name = ? AND spelling <> ?)",
                    (str(writing.label), *place, writing.number, *place, writing.spelling),
                )
            self._database.execute("UPDATE label SET open = open - 1 WHERE root = ? AND name = ?", place)

    def add(self, root: str, names: Iterable[str], label: Label, run: str = "") -> None:
        """Record that data with this label may be at these places; durable when this returns."""
        for name in names:
            known = self.of(root, (name,))
            if known is None or not label.flows_to(known):
                self.end(self.begin(root, name, label, run), replaced=False)

    def admit_within(
        self,
        name: str,
        now: float,
        seconds: float,
        amount: float,
        objection: Callable[[int, float], str | None],
    ) -> str | None:
        """Count a call under a name, unless there is an objection to it, which is returned.

        `objection` is given how many calls of the last `seconds` there are, and what their amounts come to.
        A call that another process has counted a moment later is among them.
        """
        with self._changing("limited", name):
            self._database.execute(
                "DELETE FROM limited WHERE name = ? AND (made <= ? OR made > ?)",
                (name, now - seconds, now + seconds),
            )
            row = self._database.execute(
                "SELECT COUNT(*), COALESCE(SUM(amount), 0) FROM limited WHERE name = ?", (name,)
            ).fetchone()
            count, total = row or (0, 0.0)
            why = objection(int(count), float(total))
            if why is None:
                self._database.execute("INSERT INTO limited VALUES (?, ?, ?)", (name, now, amount))
        return why

    def entries(self, run: str = "") -> list[Noted]:
        """All labels, or those that a run left, ordered by place."""
        where, given = "", ()
        if run:
            where = " JOIN left_by USING (root, name) WHERE left_by.run = ?"
            given = (run,)
        rows = self._database.execute(
            f"SELECT root, name, label FROM label{where} ORDER BY root, name", given
        )
        return [Noted(root, name, read_label(label)) for root, name, label in rows]

    def forget_notes(self, run_id: str) -> None:
        """Delete the labels of the notes of a run."""
        root = notes_of(run_id)
        for (name,) in [*self._database.execute("SELECT name FROM label WHERE root = ?", (root,))]:
            self.forget(root, name)

    def put(self, root: str, name: str, label: Label) -> None:
        """Set the label of a place, as a person decided, whatever it was before."""
        with self._changing(root, name):
            self._found(root)
            self._database.execute(
                "INSERT INTO label (root, name, label) VALUES (?, ?, ?)"
                " ON CONFLICT (root, name) DO UPDATE SET label = excluded.label, writes = label.writes + 1",
                (root, name, str(label)),
            )

    def forget(self, root: str, name: str) -> bool:
        """Delete the label of a place unless it is being written; returns whether one was deleted."""
        with self._changing(root, name):
            cursor = self._database.execute(
                "DELETE FROM label WHERE root = ? AND name = ? AND open = 0", (root, name)
            )
            if cursor.rowcount:
                for table in ("left_by", "spelled"):
                    self._database.execute(f"DELETE FROM {table} WHERE root = ? AND name = ?", (root, name))
        return cursor.rowcount > 0

    def of(self, root: str, names: Iterable[str]) -> Label | None:
        """The join of the labels of these places; None if none has a label."""
        wanted_names = list(dict.fromkeys(names))
        labels: list[Label] = []
        for start in range(0, len(wanted_names), _AT_ONCE):
            portion = wanted_names[start : start + _AT_ONCE]
            marks = ", ".join("?" * len(portion))
            rows = self._database.execute(
                f"SELECT label FROM label WHERE root = ? AND name IN ({marks})",
                (root, *portion),
            )
            labels += [read_label(label) for (label,) in rows]
        return join(labels) if labels else None

    def of_files(self, root: str, paths: Iterable[str]) -> Label | None:
        """The join of the labels of files, of their folders and of the whole workspace, also as
        recorded in enclosing and nested workspaces; None if there are none.
        """
        wanted = [*paths]
        labels = [self.of(root, [*_with_folders(wanted), EVERYWHERE])]
        for other in self.near(root):
            there = other.there(wanted)
            if there or other.above:
                labels.append(self.of(other.root, [*_with_folders(there or [other.above]), EVERYWHERE]))
        return _joined(labels)

    def below(self, root: str, folder: str) -> Label | None:
        """The join of the labels of the files below a folder, also as recorded in enclosing and nested
        workspaces; None if there are none.
        """
        labels = [self._below(root, folder)]
        for other in self.near(root):
            there = other.folder(folder)
            if there is not None:
                labels.append(self._below(other.root, there))
        return _joined(labels)

    def near(self, root: str) -> list[Nesting]:
        """The enclosing and nested workspaces of this one that have labels."""
        if not root.startswith("/"):
            return []
        (count,) = self._database.execute("SELECT count(*) FROM folder").fetchone() or (0,)
        cached = self._near.get(root)
        if (
            cached is None or cached[0] != count
        ):  # folders are only added, so an equal count means an equal list
            roots = [str(other) for (other,) in self._database.execute("SELECT root FROM folder")]
            cached = self._near[root] = len(roots), [*near(root, roots)]
        return cached[1]

    def _found(self, root: str) -> None:
        if root.startswith("/"):
            self._database.execute("INSERT INTO folder VALUES (?) ON CONFLICT DO NOTHING", (root,))

    def _below(self, root: str, folder: str) -> Label | None:
        prefix = f"{folder}/" if folder else ""
        rows = self._database.execute(
            "SELECT DISTINCT label FROM label WHERE root = ? AND substr(name, 1, ?) = ?",
            (root, len(prefix), prefix),
        )
        return _joined(read_label(label) for (label,) in rows)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def _changing(self, root: str, name: str) -> AbstractContextManager[object]:
        return self._database.changing(f"label {root} {name}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _with_folders(paths: Iterable[str]) -> Iterator[str]:
    return (name for path in paths for name in with_folders(path))


def _joined(labels: Iterable[Label | None]) -> Label | None:
    known = [label for label in labels if label is not None]
    return join(known) if known else None


def notes_of(run_id: str) -> str:
    """The root under which the notes of a run are kept."""
    return f"{NOTES}{run_id}"


def fact_name(text: str) -> str:
    """The name under which the label of a line of a fact is stored: a digest, so its text is not copied."""
    return sha256(text.strip().encode(errors="replace")).hexdigest()
