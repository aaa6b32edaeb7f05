"""Calls side by side on an event loop, with a task only for those that have to wait.

In: commands. Out: their events, as they arrive. A worker is a task that takes one command after
another as long as each ends at once; where a call waits, its worker waits with it and others
are hired for the rest. Calls are begun by a worker whom `start` watches; one that is resumed looks
after what is left by itself. So every call runs in one task from its first step to its last, as
time-outs and cancel scopes need it, and a thousand calls that never wait cost one task, which is
done when `start` is.
"""

from __future__ import annotations

import asyncio
import time
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any, TypeAlias

from callsheet.machine import Event
from callsheet.ports.waiting import give_up
from callsheet.runtime.eager import begin_now
from callsheet.runtime.gateway import Carried

Begin: TypeAlias = "Callable[[Carried], Coroutine[Any, Any, Event]]"
"""Makes the coroutine that carries out a command."""

_PATIENCE = 5.0
"""Seconds that calls have to end when they are dismissed."""
_SECONDS_BETWEEN_YIELDS = 0.002
_HIRED_AT_ONCE = 2
"""How many workers one that has to wait hires; two, so that n waiting calls start in log n turns."""


class Crew:
    """The calls of one run: how many are `under_way`, and the events of those that have `arrived`."""

    def __init__(self, begin: Begin) -> None:
        self.arrived: list[Event] = []
        self._begin = begin
        self._waiting: deque[Carried] = deque()
        self.under_way = 0
        self._is_starting = False
        self._workers: set[asyncio.Task[None]] = set()
        self._arrival: asyncio.Future[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way and nothing has arrived."""
        return not self.under_way and not self.arrived

    def start(self, commands: Iterable[Carried]) -> None:
        """Start calls, in this order; those that end without a wait may have arrived by then.

        A turn's work is done of them; `is_behind` says whether others have to be started later.
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
            self._keep(worker)
            self._hire_more()

    @property
    def is_behind(self) -> bool:
        """Whether calls wait for somebody to begin them."""
        return bool(self._waiting)

    @property
    def is_at_rest(self) -> bool:
        """Whether no worker has anything to do any more."""
        return not self._workers and not self._waiting

    async def arrival(self) -> None:
        """Wait until something arrives, or somebody wakes who waits."""
        self._arrival = asyncio.get_running_loop().create_future()
        await self._arrival
        self._arrival = None

    def collect(self) -> list[Event]:
        """All that has arrived by now."""
        batch, self.arrived = self.arrived, []
        return batch

    def deliver(self, event: Event) -> None:
        """Let an event arrive that no call of this crew has led to."""
        self.arrived.append(event)
        self.wake()

    def wake(self) -> bool:
        """Let who waits for arrivals look again, also where nothing has arrived; whether anybody waits."""
        arrival = self._arrival
        if arrival is not None and not arrival.done():
            arrival.set_result(None)
        return arrival is not None

    async def dismiss(self) -> None:
        """Cancel what is under way; a call that will not end is left to itself after a while."""
        self._waiting.clear()
        self.under_way = 0
        workers: set[asyncio.Future[Any]] = {worker for worker in self._workers if not worker.done()}
        self._workers.clear()
        if workers:
            await give_up(workers, _PATIENCE)

    def _keep(self, worker: asyncio.Task[None]) -> None:
        self._workers.add(worker)
        worker.add_done_callback(self._workers.discard)

    def _hire_more(self) -> None:
        """Hire others for what waits; their turn comes later, else each would begin inside the other."""
        for _ in range(min(_HIRED_AT_ONCE, len(self._waiting))):
            self._keep(asyncio.create_task(self._work()))

    async def _begin_all(self) -> None:
        """Carry out what waits, for `start`, which sees whether this has to wait.

        Nothing is done here to see that, so it takes least where nothing waits.
        """
        waiting, begin, arrived = self._waiting, self._begin, self.arrived
        now = time.monotonic
        until = now() + _SECONDS_BETWEEN_YIELDS
        while self._is_starting and waiting:
            event = await begin(waiting.popleft())
            if not self._is_starting:
                self.arrived.append(event)
                self.under_way -= 1
                break
            arrived.append(event)
            if now() > until:
                return
        if not self._is_starting:
            await self._work()

    async def _work(self) -> None:
        waiting, begin, arrived, ended = self._waiting, self._begin, self.arrived, 0
        now = time.monotonic
        until = now() + _SECONDS_BETWEEN_YIELDS
        while waiting:
            call = begin(waiting.popleft())
            try:
                awaited = call.send(None)
            except StopIteration as end:  # it never waits: nothing is scheduled for it
                event: Event = end.value
            else:
                self.under_way -= ended
                ended = 0
                self._hire_more()
                self.wake()
                event = await _rest(call, awaited)
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
def _rest(call: Coroutine[Any, Any, Event], awaited: Any) -> Generator[Any, Any, Event]:
    """Await what is left of a call that waits for something."""
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
