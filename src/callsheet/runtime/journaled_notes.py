"""Delays a run's notes to observers until the journal has recorded what they report.

In: the machine's notes. Out: the same notes, after the batch they belong to is written. So nobody hears of a
call that never left because the disk was full.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from callsheet.machine.machine import Observer
from callsheet.machine.notes import Note


class JournaledNotes:
    """Wraps an observer and a callback after each batch, either of which may be None.

    Notes pass through until `hold`; after that they are held until their batch is written.
    """

    def __init__(
        self, observer: Observer | None, after_batch: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._listener = observer
        self._after_batch = after_batch
        self._notes: list[Note] | None = None
        self.observer: Observer | None = None if observer is None else self._note
        """The observer to give to the machine."""
        self.after_batch = after_batch if observer is None else self._deliver
        """To be awaited after a batch is written."""

    def call_after_batch(self, after_batch: Callable[[], Awaitable[None]] | None) -> None:
        """Set the callback after each batch."""
        self._after_batch = after_batch
        self.after_batch = after_batch if self._listener is None else self._deliver

    def hold(self) -> None:
        """From now on hold notes until they are written."""
        self._notes = []

    def release(self) -> None:
        """Deliver the held notes; they have been written."""
        listener, notes = self._listener, self._notes
        if notes and listener is not None:
            self._notes = []
            for note in notes:
                listener(note)

    def _note(self, note: Note) -> None:
        if self._notes is not None:
            self._notes.append(note)
        elif self._listener is not None:
            self._listener(note)

    async def _deliver(self) -> None:
        self.release()
        if self._after_batch is not None:
            await self._after_batch()
