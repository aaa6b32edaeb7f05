"""Stores named texts in the shared store, for plan libraries and policies."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from callsheet.store.shared.opening import shown

if TYPE_CHECKING:  # its driver is an extra, and whoever opens the database says that it is missing
    from callsheet.store.shared.postgres import PostgresDatabase


class SharedFiles:
    """The texts below one name of the store, such as `plans`; changes under the lock are one transaction."""

    def __init__(self, database: PostgresDatabase, below: str) -> None:
        self._database = database
        self._below = below

    @property
    def address(self) -> str:
        """The address of the store, without its password, and the name that the texts are below."""
        return f"{shown(self._database.address)}/{self._below}"

    def place(self, name: str) -> str:
        """The address of a text."""
        return f"{self.address}/{name}"

    def names(self, folder: str = "") -> list[str]:
        """The names of the texts of a folder, in order."""
        rows = self._database.execute("SELECT name FROM text WHERE folder = ?", (self._folder(folder),))
        return sorted(name for (name,) in rows)

    def read(self, name: str) -> bytes:
        """The bytes of a text; raises FileNotFoundError if there is none."""
        row = self._database.execute(
            "SELECT body FROM text WHERE folder = ? AND name = ?", self._split(name)
        ).fetchone()
        if row is None:
            raise FileNotFoundError(2, "there is no such text", self.place(name))
        return bytes(row[0])

    def write(self, name: str, text: str) -> None:
        """Put a text in its place."""
        self._database.execute(
            "INSERT INTO text VALUES (?, ?, ?) ON CONFLICT (folder, name) DO UPDATE SET body = excluded.body",
            (*self._split(name), text.encode("utf-8", "surrogatepass")),
        )

    def remove(self, names: Iterable[str]) -> None:
        """Remove texts."""
        for name in names:
            self._database.execute("DELETE FROM text WHERE folder = ? AND name = ?", self._split(name))

    def remove_folder(self, folder: str) -> None:
        """Remove all texts of a folder."""
        self._database.execute("DELETE FROM text WHERE folder = ?", (self._folder(folder),))

    def move(self, old: str, new: str) -> None:
        """Give a text another name, in place of what has that name."""
        self.remove([new])
        self._database.execute(
            "UPDATE text SET folder = ?, name = ? WHERE folder = ? AND name = ?",
            (*self._split(new), *self._split(old)),
        )

    def move_folder(self, old: str, new: str) -> None:
        """Give all texts of a folder to another one."""
        self._database.execute(
            "UPDATE text SET folder = ? WHERE folder = ?", (self._folder(new), self._folder(old))
        )

    def locked(self) -> AbstractContextManager[None]:
        """Keep other writers out; what is written meanwhile is there for all at once, or not at all."""
        return self._database.changing(f"texts {self._below}")

    def steady(self) -> AbstractContextManager[None]:
        """Texts are read inside as they were at one moment; writers are not kept waiting."""
        return self._database.looking()

    def _folder(self, folder: str) -> str:
        return f"{self._below}/{folder}".rstrip("/")

    def _split(self, name: str) -> tuple[str, str]:
        path = PurePosixPath(name)
        return self._folder("" if len(path.parts) == 1 else path.parent.as_posix()), path.name
