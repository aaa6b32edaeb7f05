"""Waits until a file, or the names in a folder, are on the disk, so that a loss of power takes neither."""

from __future__ import annotations

import os
from pathlib import Path


def sync_file(path: Path) -> None:
    """Have what a file holds on the disk; a link is not followed. Raises OSError."""
    _sync(path, os.O_RDONLY | os.O_NOFOLLOW)


def sync_folder(path: Path) -> None:
    """Have the names in a folder on the disk. Raises OSError."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
