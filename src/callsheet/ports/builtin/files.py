"""The file tools: read, write, edit and search files, confined to the workspace."""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from callsheet.ir import JSON, Effect
from callsheet.lazy import dataclass
from callsheet.machine import Cut, Fact, Remark
from callsheet.ports.builtin.declare import TEXT, declare, in_thread, text_argument
from callsheet.ports.builtin.settings import BuiltinSettings
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Tool

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SKIPPED_FOLDERS = frozenset({".git", "__pycache__", "node_modules"})


def split_path(path: str) -> tuple[str, ...]:
    """The components of a path inside the workspace; raises ToolFailed if it is invalid or leads outside.

    >>> split_path("./notes//today.md")
    ('notes', 'today.md')
    """
    if "\0" in path:
        raise ToolFailed("the path contains a NUL character")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise ToolFailed("the path contains half of a character (a lone surrogate)") from None
    if path.startswith("/"):
        raise ToolFailed(f"{path!r} is absolute; paths are relative to the workspace")
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if ".." in parts:
        raise ToolFailed(f"{path!r} leads upwards; paths stay inside the workspace")
    return parts


class Workspace:
    """The files below a folder. No handle is held between two operations."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, path: str, limit: int) -> bytes:
        """The content of a file of at most `limit` bytes; raises ToolFailed if it cannot be read."""
        parts = _file_parts(path)
        with _said_of(path), self._folder(parts[:-1]) as folder:
            return _read_opened(parts[-1], folder, path, limit)

    def write(self, path: str, content: bytes) -> None:
        """Create or replace a file atomically, and its folders; an existing file keeps its permissions."""
        parts = _file_parts(path)
        with _said_of(path), self._folder(parts[:-1], create=True) as folder:
            mode = _mode_of_file(parts[-1], folder, path)
            temporary = f".callsheet-{secrets.token_hex(8)}.tmp"
            handle = os.open(temporary, _CREATE, 0o666, dir_fd=folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    if mode is not None:
                        os.fchmod(file.fileno(), mode)
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.rename(temporary, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                os.unlink(temporary, dir_fd=folder)
                raise

    def files(self, path: str, limit: int) -> Iterator[tuple[str, bytes | None]]:
        """The name and content of every file at or below a path, sorted within each folder.

        The content is None if it cannot be read: a link, a device, larger than `limit` bytes, no permission.
        """
        parts = split_path(path)
        with _said_of(path or "."):
            if parts and self._is_file(parts):
                yield "/".join(parts), self.read(path, limit)
                return
            with self._folder(parts) as top:
                yield from _walk(top, "/".join(parts), limit)

    def _is_file(self, parts: tuple[str, ...]) -> bool:
        with self._folder(parts[:-1]) as folder:
            return stat.S_ISREG(os.stat(parts[-1], dir_fd=folder, follow_symlinks=False).st_mode)

    @contextmanager
    def _folder(self, parts: tuple[str, ...], *, create: bool = False) -> Generator[int]:
        """A descriptor of the folder at these components, opened one by one."""
        handle = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=handle)
                below = os.open(part, _FOLDER, dir_fd=handle)
                os.close(handle)
                handle = below
            yield handle
        finally:
            os.close(handle)


def _file_parts(path: str) -> tuple[str, ...]:
    parts = split_path(path)
    if not parts or path.endswith("/"):
        raise ToolFailed(f"{path!r} does not name a file")
    return parts


def _read_opened(name: str, folder: int, path: str, limit: int) -> bytes:
    with os.fdopen(os.open(name, _READ, dir_fd=folder), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ToolFailed(f"{path!r} is not a regular file")
        content = file.read(limit + 1)
    if len(content) > limit:
        raise ToolFailed(f"{path!r} is larger than {limit} bytes")
    return content


def _mode_of_file(name: str, folder: int, path: str) -> int | None:
    """The permissions of an existing file, None if there is none; raises ToolFailed if it is not a file."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(mode):
        raise ToolFailed(f"{path!r} is a symbolic link, which is not followed")
    if not stat.S_ISREG(mode):
        raise ToolFailed(f"{path!r} is not a regular file")
    return stat.S_IMODE(mode) & 0o777


def _walk(top: int, prefix: str, limit: int) -> Iterator[tuple[str, bytes | None]]:
    for folder, folders, names, handle in os.fwalk(".", dir_fd=top, follow_symlinks=False):
        folders[:] = sorted(f for f in folders if f not in _SKIPPED_FOLDERS)
        inner = split_path(folder)
        for name in sorted(names):
            path = "/".join([part for part in (prefix, *inner) if part] + [name])
            try:
                content = _read_opened(name, handle, path, limit)
            except (OSError, ToolFailed):
                content = None
            yield path, content


@contextmanager
def _said_of(path: str) -> Generator[None]:
    """Turn OSError into ToolFailed messages that name the path as the plan wrote it."""
    try:
        yield
    except OSError as error:
        _fail(path, error)


def _fail(path: str, error: OSError) -> NoReturn:
    if error.errno == errno.ELOOP:
        raise ToolFailed(f"{path!r} contains a symbolic link, which is not followed") from None
    if error.errno == errno.ENOENT:
        raise ToolFailed(f"there is no {path!r} in the workspace") from None
    if error.errno == errno.ENOTDIR:
        raise ToolFailed(
            f"a part of {path!r} is not a folder, or is a symbolic link, which is not followed"
        ) from None
    if error.errno in (errno.ENXIO, errno.ENODEV):
        raise ToolFailed(f"{path!r} is not a regular file") from None
    raise ToolFailed(f"{path!r}: {error.strerror or error}") from None


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
            partial(_read_tool, settings),
            result=TEXT,
            effect=Effect.READ,
        ),
        declare(
            "WRITE_FILE",
            "Create or overwrite a file in the workspace, creating folders; non-text content becomes JSON.",
            {"path": _PATH, "content": {"description": "text, or any value, which is written as JSON"}},
            partial(_write_file, settings),
            result=TEXT,
            effect=Effect.IDEMPOTENT,
        ),
        declare(
            "EDIT_FILE",
            "Replace text that occurs exactly once in a file in the workspace.",
            {"path": _PATH, "old": TEXT, "new": TEXT},
            partial(_edit_file, settings),
            result=TEXT,
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


async def _read_tool(settings: BuiltinSettings, arguments: dict[str, Any], _context: CallContext) -> JSON:
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
