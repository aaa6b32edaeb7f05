"""Which files and facts a call of a built-in tool reads or leaves behind, by its arguments and its result.

Pure. Paths are taken apart as the rules of the policy do it; one that they refuse is that of no file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from callsheet.ir import JSON
from callsheet.machine import to_text
from callsheet.policy.paths import PathRefused, file_key, workspace_path
from callsheet.store.labels import fact_name

ANYWHERE = "*"
"""The path of what may be any file of the workspace."""
_CODE = frozenset({"EXEC_CODE", "SHELL_EXEC"})


class Kept(NamedTuple):
    """What a call leaves behind: the names of facts, a note, or a path.

    `replaces` says that nothing of what was there before is left.
    """

    path: str = ""
    facts: tuple[str, ...] = ()
    note: str | None = None
    replaces: bool = False


class Read(NamedTuple):
    """What a call has read: the names of facts, a note, or a path, of a file or of all below a folder.

    `files` are those of the folder that its result tells of.
    """

    path: str = ""
    facts: tuple[str, ...] | None = None
    note: str | None = None
    is_folder: bool = False
    files: tuple[str, ...] = ()


def kept_by(tool: str, args: Mapping[str, Any]) -> Kept | None:
    """What a call is about to leave behind; None where that is nothing.

    >>> kept_by("WRITE_FILE", {"path": "./a//b.txt", "content": "x"})
    Kept(path='a/b.txt', facts=(), note=None, replaces=True)
    """
    if tool == "STORE_FACT":
        return Kept(facts=_names(args.get("content")))
    if tool == "SET_WM":
        return Kept(note=to_text(args.get("key")), replaces=True)
    if tool in _CODE:
        return Kept(ANYWHERE)
    if tool not in ("WRITE_FILE", "EDIT_FILE"):
        return None
    path = _path(args.get("path"))
    return Kept(path, replaces=tool == "WRITE_FILE") if path else None


def read_by(tool: str, args: Mapping[str, Any], value: JSON) -> Read | None:
    """What a call that gave this value has read; None where that is nothing that could be known."""
    if tool == "QUERY_MEMORY":
        return Read(facts=_names(value))
    if tool == "GET_WM":
        return Read(note=to_text(args.get("key")))
    if tool == "SEARCH_FILES":
        return Read(_path(args.get("path") or ""), is_folder=True, files=_found(value))
    if tool in ("READ_FILE", "EDIT_FILE"):
        return Read(_path(args.get("path")))
    return Read(is_folder=True) if tool in _CODE else None


def _found(rows: Any) -> tuple[str, ...]:
    """The files that the rows of a search name."""
    if not isinstance(rows, list):
        return ()
    told = cast("list[Any]", rows)
    named = [cast("dict[str, Any]", row).get("path") for row in told if isinstance(row, dict)]
    return tuple(dict.fromkeys(name for name in named if isinstance(name, str) and name))


def _names(facts: Any) -> tuple[str, ...]:
    """The names under which the lines of facts are kept."""
    lines = to_text(facts).splitlines()
    return tuple(dict.fromkeys(fact_name(line) for line in lines if line.strip()))


def _path(given: Any) -> str:
    try:
        return file_key(workspace_path(given)) if isinstance(given, str) else ""
    except PathRefused:
        return ""
