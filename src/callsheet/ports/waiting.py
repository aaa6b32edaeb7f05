"""Waiting for a call up to a time, and letting go of one that is late.

What is given up is cancelled. One that will not be cancelled, and answers after all, is heard: its
answer is told to who wants to note it, and to nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeAlias, TypeVar

from callsheet.ports.calls import ToolFailed

_T = TypeVar("_T")
OnLate: TypeAlias = "Callable[[Any], None]"
"""Takes the value, or the ToolFailed, that came after a call was given up."""

_GRACE = 0.2
"""Seconds that a call which was given up has to end before it is left to itself."""


async def within(
    seconds: float, call: Coroutine[Any, Any, _T] | Awaitable[_T], on_late: OnLate | None = None
) -> _T:
    """The call's value, or ToolFailed (in doubt) when it takes longer, cancelled or not."""
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
        if on_late is not None:
            task.add_done_callback(partial(_tell, on_late))
    finally:
        if not task.done():
            await give_up({task}, _GRACE)
    raise ToolFailed(f"no answer within {seconds:g} s", in_doubt=True)


async def give_up(tasks: set[asyncio.Future[Any]], seconds: float) -> None:
    """Cancel tasks and wait so long for them to end; one that does not is left to itself."""
    for task in tasks:
        task.cancel()
        task.add_done_callback(_forget)
    await asyncio.wait(tasks, timeout=seconds)


def _forget(task: asyncio.Future[Any]) -> None:
    """Look at the outcome of a task that nobody waits for, so that it is not reported as lost."""
    if not task.cancelled():
        task.exception()


def _tell(on_late: OnLate, task: asyncio.Future[Any]) -> None:
    """Tell the outcome of a task that was given up, unless it was cancelled as it was told to."""
    if task.cancelled():
        return
    error = task.exception()
    if error is None:
        on_late(task.result())
    elif isinstance(error, ToolFailed):
        on_late(error)
    else:
        on_late(ToolFailed(f"{type(error).__name__}: {error}"))
