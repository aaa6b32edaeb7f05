"""Runs a command's coroutine to its end, without waiting for tasks and threads that cannot be stopped.

When a tool is late or the user has pressed Ctrl-C, nobody waits for its answer any more, and so the
process must not either. SIGTERM and SIGHUP are taken as Ctrl-C is.
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

from callsheet.api.threads import to_the_end
from callsheet.apps.cli.exit_status import Exit

_T = TypeVar("_T")
_GRACE = 0.2


class TerminatedBySignal(KeyboardInterrupt):
    """A signal other than Ctrl-C's has ended the work; `status` is the exit status for it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = Exit(128 + number)


def run_async(work: Coroutine[Any, Any, _T]) -> _T:
    """The coroutine's result; raises KeyboardInterrupt after Ctrl-C, when it has been cancelled.

    After SIGTERM or SIGHUP it is an `TerminatedBySignal`.
    """
    received: list[int] = []
    try:
        return asyncio.run(_run_cancellable(work, received))
    except asyncio.CancelledError:
        if not received:
            raise
        raise TerminatedBySignal(received[0]) from None


def _cancel_on_signals(loop: asyncio.AbstractEventLoop, received: list[int]) -> None:
    """Let the first SIGTERM or SIGHUP cancel this task; one that is ignored (nohup) stays so."""
    task = asyncio.current_task()
    assert task is not None

    def take(number: int) -> None:
        received.append(number)
        if len(received) == 1:  # a terminal that closes sends more than one
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            with suppress(ValueError, RuntimeError):  # not in the main thread: nobody sends any there
                loop.add_signal_handler(number, take, number)


async def _run_cancellable(work: Coroutine[Any, Any, _T], received: list[int]) -> _T:
    _cancel_on_signals(asyncio.get_running_loop(), received)
    return await to_the_end(work)


def exit_process(status: int) -> None:
    """End the process now if a thread would keep it alive; return otherwise."""
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
