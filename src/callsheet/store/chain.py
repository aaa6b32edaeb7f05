"""Verifies the hash chain of a run: that no event is missing, changed or out of place.

In: a reader, a run. Out: the first event that is not what was written, or None.
"""

from __future__ import annotations

import struct
from hashlib import sha256
from typing import Any, NamedTuple

from callsheet.machine import Outcome
from callsheet.store.blobs import BlobMissing
from callsheet.store.events import GENESIS, NO_BODY, EventType, Head, decode_intents, identify, link
from callsheet.store.reader import COVERS, Reader
from callsheet.store.writer import RunStatus

_STATUSES = frozenset({*RunStatus, Outcome.DONE_WITH_FAILURES})


class BadEvent(NamedTuple):
    """The first event of a run that is not what was written, and why."""

    seq: int
    why: str


def verify(reader: Reader, run_id: str, start: int = 1) -> BadEvent | None:
    """The first event of a run that is missing or changed, or None if the chain is intact.

    Also checks that the head recorded in the run's row is on the chain, and that a run that has ended has an
    `end` event. Of the events before `start` only the first is checked. Raises JournalError (JRN002) for an
    unknown run.
    """
    base = reader.runs.base_of(run_id)
    query = "SELECT status, head_seq, head_hash FROM runs WHERE run_id = ?"
    ((status, head_seq, head_hash),) = reader.select(query, (run_id,))
    seq, prev, has_ended = 0, GENESIS, False
    if start > 1:
        bad = _check_first(reader, run_id, base)
        if bad is not None:
            return bad
        seq, prev = _before(reader, base, start)
    while page := reader.page(base, seq):
        for row in page:
            bad = check(reader, run_id, seq + 1, prev, row, base)
            if bad is not None:
                return bad
            first, seq, prev = seq + 1, seq + row[COVERS], row[-1]
            has_ended = has_ended or row[2] == EventType.END
            if first <= head_seq <= seq and (head_seq, head_hash) != (seq, prev):
                return BadEvent(seq, "its hash is not the one that the run recorded")
    if seq < head_seq:
        return BadEvent(seq + 1, f"it is missing: the run recorded {head_seq} events")
    if status not in _STATUSES:
        return BadEvent(seq, f"the run's status {status!r} is unknown")
    if RunStatus(status).is_final and not has_ended:
        return BadEvent(seq + 1, f"it is missing: the run is {status} without an end event")
    return None


def _check_first(reader: Reader, run_id: str, base: int) -> BadEvent | None:
    rows = reader.page(base, 0, 1)
    return check(reader, run_id, 1, GENESIS, rows[0], base) if rows else BadEvent(1, "it is missing")


def _before(reader: Reader, base: int, start: int) -> tuple[int, bytes]:
    """The last event of the entry before the event `start`, and the entry's hash."""
    query = "SELECT id + covers - 1, hash FROM events WHERE id > ? AND id < ? ORDER BY id DESC LIMIT 1"
    rows = reader.select(query, (base, base + start))
    return (rows[0][0] - base, rows[0][1]) if rows else (0, GENESIS)


def check(
    reader: Reader, run_id: str, expected: int, prev: bytes, row: tuple[Any, ...], base: int = 0
) -> BadEvent | None:
    """What is wrong with an entry that should be event `expected` and follow the hash `prev`, or None.

    The row's id is `base` plus the number of its event.
    """
    row_id, epoch, kind, key, step, index, attempt, ts, mono, body, blob, covers, intents, hashed = row
    seq = row_id - base
    if seq != expected:
        return BadEvent(expected, f"it is missing: event {seq} follows")
    if body is not None and blob is not None:
        return BadEvent(seq, "it has a body in the row and another beside it")
    try:
        digest = NO_BODY
        if blob is not None:
            digest = reader.blob_digest(blob)
        elif body is not None:
            digest = sha256(body).digest()
        head: Head = (seq, epoch, kind, key, step, index, attempt, ts, mono)
        linked = link(prev, head, digest, identify(run_id, head), intents)
        if covers != 1 + (0 if intents is None else len(decode_intents(intents))):
            return BadEvent(seq, f"it says that it covers {covers} events")
    except BlobMissing as error:
        return BadEvent(seq, str(error))
    except (TypeError, ValueError, struct.error):
        return BadEvent(seq, "a field does not have the type that was written")
    return (
        None
        if linked == hashed
        else BadEvent(seq, "it is not what was written, or does not follow its predecessor")
    )
