"""The file tools: read, write, edit and search files, confined to the workspace."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from callsheet.ir import JSON, Effect
from callsheet.machine import Cut, Fact, Remark
from callsheet.ports.builtin.declare import TEXT, declare, text_argument
from callsheet.ports.builtin.settings import BuiltinSettings
from callsheet.ports.builtin.threads import in_thread
from callsheet.ports.builtin.workspace import Workspace
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Tool

_MAX_LINE = 500
_MOST_NAMED = 5
_PATH = {"type": "string", "description": "path inside the workspace"}


def file_tools(settings: BuiltinSettings) -> list[Tool]:
    """`@READ_FILE`, `@WRITE_FILE`, `@EDIT_FILE` and `@SEARCH_FILES`."""
    return [
        declare(
            "READ_FILE",
            "Read a text file in the workspace.",
            {"path": _PATH},
            partial(_read_file, settings),
            effect=Effect.READ,
        ),
        declare(
            "WRITE_FILE",
            "Create or overwrite a file in the workspace, creating folders; non-text content becomes JSON.",
            {"path": _PATH, "content": {"description": "text, or any value, which is written as JSON"}},
            partial(_write_file, settings),
            effect=Effect.IDEMPOTENT,
        ),
        declare(
            "EDIT_FILE",
            "Replace text that occurs exactly once in a file in the workspace.",
            {"path": _PATH, "old": TEXT, "new": TEXT},
            partial(_edit_file, settings),
            effect=Effect.UNSAFE,
        ),
        declare(
            "SEARCH_FILES",
            "Find the lines that contain a literal text in the files of the workspace.",
            {
                "pattern": {
                    "type": "string",
                    "description": "literal text, case-sensitive; not a regular expression",
                },
                "path": {"type": "string", "description": "folder or file to search; default: everything"},
                "glob": {
                    "type": "string",
                    "description": "only files whose path or name matches, such as *.py",
                },
            },
            partial(_search_files, settings),
            effect=Effect.READ,
            required=["pattern"],
        ),
    ]


async def _read_file(settings: BuiltinSettings, arguments: dict[str, Any], _context: CallContext) -> JSON:
    path = text_argument(arguments, "path")
    return await in_thread(_read_text, settings, path)


def _read_text(settings: BuiltinSettings, path: str) -> str:
    content = Workspace(settings.workspace).read(path, settings.max_read_bytes)
    return decode_text(content, path)


def decode_text(content: bytes, path: str) -> str:
    """The text of a file; raises ToolFailed if it is not valid UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ToolFailed(f"{path!r} is not UTF-8 text (invalid byte at position {error.start})") from None


async def _write_file(settings: BuiltinSettings, arguments: dict[str, Any], _context: CallContext) -> JSON:
    path = text_argument(arguments, "path")
    if "content" not in arguments:
        raise ToolFailed("the argument content is missing")
    content = arguments["content"]
    if not isinstance(content, str):
        content = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
    size = await in_thread(_write_text, settings, path, content)
    return f"wrote {size} bytes to {path}"


def _write_text(settings: BuiltinSettings, path: str, text: str) -> int:
    content = text.encode(errors="replace")
    if len(content) > settings.max_write_bytes:
        raise ToolFailed(f"the content is larger than {settings.max_write_bytes} bytes")
    Workspace(settings.workspace).write(path, content)
    return len(content)


async def _edit_file(settings: BuiltinSettings, arguments: dict[str, Any], _context: CallContext) -> JSON:
    path, old, new = (text_argument(arguments, name) for name in ("path", "old", "new"))
    if not old:
        raise ToolFailed("the argument old is empty; @WRITE_FILE writes a whole file")
    await in_thread(_edit, settings, path, old, new)
    return f"edited {path}"


def _edit(settings: BuiltinSettings, path: str, old: str, new: str) -> None:
    text = _read_text(settings, path)
    occurrences = text.count(old)
    if occurrences != 1:
        raise ToolFailed(f"the old text occurs {occurrences} times in {path!r}; it must occur exactly once")
    _write_text(settings, path, text.replace(old, new))


async def _search_files(settings: BuiltinSettings, arguments: dict[str, Any], context: CallContext) -> JSON:
    pattern = text_argument(arguments, "pattern")
    path, glob = text_argument(arguments, "path", ""), text_argument(arguments, "glob", "")
    if not pattern:
        raise ToolFailed("the argument pattern is empty")
    matches = await in_thread(_search, settings, pattern, path, glob)
    context.remark(*matches.remarks(settings.max_matches))
    return matches.rows


@dataclass(slots=True)
class _Found:
    """The matches of a search, and what was left out of them."""

    rows: list[JSON] = field(default_factory=list[JSON])
    has_more: bool = False
    passed_over: list[str] = field(default_factory=list[str])
    """Files that could not be searched."""
    whole: int = 0
    kept: int = 0
    """Total length of the lines that were shortened, before (`whole`) and after (`kept`)."""

    def add(self, path: str, number: int, line: str) -> None:
        if len(line) > _MAX_LINE:
            self.whole += len(line)
            self.kept += _MAX_LINE
            line = f"{line[:_MAX_LINE]}…"
        self.rows.append({"path": path, "line": number, "text": line})

    def remarks(self, most: int) -> list[Remark]:
        notes: list[Remark] = []
        if self.has_more:
            notes.append(Cut("matches", most, None, "rows"))
        if self.whole:
            notes.append(Cut("lines of the matches", self.kept, self.whole, "characters"))
        if self.passed_over:
            names = ", ".join(self.passed_over[:_MOST_NAMED])
            more = ", …" if len(self.passed_over) > _MOST_NAMED else ""
            notes.append(
                Fact(
                    "skipped",
                    f"{len(self.passed_over)} files that are too large, not text or not regular: "
                    f"{names}{more}",
                )
            )
        return notes


def _search(settings: BuiltinSettings, pattern: str, path: str, glob: str) -> _Found:
    """Rows of path, line number and text; a last row without a path means that there are more matches."""
    matches, wanted = _Found(), pattern.encode(errors="replace")
    for name, content in Workspace(settings.workspace).files(path, settings.max_read_bytes):
        if glob and not (fnmatchcase(name, glob) or fnmatchcase(name.rpartition("/")[2], glob)):
            continue
        if content is None or (wanted in content and b"\0" in content[:8192]):
            matches.passed_over.append(name)
            continue
        if wanted not in content:
            continue
        for number, line in enumerate(content.decode(errors="replace").splitlines(), start=1):
            if pattern not in line:
                continue
            if len(matches.rows) >= settings.max_matches:
                text = f"more than {settings.max_matches} matches; narrow the search"
                matches.rows.append({"path": "", "line": 0, "text": text})
                matches.has_more = True
                return matches
            matches.add(name, number, line)
    return matches
