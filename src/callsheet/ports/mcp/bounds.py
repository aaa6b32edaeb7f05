"""How much a server at a URL may answer: its bytes are counted as they come, and packed ones are not taken.

In: an answer whose body has not been read. Out: the same, whose body ends in an error where it is too long.
The streams of events have their own bound in the SDK, a mebibyte an event, and may stay open for days.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2


def unpacked(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of requests, which ask for nothing compressed: few bytes would become gigabytes."""
    return {"Accept-Encoding": "identity", **headers}


def bound_answer(response: httpx2.Response, most: int) -> None:
    """Let `most` bytes of the body be read; then, or if it is packed, httpx2.StreamError is raised."""
    import httpx2  # noqa: PLC0415 - a request was sent with it

    stream = response.stream
    if not isinstance(stream, httpx2.AsyncByteStream):
        return
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    packed = response.headers.pop("content-encoding", "identity").strip().lower() not in ("", "identity")
    is_endless = kind == "text/event-stream" and not packed

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            if packed:
                raise httpx2.StreamError("it is compressed, which nobody asked for")
            size = 0
            async for part in stream:
                size += len(part)
                if size > most and not is_endless:
                    raise httpx2.StreamError(f"it is longer than {most >> 20} MiB")
                yield part

        async def aclose(self) -> None:
            await stream.aclose()

    response.stream = Bounded()
