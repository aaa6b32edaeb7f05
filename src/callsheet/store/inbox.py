"""The encoding of messages to a run: answers that other processes leave for its owner.

A message has an id from its sender; a second message with that id is ignored. The owner takes a message in
the transaction of the event that it leads to, so it is taken at most once; its id stays. Secrets in a message
are sealed, and unsealed by the owner.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from callsheet.sealing.keys import NotOpened
from callsheet.sealing.sealer import Path, Sealer, WrongKey, is_sealed, opened
from callsheet.store.errors import JournalError, NotStorable
from callsheet.store.seal_keys import KeyStore

INSERT = "INSERT OR IGNORE INTO inbox (run_id, topic, msg_id, payload, ts) VALUES (?, ?, ?, ?, ?)"
TAKE = "UPDATE inbox SET payload = NULL WHERE run_id = ? AND msg_id = ?"
UNREAD = (
    "SELECT topic, msg_id, payload, ts FROM inbox"
    " WHERE run_id = ? AND payload IS NOT NULL ORDER BY ts, msg_id"
)


class Message(NamedTuple):
    """A message not taken yet; `topic` is the key of the question it answers, `ts` its arrival time."""

    topic: str
    msg_id: str
    payload: dict[str, Any]
    ts: float


_KIND = "letter"
SAID = "it was said to the run"
"""The reason for sealing a part of a message; its sender cannot know whether it is secret."""


def encode_payload(payload: Mapping[str, Any], sealer: Sealer, secret: Mapping[Path, str]) -> bytes:
    """The bytes of a payload, with the parts named in `secret` and all detected secrets sealed.

    Raises NotStorable for data that JSON cannot express, JournalError (SEC003) if no key is available.
    """
    try:
        data = _encoded(payload)
        sealed = sealer.sealed(_KIND, payload, data, secret)
        return data if sealed is None else _encoded(sealed)
    except (ValueError, TypeError, RecursionError) as error:
        raise NotStorable("answer", str(error)) from error


def _encoded(payload: Mapping[str, Any]) -> bytes:
    return json.dumps(dict(payload), ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogatepass")


def open_message(message: Message, keys: KeyStore, run_id: str) -> Message:
    """The message, unsealed. Raises JournalError (SEC008) if it cannot be unsealed here."""
    if not is_sealed(message.payload):
        return message
    try:
        return message._replace(payload=opened(deepcopy(message.payload), keys.opening(), run_id))
    except WrongKey as error:
        why = f"it was sealed with the key {error.name}, but only {', '.join(error.available)} is available"
    except (JournalError, NotOpened) as error:
        why = str(error)
    raise JournalError(
        "SEC008",
        f"the answer to {message.topic} of run {run_id} cannot be opened: {why}",
        hint="restore the key with which it was sealed, or answer again: `callsheet approve`",
    )


def read_message(row: tuple[str, str, bytes, float]) -> Message | None:
    """The message from a row; None if it is not readable."""
    topic, msg_id, payload, ts = row
    try:
        data: Any = json.loads(payload)
    except (ValueError, TypeError, RecursionError):
        return None
    return Message(topic, msg_id, data, ts) if isinstance(data, dict) else None
