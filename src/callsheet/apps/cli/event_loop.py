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
from collections.abc import Coroutine, Generator
from contextlib import contextmanager, suppress
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


_DEAF = 3.0
"""Seconds after which a loop that has not heard of a signal, since it computes, is left."""


@contextmanager
def _cancelling_on_signals(received: list[int]) -> Generator[None]:
    """Cancel this task on the first SIGTERM or SIGHUP; an ignored signal (nohup) stays ignored.

    A task that computes for so long that it does not hear of it gets a TerminatedBySignal where it is.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    is_heard, is_late = threading.Event(), threading.Event()

    def hear() -> None:
        is_heard.set()
        task.cancel()

    def insist(number: int) -> None:
        if not is_heard.wait(_DEAF):
            is_late.set()
            os.kill(os.getpid(), number)

    def on_signal(number: int, _frame: object) -> None:
        received.append(number)
        if is_late.is_set() and not is_heard.is_set():
            raise TerminatedBySignal(number)
        if len(received) == 1:  # a closing terminal sends more than one
            loop.call_soon_threadsafe(hear)
            threading.Thread(target=insist, args=(number,), daemon=True).start()

    before: dict[int, Any] = {}
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            with suppress(ValueError):  # signals are delivered only to the main thread
                before[number] = signal.signal(number, on_signal)
    try:
        yield
    finally:
        is_heard.set()
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


async def _run_cancellable(work: Coroutine[Any, Any, _T], received: list[int]) -> _T:
    with _cancelling_on_signals(received):
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
