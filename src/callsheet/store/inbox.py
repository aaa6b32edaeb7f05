"""The letters to a run: answers that other processes leave for its owner, each taken at most once.

A letter has the id that its sender gives it: a second one of that id is not taken in, whatever
it says. The owner takes a letter by the event that it leads to, in the same transaction; what
is left of it then is its id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from callsheet.store.errors import NotStorable

INSERT = "INSERT OR IGNORE INTO inbox (run_id, topic, msg_id, payload, ts) VALUES (?, ?, ?, ?, ?)"
TAKE = "UPDATE inbox SET payload = NULL WHERE run_id = ? AND msg_id = ?"
UNREAD = (
    "SELECT topic, msg_id, payload, ts FROM inbox"
    " WHERE run_id = ? AND payload IS NOT NULL ORDER BY ts, msg_id"
)


class Letter(NamedTuple):
    """A letter that nobody has taken yet; `topic` is the key of what it answers, `ts` when it came."""

    topic: str
    msg_id: str
    payload: dict[str, Any]
    ts: float


def encode_payload(payload: Mapping[str, Any]) -> bytes:
    """The bytes of a payload; raises NotStorable for what JSON cannot say."""
    try:
        return json.dumps(dict(payload), ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise NotStorable("answer", str(error)) from error


def read_letter(row: tuple[str, str, bytes, float]) -> Letter | None:
    """The letter of a row; None for one that is not readable."""
    topic, msg_id, payload, ts = row
    try:
        data: Any = json.loads(payload)
    except (ValueError, TypeError, RecursionError):
        return None
    return Letter(topic, msg_id, data, ts) if isinstance(data, dict) else None
