"""Declares `@EXEC_CODE`, `@SHELL_EXEC`, `@INSTALL_PKG`, as far as the system isolates programs."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, Literal

from callsheet.ir import JSON, Effect
from callsheet.lazy import dataclass
from callsheet.ports.builtin.declare import TEXT, declare, text_argument
from callsheet.ports.builtin.settings import BuiltinSettings
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Tool


@dataclass(frozen=True, slots=True)
class Isolation:
    """The isolation of code that a plan runs.

    `kind` is `namespaces` for a sandbox of Linux namespaces, `limits` if there are only limits on time,
    memory and files: code then has the rights of the process that runs it. `reason` says why there is no
    sandbox; `usable` whether the settings allow code to run at all.
    """

    kind: Literal["namespaces", "limits"]
    network_blocked: bool
    files_hidden: bool
    processes_hidden: bool
    usable: bool
    reason: str | None = None

    def __str__(self) -> str:
        if self.kind == "namespaces":
            network = "no network" if self.network_blocked else "with network"
            return f"sandbox in namespaces: own file system, own processes, {network}"
        rest = "code runs with resource limits only" if self.usable else "code is refused"
        return f"no sandbox ({self.reason}): {rest}"


def isolation(settings: BuiltinSettings) -> Isolation:
    """Try the sandbox with an empty program and report what it provides; takes about a tenth of a second.

    May be called with or without a running event loop.
    """
    import asyncio  # noqa: PLC0415 - as below: what only a run needs is loaded by it
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    with ThreadPoolExecutor(1) as thread:
        reason = thread.submit(lambda: asyncio.run(_missing(settings))).result()
    if reason is None:
        return Isolation("namespaces", not settings.execution.network, True, True, True)
    return Isolation("limits", False, False, False, settings.execution.require == "best-effort", reason)


async def _missing(settings: BuiltinSettings) -> str | None:
    """Why there is no sandbox, or None if there is one."""
    import tempfile  # noqa: PLC0415

    from callsheet.ports.builtin.execute.jobs import find_program, sandbox_job  # noqa: PLC0415
    from callsheet.ports.builtin.execute.process import run_job  # noqa: PLC0415

    if sys.platform != "linux":
        return f"{sys.platform} has no namespaces"
    with tempfile.TemporaryDirectory(prefix="callsheet-") as mountpoint:
        finished = await run_job(
            sandbox_job(find_program("python", ""), settings, mountpoint), "", 20.0, 1_000
        )
    if finished.failure is not None:
        return finished.failure
    return (
        None if finished.exit_code == 0 else f"a test program failed in it: {finished.stderr.strip()[:300]}"
    )


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
    from callsheet.ports.builtin.execute.process import execute  # noqa: PLC0415 - only runs need it

    language = fixed or text_argument(arguments, "language", "python")
    code, stdin = text_argument(arguments, "code"), text_argument(arguments, "stdin", "")
    return await execute(settings, language, code, stdin, arguments.get("reads"), context)


async def _install(settings: BuiltinSettings, arguments: dict[str, Any], _context: CallContext) -> JSON:
    from callsheet.ports.builtin.execute.process import install_packages  # noqa: PLC0415

    language = text_argument(arguments, "language").strip().lower()
    if language not in ("python", "py", "python3"):
        raise ToolFailed(f"packages can be installed for python, not for {language!r}")
    wanted = arguments.get("packages")
    if isinstance(wanted, str):
        wanted = wanted.replace(",", " ").split()
    if not isinstance(wanted, list) or not wanted:
        raise ToolFailed("the argument packages must be a list of names")
    return await install_packages(settings, [str(name) for name in wanted])  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
