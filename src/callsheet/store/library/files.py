"""The texts that a library is made of: named files that appear whole or not at all, and a lock over them.

In: names that are safe already, of one folder or of a folder in it (`triage.ltp`, `.versions/triage/1.json`),
and texts. Out: bytes; OSError for what cannot be done. `FolderFiles` keeps them in a folder, where a symbolic
link is never followed.
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
    """Where the texts of a library stand. Every method raises OSError where that cannot be reached."""

    @property
    def address(self) -> str:
        """What messages call all of it: a folder, or the address of a store."""
        ...

    def place(self, name: str) -> str:
        """What messages call a file."""
        ...

    def names(self, folder: str = "") -> list[str]:
        """The names of the files of a folder, in order; none where there is no folder."""
        ...

    def read(self, name: str) -> bytes:
        """The bytes of a file; raises FileNotFoundError where there is none."""
        ...

    def write(self, name: str, text: str) -> None:
        """Put a file in its place in one step; it lasts when this returns."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; those that are not there are gone already."""
        ...

    def remove_folder(self, folder: str) -> None:
        """Remove all files of a folder."""
        ...

    def move(self, old: str, new: str) -> None:
        """Give a file another name, in place of what has that name."""
        ...

    def move_folder(self, old: str, new: str) -> None:
        """Give all files of a folder to another one that has none; nothing where there are none."""
        ...

    def locked(self) -> AbstractContextManager[None]:
        """Keep other writers out."""
        ...


class FolderFiles:
    """Files of a folder, which is made by the first change."""

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
        """The names of the plain files of a folder, in order."""
        return list(file_names(self.folder / folder))

    def read(self, name: str) -> bytes:
        """The bytes of a plain file of at most 100 MB."""
        return read_file(self.folder / name)

    def write(self, name: str, text: str) -> None:
        """Put a file in its place, in folders that are made if need be."""
        path = self.folder / name
        self._make(path.parent)
        write_file(path, text)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files."""
        for name in names:
            (self.folder / name).unlink(missing_ok=True)
        sync_folder(self.folder)

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with what is in it."""
        path = self.folder / folder
        if path.exists():
            shutil.rmtree(path)
            sync_folder(path.parent)

    def move(self, old: str, new: str) -> None:
        """Give a file another name."""
        os.replace(self.folder / old, self.folder / new)
        sync_folder(self.folder)

    def move_folder(self, old: str, new: str) -> None:
        """Give a folder another name."""
        if (self.folder / old).exists():
            os.replace(self.folder / old, self.folder / new)
            sync_folder((self.folder / new).parent)

    def locked(self) -> AbstractContextManager[None]:
        """Keep others out of a change of the folder, which is made if it is not there."""
        return locked(self.folder)

    def _make(self, folder: Path) -> None:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for each in reversed(missing):
            sync_folder(each.parent)


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Keep others out of a change of the folder, which is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def file_names(folder: Path) -> Iterator[str]:
    """The names of the plain files in a folder, in order; none where there is no folder."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(e.name for e in entries if e.is_file(follow_symlinks=False))
    except FileNotFoundError:
        return
    yield from found


def read_file(path: Path) -> bytes:
    """The bytes of a plain file; raises OSError for anything else, and for more than 100 MB."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(0, "it is not a plain file")
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise OSError(0, f"it is larger than {_MOST_BYTES // 1_000_000} MB")
    return data


def write_file(path: Path, text: str) -> None:
    """Put a file in its place in one step; after a crash there is the old one or the new one."""
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
    """Make what has been renamed and removed in a folder last."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
