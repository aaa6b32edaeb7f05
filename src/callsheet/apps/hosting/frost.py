"""Python's collector of circular garbage kept away from what large runs are made of.

In: how many steps a run's plan has. Out: a hold on the collector, from before the plan is prepared until the
run is under way no more. A full collection stops all threads while it goes through everything that is alive:
for a plan of 30,000 steps that is a third of a second, and nothing is found, for plans and programs have no
circles and are freed when nobody refers to them. So none begins while a large run is prepared, and what is
there then is left out of those that follow.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Final, TypeVar

from callsheet.runtime.beside import Beside

_T = TypeVar("_T")
LARGE: Final = 2_000
"""Steps of a plan from which on a full collection would be felt."""


class Frost:
    """What the holds of one host have in common; all of it on the thread of the host's event loop."""

    def __init__(self) -> None:
        self._building = 0
        self._kept = 0
        self._was_enabled = False

    def begin(self) -> None:
        """Something large is built from now on."""
        if not self._building:
            self._was_enabled = gc.isenabled()
            gc.disable()
        self._building += 1

    def end(self) -> None:
        """It has been built, or given up."""
        self._building -= 1
        if not self._building and self._was_enabled:
            gc.enable()

    def keep(self) -> None:
        """Leave what is there now out of collections."""
        self._kept += 1
        gc.freeze()

    def let_go(self) -> None:
        """One is needed no more; behind the last of them collections go through everything again."""
        self._kept -= 1
        if not self._kept:
            gc.unfreeze()


class Hold:
    """One run's: it is prepared, it is there, it is gone. For a small one nothing is done.

    Without `steps` the run is taken for a large one until `built` tells.
    """

    def __init__(self, frost: Frost, steps: int | None = None) -> None:
        self._frost = frost
        self._steps = steps
        self._is_building = self._is_kept = False

    @property
    def _is_small(self) -> bool:
        return self._steps is not None and self._steps < LARGE

    def begin(self) -> None:
        """What the run needs is made from now on."""
        if not self._is_small and not self._is_building:
            self._is_building = True
            self._frost.begin()

    def built(self, steps: int) -> None:
        """It is there, with a plan of so many steps."""
        self._steps = steps
        self._rest()

    async def beside(self, beside: Beside, look: Callable[[], _T]) -> _T:
        """What `look` gives or raises; it makes more of what the run needs."""
        self.begin()
        try:
            return await beside(look)
        finally:
            self._rest()

    def _rest(self) -> None:
        """Keep what is there; as long as nobody has told how large the run is, it is still built."""
        if self._steps is None:
            return
        if not self._is_small:
            was_kept, self._is_kept = self._is_kept, True
            self._frost.keep()
            if was_kept:
                self._frost.let_go()
        self._end()

    def release(self) -> None:
        """It is needed no more; to be told twice changes nothing."""
        self._end()
        if self._is_kept:
            self._is_kept = False
            self._frost.let_go()

    def _end(self) -> None:
        if self._is_building:
            self._is_building = False
            self._frost.end()
