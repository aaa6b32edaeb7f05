"""Wraps user callbacks so that synchronous functions are accepted where the documented API has async ones.

In: a function. Out: a coroutine function.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any


def to_async(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """The function, wrapped so that its result can be awaited."""

    async def call(*arguments: object) -> Any:
        given = function(*arguments)
        return await given if inspect.isawaitable(given) else given

    return call
