"""A Temporal server and workers as processes that can be killed and started again."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

_TOOLS = Path(__file__).with_name("tools.py")
_CALLSHEET = (sys.executable, "-c", "import sys; from callsheet.apps.cli.main import main; sys.exit(main())")
_PATIENCE = 60


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Fleet:
    """A server with its data in a folder, and so many workers on it."""

    def __init__(self, program: str, folder: Path, workers: int) -> None:
        self._program = program
        self._folder = folder
        self.log = folder / "calls.log"
        self.blobs = folder / "blobs"
        self._ports = [free_port() for _ in range(3)]
        self._server = self._start_server()
        self._workers = [self._start_worker() for _ in range(workers)]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._ports[0]}"

    def kill_worker(self, chance: random.Random) -> None:
        """Kill one of the workers with SIGKILL and start another in its place."""
        place = chance.randrange(len(self._workers))
        _kill(self._workers[place])
        self._workers[place] = self._start_worker()

    def restart_server(self) -> None:
        """Kill the server with SIGKILL and start it on the same data."""
        _kill(self._server)
        self._server = self._start_server()

    def close(self) -> None:
        for child in (*self._workers, self._server):
            _kill(child)

    def _start_server(self) -> subprocess.Popen[bytes]:
        port, http, metrics = map(str, self._ports)
        command = [
            self._program, "server", "start-dev", "--headless", "--port", port, "--http-port", http,
            "--metrics-port", metrics, "--db-filename", str(self._folder / "temporal.db"),
            "--log-level", "never",
        ]  # fmt: skip
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            with socket.socket() as trial:
                if trial.connect_ex(("127.0.0.1", self._ports[0])) == 0:
                    return child
            time.sleep(0.1)
        raise RuntimeError("the server has not come up")

    def _start_worker(self) -> subprocess.Popen[bytes]:
        env = {**os.environ, "FLEET_LOG": str(self.log)}
        command = [
            *_CALLSHEET, "worker", "--address", self.address, "--blobs", str(self.blobs),
            "--tools", str(_TOOLS), "--drain", "0",
        ]  # fmt: skip
        with (self._folder / "workers.log").open("ab") as said:
            return subprocess.Popen(command, env=env, stdout=said, stderr=said, cwd=self._folder)


def _kill(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGKILL)
    child.wait()
