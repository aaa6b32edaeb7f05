"""Messages to the runs of a journal: posted by any process, read by the run's owner.

In: messages to a run. Out: the messages not taken yet, as stored or unsealed. `RunWriter.take_message`
ensures that a message is taken at most once: in the transaction of the event that it leads to. A message has
an id from its sender, and a second one with that id is ignored. Secrets in it are sealed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

from callsheet.sealing.keys import NotOpened
from callsheet.sealing.sealer import Path, Sealer, WrongKey, is_sealed, opened
from callsheet.store.errors import JournalError, NotStorable
from callsheet.store.journal_paths import check_run_id
from callsheet.store.seal_keys import KeyStore

if TYPE_CHECKING:
    from callsheet.store.ledger import Ledger
    from callsheet.store.reader import Reader


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


class Mailbox:
    """The messages of a journal; `sealer` gives the Sealer for messages to a run by the run's id."""

    def __init__(
        self, ledger: Ledger, reader: Reader, keys: KeyStore, sealer: Callable[[str], Sealer]
    ) -> None:
        self._ledger = ledger
        self._reader = reader
        self._keys = keys
        self._sealer = sealer

    def post(
        self, run_id: str, topic: str, msg_id: str, payload: Mapping[str, Any], sealed: Iterable[str] = ()
    ) -> bool:
        """Leave a message for the run's owner, now or later; False if there is one with this id already.

        The run may be owned by another process. The members named in `sealed` are always sealed, as are
        known and detected secrets. Raises JournalError: JRN001 for an invalid id, JRN002 if there is no such
        run, SEC003 if something is to be sealed and no key is available; JournalWriteFailed; NotStorable if
        the payload is not JSON data.
        """
        check_run_id(run_id)
        if self._reader.runs.get(run_id) is None:
            raise self._reader.runs.unknown(run_id)
        data = encode_payload(payload, self._sealer(run_id), {(name,): SAID for name in sealed})
        return self._ledger.post(run_id, topic, msg_id, data)

    def unread(self, run_id: str) -> list[Message]:
        """The messages to a run that were not taken yet, oldest first, as stored."""
        return self._reader.messages(run_id)

    def opened(self, run_id: str, on_closed: Callable[[JournalError], None]) -> list[Message]:
        """The same messages, unsealed, for a process that continues the run or answers it.

        `on_closed` is called with the error (SEC008) for each that cannot be unsealed; it is given as stored.
        """
        messages = list[Message]()
        for message in self.unread(run_id):
            try:
                messages.append(open_message(message, self._keys, run_id))
            except JournalError as error:
                on_closed(error)
                messages.append(message)
        return messages
