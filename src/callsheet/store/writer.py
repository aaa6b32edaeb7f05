"""The handle with which the one owner of a run writes its events: append, then commit or flush.

An event counts only once it is committed: issue no call before its intent is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from enum import StrEnum
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from callsheet.ir import Plan
from callsheet.lazy import NamedTuple
from callsheet.machine import Outcome
from callsheet.sealing.known import Known
from callsheet.sealing.sealer import Path
from callsheet.store.errors import Fenced, JournalError
from callsheet.store.events import EventType
from callsheet.store.ledger import Ledger
from callsheet.store.lock import RunLock
from callsheet.store.pending import NO_FACTS, Pending, RunFacts, StatusChange, Taken, plan_row
from callsheet.store.run_index import facts_of_end

if TYPE_CHECKING:
    import asyncio


class RunStatus(StrEnum):
    """The status of a run, as recorded in the journal."""

    RUNNING = "running"
    WAITING = "waiting"
    IN_DOUBT = "in_doubt"
    PAUSED = "paused"
    """A person has stopped it; only a person lets it go on."""
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    CORRUPT = "corrupt"

    @property
    def is_final(self) -> bool:
        """Whether a run with this status has ended; its events then include an `end`."""
        return self in _FINAL

    @classmethod
    def _missing_(cls, value: object) -> RunStatus | None:
        """A run that is done with failures is done: only its recorded status tells the difference."""
        return cls.DONE if value == Outcome.DONE_WITH_FAILURES else None


_FINAL = frozenset({RunStatus.DONE, RunStatus.FAILED, RunStatus.REFUSED, RunStatus.CANCELLED})


class RunWriter:
    """Owns a run from `Journal.create_run` or `Journal.claim` until `close`.

    To be used by one event loop or thread at a time, and not in a forked process.
    """

    def __init__(
        self,
        pending: Pending,
        lock: RunLock,
        ledger: Ledger,
        group: Callable[[], GroupWriter],
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        owned: set[str],
    ) -> None:
        self._owned = owned
        self._owned.add(pending.run_id)
        self._pending = pending
        self._lock = lock
        self._ledger = ledger
        self._group = group
        self._clock = clock
        self._monotonic = monotonic

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._pending.run_id

    @property
    def epoch(self) -> int:
        """How many owners the run has had, including this one."""
        return self._pending.epoch

    @property
    def last_seq(self) -> int:
        """The sequence number of the last event appended; 0 before the first."""
        return self._pending.last_seq

    @property
    def last_ts(self) -> float:
        """The wall time of the last event; an intent has that of its entry."""
        return self._pending.last_ts

    @property
    def last_body(self) -> tuple[bytes, int]:
        """The SHA-256 of the last appended event's body, and its size in bytes."""
        return self._pending.last_body

    @property
    def durable_seq(self) -> int:
        """The sequence number of the last committed event."""
        return self._pending.durable_seq

    @property
    def head_hash(self) -> bytes:
        """The hash of the last entry, to which the next one is chained."""
        self._pending.seal()
        return self._pending.last_hash

    @property
    def is_alone(self) -> bool:
        """Whether this is the only run that this journal object has open for writing."""
        return len(self._owned) == 1

    @property
    def blocked(self) -> JournalError | None:
        """Why the last commit failed; None after one that succeeded."""
        return self._pending.blocked

    def append(
        self,
        type: EventType,  # noqa: A002 - the event's own word
        *,
        key: str | None = None,
        body: Mapping[str, Any] | None = None,
        secret: Mapping[Path, str] | None = None,
    ) -> int:
        """Add an event to the next commit; returns its sequence number.

        `key` is the key of a command, whose step, item and attempt are stored with it. `secret` are the parts
        of the body that are secret as a whole, by path, each with the reason. Raises NotStorable if the body
        is not JSON data, JournalError (SEC003) if something is secret and no key is available; nothing is
        appended then.
        """
        if not self._lock.is_held:
            self._refuse()
        ts, mono = self._clock(), self._monotonic()
        return self._pending.append(type, key, ts, mono, body, secret)

    def intend(self, key: str, tool: str | None) -> int:
        """Add the intent of a call, about to be issued, to the next commit; returns its sequence number.

        It is stored in the same entry as the event that led to it, if possible. Raises NotStorable for a key
        that is not Unicode text.
        """
        if not self._lock.is_held:
            self._refuse()
        seq = self._pending.intend(key, tool)
        if seq:
            return seq
        return self.append(EventType.INTENT, key=key, body=None if tool is None else {"tool": tool})

    def date(self, moment: float) -> None:
        """Give all events appended from now on this time, because they happened then, elsewhere."""
        self._clock = self._monotonic = lambda: moment

    def take_message(self, msg_id: str) -> None:
        """Remove a message from the inbox in the transaction that commits the event appended last."""
        if not self._lock.is_held:
            self._refuse()
        self._pending.taken.append(Taken(self._pending.last_seq, msg_id))

    def set_status(self, status: RunStatus, wake_at: float | None = None, facts: RunFacts = NO_FACTS) -> None:
        """Change the run's status with the next commit.

        `wake_at` is the time at which its next timer is due, in seconds since 1970. `facts` are those of a
        run that waits (`run_index.facts_of_rest`).
        """
        self._change_status(status.value, wake_at, facts)

    def set_outcome(self, outcome: Outcome, end: Mapping[str, Any]) -> None:
        """As `set_status`, for a run that has ended, after the event with the body `end`."""
        self._change_status(outcome.value, None, facts_of_end(end, self._pending.last_ts))

    def _change_status(self, status: str, wake_at: float | None, facts: RunFacts) -> None:
        if not self._lock.is_held:
            self._refuse()
        self._pending.status = StatusChange(self._pending.last_seq, status, wake_at, facts)

    def add_plan(self, plan: Plan, source: str) -> str:
        """Store another plan of this run, as of a re-plan, with the next commit; returns its hash."""
        if not self._lock.is_held:
            self._refuse()
        row = plan_row(plan, source)
        self._pending.plans.append(row)
        return row.plan_hash

    def commit(self) -> bool:
        """Write everything appended so far in one transaction; returns when it is durable.

        Returns whether some of it is in the tail, where other processes do not see it yet. Raises
        JournalWriteFailed if it could not be written (what was appended is kept, and a later commit may
        succeed) and Fenced if another process has taken over the run.
        """
        return self._ledger.write_own(self._begin(), self._lock)

    async def flush(self) -> None:
        """As `commit`, without blocking the event loop, and in one sync with all runs that flush now."""
        pending = self._begin()
        if not pending.is_empty:
            await self._group().submit(pending)

    def require_ours(self) -> None:
        """Raise Fenced if another process has taken over the run, as it can once the lock file is gone.

        For an owner that waits and commits nothing. Raises JournalWriteFailed if that cannot be found out.
        """
        if self._lock.is_held and not self._lock.is_named():
            self._ledger.require_ours(self._pending)

    def close(self) -> None:
        """Free the run for other owners; what was not committed is dropped.

        If committed events cannot be moved from the tail to the database, this process keeps the run until it
        has moved them, closes the journal or ends: whoever takes the run over then finds them.
        """
        if self._lock.is_held:
            self._owned.discard(self.run_id)
            self._ledger.release(self._pending, self._lock)

    @property
    def has_sealed(self) -> bool:
        """Whether the run has sealed data."""
        return self._pending.sealer is not None and self._pending.sealer.has_sealed

    def knows_in(self, text: str) -> bool:
        """Whether the text contains a known secret."""
        return self._pending.sealer is not None and self._pending.sealer.knows_in(text)

    def know(self, secrets: Known) -> None:
        """Seal these secrets too, wherever they occur in what is appended from now on."""
        if self._pending.sealer is not None:
            self._pending.sealer.know(secrets)

    def go_on(self, declared: Known) -> None:
        """Continue sealing in a run that has sealed data and was given these secrets."""
        if self._pending.sealer is not None:
            self._pending.sealer.go_on(declared)

    @property
    def has_tail(self) -> bool:
        """Whether committed events are in the tail, where other processes do not see them yet."""
        return self._pending.tailed > 0

    def settle(self) -> None:
        """Move the tail's entries into the database; a failure is raised by the next commit."""
        self._ledger.settle()

    def _begin(self) -> Pending:
        if not self._lock.is_held:  # as in a forked child
            self._refuse()
        pending = self._pending
        pending.seal()
        if isinstance(pending.blocked, Fenced):
            raise pending.blocked
        return pending

    def _refuse(self) -> None:
        self._ledger.check_process()
        raise ValueError(f"the writer of run {self.run_id} is closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


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
        import asyncio  # noqa: PLC0415 - not to read a journal

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
