"""The framing of the Debug Adapter Protocol: messages as JSON with a header, as language servers have it.

In: a descriptor and a stream of bytes. Out: requests as they arrive; responses and events that are sent.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from io import RawIOBase, TextIOWrapper
from typing import Any, BinaryIO, NamedTuple, cast

_MAX_BYTES = 50_000_000


class Request(NamedTuple):
    """A request of an editor."""

    seq: int
    command: str
    arguments: Mapping[str, Any]


class Channel:
    """The connection with an editor; messages may be sent from several threads."""

    def __init__(self, incoming: int, outgoing: BinaryIO) -> None:
        """`incoming` is a descriptor: a thread may wait for it until the process ends."""
        self._incoming, self._outgoing = incoming, outgoing
        self._arrived = bytearray()
        self._lock = threading.Lock()
        self._seq = 0

    def receive(self) -> Request | None:
        """The next request; None at the end of the stream. What is no message of the protocol is skipped."""
        length = 0
        while (end := self._reach(b"\n")) >= 0:
            line = self._take(end + 1)
            name, _, value = line.decode("ascii", "replace").partition(":")
            if name.strip().lower() == "content-length" and value.strip().isdecimal():
                length = int(value)
            elif not line.strip() and 0 < length <= _MAX_BYTES:
                while len(self._arrived) < length and self._more():
                    pass
                request = _request(self._take(length))
                length = 0
                if request is not None:
                    return request
        return None

    def _reach(self, mark: bytes) -> int:
        """Where a mark stands in what has arrived; -1 if the stream ends without it."""
        while (at := self._arrived.find(mark)) < 0:
            if not self._more():
                return -1
        return at

    def _more(self) -> bool:
        try:
            data = os.read(self._incoming, 65_536)
        except OSError:
            return False
        self._arrived += data
        return bool(data)

    def _take(self, count: int) -> bytes:
        taken = bytes(self._arrived[:count])
        del self._arrived[:count]
        return taken

    def respond(self, request: Request, body: Mapping[str, Any] | None = None) -> None:
        """Send the response to a request."""
        self._send(
            type="response", request_seq=request.seq, success=True, command=request.command, body=body or {}
        )

    def refuse(self, request: Request, message: str) -> None:
        """Send that a request cannot be carried out, and why."""
        self._send(
            type="response",
            request_seq=request.seq,
            success=False,
            command=request.command,
            message=message,
            body={"error": {"id": 1, "format": message.replace("{", "{{"), "showUser": False}},
        )

    def tell(self, event: str, **body: Any) -> None:
        """Send an event."""
        self._send(type="event", event=event, body=body)

    def _send(self, **message: Any) -> None:
        with self._lock:
            self._seq += 1
            data = json.dumps({"seq": self._seq, **message}, ensure_ascii=False, default=str)
            content = data.encode("utf-8", "backslashreplace")
            with suppress(OSError, ValueError):  # an editor that has gone also ends the incoming stream
                self._outgoing.write(b"Content-Length: %d\r\n\r\n%b" % (len(content), content))
                self._outgoing.flush()


def _request(content: bytes) -> Request | None:
    try:
        found: Any = json.loads(content)
    except (RecursionError, ValueError):
        return None
    if not isinstance(found, dict) or cast("dict[str, Any]", found).get("type") != "request":
        return None
    message = cast("dict[str, Any]", found)
    seq, given = message.get("seq"), message.get("arguments")
    return Request(
        seq if isinstance(seq, int) else 0,
        str(message.get("command", "")),
        cast("dict[str, Any]", given) if isinstance(given, dict) else {},
    )


class _Output(RawIOBase):
    """Writes what a program prints as events of output."""

    def __init__(self, channel: Channel, category: str) -> None:
        self._channel, self._category = channel, category

    def writable(self) -> bool:
        """It can be written."""
        return True

    def write(self, data: Any, /) -> int:
        """Send it at once."""
        text = bytes(data).decode("utf-8", "replace")
        if text:
            self._channel.tell("output", category=self._category, output=text)
        return len(data)


def output_stream(channel: Channel, category: str) -> TextIOWrapper:
    """A text stream that an editor shows: of the category `stdout`, or `console` for messages about a run."""
    raw = cast("Any", _Output(channel, category))
    return TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", write_through=True)
