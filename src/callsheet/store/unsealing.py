"""Unseals the events of a run, for resuming or forking it.

In: events of a journal, and the keys. Out: the same events with their secrets. The keys are loaded when the
first sealed value is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from hashlib import sha256
from typing import Any

from callsheet.sealing.keys import KeyRing, NotOpened
from callsheet.sealing.known import Known
from callsheet.sealing.masking import NAMED, known_by_name
from callsheet.sealing.sealer import DECLARED, SEALED, WrongKey, declared_in, is_sealed, opened
from callsheet.store.events import Event, EventType, decode_body, encode_body
from callsheet.store.seal_keys import KeyStore, not_opened

_SHORTEST, _LONGEST = 8, 512
"""The range of lengths, in characters, of texts that may be credentials."""


class Unsealer:
    """Unseals the events of one run.

    `has_opened` is whether anything was sealed; `declared` are the secrets that the run was given.
    """

    def __init__(
        self, keys: KeyStore, run_id: str, on_declared: Callable[[Known], None] | None = None
    ) -> None:
        self._on_declared = on_declared
        self._key_store = keys
        self._run_id = run_id
        self._keys: KeyRing | None = None
        self.has_opened = False
        self.declared = Known()
        self._short: dict[str, bool] = {}
        """Texts, and whether they were sealed because of their names."""

    @property
    def short(self) -> Known:
        """The texts unsealed so far that may be credentials, to be sealed wherever else they occur."""
        return Known.of(self._short, SEALED, shortest=_SHORTEST)

    @property
    def named(self) -> Known:
        """The texts unsealed so far that were sealed because of their names."""
        return known_by_name(text for text, is_named in self._short.items() if is_named)

    def events(self, rows: Iterable[Event]) -> Iterator[Event]:
        """The events, unsealed and without guides. Raises JournalError: SEC001 to SEC004."""
        for row in self.unguided(rows):
            if row.body is None or not is_sealed(row.body):
                yield row
                continue
            written = sha256(encode_body(row.type, row.body)).digest()
            yield replace(row, body=self.body(row.type, row.body, row.seq), digest=written)

    @staticmethod
    def unguided(rows: Iterable[Event]) -> Iterator[Event]:
        """The events without their guides, for a fold that has the secret values and does not need them."""
        return (row if row.guide is None else replace(row, guide=None) for row in rows)

    def stored(self, kind: str, data: bytes, seq: int) -> Any:
        """The body of an event, decoded and unsealed; raises as `body` does."""
        return self.body(kind, decode_body(data), seq)

    def body(self, kind: str, body: Any, seq: int) -> Any:
        """The body of an event, unsealed; the given one is modified. Raises JournalError as `events` does."""
        if not is_sealed(body):
            return body
        self.has_opened = True
        if self._keys is None:
            self._keys = self._key_store.opening()
        sealed = body[SEALED]
        try:
            body = opened(body, self._keys, self._run_id, self._saw)
        except (WrongKey, NotOpened) as error:
            raise not_opened(self._run_id, seq, error) from error
        if kind == EventType.START:
            self.declared = Known.of(declared_in(body, sealed), DECLARED)
            if self._on_declared is not None:
                self._on_declared(self.declared)
        return body

    def _saw(self, value: object, why: str) -> None:
        if isinstance(value, str) and len(value) <= _LONGEST:
            self._short[value] = self._short.get(value, False) or why == NAMED
