"""What is told of a run while it goes on: what its journal has, and not what is only about to happen.

In: the notes of the machine, as they come. Out: the same to who watches, once what they tell of has
been written down. So nobody reads of a call that never left because the disk was full.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from callsheet.machine.machine import Observer
from callsheet.machine.notes import Note


class Hearing:
    """Stands before an observer and what is awaited after each batch, either of which may not be there.

    Notes go through until `hold`; from then on they wait for the batch that they belong to.
    """

    def __init__(
        self, observer: Observer | None, after_batch: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._listener = observer
        self._then = after_batch
        self._held: list[Note] | None = None
        self.observer: Observer | None = None if observer is None else self._note
        """What the machine tells."""
        self.after_batch = after_batch if observer is None else self._tell
        """To be awaited once a batch is written."""

    def hold(self) -> None:
        """From now on nothing is told that is not written."""
        self._held = []

    def release(self) -> None:
        """Tell what was held: it is written."""
        listener, held = self._listener, self._held
        if held and listener is not None:
            self._held = []
            for note in held:
                listener(note)

    def _note(self, note: Note) -> None:
        if self._held is not None:
            self._held.append(note)
        elif self._listener is not None:
            self._listener(note)

    async def _tell(self) -> None:
        self.release()
        if self._then is not None:
            await self._then()
