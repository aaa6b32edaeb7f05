"""Group commit: a thread that writes the pending events of many runs in one transaction with one sync.

Requests made in one iteration of an event loop are handed over together; those that arrive while a
transaction is being synced go into the next one. Imported only with the first `flush`.
"""

from __future__ import annotations

import asyncio
import threading
from queue import Empty, SimpleQueue
from typing import NamedTuple

from callsheet.store.ledger import Ledger
from callsheet.store.pending import Pending


class _Request(NamedTuple):
    pending: Pending
    upto: int
    done: asyncio.Future[None]


class _Turn(NamedTuple):
    loop: asyncio.AbstractEventLoop
    requests: list[_Request]


class GroupWriter:
    """The thread that writes what event loops hand over, in as few transactions as possible."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._mutex = threading.Lock()
        self._is_closed = False
        self._turns: dict[asyncio.AbstractEventLoop, list[_Request]] = {}
        self._queue: SimpleQueue[_Turn | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._drain, name="callsheet-journal", daemon=True)
        self._thread.start()

    def submit(self, pending: Pending) -> asyncio.Future[None]:
        """Write everything pending now; the future completes when it is durable, or with a JournalError."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        turn = self._turns.get(loop)
        if turn is None:
            turn = self._turns[loop] = []
            loop.call_soon(self._hand_over, loop)
        turn.append(_Request(pending, pending.last_seq, done))
        return done

    def close(self) -> None:
        """Write what was handed over and end the thread; later requests fail with ValueError."""
        with self._mutex:
            self._is_closed = True
            self._queue.put(None)
        self._thread.join()

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        requests = self._turns.pop(loop)
        with self._mutex:
            if not self._is_closed:
                self._queue.put(_Turn(loop, requests))
                return
        _answer([(request.done, ValueError("the journal is closed")) for request in requests])

    def _drain(self) -> None:
        is_open = True
        while is_open:
            turns: list[_Turn] = []
            turn = self._queue.get()
            try:
                while turn is not None:
                    turns.append(turn)
                    turn = self._queue.get_nowait()
                is_open = False
            except Empty:
                pass
            self._write(turns)

    def _write(self, turns: list[_Turn]) -> None:
        upto: dict[Pending, int] = {}
        for turn in turns:
            for request in turn.requests:
                upto[request.pending] = max(request.upto, upto.get(request.pending, 0))
        outcome: dict[Pending, BaseException | None]
        try:
            outcome = dict(zip(upto, self._ledger.write(list(upto.items())), strict=True))
        except BaseException as error:  # whatever it is, the waiting tasks must get it
            outcome = dict.fromkeys(upto, error)
        for loop, requests in turns:
            try:
                loop.call_soon_threadsafe(_answer, [(r.done, outcome[r.pending]) for r in requests])
            except RuntimeError:
                continue  # that loop is closed: nobody waits


def _answer(answers: list[tuple[asyncio.Future[None], BaseException | None]]) -> None:
    for done, error in answers:
        if done.done():
            continue
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)
