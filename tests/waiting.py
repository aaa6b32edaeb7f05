"""Waiting for a condition that no event announces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(holds: Callable[[], object]) -> None:
    """Return as soon as the condition holds; raise `TimeoutError` after a minute."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - another process may be what it waits for
            await asyncio.sleep(0.01)
