"""The event loop of runs: what is computed outside of it, and how it is closed whatever tools left running.

A plain function runs in a thread and cannot be stopped; a coroutine can swallow its cancellation. After a
time-out or Ctrl-C nobody needs their results, so the caller must not be blocked by them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

_T = TypeVar("_T")


class Offload(Protocol):
    """Runs a function outside the event loop."""

    async def __call__(self, look: Callable[[], _T], /) -> _T:
        """Return or raise what `look` returns or raises."""
        ...


async def at_once(look: Callable[[], _T], /) -> _T:
    """Run `look` on the loop itself, for callers that are alone on it."""
    return look()


async def to_its_end(offload: Offload, look: Callable[[], _T]) -> _T:
    """Return or raise what `look` does; a cancelled caller leaves only after it has ended.

    Resources that it uses can then be closed safely.
    """
    if offload is at_once:
        return look()
    task = asyncio.ensure_future(offload(look))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


_THREADS = 64
_GRACE = 1.0


async def with_own_threads(work: Coroutine[Any, Any, _T]) -> _T:
    """Await a coroutine with a thread pool of its own, and do not wait for the pool afterwards."""
    loop = asyncio.get_running_loop()
    threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="callsheet-tool")
    loop.set_default_executor(threads)
    try:
        return await work
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        # Closing the loop waits for its executor, so give it an idle one.
        loop.set_default_executor(ThreadPoolExecutor(1))


async def run_before_close(work: Coroutine[Any, Any, _T]) -> _T:
    """Like `with_own_threads`, for a loop that is about to be closed."""
    try:
        return await with_own_threads(work)
    finally:
        await end_tasks()


def result_of(work: Coroutine[Any, Any, _T], run: Callable[[Coroutine[Any, Any, None]], None]) -> _T:
    """What a coroutine gives that `run` runs in an event loop, such as `asyncio.run`.

    It does not become the result of the loop's own task: when asyncio gives SIGINT back, it makes a text of
    that task and its result twice, which takes longer than many a run.
    """
    results: list[_T] = []

    async def keep() -> None:
        results.append(await work)

    run(keep())
    return results[0]


async def end_tasks() -> None:
    """Cancel the remaining tasks, and abandon those that have not ended within a second.

    Closing a loop cancels its tasks too, but waits for them without a limit.
    """
    loop = asyncio.get_running_loop()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if not left:
        return
    _, deaf = await asyncio.wait(left, timeout=_GRACE)
    for task in deaf:  # documented under "Extending asyncio"; the only way to keep the loop from waiting
        asyncio.tasks._unregister_task(task)  # pyright: ignore
    if deaf:  # silence "Task was destroyed but it is pending"
        loop.set_exception_handler(lambda _loop, _context: None)
