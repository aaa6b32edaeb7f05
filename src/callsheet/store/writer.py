"""The handle of the one process that may write a run: append, then commit or flush.

An event is believed only after a commit: launch nothing that an uncommitted event speaks of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from callsheet.ir import Plan
from callsheet.machine.keys import place_of_key
from callsheet.sealing.known import Known
from callsheet.sealing.sealer import Path
from callsheet.store.errors import Fenced, JournalError
from callsheet.store.events import EventType
from callsheet.store.ledger import Ledger
from callsheet.store.lock import RunLock
from callsheet.store.pending import Pending, StatusChange, Taken, plan_row

if TYPE_CHECKING:
    from callsheet.store.group import GroupWriter


class RunStatus(StrEnum):
    """What the journal says of a run as a whole."""

    RUNNING = "running"
    WAITING = "waiting"
    IN_DOUBT = "in_doubt"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    CORRUPT = "corrupt"

    @property
    def is_final(self) -> bool:
        """Whether a run of this status has ended; its events then include an `end`."""
        return self in _FINAL


_FINAL = frozenset({RunStatus.DONE, RunStatus.FAILED, RunStatus.REFUSED, RunStatus.CANCELLED})


class RunWriter:
    """Owns a run from `Journal.create_run` or `Journal.claim` until `close`.

    For one event loop or thread at a time; it cannot be used in a forked process.
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
        """How many owners the run has had, this one counted."""
        return self._pending.epoch

    @property
    def last_seq(self) -> int:
        """The sequence number of the last event appended, 0 before the first."""
        return self._pending.last_seq

    @property
    def last_ts(self) -> float:
        """The wall time that the last event has; that of an intent is the one of its entry."""
        return self._pending.last_ts

    @property
    def last_body(self) -> tuple[bytes, int]:
        """The SHA-256 of the last appended event's body, and how many bytes it has."""
        return self._pending.last_body

    @property
    def durable_seq(self) -> int:
        """The sequence number of the last event that is in the journal."""
        return self._pending.durable_seq

    @property
    def head_hash(self) -> bytes:
        """The hash of the last entry; the next one is chained to it."""
        self._pending.seal()
        return self._pending.last_hash

    @property
    def is_alone(self) -> bool:
        """Whether this is the only run that the journal has open for writing in this process."""
        return len(self._owned) == 1

    @property
    def blocked(self) -> JournalError | None:
        """Why the last commit failed; None again when one succeeds."""
        return self._pending.blocked

    def append(
        self,
        type: EventType,  # noqa: A002 - the event's own word
        *,
        key: str | None = None,
        step: str | None = None,
        index: int | None = None,
        attempt: int | None = None,
        body: Mapping[str, Any] | None = None,
        secret: Mapping[Path, str] | None = None,
    ) -> int:
        """Add an event to the next commit and give its sequence number.

        `secret` are the parts of the body that are secret as a whole, by their place, each with the reason.
        Raises NotStorable if the body is not JSON data, JournalError (SEC003) where something is secret and
        there can be no key; then nothing was appended.
        """
        if not self._lock.is_held:
            self._refuse()
        ts, mono = self._clock(), self._monotonic()
        return self._pending.append(type, key, step, index, attempt, ts, mono, body, secret)

    def intend(self, key: str, tool: str | None) -> int:
        """Note with the next commit that a call is about to leave; gives the event's sequence number.

        The intent stands in the journal beside the event that led to it. Raises NotStorable
        for a key that is not Unicode text.
        """
        if not self._lock.is_held:
            self._refuse()
        seq = self._pending.intend(key, tool)
        if seq:
            return seq
        step, index, attempt = place_of_key(key)
        body = None if tool is None else {"tool": tool}
        return self.append(EventType.INTENT, key=key, step=step, index=index, attempt=attempt, body=body)

    def date(self, moment: float) -> None:
        """Give all that is appended from now on this wall time: it happened then, elsewhere."""
        self._clock = self._monotonic = lambda: moment

    def take(self, msg_id: str) -> None:
        """Take a letter out of the inbox with the event that was appended last, in its transaction."""
        if not self._lock.is_held:
            self._refuse()
        self._pending.taken.append(Taken(self._pending.last_seq, msg_id))

    def set_status(self, status: RunStatus, wake_at: float | None = None) -> None:
        """Change the run's status with the next commit.

        `wake_at` is when its next timer is due, in seconds since 1970.
        """
        if not self._lock.is_held:
            self._refuse()
        self._pending.status = StatusChange(self._pending.last_seq, status.value, wake_at)

    def add_plan(self, plan: Plan, source: str) -> str:
        """Store another plan of this run (a re-plan's) with the next commit; gives its hash."""
        if not self._lock.is_held:
            self._refuse()
        row = plan_row(plan, source)
        self._pending.plans.append(row)
        return row.plan_hash

    def commit(self) -> bool:
        """Write everything appended so far, in one transaction; returns when it is durable.

        Gives whether some of it waits in the tail, where other processes do not see it. Raises
        JournalWriteFailed if the disk did not take it (what was appended is kept, a later commit may
        succeed) and Fenced if another process has taken the run over.
        """
        return self._ledger.write_own(self._begin(), self._lock)

    async def flush(self) -> None:
        """As `commit`, without blocking the event loop, and sharing the sync with all who flush now."""
        pending = self._begin()
        if not pending.is_empty:
            await self._group().submit(pending)

    def close(self) -> None:
        """Free the run for other owners; what was not committed is dropped.

        A run of which committed events could not be brought into the database yet stays owned by this
        process: whoever takes it over after its end finds them.
        """
        if self._lock.is_held and self._ledger.release(self._pending):
            self._owned.discard(self.run_id)
            self._lock.close()

    @property
    def has_sealed(self) -> bool:
        """Whether something of the run is sealed."""
        return self._pending.sealer is not None and self._pending.sealer.has_sealed

    def knows_in(self, text: str) -> bool:
        """Whether a secret that is known stands in the text."""
        return self._pending.sealer is not None and self._pending.sealer.knows_in(text)

    def know(self, secrets: Known) -> None:
        """Seal these as well, wherever they stand in what is appended from now on."""
        if self._pending.sealer is not None:
            self._pending.sealer.know(secrets)

    def go_on(self, declared: Known) -> None:
        """Go on with a run of which something is sealed, and that was given these secrets."""
        if self._pending.sealer is not None:
            self._pending.sealer.go_on(declared)

    @property
    def has_tail(self) -> bool:
        """Whether committed events wait in the tail, where other processes do not see them."""
        return self._pending.tailed > 0

    def settle(self) -> None:
        """Bring what waits in the tail into the database; what fails is told by the next commit."""
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
