"""Notes keys that are repeated in an answer of a server, of which the parser silently takes the last.

In: the line of a message and the parsed message, or the response of a URL before its body is read. Out: the
result with the names of these keys in its `_meta`, and the names from there. The SDK sends a request in the
context of its call, where a response over HTTP finds to whom its keys are to be told.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import httpx2
    from mcp_types import CallToolResult

_NAME = "dev.callsheet/repeated-keys"
_MOST_BYTES = 1024 * 1024
"""Longer messages are not examined: that takes several times as long as parsing them."""
_NAMED = 5
_TOLD = 80
_EVENT_END = re.compile(rb"\n\n|\r\r|\r\n\r\n")
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
