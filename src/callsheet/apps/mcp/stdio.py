"""The stdio transport: one message per line, with an error response to invalid lines (JSON-RPC 2.0, 5.1).

In: standard input and output, which are then reserved for the client. Out: streams of messages for a session.
The SDK's transport silently drops invalid lines, and cannot be cancelled while it waits for a line, so that
a signal would not end the process.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, BinaryIO, TypeAlias, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
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

from callsheet.ir.strict_json import NotJson, read_json

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
    callsheet.apps.mcp.stdio.InvalidMessage: the line is not JSON: expecting value (character 1)
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
_PIECE = 1024 * 1024
_PATIENCE = 1.0
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
        """Wait until all requests are answered, at most `_PATIENCE` seconds."""
        if self._ids:
            self._all_answered = anyio.Event()
            with anyio.move_on_after(_PATIENCE):
                await self._all_answered.wait()


@asynccontextmanager
async def stdio_streams() -> AsyncGenerator[tuple[IncomingMessages, OutgoingMessages]]:
    """The streams of messages from and to the client; both end when it disconnects."""
    to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, to_client = anyio.create_memory_object_stream[SessionMessage](0)
    with _reserved(0) as source, _reserved(1) as sink:
        async with anyio.create_task_group() as tasks:
            pending = _PendingRequests()
            tasks.start_soon(
                _receive, os.fdopen(source, "rb", closefd=False), to_session, outgoing.clone(), pending
            )
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
    source: BinaryIO, to_session: _ToSession, answers: OutgoingMessages, pending: _PendingRequests
) -> None:
    """Pass messages to the session, and answer invalid lines, until the end of the input."""
    async with to_session, answers:
        while line := await asyncio.to_thread(_line, source):
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


def _line(source: BinaryIO) -> bytes:
    """The next line, b"" at the end; a line over the limit is cut one byte after it."""
    try:
        line = rest = source.readline(MOST_BYTES + 1)
        while len(line) > MOST_BYTES and rest and not rest.endswith(b"\n"):
            rest = source.readline(_PIECE)
    except OSError:  # a closed terminal
        return b""
    return line


async def _send(sink: int, to_client: _ToClient, tasks: anyio.CancelScope, pending: _PendingRequests) -> None:
    """Write messages to the client; if it has disconnected, end both tasks."""
    async with to_client:
        async for message in to_client:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                await asyncio.to_thread(_write, sink, memoryview(text.encode() + b"\n"))
            except OSError:
                tasks.cancel()
                return
            pending.remove(message.message)


def _write(sink: int, data: memoryview) -> None:
    while data:
        data = data[os.write(sink, data) :]
