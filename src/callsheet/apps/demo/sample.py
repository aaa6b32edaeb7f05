"""The demonstration's sample data (a git repository, a database, a list of offices), plan and MCP servers.

All contents and dates are fixed, so that every run of the plan has the same data.

They need other versions of the MCP SDK than callsheet. An environment is created once and kept in the user's
cache.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable
from contextlib import closing, suppress
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from callsheet.diagnostics import CallsheetError

OFFICES = (("Lisbon", "Europe/Lisbon"), ("Nairobi", "Africa/Nairobi"), ("Osaka", "Asia/Tokyo"))
COMMITS = (
    ("2026-09-01T09:00:00+00:00", "Add the ticket board", "board.py", "TICKETS = []\n"),
    ("2026-09-08T10:30:00+00:00", "Sort tickets by age", "board.py", "TICKETS = []\nORDER = 'age'\n"),
    ("2026-09-15T14:00:00+00:00", "Export the board as CSV", "export.py", "SEPARATOR = ';'\n"),
)
TICKETS = (
    (1, "crash when a ticket has no title", "open"),
    (2, "export has the wrong separator", "closed"),
    (3, "dark colours for the board", "open"),
)
TABLES = """
CREATE TABLE tickets (id INTEGER PRIMARY KEY, title TEXT NOT NULL, state TEXT NOT NULL);
CREATE TABLE decisions (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
"""


class Sample(NamedTuple):
    """The paths of the parts of the sample."""

    workspace: Path
    repository: Path
    database: Path
    config: Path
    plan: Path

    @property
    def about(self) -> str:
        """The description of the sample in the prompt of a model."""
        return (
            f"The git repository is {self.repository}. offices.json has city and zone of each office."
            " The database has the tables tickets (id, title, state) and decisions (id, text)."
        )


def plan_text() -> str:
    """The plan of the demonstration."""
    return (resources.files("callsheet.apps.demo") / "plan.ltp").read_text(encoding="utf-8")


def create_sample(folder: Path, servers: dict[str, Path]) -> Sample:
    """Create the sample under `folder`, replacing an earlier one.

    `servers` has the path of each server's command, by package. Raises CallsheetError (CFG202) without git.
    """
    workspace = folder / "workspace"
    shutil.rmtree(workspace, ignore_errors=True)
    workspace.mkdir(parents=True)
    sample = Sample(
        workspace,
        folder / "workspace" / "board",
        workspace / "tickets.db",
        folder / "mcp.json",
        folder / "plan.ltp",
    )
    offices = [{"city": city, "zone": zone} for city, zone in OFFICES]
    (workspace / "offices.json").write_text(json.dumps(offices, indent=2), encoding="utf-8")
    sample.plan.write_text(plan_text(), encoding="utf-8")
    _make_database(sample.database)
    _make_repository(sample.repository)
    sample.config.write_text(json.dumps(_configuration(sample, servers), indent=2), encoding="utf-8")
    return sample


def _make_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(TABLES)
        database.executemany("INSERT INTO tickets VALUES (?, ?, ?)", TICKETS)
        database.commit()


def _make_repository(path: Path) -> None:
    path.mkdir()
    _git(path, "init", "--quiet", "--initial-branch=main")
    for date, message, name, text in COMMITS:
        (path / name).write_text(text, encoding="utf-8")
        _git(path, "add", name)
        _git(path, "commit", "--quiet", "--message", message, date=date)


def _git(path: Path, *arguments: str, date: str = "") -> None:
    author = "Ada Example", "ada@example.test"
    environment = {"PATH": _search_path(), "HOME": str(path), "GIT_CONFIG_NOSYSTEM": "1"}
    for role in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{role}_NAME": author[0], f"GIT_{role}_EMAIL": author[1]}
        if date:
            environment[f"GIT_{role}_DATE"] = date
    result = subprocess.run(
        ["git", *arguments], cwd=path, env=environment, capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise CallsheetError.single(
            "CFG202", f"git could not make the sample repository: {result.stderr.strip()}"
        )


def _search_path() -> str:
    git = shutil.which("git")
    if git is None:
        raise CallsheetError.single(
            "CFG202",
            "the demonstration needs git, which is not installed",
            help="install git with the system's package manager",
        )
    return str(Path(git).parent)


def _configuration(sample: Sample, servers: dict[str, Path]) -> dict[str, object]:
    """The server configuration in the format of desktop clients, with the effects of the tools."""
    read = "read"
    return {
        "mcpServers": {
            "git": {
                "command": str(servers["mcp-server-git"]),
                "args": ["--repository", str(sample.repository)],
                "callsheet": {"effects": {"git_log": read, "git_status": read, "git_show": read}},
            },
            "time": {
                "command": str(servers["mcp-server-time"]),
                "callsheet": {"effects": {"convert_time": read, "get_current_time": read}},
            },
            "sqlite": {
                "command": str(servers["mcp-server-sqlite"]),
                "args": ["--db-path", str(sample.database)],
                "callsheet": {"effects": {"read_query": read, "list_tables": read, "write_query": "unsafe"}},
            },
        }
    }


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
        python = str(command.with_name("python"))
        if importlib.util.find_spec("pip"):  # a pip for each environment takes longer than the server
            await _run(package, sys.executable, "-m", "venv", "--without-pip", str(environment))
            pip = (sys.executable, "-m", "pip", "--python", python)
        else:
            await _run(package, sys.executable, "-m", "venv", str(environment))
            pip = (python, "-m", "pip")
        options = ("install", "--quiet", "--no-compile", "--disable-pip-version-check")
        await _run(package, *pip, *options, *REQUIREMENTS[package])
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
