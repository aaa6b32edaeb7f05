"""Files of one folder that appear whole or not at all, and a lock over the folder.

In: names that are safe already, and texts. Out: files; OSError as the system raises it. A symbolic
link in the folder is never followed.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

_MOST_BYTES = 100_000_000


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
