"""Work that takes long, done beside an event loop that goes on meanwhile, where there are others on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

_T = TypeVar("_T")


class Beside(Protocol):
    """Works something out beside the event loop."""

    async def __call__(self, look: Callable[[], _T], /) -> _T:
        """What `look` gives, or raises."""
        ...


async def at_once(look: Callable[[], _T], /) -> _T:
    """What `look` gives or raises, worked out on the loop: for who is alone on it."""
    return look()


async def to_its_end(beside: Beside, look: Callable[[], _T]) -> _T:
    """What `look` gives or raises; who is cancelled meanwhile goes when it is done, and not before.

    So what it works with can be closed then.
    """
    if beside is at_once:
        return look()
    task = asyncio.ensure_future(beside(look))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
