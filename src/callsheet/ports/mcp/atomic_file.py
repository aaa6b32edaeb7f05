"""Replaces a file atomically and durably: after a crash there is the old or the new content.

In: a path and bytes. Out: nothing, once the data is on disk; OSError if it cannot be written.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path


def replace_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file atomically, by default readable by its owner only.

    A symbolic link is replaced and not followed.

    Raises OSError, also if the path is a device or a pipe, which would be lost.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    temporary = path.with_name(f".{path.name[:200]}.{os.getpid()}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(temporary, flags, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)  # otherwise a crash could bring back trust that was revoked
    finally:
        os.close(folder)
