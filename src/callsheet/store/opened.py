"""Unseals the events of a run, for resuming or forking it.

In: rows of a journal, and the keys. Out: the same rows with their secrets. The keys are loaded with the first
sealed value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from hashlib import sha256
from typing import Any

from callsheet.sealing.finder import NAMED, known_by_name
from callsheet.sealing.keys import KeyRing, NotOpened
from callsheet.sealing.known import Known
from callsheet.sealing.opening import WrongKey, declared_in, is_sealed, opened
from callsheet.sealing.sealer import DECLARED, SEALED
from callsheet.store.events import Event, EventType, decode_body, encode_body
from callsheet.store.vault import Vault, not_opened

_SHORTEST, _LONGEST = 8, 512
"""Characters of a text that may be a credential."""


class Opener:
    """Opens the events of one run.

    `has_opened` says that something was sealed; `declared` are the secrets that the run was given.
    """

    def __init__(self, vault: Vault, run_id: str, on_declared: Callable[[Known], None] | None = None) -> None:
        self._on_declared = on_declared
        self._vault = vault
        self._run_id = run_id
        self._keys: KeyRing | None = None
        self.has_opened = False
        self.declared = Known()
        self._short: dict[str, bool] = {}
        """Texts, and whether their names have told that they are secret."""

    @property
    def short(self) -> Known:
        """The texts among what was opened so far that may be credentials, to be looked for elsewhere."""
        return Known.of(self._short, SEALED, shortest=_SHORTEST)

    @property
    def named(self) -> Known:
        """The secrets among what was opened so far that were found by their names."""
        return known_by_name(text for text, is_named in self._short.items() if is_named)

    def events(self, rows: Iterable[Event]) -> Iterator[Event]:
        """The rows, opened. Raises JournalError: SEC001 to SEC004."""
        for row in self.unguided(rows):
            if row.body is None or not is_sealed(row.body):
                yield row
                continue
            written = sha256(encode_body(row.type, row.body)).digest()
            yield replace(row, body=self.body(row.type, row.body, row.seq), digest=written)

    @staticmethod
    def unguided(rows: Iterable[Event]) -> Iterator[Event]:
        """The rows for one who finds the way by their values alone."""
        return (row if row.guide is None else replace(row, guide=None) for row in rows)

    def stored(self, kind: str, data: bytes, seq: int) -> Any:
        """The body of an event as its bytes tell it, opened."""
        return self.body(kind, decode_body(data), seq)

    def body(self, kind: str, body: Any, seq: int) -> Any:
        """The body of an event, opened; the one that is given is used up. Raises JournalError as `events`."""
        if not is_sealed(body):
            return body
        self.has_opened = True
        if self._keys is None:
            self._keys = self._vault.opening()
        told = body[SEALED]
        try:
            body = opened(body, self._keys, self._saw)
        except (WrongKey, NotOpened) as error:
            raise not_opened(self._run_id, seq, error) from error
        if kind == EventType.START:
            self.declared = Known.of(declared_in(body, told), DECLARED)
            if self._on_declared is not None:
                self._on_declared(self.declared)
        return body

    def _saw(self, value: object, why: str) -> None:
        if isinstance(value, str) and len(value) <= _LONGEST:
            self._short[value] = self._short.get(value, False) or why == NAMED
