"""A process of the simulated machine, and its event loop in virtual time."""

# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from asyncio import base_events, events
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.simulation.kernel import Kernel
    from benchmarks.simulation.system import Connection


class Killed(KeyboardInterrupt):
    """Ends what a dead process was doing; nothing in callsheet catches it."""


class Process:
    """A process of the simulated machine: an event loop of its own, open files, and a count of its points."""

    def __init__(self, kernel: Kernel, name: str, number: int) -> None:
        self.kernel = kernel
        self.name = name
        self.number = number
        self.is_dead = False
        self.is_stopped = False
        self.epoch = 1
        """The epoch in which it owns its run."""
        self.is_stale = False
        """Whether another process has taken over its run."""
        self.fenced_at = 0
        """The last event that it may have written, once it is stale."""
        self.points = 0
        self.faults: dict[int, Callable[[], None]] = {}
        """What happens at its points, by their numbers."""
        self.passed: Counter[str] = Counter()
        """How often it has come to points of each kind."""
        self.traps: dict[tuple[str, int], Callable[[], None]] = {}
        """What happens when it comes to points of a kind for the so many-th time."""
        self.loop = _Loop(kernel)
        self.main: asyncio.Task[Any] | None = None
        self.files: dict[int, int] = {}
        """The descriptors of its open files, by the numbers that it knows them by."""
        self.connections: list[Connection] = []

    def start(self, work: Any) -> None:
        """Begin its only task."""
        self.main = self.loop.create_task(work)

    @property
    def is_done(self) -> bool:
        """Whether its task has ended by itself."""
        return not self.is_dead and self.main is not None and self.main.done()

    def due(self) -> float | None:
        """When its next turn is; None if it waits for nothing."""
        if self.is_dead or self.is_stopped or self.main is None or self.main.done():
            return None
        return self.loop.next_at()

    def turn(self) -> None:
        """Run its loop once."""
        with self.kernel.running(self), outside_loops(), suppress(Killed):
            events._set_running_loop(self.loop)
            self.kernel.point("turn")
            self.loop.turn()

    def end(self) -> None:
        """End it as a kill does: its locks are free, nothing of it happens any more, its files stay."""
        if self.is_dead:
            return
        self.is_dead = True
        for connection in self.connections:
            with suppress(sqlite3.Error):
                connection.abandon()
        for fd in self.files.values():
            os.close(fd)
        self.files.clear()

    def bury(self) -> None:
        """Drop its tasks, once none of its calls is on the stack."""
        if self.loop.is_closed():
            return
        if self.main is not None and self.main.done() and not self.main.cancelled():
            self.main.exception()
        self.main = None
        with self.kernel.running(self):
            for task in asyncio.all_tasks(self.loop):
                setattr(task, "_log_destroy_pending", False)  # noqa: B010 - it is not in its type
                with suppress(BaseException):
                    task.get_coro().close()
        self.loop.drop()
        for connection in self.connections:
            with suppress(sqlite3.Error):
                sqlite3.Connection.close(connection)


@contextmanager
def outside_loops() -> Generator[None]:
    """While inside, other event loops than the running one may have their turns."""
    running = events._get_running_loop()
    events._set_running_loop(None)
    try:
        yield
    finally:
        events._set_running_loop(running)


class _NoFiles:
    def select(self, timeout: float | None) -> list[Any]:
        return []


class _Loop(base_events.BaseEventLoop):
    """An event loop in virtual time, which never waits."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        super().__init__()
        self._selector = _NoFiles()
        self._clock_resolution = 1e-9
        self._thread_id = threading.get_ident()
        self.set_exception_handler(kernel.unhandled)

    def time(self) -> float:
        return self._kernel.now

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """What another thread would do, as a later turn."""
        done = self.create_future()

        def work() -> None:
            try:
                value = func(*args)
            except Exception as error:
                if not done.cancelled():  # a thread goes on when nobody waits for it any more
                    done.set_exception(error)
            else:
                if not done.cancelled():
                    done.set_result(value)

        self.call_soon(work)
        return done

    def turn(self) -> None:
        """Call what is due."""
        self._inner._run_once()

    def drop(self) -> None:
        """Drop all that it would do, and close it."""
        self._inner._ready.clear()
        self._inner._scheduled.clear()
        self._thread_id = None
        self.close()

    def next_at(self) -> float | None:
        """When it has something to do; None if never."""
        if self._inner._ready:
            return self._kernel.now
        return min((one._when for one in self._inner._scheduled if not one._cancelled), default=None)

    @property
    def _inner(self) -> Any:
        return self
