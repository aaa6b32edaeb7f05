"""Writes a fork of a run into the journal.

In: a `Branch`. Out: a new run with its own chain: its events are copies, hashed anew under its id, and refer
to the same large values. So it can be verified, exported and kept without its parent. Its start says from
which event of which run it was forked, and the hash of the parent's chain there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

from callsheet.ir import Plan
from callsheet.machine import Edited, LimitsChanged
from callsheet.machine.keys import place_of_key
from callsheet.sealing.sealer import Path, Sealer
from callsheet.store.archive import entries_of, run_row
from callsheet.store.blobs import INLINE_LIMIT, ROW_LIMIT, insert_blob, write_blob_file
from callsheet.store.branch import Branch
from callsheet.store.errors import run_exists
from callsheet.store.events import (
    GENESIS,
    NO_BODY,
    EventType,
    Head,
    decode_body,
    decode_intents,
    encode_body,
    encode_intent,
    identify,
    link,
)
from callsheet.store.journal import Parts
from callsheet.store.journal_paths import check_run_id
from callsheet.store.pending import plan_row
from callsheet.store.records import event_record
from callsheet.store.run_index import names_of
from callsheet.store.runs import RunInfo
from callsheet.store.schema import SEQ_BITS
from callsheet.store.writer import RunStatus

_INSERT_EVENT = (
    "INSERT INTO events"
    " (id, epoch, type, key, step, idx, attempt, ts, mono, body, blob, covers, intents, hash)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_RUN = (
    "INSERT INTO runs"
    " (run_id, parent_run, forked_at, plan_hash, core_version, status, epoch, created, updated, name, goal,"
    " tags, search) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_PLAN = (
    "INSERT OR IGNORE INTO plans (plan_hash, ir_version, id, title, body, source, created)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)


Intents: TypeAlias = "tuple[tuple[str, str | None], ...]"
"""The intents of an entry: keys and tools."""
_SEALED = b'"sealed"'
_NOWHERE = (None, None, None, None)


class _When(NamedTuple):
    """The epoch and times of an event."""

    epoch: int
    ts: float
    mono: float


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry to be written, without its number and hash."""

    when: _When
    kind: str
    place: tuple[str | None, str | None, int | None, int | None]
    """Key, step, item, attempt."""
    body: bytes | None
    blob: str | None
    intents: Intents = ()

    @property
    def digest(self) -> bytes:
        """The digest of the body."""
        if self.blob is not None:
            return bytes.fromhex(self.blob)
        return NO_BODY if self.body is None else sha256(self.body).digest()


def hash_at(parts: Parts, run_id: str, seq: int) -> str:
    """The hash, in hexadecimal, of the entry of a run that contains event `seq`."""
    number, _ = run_row(parts.reader, run_id)
    base = number << SEQ_BITS
    rows = parts.reader.select(
        "SELECT hash FROM events WHERE id > ? AND id <= ? ORDER BY id DESC LIMIT 1", (base, base + seq)
    )
    return rows[0][0].hex()


class Secrets(NamedTuple):
    """Seals secrets in what is written; `start` and `edit` name the secret parts of these events.

    `rebind` binds the sealed bodies of the parent to the new run; None if there are none.
    """

    sealer: Sealer
    start: Mapping[Path, str]
    edit: Mapping[Path, str]
    rebind: Callable[[Any], Any] | None = None


def write_branch(
    parts: Parts, parent: RunInfo, run_id: str, branch: Branch, plan: tuple[Plan, str], secrets: Secrets
) -> None:
    """Write the run `run_id`, a fork of `parent`, in one transaction; `plan` is its plan and the plan's text.

    No process owns the new run. Sealed parts stay sealed. Raises JournalError: JRN001 for an invalid id,
    JRN003 if the run exists, JRN017 if the journal cannot be written, SEC003 if something is secret and no
    key is available.
    """
    start = _body(EventType.START, branch.start, secrets.sealer, secrets.start)
    edit = None if branch.edit is None else _edit_body(branch.edit, secrets)
    check_run_id(run_id)

    def work(cursor: sqlite3.Cursor) -> None:
        if cursor.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone():
            raise run_exists(run_id)
        now, row = parts.clock(), plan_row(*plan)
        names = names_of(plan[0], branch.start, row.plan_hash)
        number, _ = run_row(parts.reader, parent.run_id)
        entries = _entries(parts, cursor, number, branch, start, edit)
        if secrets.rebind is not None:
            entries = (_rebound(parts, cursor, entry, secrets.rebind) for entry in entries)
        cursor.execute(_INSERT_PLAN, (*row, now))
        cursor.execute(
            _INSERT_RUN,
            (
                run_id,
                parent.run_id,
                branch.at,
                row.plan_hash,
                parent.core_version,
                RunStatus.RUNNING,
                1,
                now,
                now,
                *names,
                names.searched(run_id),
            ),
        )
        assert cursor.lastrowid is not None, "an INSERT gives a row id"
        _insert(cursor, run_id, cursor.lastrowid, entries)
        if branch.folded.ended and branch.folded.machine.result is not None:
            outcome = branch.folded.machine.result.outcome
            cursor.execute("UPDATE runs SET status = ? WHERE run_id = ?", (outcome, run_id))
        else:
            cursor.execute("UPDATE runs SET indexed = head_seq WHERE run_id = ?", (run_id,))

    parts.ledger.maintain(work)


def _insert(cursor: sqlite3.Cursor, run_id: str, number: int, entries: Iterator[_Entry]) -> None:
    seq, prev, epoch = 0, GENESIS, 1
    for entry in entries:
        when = entry.when
        epoch = max(epoch, when.epoch)
        head: Head = (seq + 1, when.epoch, entry.kind, *entry.place, when.ts, when.mono)
        intents = None
        if entry.intents:
            intents = b"[%b]" % b",".join(encode_intent(*intent) for intent in entry.intents)
        prev = link(prev, head, entry.digest, identify(run_id, head), intents)
        covers = 1 + len(entry.intents)
        values = ((number << SEQ_BITS) + seq + 1, *head[1:], entry.body, entry.blob, covers, intents, prev)
        cursor.execute(_INSERT_EVENT, values)
        seq += covers
    cursor.execute(
        "UPDATE runs SET head_seq = ?, head_hash = ?, epoch = ? WHERE number = ?", (seq, prev, epoch, number)
    )


def _body(kind: EventType, body: Mapping[str, Any], sealer: Sealer, secret: Mapping[Path, str]) -> bytes:
    """The bytes of a body, with secrets sealed."""
    data = encode_body(kind, body)
    sealed = sealer.sealed(kind, body, data, secret)
    return data if sealed is None else encode_body(kind, sealed)


def _edit_body(edit: Edited | LimitsChanged, secrets: Secrets) -> bytes:
    kind, _, body = event_record(edit)
    return _body(kind, body or {}, secrets.sealer, secrets.edit)


def _entries(
    parts: Parts, cursor: sqlite3.Cursor, number: int, branch: Branch, start: bytes, edit: bytes | None
) -> Iterator[_Entry]:
    """The entries of the new run, in order; its start and its edit have these bodies."""
    before = _When(1, 0.0, 0.0)
    for seq, row in entries_of(parts.reader, number):
        epoch, kind, key, step, index, attempt, ts, mono, body, blob, _, intents, _ = row
        when = _When(epoch, ts, mono)
        if edit is not None and (seq == branch.edited_before or seq > branch.at):
            yield _edit_entry(parts, branch, edit, when if seq == branch.edited_before else before)
            edit = None
        left = () if intents is None else decode_intents(intents)
        taken = tuple(intent for at, intent in enumerate(left, seq + 1) if _is_taken(branch, at))
        if seq == 1:
            yield _start_entry(parts, cursor, start, when, taken)
        elif _is_taken(branch, seq):
            yield _Entry(when, kind, (key, step, index, attempt), body, blob, taken)
        else:
            yield from (_intent_entry(intent, when) for intent in taken)
        before = when
    if edit is not None:
        yield _edit_entry(parts, branch, edit, before)


def _rebound(parts: Parts, cursor: sqlite3.Cursor, entry: _Entry, rebind: Callable[[Any], Any]) -> _Entry:
    """A copied entry whose sealed body, if it has one, is bound to the new run."""
    if entry.kind in (EventType.START, EventType.EDIT) or (entry.body is None and entry.blob is None):
        return entry
    data = entry.body if entry.blob is None else parts.reader.blob(entry.blob)
    if data is None or _SEALED not in data:
        return entry
    body = decode_body(data)
    bound = rebind(body)
    if bound is body:
        return entry
    stored, blob = _stored(parts, cursor, encode_body(entry.kind, bound))
    return replace(entry, body=stored, blob=blob)


def _is_taken(branch: Branch, seq: int) -> bool:
    return seq in branch.taken if seq > branch.at else seq not in branch.left_out


def _start_entry(parts: Parts, cursor: sqlite3.Cursor, data: bytes, when: _When, intents: Intents) -> _Entry:
    return _Entry(when, EventType.START, _NOWHERE, *_stored(parts, cursor, data), intents)


def _stored(parts: Parts, cursor: sqlite3.Cursor, data: bytes) -> tuple[bytes | None, str | None]:
    """A body for its row or, if it is large, the name of the blob that it is stored as."""
    if len(data) <= INLINE_LIMIT:
        return data, None
    name = sha256(data).hexdigest()
    if len(data) > ROW_LIMIT:
        write_blob_file(parts.place.blobs, name, data, sync=True)
    insert_blob(cursor, name, data, parts.clock())
    return None, name


def _edit_entry(parts: Parts, branch: Branch, data: bytes, when: _When) -> _Entry:
    kind = EventType.LIMITS if isinstance(branch.edit, LimitsChanged) else EventType.EDIT
    # a large one stays in its row: nobody types so much
    return _Entry(when._replace(ts=parts.clock()), kind, _NOWHERE, data, None)


def _intent_entry(intent: tuple[str, str | None], when: _When) -> _Entry:
    """An intent of an entry whose event is not taken."""
    key, tool = intent
    data = None if tool is None else encode_body(EventType.INTENT, {"tool": tool})
    return _Entry(when, EventType.INTENT, (key, *place_of_key(key)), data, None)
