"""A real PostgreSQL server for tests, in its own folder, on its own socket."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_PLACES = ("/usr/lib/postgresql", "/usr/local/pgsql", "/opt/homebrew/opt")
_QUICK = ("fsync=off", "listen_addresses=", "shared_buffers=16MB", "max_connections=50")


@dataclass(frozen=True)
class Server:
    """A private server that can be stopped at once and started again."""

    programs: Path
    data: Path
    sockets: Path

    @property
    def address(self) -> str:
        """The address of its database."""
        return f"postgresql://tests@/postgres?host={self.sockets}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = " ".join(f"-c {option}" for option in (*_QUICK, f"unix_socket_directories={self.sockets}"))
        self._control("-l", str(self.data / "log"), "-o", options, "start")

    def stop(self) -> None:
        """Stop it like a crash."""
        self._control("-m", "immediate", "stop")

    def make(self) -> None:
        """Create its files."""
        who = "-U", "tests", "-A", "trust"
        self._run("initdb", "-D", str(self.data), *who, "-N", "-E", "UTF8", "--locale=C")

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", "-D", str(self.data), "-w", "-s", *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        user = "postgres" if os.geteuid() == 0 else None  # the server refuses to be root's
        line = [str(self.programs / program), *arguments]
        subprocess.run(line, check=True, user=user, cwd=self.data.parent, stdout=subprocess.DEVNULL)


def _programs() -> Path | None:
    """The folder of the programs of the server."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    folders = (each for place in _PLACES for each in sorted(Path(place).glob("*/bin"), reverse=True))
    return next((each for each in folders if (each / "initdb").exists()), None)


def _is_refused() -> bool:
    """Whether there is no user that the server could run as."""
    if os.geteuid():
        return False
    try:
        pwd.getpwnam("postgres")
    except KeyError:
        return True
    return False


@contextmanager
def running_server() -> Iterator[Server]:
    """A server; the test is skipped if PostgreSQL is not installed."""
    programs = _programs()
    if programs is None or _is_refused():
        pytest.skip("PostgreSQL's programs (initdb, pg_ctl) are not installed")
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # a socket's path must be short
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    server = Server(programs, folder / "data", folder)
    try:
        server.make()
        server.start()
        yield server
    finally:
        try:
            server.stop()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
