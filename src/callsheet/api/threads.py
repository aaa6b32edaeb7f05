"""Threads for functions that are not async, on a loop that is ours: many, and none is waited for.

A plain function cannot be stopped. When it is late, or the user has pressed Ctrl-C, nobody waits
for its answer any more, and so who called must not either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

_T = TypeVar("_T")
_THREADS = 64


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
