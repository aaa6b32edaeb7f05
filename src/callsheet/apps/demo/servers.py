"""Installs the MCP servers of the demonstration, each in its own virtual environment.

They need other versions of the MCP SDK than callsheet. An environment is created once and kept in the user's
cache.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from callsheet.diagnostics import CallsheetError

REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "mcp-server-git": ("mcp-server-git>=2026.10,<2027",),
    "mcp-server-time": ("mcp-server-time>=2026.10,<2027",),
    # Needs version 1 of the MCP SDK, which its own requirements do not specify.
    "mcp-server-sqlite": ("mcp-server-sqlite==2025.4.25", "mcp>=1.6,<2"),
}


async def install_servers(folder: Path, notify: Callable[[str], None]) -> dict[str, Path]:
    """Install the missing servers under `folder`; returns the path of each command by package.

    If this is cancelled or one installation fails, the others are stopped. Raises CallsheetError (CFG201)
    with the last message of pip.
    """
    tasks = [asyncio.create_task(_installed(folder, package, notify)) for package in REQUIREMENTS]
    try:
        return dict(zip(REQUIREMENTS, await asyncio.gather(*tasks), strict=True))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _installed(folder: Path, package: str, say: Callable[[str], None]) -> Path:
    specification = repr((sys.version_info[:3], REQUIREMENTS[package]))
    environment = folder / f"{package}-{hashlib.sha256(specification.encode()).hexdigest()[:8]}"
    command = environment / ("Scripts" if os.name == "nt" else "bin") / package
    if (environment / "complete").exists() and command.exists():
        return command
    say(f"installing {package} into its own environment")
    shutil.rmtree(environment, ignore_errors=True)
    try:
        environment.parent.mkdir(parents=True, exist_ok=True)
        await _run(package, sys.executable, "-m", "venv", str(environment))
        pip = (str(command.with_name("python")), "-m", "pip", "install", "--quiet")
        await _run(package, *pip, "--disable-pip-version-check", *REQUIREMENTS[package])
        (environment / "complete").touch()
    except OSError as error:
        reason = f"{environment.parent}: {error.strerror or error}"
        raise _not_installed(package, reason, "make that folder writable") from error
    return command


async def _run(package: str, *command: str) -> None:
    """Run a command; if this is cancelled, the command and its children are killed."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
    )
    try:
        out, err = await process.communicate()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise
    if process.returncode:
        message = (err or out).decode(errors="replace").strip().splitlines()
        raise _not_installed(package, message[-1] if message else f"exit code {process.returncode}")


def _not_installed(
    package: str,
    why: str,
    hint: str = "the demonstration needs pip and the package index once; after that it needs no network",
) -> CallsheetError:
    return CallsheetError.single("CFG201", f"{package} could not be installed: {why}", help=hint)
