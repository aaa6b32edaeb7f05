"""Fixtures for all tests: real MCP servers, each in an environment of its own, kept between runs.

The environments lie in the folder named by CALLSHEET_TEST_SERVERS, else in the user's cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs
import pytest
from tests.laws import give_examples

REQUIREMENTS = {
    "mcp-server-git": ("mcp-server-git>=2026.10",),
    "mcp-server-time": ("mcp-server-time>=2026.10",),
    # Last released for the SDK's first version, and does not say so in its requirements.
    "mcp-server-sqlite": ("mcp-server-sqlite==2025.4.25", "mcp>=1.6,<2"),
}
BROKEN_REQUIREMENTS = {"mcp-server-sqlite": ("mcp-server-sqlite==2025.4.25", "mcp>=2.3,<3")}
NODE_REQUIREMENTS = {"@modelcontextprotocol/server-everything": "2026.8.31"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Try each law as often as the profile says."""
    give_examples(items)


def _cache() -> Path:
    named = os.environ.get("CALLSHEET_TEST_SERVERS")
    return Path(named) if named else platformdirs.user_cache_path("callsheet") / "test-servers"


@contextmanager
def _built(folder: Path) -> Iterator[bool]:
    """Whether the folder is complete; holds off other processes that would build it too."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / "complete"
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            yield False
            done.touch()
        else:
            yield True


def _run(*command: str | Path) -> None:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")


def _environment(name: str, requirements: tuple[str, ...]) -> Path:
    key = hashlib.sha256(repr((sys.version_info[:3], requirements)).encode()).hexdigest()[:8]
    folder = _cache() / f"{name}-{key}"
    python = folder / "bin" / "python"
    with _built(folder) as complete:
        if not complete:
            uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
            if uv:
                _run(uv, "venv", "--quiet", "--python", sys.executable, folder)
                _run(uv, "pip", "install", "--quiet", "--python", python, *requirements)
            else:
                _run(sys.executable, "-m", "venv", folder)
                _run(python, "-m", "pip", "install", "--quiet", *requirements)
    return python


@pytest.fixture(scope="session")
def server_python() -> Callable[[str], Path]:
    """The Python of a server package's own environment; its commands lie beside it."""
    return lambda package: _environment(package, REQUIREMENTS[package])


@pytest.fixture(scope="session")
def broken_server_python() -> Callable[[str], Path]:
    """The same with an SDK that the package does not work with: the server ends at its start."""
    return lambda package: _environment(f"{package}-broken", BROKEN_REQUIREMENTS[package])


@pytest.fixture(scope="session")
def node_server() -> Callable[[str], tuple[str, str]]:
    """The command and the script of a server package of the JavaScript registry."""

    def build(package: str) -> tuple[str, str]:
        node, npm = shutil.which("node"), shutil.which("npm")
        if node is None or npm is None:
            pytest.skip(f"{package} needs node and npm, which are not installed here")
        version = NODE_REQUIREMENTS[package]
        folder = _cache() / f"{package.rpartition('/')[2]}-{version}"
        with _built(folder) as complete:
            if not complete:
                folder.mkdir(parents=True)
                _run(
                    npm,
                    "install",
                    "--silent",
                    "--no-fund",
                    "--no-audit",
                    "--prefix",
                    folder,
                    f"{package}@{version}",
                )
        return node, str(folder / "node_modules" / package / "dist" / "index.js")

    return build
