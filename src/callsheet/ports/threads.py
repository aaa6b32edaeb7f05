"""Calls plain functions in threads, so that none blocks the event loop, and takes quick results at once.

A hop to a thread pool and back costs ten times what a small function does: a future, a callback and two turns
of the loop. So a call is given to an assistant, a thread that waits for it, and the loop waits a moment for
the result; calls that begin together share one hop. What takes longer than this moment is awaited as usual,
and the assistant is free again when it ends; until then, and for some calls of a function that turned out to
be slow, the pool is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import suppress
from contextvars import copy_context
from threading import Lock, Thread, local
from typing import TYPE_CHECKING, Any, TypeVar

from callsheet.ir import JSON
from callsheet.lazy import NamedTuple
from callsheet.ports.calls import CallContext, ToolFailed, ToolRaised

if TYPE_CHECKING:
    import asyncio

_MOMENT = 0.0005
"""Seconds that the event loop waits for a result."""
_MOST_MOMENTS = 4
"""How many moments it waits for calls that share a hop, each of which ends within one."""
_MOST_SKIPPED = 256
"""After how many calls of a slow function the assistant is tried again at the latest."""
_T = TypeVar("_T")


class _Job:
    """One call. `outcome` is its value or its exception, `is_left` says that nobody waits in place for it.

    To await it is to wait for the hop that it shares; it may not have begun after that.
    """

    __slots__ = ("_call", "_context", "_future", "_loop", "error", "is_done", "is_left", "value")

    def __init__(
        self, call: Callable[[], JSON], context: CallContext, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._call: Callable[[], JSON] | None = call
        self._context = context
        self._loop = loop
        self._future: asyncio.Future[None] | None = None
        self.value: JSON = None
        self.error: BaseException | None = None
        self.is_done = self.is_left = False

    def __await__(self) -> Generator[_Job]:
        yield self

    def work(self) -> None:
        """Carry out the call, in another thread."""
        call, self._call = self._call, None
        assert call is not None
        try:
            self.value = call()
        except GeneratorExit as error:  # raised in the loop, it would say that the call itself is closed
            self.error = ToolRaised("GeneratorExit")
            self.error.__cause__ = error
        except BaseException as error:
            self.error = error

    def announce(self) -> None:
        """Tell the loop that the call has ended, from another thread."""
        with suppress(RuntimeError):  # the loop is closed by now
            self._loop.call_soon_threadsafe(self._arrive)

    def _arrive(self) -> None:
        assert self._future is not None
        if not self._future.done():
            self._future.set_result(None)
        elif self.error is None:
            self._context.came_late(self.value)
        elif isinstance(self.error, ToolFailed):
            self._context.came_late(self.error)

    def leave(self) -> None:
        """Let the call be announced instead of waited for."""
        self._future = self._loop.create_future()
        self.is_left = True

    async def outcome(self) -> JSON:
        """The value; waits for a call that was left. If that is given up, the value is reported as late."""
        if self.is_left:
            assert self._future is not None
            await self._future
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.error = None  # which holds this frame
        return self.value


class _Desk:
    """Where a loop's thread and its assistant pass jobs to each other."""

    __slots__ = ("_begin", "_end", "_is_closed", "_jobs", "_mutex", "is_free")

    def __init__(self) -> None:
        self._begin, self._end, self._mutex = Lock(), Lock(), Lock()
        self._begin.acquire()
        self._end.acquire()
        self._jobs: list[_Job] = []
        self.is_free = True
        self._is_closed = False

    def try_now(self, jobs: list[_Job]) -> None:
        """Give jobs to the assistant, which does one after another.

        The first that is not done within a moment is left; those after it have not begun.
        """
        self.is_free = False
        self._jobs = jobs
        self._begin.release()
        moments, awaited = 1, jobs[0]
        while not self._end.acquire(timeout=_MOMENT):
            with self._mutex:
                job = next((each for each in jobs if not each.is_done), None)
                if job is not None and (job is awaited or moments >= _MOST_MOMENTS):
                    job.leave()
                    return
            moments, awaited = moments + 1, job or awaited
        self.is_free = True

    def close(self) -> None:
        """Let the assistant end."""
        self._is_closed = True
        if self.is_free:
            self._begin.release()

    def serve(self) -> None:
        """Do jobs until `close`; what the assistant's thread does."""
        while True:
            self._begin.acquire()
            if not self._jobs:
                return
            self._work()
            if self._is_closed:
                return

    def _work(self) -> None:
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            job.work()
            with self._mutex:
                job.is_done = True
            if job.is_left:
                self.is_free = True
                job.announce()
                return
        self._end.release()


class _Assistant:
    """Owns a desk and its thread, which end with the thread of the loop."""

    def __init__(self) -> None:
        self.desk = _Desk()
        Thread(target=self.desk.serve, name="callsheet-assistant", daemon=True).start()

    def __del__(self) -> None:
        self.desk.close()


class _Shared(NamedTuple):
    """A hop that the calls share which a task begins together."""

    task: asyncio.Task[Any] | None
    jobs: list[_Job]


class _Assistants(local):
    """The assistant of each thread that runs a loop, made with its first call, and the hop to be shared."""

    assistant: _Assistant | None = None
    shared: _Shared | None = None
    hops: int = 0

    def desk(self) -> _Desk:
        """The desk of this thread."""
        if self.assistant is None:
            self.assistant = _Assistant()
        return self.assistant.desk


_assistants = _Assistants()


def _forget_assistant() -> None:
    """Forget the assistant after a fork, which has not copied its thread."""
    _assistants.assistant = None


os.register_at_fork(after_in_child=_forget_assistant)


class Waiting(NamedTuple):
    """A call that has begun, and what it waits for: what its task has to yield for it."""

    call: Coroutine[Any, Any, Any]
    awaited: Any


def begin_together(calls: Iterable[Coroutine[Any, Any, _T]], ended: list[_T]) -> list[Waiting]:
    """Begin calls in the current task until one waits or stops sharing; their plain functions share one hop.

    Adds the outcomes of those that have ended to `ended`, and returns the others. Raises what a call raises,
    after it has gone on with all that have begun.
    """
    import asyncio  # noqa: PLC0415 - not to declare tools

    outer = _assistants.shared
    shared = _assistants.shared = _Shared(asyncio.current_task(), [])
    parked, waiting = list[Coroutine[Any, Any, _T]](), list[Waiting]()
    try:
        for call in calls:
            try:
                awaited = call.send(None)
            except StopIteration as end:
                ended.append(end.value)
            else:
                if type(awaited) is not _Job:
                    waiting.append(Waiting(call, awaited))
                    break
                parked.append(call)
            if _assistants.shared is not shared:
                break
    finally:
        _assistants.shared = outer
        if parked:
            _go_on(parked, shared.jobs, ended, waiting)
    return waiting


def _go_on(
    parked: list[Coroutine[Any, Any, _T]], jobs: list[_Job], ended: list[_T], waiting: list[Waiting]
) -> None:
    """Do the jobs that the calls are parked at, as far as they are quick, and go on with the calls."""
    desk = _assistants.desk()
    if desk.is_free:  # else the calls use the pool
        desk.try_now(jobs)
    failure: BaseException | None = None
    for call in parked:
        try:
            waiting.append(Waiting(call, call.send(None)))
        except StopIteration as end:
            ended.append(end.value)
        except BaseException as error:
            failure = failure or error
    if failure is not None:
        raise failure


def hops_made() -> int:
    """How many calls that began in this thread have had a hop of their own."""
    return _assistants.hops


def stop_sharing() -> None:
    """Let the call that begins have hops of its own.

    It has something others wait for, or may rely on staying in its task, as an `asyncio.timeout` does.
    """
    _assistants.shared = None


class Threaded:
    """Calls one function in threads."""

    __slots__ = ("_call", "_skipped", "_to_skip")

    def __init__(self, call: Callable[[dict[str, Any]], JSON]) -> None:
        self._call = call
        self._skipped = self._to_skip = 0

    async def __call__(self, bound: dict[str, Any], context: CallContext) -> JSON:
        """The value of a call. If that is given up, the outcome is reported to the context as a late one."""
        import asyncio  # noqa: PLC0415 - not to declare tools

        loop = asyncio.get_running_loop()
        run, call = copy_context().run, self._call
        job = _Job(lambda: run(call, bound), context, loop)
        shared = _assistants.shared
        if self._skipped < self._to_skip:
            self._skipped += 1
        elif shared is not None and shared.task is asyncio.current_task(loop):
            shared.jobs.append(job)
            await job
        elif (desk := _assistants.desk()).is_free:
            desk.try_now([job])
            _assistants.hops += 1
        if job.is_left:
            self._skipped, self._to_skip = 0, min(2 * self._to_skip + 4, _MOST_SKIPPED)
        elif job.is_done:
            self._skipped = self._to_skip = 0
        else:
            job.leave()
            loop.run_in_executor(None, _work_and_announce, job)
        return await job.outcome()


def _work_and_announce(job: _Job) -> None:
    job.work()
    job.announce()
