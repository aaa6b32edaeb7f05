"""The transports: one client over standard input and output, by lines, or many over streamable HTTP.

In: standard input and output, which are then reserved for the client. Out: streams of messages for a session.
The SDK's transport silently drops invalid lines, and cannot be cancelled while it waits for a line, so that
a signal would not end the process.

An HTTP request needs the token, a loopback Host header and no foreign Origin; the time for its head is
limited.
"""

from __future__ import annotations

import asyncio
import fcntl
import hmac
import ipaddress
import os
import re
import select
import socket
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import anyio
import uvicorn
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel.server import Server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import WSProtocolType

from callsheet.apps.head_timeout import HeadTimeoutProtocol
from callsheet.apps.hosting import Host
from callsheet.apps.masking import Masker
from callsheet.apps.mcp.server_context import ServerContext
from callsheet.apps.setup import Setup
from callsheet.diagnostics import CallsheetError
from callsheet.ir.strict_json import NotJson, read_json
from callsheet.machine import Limits
from callsheet.policy.model import Policy
from callsheet.store import Journal
from callsheet.store.library import PlanLibrary

if TYPE_CHECKING:
    from callsheet.apps.mcp.server import MoreTools


MOST_BYTES = 64 * 1024 * 1024
"""The maximum length of a line in bytes, since a line is in memory as a whole."""
_FORM = 'a message is {"jsonrpc": "2.0", "id": a number or a text, "method": a text, "params": an object}'


class InvalidMessage(Exception):
    """The line is not a valid message; `response` is the error response."""

    def __init__(self, code: int, message: str, request: RequestId | None = None) -> None:
        super().__init__(message)
        self.response = JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=code, message=message))


def parse_message(line: bytes) -> JSONRPCMessage | None:
    """Parse a line; None if it is empty. Raises InvalidMessage.

    An invalid response becomes an error for the request that waits for it, since responses are not answered.

    >>> parse_message(b'{"jsonrpc": "2.0", "id": 7, "method": "ping"}').method
    'ping'
    >>> parse_message(b"ping")
    Traceback (most recent call last):
    callsheet.apps.mcp.transports.InvalidMessage: the line is not JSON: expecting value (character 1)
    """
    if len(line) > MOST_BYTES:
        raise InvalidMessage(INVALID_REQUEST, f"a message may have at most {MOST_BYTES:,} bytes")
    if not line.strip():
        return None
    value = json_in(line)
    if isinstance(value, list):
        raise InvalidMessage(INVALID_REQUEST, "batches are not supported: send each message on its own line")
    if not isinstance(value, dict):
        raise InvalidMessage(INVALID_REQUEST, f"this is not a message: {_FORM}")
    return _message(cast("dict[str, Any]", value))


def json_in(line: bytes, what: str = "line") -> Any:
    """The JSON in a line or, as `what` says, a body; raises InvalidMessage for what is ambiguous in it."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise InvalidMessage(PARSE_ERROR, f"the {what} is not UTF-8 (byte {error.start + 1})") from None
    try:
        value = read_json(text)
    except NotJson as error:
        where = "" if error.at is None else f" (character {error.at + 1})"
        raise InvalidMessage(PARSE_ERROR, f"the {what} is not JSON: {error}{where}") from None
    if b"\\ud" in line or b"\\uD" in line:
        _refuse_lone_surrogates(value, what)
    return value


def _refuse_lone_surrogates(value: Any, what: str) -> None:
    """Raise InvalidMessage for a lone surrogate, since a response that contains it could not be encoded."""
    stack: list[Any] = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, dict):
            table = cast("dict[str, Any]", each)
            stack += (*table, *table.values())
        elif isinstance(each, list):
            stack += cast("list[Any]", each)
        elif isinstance(each, str) and not _is_unicode(each):
            raise InvalidMessage(PARSE_ERROR, f"the {what} has a lone surrogate in a text")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _message(table: dict[str, Any]) -> JSONRPCMessage | None:
    name, is_call = _id_of(table), "method" in table
    is_nameless = "id" in table and name is None
    if not (is_call and is_nameless):  # the SDK would treat it as a notification
        with suppress(ValidationError):
            return jsonrpc_message_adapter.validate_python(table, by_name=False)
    if is_call or not ("result" in table or "error" in table):
        raise InvalidMessage(INVALID_REQUEST, f"{_first_error(table)}: {_FORM}", name)
    error = ErrorData(code=INVALID_REQUEST, message="the client's response is not valid JSON-RPC")
    return None if name is None else JSONRPCError(jsonrpc="2.0", id=name, error=error)


def _id_of(table: dict[str, Any]) -> RequestId | None:
    name = table.get("id")
    return name if isinstance(name, str | int) and not isinstance(name, bool) else None


def _first_error(table: dict[str, Any]) -> str:
    """The error of the first invalid field."""
    if table.get("jsonrpc") != "2.0":
        return 'jsonrpc has to be "2.0"'
    if not isinstance(table.get("method"), str):
        return "method has to be a text"
    if "id" in table and _id_of(table) is None:
        return "id has to be a whole number or a text"
    return "params has to be an object"


# ---------------------------------------------------------------- the transport

IncomingMessages: TypeAlias = "MemoryObjectReceiveStream[SessionMessage | Exception]"
OutgoingMessages: TypeAlias = "MemoryObjectSendStream[SessionMessage]"
_ToSession: TypeAlias = "MemoryObjectSendStream[SessionMessage | Exception]"
_ToClient: TypeAlias = "MemoryObjectReceiveStream[SessionMessage]"
_PIECE = 64 * 1024
_PATIENCE_AT_END = 1.0
"""Seconds to answer pending requests after the end of the input."""


class _PendingRequests:
    """The requests without a response."""

    def __init__(self) -> None:
        self._ids = set[str | int]()
        self._all_answered = anyio.Event()

    def add(self, message: JSONRPCMessage) -> None:
        """Add the message if it is a request."""
        if isinstance(message, JSONRPCRequest):
            self._ids.add(message.id)

    def remove(self, message: JSONRPCMessage) -> None:
        """Remove the request that the message responds to."""
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self._ids.discard(message.id)
            if not self._ids:
                self._all_answered.set()

    async def wait(self) -> None:
        """Wait until all requests are answered, at most `_PATIENCE_AT_END` seconds."""
        if self._ids:
            self._all_answered = anyio.Event()
            with anyio.move_on_after(_PATIENCE_AT_END):
                await self._all_answered.wait()


@asynccontextmanager
async def stdio_streams() -> AsyncGenerator[tuple[IncomingMessages, OutgoingMessages]]:
    """The streams of messages from and to the client; both end when it disconnects."""
    to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, to_client = anyio.create_memory_object_stream[SessionMessage](0)
    with _reserved(0) as source, _reserved(1) as sink:
        async with anyio.create_task_group() as tasks:
            pending = _PendingRequests()
            tasks.start_soon(_receive, source, to_session, outgoing.clone(), pending)
            tasks.start_soon(_send, sink, to_client, tasks.cancel_scope, pending)
            yield incoming, outgoing


@contextmanager
def _reserved(number: int) -> Generator[int]:
    """Duplicate a standard stream to a new descriptor, and redirect its own to /dev/null or standard error.

    The duplicate is not closed at the end, since a thread may still wait for a line.
    """
    own = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)
    with open(os.devnull, "r+b") as nothing:
        os.dup2(nothing.fileno() if number == 0 or sys.stderr is None else 2, number)
    try:
        yield own
    finally:
        os.dup2(own, number)


async def _receive(
    source: int, to_session: _ToSession, answers: OutgoingMessages, pending: _PendingRequests
) -> None:
    """Pass messages to the session, and answer invalid lines, until the end of the input."""
    async with to_session, answers:
        async for line in _lines(source):
            try:
                message = parse_message(line)
                if message is not None:
                    pending.add(message)
                    await to_session.send(SessionMessage(message))
            except InvalidMessage as wrong:
                await answers.send(SessionMessage(wrong.response))
            except anyio.BrokenResourceError:  # the session has ended
                return
        await pending.wait()


async def _lines(source: int) -> AsyncGenerator[bytes]:
    """The lines until the end; one over the limit is cut one byte after it."""
    begun = bytearray()
    """A line without its end, at most one byte longer than the limit."""
    while piece := await _piece(source):
        *ended, rest = piece.split(b"\n")
        for part in ended:
            begun += part[: MOST_BYTES + 1 - len(begun)]
            yield bytes(begun)
            begun.clear()
        begun += rest[: MOST_BYTES + 1 - len(begun)]
    if begun:
        yield bytes(begun)


async def _piece(source: int) -> bytes:
    """What can be read, once something can; b"" at the end."""
    loop, is_there = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(source, is_there.set)
    except OSError:  # a file on the disk, of which the system tells no such thing
        return await asyncio.to_thread(_read, source)
    try:
        await is_there.wait()
    finally:
        loop.remove_reader(source)
    return _read(source)


def _read(source: int) -> bytes:
    try:
        return os.read(source, _PIECE)
    except OSError:  # a closed terminal
        return b""


async def _send(sink: int, to_client: _ToClient, tasks: anyio.CancelScope, pending: _PendingRequests) -> None:
    """Write messages to the client; if it has disconnected, end both tasks."""
    room = select.poll()
    room.register(sink, select.POLLOUT)
    async with to_client:
        async for message in to_client:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            data = memoryview(text.encode() + b"\n")
            try:
                if len(data) <= select.PIPE_BUF and room.poll(0):  # a write of so much does not wait then
                    data = data[os.write(sink, data) :]
                if data:
                    await asyncio.to_thread(_write, sink, data)
            except OSError:
                tasks.cancel()
                return
            pending.remove(message.message)


def _write(sink: int, data: memoryview) -> None:
    while data:
        data = data[os.write(sink, data) :]


_PATIENCE_AT_STOP = 5
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
        await serve_clients(server, endpoint, host.masker, notify, "mcp")


async def serve_clients(
    server: Server[Any],
    endpoint: HttpEndpoint | None,
    masker: Masker,
    notify: Callable[[str], None],
    command: str,
) -> None:
    """Serve one client on standard input and output, or all those of an endpoint, until they are done."""
    if endpoint is None:
        async with stdio_streams() as (incoming, outgoing):
            with masker.masking_output():  # from now on, so that output of tools is not a message
                await server.run(incoming, outgoing, server.create_initialization_options())
        return
    notify(f"callsheet {command} listens at {endpoint.address.url}")
    if endpoint.is_token_new:
        notify(f"clients need this token (Authorization: Bearer …): {endpoint.token}")
    with masker.masking_output():
        await serve_http(server, endpoint.listener, endpoint.address, endpoint.token)


async def serve_http(server: Server[Any], bound: socket.socket, address: Address, token: str) -> None:
    """Serve clients at a listening socket until this is cancelled."""
    config = uvicorn.Config(
        http_app(server, address, token),
        http=HeadTimeoutProtocol,
        log_config=None,
        access_log=False,
        server_header=False,
        ws=_NO_WEBSOCKETS,
        timeout_graceful_shutdown=_PATIENCE_AT_STOP,
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
