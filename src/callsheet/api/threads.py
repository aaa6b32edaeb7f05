"""What a tool leaves running on a loop that is ours: threads and tasks, and none is waited for.

A plain function runs in a thread and cannot be stopped; a coroutine can swallow its cancellation. When it is
late, or the user has pressed Ctrl-C, nobody waits for its answer any more, and so who called must not either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

_T = TypeVar("_T")
_THREADS = 64
_GRACE = 1.0


async def with_own_threads(work: Coroutine[Any, Any, _T]) -> _T:
    """The coroutine's result, with threads of its own for the functions that it calls."""
    loop = asyncio.get_running_loop()
    threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="callsheet-tool")
    loop.set_default_executor(threads)
    try:
        return await work
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        # Closing the loop waits for its executor: it gets one that has nothing to do.
        loop.set_default_executor(ThreadPoolExecutor(1))


async def to_the_end(work: Coroutine[Any, Any, _T]) -> _T:
    """As `with_own_threads`, on a loop that is closed next."""
    try:
        return await with_own_threads(work)
    finally:
        await let_go()


async def let_go() -> None:
    """Cancel the tasks that are left, and let go of those that do not heed it within a second.

    Closing a loop cancels its tasks too, and waits for them for ever.
    """
    loop = asyncio.get_running_loop()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if not left:
        return
    _, deaf = await asyncio.wait(left, timeout=_GRACE)
    for task in deaf:  # documented under "Extending asyncio"; nothing else keeps the loop from waiting
        asyncio.tasks._unregister_task(task)  # pyright: ignore
    if deaf:  # they are destroyed while pending, which is no news
        loop.set_exception_handler(lambda _loop, _context: None)
