"""An HTTP client whose answers have a bound, so that no provider can send without end.

In: bytes and seconds. Out: a client for one request. httpx2 is imported when it is used.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2

_BYTES_A_TOKEN = 24
_BYTES_BESIDE = 65_536
"""An answer may have so many bytes for each token that was asked for, and these beside them."""
_CONNECTING = 10.0
"""Seconds until a server that takes no connection is given up."""


class TooLarge(Exception):
    """An answer is larger than any that was asked for."""


def bytes_for(tokens: int) -> int:
    """How large the answer to a request for so many tokens may be."""
    return _BYTES_BESIDE + _BYTES_A_TOKEN * tokens


@asynccontextmanager
async def bounded_client(
    most: int, seconds: float, *, trust_env: bool = True
) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client whose answers raise TooLarge after `most` bytes; `seconds` is how long it waits for a part.

    `trust_env` lets the environment name a proxy.
    """
    import httpx2  # noqa: PLC0415 - only where a model is asked

    class Bounded(httpx2.AsyncByteStream):
        """The bytes of an answer, counted."""

        def __init__(self, stream: httpx2.AsyncByteStream) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            count = 0
            async for chunk in self._stream:
                count += len(chunk)
                if count > most:
                    raise TooLarge(f"its answer is larger than {most:,} bytes, more than was asked")
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def bound(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = Bounded(response.stream)

    limits = httpx2.Timeout(seconds, connect=min(seconds, _CONNECTING))
    hooks = {"response": [bound]}
    async with httpx2.AsyncClient(timeout=limits, trust_env=trust_env, event_hooks=hooks) as client:
        yield client


def too_large(error: BaseException) -> TooLarge | None:
    """The TooLarge that has led to an error, None where another cause has."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, TooLarge):
            return cause
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return None
