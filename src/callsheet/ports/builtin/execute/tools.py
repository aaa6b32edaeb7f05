"""Declares `@EXEC_CODE`, `@SHELL_EXEC` and `@INSTALL_PKG`: code in a sandbox, and packages for it."""

from __future__ import annotations

from functools import partial
from typing import Any

from callsheet.ir import JSON, Effect
from callsheet.ports.builtin.declare import TEXT, declare, text_argument
from callsheet.ports.builtin.settings import BuiltinSettings
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Tool

_READS = {
    "type": "array",
    "items": {"type": "string", "minLength": 1},
    "description": "files, folders and globs of the workspace that the program reads; it sees no others",
}
_STDIN = {"type": "string", "description": "data for the program's standard input"}


def execution_tools(settings: BuiltinSettings) -> list[Tool]:
    """The tools that run code, and the one that installs packages for it."""
    return [
        declare(
            "EXEC_CODE",
            "Run a program in a sandbox; returns what it prints. Pass data on stdin, not inside the code, and"
            " list the workspace files that it opens in reads.",
            {
                "code": TEXT,
                "language": {
                    "type": "string",
                    "enum": ["python", "shell", "javascript"],
                    "default": "python",
                },
                "stdin": _STDIN,
                "reads": _READS,
            },
            partial(_execute, settings, None),
            effect=Effect.UNSAFE,
            required=["code"],
        ),
        declare(
            "SHELL_EXEC",
            "Run a shell script in a sandbox; returns what it prints. List the workspace files that it opens"
            " in reads.",
            {"code": TEXT, "stdin": _STDIN, "reads": _READS},
            partial(_execute, settings, "shell"),
            effect=Effect.UNSAFE,
            required=["code"],
        ),
        declare(
            "INSTALL_PKG",
            "Install Python packages for later programs, if the configuration allows it.",
            {
                "language": {"type": "string", "enum": ["python"]},
                "packages": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            },
            partial(_install, settings),
            effect=Effect.IDEMPOTENT,
        ),
    ]


async def _execute(
    settings: BuiltinSettings, fixed: str | None, arguments: dict[str, Any], context: CallContext
) -> JSON:
    from callsheet.ports.builtin.execute.running import execute  # noqa: PLC0415 - only runs need it

    language = fixed or text_argument(arguments, "language", "python")
    code, stdin = text_argument(arguments, "code"), text_argument(arguments, "stdin", "")
    return await execute(settings, language, code, stdin, arguments.get("reads"), context)


async def _install(settings: BuiltinSettings, arguments: dict[str, Any], _context: CallContext) -> JSON:
    from callsheet.ports.builtin.execute.packages import install_packages  # noqa: PLC0415

    language = text_argument(arguments, "language").strip().lower()
    if language not in ("python", "py", "python3"):
        raise ToolFailed(f"packages can be installed for python, not for {language!r}")
    wanted = arguments.get("packages")
    if isinstance(wanted, str):
        wanted = wanted.replace(",", " ").split()
    if not isinstance(wanted, list) or not wanted:
        raise ToolFailed("the argument packages must be a list of names")
    return await install_packages(settings, [str(name) for name in wanted])  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
