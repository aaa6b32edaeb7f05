"""The transports: one client over standard input and output, or many over streamable HTTP.

An HTTP request needs the token, a loopback Host header and no foreign Origin; the time for its head is
limited.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import socket
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import WSProtocolType

from callsheet.apps.head_timeout import HeadTimeoutProtocol
from callsheet.apps.hosting import Host
from callsheet.apps.masking import Masker
from callsheet.apps.mcp.server_context import ServerContext
from callsheet.apps.mcp.stdio import InvalidMessage, json_in, stdio_streams
from callsheet.apps.setup import Setup
from callsheet.diagnostics import CallsheetError
from callsheet.machine import Limits
from callsheet.policy.model import Policy
from callsheet.store import Journal
from callsheet.store.library import PlanLibrary

if TYPE_CHECKING:
    from callsheet.apps.mcp.server import MoreTools

_PATIENCE = 5
"""The time for pending requests when the server stops, in seconds."""
_MOST_SESSIONS = 1_000
_MOST_BODY = 4 * 1024 * 1024
"""The size up to which a body is read before it is passed on, in bytes; the SDK refuses larger ones."""
_NO_WEBSOCKETS: WSProtocolType = "none"
_ADDRESS = re.compile(r"(?:(?P<host>\[[0-9A-Fa-f:.]+\]|[^:\[\]]*):)?(?P<port>\d{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """A loopback host and a port; port 0 stands for any free port."""

    host: str
    port: int

    @property
    def authority(self) -> str:
        """Host and port as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"http://{self.authority}/mcp"


def read_address(text: str) -> Address:
    """Parse `[HOST:]PORT`.

    Raises CallsheetError: CFG010 for an invalid address, MCP002 for a host that is not a loopback address.

    >>> read_address("8321"), read_address("[::1]:0").url
    (Address(host='127.0.0.1', port=8321), 'http://[::1]:0/mcp')
    """
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match["port"]) > 65_535:
        message = f"{text[:60]!r} is not an address to listen on"
        raise CallsheetError.single("CFG010", message, help="write a port (8321), or 127.0.0.1:8321")
    host = (match["host"] or "127.0.0.1").strip("[]")
    if host != "localhost" and not _is_loopback(host):
        raise CallsheetError.single(
            "MCP002",
            f"callsheet mcp listens only on loopback addresses, and {host} is an address of the network",
            help=f"write --http {match['port']}; for other machines use ssh -L or a proxy with TLS",
        )
    return Address("127.0.0.1" if host == "localhost" else host, int(match["port"]))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(address: Address) -> tuple[socket.socket, Address]:
    """Return a listening socket, and its address with the actual port.

    Raises CallsheetError (MCP003) if the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        bound = socket.create_server((address.host, address.port), family=family, backlog=128)
    except OSError as error:
        message = f"{address.authority} cannot be used: {error.strerror or error}"
        hint = "name another port, or 0 for any free port"
        raise CallsheetError.single("MCP003", message, help=hint) from error
    return bound, Address(address.host, bound.getsockname()[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """The configuration of a server: the setup and limits of runs, the policy, the library, the journal.

    With `clients_may_answer`, clients without forms may answer for a person. `hint` is the option of commands
    that names the journal (` --journal PATH`). `operations` are the names of those offered as tools,
    None for all.
    """

    setup: Setup
    limits: Limits
    policy: Policy | None
    library: PlanLibrary
    journal: Journal
    clients_may_answer: bool = False
    hint: str = ""
    operations: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class HttpEndpoint:
    """A listening socket, its address, and the token that clients must send."""

    listener: socket.socket
    address: Address
    token: str
    is_token_new: bool
    """Whether the token was generated for this server and has to be printed."""


async def serve(
    config: ServerConfig,
    endpoint: HttpEndpoint | None,
    notify: Callable[[str], None],
    more: Callable[[ServerContext], MoreTools] | None = None,
) -> None:
    """Serve one client over standard input and output until it disconnects, or HTTP clients until cancelled.

    `notify` is called with messages for the operator; `more` makes further tools. Runs that have not
    ended are interrupted.
    """
    host = Host(config.setup, config.journal, limits=config.limits, policy=config.policy, say=notify)
    async with host:
        server_context = ServerContext(
            host=host,
            library=config.library,
            clients_may_answer=config.clients_may_answer,
            hint=config.hint,
        )
        from callsheet.apps.mcp.server import make_server  # noqa: PLC0415 - not for a gate

        further = None if more is None else more(server_context)
        server = make_server(server_context, config.operations, further)
        if endpoint is None:
            await serve_stdio(server, host.masker)
            return
        notify(f"callsheet mcp listens at {endpoint.address.url}")
        if endpoint.is_token_new:
            notify(f"clients need this token (Authorization: Bearer …): {endpoint.token}")
        with host.masker.masking_output():
            await serve_http(server, endpoint.listener, endpoint.address, endpoint.token)


async def serve_stdio(server: Server[Any], masker: Masker) -> None:
    """Serve the client on standard input and output until it closes them."""
    async with stdio_streams() as (incoming, outgoing):
        with (
            masker.masking_output()
        ):  # after the streams are reserved, so that output of tools is not a message
            await server.run(incoming, outgoing, server.create_initialization_options())


async def serve_http(server: Server[Any], bound: socket.socket, address: Address, token: str) -> None:
    """Serve clients at a listening socket until this is cancelled."""
    config = uvicorn.Config(
        http_app(server, address, token),
        http=HeadTimeoutProtocol,
        log_config=None,
        access_log=False,
        server_header=False,
        ws=_NO_WEBSOCKETS,
        timeout_graceful_shutdown=_PATIENCE,
    )
    web = _HttpServer(config)
    serving = asyncio.create_task(web.serve([bound]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        web.should_exit = True
        await asyncio.wait({serving})
        raise


class _HttpServer(uvicorn.Server):
    """A server that leaves signals to the program."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def http_app(server: Server[Any], address: Address, token: str) -> ASGIApp:
    """The server as an ASGI application at `/mcp`."""
    names = {address.authority, f"localhost:{address.port}"}
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=sorted(names),
        allowed_origins=sorted(f"http://{name}" for name in names),
    )
    app = server.streamable_http_app(
        transport_security=security, host=address.host, max_sessions=_MOST_SESSIONS
    )
    return _TokenGuard(_StrictJson(app), token)


class _TokenGuard:
    """Refuses requests without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._has_token(Headers(scope=scope)):
            error = {"error": "unauthorized", "message": "send the token: Authorization: Bearer TOKEN"}
            refused = JSONResponse(error, 401, headers={"WWW-Authenticate": 'Bearer realm="callsheet"'})
            await refused(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _has_token(self, headers: Headers) -> bool:
        kind, _, shown = headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), self._token)


class _StrictJson:
    """Refuses bodies that are ambiguous as JSON, such as duplicate keys and NaN, as on standard input.

    The server of the SDK would take the last of equal keys, and numbers that JSON does not have.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        messages, size, is_whole = list[Message](), 0, False
        while not is_whole and size <= _MOST_BODY:
            message = await receive()
            messages.append(message)
            size += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
        if is_whole and size <= _MOST_BODY and messages[-1]["type"] == "http.request":
            try:
                json_in(b"".join(message.get("body", b"") for message in messages), "body")
            except InvalidMessage as refused:
                error = refused.response.model_dump(mode="json", exclude_none=True) | {"id": None}
                await JSONResponse(error, 400)(scope, receive, send)
                return
        await self._app(scope, _replaying(messages, receive), send)


def _replaying(messages: list[Message], receive: Receive) -> Receive:
    """A function that returns messages that were received already, and then further ones."""
    left = deque(messages)

    async def receive_again() -> Message:
        return left.popleft() if left else await receive()

    return receive_again
