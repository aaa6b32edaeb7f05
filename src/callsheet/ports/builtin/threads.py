"""Runs blocking functions in threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


async def in_thread(function: Callable[..., _T], *arguments: object) -> _T:
    """The result of `function(*arguments)`, run in a thread so that the event loop is not blocked."""
    import asyncio  # noqa: PLC0415 - declarations are read where nothing runs; asyncio costs them double

    return await asyncio.to_thread(function, *arguments)
