"""An HTTP client that limits the size of responses, so that no provider can send without end.

In: bytes and seconds. Out: a client for one request. httpx2 is imported at first use.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2

_BYTES_A_TOKEN = 24
_BYTES_BESIDE = 65_536
"""The most bytes of a response: so many per requested token, and a fixed amount for the rest."""
_CONNECTING = 10.0
"""Seconds to wait for a connection."""


class TooLarge(Exception):
    """A response is larger than allowed, or compressed in an unknown way."""


def bytes_for(tokens: int) -> int:
    """The most bytes of the response to a request for so many tokens."""
    return _BYTES_BESIDE + _BYTES_A_TOKEN * tokens


@asynccontextmanager
async def bounded_client(
    most: int, seconds: float, *, trust_env: bool = True
) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client whose responses raise TooLarge after `most` bytes; it waits up to `seconds` for each part.

    It asks for no compression; if a response is compressed anyway, its decompressed size counts. `trust_env`
    lets the environment configure a proxy.
    """
    import httpx2  # noqa: PLC0415 - only where a model is asked

    class Bounded(httpx2.AsyncByteStream):
        """The body of a response, decompressed and counted."""

        def __init__(self, stream: httpx2.AsyncByteStream, packed: str) -> None:
            self._stream = stream
            self._packed = packed

        async def __aiter__(self) -> AsyncIterator[bytes]:
            count, unpacked = 0, unpacking(self._packed, most)
            async for part in self._stream:
                chunk = unpacked(part)
                count += len(chunk)
                if count > most:
                    raise TooLarge(f"its answer is larger than {most:,} bytes, more than was requested")
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def bound(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        packed = response.headers.pop("content-encoding", "").strip().lower()
        response.stream = Bounded(response.stream, packed)

    limits = httpx2.Timeout(seconds, connect=min(seconds, _CONNECTING))
    hooks = {"response": [bound]}
    headers = {"Accept-Encoding": "identity"}
    async with httpx2.AsyncClient(
        timeout=limits, trust_env=trust_env, event_hooks=hooks, headers=headers
    ) as client:
        yield client


def unpacking(packed: str, most: int) -> Callable[[bytes], bytes]:
    """A function that decompresses parts of a body, each to at most `most` + 1 bytes; raises TooLarge.

    >>> unpacking("gzip", 3)(zlib.compress(b"a" * 9, wbits=31)), unpacking("", 3)(b"abc")
    (b'aaaa', b'abc')
    """
    if packed in ("", "identity"):
        return lambda part: part
    if packed not in _UNPACKED:
        raise TooLarge(f"its answer is compressed ({packed[:20]!r}), which was not requested")
    decompressor = zlib.decompressobj(_ANY_HEADER)

    def unpack(part: bytes) -> bytes:
        try:
            return decompressor.decompress(part, most + 1)
        except zlib.error as error:
            raise TooLarge(f"its answer is declared to be compressed ({packed}), but is not") from error

    return unpack


_UNPACKED = frozenset({"gzip", "x-gzip", "deflate"})
_ANY_HEADER = 47  # zlib detects a gzip or zlib header


def too_large(error: BaseException) -> TooLarge | None:
    """The TooLarge among the causes of an error, None if there is none."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, TooLarge):
            return cause
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return None
