"""What tests find in written files."""

from __future__ import annotations

from pathlib import Path


def all_bytes(folder: Path) -> bytes:
    """The contents of all files of a folder."""
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
