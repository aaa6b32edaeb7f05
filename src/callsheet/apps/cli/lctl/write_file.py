"""Writes a document to a file that the user names."""

from __future__ import annotations

from pathlib import Path

from callsheet.diagnostics import CallsheetError


def save(path: Path, text: str) -> None:
    """Write a text to a file. Raises CallsheetError (CFG014)."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        why = f"{path} cannot be written: {error.strerror or error}"
        raise CallsheetError.single("CFG014", why, help="name a file that can be written") from error
