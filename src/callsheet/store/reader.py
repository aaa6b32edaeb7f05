"""Reads the events of runs, with their bodies, and the plans of a journal.

In: a read-only connection. Out: values. Events are read page by page, with no transaction held between pages.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, TypeAlias

from callsheet.ir import Plan, plan_from_json
from callsheet.machine.keys import place_of_key, step_of
from callsheet.store.blobs import BlobDropped, BlobMissing, read_blob
from callsheet.store.connections import ReadConnection
from callsheet.store.errors import JournalError, damaged
from callsheet.store.events import (
    Entry,
    Event,
    EventType,
    Stored,
    decode_bodies,
    decode_body,
    decode_intents,
)
from callsheet.store.journal_paths import JournalPaths
from callsheet.store.mailbox import UNREAD, Message, read_message
from callsheet.store.pending import MOST_INTENTS
from callsheet.store.runs import Runs
from callsheet.store.schema import SEQ_BITS

_PAGE = 500
_LARGE_PAGE = 5_000
_SHORT = frozenset({EventType.OK, EventType.ERR})
COVERS = 11
"""The index of the column that says how many events an entry has."""

_EVENTS = """
SELECT id, epoch, type, key, step, idx, attempt, ts, mono, body, blob, covers, intents, hash
FROM events WHERE id > ? AND id < ? ORDER BY id LIMIT ?
"""
_ENTRIES = """
SELECT id, type, key, ts, body, blob, covers, intents, epoch
FROM events WHERE id > ? AND id < ? ORDER BY id LIMIT ?
"""
_TOLD = """
SELECT id - ?, type, key, body, blob FROM events
WHERE id > ? AND id < ? AND type NOT IN ('intent', 'timer', 'ask', 'late', 'snapshot', 'end') ORDER BY id
"""
_LAST_SNAPSHOT = (
    "SELECT id FROM events WHERE id > ? AND id < ? AND type = 'snapshot' ORDER BY id DESC LIMIT 1"
)
_LAST_OF_STEPS = (
    "SELECT id FROM events WHERE id > ? AND id < ? AND type IN ('ok', 'err', 'decided', 'signal')"
    " AND step IN (%s) ORDER BY id DESC LIMIT 1"
)
_LAST_OF = _EVENTS.replace("ORDER BY id LIMIT ?", "AND type = ? ORDER BY id DESC LIMIT 1")
_ANY_OF = "SELECT 1 FROM events WHERE id > ? AND id < ? AND type IN (%s) LIMIT 1"
_ASKED = _EVENTS.replace(
    "ORDER BY id LIMIT ?",
    "AND type IN ('ask', 'signal', 'server_asks', 'server_told', 'policy', 'edit', 'cancel', 'end')"
    " ORDER BY id",
)


Told: TypeAlias = "list[Any]"
"""Type, key and body of an event, and the hash of a large body instead of it."""


class Reader(ReadConnection):
    """Reads the events and plans of a journal through one connection; `runs` lists its runs."""

    def __init__(
        self,
        place: JournalPaths,
        connection: sqlite3.Connection | None = None,
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(place, connection, settle)
        self._blobs = place.blobs
        self.runs = Runs(self)

    def events(self, run_id: str, after: int = 0, *, lenient: bool = False) -> Iterator[Event]:
        """The events of a run after a sequence number, in order, with their whole bodies.

        With `lenient`, a body that was dropped is `{"dropped": bytes}`. Raises JournalError: JRN002 for an
        unknown run, JRN012 at an event that cannot be read, JRN015 at one that was dropped.
        """
        base = self.runs.base_of(run_id)
        after = min(after, 1 << SEQ_BITS)  # no run has so many
        before = max(0, after - MOST_INTENTS)  # the entry that contains `after`
        while page := self.page(base, before):
            for row in page:
                covers = row[COVERS]
                if isinstance(covers, int) and row[0] - base + covers <= after + 1:
                    continue
                for event in self._entry(run_id, base, row, lenient=lenient):
                    if event.seq > after:
                        yield event
            before = page[-1][0] - base

    def entries(self, run_id: str, after: int = 0) -> Iterator[Entry]:
        """The entries of a run after sequence number `after`, in order; raises as `events` does.

        Reading entries takes a quarter of the time of reading events.
        """
        base = self.runs.base_of(run_id)
        after = min(after, 1 << SEQ_BITS)  # no run has so many
        while True:
            page = self.select_many(_ENTRIES, (base + after, base + (1 << SEQ_BITS), _LARGE_PAGE))
            at_once = decode_bodies([row[4] for row in page if row[4] is not None and row[1] in _SHORT])
            for row_id, kind, key, ts, body, blob, covers, intents, epoch in page:
                seq = row_id - base
                try:
                    if at_once is not None and body is not None and kind in _SHORT:
                        data = next(at_once)
                    elif kind == EventType.SNAPSHOT:
                        data = None
                    elif blob is not None:
                        data = self._large(blob, run_id, lenient=False)[0]
                    else:
                        data = None if body is None else decode_body(body)
                except (BlobMissing, ValueError, AttributeError, TypeError, RecursionError) as error:
                    raise damaged(f"event {seq} of run {run_id} cannot be read: {error}") from error
                yield Entry(seq, kind, key, ts, data, seq + covers - 1, intents, epoch)
            if len(page) < _LARGE_PAGE:
                return
            after = page[-1][0] - base

    def last_of(self, run_id: str, kind: EventType) -> Event | None:
        """The last event of a type; None if the run has none. Raises as `events` does."""
        base = self.runs.base_of(run_id)
        rows = self.select(_LAST_OF, (base, base + (1 << SEQ_BITS), kind))
        return next((last for row in rows for last in self._entry(run_id, base, row, lenient=True)), None)

    def external_events(self, run_id: str) -> tuple[list[int], list[Told]]:
        """What came into a run from outside after its start, as stored, and the numbers of those events.

        Two runs of one plan with equal starts and equal results here have done the same.
        """
        base = self.runs.base_of(run_id)
        rows = self.select_many(_TOLD, (base, base + 1, base + (1 << SEQ_BITS)))
        return [seq for seq, *_ in rows], [row for _, *row in rows]

    def messages(self, run_id: str) -> list[Message]:
        """The messages to a run that are still in its inbox, oldest first."""
        return [
            message for row in self.select(UNREAD, (run_id,)) if (message := read_message(row)) is not None
        ]

    def question_events(self, run_id: str) -> list[Event]:
        """The events of a run about questions to people, and those that end or change it, in order."""
        base = self.runs.base_of(run_id)
        rows = self.select(_ASKED, (base, base + (1 << SEQ_BITS)))
        return [next(self._entry(run_id, base, row)) for row in rows]

    def plan(self, plan_hash: str) -> tuple[Plan, str]:
        """A stored plan and its source text, by its hash.

        Raises JournalError: JRN014 if there is none, JRN012 if it is not what was written.
        """
        rows = self.select("SELECT body, source FROM plans WHERE plan_hash = ?", (plan_hash,))
        if not rows:
            raise JournalError("JRN014", f"there is no plan {plan_hash[:80]!a} in this journal")
        ((body, source),) = rows
        if not isinstance(body, bytes) or sha256(body).hexdigest() != plan_hash:
            raise damaged(f"plan {plan_hash[:12]} is not what was written")
        try:
            text = source.decode("utf-8", "surrogatepass")
        except (UnicodeDecodeError, AttributeError) as error:
            raise damaged(f"the text of plan {plan_hash[:12]} is not what was written") from error
        plan = plan_from_json(decode_body(body))
        if plan.tree is not None:
            from callsheet.frontends.spelling import is_python  # noqa: PLC0415 - only for version 2

            plan = replace(plan, in_python=is_python(text))
        return plan, text

    def plan_of(self, plan_hash: str) -> Plan:
        """A stored plan by its hash; raises as `plan` does."""
        return self.plan(plan_hash)[0]

    def last_snapshot(self, run_id: str, upto: int | None = None) -> int | None:
        """The number of the last event, up to `upto`, that is a snapshot; raises JournalError (JRN002)."""
        base = self.runs.base_of(run_id)
        end = base + (1 << SEQ_BITS if upto is None else upto + 1)
        rows = self.select(_LAST_SNAPSHOT, (base, end))
        return rows[0][0] - base if rows else None

    def last_outcome(self, run_id: str, steps: Sequence[str]) -> int | None:
        """The number of the last event with an outcome for one of these steps, by id.

        Raises JournalError (JRN002) for an unknown run.
        """
        base = self.runs.base_of(run_id)
        query = _LAST_OF_STEPS % ",".join("?" * len(steps))
        rows = self.select(query, (base, base + (1 << SEQ_BITS), *steps))
        return rows[0][0] - base if rows else None

    def has_any(self, run_id: str, *types: EventType) -> bool:
        """Whether a run has an event of one of these types; raises JournalError (JRN002)."""
        base = self.runs.base_of(run_id)
        query = _ANY_OF % ",".join("?" * len(types))
        return bool(self.select(query, (base, base + (1 << SEQ_BITS), *types)))

    def bodies(self, run_id: str, seqs: Iterable[int]) -> Iterator[Stored]:
        """The bodies of the events with these numbers, in order, as bytes.

        An event that does not exist or has no body is left out. Raises JournalError: JRN002 for an unknown
        run, JRN012 if a large body is missing.
        """
        base = self.runs.base_of(run_id)
        wanted = [base + seq for seq in sorted(seqs)]
        for at in range(0, len(wanted), _PAGE):
            ids = wanted[at : at + _PAGE]
            marks = ",".join("?" * len(ids))
            rows = self.select(
                f"SELECT id, type, body, blob FROM events WHERE id IN ({marks}) ORDER BY id", tuple(ids)
            )
            for row_id, kind, body, blob in rows:
                try:
                    data = body if blob is None else self.blob(blob)
                except BlobMissing as error:
                    raise damaged(f"event {row_id - base} of run {run_id} cannot be read: {error}") from error
                if data is not None:
                    yield Stored(row_id - base, kind, data)

    def hash_at(self, run_id: str, seq: int) -> bytes | None:
        """The hash of the entry that ends with the event `seq`; None if none does."""
        rows = self.select(
            "SELECT hash FROM events WHERE id = (SELECT max(id) FROM events WHERE id > ? AND id <= ?)"
            " AND id + covers - 1 = ?",
            (base := self.runs.base_of(run_id), base + seq, base + seq),
        )
        return rows[0][0] if rows else None

    def page(self, base: int, after: int, most: int = _PAGE) -> list[tuple[Any, ...]]:
        """At most `most` entries after event `after` of the run whose ids start at `base`, as rows."""
        return self.select(_EVENTS, (base + after, base + (1 << SEQ_BITS), most))

    def _large(self, name: str, run_id: str, *, lenient: bool) -> tuple[Any, int]:
        """A large body and its size in bytes; with `lenient` also for one that was dropped."""
        try:
            data = self.blob(name)
        except BlobDropped as dropped:
            if lenient:
                return {"dropped": dropped.size}, dropped.size
            raise JournalError(
                "JRN015",
                f"the large values of run {run_id} were pruned, so its steps cannot be shown any more",
                hint="`callsheet show RUN --events` and `callsheet runs verify` still work",
            ) from dropped
        return decode_body(data), len(data)

    def _entry(
        self, run_id: str, base: int, row: tuple[Any, ...], *, lenient: bool = False
    ) -> Iterator[Event]:
        """The events of an entry: its own, then its intents."""
        row_id, epoch, kind, key, step, index, attempt, ts, mono, body, blob, _, intents, hashed = row
        seq = row_id - base
        try:
            size = 0 if body is None else len(body)
            data = None
            if blob is not None:
                data, size = self._large(blob, run_id, lenient=lenient)
            elif body is not None:
                data = decode_body(body)
            left = [] if intents is None else _intents(intents)
            event = Event(
                run_id,
                seq,
                epoch,
                EventType(kind),
                key,
                step,
                index,
                attempt,
                ts,
                mono,
                data,
                hashed,
                size,
            )
        except (BlobMissing, ValueError, AttributeError, TypeError, RecursionError) as error:
            raise damaged(f"event {seq} of run {run_id} cannot be read: {error}") from error
        yield event
        for at, (place, intent) in enumerate(left, seq + 1):
            yield Event(run_id, at, epoch, EventType.INTENT, *place, ts, mono, intent, hashed)

    def blob(self, name: str) -> bytes:
        """A large body as stored, by its name. Raises BlobMissing or BlobDropped."""
        with self.reading() as connection:
            return read_blob(connection, self._blobs, name)

    def blob_digest(self, name: str) -> bytes:
        """The digest of a large body; for one that was dropped, the recorded one."""
        try:
            return sha256(self.blob(name)).digest()
        except BlobDropped:
            return bytes.fromhex(name)


_Place: TypeAlias = "tuple[str, str, int, int]"
"""A call's key, step, item and attempt."""


def _intents(data: bytes) -> list[tuple[_Place, dict[str, str] | None]]:
    """For each intent in an entry, its call and its body."""
    return [
        ((key, *place_of_key(key)), None if tool is None else {"tool": tool})
        for key, tool in decode_intents(data)
    ]


_NEWEST = 1_000
"""How many of the newest runs are searched for one of the plan."""
_LEAST = 1e-6

_LAST_DONE = f"""
SELECT number FROM (SELECT number, plan_hash, status, created FROM runs ORDER BY created DESC LIMIT {_NEWEST})
WHERE plan_hash = ? AND status IN ('done', 'done_with_failures') ORDER BY created DESC, number DESC LIMIT 1
"""
_TIMES = "SELECT type, key, epoch, ts, intents FROM events WHERE id > ? AND id < ? ORDER BY id"
_ENDS = frozenset({EventType.OK, EventType.ERR})


def step_seconds(reader: Reader, plan_hash: str) -> dict[str, float]:
    """Seconds from each step's first call to its last outcome, in the plan's last run that is done.

    Steps that made no call, and those that continued in another process, are omitted; empty if there is no
    such run. Raises JournalError (JRN012).
    """
    rows = reader.select(_LAST_DONE, (plan_hash,))
    if not rows:
        return {}
    base = rows[0][0] << SEQ_BITS
    began: dict[str, tuple[int, float]] = {}
    took: dict[str, float] = {}
    for kind, key, epoch, ts, intents in reader.select(_TIMES, (base, base + (1 << SEQ_BITS))):
        if kind in _ENDS and key is not None:
            step = step_of(key)
            start = began.get(step)
            if start is not None and start[0] == epoch:
                took[step] = round(max(ts - start[1], _LEAST), 6)
        elif kind == EventType.INTENT and key is not None:
            began.setdefault(step_of(key), (epoch, ts))
        for intent_key, _ in [] if intents is None else decode_intents(intents):
            began.setdefault(step_of(intent_key), (epoch, ts))
    return took
