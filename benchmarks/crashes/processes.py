"""Starts a callsheet command as a process, kills it at some moment, and finds the processes that it leaves.

Only the command itself is killed: the processes that it started have to end by themselves. Without /proc,
such processes cannot be listed and none are found.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, Protocol

from crashes.forked import fork_command

_COMMAND = (sys.executable, "-c", "import sys; from callsheet.apps.cli.main import main; sys.exit(main())")
_PROC = Path("/proc")
_TICK = 0.0005


class Process(NamedTuple):
    """A process of this machine; `started` tells it from a later one of the same number."""

    pid: int
    started: str


class Moment(NamedTuple):
    """When to kill: a number of seconds after a number of new events, or after the start."""

    kind: str
    events: int
    seconds: float


class Ended(NamedTuple):
    """A command that ended by itself."""

    status: int
    stdout: str
    stderr: str
    seconds: float


class Killed(NamedTuple):
    """A command that was killed: the events seen before in the journal, and its child processes."""

    seen: int
    started: frozenset[Process]


class Child(Protocol):
    """What a sweep needs of a process that it has started."""

    pid: int

    @property
    def returncode(self) -> int | None:
        """The last result of `poll`."""
        ...

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it lives."""
        ...

    def wait(self, timeout: float = ...) -> int:
        """The exit status; raises TimeoutExpired."""
        ...

    def send_signal(self, number: int, /) -> None:
        """Send a signal."""
        ...


Start = Callable[[Sequence[str], Path, Mapping[str, str]], Child]
"""Starts `callsheet ARGUMENTS` in a session of its own; its output goes into files of a folder."""


def start_fresh(arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> Child:
    """Start a command in an interpreter of its own."""
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        return subprocess.Popen(
            [*_COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, **env},
            start_new_session=True,
        )


class Kill:
    """Waits for a moment in the life of a process that writes the journal at `path`."""

    def __init__(self, moment: Moment, path: Path) -> None:
        self.moment = moment
        self._path = path

    def wait(self, child: Child, deadline: float) -> int | None:
        """The number of events seen by then; None if the process ended before."""
        with closing(Counter(self._path)) as counter:
            wanted = counter.count() + self.moment.events
            if self.moment.events:
                while counter.count() < wanted:
                    if child.poll() is not None or time.monotonic() > deadline:
                        return None
                    time.sleep(_TICK)
            due = time.monotonic() + self.moment.seconds
            while time.monotonic() < due:
                if child.poll() is not None:
                    return None
                time.sleep(_TICK)
            seen = counter.count()
        return seen if child.poll() is None else None


def carry_out(
    arguments: Sequence[str],
    folder: Path,
    env: Mapping[str, str],
    limit: float,
    kill: Kill | None = None,
    start: Start = fork_command,
) -> Ended | Killed:
    """A command from start to end, or to the moment of its death; raises TimeoutError after `limit`."""
    began = time.monotonic()
    child = start(arguments, folder, env)
    try:
        if kill is not None:
            seen = kill.wait(child, began + limit)
            if seen is not None:
                started = _kill(child)
                if child.returncode == -signal.SIGKILL:
                    return Killed(seen, started)
        try:
            status = child.wait(timeout=max(0.1, began + limit - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"callsheet {' '.join(arguments)} took over {limit:.0f} s") from error
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
            child.wait()
    seconds = time.monotonic() - began
    out, err = ((folder / name).read_text("utf-8", "replace") for name in ("stdout", "stderr"))
    return Ended(status, out, err, seconds)


class Counter:
    """Counts the durable events of a journal that another process writes, and writes nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def count(self) -> int:
        """The events there are; 0 as long as there is no journal."""
        try:
            if self._connection is None:
                if not self._path.exists():
                    return 0
                self._connection = sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True)
            return self._connection.execute("SELECT count(*) FROM events").fetchone()[0]
        except sqlite3.OperationalError:
            return 0

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


def _kill(child: Child) -> frozenset[Process]:
    """Kill a process; it is stopped first, so that what it has started can be listed."""
    child.send_signal(signal.SIGSTOP)
    started = frozenset(_below(child.pid))
    child.send_signal(signal.SIGKILL)
    child.wait()
    return started


def _below(pid: int) -> list[Process]:
    """The living child processes of a process, and their children."""
    of: dict[int, list[Process]] = {}
    for entry in _PROC.glob("[0-9]*"):
        fields = _stat(int(entry.name))
        if fields is not None:
            of.setdefault(int(fields[1]), []).append(Process(int(entry.name), fields[19]))
    found: list[Process] = []
    waiting = [pid]
    while waiting:
        children = of.get(waiting.pop(), [])
        found += children
        waiting += [child.pid for child in children]
    return found


def _stat(pid: int) -> list[str] | None:
    """The fields of a process after its name: state, parent, …; None if it has ended."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields


def still_alive(processes: frozenset[Process], grace: float) -> list[Process]:
    """Those that have not ended after `grace` seconds."""

    def alive() -> list[Process]:
        return [p for p in processes if (fields := _stat(p.pid)) is not None and fields[19] == p.started]

    wait_until(lambda: not alive(), grace)
    return alive()


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait until something is so, or the time is over."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
