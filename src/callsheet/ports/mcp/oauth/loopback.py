"""A local HTTP server that receives the browser's redirect at the end of a login.

In: requests from anyone on this machine. Out: the parameters of the request with the right state. All other
requests are rejected and do not end the login, since only the browser knows the state.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

HOST = "127.0.0.1"
PATH = "/callback"
_MOST_BYTES = 16 * 1024
_SECONDS = 10.0
_MOST_AT_ONCE = 20
_HEADERS = (
    "Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
    "Content-Security-Policy: default-src 'none'\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n"
)
_DONE = "You can close this page: callsheet has received the answer, and shows the result in its terminal.\n"
_NO = "This is not the answer that callsheet is waiting for.\n"


def redirect_uri(port: int) -> str:
    """The URL to which the browser is redirected."""
    return f"http://{HOST}:{port}{PATH}"


def bound(port: int = 0) -> socket.socket:
    """A listening socket on the loopback interface, on this port or any free one (0); raises OSError."""
    return socket.create_server((HOST, port), reuse_port=False)


def parameters(url: str) -> dict[str, str]:
    """The query parameters of a redirect URL; repeated ones are left out."""
    values_of = parse_qs(urlsplit(url).query, keep_blank_values=True, max_num_fields=50)
    return {name: values[0] for name, values in values_of.items() if len(values) == 1}


class Waiting:
    """Waits for the request with this state."""

    def __init__(self, state: str, port: int) -> None:
        self._state = state
        self._hosts = {f"{HOST}:{port}", f"localhost:{port}"}
        self._busy = 0
        self._answer: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()

    async def answer(self, seconds: float) -> Mapping[str, str]:
        """The parameters of the redirect; raises TimeoutError after `seconds`."""
        async with asyncio.timeout(seconds):
            return await asyncio.shield(self._answer)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        self._busy += 1
        try:
            if self._busy <= _MOST_AT_ONCE:
                async with asyncio.timeout(_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    status, text = self._judge(head.decode("latin-1"))
                    body = text.encode()
                    line = f"HTTP/1.1 {status}\r\n{_HEADERS}Content-Length: {len(body)}\r\n\r\n"
                    writer.write(line.encode() + body)
                    await writer.drain()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # incomplete requests get no answer
        finally:
            self._busy -= 1
            writer.close()

    def _judge(self, head: str) -> tuple[str, str]:
        """The status and text of the response to a request; accepts the one with the right state."""
        first, *lines = head.split("\r\n")
        method, _, rest = first.partition(" ")
        target = rest.rpartition(" ")[0]
        hosts = [line.partition(":")[2].strip().lower() for line in lines if line[:5].lower() == "host:"]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return "421 Misdirected Request", _NO
        if method != "GET":
            return "405 Method Not Allowed", _NO
        try:
            given = parameters(target)
        except ValueError:
            return "400 Bad Request", _NO
        if target.partition("?")[0] != PATH:
            return "404 Not Found", _NO
        if not secrets.compare_digest(given.get("state", "").encode(), self._state.encode()):
            return "400 Bad Request", _NO
        if not self._answer.done():
            self._answer.set_result(given)
        return "200 OK", _DONE


@asynccontextmanager
async def listening(listener: socket.socket, state: str) -> AsyncGenerator[Waiting]:
    """Serve on a socket, closed at the end, until the context is left."""
    waiting = Waiting(state, listener.getsockname()[1])
    server = await asyncio.start_server(waiting.serve, sock=listener, limit=_MOST_BYTES)
    try:
        yield waiting
    finally:
        server.close()
