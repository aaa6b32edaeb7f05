"""Tasks that start eagerly: a coroutine that never waits has ended before its creator continues.

In: a coroutine. Out: its task, which has ended if the coroutine did not wait. It runs in a task of its own
from the start, as time-outs and cancel scopes require.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

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
