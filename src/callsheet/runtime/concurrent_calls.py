"""Runs calls concurrently on an event loop, with extra tasks only for those that wait.

In: commands. Out: their events, as they arrive. A worker is a task that takes one command after another as
long as each ends without waiting; when a call waits, its worker waits with it and more workers are hired for
the rest. So every call runs in one task from start to end, as time-outs and cancel scopes require, and a
thousand calls that never wait cost one task, which has ended when `start` returns.
"""

from __future__ import annotations

import asyncio
import sys
import time
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

from callsheet.machine import Event
from callsheet.ports.threads import Waiting, begin_together, hops_made
from callsheet.ports.timeouts import give_up
from callsheet.runtime.gateway import Carried

_T = TypeVar("_T")

if sys.version_info >= (3, 12):

    def begin_now(coroutine: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """A task for a coroutine, which has run up to where it waits; to be called in a task."""
        return asyncio.Task(coroutine, loop=asyncio.get_running_loop(), eager_start=True)

else:

    def begin_now(coroutine: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """A task for a coroutine, which has run up to where it waits; to be called in a task.

        Python 3.11 has no such tasks, and its event loop will not change any more: its next turn, which
        is that of the new task, is taken out of the queue and done now. Other loops start the task later.
        """
        loop = asyncio.get_running_loop()
        ready: Any = getattr(loop, "_ready", None)
        task = asyncio.Task(coroutine, loop=loop)
        caller = asyncio.current_task(loop)
        if not ready or caller is None:
            return task
        turn = ready.pop()
        if getattr(turn._callback, "__self__", None) is not task:
            ready.append(turn)  # added by another thread in between
            return task
        asyncio.tasks._leave_task(loop, caller)
        try:
            turn._run()
        finally:
            asyncio.tasks._enter_task(loop, caller)
        return task


Begin: TypeAlias = "Callable[[Carried], Coroutine[Any, Any, Event]]"
"""Makes the coroutine that carries out a command."""

_PATIENCE = 5.0
"""Seconds that calls have to end when they are cancelled."""
_SECONDS_BETWEEN_YIELDS = 0.002
_MOST_TOGETHER = 32
"""How many calls share a hop to another thread."""
_HIRED_AT_ONCE = 2
"""How many workers a waiting one hires; with two, n waiting calls start in log n turns of the loop."""


class ConcurrentCalls:
    """The calls of one run: how many are `under_way`, and the events that have `arrived`."""

    def __init__(self, begin: Begin) -> None:
        self.arrived: list[Event] = []
        self._begin = begin
        self._waiting: deque[Carried] = deque()
        self.under_way = 0
        self._is_starting = False
        self._shares_hops = False
        self._workers: set[asyncio.Task[None]] = set()
        self._arrival: asyncio.Future[None] | None = None
        self._failure: BaseException | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no call is under way and no event has arrived."""
        return not self.under_way and not self.arrived

    def start(self, commands: Iterable[Carried]) -> None:
        """Start calls in this order; those that never wait may have arrived on return.

        It works for a limited time; `is_behind` says whether some calls remain to be started.
        """
        waiting, arrived = self._waiting, self.arrived
        before, had = len(waiting), len(arrived)
        waiting.extend(commands)
        if not waiting:
            return
        self.under_way += len(waiting) - before
        self._is_starting = True
        try:
            worker = begin_now(self._begin_all())
        finally:
            self._is_starting = False
            self.under_way -= len(arrived) - had
        if not worker.done():
            self._track(worker)
            self._hire_more()

    @property
    def is_behind(self) -> bool:
        """Whether calls wait to be started."""
        return bool(self._waiting)

    @property
    def are_workers_idle(self) -> bool:
        """Whether no worker has anything left to do."""
        return not self._workers and not self._waiting

    async def arrival(self) -> None:
        """Wait until an event arrives or `wake` is called.

        Raises what `fail` was given, and CancelledError if a call has cancelled the task that it runs in.
        """
        if self._failure is None:
            self._arrival = asyncio.get_running_loop().create_future()
            await self._arrival
            self._arrival = None
        if self._failure is not None:
            raise self._failure

    def collect(self) -> list[Event]:
        """Return and clear the events that have arrived."""
        batch, self.arrived = self.arrived, []
        return batch

    def deliver(self, event: Event) -> None:
        """Add an event that does not come from one of the calls."""
        self.arrived.append(event)
        self.wake()

    def wake(self) -> bool:
        """Wake the waiter of `arrival`, even without an event; return whether anybody waits."""
        arrival = self._arrival
        if arrival is not None and not arrival.done():
            arrival.set_result(None)
        return arrival is not None

    def fail(self, error: BaseException) -> None:
        """Raise an error for whoever waits for an `arrival`, now or next."""
        self._failure = error
        self.wake()

    def withdraw(self) -> list[Carried]:
        """Take back the commands that were not begun yet, and return them."""
        waiting = [*self._waiting]
        self._waiting.clear()
        self.under_way -= len(waiting)
        return waiting

    async def dismiss(self) -> None:
        """Cancel the calls under way; one that does not end is abandoned after a while."""
        self._waiting.clear()
        self.under_way = 0
        workers: set[asyncio.Future[Any]] = {worker for worker in self._workers if not worker.done()}
        self._workers.clear()
        if workers:
            await give_up(workers, _PATIENCE)

    def _track(self, worker: asyncio.Task[None]) -> None:
        self._workers.add(worker)
        worker.add_done_callback(self._ended)

    def _ended(self, worker: asyncio.Task[None]) -> None:
        """A worker is done; one that its call has cancelled cancels the run, as without others beside it."""
        is_ours = worker in self._workers
        self._workers.discard(worker)
        if is_ours and worker.cancelled():
            self.fail(asyncio.CancelledError())

    def _hire_more(self) -> None:
        """Hire workers for the queue; they start in a later turn, or each would start inside the previous
        one.
        """
        for _ in range(min(_HIRED_AT_ONCE, len(self._waiting))):
            self._track(asyncio.create_task(self._work()))

    async def _begin_all(self) -> None:
        """Carry out the queue on behalf of `start`, which detects whether this has to wait.

        Nothing is done here to detect it, so the case without waits is the cheapest. Once calls have hopped
        to another thread, the next ones share their hops.
        """
        waiting, begin, arrived = self._waiting, self._begin, self.arrived
        hops, shares, now = hops_made(), self._shares_hops, time.monotonic
        until = now() + _SECONDS_BETWEEN_YIELDS
        while self._is_starting and waiting:
            if shares:
                begun = begin_together(self._calls(until), arrived)
                for other in begun[1:]:
                    self._track(asyncio.create_task(self._end(other)))
                if begun:
                    await self._end(begun[0])
                    return
            else:
                event = await begin(waiting.popleft())
                if not self._is_starting:
                    self.arrived.append(event)
                    self.under_way -= 1
                    break
                arrived.append(event)
            if now() > until:
                break
        self._shares_hops = shares or hops_made() > hops + 1
        if not self._is_starting:
            await self._work()

    def _calls(self, until: float) -> Iterator[Coroutine[Any, Any, Event]]:
        """The next calls of the queue, as far as they may share a hop to another thread."""
        waiting, begin = self._waiting, self._begin
        for _ in range(min(len(waiting), _MOST_TOGETHER)):
            yield begin(waiting.popleft())
            if time.monotonic() > until:
                return

    async def _end(self, begun: Waiting) -> None:
        """Carry out the remainder of a call that has begun, and then the queue."""
        event = await _await_remainder(begun.call, begun.awaited)
        self.arrived.append(event)
        self.under_way -= 1
        await self._work()

    async def _work(self) -> None:
        waiting, begin, arrived, ended = self._waiting, self._begin, self.arrived, 0
        now = time.monotonic
        until = now() + _SECONDS_BETWEEN_YIELDS
        while waiting:
            call = begin(waiting.popleft())
            try:
                awaited = call.send(None)
            except StopIteration as end:  # it never waited, so nothing was scheduled
                event: Event = end.value
            else:
                self._hire_more()
                if ended:  # or the driver would look at nothing, with a commit
                    self.under_way -= ended
                    ended = 0
                    self.wake()
                event = await _await_remainder(call, awaited)
                arrived = self.arrived
            arrived.append(event)
            ended += 1
            if now() > until:
                self.under_way -= ended
                ended = 0
                self.wake()
                await asyncio.sleep(0)
                arrived = self.arrived
                until = now() + _SECONDS_BETWEEN_YIELDS
        self.under_way -= ended
        self.wake()


@types.coroutine
def _await_remainder(call: Coroutine[Any, Any, Event], awaited: Any) -> Generator[Any, Any, Event]:
    """Await the remainder of a call that waits for something."""
    while True:
        try:
            sent = yield awaited
        except GeneratorExit:
            call.close()
            raise
        except BaseException as error:
            try:
                awaited = call.throw(error)
            except StopIteration as end:
                return end.value
        else:
            try:
                awaited = call.send(sent)
            except StopIteration as end:
                return end.value
