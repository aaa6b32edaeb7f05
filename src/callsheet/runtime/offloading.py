"""Runs long computations outside the event loop, so that other tasks on the loop continue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

_T = TypeVar("_T")


class Offload(Protocol):
    """Runs a function outside the event loop."""

    async def __call__(self, look: Callable[[], _T], /) -> _T:
        """Return or raise what `look` returns or raises."""
        ...


async def at_once(look: Callable[[], _T], /) -> _T:
    """Run `look` on the loop itself, for callers that are alone on it."""
    return look()


async def to_its_end(offload: Offload, look: Callable[[], _T]) -> _T:
    """Return or raise what `look` does; a cancelled caller leaves only after it has ended.

    Resources that it uses can then be closed safely.
    """
    if offload is at_once:
        return look()
    task = asyncio.ensure_future(offload(look))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
