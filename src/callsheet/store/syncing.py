"""Syncs files and folders to the disk, so that they survive a power failure."""

from __future__ import annotations

import os
from pathlib import Path


def sync_file(path: Path) -> None:
    """Sync the content of a file; a symbolic link is not followed. Raises OSError."""
    _sync(path, os.O_RDONLY | os.O_NOFOLLOW)


def sync_folder(path: Path) -> None:
    """Sync the names in a folder. Raises OSError."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
