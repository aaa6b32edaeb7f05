"""The reading side: runs, their events and plans.

In: one connection that cannot write. Out: values. No read transaction outlives a call, or a
page of events, so that readers never hold a checkpoint back.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

from callsheet.diagnostics import did_you_mean
from callsheet.ir import Plan, plan_from_json
from callsheet.machine.keys import place_of_key
from callsheet.store.blobs import BlobDropped, BlobMissing, read_blob
from callsheet.store.errors import JournalError
from callsheet.store.events import (
    Entry,
    Event,
    EventType,
    Stored,
    decode_bodies,
    decode_body,
    decode_intents,
)
from callsheet.store.ids import may_begin_run_id
from callsheet.store.inbox import UNREAD, Letter, read_letter
from callsheet.store.pending import MOST_INTENTS
from callsheet.store.place import Place
from callsheet.store.schema import SEQ_BITS, connect_reading, is_of_the_disk, unusable
from callsheet.store.writer import RunStatus

_PAGE = 500
_LARGE_PAGE = 5_000
_SHORT = frozenset({EventType.OK, EventType.ERR})
_COVERS = 11
"""The column of an entry that says how many events it holds."""

_RUNS = f"""
SELECT run_id, status, runs.plan_hash, plans.id, plans.title, parent_run, owner, runs.epoch, wake_at,
       runs.created, updated, COALESCE(last.id + last.covers - 1 - (number << {SEQ_BITS}), 0), last.hash,
       last.ts, core_version, forked_at
FROM runs JOIN plans USING (plan_hash)
LEFT JOIN events AS last ON last.id = (
    SELECT max(id) FROM events WHERE id > number << {SEQ_BITS} AND id < (number + 1) << {SEQ_BITS}
)
"""
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
_ANY_OF = "SELECT 1 FROM events WHERE id > ? AND id < ? AND type IN (%s) LIMIT 1"
_ASKED = _EVENTS.replace(
    "ORDER BY id LIMIT ?", "AND type IN ('ask', 'signal', 'policy', 'edit', 'cancel', 'end') ORDER BY id"
)


Told: TypeAlias = "list[Any]"
"""Type, key and body of an event; the hash of a large body."""


class RunInfo(NamedTuple):
    """A run as a list shows it.

    `events` is how many events it has, `head_hash` the last one's hash; `created`, `updated`
    and `wake_at` are seconds since 1970; `plan_id` and `title` are its plan's.
    """

    run_id: str
    status: RunStatus
    plan_hash: str
    plan_id: str | None
    title: str | None
    parent_run: str | None
    owner: str | None
    epoch: int
    wake_at: float | None
    created: float
    updated: float
    events: int
    head_hash: bytes | None
    core_version: str
    forked_at: int | None = None
    """Of a run that was forked: the event of its parent up to which it has that run's events."""


class Reader:
    """Reads a journal through one connection; for any thread.

    `settle` is called before each read: it brings into the database what is committed and not there yet.
    """

    def __init__(
        self,
        place: Place,
        connection: sqlite3.Connection | None = None,
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        self._place = place
        self._settle = settle
        self._mutex = threading.Lock()
        self._connection = connection or connect_reading(place.database)

    def close(self) -> None:
        """Close the connection."""
        with self._mutex:
            self._connection.close()

    def runs(self, limit: int | None = None, status: RunStatus | None = None) -> list[RunInfo]:
        """The runs, the newest first, at most `limit`, of one `status` if given."""
        return self._infos(
            "WHERE ? IS NULL OR status = ? ORDER BY runs.created DESC, number DESC LIMIT ?",
            (status, status, -1 if limit is None else limit),
        )

    def run(self, run_id: str) -> RunInfo | None:
        """The run of exactly this id, or None."""
        return next(iter(self._infos("WHERE run_id = ?", (run_id,))), None)

    def has_run(self, run_id: str) -> bool:
        """Whether there is a run of this id; what waits in tails is of runs that are in the database."""
        with self._reading(settles=False):
            found = self._connection.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        return found is not None

    def children(self, run_id: str) -> list[RunInfo]:
        """The runs that were forked from a run, the oldest first."""
        return self._infos(
            "WHERE parent_run = ? AND forked_at IS NOT NULL ORDER BY runs.created, number", (run_id,)
        )

    def find_run(self, text: str) -> RunInfo:
        """The run of this id, of the only id that starts so, or for `last` the newest.

        Raises JournalError (JRN002) if there is none or more than one.
        """
        if not may_begin_run_id(text):
            raise self.unknown_run(text)
        found = self.run(text)
        if found is None and text == "last":
            found = next(iter(self.runs(limit=1)), None)
        if found is not None:
            return found
        near = self._infos("WHERE run_id >= ? AND run_id < ? ORDER BY run_id LIMIT 4", (text, text + "\x7f"))
        if len(near) == 1:
            return near[0]
        if not near:
            raise self.unknown_run(text)
        shown = ", ".join(info.run_id for info in near[:3]) + (", …" if len(near) > 3 else "")
        raise JournalError("JRN002", f"more than one run starts with {text}: {shown}", "give more of the id")

    def unknown_run(self, text: str) -> JournalError:
        """That there is no such run, with the nearest ids."""
        near = did_you_mean(text, (info.run_id for info in self.runs(limit=500)))
        way_out = f"did you mean {' or '.join(near)}?" if near else "`callsheet runs` lists them"
        return JournalError("JRN002", f"there is no run {text[:80]!a} in this journal", way_out)

    def events(self, run_id: str, after: int = 0, *, lenient: bool = False) -> Iterator[Event]:
        """The events of a run after a sequence number, in order, with their whole bodies.

        A body that was dropped is `{"dropped": bytes}` with `lenient`. Raises JournalError: JRN002
        for an unknown run, JRN012 at an event that cannot be read, JRN015 at one that was dropped.
        """
        base = self._number(run_id) << SEQ_BITS
        before = max(0, after - MOST_INTENTS)  # the entry that `after` stands in
        while page := self.page(base, before):
            for row in page:
                covers = row[_COVERS]
                if isinstance(covers, int) and row[0] - base + covers <= after + 1:
                    continue
                for event in self._entry(run_id, base, row, lenient=lenient):
                    if event.seq > after:
                        yield event
            before = page[-1][0] - base

    def entries(self, run_id: str, after: int = 0) -> Iterator[Entry]:
        """The entries of a run whose own events come after a number, in order; raises as `events` does.

        They cost a quarter of what the events do.
        """
        base = self._number(run_id) << SEQ_BITS
        while True:
            with self._reading():
                page = self._rows(_ENTRIES, (base + after, base + (1 << SEQ_BITS), _LARGE_PAGE))
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
                    raise _damaged(f"event {seq} of run {run_id} cannot be read: {error}") from error
                yield Entry(seq, kind, key, ts, data, seq + covers - 1, intents, epoch)
            if len(page) < _LARGE_PAGE:
                return
            after = page[-1][0] - base

    def told(self, run_id: str) -> tuple[list[int], list[Told]]:
        """What has come from outside into a run after its start, as it is stored, and the events' numbers.

        Two runs of one plan that were started alike, and have the same here, have done the same.
        """
        base = self._number(run_id) << SEQ_BITS
        with self._reading():
            rows = self._rows(_TOLD, (base, base + 1, base + (1 << SEQ_BITS)))
        return [seq for seq, *_ in rows], [told for _, *told in rows]

    def letters(self, run_id: str) -> list[Letter]:
        """The letters to a run that nobody has taken, the oldest first."""
        with self._reading():
            rows = self._connection.execute(UNREAD, (run_id,)).fetchall()
        return [letter for letter in map(read_letter, rows) if letter is not None]

    def asked(self, run_id: str) -> list[Event]:
        """The events of a run that tell what it asks people, and what ends its asking, in order."""
        base = self._number(run_id) << SEQ_BITS
        with self._reading():
            rows = self._connection.execute(_ASKED, (base, base + (1 << SEQ_BITS))).fetchall()
        return [next(self._entry(run_id, base, row)) for row in rows]

    def plan(self, plan_hash: str) -> tuple[Plan, str]:
        """A stored plan and its source text, by its hash.

        Raises JournalError: JRN014 if there is none, JRN012 if it is not what was written.
        """
        with self._reading():
            row = self._connection.execute(
                "SELECT body, source FROM plans WHERE plan_hash = ?", (plan_hash,)
            ).fetchone()
        if row is None:
            raise JournalError("JRN014", f"there is no plan {plan_hash[:80]!a} in this journal")
        body, source = row
        if not isinstance(body, bytes) or sha256(body).hexdigest() != plan_hash:
            raise _damaged(f"plan {plan_hash[:12]} is not what was written")
        try:
            text = source.decode("utf-8", "surrogatepass")
        except (UnicodeDecodeError, AttributeError) as error:
            raise _damaged(f"the text of plan {plan_hash[:12]} is not what was written") from error
        return plan_from_json(decode_body(body)), text

    def last_snapshot(self, run_id: str, upto: int | None = None) -> int | None:
        """The number of the last event, up to `upto`, that is a snapshot; raises JournalError (JRN002)."""
        base = self._number(run_id) << SEQ_BITS
        with self._reading():
            end = base + (1 << SEQ_BITS if upto is None else upto + 1)
            row = self._connection.execute(_LAST_SNAPSHOT, (base, end)).fetchone()
        return None if row is None else row[0] - base

    def last_outcome(self, run_id: str, steps: Sequence[str]) -> int | None:
        """The number of the last event that brought something to one of these steps, by id.

        Raises JournalError (JRN002) for an unknown run.
        """
        base = self._number(run_id) << SEQ_BITS
        with self._reading():
            query = _LAST_OF_STEPS % ",".join("?" * len(steps))
            row = self._connection.execute(query, (base, base + (1 << SEQ_BITS), *steps)).fetchone()
        return None if row is None else row[0] - base

    def has_any(self, run_id: str, *types: EventType) -> bool:
        """Whether a run has an event of one of these types; raises JournalError (JRN002)."""
        base = self._number(run_id) << SEQ_BITS
        with self._reading():
            query = _ANY_OF % ",".join("?" * len(types))
            found = self._connection.execute(query, (base, base + (1 << SEQ_BITS), *types)).fetchone()
        return found is not None

    def bodies(self, run_id: str, seqs: Iterable[int]) -> Iterator[Stored]:
        """The bodies of the events of these numbers, in the order of the numbers, as bytes.

        An event that is not there, or has no body, is left out. Raises JournalError: JRN002 for
        an unknown run, JRN012 where a large one is gone.
        """
        base = self._number(run_id) << SEQ_BITS
        wanted = [base + seq for seq in sorted(seqs)]
        for at in range(0, len(wanted), _PAGE):
            ids = wanted[at : at + _PAGE]
            marks = ",".join("?" * len(ids))
            with self._reading():
                rows = self._connection.execute(
                    f"SELECT id, type, body, blob FROM events WHERE id IN ({marks}) ORDER BY id", ids
                ).fetchall()
            for row_id, kind, body, blob in rows:
                try:
                    data = body if blob is None else self._blob(blob)
                except BlobMissing as error:
                    raise _damaged(
                        f"event {row_id - base} of run {run_id} cannot be read: {error}"
                    ) from error
                if data is not None:
                    yield Stored(row_id - base, kind, data)

    def select(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query, for the upkeep of a journal; raises JournalError (JRN012)."""
        with self._reading():
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """The connection, for one who reads alone meanwhile."""
        with self._reading():
            yield self._connection

    def hash_at(self, run_id: str, seq: int) -> bytes | None:
        """The hash of the entry that ends with the event `seq`; None if none does."""
        rows = self.select(
            "SELECT hash FROM events WHERE id = (SELECT max(id) FROM events WHERE id > ? AND id <= ?)"
            " AND id + covers - 1 = ?",
            (base := self._number(run_id) << SEQ_BITS, base + seq, base + seq),
        )
        return rows[0][0] if rows else None

    def _infos(self, rest: str, values: tuple[object, ...]) -> list[RunInfo]:
        with self._reading():
            rows: list[tuple[Any, ...]] = self._connection.execute(f"{_RUNS} {rest}", values).fetchall()
        return [_info(row) for row in rows]

    def base_of(self, run_id: str) -> int:
        """What the ids of a run's events lie above; raises JournalError (JRN002) for an unknown run."""
        return self._number(run_id) << SEQ_BITS

    def _number(self, run_id: str) -> int:
        if may_begin_run_id(run_id):
            with self._reading():
                row = self._connection.execute(
                    "SELECT number FROM runs WHERE run_id = ?", (run_id,)
                ).fetchone()
            if row is not None:
                return row[0]
        raise self.unknown_run(run_id)

    def page(self, base: int, after: int, most: int = _PAGE) -> list[tuple[Any, ...]]:
        """At most so many rows of the entries that follow an event of the run whose ids lie above `base`."""
        with self._reading():
            return self._connection.execute(_EVENTS, (base + after, base + (1 << SEQ_BITS), most)).fetchall()

    def _large(self, name: str, run_id: str, *, lenient: bool) -> tuple[Any, int]:
        """A large body and its bytes; of one that was dropped, that and how many there were."""
        try:
            data = self._blob(name)
        except BlobDropped as dropped:
            if lenient:
                return {"dropped": dropped.size}, dropped.size
            raise JournalError(
                "JRN015",
                f"the large values of run {run_id} were dropped, so that its steps cannot be told any more",
                way_out="`callsheet show RUN --events` and `callsheet runs verify` still work",
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
            raise _damaged(f"event {seq} of run {run_id} cannot be read: {error}") from error
        yield event
        for at, (place, said) in enumerate(left, seq + 1):
            yield Event(run_id, at, epoch, EventType.INTENT, *place, ts, mono, said, hashed)

    def _blob(self, name: str) -> bytes:
        with self._reading():
            return read_blob(self._connection, self._place.blobs, name)

    def blob_digest(self, name: str) -> bytes:
        """The digest of a large body; of one that was dropped, what is kept of it."""
        try:
            return sha256(self._blob(name)).digest()
        except BlobDropped:
            return bytes.fromhex(name)

    def _rows(self, query: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        """Many rows, for one who reads; texts that are damaged are looked at only where there are such."""
        connection = self._connection
        lenient = connection.text_factory
        connection.text_factory = str
        try:
            return connection.execute(query, values).fetchall()
        except sqlite3.OperationalError:
            pass
        finally:
            connection.text_factory = lenient
        return connection.execute(query, values).fetchall()

    @contextmanager
    def _reading(self, *, settles: bool = True) -> Generator[None]:
        if settles:
            self._settle()
        with self._mutex:
            try:
                yield
            except sqlite3.ProgrammingError:
                raise
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # of a table's or column's name
                if is_of_the_disk(error):
                    raise unusable(self._place.database, error) from error
                raise _damaged(f"{self._place.database} cannot be read: {error}") from error


_Place: TypeAlias = "tuple[str, str, int, int]"
"""A call's key, step, item and attempt."""


def _intents(data: bytes) -> list[tuple[_Place, dict[str, str] | None]]:
    """Of each intent in an entry: whose call it is, and its body."""
    return [
        ((key, *place_of_key(key)), None if tool is None else {"tool": tool})
        for key, tool in decode_intents(data)
    ]


def _info(row: tuple[Any, ...]) -> RunInfo:
    run_id, status, plan_hash, plan_id, title, parent, owner, epoch, wake_at, created, updated, *last = row
    events, head_hash, last_ts, core_version, forked_at = last
    try:
        known = RunStatus(status)
    except ValueError:
        known = RunStatus.CORRUPT
    updated = max(updated, last_ts or updated)
    return RunInfo(
        run_id, known, plan_hash, plan_id, title, parent, owner, epoch, wake_at, created, updated, events,
        head_hash, core_version, forked_at,
    )  # fmt: skip


def _damaged(what: str) -> JournalError:
    return JournalError(
        "JRN012",
        f"the journal is damaged: {what}",
        "restore it from a copy, or save what is whole of it: `callsheet runs salvage`",
    )
