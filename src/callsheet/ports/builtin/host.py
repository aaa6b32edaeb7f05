"""The host tools, which act on the machine itself without any sandbox; only if the operator enables them."""

from __future__ import annotations

import os
import stat
from functools import partial
from pathlib import Path
from typing import Any

from callsheet.ir import JSON, Effect
from callsheet.machine import Cut
from callsheet.ports.builtin.declare import TEXT, declare, in_thread, text_argument
from callsheet.ports.builtin.files import decode_text
from callsheet.ports.builtin.settings import BuiltinSettings
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Tool

_MAX_ENTRIES = 1_000


def host_tools(settings: BuiltinSettings) -> list[Tool]:
    """`@HOST_EXEC`, `@HOST_FILE_READ` and `@HOST_FILE_LIST`."""
    return [
        declare(
            "HOST_EXEC",
            "Run a shell command on this machine itself, with the permissions of callsheet.",
            {"command": TEXT},
            partial(_execute, settings),
            effect=Effect.UNSAFE,
        ),
        declare(
            "HOST_FILE_READ",
            "Read a text file anywhere on this machine.",
            {"path": TEXT},
            partial(_read, settings),
            effect=Effect.READ,
        ),
        declare(
            "HOST_FILE_LIST",
            "List a folder anywhere on this machine.",
            {"path": TEXT},
            _list,
            effect=Effect.READ,
        ),
    ]


async def _execute(settings: BuiltinSettings, arguments: dict[str, Any], context: CallContext) -> JSON:
    from callsheet.ports.builtin.execute.process import run_on_host  # noqa: PLC0415 - only runs need it

    limits = settings.execution
    command = text_argument(arguments, "command")
    finished = await run_on_host(command, limits.timeout, limits.output_bytes)
    context.remark(*finished.remarks)
    why = f"the command ended with exit code {finished.exit_code}"
    if finished.timed_out:
        why = f"the command ran longer than {limits.timeout:g} seconds and was ended"
    elif finished.exit_code == 0:
        return {"stdout": finished.stdout, "stderr": finished.stderr, "exit_code": 0}
    outputs = [text.strip() for text in (finished.stdout, finished.stderr)]
    raise ToolFailed("\n".join(text for text in (*outputs, why) if text))


async def _read(settings: BuiltinSettings, arguments: dict[str, Any], _context: CallContext) -> JSON:
    path = text_argument(arguments, "path")
    return await in_thread(_read_text, path, settings.max_read_bytes)


def _read_text(path: str, limit: int) -> str:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ToolFailed(f"{path!r} is not a regular file")
            content = file.read(limit + 1)
    except (OSError, ValueError) as error:
        raise ToolFailed(f"{path!r}: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > limit:
        raise ToolFailed(f"{path!r} is larger than {limit} bytes")
    return decode_text(content, path)


async def _list(arguments: dict[str, Any], context: CallContext) -> JSON:
    return await in_thread(_entries, text_argument(arguments, "path"), context)


def _entries(path: str, context: CallContext) -> JSON:
    """Names, kinds and sizes, sorted by name; a last row without a name means that there are more."""
    try:
        names = sorted(os.listdir(path))
    except (OSError, ValueError) as error:
        raise ToolFailed(f"{path!r}: {getattr(error, 'strerror', None) or error}") from None
    rows: list[JSON] = [_entry(Path(path) / name) for name in names[:_MAX_ENTRIES]]
    if len(names) > _MAX_ENTRIES:
        context.remark(Cut("entries", _MAX_ENTRIES, len(names), "rows"))
        rows.append({"name": "", "kind": "more", "bytes": len(names) - _MAX_ENTRIES})
    return rows


def _entry(path: Path) -> JSON:
    try:
        info = path.lstat()
    except OSError:
        return {"name": path.name, "kind": "gone", "bytes": 0}
    kinds = {stat.S_IFDIR: "folder", stat.S_IFREG: "file", stat.S_IFLNK: "link"}
    return {"name": path.name, "kind": kinds.get(stat.S_IFMT(info.st_mode), "other"), "bytes": info.st_size}
