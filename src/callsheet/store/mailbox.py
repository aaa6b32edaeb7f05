"""Messages to the runs of a journal: posted by any process, read by the run's owner.

In: messages to a run. Out: the messages not taken yet, as stored or unsealed. `RunWriter.take_message`
ensures that a message is taken at most once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from callsheet.sealing.sealer import Sealer
from callsheet.store.errors import JournalError
from callsheet.store.inbox import SAID, Message, encode_payload, open_message
from callsheet.store.journal_paths import check_run_id
from callsheet.store.ledger import Ledger
from callsheet.store.reader import Reader
from callsheet.store.seal_keys import KeyStore


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
