"""Callbacks of users, which the documents have async: one that is not is taken as it is.

In: a function. Out: one to be awaited. Else a tool that is not async would be called, and its answer lost.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any


def to_await(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """The function as one whose answer is awaited."""

    async def call(*arguments: object) -> Any:
        given = function(*arguments)
        return await given if inspect.isawaitable(given) else given

    return call
