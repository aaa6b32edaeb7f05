"""Pauses Python's cyclic garbage collector while many objects without cycles are built."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

_MUCH = 10_000
"""From this many young objects on they are moved to the oldest generation."""


class _Freezing:
    """Whether the application has frozen objects, as servers do before they fork.

    Once some were seen they are not counted again: that takes time proportional to their number.
    """

    is_known = False

    def is_used(self) -> bool:
        """Whether there are, or were, frozen objects."""
        self.is_known = self.is_known or gc.get_freeze_count() > 0
        return self.is_known


_freezing = _Freezing()


@contextmanager
def gc_paused(when: bool) -> Generator[None]:
    """If `when` holds, disables collection until the end of the block.

    Otherwise the collector scans the growing heap repeatedly and frees nothing, which takes a third to two
    thirds of the time for a plan of 100,000 steps. Many new objects are moved to the oldest generation, so
    that the next young collection does not scan them, unless the application itself freezes objects, which
    this would undo.

    >>> with gc_paused(True):
    ...     gc.isenabled()
    False
    """
    if not when or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_count()[0] > _MUCH and not _freezing.is_used():
            gc.freeze()
            gc.unfreeze()
        gc.enable()
