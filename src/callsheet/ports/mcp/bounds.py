"""How much a server may answer: its bytes are counted as they come, and packed ones are not taken.

In: an answer of a URL whose body has not been read, or pieces of a line of a child process. Out: the same,
whose body ends in an error where it is too long; the error in its place. The streams of events have their own
bound in the SDK, a mebibyte an event, and may stay open for days.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2
    from mcp_types import JSONRPCError

TOO_LONG = "dev.callsheet/too-long"
"""The data of the error that stands for an answer which is longer than is taken."""
_MOST_PASSED_OVER = 16
_KEPT = 200
_ID = rb'"id"\s*:\s*(\d{1,15})'
_HEAD = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID + rb"\s*,")
_END = re.compile(rb",\s*" + _ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')


class TooLong:
    """A message of a child process that is longer than is taken: passed over, but for where its id stands.

    `head` is how it begins. It is `hopeless` where it is no message, or goes on for ever.
    """

    def __init__(self, head: bytes, most: int) -> None:
        self._head = head[:_KEPT]
        self._end = b""
        self._left = _MOST_PASSED_OVER * most
        self.words = f"the answer is longer than {most >> 20} MiB, the most that is taken: ask for less of it"

    @property
    def hopeless(self) -> bool:
        """Whether nobody will find out whose answer it is."""
        return self._left < 0 or not self._head.lstrip().startswith(b"{")

    def go_on(self, piece: bytes) -> None:
        """Pass over some more of it."""
        self._left -= len(piece)
        self._end = (self._end + piece)[-_KEPT:]

    def answer(self) -> JSONRPCError | None:
        """The error that whoever waits for it is told; None where its id has not been found."""
        from mcp_types import ErrorData, JSONRPCError  # noqa: PLC0415 - a session is open

        found = _HEAD.match(self._head) or _END.search(self._end)
        if found is None:
            return None
        told = ErrorData(code=-32000, message=self.words, data=TOO_LONG)
        return JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=told)


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
