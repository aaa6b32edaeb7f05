"""What the user of a client has said, passed by a hook of the client beside its MCP requests.

The hook appends the user's words to a file for the folder in which the client works; a gate that the client
has started in the same folder reads what is new. In: texts. Out: the texts since the last time.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, cast

from callsheet.diagnostics import CallsheetError
from callsheet.files import user_folder

_MOST = 1_000_000
"""The size from which on a file begins anew, in bytes."""


def words_file(folder: Path) -> Path:
    """The file of the words that are said in a folder."""
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:24]
    return user_folder("data") / "said" / f"{name}.jsonl"


def note_words(event: str) -> None:
    """Record the prompt in the input of a hook: JSON with `prompt` and `cwd`, as Claude Code passes it.

    Raises CallsheetError (CFG010) for anything else.
    """
    try:
        data = cast("dict[str, Any]", json.loads(event))
        prompt, folder = str(data["prompt"]), Path(data.get("cwd") or ".")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CallsheetError.single(
            "CFG010",
            "standard input is not what a hook passes: JSON with `prompt` and `cwd`",
            help="make it a hook for UserPromptSubmit in Claude Code",
        ) from error
    place = words_file(folder)
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    if place.exists() and place.stat().st_size > _MOST:
        flags |= os.O_TRUNC
    with os.fdopen(os.open(place, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(json.dumps({"said": prompt}, ensure_ascii=False) + "\n")


class SpokenWords:
    """The words that are said in a folder from now on."""

    def __init__(self, folder: Path) -> None:
        self._place = words_file(folder)
        self._offset = self._size()

    def new(self) -> list[str]:
        """What was said since the last time; a line that is not whole yet is left for the next time."""
        size = self._size()
        if size == self._offset:
            return []
        with self._place.open("rb") as file:
            start = self._offset if self._offset < size else 0
            file.seek(start)
            whole, newline, _ = file.read().rpartition(b"\n")
        if newline:
            self._offset = start + len(whole) + 1
        return [said for line in whole.splitlines() if (said := _said(line)) is not None]

    def _size(self) -> int:
        try:
            return self._place.stat().st_size
        except OSError:
            return 0


def _said(line: bytes) -> str | None:
    """The words in a line; None for the rest of one whose beginning was cut off when the file began anew."""
    try:
        return str(json.loads(line)["said"])
    except (ValueError, KeyError, TypeError):
        return None
