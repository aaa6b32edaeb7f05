"""Blocking work away from the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


async def in_thread(function: Callable[..., _T], *arguments: object) -> _T:
    """What `function(*arguments)` gives, worked out in a thread while the event loop goes on."""
    import asyncio  # noqa: PLC0415 - declarations are read where nothing runs; asyncio costs them double

    return await asyncio.to_thread(function, *arguments)
