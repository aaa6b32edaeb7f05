"""The file storage of a plan library: named texts that are written atomically, and a lock on all of them.

In: validated names, relative to one folder (`triage.ltp`, `.versions/triage/1.json`), and texts. Out: bytes;
OSError on failure. `FolderFiles` stores them in a local folder, where symbolic links are never followed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

_MOST_BYTES = 100_000_000


class Files(Protocol):
    """The storage of a library. Every method raises OSError if it cannot be reached."""

    @property
    def address(self) -> str:
        """The location for messages: a folder, or the address of a store."""
        ...

    def place(self, name: str) -> str:
        """The location of a file for messages."""
        ...

    def names(self, folder: str = "") -> list[str]:
        """The sorted names of the files in a folder; empty if there is no such folder."""
        ...

    def read(self, name: str) -> bytes:
        """The bytes of a file; raises FileNotFoundError if there is none."""
        ...

    def write(self, name: str, text: str) -> None:
        """Write a file atomically; it is durable when this returns."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Delete files; missing ones are ignored."""
        ...

    def remove_folder(self, folder: str) -> None:
        """Delete all files of a folder."""
        ...

    def move(self, old: str, new: str) -> None:
        """Rename a file, replacing any file with the new name."""
        ...

    def move_folder(self, old: str, new: str) -> None:
        """Move all files of a folder to another one that has none; does nothing if there are none."""
        ...

    def locked(self) -> AbstractContextManager[None]:
        """A lock that excludes other writers."""
        ...


class FolderFiles:
    """Files in a local folder, which is created by the first change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def address(self) -> str:
        """The folder's path."""
        return str(self.folder)

    def place(self, name: str) -> str:
        """The path of a file."""
        return str(self.folder / name)

    def names(self, folder: str = "") -> list[str]:
        """The sorted names of the regular files in a folder."""
        return list(file_names(self.folder / folder))

    def read(self, name: str) -> bytes:
        """The bytes of a regular file of at most 100 MB."""
        return read_file(self.folder / name)

    def write(self, name: str, text: str) -> None:
        """Write a file atomically; missing folders are created."""
        path = self.folder / name
        self._make(path.parent)
        write_file(path, text)

    def remove(self, names: Iterable[str]) -> None:
        """Delete files."""
        for name in names:
            (self.folder / name).unlink(missing_ok=True)
        sync_folder(self.folder)

    def remove_folder(self, folder: str) -> None:
        """Delete a folder with its content."""
        path = self.folder / folder
        if path.exists():
            shutil.rmtree(path)
            sync_folder(path.parent)

    def move(self, old: str, new: str) -> None:
        """Rename a file."""
        os.replace(self.folder / old, self.folder / new)
        sync_folder(self.folder)

    def move_folder(self, old: str, new: str) -> None:
        """Rename a folder."""
        if (self.folder / old).exists():
            os.replace(self.folder / old, self.folder / new)
            sync_folder((self.folder / new).parent)

    def locked(self) -> AbstractContextManager[None]:
        """Lock the folder against changes by others; it is created if it does not exist."""
        return locked(self.folder)

    def _make(self, folder: Path) -> None:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for each in reversed(missing):
            sync_folder(each.parent)


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Lock the folder against changes by others; it is created if it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def file_names(folder: Path) -> Iterator[str]:
    """The sorted names of the regular files in a folder; empty if there is no folder."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(e.name for e in entries if e.is_file(follow_symlinks=False))
    except FileNotFoundError:
        return
    yield from names


def read_file(path: Path) -> bytes:
    """The bytes of a regular file; raises OSError for anything else, and for more than 100 MB."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(0, "it is not a plain file")
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise OSError(0, f"it is larger than {_MOST_BYTES // 1_000_000} MB")
    return data


def write_file(path: Path, text: str) -> None:
    """Replace a file atomically; after a crash there is the old one or the new one."""
    temporary = path.with_name(f".{path.name[:200]}.{os.getpid()}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(temporary, flags, 0o666)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(text.encode("utf-8", "surrogatepass"))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that renamed and removed files in it are durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
