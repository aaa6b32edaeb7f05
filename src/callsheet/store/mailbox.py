"""The letters to the runs of a journal: left by any process, read by the one that owns the run.

In: what somebody says to a run. Out: letters that nobody has taken, as they are written or opened. That one
is taken at most once is the work of whoever writes the event that it leads to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from callsheet.sealing.sealer import Sealer
from callsheet.store.errors import JournalError
from callsheet.store.ids import check_run_id
from callsheet.store.inbox import SAID, Letter, encode_payload, open_letter
from callsheet.store.ledger import Ledger
from callsheet.store.reader import Reader
from callsheet.store.vault import Vault


class Mailbox:
    """The letters of a journal; `sealer` is what takes secrets out of those to a run, by its id."""

    def __init__(self, ledger: Ledger, reader: Reader, vault: Vault, sealer: Callable[[str], Sealer]) -> None:
        self._ledger = ledger
        self._reader = reader
        self._vault = vault
        self._sealer = sealer

    def post(
        self, run_id: str, topic: str, msg_id: str, payload: Mapping[str, Any], sealed: Iterable[str] = ()
    ) -> bool:
        """Leave a letter for whoever owns the run, now or later; False if one of this id is there.

        The run may be owned by another process. The entries that `sealed` names are sealed whatever they
        say, and all else that is known to be secret or looks so. Raises JournalError: JRN001 for an id that
        is none, JRN002 if there is no such run, SEC003 where something is to be sealed and there can be no
        key; JournalWriteFailed; NotStorable for what is not JSON.
        """
        check_run_id(run_id)
        if self._reader.runs.get(run_id) is None:
            raise self._reader.runs.unknown(run_id)
        data = encode_payload(payload, self._sealer(run_id), {(name,): SAID for name in sealed})
        return self._ledger.post(run_id, topic, msg_id, data)

    def unread(self, run_id: str) -> list[Letter]:
        """The letters to a run that nobody has taken, the oldest first, as they are written."""
        return self._reader.letters(run_id)

    def opened(self, run_id: str, on_closed: Callable[[JournalError], None]) -> list[Letter]:
        """The same letters, opened, for one who carries the run on or answers it.

        `on_closed` is told why one cannot be opened (SEC008); it is among them as it is written.
        """
        found = list[Letter]()
        for letter in self.unread(run_id):
            try:
                found.append(open_letter(letter, self._vault, run_id))
            except JournalError as error:
                on_closed(error)
                found.append(letter)
        return found
