"""The stdio transport: one message per line, with an error response to invalid lines.

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
from contextlib import asynccontextmanager, contextmanager
from typing import BinaryIO, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCRequest, JSONRPCResponse

from callsheet.apps.mcp.messages import MOST_BYTES, InvalidMessage, parse_message

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
