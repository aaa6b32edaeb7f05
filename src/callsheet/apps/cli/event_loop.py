"""Runs the coroutine of a command, without waiting for tasks and threads that cannot be stopped.

When a tool does not answer in time, or the user has pressed Ctrl-C, its answer is not waited for, so the
process must not wait either. SIGTERM and SIGHUP are handled like Ctrl-C.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Coroutine
from contextlib import suppress
from time import monotonic
from typing import Any, TypeVar

from callsheet.apps.cli.exit_status import Exit
from callsheet.runtime.event_loop import result_of, run_before_close

_T = TypeVar("_T")
_GRACE = 0.2


class TerminatedBySignal(KeyboardInterrupt):
    """Raised after SIGTERM or SIGHUP; `status` is the exit status."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = Exit(128 + number)


def run_async(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine and return its result. Raises KeyboardInterrupt if Ctrl-C has cancelled it.

    After SIGTERM or SIGHUP the exception is a `TerminatedBySignal`.
    """
    received: list[int] = []
    try:
        return result_of(_run_cancellable(work, received), asyncio.run)
    except asyncio.CancelledError:
        if not received:
            raise
        raise TerminatedBySignal(received[0]) from None


def _cancel_on_signals(loop: asyncio.AbstractEventLoop, received: list[int]) -> None:
    """Cancel this task on the first SIGTERM or SIGHUP; an ignored signal (nohup) stays ignored."""
    task = asyncio.current_task()
    assert task is not None

    def on_signal(number: int) -> None:
        received.append(number)
        if len(received) == 1:  # a closing terminal sends more than one
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            with suppress(ValueError, RuntimeError):  # signals are delivered only to the main thread
                loop.add_signal_handler(number, on_signal, number)


async def _run_cancellable(work: Coroutine[Any, Any, _T], received: list[int]) -> _T:
    _cancel_on_signals(asyncio.get_running_loop(), received)
    return await run_before_close(work)


def exit_process(status: int) -> None:
    """End the process immediately if a thread would keep it alive; otherwise return."""
    deadline = monotonic() + _GRACE
    for thread in threading.enumerate():
        if thread is threading.main_thread() or thread.daemon:
            continue
        thread.join(max(0.0, deadline - monotonic()))
        if thread.is_alive():
            with suppress(OSError, ValueError, AttributeError):
                sys.stdout.flush()
            with suppress(OSError, ValueError, AttributeError):
                sys.stderr.flush()
            os._exit(status)
