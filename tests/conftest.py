"""Fixtures for all tests: real MCP servers, each in its own environment, cached between runs.

A run of tests that leaves a file in the repository fails, and names it.

Those of the demonstration are installed by it, where it looks for them. The others lie in the folder
named by CALLSHEET_TEST_SERVERS, else in the user's cache.
"""

from __future__ import annotations

import asyncio
import fcntl
import gc
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import wraps
from itertools import count
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from tests.laws import give_examples

from callsheet.apps.demo.sample import install_servers
from callsheet.files import user_folder
from callsheet.store import Durability, Journal
from json_forms import printed_holds

ROOT = Path(__file__).resolve().parent.parent
MEMORY = Path("/dev/shm")
ROOM = 2 << 30
"""The bytes in memory that temporary files may need; all tests together need a seventh of it."""
LEFT_FILES = 70
"""The exit code of a run that left files, which `dev.py` does not take for failed tests to run again."""
# Without files of bytecode each worker compiles all tests, and each program under test all of callsheet.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
USERS = count()
FILES_BEFORE = pytest.StashKey[frozenset[Path]]()
FILES_LEFT = pytest.StashKey[list[str]]()
os.environ["CALLSHEET_SEAL_KEY"] = "5e" * 32
BROKEN_REQUIREMENTS = {"mcp-server-sqlite": ("mcp-server-sqlite==2025.4.25", "mcp>=2.3,<3")}
FETCH_REQUIREMENTS = ("mcp-server-fetch==2026.10.24",)
NODE_SERVERS = {
    "@modelcontextprotocol/server-everything": "2026.8.31",
    "@modelcontextprotocol/server-filesystem": "2026.8.31",
    "@modelcontextprotocol/server-memory": "2026.8.31",
}
"""They share what they need: to install all of them takes as long as to install one."""
NODE_REQUIREMENTS = {
    "@modelcontextprotocol/inspector": "2.12.0",
    "s3rver": "3.7.1",
}
NODE_PROGRAMS = {
    "@modelcontextprotocol/inspector": "clients/launcher/build/index.js",
    "s3rver": "bin/s3rver.js",
}


def pytest_configure() -> None:
    """Reset SIGINT for the programs under test, since background jobs ignore it.

    What a test prints with `--json` in this process has to hold to the schema of its command.
    Temporary files are in memory if there is room: a process that is killed loses nothing there either, and
    the thousands of journals need not wait for a disk.
    """
    CliRunner.invoke = _invoked
    if _has_room(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _has_room(folder: Path) -> bool:
    """Whether programs can be written to the folder and started there, and there is room for all."""
    if sys.platform != "linux" or not os.access(folder, os.W_OK | os.X_OK):
        return False
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize >= ROOM and not disk.f_flag & os.ST_NOEXEC


_invoke = CliRunner.invoke


@wraps(_invoke)
def _invoked(self: CliRunner, cli: click.Command, args: Any = None, *more: Any, **given: Any) -> Result:
    done = _invoke(self, cli, args, *more, **given)
    if isinstance(cli, click.Group) and cli.name == "callsheet" and not isinstance(args, str):
        printed_holds(cli, tuple(args or ()), done.stdout)
    return done


def _files() -> frozenset[Path]:
    """What stands where a program that forgot its own folder would write; caches and builds do not count."""
    places = (ROOT, ROOT / "examples", ROOT / "docs")
    return frozenset(
        file
        for place in places
        for file in place.iterdir()
        if not file.name.startswith((".", "__")) and file != ROOT / "build"
    )


def pytest_sessionstart(session: pytest.Session) -> None:
    """Remember which files there are."""
    if not hasattr(session.config, "workerinput"):
        session.config.stash[FILES_BEFORE] = _files()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail if the tests have left files, and free the memory that they had if they passed."""
    before = session.config.stash.get(FILES_BEFORE, None)
    if before is None:
        return
    session.config.stash[FILES_LEFT] = left = sorted(str(f.relative_to(ROOT)) for f in _files() - before)
    if left:
        session.exitstatus = LEFT_FILES
    made = session.config._tmp_path_factory.getbasetemp()
    if session.exitstatus == pytest.ExitCode.OK and MEMORY in made.parents:
        shutil.rmtree(made, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the files that the tests have left."""
    if left := config.stash.get(FILES_LEFT, None):
        terminalreporter.section("files that the tests left in the repository", red=True)
        terminalreporter.line("\n".join(left))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, pytest.CollectReport]:
    """Let each worker begin to read at another folder, and find compiled what the others have read."""
    report = yield
    worker = getattr(collector.config, "workerinput", None)
    if worker and collector.path == ROOT / "tests":
        first = int(worker["workerid"][2:]) * len(report.result) // worker["workercount"]
        report.result = report.result[first:] + report.result[:first]
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the tests in the order of their files, and give each property test the examples of the profile."""
    items.sort(key=lambda item: item.path.parts)
    give_examples(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without the collector of garbage, which never looks at them afterwards: they all stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _cache() -> Path:
    named = os.environ.get("CALLSHEET_TEST_SERVERS")
    return Path(named) if named else user_folder("cache") / "test-servers"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock the folder against other test processes that would build in it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _built(folder: Path) -> Iterator[bool]:
    """Whether the folder is complete; locks it against other processes that would build it."""
    with _alone(folder):
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
                _run(sys.executable, "-m", "venv", "--without-pip", folder)
                pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile")
                _run(*pip, *requirements)
    return python


@pytest.fixture(scope="session")
def demonstration_servers() -> dict[str, Path]:
    """The commands of the demonstration's servers, by package, installed beforehand."""
    folder = user_folder("cache") / "servers"
    with _alone(folder):
        return asyncio.run(install_servers(folder, lambda text: None))


@pytest.fixture(scope="session")
def server_python(demonstration_servers: dict[str, Path]) -> Callable[[str], Path]:
    """The Python of a server package's own environment; its commands are beside it."""
    return lambda package: demonstration_servers[package].with_name("python")


@pytest.fixture(scope="session")
def broken_server_python() -> Callable[[str], Path]:
    """An environment with an incompatible SDK: the server exits at its start."""
    return lambda package: _environment(f"{package}-broken", BROKEN_REQUIREMENTS[package])


@pytest.fixture(scope="session")
def fetch_server() -> Path:
    """The command of the server that fetches pages."""
    return _environment("mcp-server-fetch", FETCH_REQUIREMENTS).with_name("mcp-server-fetch")


@pytest.fixture(scope="session")
def node_server() -> Callable[[str], tuple[str, str]]:
    """The command and the script of a server package of the JavaScript registry."""
    return lambda package: _node_package(package, NODE_PROGRAMS.get(package, "dist/index.js"))


@pytest.fixture(scope="session")
def node_tool() -> Callable[[str], tuple[str, str]]:
    """The command and the script of a program of the JavaScript registry; without it a test is skipped."""

    def build(package: str) -> tuple[str, str]:
        try:
            return _node_package(package, NODE_PROGRAMS[package])
        except pytest.fail.Exception as error:
            pytest.skip(f"{package} cannot be had here: {error}")

    return build


def _node_package(package: str, script: str) -> tuple[str, str]:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip(f"{package} needs node and npm, which are not installed here")
    together = NODE_SERVERS if package in NODE_SERVERS else {package: NODE_REQUIREMENTS[package]}
    wanted = [f"{name}@{version}" for name, version in together.items()]
    name = package.rpartition("/")[2] if len(wanted) == 1 else "servers"
    folder = _cache() / f"{name}-{hashlib.sha256(repr(wanted).encode()).hexdigest()[:8]}"
    with _built(folder) as complete:
        if not complete:
            folder.mkdir(parents=True)
            _run(npm, "install", "--silent", "--no-fund", "--no-audit", "--prefix", folder, *wanted)
    return node, str(folder / "node_modules" / package / script)


@pytest.fixture(autouse=True)
def _files_of_another_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each test has data and configuration of its own, and leaves those of the person who runs it alone."""
    user = tmp_path_factory.getbasetemp() / f"user-{next(USERS)}"
    os.environ["XDG_DATA_HOME"], os.environ["XDG_CONFIG_HOME"] = str(user / "data"), str(user / "config")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """An open journal that does not wait for the disk."""
    with Journal.open(tmp_path / "journal.db", Durability.OFF) as opened:
        yield opened


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the working directory and contains the user's data and configuration."""
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    return tmp_path
