"""The MCP servers of the demonstration, each installed in an environment of its own.

They pin other versions of the MCP SDK than callsheet does, so they share nothing with it. An
environment is made once and kept in the user's cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from callsheet.diagnostics import CallsheetError

REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "mcp-server-git": ("mcp-server-git>=2026.10,<2027",),
    "mcp-server-time": ("mcp-server-time>=2026.10,<2027",),
    # Made for the first version of the MCP SDK; its own requirements do not say so.
    "mcp-server-sqlite": ("mcp-server-sqlite==2025.4.25", "mcp>=1.6,<2"),
}


def install_servers(folder: Path, say: Callable[[str], None]) -> dict[str, Path]:
    """The command of each server by its package, installed under `folder` where it is missing.

    Raises CallsheetError (CFG201) with what pip said, where one cannot be installed.
    """
    with ThreadPoolExecutor(len(REQUIREMENTS)) as pool:
        made = {package: pool.submit(_installed, folder, package, say) for package in REQUIREMENTS}
        return {package: future.result() for package, future in made.items()}


def _installed(folder: Path, package: str, say: Callable[[str], None]) -> Path:
    wanted = repr((sys.version_info[:3], REQUIREMENTS[package]))
    environment = folder / f"{package}-{hashlib.sha256(wanted.encode()).hexdigest()[:8]}"
    command = environment / ("Scripts" if os.name == "nt" else "bin") / package
    if (environment / "complete").exists() and command.exists():
        return command
    say(f"installing {package} into an environment of its own")
    shutil.rmtree(environment, ignore_errors=True)
    environment.parent.mkdir(parents=True, exist_ok=True)
    _run(package, sys.executable, "-m", "venv", str(environment))
    python = command.with_name("python")
    _run(
        package,
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        *REQUIREMENTS[package],
    )
    (environment / "complete").touch()
    return command


def _run(package: str, *command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise CallsheetError.single(
            "CFG201",
            f"{package} could not be installed: {said[-1] if said else f'exit code {done.returncode}'}",
            help="the demonstration needs pip and the package index once; after that it needs no network",
        )
