"""How much a server may answer: its bytes are counted as they come, and packed ones are not taken.

In: an answer of a URL whose body has not been read, or pieces of a line of a child process. Out: the same,
whose body ends in an error where it is too long; the error in its place. A stream of events may stay open for
days: there each event is bounded.
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
_ENDS = (b"\n\n", b"\r\r", b"\r\n\r\n")
"""What stands behind an event."""
_ANSWER = re.compile(
    rb"(?:(?:event|id|retry)\b[^\r\n]*[\r\n]+|:[^\r\n]*[\r\n]+)*data:\s*\{\s*"
    rb'(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?(?:"id"\s*:\s*(?:\d+|"[^"]{0,99}")\s*,\s*)?"(?:result|error)"\s*:'
)
"""How an event begins that is an answer: what else a server sends names a method."""
_LONGER = "the answer is longer than "
_SDK_SAYS = ("Failed to parse JSON response: ", "SSE stream failed: ")
_END = re.compile(rb",\s*" + _ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')


def words_of(most: int) -> str:
    """What whoever waits for an answer of more than `most` bytes is told."""
    return f"{_LONGER}{most >> 20} MiB, the most that is taken: ask for less of it"


def longer_than_taken(message: str) -> str | None:
    """The words of `words_of` in what the SDK says of an answer that was cut off there; None in all else."""
    for begin in _SDK_SAYS:
        if message.startswith(begin + _LONGER):
            return message.removeprefix(begin)
    return None


class TooLong:
    """A message of a child process that is longer than is taken: passed over, but for where its id stands.

    `head` is how it begins. It is `hopeless` where it is no message, or goes on for ever.
    """

    def __init__(self, head: bytes, most: int) -> None:
        self._head = head[:_KEPT]
        self._end = b""
        self._left = _MOST_PASSED_OVER * most
        self.words = words_of(most)

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


class _Event:
    """The event that a stream is in the middle of: how long it is so far, and how it begins."""

    def __init__(self) -> None:
        self.size = 0
        self.head = b""
        self._tail = b""

    def go_on(self, piece: bytes) -> None:
        """Some more of the stream, in which events may end and begin."""
        text = self._tail + piece
        ends = (text.rfind(end) + len(end) for end in _ENDS if end in text)
        begun = max(ends, default=-1)
        if begun >= 0:
            self.size, self.head = len(text) - begun, text[begun : begun + _KEPT]
        else:
            self.size += len(piece)
            self.head += piece[: _KEPT - len(self.head)]
        self._tail = text[-3:]


def unpacked(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of requests, which ask for nothing compressed: few bytes would become gigabytes."""
    return {"Accept-Encoding": "identity", **headers}


def bound_answer(response: httpx2.Response, most: int) -> None:
    """Let `most` bytes of the body, or of an event, be read; then, or if it is packed, httpx2.StreamError or
    httpx2.SSEError is raised.
    """
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
            size, event = 0, _Event()
            async for part in stream:
                size += len(part)
                event.go_on(part)
                if is_endless and event.size > most:
                    is_answer = _ANSWER.match(event.head) is not None
                    raise httpx2.SSEError(
                        words_of(most) if is_answer else f"an event is longer than {most >> 20} MiB"
                    )
                if size > most and not is_endless:
                    raise httpx2.StreamError(words_of(most))
                yield part

        async def aclose(self) -> None:
            await stream.aclose()

    response.stream = Bounded()
