"""Bounds the size of a server's messages while they are read, and rejects compressed responses.

In: the response of a URL before its body is read, or pieces of a line from a child process. Out: the same
response, whose body raises an error once it is too long; for a line, the error message that replaces it. An
event stream may stay open for days, so there each event is bounded.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from callsheet import lazy

if TYPE_CHECKING:
    import httpx2
    from mcp_types import CallToolResult, JSONRPCError

TOO_LONG = "dev.callsheet/too-long"
"""The `data` of the JSON-RPC error that replaces a message which is too long."""
_MOST_PASSED_OVER = 16
_KEPT = 200
_ID = rb'"id"\s*:\s*(\d{1,15})'
_HEAD = lazy.pattern(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID + rb"\s*,")
_ENDS = (b"\n\n", b"\r\r", b"\r\n\r\n")
"""The terminators of a server-sent event."""
_ANSWER = lazy.pattern(
    rb"(?:(?:event|id|retry)\b[^\r\n]*[\r\n]+|:[^\r\n]*[\r\n]+)*data:\s*\{\s*"
    rb'(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?(?:"id"\s*:\s*(?:\d+|"[^"]{0,99}")\s*,\s*)?"(?:result|error)"\s*:'
)
"""The beginning of an event that is a response: every other message of a server names a method."""
_LONGER = "the answer is longer than "
_SDK_SAYS = ("Failed to parse JSON response: ", "SSE stream failed: ")
_END = lazy.pattern(rb",\s*" + _ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')


def words_of(most: int) -> str:
    """The text of the error for a response of more than `most` bytes."""
    return f"{_LONGER}{most >> 20} MiB, the limit: request less"


def longer_than_taken(message: str) -> str | None:
    """The text of `words_of` in the SDK's message about a response cut off here, else None."""
    for begin in _SDK_SAYS:
        if message.startswith(begin + _LONGER):
            return message.removeprefix(begin)
    return None


class TooLong:
    """An over-long message of a child process: skipped, but searched for its id at the start and the end.

    `head` is its beginning. It is `hopeless` if it is no JSON object or does not end.
    """

    def __init__(self, head: bytes, most: int) -> None:
        self._head = head[:_KEPT]
        self._end = b""
        self._left = _MOST_PASSED_OVER * most
        self.words = words_of(most)

    @property
    def hopeless(self) -> bool:
        """Whether its id cannot be found any more."""
        return self._left < 0 or not self._head.lstrip().startswith(b"{")

    def skip(self, piece: bytes) -> None:
        """Skip another piece of it."""
        self._left -= len(piece)
        self._end = (self._end + piece)[-_KEPT:]

    def answer(self) -> JSONRPCError | None:
        """The JSON-RPC error for the call that waits for it; None if its id was not found."""
        from mcp_types import ErrorData, JSONRPCError  # noqa: PLC0415 - a session is open

        match = _HEAD.match(self._head) or _END.search(self._end)
        if match is None:
            return None
        error = ErrorData(code=-32000, message=self.words, data=TOO_LONG)
        return JSONRPCError(jsonrpc="2.0", id=int(match[1]), error=error)


class _Event:
    """The event that is being read: its size so far, and its beginning."""

    def __init__(self) -> None:
        self.size = 0
        self.head = b""
        self._tail = b""

    def feed(self, piece: bytes) -> None:
        """Take in a piece of the stream, in which events may end and begin."""
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
    """Request headers that ask for no compression, since a few bytes could expand to gigabytes."""
    return {"Accept-Encoding": "identity", **headers}


def bound_answer(response: httpx2.Response, most: int) -> None:
    """Limit the body of a response, or each event of a stream, to `most` bytes.

    Reading more than that, or a compressed body, raises httpx2.StreamError or httpx2.SSEError.
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
                raise httpx2.StreamError("it is compressed, which was not requested")
            size, event = 0, _Event()
            async for part in stream:
                size += len(part)
                event.feed(part)
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


_NAME = "dev.callsheet/repeated-keys"
_MOST_BYTES = 1024 * 1024
"""Longer messages are not examined: that takes several times as long as parsing them."""
_NAMED = 5
_TOLD = 80
_EVENT_END = lazy.pattern(rb"\n\n|\r\r|\r\n\r\n")
_OF_CALL: ContextVar[list[str] | None] = ContextVar("callsheet_repeated_keys", default=None)


def note_repeated_keys(line: bytes, message: Any) -> None:
    """Note in a parsed message which keys of its structured content are repeated."""
    if b'"structuredContent"' not in line or len(line) > _MOST_BYTES:
        return
    result = getattr(message, "result", None)
    if not isinstance(result, dict):
        return
    found = _repeated(line)
    if found:
        fields = cast("dict[str, Any]", result)
        meta = fields.get("_meta")
        fields["_meta"] = {**(cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}), _NAME: found}


@contextmanager
def repeated_keys_in_answer() -> Generator[list[str]]:
    """Collect the repeated keys in the answers to requests that are sent in this context, over HTTP."""
    noted: list[str] = []
    token = _OF_CALL.set(noted)
    try:
        yield noted
    finally:
        _OF_CALL.reset(token)


def noted_in(result: CallToolResult, keys: list[str]) -> CallToolResult:
    """The result with the collected keys in its `_meta`."""
    return result.model_copy(update={"meta": {**(result.meta or {}), _NAME: keys[-1]}}) if keys else result


def examine_answer(response: httpx2.Response) -> None:
    """Have the body of a response examined while it is read, before its reader has the whole message."""
    import httpx2  # noqa: PLC0415 - a request was sent with it

    noted, stream = _OF_CALL.get(), response.stream
    if noted is None or not isinstance(stream, httpx2.AsyncByteStream):
        return
    is_event_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")

    class Examined(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            message = _Message()
            async for part in stream:
                message.add(part)
                if is_event_stream:
                    for event in message.events():
                        _note(_data_of(event), noted)
                yield part
            if not is_event_stream:
                _note(message.text, noted)

        async def aclose(self) -> None:
            await stream.aclose()

    response.stream = Examined()


class _Message:
    """The message that is being read; one that is too long to be examined counts as empty."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._seam = b""
        self._has_end = False

    @property
    def text(self) -> bytes:
        """What has arrived of it."""
        return b"".join(self._parts) if self._size <= _MOST_BYTES else b""

    def add(self, part: bytes) -> None:
        """Take in a part."""
        self._has_end |= _EVENT_END.search(self._seam + part) is not None
        self._seam = part[-3:]
        self._size += len(part)
        if self._size <= _MOST_BYTES:
            self._parts.append(part)
        else:
            self._parts = [part[-3:]]

    def events(self) -> list[bytes]:
        """The server-sent events that have ended; the rest remains."""
        if not self._has_end:
            return []
        self._has_end = False
        *ended, rest = _EVENT_END.split(b"".join(self._parts))
        if ended:
            if self._size > _MOST_BYTES:
                ended = ended[1:]
            self._parts, self._size = [rest], len(rest)
        return ended


def _data_of(event: bytes) -> bytes:
    return b"\n".join(line[5:] for line in event.splitlines() if line.startswith(b"data:"))


def _note(message: bytes, noted: list[str]) -> None:
    if b'"structuredContent"' in message and (found := _repeated(message)):
        noted.append(found)


def repeated_keys_of(result: CallToolResult) -> str:
    """The repeated keys that were noted in a result, as text; empty if there are none."""
    noted: Any = (result.meta or {}).get(_NAME)
    return noted[: _NAMED * (_TOLD + 4)] if isinstance(noted, str) else ""


def _repeated(line: bytes) -> str:
    names: dict[str, None] = {}

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(found)
        if len(made) < len(found):
            seen: set[str] = set()
            names.update((key, None) for key, _ in found if key in seen or seen.add(key))
        return made

    try:
        json.loads(line, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return ""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(json.dumps(name[:_TOLD]) for name in list(names)[:_NAMED]) + more
