"""The buffer of a run's events that are not in the journal yet; it chains hashes and does no I/O.

Events are appended at the end, in order, and removed at the front once a transaction has made them durable; a
failed transaction removes nothing. The last entry stays open for the intents that follow from its event,
until `seal` closes it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from hashlib import sha256
from operator import itemgetter
from typing import Any, TypeAlias

from callsheet.ir import IR_VERSION, Plan
from callsheet.ir.canon import plan_bytes
from callsheet.lazy import NamedTuple
from callsheet.machine.keys import place_of_key
from callsheet.sealing.sealer import Path, Sealer
from callsheet.store.blobs import INLINE_LIMIT
from callsheet.store.errors import JournalError, NotStorable
from callsheet.store.events import (
    NO_BODY,
    EventType,
    Head,
    chained,
    encode_body,
    encode_intent,
    identify,
    pack_numbers,
)

PLAIN_ROWS = 4
_RECORD_EVERY = 256
_MOST_TAIL_ROWS = 8
"""The most entries that go into a tail at once; for more, a transaction is cheap enough per entry."""
_MOST_TAIL_BYTES = 1_000
"""The largest body whose event may go into a tail."""
MOST_INTENTS = 128
"""The most intents of one entry."""


class PlanRow(NamedTuple):
    """The row of a plan."""

    plan_hash: str
    ir_version: int
    id: str | None
    title: str | None
    body: bytes
    source: bytes


class RunRow(NamedTuple):
    """The row of a new run."""

    plan_hash: str
    core_version: str
    owner: str
    created: float
    name: str
    goal: str | None
    tags: str | None
    search: str
    """As `run_index.RunNames` has it."""


class RunFacts(NamedTuple):
    """What the index of runs says of a run that has ended or waits; all None while it goes on."""

    ended: float | None = None
    """When it ended, in seconds since 1970."""
    failed_step: str | None = None
    """The step that it failed at, else the first that failed and that it went past."""
    waits_for: str | None = None
    cost: float | None = None
    tokens: int | None = None


NO_FACTS = RunFacts()


class StatusChange(NamedTuple):
    """A new status of a run, and the event that must be written before it or with it."""

    after_seq: int
    status: str
    wake_at: float | None
    facts: RunFacts = NO_FACTS


class Taken(NamedTuple):
    """A message that is removed from the inbox in the transaction of an event."""

    seq: int
    msg_id: str


class Blob(NamedTuple):
    """A large body that is still to be written, and the event it belongs to."""

    seq: int
    name: str
    data: bytes


_NO_PLACE = None, None, None
"""The step, item and attempt of an event without a key."""
_WORDS = {kind: kind.value for kind in EventType}
_seq = itemgetter(0)

Row: TypeAlias = """tuple[
    int, int, str, str | None, str | None, int | None, int | None, float, float,
    bytes | None, str | None, int, bytes | None, bytes
]"""
"""The row of an entry: the event's head, body and blob, then the count of events, intents and hash."""


_Open: TypeAlias = "tuple[Head, bytes | None, str | None, bytes, bytes]"
"""The open entry, which may still get intents: head, body, blob, body's digest, identifying line."""


class Portion(NamedTuple):
    """What one transaction writes of a run: all up to event `upto`, whose entry has the hash `hash`."""

    upto: int
    rows: list[Row]
    blobs: list[Blob]
    plans: list[PlanRow]
    run: RunRow | None
    status: StatusChange | None
    hash: bytes
    taken: list[Taken]
    records_head: bool
    """Whether the run's row is updated with this head of the chain."""


class Pending:
    """What a run has still to write: events, large bodies, plans, its own row, a status.

    `last_seq` is the last event, `last_hash` the hash of the last closed entry, written or not; `durable_seq`
    is the last event in the database or the tail. `number` is 0 until the run's row is in the database.
    `blocked` is why the last transaction failed, None if it did not. `lines` identify the entries in `rows`;
    the first `tailed` of these are in the tail. `last_ts` is the time of the last event, `last_body` the
    digest and size of its body.

    One thread may append while another writes: appending only touches the ends of the lists, and writing
    removes from their fronts.
    """

    def __init__(self, run_id: str, *, number: int, epoch: int, last_seq: int, last_hash: bytes) -> None:
        self.run_id = run_id
        self.number = number
        self.epoch = epoch
        self.last_seq = self.durable_seq = self.recorded_seq = last_seq
        self.last_hash = self.durable_hash = last_hash
        self.rows: list[Row] = []
        self.lines: list[bytes] = []
        self.tailed = 0
        self._open: _Open | None = None
        self._intents: list[bytes] = []
        self.blobs: list[Blob] = []
        self.taken: list[Taken] = []
        self.plans: list[PlanRow] = []
        self.run: RunRow | None = None
        self.status: StatusChange | None = None
        self.blocked: JournalError | None = None
        self.last_ts = 0.0
        self.last_body: tuple[bytes, int] = (NO_BODY, 0)
        self.sealer: Sealer | None = None
        """Seals secrets in bodies before they are buffered; None leaves bodies as they are."""

    def append(
        self,
        kind: EventType,
        key: str | None,
        ts: float,
        mono: float,
        body: Mapping[str, Any] | None,
        secret: Mapping[Path, str] | None = None,
    ) -> int:
        """Buffer an event; returns its sequence number. If it raises NotStorable, nothing is changed.

        `secret` are the parts of the body that are secret as a whole, by path, each with the reason.
        """
        seq = self.last_seq + 1
        kind_word = _WORDS[kind]
        data: bytes | None = None
        name: str | None = None
        digest = NO_BODY
        if body is not None:
            data = encode_body(kind_word, body)
            if self.sealer is not None:
                sealed = self.sealer.sealed(kind_word, body, data, secret)
                if sealed is not None:
                    data = encode_body(kind_word, sealed)
            digest = sha256(data).digest()
        step, index, attempt = _NO_PLACE if key is None else place_of_key(key)
        head: Head = (seq, self.epoch, kind_word, key, step, index, attempt, ts, mono)
        try:
            line = identify(self.run_id, head)
        except UnicodeEncodeError as error:
            raise NotStorable(kind_word, f"its key is not Unicode text ({error.reason})") from error
        if data is None:
            self.last_body = (digest, 0)
        else:
            self.last_body = (digest, len(data))
            if len(data) > INLINE_LIMIT:
                name = digest.hex()
                self.blobs.append(Blob(seq, name, data))
                data = None
        if self._open is not None:
            self.seal()
        self.last_ts = ts
        self._open = head, data, name, digest, line
        self.last_seq = seq
        return seq

    def intend(self, key: str, tool: str | None) -> int:
        """Add an intent to the open entry; returns its sequence number, or 0 if no entry can take it.

        If it raises NotStorable, nothing is changed.
        """
        if self._open is None or len(self._intents) >= MOST_INTENTS:
            return 0
        try:
            self._intents.append(encode_intent(key, tool))
        except UnicodeEncodeError as error:
            raise NotStorable("intent", f"its key is not Unicode text ({error.reason})") from error
        self.last_seq = seq = self.last_seq + 1
        return seq

    def seal(self) -> None:
        """Close the open entry, and chain it to the one before; later events go into new entries."""
        entry = self._open
        if entry is None:
            return
        self._open = None
        (seq, epoch, what, key, step, index, attempt, ts, mono), data, blob, digest, line = entry
        count, intents = 1, None
        if self._intents:
            count += len(self._intents)
            intents = b"[%b]" % b",".join(self._intents)
            self._intents = []
        self.last_hash = hashed = chained(
            self.last_hash, pack_numbers(seq, epoch, ts, mono), digest, line, intents
        )
        row = seq, epoch, what, key, step, index, attempt, ts, mono, data, blob, count, intents, hashed
        self.rows.append(row)
        self.lines.append(line)

    @property
    def is_empty(self) -> bool:
        """Whether everything is in the database."""
        return not (self.rows or self._open or self.status or self.plans or self.run)

    def plain_rows(self) -> list[Row] | None:
        """The pending entries, if there are only a few and nothing else is pending: a fast path."""
        return self.rows if 0 < len(self.rows) <= PLAIN_ROWS and self._is_plain() else None

    def for_the_tail(self) -> list[Row] | None:
        """The entries to append to the tail, identified by the last of the `lines`; None if not possible.

        A transaction is needed for anything but entries, after a failure, and for many entries or a large
        body, which should not be written twice.
        """
        if self.blocked is not None or not self.number or not self._is_plain():
            return None
        rows = self.rows[self.tailed :]
        return None if self.last_body[1] > _MOST_TAIL_BYTES or len(rows) > _MOST_TAIL_ROWS else rows

    def _is_plain(self) -> bool:
        """Whether only entries are pending, and the run's row need not be updated yet."""
        if self.status or self.blobs or self.taken or self.plans or self.run:
            return False
        return self.last_seq - self.recorded_seq < _RECORD_EVERY

    def put_into_tail(self) -> None:
        """Record that all entries are in the tail, where they survive this process."""
        self.tailed = len(self.rows)
        self.durable_seq = self.last_seq

    def written_plain(self) -> None:
        """Remove all entries, after `plain_rows` were written."""
        self.rows = []
        self.lines = []
        self.durable_seq = self.last_seq
        self.durable_hash = self.last_hash
        self.blocked = None

    def take(self, upto: int) -> Portion:
        """What a transaction should write: the entries up to `upto` and what belongs to them."""
        upto = max(upto, self.durable_seq)  # a commit may have overtaken the flush that asks
        rows = self.rows[: bisect_right(self.rows, upto, key=_seq)]
        status = self.status
        if status is not None and status.after_seq > upto:
            status = None
        return Portion(
            upto,
            rows,
            [blob for blob in self.blobs if blob.seq <= upto] if self.blobs else [],
            self.plans[:],
            self.run,
            status,
            rows[-1][-1] if rows else self.durable_hash,
            [message for message in self.taken if message.seq <= upto] if self.taken else [],
            status is not None or upto - self.recorded_seq >= _RECORD_EVERY,
        )

    def written(self, portion: Portion, number: int) -> None:
        """Remove a portion that was written; `number` is that of the run."""
        self.number = number
        self.run = None
        self.durable_seq = portion.upto
        self.durable_hash = portion.hash
        self.blocked = None
        del self.rows[: len(portion.rows)]
        del self.lines[: len(portion.rows)]
        self.tailed = max(0, self.tailed - len(portion.rows))
        if portion.blobs:
            del self.blobs[: len(portion.blobs)]
        if portion.taken:
            del self.taken[: len(portion.taken)]
        if portion.plans:
            del self.plans[: len(portion.plans)]
        if portion.records_head:
            self.recorded_seq = portion.upto
        if self.status is portion.status:
            self.status = None


def plan_row(plan: Plan, source: str) -> PlanRow:
    """The row of a plan with the text it was written as."""
    body = plan_bytes(plan)
    return PlanRow(
        sha256(body).hexdigest(),
        IR_VERSION,
        sayable(plan.id),
        sayable(plan.title),
        body,
        source.encode("utf-8", "surrogatepass"),
    )


def sayable(text: str | None) -> str | None:
    """A text without lone surrogates, which SQLite does not take."""
    return None if text is None else text.encode("utf-8", "replace").decode()
