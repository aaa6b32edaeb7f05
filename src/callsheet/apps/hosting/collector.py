"""Keeps Python's cyclic garbage collector from scanning the data of large runs.

In: the number of steps of a run's plan. Out: a hold on the collector, from before the plan is prepared until
the run stops. A full collection stops all threads while it scans every live object: a third of a second for
a plan of 30,000 steps, to find nothing, since plans and programs contain no reference cycles. So the
collector is off while a large run is prepared, and its objects are then frozen (`gc.freeze`). When the last
large run is gone, its memory is returned to the system, as a server may run nothing large for days.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from typing import Final, TypeVar

from callsheet.runtime.event_loop import Offload

_T = TypeVar("_T")
LARGE: Final = 2_000
"""The number of steps from which a full collection causes a noticeable pause."""


class CollectorControl:
    """The shared counters of one host's holds; to be used on the thread of its event loop only."""

    def __init__(self, on_gone: Callable[[], None] = lambda: None) -> None:
        self._on_gone = on_gone
        """Called when no large run is left."""
        self._building = 0
        self._frozen = 0
        self._was_enabled = False

    def begin(self) -> None:
        """Turn the collector off while something large is built."""
        if not self._building:
            self._was_enabled = gc.isenabled()
            gc.disable()
        self._building += 1

    def end(self) -> None:
        """Turn the collector on again when nothing is being built any more."""
        self._building -= 1
        if not self._building and self._was_enabled:
            gc.enable()

    def freeze(self) -> None:
        """Exclude all objects that exist now from collections."""
        self._frozen += 1
        gc.freeze()

    def unfreeze(self) -> None:
        """Undo one `freeze`; after the last, collections include all objects again."""
        self._frozen -= 1
        if not self._frozen:
            gc.unfreeze()
            self._on_gone()

    def give_back(self) -> None:
        """Return what large runs have left to the system, unless another one is there."""
        if self._frozen or self._building:
            return
        gc.collect()
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
        if trim is not None:
            trim(0)


class CollectorHold:
    """The hold of one run on the collector: while it is built, and while it exists; none for a small run.

    Without `steps` the run is treated as large until `built` gives their number.
    """

    def __init__(self, control: CollectorControl, steps: int | None = None) -> None:
        self._control = control
        self._steps = steps
        self._is_building = self._is_frozen = False

    @property
    def _is_small(self) -> bool:
        return self._steps is not None and self._steps < LARGE

    def begin(self) -> None:
        """Start building the data of the run."""
        if not self._is_small and not self._is_building:
            self._is_building = True
            self._control.begin()

    def built(self, steps: int) -> None:
        """The data has been built, for a plan of so many steps."""
        self._steps = steps
        self._freeze_built()

    async def beside(self, beside: Offload, look: Callable[[], _T]) -> _T:
        """Run `look`, which builds data of the run, in a thread; returns or raises what it does."""
        self.begin()
        try:
            return await beside(look)
        finally:
            self._freeze_built()

    def _freeze_built(self) -> None:
        """Freeze the data built so far; while the size of the run is unknown, it still counts as building."""
        if self._steps is None:
            return
        if not self._is_small:
            was_frozen, self._is_frozen = self._is_frozen, True
            self._control.freeze()
            if was_frozen:
                self._control.unfreeze()
        self._end()

    def release(self) -> None:
        """End the hold; a second call has no effect."""
        self._end()
        if self._is_frozen:
            self._is_frozen = False
            self._control.unfreeze()

    def _end(self) -> None:
        if self._is_building:
            self._is_building = False
            self._control.end()
