"""Puts a file of the user's own in its place: the old one or the new one, also after a power failure.

In: a path and bytes. Out: nothing, once it lasts; OSError where it cannot be written.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Write a file in one step, which nobody else can read; a link in its way is not followed.

    Raises OSError, also for what is a device or a pipe, which would be gone.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no file", str(path))
    temporary = path.with_name(f".{path.name[:200]}.{os.getpid()}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(temporary, flags, 0o600)
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
        os.fsync(folder)  # or what was revoked would be trusted again
    finally:
        os.close(folder)
