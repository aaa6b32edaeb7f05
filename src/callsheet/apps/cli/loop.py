"""Runs a command's coroutine to its end, without waiting for threads that cannot be stopped.

A tool that is a plain function runs in a thread. When it is late or the user has pressed
Ctrl-C, nobody waits for its answer any more, and so the process must not either.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any, TypeVar

_T = TypeVar("_T")
_THREADS = 64
_GRACE = 0.2


def run_to_end(work: Coroutine[Any, Any, _T]) -> _T:
    """The coroutine's result; raises KeyboardInterrupt after Ctrl-C, when it has been cancelled."""
    return asyncio.run(_with_threads(work))


async def _with_threads(work: Coroutine[Any, Any, _T]) -> _T:
    loop = asyncio.get_running_loop()
    threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="callsheet-tool")
    loop.set_default_executor(threads)
    try:
        return await work
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        # Closing the loop waits for its executor: it gets one that has nothing to do.
        loop.set_default_executor(ThreadPoolExecutor(1))


def leave(status: int) -> None:
    """End the process now if a thread would keep it alive; return otherwise."""
    deadline = monotonic() + _GRACE
    for thread in threading.enumerate():
        if thread is threading.main_thread() or thread.daemon:
            continue
        thread.join(max(0.0, deadline - monotonic()))
        if thread.is_alive():
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
